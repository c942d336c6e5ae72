//! What the stream of events has said of lanes, cgroups and queues so far. Each checker of
//! level 1 keeps a picture of its own.

use crate::dsq::DsqRef;
use crate::metasched::{LaneSeen, LaneState};
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The queue of tasks whose cgroups are throttled: `PARKED_DSQ` of `meta/limits.bpf.h`.
pub const PARKED: u64 = 1;
/// The queue of kernel threads that any CPU may take: `KTHREADS_DSQ` of `meta/lanes.bpf.h`.
pub const KTHREADS: u64 = 2;

/// The generation of the lane that a queue belongs to, by `make_dsq_id()` of
/// `bpf/sched.bpf.h`; none where the queue is no lane's.
pub fn generation_of(queue: u64) -> Option<u64> {
    Some(queue >> 16).filter(|generation| *generation != 0)
}

#[derive(Default)]
pub struct Picture {
    above: BTreeMap<u64, Option<u64>>,
    assigned: BTreeMap<u64, u32>,
    members: BTreeMap<TaskId, u64>,
    kthreads: BTreeSet<TaskId>,
    /// How many tasks stand in the queues of each lane, by its generation.
    queued: BTreeMap<u64, usize>,
    pub lanes: Rc<[LaneSeen]>,
}

impl Picture {
    pub fn take(&mut self, event: &Observed) {
        match (&event.what, event.task) {
            (What::Cgroup { id, above }, _) => {
                self.above.insert(*id, *above);
            }
            (What::Arrive { kthread: true, .. }, Some(task)) => {
                self.kthreads.insert(task);
            }
            (What::Member(cgroup), Some(task)) => {
                self.members.insert(task, *cgroup);
            }
            (What::Assign { cgroup, app: 0 }, _) => {
                self.assigned.remove(cgroup);
            }
            (What::Assign { cgroup, app }, _) => {
                self.assigned.insert(*cgroup, *app);
            }
            (What::Insert(DsqRef::User(queue)), _) => {
                if let Some(generation) = generation_of(*queue) {
                    *self.queued.entry(generation).or_default() += 1;
                }
            }
            (What::Remove(DsqRef::User(queue)), _) => {
                let lane = generation_of(*queue).and_then(|of| self.queued.get_mut(&of));
                if let Some(tasks) = lane {
                    *tasks -= 1;
                }
            }
            (What::Lanes(lanes), _) => {
                self.lanes = lanes.clone();
                self.queued.retain(|of, n| *n > 0 || lanes.iter().any(|l| l.generation == *of));
            }
            (What::Detached, _) => {
                self.lanes = Rc::default();
                self.assigned.clear();
            }
            _ => {}
        }
    }

    /// The cgroup itself, the one above it, and so on to the root.
    pub fn line(&self, cgroup: u64) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(Some(cgroup), |id| self.above.get(id).copied().flatten())
    }

    pub fn is_kthread(&self, task: TaskId) -> bool {
        self.kthreads.contains(&task)
    }

    pub fn cgroup_of(&self, task: TaskId) -> Option<u64> {
        self.members.get(&task).copied()
    }

    /// How many tasks have come to be in that cgroup, or one below it.
    pub fn members_below(&self, cgroup: u64) -> u64 {
        self.members.values().filter(|id| self.line(**id).any(|id| id == cgroup)).count() as u64
    }

    /// How many tasks stand in the queues of the lane of that generation.
    pub fn queued(&self, generation: u64) -> usize {
        self.queued.get(&generation).copied().unwrap_or(0)
    }

    pub fn lane(&self, generation: u64) -> Option<&LaneSeen> {
        self.lanes.iter().find(|lane| lane.generation == generation)
    }

    /// Whether applications have lanes of their own: only then does level 1 sweep.
    pub fn has_apps(&self) -> bool {
        self.lanes.iter().any(|lane| lane.state == LaneState::App)
    }

    /// The lane through which the task has to come when it is queued now: that of the
    /// nearest cgroup that is assigned to an application with a lane, or the root's.
    pub fn lane_due(&self, task: TaskId) -> Option<&LaneSeen> {
        let app = self
            .cgroup_of(task)
            .and_then(|cgroup| self.line(cgroup).find_map(|id| self.assigned.get(&id)));
        let of_app = |lane: &&LaneSeen| {
            lane.state == LaneState::App && !lane.quarantined && Some(&lane.app) == app
        };
        let root = || self.lanes.iter().find(|lane| lane.state == LaneState::Root);
        self.lanes.iter().find(of_app).or_else(root)
    }
}
