//! Child processes that cannot outlive us, and that can always be stopped.

mod affinity;
mod identity;
mod leftovers;
mod own_use;
mod priority;
mod running;
mod spawn;
mod tail;
mod threads;
mod wait;

pub use affinity::allowed_cpus;
pub use identity::{ProcessId, peak_memory_kib};
pub use leftovers::of_the_gone;
pub use own_use::OwnUse;
pub use priority::{Prompt, run_first};
pub use running::cgroups_of_commands;
pub use spawn::{Child, Output, Spawn, StopPlan, Stopped};
pub use threads::{Thread, own_threads, threads};
pub use wait::{Watched, Woken, wait};
