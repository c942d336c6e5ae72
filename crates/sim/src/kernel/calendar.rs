//! The queue of events: a calendar. What comes soon is in a heap, small enough to stay in the
//! caches however many tasks sleep; what comes later lies, in no order, in the window of its
//! time, and is put in order when that has come. So an event costs as much on a large machine
//! as on a small one, but for the logarithm of how many there are in a millisecond.

use std::collections::BinaryHeap;

/// How long a window is, as a power of two of ns: a millisecond. On the largest machines some
/// thousand events are in one, some tens of kB.
const WINDOW_BITS: u32 = 20;
/// How many windows there are: half a second, longer than most tasks sleep. What comes later
/// still is in a heap of its own.
const WINDOWS: u64 = 512;

/// Something with a time and a place in the order of all: the greater comes first, as in a
/// [`BinaryHeap`], and what is earlier is greater.
pub(super) trait Dated: Ord {
    /// When, ns.
    fn at(&self) -> u64;
}

pub(super) struct Calendar<T> {
    /// The window whose events are in `soon`, counted from time 0. Whatever comes after it is
    /// elsewhere.
    window: u64,
    soon: BinaryHeap<T>,
    /// The windows after that one, round and round.
    windows: Vec<Vec<T>>,
    /// How many events those hold.
    in_windows: usize,
    later: BinaryHeap<T>,
}

impl<T: Dated> Calendar<T> {
    /// An empty one that begins at 0.
    pub fn new() -> Self {
        Calendar {
            window: 0,
            soon: BinaryHeap::new(),
            windows: std::iter::repeat_with(Vec::new).take(WINDOWS as usize).collect(),
            in_windows: 0,
            later: BinaryHeap::new(),
        }
    }

    /// Writes an event down, at any time.
    pub fn push(&mut self, event: T) {
        let window = event.at() >> WINDOW_BITS;
        if window <= self.window {
            self.soon.push(event);
        } else if window < self.window + WINDOWS {
            self.windows[(window % WINDOWS) as usize].push(event);
            self.in_windows += 1;
        } else {
            self.later.push(event);
        }
    }

    /// Takes out the next event, if it comes at `end` or before.
    pub fn pop_until(&mut self, end: u64) -> Option<T> {
        while self.soon.is_empty() {
            if self.in_windows == 0 && self.later.is_empty() {
                return None;
            }
            self.turn();
        }
        if self.soon.peek()?.at() > end {
            return None;
        }
        self.soon.pop()
    }

    /// Goes on to the next window; `soon` is empty.
    fn turn(&mut self) {
        self.window += 1;
        if self.in_windows == 0
            && let Some(next) = self.later.peek()
        {
            self.window = next.at() >> WINDOW_BITS;
        }
        // Memory changes hands, so that there is as much of it as the fullest window takes.
        let place = &mut self.windows[(self.window % WINDOWS) as usize];
        let empty = std::mem::take(&mut self.soon).into_vec();
        let events = std::mem::replace(place, empty);
        self.in_windows -= events.len();
        self.soon = BinaryHeap::from(events);
        while self.later.peek().is_some_and(|e| e.at() >> WINDOW_BITS < self.window + WINDOWS) {
            let event = self.later.pop().expect("just seen");
            self.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::cmp::Reverse;

    impl Dated for Reverse<u64> {
        fn at(&self) -> u64 {
            self.0
        }
    }

    /// Writes down events at random, some near, some far, and takes out what comes first.
    #[test]
    fn events_come_in_the_order_of_a_heap_however_far_away_they_were() {
        let mut random = Random::new(1);
        let (mut calendar, mut heap) = (Calendar::new(), BinaryHeap::new());
        let mut now = 0;
        for round in 0..200_000 {
            let far = 1 << random.within(0, 33);
            let event = Reverse(now + random.within(0, far));
            calendar.push(event);
            heap.push(event);
            // At times everything is taken out, and the next is far away.
            let takes = if round % 1_000 == 0 { usize::MAX } else { random.within(0, 2) as usize };
            for _ in 0..takes {
                let next = calendar.pop_until(u64::MAX);
                assert_eq!(next, heap.pop());
                let Some(Reverse(at)) = next else { break };
                now = at;
            }
        }
    }

    #[test]
    fn what_comes_after_the_end_stays() {
        let mut calendar = Calendar::new();
        calendar.push(Reverse(5 << WINDOW_BITS));
        assert_eq!(calendar.pop_until((5 << WINDOW_BITS) - 1), None);
        // Its window was begun: what comes before it is still first.
        calendar.push(Reverse(3));
        assert_eq!(calendar.pop_until(u64::MAX), Some(Reverse(3)));
        assert_eq!(calendar.pop_until(5 << WINDOW_BITS), Some(Reverse(5 << WINDOW_BITS)));
        assert_eq!(calendar.pop_until(u64::MAX), None);
    }
}
