use super::{Checker, ms};
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::{BTreeMap, BTreeSet};

/// How long a policy may keep a runnable task to itself, in no dispatch queue:
/// far more than any policy that thinks in user space takes.
const HELD_NS: u64 = 500_000_000;

/// A runnable task is running, in a queue, or on its way there.
#[derive(Default)]
pub struct NoTaskLost {
    /// Runnable tasks that neither run nor stand in a queue, by since when.
    held: BTreeSet<(u64, TaskId)>,
    since: BTreeMap<TaskId, u64>,
}

impl NoTaskLost {
    fn hold(&mut self, task: TaskId, at: u64) {
        if let std::collections::btree_map::Entry::Vacant(entry) = self.since.entry(task) {
            entry.insert(at);
            self.held.insert((at, task));
        }
    }

    fn release(&mut self, task: TaskId) {
        if let Some(at) = self.since.remove(&task) {
            self.held.remove(&(at, task));
        }
    }

    fn lost(&self, now: u64, window: u64) -> Result<(), String> {
        match self.held.first() {
            Some((since, task)) if now - since > window => Err(format!(
                "task {} is runnable, does not run and stands in no queue for {}",
                task.0,
                ms(now - since)
            )),
            _ => Ok(()),
        }
    }
}

impl Checker for NoTaskLost {
    fn name(&self) -> &'static str {
        "no_task_lost"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        if let Some(task) = event.task {
            match event.what {
                What::Wake | What::Remove(_) | What::Stop { runnable: true } => {
                    self.hold(task, event.at)
                }
                What::Insert(_) | What::Start | What::Sleep | What::Exit => self.release(task),
                _ => {}
            }
        }
        self.lost(event.at, HELD_NS)
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.lost(now, HELD_NS)
    }
}

/// No task is on two CPUs, and no CPU has two tasks.
#[derive(Default)]
pub struct OneCpuPerTask {
    on: BTreeMap<TaskId, usize>,
    running: BTreeMap<usize, TaskId>,
}

impl Checker for OneCpuPerTask {
    fn name(&self) -> &'static str {
        "one_cpu_per_task"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let Some(task) = event.task else { return Ok(()) };
        match event.what {
            What::Start => {
                if let Some(other) = self.on.insert(task, event.cpu) {
                    return Err(format!(
                        "task {} starts on CPU {} and runs on CPU {other}",
                        task.0, event.cpu
                    ));
                }
                if let Some(other) = self.running.insert(event.cpu, task) {
                    return Err(format!(
                        "task {} starts on CPU {}, where task {} runs",
                        task.0, event.cpu, other.0
                    ));
                }
            }
            What::Stop { .. } => {
                if self.on.remove(&task) != Some(event.cpu) {
                    return Err(format!(
                        "task {} stops on CPU {}, where it does not run",
                        task.0, event.cpu
                    ));
                }
                self.running.remove(&event.cpu);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::feed;
    use super::*;
    use crate::dsq::DsqRef;

    #[test]
    fn a_task_that_nobody_has_is_lost() {
        let mut checker = NoTaskLost::default();
        feed(&mut checker, [(0, 0, 1, What::Wake), (1, 0, 2, What::Wake)]).unwrap();
        feed(&mut checker, [(2, 0, 2, What::Insert(DsqRef::Global))]).unwrap();
        let said = checker.finish(HELD_NS + 1).unwrap_err();
        assert!(said.starts_with("task 1 is runnable"), "{said}");
    }

    #[test]
    fn a_task_on_two_cpus_is_caught() {
        let mut checker = OneCpuPerTask::default();
        let said = feed(&mut checker, [(0, 0, 1, What::Start), (1, 3, 1, What::Start)]);
        assert!(said.unwrap_err().contains("runs on CPU 0"));
    }

    #[test]
    fn two_tasks_on_one_cpu_are_caught() {
        let mut checker = OneCpuPerTask::default();
        let said = feed(&mut checker, [(0, 0, 1, What::Start), (1, 0, 2, What::Start)]);
        assert!(said.unwrap_err().contains("where task 1 runs"));
    }
}
