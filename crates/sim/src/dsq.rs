//! Dispatch queues: local to a CPU, global, or made by a policy.

use crate::task::TaskId;
use metasched_abi::{LIMITS_MAX, PARKED_BASE_DSQ};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The queues of tasks whose cgroups are throttled, one for each limit.
pub const PARKED: std::ops::RangeInclusive<u64> =
    PARKED_BASE_DSQ + 1..=PARKED_BASE_DSQ + LIMITS_MAX as u64;

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsqRef {
    /// The local queue of a CPU, served before anything else.
    Local(usize),
    /// The kernel's global queue.
    Global,
    /// A policy's own, by its id.
    User(u64),
    /// A CPU's queue in the fair class, while no program is loaded.
    Fair(usize),
    /// No queue of a CPU's: `cpu.max` keeps tasks of the fair class aside.
    Throttled,
}

impl DsqRef {
    /// Whether tasks there are kept off the CPUs by `cpu.max`, under level 1 or in the fair
    /// class, and waits for no CPU.
    pub fn throttles(self) -> bool {
        match self {
            DsqRef::Throttled => true,
            DsqRef::User(id) => PARKED.contains(&id),
            _ => false,
        }
    }
}

/// In which order the tasks of a queue stand; it cannot hold both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they came.
    Fifo,
    /// By ascending vtime, ties as they came.
    Vtime,
}

#[derive(Clone, Copy)]
struct Entry {
    task: TaskId,
    /// What the order is by: the vtime at insertion, or a number that counts up.
    key: u64,
}

/// So many tasks stand side by side in memory at most. One that comes to the middle of a queue, or
/// leaves it, moves so many others: on a large machine thousands wait in one queue.
const RUN: usize = 128;

/// One queue.
#[derive(Default)]
pub struct Dsq {
    /// The tasks in their order, in runs. A run is empty only where it is the only one.
    runs: VecDeque<VecDeque<Entry>>,
    len: usize,
    order: Option<Order>,
}

/// Whether one key stands before another. Virtual time may wrap round: less means less than
/// half the range away, as in the kernel's tree.
fn before(key: u64, other: u64) -> bool {
    (key.wrapping_sub(other) as i64) < 0
}

impl Dsq {
    /// How many tasks stand in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The order of the tasks in it; none while it is empty.
    pub fn order(&self) -> Option<Order> {
        if self.is_empty() { None } else { self.order }
    }

    /// The tasks in the order in which they will be taken.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.runs.iter().flatten().map(|e| e.task)
    }

    fn front(&self) -> Option<Entry> {
        self.runs.front()?.front().copied()
    }

    /// The task whose turn is next.
    pub fn first(&self) -> Option<TaskId> {
        self.front().map(|e| e.task)
    }

    /// Inserts at the end, or at the head, and gives the key by which to take it out. The
    /// caller has looked at [`Dsq::order`].
    pub fn push(&mut self, task: TaskId, head: bool) -> u64 {
        self.order = Some(Order::Fifo);
        let last = self.runs.back().and_then(|run| run.back());
        let key = match head {
            true => self.front().map_or(0, |first| first.key.wrapping_sub(1)),
            false => last.map_or(0, |last| last.key.wrapping_add(1)),
        };
        let run = if head { 0 } else { self.runs.len().saturating_sub(1) };
        let at = if head { 0 } else { self.runs.back().map_or(0, VecDeque::len) };
        self.insert_at((run, at), Entry { task, key });
        key
    }

    /// Inserts behind every task whose vtime is not higher; vtime is the key.
    pub fn insert(&mut self, task: TaskId, vtime: u64) {
        self.order = Some(Order::Vtime);
        let place = self.place(|e| !before(vtime, e.key));
        self.insert_at(place, Entry { task, key: vtime });
    }

    /// Takes a task out, wherever it stands; false if it is not there.
    pub fn remove(&mut self, task: TaskId, key: u64) -> bool {
        // From where it stands if keys are less than half the range apart, else from the head.
        let due = self.place(|e| before(e.key, key));
        let found = self.find(task, due).or_else(|| self.find(task, (0, 0)));
        let Some((run, at)) = found else { return false };
        self.runs[run].remove(at);
        self.len -= 1;
        if self.runs[run].is_empty() && self.runs.len() > 1 {
            self.runs.remove(run);
        }
        true
    }

    /// Where the first stands for which that does not hold: its run, and its place there.
    fn place(&self, holds: impl Fn(&Entry) -> bool) -> (usize, usize) {
        let after = self.runs.partition_point(|run| run.front().is_some_and(&holds));
        let Some(run) = after.checked_sub(1) else { return (0, 0) };
        (run, self.runs[run].partition_point(holds))
    }

    fn find(&self, task: TaskId, (run, mut from): (usize, usize)) -> Option<(usize, usize)> {
        for run in run..self.runs.len() {
            if let Some(at) = self.runs[run].range(from..).position(|e| e.task == task) {
                return Some((run, from + at));
            }
            from = 0;
        }
        None
    }

    fn insert_at(&mut self, (run, at): (usize, usize), entry: Entry) {
        if self.runs.is_empty() {
            self.runs.push_back(VecDeque::new());
        }
        self.len += 1;
        self.runs[run].insert(at, entry);
        if self.runs[run].len() > RUN {
            let half = self.runs[run].split_off(RUN / 2);
            self.runs.insert(run + 1, half);
        }
    }
}

