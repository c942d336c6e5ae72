//! rustland's half in user space: weighted run time; sleepers come before tasks that compute.

use crate::{Decision, Task, UserHalf};
use std::collections::HashMap;

/// What a task is granted that waits alone; the policy's `slice_ns` bounds it.
const SLICE_NS: u64 = 5_000_000;
/// What any task is granted at least.
const LEAST_SLICE_NS: u64 = 250_000;
/// Of what a task ran since it slept so much does not count. With a slice in place of this, who sends
/// many messages before it has to wait loses its CPU to those that it wakes, at each: on two CPUs
/// hackbench took up to six times as long.
const FREE_NS: u64 = 20 * SLICE_NS;
/// And so much counts at most: so far it stays behind who sleeps.
const AWAKE_NS: u64 = 100 * SLICE_NS;
/// What of a weight counts at most.
const MOST_WEIGHT: u64 = 1_000;

/// The order of scx_rustland: so far as others have come, and what the task ran since by its weight, and
/// all that it ran since it slept beyond [`FREE_NS`]. So one that sleeps comes before tasks that compute,
/// from its first wake-up on, and takes a CPU from one of them; those that all sleep, such as who sends
/// and who receives, leave each other theirs.
#[derive(Default)]
pub struct Rustland {
    /// How far a task has come that has had its turn, at most. It begins with the clock, which is ahead of
    /// it from then on: so what one that is started again decides comes before what the one before has
    /// decided only where that computes, as if it were of who slept.
    least: u64,
    tasks: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    /// How far it has come, by what was decided last; 0: nothing was yet.
    come: u64,
    ran_ns: u64,
    /// How often it had slept then, and what it has run since, by its weight.
    sleeps: u64,
    awake_ns: u64,
}

impl UserHalf for Rustland {
    fn decide(&mut self, task: &Task) -> Decision {
        let new = || Known { ran_ns: task.ran_ns, sleeps: task.sleeps, ..Known::default() };
        let known = self.tasks.entry(task.pid).or_insert_with(new);
        let weight = u64::from(task.weight).clamp(1, MOST_WEIGHT);
        let ran_ns = task.ran_ns.saturating_sub(std::mem::replace(&mut known.ran_ns, task.ran_ns));
        let ran_ns = ran_ns * 100 / weight;
        // What it ran was before it slept.
        let slept = std::mem::replace(&mut known.sleeps, task.sleeps) != task.sleeps;
        known.awake_ns = if slept { 0 } else { (known.awake_ns + ran_ns).min(FREE_NS + AWAKE_NS) };
        if self.least == 0 {
            self.least = task.at_ns;
        }
        // It comes again, so it has had its turn.
        self.least = self.least.max(known.come);
        let from = match (known.come, slept) {
            // What it runs in its first turn counts at once: it may not come again.
            (0, _) => self.least + SLICE_NS,
            (_, true) => self.least,
            // It keeps what it is behind, a slice at most.
            (come, false) => come.max(self.least.saturating_sub(SLICE_NS)),
        };
        known.come = from + ran_ns.clamp(1, SLICE_NS);
        let share = u64::from(task.waiting).div_ceil(2).max(1);
        Decision {
            order: known.come + known.awake_ns.saturating_sub(FREE_NS),
            slice_ns: (SLICE_NS / share).max(LEAST_SLICE_NS),
            cpu: Some(task.cpu),
        }
    }

    fn left(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const BEGINS: u64 = SECOND_NS;

    fn order(half: &mut Rustland, pid: u32, weight: u32, ran_ns: u64) -> u64 {
        half.decide(&task(pid, weight, SECOND_NS + ran_ns, ran_ns)).order
    }

    fn task(pid: u32, weight: u32, at_ns: u64, ran_ns: u64) -> Task {
        Task { pid, weight, cpu: 0, at_ns, ran_ns, sleeps: 0, waiting: 1 }
    }

    #[test]
    fn a_task_stands_behind_those_that_had_their_turns_by_what_it_ran() {
        let mut half = Rustland::default();
        // A whole slice counts for the first turn, as if it had had it.
        let first = BEGINS + SLICE_NS + 1;
        assert_eq!(order(&mut half, 1, 100, 0), first);
        assert_eq!(order(&mut half, 1, 100, 3_000_000), first + 3_000_000);
        // Of the first one's second turn nobody knows yet.
        assert_eq!(order(&mut half, 2, 100, 0), first + SLICE_NS + 1);
        // A slice at most counts for the turn; of what it ran since it slept there is a most as well.
        let come = first + 3_000_000 + SLICE_NS;
        assert_eq!(order(&mut half, 1, 100, SECOND_NS), come + AWAKE_NS);
        // It keeps what it is behind.
        assert_eq!(order(&mut half, 2, 200, 2_000_000), first + SLICE_NS + 1 + 1_000_000);
    }

    #[test]
    fn who_sleeps_comes_before_who_computes_from_its_first_wake_up_on() {
        let mut half = Rustland::default();
        half.decide(&task(1, 100, SECOND_NS, 0));
        let hog = (0..40).map(|turn| order(&mut half, 2, 100, turn * SLICE_NS)).max().unwrap();
        let woke = half.decide(&Task { sleeps: 1, ..task(1, 100, 2 * SECOND_NS, 1_000_000) });
        // Of the hog's turns all but the last are known to be over.
        assert_eq!(woke.order, BEGINS + 1 + 39 * SLICE_NS + 1_000_000);
        // It computes now, and is one of them when it has done so for as long.
        let computes = |half: &mut Rustland, ran_ns| {
            half.decide(&Task { sleeps: 1, ..task(1, 100, 2 * SECOND_NS, ran_ns) }).order
        };
        assert!(computes(&mut half, 2_000_000) < hog);
        assert!(computes(&mut half, 300_000_000) > hog);
    }

    #[test]
    fn a_half_that_is_started_again_comes_after_how_far_tasks_had_come() {
        let mut before = Rustland::default();
        let decided = (0..100).map(|turn| order(&mut before, 1, 100, turn * SLICE_NS)).max();
        let come = decided.map(|order| order - (99 * SLICE_NS - FREE_NS));
        let again = order(&mut Rustland::default(), 2, 100, 100 * SLICE_NS);
        assert!(Some(again) > come, "{again} before {come:?}");
    }
}
