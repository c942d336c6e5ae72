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

/// The order of scx_rustland: so far as others have come, and what the task ran since by its weight. For
/// one that often sleeps it is a hundredth of that, and a slice earlier: it comes before tasks that
/// compute, and takes a CPU from one of them.
#[derive(Default)]
pub struct Rustland {
    /// How far a task has come that has had its turn, at most. It begins with the clock, which is ahead of
    /// it from then on: so one that is started again comes after what the one before has decided.
    least: u64,
    tasks: HashMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    /// How far it has come, by what was decided last; 0: nothing was yet.
    come: u64,
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
        if self.least == 0 {
            self.least = task.at_ns;
        }
        // It comes again, so it has had its turn.
        self.least = self.least.max(known.come);
        known.come = self.least + (ran_ns * 100 / weight).clamp(1, SLICE_NS);
        let order = if interactive { known.come - SLICE_NS } else { known.come };
        let share = u64::from(task.waiting).div_ceil(2).max(1);
        let slice_ns = if interactive { SLICE_NS } else { (SLICE_NS / share).max(LEAST_SLICE_NS) };
        Decision { order, slice_ns, cpu: Some(task.cpu) }
    }

    fn left(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINS: u64 = SECOND_NS;

    fn order(half: &mut Rustland, pid: u32, weight: u32, ran_ns: u64) -> u64 {
        half.decide(&task(pid, weight, BEGINS + ran_ns, ran_ns)).order
    }

    fn task(pid: u32, weight: u32, at_ns: u64, ran_ns: u64) -> Task {
        Task { pid, weight, cpu: 0, at_ns, ran_ns, sleeps: 0, waiting: 1 }
    }

    #[test]
    fn a_task_stands_behind_those_that_had_their_turns_by_what_it_ran_and_a_slice_at_most() {
        let mut half = Rustland::default();
        assert_eq!(order(&mut half, 1, 100, 0), BEGINS + 1);
        assert_eq!(order(&mut half, 1, 100, 3_000_000), BEGINS + 1 + 3_000_000);
        // Of the first one's second turn nobody knows yet.
        assert_eq!(order(&mut half, 2, 100, 0), BEGINS + 1 + 1);
        assert_eq!(order(&mut half, 1, 100, SECOND_NS), BEGINS + 1 + 3_000_000 + SLICE_NS);
        assert_eq!(order(&mut half, 2, 200, 2_000_000), BEGINS + 1 + 3_000_000 + 1_000_000);
    }

    #[test]
    fn who_often_sleeps_comes_before_who_computes_up_to_where_others_have_come() {
        let mut half = Rustland::default();
        half.decide(&task(1, 100, BEGINS, 0));
        let hog = (0..5).map(|turn| order(&mut half, 2, 100, turn * SLICE_NS)).max().unwrap();
        let service = task(1, 100, BEGINS + 2 * SECOND_NS, SLICE_NS);
        let woke = half.decide(&Task { sleeps: 100, ..service });
        // The half of 50 times a second. By what it ran it stands 0.05 ms behind the others.
        assert_eq!(woke.order, hog - SLICE_NS + SLICE_NS / BOOST - SLICE_NS);
        assert_eq!(woke.slice_ns, SLICE_NS);
    }

    #[test]
    fn a_half_that_is_started_again_comes_after_what_was_decided() {
        let mut before = Rustland::default();
        let decided = (0..100).map(|turn| order(&mut before, 1, 100, turn * SLICE_NS)).max();
        let again = order(&mut Rustland::default(), 2, 100, 100 * SLICE_NS);
        assert!(Some(again) > decided, "{again} before {decided:?}");
    }
}
