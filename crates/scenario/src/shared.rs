//! What the tasks of a scenario share, as it is when they begin.

use crate::cpu_mask::CpuMask;
use crate::requests::Arrivals;
use crate::span::Span;
use crate::step::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A barrier. A task that comes early burns CPU time for at most `spin_ns` and then blocks;
/// `u64::MAX` means that it never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierSpec {
    /// How many have to come.
    pub parties: usize,
    /// For how long a task that comes burns CPU time, ns.
    pub spin_ns: u64,
}

/// A parallel program in a virtual machine. Each of its threads has a virtual CPU of its own, which
/// is a task of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamSpec {
    /// How many threads there are at most, at least one.
    pub threads: usize,
    /// After how many parallel regions it ends; never where there is none.
    pub regions: Option<u64>,
    /// How many barriers a region has, at least one. The last one ends it.
    pub barriers: u64,
    /// What all threads together compute from one barrier to the next.
    pub work: Span,
    /// Their parts of it are log-normal: the standard deviation of the logarithm, in thousandths.
    pub imbalance_thousandths: u32,
    /// Whether a thread that waits burns CPU time. Otherwise it sleeps.
    pub spins: bool,
    /// CPU time that a virtual CPU takes until it sleeps, ns.
    pub halt_ns: u64,
    /// CPU time that it takes a thread to wake another one, ns.
    pub wake_ns: u64,
    /// CPU time that a virtual CPU takes after it woke, ns.
    pub resume_ns: u64,
    /// How long the windows are over which the host tells the machine of CPUs, ns, at least 1. The
    /// number of threads follows what it tells. Where there is none all threads take part in all
    /// regions.
    pub adapts_to_ns: Option<u64>,
    /// Whether the host also tells it of the CPUs that are owed to it by its fair share, and that it
    /// owes.
    pub owed: bool,
    /// The CPUs that the machine may use; all where there is none.
    pub allowed: Option<CpuMask>,
    /// When it comes, ns.
    pub arrives_ns: u64,
}

/// A device that works on several operations at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// On how many, at least one.
    pub depth: usize,
    /// How long one takes.
    pub service: Span,
}

/// What tasks share, by name. Semaphores and conditions are there as soon as a step names them.
#[derive(Clone, Debug, Default)]
pub struct SharedSpec {
    /// Pipes, and how many messages each holds, at least one.
    pub pipes: BTreeMap<Name, usize>,
    /// Mutexes; a task that waits for one blocks.
    pub locks: BTreeSet<Name>,
    /// Barriers.
    pub barriers: BTreeMap<Name, BarrierSpec>,
    /// Parallel programs.
    pub teams: BTreeMap<Name, TeamSpec>,
    /// Devices.
    pub devices: BTreeMap<Name, DeviceSpec>,
    /// Queues of requests, and how those arrive.
    pub arrivals: BTreeMap<Name, Arrivals>,
}

impl SharedSpec {
    /// Adds all that another one has.
    pub fn merge(&mut self, other: &SharedSpec) {
        let SharedSpec { pipes, locks, barriers, teams, devices, arrivals } = other.clone();
        self.pipes.extend(pipes);
        self.locks.extend(locks);
        self.barriers.extend(barriers);
        self.teams.extend(teams);
        self.devices.extend(devices);
        self.arrivals.extend(arrivals);
    }
}
