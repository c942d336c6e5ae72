//! Two recordings held against each other.

use metasched_base::{Error, Figure, Kind, Result, Unit};
use metasched_stats::{Interval, PIECES_LEAST, WaitHistogram, compare_waits};
use serde::Serialize;

use crate::recording::{Recording, Subject};
use crate::whom::Whom;

/// Intervals of the same recordings are the same each time.
const SEED: u64 = 1;

/// What two recordings differ by.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Each subject of both.
    pub subjects: Vec<Compared>,
    /// What has to be known before the figures are believed.
    pub warnings: Vec<String>,
}

/// The waits of a subject in both recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Who it is in the first, and in the second.
    pub whom: [Whom; 2],
    /// Each of the figures of waits, in their order, and how often tasks waited first.
    pub figures: Vec<Ratio>,
    /// Its waits in each.
    #[serde(skip)]
    pub waits: [WaitHistogram; 2],
}

/// A figure in both recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The figure's name.
    pub name: &'static str,
    /// What stands above its column or before its row.
    #[serde(skip)]
    pub title: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The figure in the first, and in the second.
    pub values: [Option<f64>; 2],
    /// The second over the first; none where it is absent or zero in one.
    pub ratio: Option<f64>,
    /// Its 95 % interval; none where the recordings are too short for one.
    pub interval: Option<Interval>,
}

/// Waits a second are told in place of their number: recordings differ in length. The sum of all
/// waits, too.
const LEFT_OUT: [&str; 2] = ["count", "sum_ns"];

impl Difference {
    /// Of the subjects that are in both; of two recordings with one subject each these, whatever
    /// they are.
    ///
    /// # Errors
    /// `BadInput` where no subject is in both.
    pub fn new(first: &Recording, second: &Recording) -> Result<Self> {
        let pairs: Vec<(&Subject, &Subject)> = match (&*first.subjects, &*second.subjects) {
            ([a], [b]) => vec![(a, b)],
            (all, others) => {
                let same = |a: &Subject| others.iter().find(|b| b.whom == a.whom);
                all.iter().filter_map(|a| Some((a, same(a)?))).collect()
            }
        };
        if pairs.is_empty() {
            let list = |recording: &Recording| {
                let names: Vec<String> =
                    recording.subjects.iter().map(|s| s.whom.to_string()).collect();
                names.join(", ")
            };
            let cause = format!("one is of {}, the other one of {}", list(first), list(second));
            return Err(Error::new(Kind::BadInput, "compare two recordings", cause)
                .remedy("record the same subjects in both"));
        }
        let subjects: Vec<Compared> = pairs.iter().map(|(a, b)| Compared::new(a, b)).collect();
        Ok(Self { warnings: warnings(first, second, &pairs), subjects })
    }
}

impl Compared {
    fn new(first: &Subject, second: &Subject) -> Self {
        let pieces = |subject: &Subject| -> Vec<WaitHistogram> {
            subject.pieces.iter().map(|piece| piece.waits.clone()).collect()
        };
        let told: Vec<&Figure<WaitHistogram>> = WaitHistogram::FIGURES
            .iter()
            .filter(|figure| !LEFT_OUT.contains(&figure.name))
            .collect();
        let count: fn(&WaitHistogram) -> Option<f64> = |waits| Some(waits.count() as f64);
        let of: Vec<_> =
            std::iter::once(count).chain(told.iter().map(|figure| figure.of)).collect();
        let found = compare_waits(&pieces(first), &pieces(second), &of, SEED);
        let (a, b) = (first.waits(), second.waits());
        // Recordings of another length have more pieces: a piece is as long in both, or nearly.
        let seconds = |subject: &Subject| {
            subject.pieces.iter().map(|piece| piece.length_ns).sum::<u64>() as f64 / 1e9
        };
        let rate = |waits: &WaitHistogram, subject| {
            let seconds = seconds(subject);
            (seconds > 0.0).then(|| waits.count() as f64 / seconds)
        };
        let mut found = found.into_iter();
        let counts = found.next().flatten();
        // From the ratio of counts to that of counts a second.
        let longer = seconds(first) / seconds(second);
        let rates = counts.map(|(ratio, interval)| {
            let scaled = |interval: Interval| Interval {
                estimate: interval.estimate * longer,
                low: interval.low * longer,
                high: interval.high * longer,
                n: interval.n,
            };
            (ratio * longer, interval.map(scaled))
        });
        let mut figures = vec![Ratio {
            name: "per_s",
            title: "WAITS A SECOND",
            unit: Unit::PerSecond,
            values: [rate(&a, first), rate(&b, second)],
            ratio: rates.map(|(ratio, _)| ratio),
            interval: rates.and_then(|(_, interval)| interval),
        }];
        figures.extend(told.iter().zip(found).map(|(figure, found)| Ratio {
            name: figure.name,
            title: figure.title,
            unit: figure.unit,
            values: [(figure.of)(&a), (figure.of)(&b)],
            ratio: found.map(|(ratio, _)| ratio),
            interval: found.and_then(|(_, interval)| interval),
        }));
        Self { whom: [first.whom.clone(), second.whom.clone()], figures, waits: [a, b] }
    }
}

