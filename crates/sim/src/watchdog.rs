//! The kernel's watchdog, which ends a program that leaves a runnable task waiting for too
//! long. Here it fails the run, as everything does for which the kernel ejects a program.

use crate::abi::scx;
use crate::kernel::{Event, Kernel};
use crate::task::TaskId;

impl Kernel {
    /// A program may name its patience; the kernel's own is the longest.
    fn patience_ns(&self) -> u64 {
        let ms = match self.program.ops.timeout_ms {
            0 => scx::WATCHDOG_MAX_MS,
            ms => ms,
        };
        u64::from(ms) * 1_000_000
    }

    /// The watchdog looks again after half of its patience, for as long as this program is
    /// loaded.
    pub(crate) fn watch(&mut self) {
        let at = self.clock.now + self.patience_ns() / 2;
        self.schedule_at(at, Event::Watchdog { load: self.load.loads });
    }

    pub(crate) fn watchdog(&mut self, load: u64) {
        if self.loaded() != Some(load) {
            return;
        }
        let patience_ns = self.patience_ns();
        let stalled = self.tasks.iter().position(|task| {
            task.runnable_since.is_some_and(|since| self.clock.now - since > patience_ns)
        });
        if let Some(at) = stalled {
            let task = &self.tasks[TaskId(at)];
            let waited_ms =
                (self.clock.now - task.runnable_since.unwrap_or(self.clock.now)) / 1_000_000;
            let (s, ms) = (waited_ms / 1_000, waited_ms % 1_000);
            let name = &task.name;
            self.fail("stall", format!("{name}[{}] failed to run for {s}.{ms:03}s", at + 1));
        }
        self.watch();
    }
}
