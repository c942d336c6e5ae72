//! What the tasks of a scenario share, as it is when they begin.

use crate::requests::Arrivals;
use crate::span::Span;
use crate::step::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A barrier. A task that comes early burns CPU time for at most `spin_ns` and then blocks; `u64::MAX`
/// means that it never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierSpec {
    /// How many have to come.
    pub parties: usize,
    /// For how long a task that comes burns CPU time, ns.
    pub spin_ns: u64,
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
    /// Devices.
    pub devices: BTreeMap<Name, DeviceSpec>,
    /// Queues of requests, and how those arrive.
    pub arrivals: BTreeMap<Name, Arrivals>,
}

impl SharedSpec {
    /// Adds all that another one has.
    pub fn merge(&mut self, other: &SharedSpec) {
        let SharedSpec { pipes, locks, barriers, devices, arrivals } = other.clone();
        self.pipes.extend(pipes);
        self.locks.extend(locks);
        self.barriers.extend(barriers);
        self.devices.extend(devices);
        self.arrivals.extend(arrivals);
    }
}
