//! Which CPUs have nothing to run, read from the stream of events.

use crate::abi::CpuMask;
use crate::trace::{Observed, What};

/// Follows a run, and knows at each moment which CPUs have nothing to run. One that is off line is
/// not idle.
#[derive(Default)]
pub(crate) struct IdleCpus {
    idle: CpuMask,
    offline: CpuMask,
}

impl IdleCpus {
    /// Those that have nothing to run.
    pub fn now(&self) -> &CpuMask {
        &self.idle
    }

    /// Takes an event in; true if it is of what a CPU has to run.
    pub fn observe(&mut self, event: &Observed) -> bool {
        match event.what {
            // What is left to do there before it is off comes and goes.
            What::Idle if self.offline.has(event.cpu) => return false,
            What::Idle => self.idle.set(event.cpu),
            What::Busy | What::Start => self.idle.clear(event.cpu),
            What::Offline => {
                self.offline.set(event.cpu);
                self.idle.clear(event.cpu);
            }
            What::Online => self.offline.clear(event.cpu),
            _ => return false,
        }
        true
    }
}
