//! What the kernel of a machine does by itself: threads that wake now and then, and compute a
//! little. They are few, and decide much: where a task that wakes finds a CPU, and keeps finding
//! one.

use crate::span::Span;
use crate::task::TaskSpec;
use serde::{Deserialize, Serialize};

/// A thread of the kernel's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelThread {
    /// Its name.
    pub name: String,
    /// The only CPU that it may run on, if there is one.
    pub cpu: Option<usize>,
    /// From one run to the next in the mean, ns; the gaps know nothing of each other.
    pub every_ns: u64,
    /// How long it runs each time, ns.
    pub run_ns: u64,
}

impl KernelThread {
    /// The task that does so, the `number`-th of `all`: their first runs are not at one time.
    pub fn task(&self, number: u64, all: u64) -> TaskSpec {
        let task = TaskSpec::named(self.name.clone())
            .run(Span::Exactly(self.run_ns))
            .sleep(Span::Exponential(self.every_ns.saturating_sub(self.run_ns).max(1)))
            .for_ever()
            .arrives(self.every_ns / all.max(1) * number)
            .kthread();
        match self.cpu {
            Some(cpu) => task.only_on([cpu]),
            None => task,
        }
    }
}
