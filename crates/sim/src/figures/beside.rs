//! CPUs that are idle although a task waits that could use them.

use crate::abi::CpuMask;
use crate::idle_cpus::IdleCpus;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Follows a run, and knows at each moment the idle CPUs that waiting tasks could have.
///
/// One waiting task can use one CPU, however many are idle. A CPU that is off line is not idle,
/// and who is kept off the CPUs by `cpu.max` waits for none. Tasks that may use few CPUs
/// are given theirs first; where sets of CPUs overlap without one holding the other, that
/// may find fewer than there are.
#[derive(Default)]
pub struct IdleBesideWork {
    idle: IdleCpus,
    tasks: Vec<Demand>,
    /// How many wait, by the CPUs that they may use; the smallest sets come first.
    waiting: BTreeMap<(usize, CpuMask), usize>,
    usable: CpuMask,
}

#[derive(Clone, Default)]
struct Demand {
    allowed: Rc<CpuMask>,
    waits: bool,
}

impl IdleBesideWork {
    /// The CPUs that are idle beside work now.
    pub fn cpus(&self) -> &CpuMask {
        &self.usable
    }

    /// The CPUs that have nothing to run.
    pub fn idle(&self) -> &CpuMask {
        self.idle.now()
    }

    /// Takes an event in; true if [`IdleBesideWork::cpus`] may have changed.
    pub fn observe(&mut self, event: &Observed) -> bool {
        let changed = self.idle.observe(event);
        match (&event.what, event.task) {
            (What::Arrive { allowed, .. } | What::Allowed(allowed), Some(task)) => {
                let waits = self.place(task).waits;
                self.wait(task, false);
                self.place(task).allowed = allowed.clone();
                self.wait(task, waits);
            }
            (What::Wake | What::Stop { runnable: true }, Some(task)) => self.wait(task, true),
            (What::Start, Some(task)) => self.wait(task, false),
            (What::Insert(queue), Some(task)) if queue.throttles() => self.wait(task, false),
            (What::Remove(queue), Some(task)) if queue.throttles() => self.wait(task, true),
            (What::Exit, Some(task)) => self.wait(task, false),
            _ if changed => {}
            _ => return false,
        }
        let any = !self.idle.now().is_empty() && !self.waiting.is_empty();
        self.usable = if any { self.match_up() } else { CpuMask::EMPTY };
        true
    }

    fn place(&mut self, task: TaskId) -> &mut Demand {
        if self.tasks.len() <= task.0 {
            self.tasks.resize(task.0 + 1, Demand::default());
        }
        &mut self.tasks[task.0]
    }

    fn wait(&mut self, task: TaskId, waits: bool) {
        let place = self.place(task);
        if std::mem::replace(&mut place.waits, waits) == waits {
            return;
        }
        let key = (place.allowed.count(), *place.allowed);
        let count = self.waiting.entry(key).or_default();
        if waits {
            *count += 1;
        } else {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&key);
            }
        }
    }

    fn match_up(&self) -> CpuMask {
        let (mut left, mut usable) = (*self.idle.now(), CpuMask::EMPTY);
        for ((_, allowed), count) in &self.waiting {
            for cpu in left.and(allowed).iter().take(*count) {
                usable.set(cpu);
                left.clear(cpu);
            }
            if left.is_empty() {
                break;
            }
        }
        usable
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{allowed, event};
    use super::*;
    use crate::dsq::DsqRef;
    use crate::dsq::PARKED;

    fn usable(events: impl IntoIterator<Item = (u64, usize, usize, What)>) -> Vec<usize> {
        let mut beside = IdleBesideWork::default();
        events.into_iter().for_each(|e| {
            beside.observe(&event(e));
        });
        beside.cpus().iter().collect()
    }

    #[test]
    fn a_task_that_waits_can_use_one_of_many_idle_cpus() {
        let idle = |cpu| (0, cpu, 0, What::Idle);
        let wakes = |task| (1, 0, task, What::Wake);
        let begin = [idle(0), idle(1), idle(2), (0, 0, 0, allowed(&[0, 1, 2])), wakes(0)];
        assert_eq!(usable(begin.clone()), [0]);
        assert_eq!(usable(begin.into_iter().chain([(2, 0, 0, What::Start)])), Vec::<usize>::new());
    }

    #[test]
    fn a_cpu_that_is_off_line_is_not_idle_until_it_is_back_and_idle_again() {
        let begin = [(0, 0, 0, What::Idle), (0, 0, 0, allowed(&[0])), (1, 0, 0, What::Wake)];
        let off = begin.into_iter().chain([(2, 0, 0, What::Offline), (2, 0, 0, What::Idle)]);
        assert_eq!(usable(off.clone()), Vec::<usize>::new());
        assert_eq!(usable(off.chain([(3, 0, 0, What::Online), (3, 0, 0, What::Idle)])), [0]);
    }

    #[test]
    fn who_is_throttled_waits_for_no_cpu() {
        for queue in [DsqRef::Throttled, DsqRef::User(*PARKED.start())] {
            let begin = [
                (0, 0, 0, What::Idle),
                (0, 0, 0, allowed(&[0])),
                (1, 0, 0, What::Wake),
                (1, 0, 0, What::Insert(queue)),
            ];
            assert_eq!(usable(begin.clone()), Vec::<usize>::new());
            assert_eq!(usable(begin.into_iter().chain([(2, 0, 0, What::Remove(queue))])), [0]);
        }
    }

    #[test]
    fn who_may_use_one_cpu_only_is_given_it_before_who_may_use_any() {
        let events = [
            (0, 0, 0, What::Idle),
            (0, 1, 0, What::Idle),
            (0, 0, 0, allowed(&[0, 1])),
            (0, 0, 1, allowed(&[0])),
            (0, 0, 2, allowed(&[0])),
            (1, 0, 0, What::Wake),
            (1, 0, 1, What::Wake),
        ];
        assert_eq!(usable(events.clone()), [0, 1]);
        let forbidden =
            events.into_iter().chain([(2, 0, 0, What::Allowed(Rc::new(CpuMask::EMPTY)))]);
        assert_eq!(usable(forbidden), [0]);
    }
}
