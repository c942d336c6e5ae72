//! The objects that the tasks of a run share, and the tasks that wait for them.

use crate::random::Random;
use crate::requests::Queue;
use crate::step::Name;
use crate::sync::{Barrier, Device, Lock, Pipe, Signal};
use crate::teams::Team;
use metasched_scenario::shared::SharedSpec;
use std::collections::BTreeMap;

/// Pipes, locks, barriers, teams, devices and queues of requests, by name. Semaphores and
/// conditions are there as soon as somebody names them.
#[derive(Default)]
pub(crate) struct World {
    pub pipes: BTreeMap<Name, Pipe>,
    pub locks: BTreeMap<Name, Lock>,
    pub barriers: BTreeMap<Name, Barrier>,
    pub teams: BTreeMap<Name, Team>,
    pub semaphores: BTreeMap<Name, Signal>,
    pub conditions: BTreeMap<Name, Signal>,
    pub devices: BTreeMap<Name, Device>,
    pub queues: BTreeMap<Name, Queue>,
}

impl World {
    /// As it is when tasks begin. Each queue of requests and each team has its streams from
    /// `random`.
    pub fn of(spec: &SharedSpec, random: &mut Random) -> World {
        fn each<S, T>(specs: &BTreeMap<Name, S>, mut of: impl FnMut(&S) -> T) -> BTreeMap<Name, T> {
            specs.iter().map(|(name, spec)| (name.clone(), of(spec))).collect()
        }
        World {
            pipes: each(&spec.pipes, |holds| Pipe::of(*holds)),
            locks: spec.locks.iter().map(|name| (name.clone(), Lock::default())).collect(),
            barriers: each(&spec.barriers, |spec| Barrier::of(*spec)),
            devices: each(&spec.devices, |spec| Device::of(*spec)),
            queues: each(&spec.arrivals, |arrivals| Queue::of(arrivals.clone(), random)),
            teams: each(&spec.teams, |team| Team::of(team.clone(), random)),
            ..World::default()
        }
    }
}
