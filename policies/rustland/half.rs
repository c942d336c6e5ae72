//! rustland's half in user space: weighted run time, and who often sleeps first.

use crate::{Decision, Task, UserHalf};
use std::collections::HashMap;

/// What a task is granted that waits alone, or is interactive; the policy's `slice_ns` bounds it.
const SLICE_NS: u64 = 5_000_000;
/// What any task is granted at least.
const LEAST_SLICE_NS: u64 = 250_000;
/// Who goes to sleep of its own accord so many times a second, or more, is interactive.
const INTERACTIVE: u64 = 10;
/// By so much the weight of an interactive task counts more.
const BOOST: u64 = 100;
/// What of a weight counts at most.
const MOST_WEIGHT: u64 = 1_000;

const SECOND_NS: u64 = 1_000_000_000;

/// The order of scx_rustland: run time by weight, a hundredth of it for a task that often sleeps.
#[derive(Default)]
pub struct Rustland {
    /// Nobody is placed before this.
    least: u64,
    tasks: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    vruntime: u64,
    ran_ns: u64,
    /// Voluntary switches a second, half of it the last second's; and what they are counted from.
    rate: u64,
    sleeps: u64,
    since_ns: u64,
}

impl Known {
    /// Brings the rate up to date, once a second.
    fn renew(&mut self, task: &Task) {
        let past_ns = task.at_ns.saturating_sub(self.since_ns);
        if past_ns > SECOND_NS {
            let rate = task.sleeps.saturating_sub(self.sleeps) * SECOND_NS / past_ns;
            self.rate = (self.rate + rate) / 2;
            (self.sleeps, self.since_ns) = (task.sleeps, task.at_ns);
        }
    }
}

impl UserHalf for Rustland {
    fn decide(&mut self, task: &Task) -> Decision {
        let new = || Known { ran_ns: task.ran_ns, sleeps: task.sleeps, ..Known::default() };
        let known = self.tasks.entry(task.pid).or_insert_with(new);
        known.renew(task);
        let interactive = known.rate >= INTERACTIVE;
        let boost = if interactive { BOOST } else { 1 };
        let weight = u64::from(task.weight).clamp(1, MOST_WEIGHT) * boost;
        let ran_ns = task.ran_ns.saturating_sub(std::mem::replace(&mut known.ran_ns, task.ran_ns));
        known.vruntime = known.vruntime.max(self.least) + (ran_ns * 100 / weight).max(1);
        // The least of those that wait would be exact: this follows them closely enough.
        self.least = self.least.max(known.vruntime.saturating_sub(4 * SLICE_NS));
        let share = u64::from(task.waiting).div_ceil(2).max(1);
        let slice_ns = if interactive { SLICE_NS } else { (SLICE_NS / share).max(LEAST_SLICE_NS) };
        Decision { order: known.vruntime, slice_ns, cpu: Some(task.cpu) }
    }

    fn left(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }
}
