//! A small modelled kernel that runs the policies' own source natively.
//!
//! The files under `policies/` and `meta/` are compiled by `build.rs` with the
//! headers of `seam/` in front of the kernel's; what they call goes to
//! [`kernel::Kernel`], a deterministic discrete-event model. `README.md` says what
//! is modelled and what is refused.

pub mod abi;
mod cgroups;
pub mod checkers;
mod detach;
pub mod dsq;
mod enqueue;
pub mod fuzz;
mod idle;
pub mod image;
pub mod kernel;
mod kfuncs;
mod maps;
pub mod metasched;
pub mod random;
pub mod scenario;
mod sched_info;
mod schedule;
pub mod task;
pub mod trace;
mod waking;

pub use metasched::scenario as policy;
pub use scenario::{Failure, Outcome, Scenario, seeds};
pub use task::{Span, TaskSpec};

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
