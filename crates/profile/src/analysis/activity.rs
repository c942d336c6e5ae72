//! What an application's threads did under each scheduler: CPU time and context switches.

use metasched_base::{Figure, Unit};
use metasched_experiment::SEED;
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

use super::Rounds;
use crate::{BASELINE, LoadFigures};

/// What the threads did under one scheduler: medians over its measured runs.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// The scheduler's name, its options included.
    pub scheduler: String,
    /// How many runs there are.
    pub runs: usize,
    /// How many CPUs they kept busy: CPU time over the load's duration.
    pub cpus: f64,
    /// Of their CPU time that in user space, from 0 to 1; absent where it was not told.
    pub user: Option<f64>,
    /// How often in a second they gave up a CPU to sleep.
    pub slept_per_s: f64,
    /// How often in a second they were stopped while they could have gone on.
    pub stopped_per_s: f64,
    /// Switches of both kinds in a second over those under the default scheduler, in the same
    /// rounds; absent for that itself, and where there are too few.
    pub switches: Option<Interval>,
}

/// What [`Activity`] tells.
pub const ACTIVITY_FIGURES: &[Figure<Activity>] = &[
    Figure {
        name: "cpus",
        title: "CPUS BUSY",
        unit: Unit::Number,
        help: "CPU time over how long the load ran",
        of: |activity| Some(activity.cpus),
    },
    Figure {
        name: "user",
        title: "USER",
        unit: Unit::Share,
        help: "part of the CPU time that was in user space",
        of: |activity| activity.user,
    },
    Figure {
        name: "slept_per_s",
        title: "SLEPT/S",
        unit: Unit::PerSecond,
        help: "how often in a second threads gave up a CPU to sleep",
        of: |activity| Some(activity.slept_per_s),
    },
    Figure {
        name: "stopped_per_s",
        title: "STOPPED/S",
        unit: Unit::PerSecond,
        help: "how often in a second threads were stopped while they could have gone on",
        of: |activity| Some(activity.stopped_per_s),
    },
];

impl Activity {
    /// That under each of these schedulers in the rounds, the default first; without those under
    /// which nothing was observed.
    pub(super) fn of<'a>(rounds: &Rounds, schedulers: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let all = std::iter::once(BASELINE).chain(schedulers);
        all.filter_map(|scheduler| Self::under(rounds, scheduler)).collect()
    }

    fn under(rounds: &Rounds, scheduler: &str) -> Option<Self> {
        let runs = rounds.of(scheduler);
        let middle = |figure: fn(&LoadFigures) -> Option<f64>| {
            median(&runs.iter().filter_map(|run| figure(run)).collect::<Vec<_>>())
        };
        let switches = rounds.figures(scheduler, BASELINE, |run| {
            Some(run.nvcsw_per_s? + run.nivcsw_per_s?).filter(|per_s| *per_s > 0.0)
        });
        Some(Self {
            scheduler: scheduler.to_owned(),
            runs: runs.len(),
            cpus: middle(|run| Some(run.cpu_s? / run.duration_s).filter(|cpus| cpus.is_finite()))?,
            user: middle(|run| Some(run.user_s? / run.cpu_s?).filter(|user| user.is_finite())),
            slept_per_s: middle(|run| run.nvcsw_per_s)?,
            stopped_per_s: middle(|run| run.nivcsw_per_s)?,
            switches: (scheduler != BASELINE).then(|| paired_ratio(&switches, SEED)).flatten(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measurement, Parts, RunKind, Subject};

    #[test]
    fn switches_are_compared_in_the_same_rounds_and_the_rest_are_medians() {
        let run = |round, subject: &str, slept, stopped| Measurement {
            id: 0,
            series: 1,
            session: 1,
            round,
            order: 0,
            kind: RunKind::Measured,
            subject: Subject::Scheduler {
                name: subject.to_owned(),
                version: "1".to_owned(),
                options: Vec::new(),
            },
            figures: LoadFigures {
                duration_s: 4.0,
                cpu_s: Some(6.0),
                user_s: Some(1.5),
                nvcsw_per_s: slept,
                nivcsw_per_s: Some(stopped),
                ..LoadFigures::default()
            },
            started_at: String::new(),
            parts: Parts::new(),
        };
        // The second has ten times as many in each round; of the third nobody looked.
        let runs: Vec<Measurement> = (1..=4)
            .flat_map(|round| {
                let speed = f64::from(round);
                [
                    run(round, BASELINE, Some(90.0 * speed), 10.0 * speed),
                    run(round, "bpfland", Some(500.0 * speed), 500.0 * speed),
                    run(round, "fifo", None, 1.0),
                ]
            })
            .collect();
        let rounds = Rounds::new(&runs, |m| Some(m.subject.to_string()));
        let all = Activity::of(&rounds, ["bpfland", "fifo"].into_iter());
        let names: Vec<&str> = all.iter().map(|one| one.scheduler.as_str()).collect();
        assert_eq!(names, [BASELINE, "bpfland"]);
        let (default, bpfland) = (&all[0], &all[1]);
        assert_eq!((default.runs, default.cpus, default.user), (4, 1.5, Some(0.25)));
        assert_eq!((default.slept_per_s, default.stopped_per_s), (225.0, 25.0));
        assert!(default.switches.is_none());
        let ratio = bpfland.switches.unwrap();
        assert!((ratio.estimate - 10.0).abs() < 1e-9 && ratio.n == 4, "{ratio:?}");
    }
}
