//! Requests, and how they arrive. A request's time counts from its arrival, whether or not
//! anybody is there to take it: a server that falls behind cannot hide it.

use crate::random::Random;
use crate::span::Span;
use std::sync::Arc;

/// How requests arrive.
#[derive(Clone, Debug)]
pub enum Process {
    /// So many clients, each of which thinks, sends a request, and waits for the answer.
    Closed {
        /// How many.
        clients: u64,
        /// From an answer to the next request; before the first one too.
        think: Span,
    },
    /// Whatever becomes of those before: one after such a gap. Exponential gaps make it a
    /// Poisson process.
    Open {
        /// From one to the next.
        gap: Span,
    },
    /// As [`Process::Open`], with pauses.
    Bursts {
        /// From one to the next, within a burst.
        gap: Span,
        /// How long a burst lasts.
        on: Span,
        /// How long the pause lasts.
        off: Span,
    },
    /// At these times, ns since the process begins, in ascending order.
    Recorded(Arc<[u64]>),
}

/// Requests that arrive, and the queue in which they wait.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// How they arrive.
    pub process: Process,
    /// When the process begins, ns.
    pub from_ns: u64,
    /// None arrives then or later, ns.
    pub until_ns: u64,
}

impl Arrivals {
    /// From the beginning of the run to its end.
    pub fn of(process: Process) -> Self {
        Arrivals { process, from_ns: 0, until_ns: u64::MAX }
    }
}

/// An arrival process as it goes on.
#[derive(Clone, Debug)]
pub struct Arriving {
    arrivals: Arrivals,
    burst_until: u64,
    arrived: u64,
}

impl Arriving {
    /// Nobody has come yet.
    pub fn of(arrivals: Arrivals) -> Self {
        Arriving { arrivals, burst_until: 0, arrived: 0 }
    }

    /// How many have come.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// When the first requests arrive.
    pub fn first(&mut self, random: &mut Random) -> Vec<u64> {
        let from = self.arrivals.from_ns;
        let first = match &self.arrivals.process {
            Process::Closed { clients, think } => {
                (0..*clients).map(|_| from + think.draw(random)).collect()
            }
            Process::Open { gap } => vec![from + gap.draw(random)],
            Process::Bursts { gap, on, .. } => {
                self.burst_until = from + on.draw(random);
                vec![from + gap.draw(random)]
            }
            Process::Recorded(times) => times.first().map(|at| from + at).into_iter().collect(),
        };
        self.within(first)
    }

    /// A request arrives; when the next one does, unless that depends on an answer.
    pub fn arrive(&mut self, now: u64, random: &mut Random) -> Vec<u64> {
        self.arrived += 1;
        let next = match &self.arrivals.process {
            Process::Closed { .. } => None,
            Process::Open { gap } => Some(now + gap.draw(random).max(1)),
            Process::Bursts { gap, on, off } => {
                let mut next = now + gap.draw(random).max(1);
                if next > self.burst_until {
                    next = self.burst_until.max(now) + off.draw(random).max(1);
                    self.burst_until = next + on.draw(random);
                }
                Some(next)
            }
            Process::Recorded(times) => {
                times.get(self.arrived as usize).map(|at| self.arrivals.from_ns + at)
            }
        };
        self.within(next.into_iter().collect())
    }

    /// A request is answered; when its client sends another.
    pub fn answer(&self, now: u64, random: &mut Random) -> Vec<u64> {
        match &self.arrivals.process {
            Process::Closed { think, .. } => self.within(vec![now + think.draw(random)]),
            _ => Vec::new(),
        }
    }

    fn within(&self, times: Vec<u64>) -> Vec<u64> {
        times.into_iter().filter(|at| *at < self.arrivals.until_ns).collect()
    }
}

/// When requests arrive, ns, one after the other.
pub struct Times {
    arriving: Arriving,
    random: Random,
    next: Option<u64>,
}

impl Arrivals {
    /// When they arrive; none where that depends on their answers, as with
    /// [`Process::Closed`].
    pub fn times(&self, seed: u64) -> Option<Times> {
        if matches!(self.process, Process::Closed { .. }) {
            return None;
        }
        let (mut arriving, mut random) = (Arriving::of(self.clone()), Random::new(seed));
        let next = arriving.first(&mut random).first().copied();
        Some(Times { arriving, random, next })
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.next?;
        self.next = self.arriving.arrive(at, &mut self.random).first().copied();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the first `n` requests.
    fn times(arrivals: Arrivals, n: usize) -> Vec<u64> {
        arrivals.times(3).expect("no answer is waited for").take(n).collect()
    }

    #[test]
    fn a_recorded_list_arrives_as_recorded() {
        let list = Arrivals { from_ns: 100, ..Arrivals::of(Process::Recorded([0, 5, 5].into())) };
        assert_eq!(times(list, 9), [100, 105, 105]);
    }

    #[test]
    fn bursts_have_pauses_between_them() {
        let [gap, on, off] = [10, 100, 1_000].map(Span::Exactly);
        let seen = times(Arrivals::of(Process::Bursts { gap, on, off }), 1_000);
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| [10, 1_000].contains(gap)), "{gaps:?}");
        let pauses = gaps.iter().filter(|gap| **gap == 1_000).count();
        assert!((85..=95).contains(&pauses), "{pauses} pauses in 1000 requests, 11 to a burst");
    }

    #[test]
    fn a_closed_loop_waits_for_its_answers() {
        let think = Span::Exactly(50);
        let mut arriving = Arriving::of(Arrivals::of(Process::Closed { clients: 3, think }));
        let mut random = Random::new(1);
        assert_eq!(arriving.first(&mut random), [50, 50, 50]);
        assert!(arriving.arrive(50, &mut random).is_empty());
        assert_eq!(arriving.answer(70, &mut random), [120]);
    }

    #[test]
    fn none_arrives_after_the_end() {
        let gap = Span::Exactly(10);
        let until = Arrivals { until_ns: 50, ..Arrivals::of(Process::Open { gap }) };
        assert_eq!(times(until, 9), [10, 20, 30, 40]);
    }
}
