//! The runs of a command, scheduler by scheduler, and what is to be said of them.

use metasched_base::{Result, brief_time};
use metasched_stats::{mean, median, std_dev};
use serde::Serialize;

use crate::{Measurement, Query, RunKind, Store, Subject};

/// A run is an outlier that is so many standard deviations from the median: by hyperfine's
/// measure, the modified z-score of B. Iglewicz and D. Hoaglin (1993).
const OUTLIER_DEVIATIONS: f64 = 10.0;

/// The standard deviation of normal noise over the median absolute deviation.
const DEVIATION_BY_MAD: f64 = 1.4826;

/// Runs that differ by less of the median are as good as equal, however close the others are.
const LEAST_DEVIATION: f64 = 1e-3;

/// With fewer runs nothing can be said of one of them.
const MIN_RUNS: usize = 4;

/// In a shorter run, starting the process is much of the time.
const SHORT_S: f64 = 0.005;

/// The runs of a command under one scheduler. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Runs {
    /// The scheduler's name, its options included.
    pub scheduler: String,
    /// Its version.
    pub version: String,
    /// Mean time of a run.
    pub mean: f64,
    /// Its standard deviation; absent for one run.
    pub stddev: Option<f64>,
    /// Median time.
    pub median: f64,
    /// Shortest time.
    pub min: f64,
    /// Longest time.
    pub max: f64,
    /// Mean CPU time in user space, where it was accounted.
    pub user: Option<f64>,
    /// Mean CPU time in the kernel, likewise.
    pub system: Option<f64>,
    /// The time of each run, in their order.
    pub times: Vec<f64>,
    /// The exit status of each run.
    pub exit_codes: Vec<u8>,
}

impl Runs {
    /// The finished runs of a series under each scheduler, the one of the first run first.
    pub fn of_series(store: &Store, series: i64) -> Result<Vec<Self>> {
        let query = Query { kind: Some(RunKind::Measured), ..Query::of_series(series) };
        let all = store.measurements(&query)?;
        let mut subjects: Vec<&Subject> = Vec::new();
        for run in &all {
            if !subjects.contains(&&run.subject) {
                subjects.push(&run.subject);
            }
        }
        let of = |subject: &&Subject| {
            let runs: Vec<&Measurement> = all.iter().filter(|m| m.subject == **subject).collect();
            Self::under(subject, &runs)
        };
        Ok(subjects.iter().map(of).collect())
    }

    fn under(subject: &Subject, runs: &[&Measurement]) -> Self {
        let version = match subject {
            Subject::Scheduler { version, .. } => version.clone(),
            _ => String::new(),
        };
        let mean_of = |of: fn(&Measurement) -> Option<f64>| {
            mean(&runs.iter().map(|run| of(run)).collect::<Option<Vec<f64>>>()?)
        };
        Self {
            version,
            user: mean_of(|run| run.figures.user_s),
            system: mean_of(|run| Some((run.figures.cpu_s? - run.figures.user_s?).max(0.0))),
            exit_codes: runs.iter().map(|run| run.figures.exit_code.unwrap_or(0)).collect(),
            ..Self::timed(subject.to_string(), runs.iter().map(|r| r.figures.duration_s).collect())
        }
    }

    /// Runs that took these times, of which there is at least one.
    pub fn timed(scheduler: String, times: Vec<f64>) -> Self {
        Self {
            scheduler,
            mean: mean(&times).unwrap_or_default(),
            stddev: std_dev(&times),
            median: median(&times).unwrap_or_default(),
            min: times.iter().copied().fold(f64::INFINITY, f64::min),
            max: times.iter().copied().fold(0.0, f64::max),
            exit_codes: vec![0; times.len()],
            times,
            ..Self::default()
        }
    }

    /// How far a run is from the median, in standard deviations that outliers do not widen.
    fn deviations(&self, time: f64) -> f64 {
        let off: Vec<f64> = self.times.iter().map(|time| (time - self.median).abs()).collect();
        let deviation = median(&off).unwrap_or_default() * DEVIATION_BY_MAD;
        (time - self.median) / deviation.max(self.median * LEAST_DEVIATION)
    }
}

/// What the user has done already against figures that mislead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried {
    /// There was a warm-up.
    pub warmup: bool,
    /// Something prepares each run.
    pub prepare: bool,
}

