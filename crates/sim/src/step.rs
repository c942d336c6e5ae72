//! How far a task is in what it does.

use crate::requests::Request;
use crate::task::TaskId;
pub use metasched_scenario::step::{Name, Step};
use std::collections::VecDeque;

/// How far a task is in a step that may block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not begun.
    #[default]
    Fresh,
    /// It waits, and must see itself whether what it waits for is there.
    Waits,
    /// It waits for tasks that it bore.
    Joins,
    /// It burns CPU time until it is let go.
    Spins,
    /// It does its part of a team's work.
    Works,
    /// Its virtual CPU is about to sleep, until its team needs it.
    Halts,
    /// It wakes other threads of its team, one after the other.
    Wakes,
    /// It is about to sleep until that time, ns, which takes a while.
    FallsAsleep(u64),
    /// It was let go.
    Released,
    /// So many messages are left to pass.
    Left(u64),
}

/// How far a task is in what it does, beside the place in its list of steps.
#[derive(Default)]
pub(crate) struct Doing {
    pub stage: Stage,
    /// The loops that it is in, inner ones last: where each ends, and its how manieth pass.
    loops: Vec<(usize, u64)>,
    /// When it woke, if it has not run since.
    woke: Option<u64>,
    /// Times of its timers.
    pub timers: Vec<Option<u64>>,
    /// What it works on.
    pub requests: VecDeque<Request>,
    pub parent: Option<TaskId>,
    /// Those of the tasks that it bore that live.
    pub children: u64,
    pub locks: u64,
    /// How long its requests took, ns, in the order of their ends.
    pub responses_ns: Vec<u64>,
    /// Units of work, requests included.
    pub done: u64,
}

impl Doing {
    /// Whether the present step has begun and not ended.
    pub fn begun(&self) -> bool {
        self.stage != Stage::Fresh
    }

    pub fn wakes(&mut self, now: u64) {
        self.woke = Some(now);
    }

    pub fn runs(&mut self) {
        self.woke = None;
    }

    /// When a request of its own arrived that it begins now.
    pub fn arrived(&mut self, now: u64) -> u64 {
        self.woke.take().unwrap_or(now)
    }

    /// At the end of a loop: whether it has to be gone through again.
    pub fn again(&mut self, end: usize, times: u64) -> bool {
        if self.loops.last().is_none_or(|(there, _)| *there != end) {
            self.loops.push((end, 1));
        }
        match self.loops.last_mut() {
            Some((_, pass)) if *pass < times => {
                *pass += 1;
                true
            }
            _ => {
                self.loops.pop();
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_within_loops_are_gone_through_as_often_as_they_say() {
        // Two steps three times, within four passes: ends at 2 and 4.
        let (mut doing, mut inner) = (Doing::default(), 0);
        for _ in 0..2 {
            let mut passes = 0;
            loop {
                passes += 1;
                inner += 1;
                while doing.again(2, 3) {
                    inner += 1;
                }
                if !doing.again(4, 4) {
                    break;
                }
            }
            assert_eq!(passes, 4);
        }
        assert_eq!(inner, 2 * 4 * 3);
        assert!(!doing.again(4, 1), "once is no loop");
    }
}
