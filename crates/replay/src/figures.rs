//! The figures of a replay, the same as the simulator's.

use std::collections::BTreeMap;

use metasched_experiment::Counts;
use metasched_stats::{DurationHistogram, WaitHistogram};
use serde::Serialize;

use crate::threads::Thread;

/// What a replay came to.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// By cgroup; the root's is empty.
    pub groups: BTreeMap<String, ReplayedGroup>,
    /// How long was counted, ns.
    pub window_ns: u64,
    /// Why there are no waits, where there are none.
    pub no_waits: Option<String>,
}

/// What the tasks of a cgroup did, in the time that counts.
#[derive(Debug, Default, Serialize)]
pub struct ReplayedGroup {
    /// The tasks that were in it at some time.
    pub tasks: u64,
    /// Time on CPUs, by the kernel's books, ns.
    pub cpu_ns: u64,
    /// From runnable to running, traced; none where that was not to be had.
    pub waits: Option<WaitHistogram>,
    /// All waits together, by the kernel's books, ns.
    pub waited_ns: u64,
    /// Context switches from a task that wanted the CPU no more.
    pub voluntary: u64,
    /// Context switches from a task that wanted to go on.
    pub involuntary: u64,
    /// How often a task was given another CPU; none where the kernel does not tell.
    pub migrations: Option<u64>,
    /// From a request's arrival to its answer.
    #[serde(skip)]
    pub responses: DurationHistogram,
    /// Units of work; a request is one.
    pub done: u64,
}

impl ReplayedGroup {
    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// How much they did.
    pub fn counts(&self) -> Counts {
        Counts {
            done: self.done,
            answered: self.responses.count(),
            bursts: self.voluntary,
            cpu_ns: self.cpu_ns,
        }
    }

    /// Of no task.
    pub(crate) fn empty() -> Self {
        ReplayedGroup { migrations: Some(0), ..ReplayedGroup::default() }
    }

    /// What one task did; waits are not known by task.
    pub(crate) fn of(thread: &Thread) -> Self {
        let counters = thread.after.unwrap_or(thread.before).since(&thread.before);
        ReplayedGroup {
            tasks: 1,
            cpu_ns: counters.sched.run_ns,
            waits: None,
            waited_ns: counters.sched.wait_ns,
            voluntary: counters.sched.nvcsw,
            involuntary: counters.sched.nivcsw,
            migrations: counters.migrations,
            responses: thread.work.responses.clone(),
            done: thread.work.done,
        }
    }

    /// All of these as one.
    pub fn all<'a>(groups: impl IntoIterator<Item = &'a ReplayedGroup>) -> Self {
        let mut all = ReplayedGroup { waits: Some(WaitHistogram::default()), ..Self::empty() };
        groups.into_iter().for_each(|group| all.merge(group));
        all
    }

    pub(crate) fn merge(&mut self, other: &ReplayedGroup) {
        self.tasks += other.tasks;
        self.cpu_ns += other.cpu_ns;
        self.waits = self.waits.take().zip(other.waits.as_ref()).map(|(mut all, waits)| {
            all.merge(waits);
            all
        });
        self.waited_ns += other.waited_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations = self.migrations.zip(other.migrations).map(|(a, b)| a + b);
        self.responses.merge(&other.responses);
        self.done += other.done;
    }
}

/// The waits of a cgroup without those of the cgroups below it.
pub(crate) fn own_waits(path: &str, all: &BTreeMap<String, WaitHistogram>) -> WaitHistogram {
    let mut below = WaitHistogram::default();
    let inside = |a: &str, b: &str| {
        !b.is_empty() && a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'))
    };
    for (other, waits) in all {
        let between = |middle: &String| inside(other, middle) && inside(middle, path);
        if inside(other, path) && !all.keys().any(between) {
            below.merge(waits);
        }
    }
    if below.count() == 0 { all[path].clone() } else { all[path].since(&below) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_a_cgroup_are_without_those_below_it() {
        let histogram = |bucket: usize, n: u64| {
            let mut waits = WaitHistogram::default();
            waits.buckets[bucket] = n;
            waits
        };
        let (mut a, mut ab) = (histogram(20, 5), histogram(30, 4));
        let abc = histogram(40, 3);
        ab.merge(&abc);
        a.merge(&ab);
        let all = [("a", a), ("a/b", ab), ("a/b/c", abc), ("ab", histogram(8, 9))];
        let all = all.into_iter().map(|(path, waits)| (path.to_owned(), waits)).collect();
        for (path, count) in [("a", 5), ("a/b", 4), ("a/b/c", 3), ("ab", 9)] {
            assert_eq!(own_waits(path, &all).count(), count, "{path}");
        }
    }
}
