//! What the work of a cgroup is counted in.

use serde::Serialize;

use crate::runs::{Group, Run};

/// What throughput is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Requests that were answered.
    Requests,
    /// What tasks call done, beside requests or without any.
    Units,
    /// What a task wakes for, and has done when it sleeps again.
    Bursts,
    /// Seconds on a CPU, of tasks that do not sleep.
    CpuSeconds,
}

impl Work {
    /// What is counted in all runs; `all` says whether something holds in each of them.
    pub fn of(all: impl Fn(fn(&Group) -> bool) -> bool) -> Self {
        if all(|group| group.done > 0) {
            let answered = all(|group| group.responses.count() == group.done);
            if answered { Work::Requests } else { Work::Units }
        } else if all(|group| group.figures.bursts > 0) {
            Work::Bursts
        } else {
            Work::CpuSeconds
        }
    }

    /// The throughput of a group in a run.
    pub fn per_second(self, group: &Group, run: &Run) -> f64 {
        per_second(self.amount(group), run.window_ns)
    }

    /// The amount of it in a run.
    pub fn amount(self, group: &Group) -> f64 {
        match self {
            Work::Requests | Work::Units => group.done as f64,
            Work::Bursts => group.figures.bursts as f64,
            Work::CpuSeconds => group.figures.cpu_ns as f64 / 1e9,
        }
    }
}

/// An amount in a time of `window_ns`, as a rate.
pub fn per_second(amount: f64, window_ns: u64) -> f64 {
    amount * 1e9 / window_ns.max(1) as f64
}
