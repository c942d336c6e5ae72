//! Child processes that cannot outlive us, and that can always be stopped.

mod identity;
mod priority;
mod spawn;
mod tail;

pub use identity::{ProcessId, peak_memory_kib};
pub use priority::run_first;
pub use spawn::{Child, Output, Spawn, StopPlan, Stopped};
