//! Requests, and how they arrive. A request's time counts from its arrival, whether or not
//! anybody is there to take it: a server that falls behind cannot hide it.

use crate::random::Random;
use crate::span::Span;
use crate::step::Name;
use crate::task::TaskId;
use std::collections::VecDeque;
use std::sync::Arc;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// When it arrived, ns.
    pub at: u64,
    /// Through which queue; none where a task began it itself.
    pub client: Option<Name>,
}

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

/// When requests arrive, ns, one after the other.
pub struct Times {
    queue: Queue,
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
        let (mut queue, mut random) = (Queue::of(self.clone()), Random::new(seed));
        let next = queue.first(&mut random).first().copied();
        Some(Times { queue, random, next })
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.next?;
        let (_, following) = self.queue.arrive(&Name::from(""), at, &mut self.random);
        self.queue.requests.clear();
        self.next = following.first().copied();
        Some(at)
    }
}

/// The queue of one arrival process.
#[derive(Clone)]
pub(crate) struct Queue {
    arrivals: Arrivals,
    requests: VecDeque<Request>,
    waiters: VecDeque<TaskId>,
    burst_until: u64,
    arrived: u64,
    answered: u64,
}

impl Queue {
    pub fn of(arrivals: Arrivals) -> Self {
        Queue {
            arrivals,
            requests: VecDeque::new(),
            waiters: VecDeque::new(),
            burst_until: 0,
            arrived: 0,
            answered: 0,
        }
    }

    /// How they arrive.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
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

    /// A request arrives; who is to be woken for it, and when the next one arrives.
    pub fn arrive(
        &mut self,
        name: &Name,
        now: u64,
        random: &mut Random,
    ) -> (Option<TaskId>, Vec<u64>) {
        self.arrived += 1;
        self.requests.push_back(Request { at: now, client: Some(name.clone()) });
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
        (self.waiters.pop_front(), self.within(next.into_iter().collect()))
    }

    fn within(&self, times: Vec<u64>) -> Vec<u64> {
        times.into_iter().filter(|at| *at < self.arrivals.until_ns).collect()
    }

    /// The task takes a request, or waits for one.
    pub fn take(&mut self, id: TaskId) -> Option<Request> {
        let request = self.requests.pop_front();
        if request.is_none() {
            self.waiters.push_back(id);
        }
        request
    }

    /// A request is answered; when its client sends another.
    pub fn answer(&mut self, now: u64, random: &mut Random) -> Vec<u64> {
        self.answered += 1;
        match &self.arrivals.process {
            Process::Closed { think, .. } => {
                let next = now + think.draw(random);
                self.within(vec![next])
            }
            _ => Vec::new(),
        }
    }

    /// How many arrived and were not answered.
    pub fn unanswered(&self) -> u64 {
        self.arrived - self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the first `n` requests, if each is answered at once.
    fn times(arrivals: Arrivals, n: usize) -> Vec<u64> {
        let (mut queue, mut random, name) = (Queue::of(arrivals), Random::new(3), "q".into());
        let mut due = queue.first(&mut random);
        let mut seen = Vec::new();
        while seen.len() < n && !due.is_empty() {
            due.sort_unstable();
            let now = due.remove(0);
            due.extend(queue.arrive(&name, now, &mut random).1);
            due.extend(queue.answer(now, &mut random));
            seen.push(now);
        }
        seen
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
        let mut queue =
            Queue::of(Arrivals::of(Process::Closed { clients: 3, think: Span::Exactly(50) }));
        let (mut random, name) = (Random::new(1), "q".into());
        assert_eq!(queue.first(&mut random), [50, 50, 50]);
        assert!(queue.arrive(&name, 50, &mut random).1.is_empty());
        assert_eq!(queue.unanswered(), 1);
        assert_eq!(queue.answer(70, &mut random), [120]);
        assert_eq!(queue.unanswered(), 0);
    }

    #[test]
    fn none_arrives_after_the_end() {
        let gap = Span::Exactly(10);
        let until = Arrivals { until_ns: 50, ..Arrivals::of(Process::Open { gap }) };
        assert_eq!(times(until, 9), [10, 20, 30, 40]);
    }
}
