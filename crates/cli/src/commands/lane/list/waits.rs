//! How long the tasks of a lane waited for a CPU.

use metasched_base::brief_time;
use metasched_loader::LaneInfo;
use serde::Serialize;

/// The longest of a hundred waits is what p99 tells: with fewer it tells nothing.
const ENOUGH: u64 = 100;

/// Waits of one lane, from runnable to running.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Waits {
    since: Since,
    count: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// Which waits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Since {
    /// Those between the two looks.
    FirstLook,
    /// As there were too few of them: all since the lane is in force.
    InForce,
}

impl Waits {
    /// Of a lane that was looked at twice; `None` where the kernel does not tell.
    pub(super) fn of(before: Option<&LaneInfo>, after: &LaneInfo) -> Option<Self> {
        let all = after.waits.as_ref()?;
        let earlier = before.and_then(|lane| lane.waits.as_ref());
        let between = earlier.map(|earlier| all.since(earlier));
        let (since, waits) = match &between {
            Some(between) if between.count() >= ENOUGH => (Since::FirstLook, between),
            _ => (Since::InForce, all),
        };
        Some(Self {
            since,
            count: waits.count(),
            p50_ns: waits.percentile_ns(0.5),
            p99_ns: waits.percentile_ns(0.99),
            max_ns: (waits.count() > 0).then_some(waits.max_ns),
        })
    }

    /// Cells of a table: p50, p99 and the longest.
    pub(super) fn cells(waits: Option<&Self>) -> [String; 3] {
        let Some(waits) = waits else { return ["-"; 3].map(str::to_owned) };
        let mark = if waits.since == Since::InForce { "*" } else { "" };
        [waits.p50_ns, waits.p99_ns, waits.max_ns]
            .map(|ns| ns.map_or("-".to_owned(), |ns| format!("{}{mark}", brief_time(ns as f64))))
    }

    /// What has to be said below a table of these.
    pub(super) fn notes<'a>(rows: impl Iterator<Item = Option<&'a Self>>) -> Vec<String> {
        let rows: Vec<Option<&Self>> = rows.collect();
        let mut notes = Vec::new();
        if rows.iter().flatten().any(|w| w.since == Since::InForce && w.count > 0) {
            notes.push(format!(
                "* since the lane is in force: fewer than {ENOUGH} waits while it was looked at"
            ));
        }
        if !rows.is_empty() && rows.iter().all(Option::is_none) {
            notes.push(
                "waits for a CPU are not measured: this kernel was built without CONFIG_SCHED_INFO"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lane;
    use super::*;
    use metasched_stats::WaitHistogram;

    /// A lane whose tasks waited so often for 5 to 6 us.
    fn waited(times: u64) -> LaneInfo {
        let mut waits = WaitHistogram::default();
        let bucket =
            (0..waits.buckets.len()).find(|b| WaitHistogram::bounds_ns(*b).1 > 5_500).unwrap();
        waits.buckets[bucket] = times;
        (waits.sum_ns, waits.max_ns) = (times * 5_500, if times > 0 { 6_000 } else { 0 });
        LaneInfo { waits: Some(waits), ..lane(1, 100, 0) }
    }

    #[test]
    fn waits_are_those_between_the_looks_if_there_are_enough() {
        let waits = Waits::of(Some(&waited(1_000)), &waited(1_100)).unwrap();
        assert_eq!((waits.since, waits.count), (Since::FirstLook, 100));
        assert_eq!(Waits::cells(Some(&waits))[0], "5.63 us");
        let waits = Waits::of(Some(&waited(1_000)), &waited(1_099)).unwrap();
        assert_eq!((waits.since, waits.count), (Since::InForce, 1_099));
        assert_eq!(Waits::cells(Some(&waits))[2], "6 us*");
        // A lane that is newer than the first look.
        assert_eq!(Waits::of(None, &waited(500)).unwrap().since, Since::InForce);
    }

    #[test]
    fn what_is_not_measured_is_not_shown_as_zero() {
        assert_eq!(Waits::cells(Waits::of(None, &waited(0)).as_ref()), ["-"; 3]);
        let unknown = Waits::of(None, &LaneInfo { waits: None, ..waited(5) });
        assert_eq!(Waits::cells(unknown.as_ref()), ["-"; 3]);
        let notes = Waits::notes([unknown.as_ref()].into_iter());
        assert!(notes.len() == 1 && notes[0].contains("CONFIG_SCHED_INFO"), "{notes:?}");
        let none = Waits::of(None, &waited(0));
        assert!(Waits::notes([none.as_ref()].into_iter()).is_empty());
    }
}
