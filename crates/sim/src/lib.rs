//! A small modelled kernel that runs the policies' own source natively.
//!
//! The files under `policies/` and `meta/` are compiled by `build.rs` with the
//! headers of `seam/` in front of the kernel's; what they call goes to
//! [`kernel::Kernel`], a deterministic discrete-event model. `README.md` says what
//! is modelled and what is refused.

pub mod abi;
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
pub mod file;
mod fixed;
pub mod fuzz;
mod hotplug;
mod idle;
pub mod image;
pub mod kernel;
mod kfuncs;
pub mod kinds;
mod load;
pub mod machine;
mod maps;
mod memory;
pub mod metasched;
pub mod observer;
mod operate;
pub mod options;
pub mod perfetto;
pub mod random;
pub mod record;
pub mod requests;
mod ring;
pub mod scenario;
mod sched_info;
mod schedule;
pub mod span;
pub mod step;
mod sync;
mod syscalls;
pub mod task;
pub mod timeline;
mod timers;
mod topology;
pub mod trace;
mod trap;
mod waking;
mod watchdog;
pub mod world;

pub use load::{Program, ProgramExit};
pub use machine::{Costs, Machine};
pub use metasched::scenario as policy;
pub use scenario::{Failure, Outcome, Scenario, seeds};
pub use span::Span;
pub use task::TaskSpec;

/// Milliseconds in ns.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// Microseconds in ns.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// A span that is always the same.
pub const fn exactly(ns: u64) -> Span {
    Span::Exactly(ns)
}

/// A span that is drawn anew each time.
pub const fn between(low_ns: u64, high_ns: u64) -> Span {
    Span::Between(low_ns, high_ns)
}
