use super::{Checker, ms};
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::{Observed, What};

/// How long a policy may keep a runnable task to itself, in no dispatch queue:
/// far more than any policy that thinks in user space takes.
const HELD_NS: u64 = 500_000_000;

/// A runnable task is running, in a queue, or on its way there.
#[derive(Default)]
pub struct NoTaskLost {
    /// Since when a runnable task neither runs nor stands in a queue.
    held_since: Dense<Option<u64>>,
    /// Up to then nobody can be held for too long.
    look_at: u64,
}

impl NoTaskLost {
    fn lost(&mut self, now: u64) -> Result<(), String> {
        if now <= self.look_at {
            return Ok(());
        }
        let held = self.held_since.iter().filter_map(|(task, since)| Some(((*since)?, task)));
        let Some((since, task)) = held.min() else {
            self.look_at = now + HELD_NS;
            return Ok(());
        };
        self.look_at = since + HELD_NS;
        if now > self.look_at {
            return Err(format!(
                "task {task} is runnable, does not run and stands in no queue for {}",
                ms(now - since)
            ));
        }
        Ok(())
    }
}

impl Checker for NoTaskLost {
    fn name(&self) -> &'static str {
        "no_task_lost"
    }

    fn wants(&self) -> Kinds {
        let held = Kinds::WAKE.and(Kinds::REMOVE).and(Kinds::STOP);
        held.and(Kinds::INSERT).and(Kinds::START).and(Kinds::SLEEP).and(Kinds::EXIT)
    }

    fn look_at(&self) -> u64 {
        self.look_at
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        if let Some(TaskId(task)) = event.task {
            match event.what {
                What::Wake | What::Remove(_) | What::Stop { runnable: true } => {
                    self.held_since.at(task).get_or_insert(event.at);
                }
                What::Insert(_) | What::Start | What::Sleep | What::Exit => {
                    *self.held_since.at(task) = None;
                }
                _ => {}
            }
        }
        self.lost(event.at)
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.lost(now)
    }
}

/// No task is on two CPUs, and no CPU has two tasks.
#[derive(Default)]
pub struct OneCpuPerTask {
    /// The CPU of each task.
    on: Dense<Option<usize>>,
    /// The task of each CPU.
    running: Dense<Option<TaskId>>,
}

impl Checker for OneCpuPerTask {
    fn name(&self) -> &'static str {
        "one_cpu_per_task"
    }

    fn wants(&self) -> Kinds {
        Kinds::START.and(Kinds::STOP)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let Some(task) = event.task else { return Ok(()) };
        match event.what {
            What::Start => {
                if let Some(other) = self.on.at(task.0).replace(event.cpu) {
                    return Err(format!(
                        "task {} starts on CPU {} and runs on CPU {other}",
                        task.0, event.cpu
                    ));
                }
                if let Some(other) = self.running.at(event.cpu).replace(task) {
                    return Err(format!(
                        "task {} starts on CPU {}, where task {} runs",
                        task.0, event.cpu, other.0
                    ));
                }
            }
            What::Stop { .. } => {
                if self.on.at(task.0).take() != Some(event.cpu) {
                    return Err(format!(
                        "task {} stops on CPU {}, where it does not run",
                        task.0, event.cpu
                    ));
                }
                *self.running.at(event.cpu) = None;
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
