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
}

/// The queue of one arrival process.
pub(crate) struct Queue {
    arriving: Arriving,
    requests: VecDeque<Request>,
    waiters: VecDeque<TaskId>,
    answered: u64,
}

impl Queue {
    pub fn of(arrivals: Arrivals) -> Self {
        let (requests, waiters) = Default::default();
        Queue { arriving: Arriving::of(arrivals), requests, waiters, answered: 0 }
    }

    /// When the first requests arrive.
    pub fn first(&mut self, random: &mut Random) -> Vec<u64> {
        self.arriving.first(random)
    }

    /// A request arrives. Returns the task to wake for it, and when the next one arrives.
    pub fn arrive(
        &mut self,
        name: &Name,
        now: u64,
        random: &mut Random,
    ) -> (Option<TaskId>, Vec<u64>) {
        self.requests.push_back(Request { at: now, client: Some(name.clone()) });
        (self.waiters.pop_front(), self.arriving.arrive(now, random))
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
        self.arriving.answer(now, random)
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
        let mut queue = Queue::of(Arrivals::of(Process::Open { gap }));
        let (mut random, name) = (Random::new(1), "q".into());
        assert_eq!(queue.first(&mut random), [50]);
        assert!(queue.take(TaskId(7)).is_none());
        assert_eq!(queue.arrive(&name, 50, &mut random), (Some(TaskId(7)), vec![100]));
        assert_eq!(queue.unanswered(), 1);
        assert_eq!(queue.take(TaskId(7)).map(|request| request.at), Some(50));
        queue.answer(70, &mut random);
        assert_eq!(queue.unanswered(), 0);
    }
}
