//! A policy's half in user space: what it is told and what it decides.
//!
//! Implement [`UserHalf`]. The kernel tells of each task that wants a CPU and finds none idle; the
//! half answers with a key, and the kernel keeps its queue in the order of keys. It need not
//! hurry: what it has not decided in 5 ms ([`metasched_abi::UNDECIDED_NS`]) the policy decides
//! without it, and a decision that comes too late hurts nobody.
//!
//! ```
//! use metasched_userhalf::{Decision, Task, UserHalf};
//!
//! /// First in, first out.
//! struct Fifo;
//!
//! impl UserHalf for Fifo {
//!     fn decide(&mut self, task: &Task) -> Decision {
//!         Decision { order: task.at_ns, slice_ns: 5_000_000, cpu: None }
//!     }
//! }
//! ```
//!
//! [`Halves`] is between those and whoever carries messages: the loader in a real kernel, the
//! simulator in a modelled one. It touches neither.

mod halves;
#[path = "../../../policies/rustland/half.rs"]
mod rustland;

pub use halves::Halves;

/// A new half of the policy of that name; none where it decides alone.
pub fn half_of(policy: &str) -> Option<Box<dyn UserHalf>> {
    match policy {
        "rustland" => Some(Box::<rustland::Rustland>::default()),
        _ => None,
    }
}

/// A task that wants a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The number of its thread.
    pub pid: u32,
    /// 1 to 10,000; 100 is that of nice 0.
    pub weight: u32,
    /// The CPU on which it ran last.
    pub cpu: u32,
    /// When it came, by a clock of the kernel's, ns.
    pub at_ns: u64,
    /// What it has run in all, ns.
    pub ran_ns: u64,
    /// How often it gave up a CPU by itself.
    pub sleeps: u64,
    /// How many tasks wait in those queues of its lane that belong to no CPU or cache.
    pub waiting: u32,
}

/// When it runs, for how long and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What has less runs first; it may wrap round. In ns, of run time or of time: a task that woke
    /// takes the CPU of one whose order is later by more than the option `slice_min_ns`.
    pub order: u64,
    /// The policy bounds it.
    pub slice_ns: u64,
    /// The CPU that is told of it if it is idle; any, if none is given.
    pub cpu: Option<u32>,
}

/// What decides for the tasks of one lane.
pub trait UserHalf {
    /// A task wants a CPU.
    fn decide(&mut self, task: &Task) -> Decision;

    /// The task of that number has left the lane, or ends; should it come again, it is another.
    /// On a busy machine such a message may be lost.
    fn left(&mut self, _pid: u32) {}
}
