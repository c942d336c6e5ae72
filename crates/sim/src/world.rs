//! What the tasks of a scenario share.

use crate::requests::{Arrivals, Queue};
use crate::span::Span;
use crate::step::Name;
use crate::sync::{Barrier, Device, Lock, Pipe, Signal};
use std::collections::BTreeMap;

/// Pipes, locks, barriers, devices and queues of requests, by name. Semaphores and
/// conditions are there as soon as somebody names them.
#[derive(Clone, Default)]
pub struct World {
    pub(crate) pipes: BTreeMap<Name, Pipe>,
    pub(crate) locks: BTreeMap<Name, Lock>,
    pub(crate) barriers: BTreeMap<Name, Barrier>,
    pub(crate) semaphores: BTreeMap<Name, Signal>,
    pub(crate) conditions: BTreeMap<Name, Signal>,
    pub(crate) devices: BTreeMap<Name, Device>,
    pub(crate) queues: BTreeMap<Name, Queue>,
}

impl World {
    /// A pipe that holds so many messages; at least one.
    pub fn pipe(&mut self, name: &str, capacity: usize) {
        self.pipes.insert(name.into(), Pipe::of(capacity.max(1)));
    }

    /// A mutex; who waits for it blocks.
    pub fn lock(&mut self, name: &str) {
        self.locks.insert(name.into(), Lock::default());
    }

    /// A barrier of so many parties. Who comes early burns CPU time for at most `spin_ns`
    /// and then blocks; `u64::MAX` means that it never blocks.
    pub fn barrier(&mut self, name: &str, parties: usize, spin_ns: u64) {
        self.barriers.insert(name.into(), Barrier::of(parties, spin_ns));
    }

    /// A device that works on `depth` operations at a time, at least one, each of which takes
    /// as long as `service` says.
    pub fn device(&mut self, name: &str, depth: usize, service: Span) {
        self.devices.insert(name.into(), Device::of(depth.max(1), service));
    }

    /// Requests that arrive in a queue of that name.
    pub fn arrivals(&mut self, name: &str, arrivals: Arrivals) {
        self.queues.insert(name.into(), Queue::of(arrivals));
    }

    /// The pipes, and how many messages each holds.
    pub fn pipes(&self) -> impl Iterator<Item = (&Name, usize)> {
        self.pipes.iter().map(|(name, pipe)| (name, pipe.capacity))
    }

    /// The mutexes.
    pub fn locks(&self) -> impl Iterator<Item = &Name> {
        self.locks.keys()
    }

    /// The barriers, with their parties and how long who waits burns CPU time, ns.
    pub fn barriers(&self) -> impl Iterator<Item = (&Name, usize, u64)> {
        self.barriers.iter().map(|(name, barrier)| (name, barrier.parties, barrier.spin_ns))
    }

    /// The devices, with how many operations each works on at a time, and how long one takes.
    pub fn devices(&self) -> impl Iterator<Item = (&Name, usize, Span)> {
        self.devices.iter().map(|(name, device)| (name, device.depth, device.service))
    }

    /// How requests arrive.
    pub fn queues(&self) -> impl Iterator<Item = (&Name, &Arrivals)> {
        self.queues.iter().map(|(name, queue)| (name, queue.arrivals()))
    }

    /// Adds all that another one has.
    pub fn merge(&mut self, other: &World) {
        let World { pipes, locks, barriers, semaphores, conditions, devices, queues } =
            other.clone();
        self.pipes.extend(pipes);
        self.locks.extend(locks);
        self.barriers.extend(barriers);
        self.semaphores.extend(semaphores);
        self.conditions.extend(conditions);
        self.devices.extend(devices);
        self.queues.extend(queues);
    }
}