/// The queues that policies made, by their ids.
#[derive(Default)]
pub(crate) struct Queues {
    /// Where each is among `queues`, of which some are free.
    places: FxHashMap<u64, usize>,
    queues: Vec<Dsq>,
    free: Vec<usize>,
}

impl Queues {
    /// The queue of an id.
    pub fn get(&self, id: u64) -> Option<&Dsq> {
        self.places.get(&id).map(|place| &self.queues[*place])
    }

    /// The queue of an id, to change.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Dsq> {
        self.places.get(&id).map(|place| &mut self.queues[*place])
    }

    /// Whether there is one.
    pub fn has(&self, id: u64) -> bool {
        self.places.contains_key(&id)
    }

    /// Makes one; there is none of that id.
    pub fn make(&mut self, id: u64) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.queues.push(Dsq::default());
            self.queues.len() - 1
        });
        self.places.insert(id, place);
    }

    /// Destroys one that is empty.
    pub fn destroy(&mut self, id: u64) {
        self.free.extend(self.places.remove(&id));
    }

    /// All ids, in ascending order.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.places.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn order(dsq: &Dsq) -> Vec<usize> {
        dsq.tasks().map(|t| t.0).collect()
    }

    #[test]
    fn equal_vtimes_leave_in_the_order_they_came() {
        let mut dsq = Dsq::default();
        for (task, vtime) in [(1, 5), (2, 3), (3, 5), (4, 3)] {
            dsq.insert(TaskId(task), vtime);
        }
        assert_eq!(order(&dsq), [2, 4, 1, 3]);
    }

    #[test]
    fn vtime_may_wrap_round() {
        let mut dsq = Dsq::default();
        for (task, vtime) in [(1, 2), (2, u64::MAX - 1), (3, 0)] {
            dsq.insert(TaskId(task), vtime);
        }
        assert_eq!(order(&dsq), [2, 3, 1]);
    }

    #[test]
    fn a_queue_that_takes_the_place_of_another_is_empty() {
        let mut queues = Queues::default();
        for id in [9, 4, 7] {
            queues.make(id);
        }
        let key = queues.get_mut(4).unwrap().push(TaskId(1), false);
        assert!(queues.get_mut(4).unwrap().remove(TaskId(1), key));
        queues.destroy(4);
        queues.make(5);
        assert!(!queues.has(4) && queues.get(5).unwrap().is_empty());
        assert_eq!(queues.ids(), [5, 7, 9]);
    }

    #[test]
    fn an_emptied_queue_may_take_the_other_order() {
        let mut dsq = Dsq::default();
        let key = dsq.push(TaskId(1), false);
        assert_eq!(dsq.order(), Some(Order::Fifo));
        assert!(dsq.remove(TaskId(1), key));
        assert_eq!(dsq.order(), None);
    }

    /// The order that a list has in which every task is looked for.
    #[test]
    fn a_long_queue_has_the_order_of_a_list_however_tasks_come_and_go() {
        let mut random = Random::new(1);
        for (order_by, spread) in [(Order::Fifo, 0), (Order::Vtime, 50), (Order::Vtime, 1 << 62)] {
            let (mut dsq, mut list) = (Dsq::default(), Vec::<(usize, u64)>::new());
            for task in 0..5_000 {
                let vtime = random.within(0, spread).wrapping_sub(spread / 2);
                let at = match order_by {
                    Order::Vtime => {
                        dsq.insert(TaskId(task), vtime);
                        list.partition_point(|(_, other)| vtime.wrapping_sub(*other) as i64 >= 0)
                    }
                    Order::Fifo if random.once_in(4) => 0,
                    Order::Fifo => list.len(),
                };
                let key = match order_by {
                    Order::Vtime => vtime,
                    Order::Fifo => dsq.push(TaskId(task), at == 0 && !list.is_empty()),
                };
                list.insert(at, (task, key));
                // It grows, and then falls again.
                let leave =
                    u64::from(task < 3_000 && random.once_in(3)) + u64::from(task >= 3_000) * 2;
                for _ in 0..leave.min(list.len() as u64) {
                    let at = random.within(0, list.len() as u64 - 1) as usize;
                    let (task, key) = list.remove(at);
                    assert!(dsq.remove(TaskId(task), key));
                }
                assert_eq!(dsq.first().map(|t| t.0), list.first().map(|(task, _)| *task));
            }
            assert_eq!(dsq.len(), list.len());
            assert_eq!(order(&dsq), list.iter().map(|(task, _)| *task).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_task_is_found_among_keys_that_have_no_order() {
        let mut dsq = Dsq::default();
        let third = u64::MAX / 3;
        let tasks: Vec<(TaskId, u64)> =
            (0..1_000).map(|i| (TaskId(i), i as u64 % 3 * third)).collect();
        tasks.iter().for_each(|(task, vtime)| dsq.insert(*task, *vtime));
        assert!(tasks.iter().all(|(task, vtime)| dsq.remove(*task, *vtime)));
        assert!(dsq.is_empty() && !dsq.remove(TaskId(1), third));
    }
}
