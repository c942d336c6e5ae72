//! What calls came to, and what they cost.

use metasched_sim::Outcome;
use metasched_stats::DurationHistogram;

/// An answer that comes later counts for nothing.
const TIMELY_NS: u64 = 1_000_000_000;

/// What calls came to, on one machine or on several.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How long each took, from its arrival to its answer.
    pub responses: DurationHistogram,
    /// How many were answered within a second.
    pub timely: u64,
    /// CPU time of tasks, ns.
    pub ran_ns: u64,
    /// CPU time that the kernel took for itself, ns.
    pub lost_ns: u64,
    /// Context switches.
    pub switches: u64,
}

impl Calls {
    /// Those of a run.
    pub fn of(outcome: &Outcome) -> Self {
        Self::of_cgroups(outcome, |_| true)
    }

    /// Those of a run that tasks in such cgroups answered, beside what all tasks cost.
    pub fn of_cgroups(outcome: &Outcome, counts: impl Fn(&str) -> bool) -> Self {
        let mut calls = Calls {
            ran_ns: outcome.all().map(|(_, figures)| figures.ran_ns).sum(),
            lost_ns: outcome.lost_ns,
            switches: outcome.switches,
            ..Calls::default()
        };
        for (_, each_ns) in outcome.responses_by_cgroup().filter(|(cgroup, _)| counts(cgroup)) {
            for ns in each_ns {
                calls.responses.record(*ns);
                calls.timely += u64::from(*ns <= TIMELY_NS);
            }
        }
        calls
    }

    /// Adds those of another machine.
    pub fn add(&mut self, other: &Calls) {
        self.responses.merge(&other.responses);
        self.timely += other.timely;
        self.ran_ns += other.ran_ns;
        self.lost_ns += other.lost_ns;
        self.switches += other.switches;
    }

    /// CPU time in which CPUs were busy, ns.
    pub fn busy_ns(&self) -> u64 {
        self.ran_ns + self.lost_ns
    }

    /// The `q`-quantile of how long they took, ns; 0 where there was none.
    pub fn percentile_ns(&self, q: f64) -> f64 {
        self.responses.percentile_ns(q).unwrap_or(0) as f64
    }
}
