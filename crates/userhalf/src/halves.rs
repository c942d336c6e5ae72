//! The halves of all lanes, and what they have decided.

use std::collections::{BTreeMap, VecDeque};

use metasched_abi::{
    DECISIONS_MAX, DecisionResult, LANES_MAX, LaneDecision, UserDecision, UserMessage,
};

use crate::{Decision, Task, UserHalf};

/// In place of a CPU.
const ANY_CPU: i64 = -1;

/// Makes the half of a new lane, by the number of its policy; none if it knows no such policy.
pub type Make = dyn FnMut(u32) -> Option<Box<dyn UserHalf>>;

/// The half of a lane.
struct Known {
    half: Box<dyn UserHalf>,
    /// The number of the last message about the lane.
    heard: u64,
}

/// The halves of all lanes that one process decides for.
pub struct Halves {
    make: Box<Make>,
    /// By the generations of their lanes.
    lanes: BTreeMap<u64, Known>,
    /// Messages so far.
    heard: u64,
    /// Decisions that the kernel has not taken yet.
    made: VecDeque<UserDecision>,
    /// Those that it is given at this moment.
    batch: Vec<UserDecision>,
    /// Those that came before their tasks were queued.
    early: Vec<UserDecision>,
}

impl Halves {
    /// None yet: a lane's half is made when it is first heard of.
    pub fn new(make: impl FnMut(u32) -> Option<Box<dyn UserHalf>> + 'static) -> Self {
        Halves {
            make: Box::new(make),
            lanes: BTreeMap::new(),
            heard: 0,
            made: VecDeque::new(),
            batch: Vec::new(),
            early: Vec::new(),
        }
    }

    /// The kernel tells of a task.
    pub fn hear(&mut self, message: &UserMessage) {
        let Some(half) = self.half_of(message) else { return };
        if message.ticket == 0 {
            half.left(message.pid);
            return;
        }
        let UserMessage { pid, weight, cpu, at_ns, ran_ns, sleeps, waiting, .. } = *message;
        let Decision { order, slice_ns, cpu } =
            half.decide(&Task { pid, weight, cpu, at_ns, ran_ns, sleeps, waiting });
        let cpu = cpu.map_or(ANY_CPU, i64::from);
        self.made.push_back(UserDecision {
            what: LaneDecision { order, slice_ns, cpu },
            lane: message.lane,
            ticket: message.ticket,
            slot: message.slot,
            pid,
            ..Default::default()
        });
    }

    /// Lanes come and go, and nobody says when one has gone. There are never more than
    /// [`LANES_MAX`]: where more are known the one that was not heard of for longest is forgotten,
    /// which would be made anew.
    fn half_of(&mut self, message: &UserMessage) -> Option<&mut Box<dyn UserHalf>> {
        self.heard += 1;
        if !self.lanes.contains_key(&message.lane) {
            let half = (self.make)(message.policy)?;
            if self.lanes.len() == LANES_MAX {
                let silent = self.lanes.iter().min_by_key(|(_, known)| known.heard);
                let silent = silent.map(|(lane, _)| *lane);
                self.lanes.remove(&silent.expect("it is full"));
            }
            self.lanes.insert(message.lane, Known { half, heard: 0 });
        }
        let known = self.lanes.get_mut(&message.lane)?;
        known.heard = self.heard;
        Some(&mut known.half)
    }

    /// The next decisions for the kernel, as many as one call takes; none when all are taken.
    /// After the call, with what it said of each, say [`Halves::answered`].
    pub fn decisions(&mut self) -> Option<&mut [UserDecision]> {
        let next = self.made.len().min(DECISIONS_MAX);
        self.batch.extend(self.made.drain(..next));
        (!self.batch.is_empty()).then_some(&mut self.batch[..])
    }

    /// The kernel has said what became of the batch.
    pub fn answered(&mut self) {
        let early = |d: &UserDecision| d.result == DecisionResult::Early as u32;
        self.early.extend(self.batch.drain(..).filter(early));
    }

