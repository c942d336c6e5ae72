//! Requests that arrived, and the tasks that wait for one.

use crate::random::Random;
use crate::step::Name;
use crate::task::TaskId;
use metasched_scenario::requests::{Arrivals, Arriving};
use std::collections::VecDeque;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// When it arrived, ns.
    pub at: u64,
    /// Through which queue; none where a task began it itself.
    pub client: Option<Name>,
    /// What it asks of those that work on it is drawn from here: the same, whoever that is, and when.
    pub random: Box<Random>,
}

/// The queue of one arrival process.
pub(crate) struct Queue {
    arriving: Arriving,
    requests: VecDeque<Request>,
    waiters: VecDeque<TaskId>,
    answered: u64,
    /// Of when requests arrive.
    arrivals_random: Random,
    /// Of what they ask: the n-th to arrive the same, whenever that is.
    requests_random: Random,
}

impl Queue {
    pub fn of(arrivals: Arrivals, random: &mut Random) -> Self {
        let (requests, waiters) = Default::default();
        Queue {
            arriving: Arriving::of(arrivals),
            requests,
            waiters,
            answered: 0,
            arrivals_random: random.branch(),
            requests_random: random.branch(),
        }
    }

    /// When the first requests arrive.
    pub fn first(&mut self) -> Vec<u64> {
        self.arriving.first(&mut self.arrivals_random)
    }

    /// A request arrives. Returns the task to wake for it, and when the next one arrives.
    pub fn arrive(&mut self, name: &Name, now: u64) -> (Option<TaskId>, Vec<u64>) {
        let random = Box::new(self.requests_random.branch());
        self.requests.push_back(Request { at: now, client: Some(name.clone()), random });
        (self.waiters.pop_front(), self.arriving.arrive(now, &mut self.arrivals_random))
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
    pub fn answer(&mut self, now: u64) -> Vec<u64> {
        self.answered += 1;
        self.arriving.answer(now, &mut self.arrivals_random)
    }

    /// How many arrived and were not answered.
    pub fn unanswered(&self) -> u64 {
        self.arriving.arrived() - self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_scenario::requests::Process;
    use metasched_scenario::span::Span;

    #[test]
    fn a_request_is_unanswered_from_its_arrival_to_its_answer() {
        let gap = Span::Exactly(50);
        let mut queue = Queue::of(Arrivals::of(Process::Open { gap }), &mut Random::new(1));
        let name = "q".into();
        assert_eq!(queue.first(), [50]);
        assert!(queue.take(TaskId(7)).is_none());
        assert_eq!(queue.arrive(&name, 50), (Some(TaskId(7)), vec![100]));
        assert_eq!(queue.unanswered(), 1);
        assert_eq!(queue.take(TaskId(7)).map(|request| request.at), Some(50));
        queue.answer(70);
        assert_eq!(queue.unanswered(), 0);
    }

    #[test]
    fn what_a_request_asks_does_not_depend_on_when_others_are_answered() {
        let think = Span::Between(10, 1_000);
        let asked = |answered_after: u64| {
            let arrivals = Arrivals::of(Process::Closed { clients: 2, think });
            let mut queue = Queue::of(arrivals, &mut Random::new(1));
            let [first, second] = queue.first()[..] else { panic!("two clients") };
            queue.arrive(&"q".into(), first);
            let third = queue.answer(first + answered_after)[0];
            for at in [second, third] {
                queue.arrive(&"q".into(), at);
            }
            let bits = queue.requests.iter_mut().map(|request| request.random.bits());
            (third - first - answered_after, bits.collect::<Vec<_>>())
        };
        assert_eq!(asked(5), asked(5_000));
    }
}
