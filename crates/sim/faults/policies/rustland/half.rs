//! The sketch's half in user space.

use metasched_userhalf::{Decision, Task, UserHalf};
use std::collections::HashMap;

/// What a task is granted that waits alone.
const SLICE_NS: u64 = 5_000_000;
/// With so many voluntary switches a second, or more, a task is interactive.
const INTERACTIVE: u64 = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// rustland's order: weighted run time, a hundredth of it for a task that sleeps often.
#[derive(Default)]
pub struct Rustland {
    least: u64,
    tasks: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    vruntime: u64,
    ran_ns: u64,
    /// Voluntary switches a second, and what they are counted from.
    rate: u64,
    sleeps: u64,
    since_ns: u64,
}

impl UserHalf for Rustland {
    fn decide(&mut self, task: &Task) -> Decision {
        let new = || Known { ran_ns: task.ran_ns, sleeps: task.sleeps, ..Known::default() };
        let known = self.tasks.entry(task.pid).or_insert_with(new);
        let past_ns = task.at_ns.saturating_sub(known.since_ns);
        if past_ns > SECOND_NS {
            let rate = task.sleeps.saturating_sub(known.sleeps) * SECOND_NS / past_ns;
            known.rate = (known.rate + rate) / 2;
            (known.sleeps, known.since_ns) = (task.sleeps, task.at_ns);
        }
        let interactive = known.rate >= INTERACTIVE;
        let weight = u64::from(task.weight.min(1_000)) * if interactive { 100 } else { 1 };
        let ran_ns = task.ran_ns.saturating_sub(std::mem::replace(&mut known.ran_ns, task.ran_ns));
        known.vruntime = known.vruntime.max(self.least) + (ran_ns * 100 / weight).max(1);
        // The least of those that wait would be exact: this follows them closely enough.
        self.least = self.least.max(known.vruntime.saturating_sub(4 * SLICE_NS));
        let share = u64::from(task.waiting).div_ceil(2).max(1);
        let slice_ns = if interactive { SLICE_NS } else { (SLICE_NS / share).max(250_000) };
        Decision { order: known.vruntime, slice_ns, cpu: Some(task.cpu) }
    }

    fn left(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }
}
