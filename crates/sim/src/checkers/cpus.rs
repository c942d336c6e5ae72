//! What the stream of events has said of which CPUs take tasks, and which of them each task may use.

use crate::abi::CpuMask;
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::rc::Rc;

/// The CPUs of the machine, and the tasks that may use each; every checker keeps its own copy.
#[derive(Default)]
pub struct Cpus {
    offline: CpuMask,
    allowed: Dense<Rc<CpuMask>>,
}

impl Cpus {
    /// The kinds of events from which it learns which tasks may run where.
    pub const OF_TASKS: Kinds = Kinds::ARRIVE.and(Kinds::ALLOWED);
    /// What it has to be told of to know which CPUs take tasks.
    pub const ON_LINE: Kinds = Kinds::OFFLINE.and(Kinds::ONLINE);

    pub fn take(&mut self, event: &Observed) {
        match (&event.what, event.task) {
            (What::Offline, _) => self.offline.set(event.cpu),
            (What::Online, _) => self.offline.clear(event.cpu),
            (What::Arrive { allowed, .. } | What::Allowed(allowed), Some(task)) => {
                *self.allowed.at(task.0) = allowed.clone();
            }
            _ => {}
        }
    }

    pub fn is_offline(&self, cpu: usize) -> bool {
        self.offline.has(cpu)
    }

    /// How many take no tasks.
    pub fn offline(&self) -> usize {
        self.offline.count()
    }

    /// The CPUs that the task may use; none where it was not told of.
    pub fn allowed(&self, task: TaskId) -> Option<&CpuMask> {
        self.allowed.peek(task.0).map(|cpus| &**cpus)
    }

    /// Whether some CPU that takes tasks may run this one; so it is if it was not told of.
    pub fn may_run(&self, task: TaskId) -> bool {
        self.allowed(task).is_none_or(|cpus| !cpus.but(&self.offline).is_empty())
    }
}
