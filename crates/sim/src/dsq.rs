//! Dispatch queues: local to a CPU, global, or made by a policy.

use crate::checkers::PARKED;
use crate::task::TaskId;
use std::collections::VecDeque;

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
    /// Whether who stands there is kept off the CPUs by `cpu.max`, under level 1 or in the fair
    /// class, and waits for no CPU.
    pub fn throttles(self) -> bool {
        matches!(self, DsqRef::Throttled | DsqRef::User(PARKED))
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

struct Entry {
    task: TaskId,
    /// The key at insertion; unused in a FIFO.
    vtime: u64,
}

/// One queue.
#[derive(Default)]
pub struct Dsq {
    entries: VecDeque<Entry>,
    order: Option<Order>,
}

impl Dsq {
    /// How many tasks stand in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The order of the tasks in it; none while it is empty.
    pub fn order(&self) -> Option<Order> {
        if self.is_empty() { None } else { self.order }
    }

    /// The tasks in the order in which they will be taken.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.entries.iter().map(|e| e.task)
    }

    /// The task whose turn is next.
    pub fn first(&self) -> Option<TaskId> {
        self.entries.front().map(|e| e.task)
    }

    /// Inserts at the end, or at the head. The caller has looked at [`Dsq::order`].
    pub fn push(&mut self, task: TaskId, head: bool) {
        self.order = Some(Order::Fifo);
        let entry = Entry { task, vtime: 0 };
        if head {
            self.entries.push_front(entry);
        } else {
            self.entries.push_back(entry);
        }
    }

    /// Inserts behind every task whose vtime is not higher. Virtual time may wrap
    /// round: less means less than half the range away, as in the kernel's tree.
    pub fn insert(&mut self, task: TaskId, vtime: u64) {
        self.order = Some(Order::Vtime);
        let at = self.entries.partition_point(|e| vtime.wrapping_sub(e.vtime) as i64 >= 0);
        self.entries.insert(at, Entry { task, vtime });
    }

    /// Takes a task out, wherever it stands; false if it is not there.
    pub fn remove(&mut self, task: TaskId) -> bool {
        let Some(at) = self.entries.iter().position(|e| e.task == task) else { return false };
        self.entries.remove(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_emptied_queue_may_take_the_other_order() {
        let mut dsq = Dsq::default();
        dsq.push(TaskId(1), false);
        assert_eq!(dsq.order(), Some(Order::Fifo));
        assert!(dsq.remove(TaskId(1)));
        assert_eq!(dsq.order(), None);
    }
}