fn warnings(first: &Recording, second: &Recording, pairs: &[(&Subject, &Subject)]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differs = |what: &str, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        let (a, b) = (a.to_string(), b.to_string());
        if a != b {
            warnings.push(format!("{what}: {a} in the first recording, {b} in the second"));
        }
    };
    differs("kernel", &first.kernel, &second.kernel);
    differs("CPUs", &first.cpus, &second.cpus);
    differs("emulated CPUs", &first.emulated, &second.emulated);
    for (name, recording) in [("first", first), ("second", second)] {
        if let Some(later) = &recording.scheduler_later {
            warnings.push(format!(
                "the scheduler changed during the {name} recording, from {} to {later}",
                recording.scheduler
            ));
        }
    }
    let few = pairs.iter().any(|(a, b)| a.pieces.len().min(b.pieces.len()) < PIECES_LEAST);
    if few {
        warnings.push(format!(
            "a recording has fewer than {PIECES_LEAST} pieces, so that there are no intervals: \
             record for longer"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording;

    #[test]
    fn figures_of_both_stand_beside_each_other_with_the_ratio_and_its_interval() {
        let whom = || Whom::Comm("wrk".into());
        let first = recording("eevdf", whom(), &[(100, 8_000); 6]);
        let second = recording("vtime", whom(), &[(50, 16_000); 12]);
        let difference = Difference::new(&first, &second).unwrap();
        assert!(difference.warnings.is_empty(), "{:?}", difference.warnings);
        let [subject] = difference.subjects.as_slice() else { panic!("{difference:?}") };
        let figure = |name| subject.figures.iter().find(|figure| figure.name == name).unwrap();
        let rate = figure("per_s");
        assert_eq!((rate.values, rate.ratio), ([Some(100.0), Some(50.0)], Some(0.5)));
        assert!(rate.interval.unwrap().contains(0.5), "{rate:?}");
        assert_eq!(figure("mean_ns").ratio, Some(2.0));
        assert_eq!(subject.figures.len(), WaitHistogram::FIGURES.len() - LEFT_OUT.len() + 1);
    }

    #[test]
    fn subjects_are_found_by_who_they_are_and_what_cannot_be_compared_is_refused() {
        let mut first = recording("eevdf", Whom::System, &[(10, 8_000); 3]);
        let mut second = recording("vtime", Whom::Comm("wrk".into()), &[(10, 8_000); 3]);
        // One each: whatever they are.
        let difference = Difference::new(&first, &second).unwrap();
        assert!(difference.warnings[0].contains("fewer than 5 pieces"), "{difference:?}");
        assert!(difference.subjects[0].figures[0].interval.is_none());
        first.subjects.extend(second.subjects.clone());
        second.kernel = "7.0".into();
        second.scheduler_later = Some("eevdf".into());
        let difference = Difference::new(&first, &second).unwrap();
        assert_eq!(difference.subjects[0].whom[0], Whom::Comm("wrk".into()));
        let warnings = difference.warnings.join("\n");
        for words in ["kernel: 7.3.4", "from vtime to eevdf"] {
            assert!(warnings.contains(words), "{words}: {warnings}");
        }
        first.subjects.truncate(1);
        first.subjects.push(first.subjects[0].clone());
        let error = Difference::new(&first, &second).unwrap_err();
        assert!(error.to_string().contains("threads named 'wrk'"), "{error}");
    }
}