/// What makes figures of a command mislead, and what can be done that was not tried yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// What is to be said of the runs, of which the very first is that of the first scheduler.
pub fn warnings(all: &[Runs], tried: Tried) -> Vec<Warning> {
    let same_state = if tried.prepare {
        "see what --prepare leaves different from run to run"
    } else {
        "put caches and files into the same state before each run with --prepare"
    };
    let mut said = Vec::new();
    let mut warn = |what: String, remedy: &str| {
        said.push(Warning { what, remedy: remedy.to_owned() });
    };
    let failed = all.iter().flat_map(|runs| &runs.exit_codes).filter(|code| **code != 0).count();
    if failed > 0 {
        let of: usize = all.iter().map(|runs| runs.exit_codes.len()).sum();
        let remedy = "see why with --show-output: what fails may have done less";
        warn(format!("{failed} of {of} runs ended with another exit status than 0"), remedy);
    }
    if let Some(shortest) = all.iter().min_by(|a, b| a.mean.total_cmp(&b.mean))
        && shortest.mean < SHORT_S
    {
        let time = brief_time(shortest.mean * 1e9);
        warn(
            format!("a run takes {time}, much of which is the start of the process"),
            "have the command do its work many times, as in: -- sh -c 'for i in $(seq 100); do ...'",
        );
    }
    let is_outlier = |runs: &Runs, time: f64| {
        runs.times.len() >= MIN_RUNS && runs.deviations(time).abs() > OUTLIER_DEVIATIONS
    };
    let cold = all.first().and_then(|runs| Some((runs, *runs.times.first()?)));
    let cold = cold.filter(|(runs, time)| *time > runs.median && is_outlier(runs, *time));
    if let Some((runs, time)) = cold {
        let (first, usual) = (brief_time(time * 1e9), brief_time(runs.median * 1e9));
        let remedy = if tried.warmup { same_state } else { "warm up with --warmup 2s" };
        warn(
            format!("the first run took {first}, others under {} {usual}", runs.scheduler),
            remedy,
        );
    }
    for (at, runs) in all.iter().enumerate() {
        let skip = usize::from(at == 0 && cold.is_some());
        let far = runs.times.iter().skip(skip).filter(|time| is_outlier(runs, **time)).count();
        if far > 0 {
            let remedy = if tried.prepare {
                "stop what else runs on this machine, or make more rounds with --min-rounds"
            } else {
                same_state
            };
            let (of, scheduler) = (runs.times.len(), &runs.scheduler);
            warn(
                format!("{far} of {of} runs under {scheduler} took a very different time"),
                remedy,
            );
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: [f64; 6] = [1.00, 1.01, 0.99, 1.02, 0.98, 1.00];

    fn runs(scheduler: &str, times: &[f64]) -> Runs {
        Runs::timed(scheduler.to_owned(), times.to_vec())
    }

    fn remedies(all: &[Runs], warmup: bool, prepare: bool) -> Vec<String> {
        warnings(all, Tried { warmup, prepare }).into_iter().map(|w| w.remedy).collect()
    }

    #[test]
    fn times_have_mean_deviation_median_and_range() {
        let of = runs("eevdf", &[1.0, 2.0, 6.0]);
        assert_eq!((of.mean, of.median, of.min, of.max), (3.0, 2.0, 1.0, 6.0));
        assert!((of.stddev.unwrap() - 7f64.sqrt()).abs() < 1e-12);
        assert_eq!(runs("eevdf", &[1.0]).stddev, None);
    }

    #[test]
    fn nothing_is_said_of_steady_runs() {
        let all = [runs("eevdf", &STEADY), runs("vtime", &[1.0; 6])];
        assert_eq!(warnings(&all, Tried::default()), []);
        // Ten standard deviations are rarely chance, five are in a few runs.
        let wide = [runs("eevdf", &STEADY), runs("vtime", &[1.00, 1.01, 0.99, 1.02, 0.98, 1.08])];
        assert_eq!(warnings(&wide, Tried::default()), []);
    }

    #[test]
    fn an_outlier_is_told_with_a_remedy_that_was_not_tried() {
        let far = [1.00, 1.01, 0.99, 1.02, 0.98, 1.50];
        let all = [runs("eevdf", &STEADY), runs("vtime", &far)];
        let said = warnings(&all, Tried::default());
        assert_eq!(said.len(), 1);
        assert!(said[0].what.contains("1 of 6 runs under vtime"), "{}", said[0].what);
        assert!(said[0].remedy.contains("--prepare"), "{}", said[0].remedy);
        assert!(remedies(&all, true, true)[0].contains("--min-rounds"));
        // One that is much shorter is as far, and three runs are too few to tell.
        assert_eq!(remedies(&[runs("x", &[1.0, 1.01, 0.99, 1.0, 0.5])], true, true).len(), 1);
        assert_eq!(remedies(&[runs("x", &[1.0, 1.0, 2.0])], true, true).len(), 0);
    }

    #[test]
    fn a_slow_first_run_is_told_once_and_wants_a_warm_up_first() {
        let cold = [3.0, 1.01, 0.99, 1.02, 0.98, 1.00];
        let all = [runs("vtime", &cold), runs("eevdf", &STEADY)];
        assert_eq!(remedies(&all, false, false), ["warm up with --warmup 2s"]);
        assert!(remedies(&all, true, false)[0].contains("with --prepare"));
        assert!(remedies(&all, true, true)[0].contains("--prepare leaves different"));
        // It was not the first of all: an outlier like any other.
        let later = [runs("eevdf", &STEADY), runs("vtime", &cold)];
        assert!(warnings(&later, Tried::default())[0].what.contains("under vtime took a very"));
    }

    #[test]
    fn short_runs_and_failed_runs_are_told() {
        let short = runs("eevdf", &[0.004; 4]);
        let failed = Runs { exit_codes: vec![0, 3, 0, 1, 0, 0], ..runs("vtime", &STEADY) };
        let said = warnings(&[short, failed], Tried { warmup: true, prepare: true });
        let what: Vec<&str> = said.iter().map(|warning| warning.what.as_str()).collect();
        assert_eq!(what.len(), 2, "{what:?}");
        assert!(what[0].starts_with("2 of 10 runs ended with another"), "{what:?}");
        assert!(what[1].starts_with("a run takes 4 ms"), "{what:?}");
    }
}