    /// What was too early is given again; whether there is any. Tasks are queued microseconds
    /// later: not at once, then, and without waiting for messages.
    pub fn again(&mut self) -> bool {
        let anew = |d| UserDecision { result: DecisionResult::None as u32, ..d };
        self.made.extend(self.early.drain(..).map(anew));
        !self.made.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct ByPid(Rc<RefCell<Vec<u32>>>);

    impl UserHalf for ByPid {
        fn decide(&mut self, task: &Task) -> Decision {
            Decision { order: task.pid.into(), slice_ns: 1, cpu: Some(task.cpu) }
        }

        fn left(&mut self, pid: u32) {
            self.0.borrow_mut().push(pid);
        }
    }

    fn message(lane: u64, pid: u32, ticket: u64) -> UserMessage {
        UserMessage { lane, pid, ticket, cpu: 3, ..Default::default() }
    }

    /// Two policies are known; a half of the second is never made.
    fn halves() -> (Halves, Rc<RefCell<Vec<u32>>>) {
        let left = Rc::<RefCell<Vec<u32>>>::default();
        let told = left.clone();
        let make = move |policy| {
            let half: Box<dyn UserHalf> = Box::new(ByPid(told.clone()));
            (policy == 0).then_some(half)
        };
        (Halves::new(make), left)
    }

    #[test]
    fn a_decision_bears_the_ticket_of_its_message() {
        let (mut halves, left) = halves();
        halves.hear(&message(7, 100, 1));
        halves.hear(&message(7, 100, 0));
        halves.hear(&UserMessage { policy: 1, ..message(8, 200, 2) });
        let batch = halves.decisions().unwrap();
        assert_eq!(batch.len(), 1, "{batch:?}");
        let UserDecision { what, lane, ticket, pid, .. } = batch[0];
        assert_eq!((what.order, what.cpu, lane, ticket, pid), (100, 3, 7, 1, 100));
        assert_eq!(*left.borrow(), [100]);
    }

    #[test]
    fn what_was_too_early_is_given_again_and_nothing_else_is() {
        let (mut halves, _) = halves();
        for ticket in 1..=DECISIONS_MAX as u64 + 1 {
            halves.hear(&message(7, 100, ticket));
        }
        let batch = halves.decisions().unwrap();
        assert_eq!(batch.len(), DECISIONS_MAX);
        for decision in batch.iter_mut() {
            decision.result = DecisionResult::Taken as u32;
        }
        batch[1].result = DecisionResult::Early as u32;
        halves.answered();
        let tickets: Vec<u64> = halves.decisions().unwrap().iter().map(|d| d.ticket).collect();
        assert_eq!(tickets, [DECISIONS_MAX as u64 + 1]);
        halves.answered();
        assert!(halves.decisions().is_none());
        assert!(halves.again());
        let tickets: Vec<u64> = halves.decisions().unwrap().iter().map(|d| d.ticket).collect();
        assert_eq!(tickets, [2]);
        halves.answered();
        assert!(!halves.again());
    }

    #[test]
    fn halves_of_lanes_that_are_gone_are_forgotten() {
        let (mut halves, _) = halves();
        for lane in 1..=3 * LANES_MAX as u64 {
            halves.hear(&message(lane, 1, lane));
        }
        assert_eq!(halves.lanes.len(), LANES_MAX);
    }

    #[test]
    fn an_old_lane_that_is_heard_of_again_is_decided() {
        let (mut halves, _) = halves();
        for lane in 2..=LANES_MAX as u64 + 1 {
            halves.hear(&message(lane, 1, lane));
        }
        halves.hear(&message(2, 1, 1));
        halves.hear(&message(1, 1, 1));
        assert_eq!(halves.made.len(), LANES_MAX + 2, "one was not decided");
        assert!(halves.lanes.contains_key(&1) && halves.lanes.contains_key(&2));
        assert!(!halves.lanes.contains_key(&3), "it was not heard of for longest");
    }
}
