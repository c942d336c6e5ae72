//! What tasks do: the machine that they are meant for, their steps and what they share, scenario
//! files that tell of it, and scenarios made of a trace of a live system.
//!
//! The simulator runs a scenario in a modelled kernel, and the replay with real threads.

pub mod cpu_mask;
pub mod file;
mod fixed;
pub mod machine;
pub mod options;
pub mod random;
pub mod record;
pub mod requests;
pub mod samples;
pub mod shared;
pub mod span;
pub mod step;
pub mod task;

pub use cpu_mask::{CpuMask, MAX_CPUS};
pub use machine::{Costs, Machine};
pub use span::{Span, between, exactly, ms, us};
pub use task::TaskSpec;
