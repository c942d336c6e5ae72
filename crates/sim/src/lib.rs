//! A small modelled kernel that runs the policies' own source natively.
//!
//! The files under `policies/` and `meta/` are compiled by `build.rs` with the
//! headers of `seam/` in front of the kernel's; what they call goes to
//! [`kernel::Kernel`], a deterministic discrete-event model. `README.md` says what
//! is modelled and what is refused.

pub mod abi;
mod apply;
mod audience;
pub mod callbacks;
mod cgroup_moves;
mod cgroups;
pub mod checkers;
mod costs;
mod dense;
pub mod dsq;
mod dsq_iter;
mod enqueue;
mod fair;
pub mod figures;
pub mod fuzz;
mod hotplug;
mod idle;
mod idle_cpus;
pub mod image;
pub mod kernel;
mod kfuncs;
pub mod kinds;
mod load;
mod maps;
mod memory;
pub mod metasched;
pub mod observer;
mod operate;
mod paravirt;
pub mod perfetto;
mod requests;
mod ring;
pub mod scenario;
mod sched_info;
mod schedule;
pub mod step;
mod sync;
mod syscalls;
pub mod task;
pub mod teams;
pub mod timeline;
mod timers;
mod topology;
pub mod trace;
mod trap;
mod waking;
mod watchdog;
mod world;

pub use apply::put_in_force;
pub use load::{Program, ProgramExit};
pub use metasched::scenario as policy;
// Runs are told in the words of scenarios.
pub use metasched_scenario::{
    Costs, Machine, Span, TaskSpec, between, exactly, machine, ms, options, random, span, us,
};
pub use scenario::{Failure, Outcome, Scenario, seeds};
