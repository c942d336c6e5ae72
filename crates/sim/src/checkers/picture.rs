//! What the stream of events has said of lanes, cgroups and queues so far. Each checker of
//! level 1 keeps a picture of its own.

use crate::dense::Dense;
use crate::dsq::DsqRef;
use crate::kinds::Kinds;
use crate::metasched::LaneSeen;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_abi::LANE_DSQ_BITS;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The generation of the lane that a queue belongs to, by `make_dsq_id()` of
/// `bpf/sched.bpf.h`; none where the queue is no lane's.
pub fn generation_of(queue: u64) -> Option<u64> {
    Some(queue >> LANE_DSQ_BITS).filter(|generation| *generation != 0)
}

/// Something of each lane, by its generation. There are few of them, and one comes and goes
/// with each task that is queued where nobody else is.
pub struct ByLane<T>(Vec<(u64, T)>);

impl<T> Default for ByLane<T> {
    fn default() -> Self {
        ByLane(Vec::new())
    }
}

impl<T> ByLane<T> {
    fn place(&self, generation: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&generation, |(of, _)| *of)
    }

    /// What there is of a lane.
    pub fn get(&self, generation: u64) -> Option<&T> {
        self.place(generation).ok().map(|at| &self.0[at].1)
    }

    /// What there is of a lane, to change.
    pub fn get_mut(&mut self, generation: u64) -> Option<&mut T> {
        self.place(generation).ok().map(|at| &mut self.0[at].1)
    }

    /// What there is of a lane, to change; `value` where there is nothing yet.
    pub fn or_insert(&mut self, generation: u64, value: T) -> &mut T {
        let at = self.place(generation).unwrap_or_else(|at| {
            self.0.insert(at, (generation, value));
            at
        });
        &mut self.0[at].1
    }

    /// Takes it out.
    pub fn remove(&mut self, generation: u64) -> Option<T> {
        self.place(generation).ok().map(|at| self.0.remove(at).1)
    }

    /// Keeps those alone of which that holds.
    pub fn retain(&mut self, keep: impl Fn(u64, &T) -> bool) {
        self.0.retain(|(of, value)| keep(*of, value));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Default)]
pub struct Picture {
    /// The cgroup above each; none for those that are not there, too.
    above: Dense<Option<u64>>,
    /// The application that each cgroup is assigned to; 0: none.
    assigned: Dense<u32>,
    /// The cgroup of each task.
    members: Dense<Option<u64>>,
    kthreads: Dense<bool>,
    /// How many tasks stand in the queues of each lane.
    queued: ByLane<usize>,
    pub lanes: Rc<[LaneSeen]>,
    /// The place among the lanes of the one that tasks of a cgroup have to come through, where
    /// somebody has asked since lanes, cgroups or assignments changed.
    due: RefCell<Dense<Option<usize>>>,
}

impl Picture {
    /// What it has to be told of to know of lanes, and how many tasks stand in their queues.
    pub const OF_LANES: Kinds =
        Kinds::LANES.and(Kinds::DETACHED).and(Kinds::INSERT).and(Kinds::REMOVE);
    /// The kinds of events from which it learns of lanes, cgroups and their tasks.
    pub const OF_CGROUPS: Kinds = Kinds::LANES
        .and(Kinds::DETACHED)
        .and(Kinds::CGROUP)
        .and(Kinds::ARRIVE)
        .and(Kinds::MEMBER)
        .and(Kinds::ASSIGN);

    pub fn take(&mut self, event: &Observed) {
        match (&event.what, event.task) {
            (What::Cgroup { id, above }, _) => {
                *self.above.at(*id as usize) = *above;
                self.due.get_mut().clear();
            }
            (What::Arrive { kthread: true, .. }, Some(task)) => {
                *self.kthreads.at(task.0) = true;
            }
            (What::Member(cgroup), Some(task)) => *self.members.at(task.0) = Some(*cgroup),
            (What::Assign { cgroup, app }, _) => {
                *self.assigned.at(*cgroup as usize) = *app;
                self.due.get_mut().clear();
            }
            (What::Insert(DsqRef::User(queue)), _) => {
                if let Some(generation) = generation_of(*queue) {
                    *self.queued.or_insert(generation, 0) += 1;
                }
            }
            (What::Remove(DsqRef::User(queue)), _) => {
                let lane = generation_of(*queue).and_then(|of| self.queued.get_mut(of));
                if let Some(tasks) = lane {
                    *tasks -= 1;
                }
            }
            (What::Lanes(lanes), _) => {
                self.lanes = lanes.clone();
                self.queued.retain(|of, n| *n > 0 || lanes.iter().any(|l| l.generation == of));
                self.due.get_mut().clear();
            }
            (What::Detached, _) => {
                self.lanes = Rc::default();
                self.assigned.clear();
                self.due.get_mut().clear();
            }
            _ => {}
        }
    }

    /// The cgroup itself, the one above it, and so on to the root.
    pub fn line(&self, cgroup: u64) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(Some(cgroup), |id| self.above.get(*id as usize))
    }

    /// Every cgroup that was told of, with the one above it.
    pub fn cgroups(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        self.above.iter().map(|(id, above)| (id as u64, *above))
    }

    /// The application that a cgroup is assigned to itself.
    pub fn assigned_to(&self, cgroup: u64) -> Option<u32> {
        Some(self.assigned.get(cgroup as usize)).filter(|app| *app != 0)
    }

    /// The lane of an application that tasks come through.
    pub fn lane_of_app(&self, app: u32) -> Option<&LaneSeen> {
        self.lanes.iter().find(|lane| lane.is_apps() && !lane.quarantined && lane.app == app)
    }

    /// The application whose lane serves a cgroup; 0 where that is everything else's.
    pub fn app_of(&self, cgroup: u64) -> u32 {
        let app = self.line(cgroup).find_map(|id| self.assigned_to(id));
        app.and_then(|app| self.lane_of_app(app)).map_or(0, |lane| lane.app)
    }

    /// The cgroups that tasks are or were directly in.
    pub fn with_members(&self) -> BTreeSet<u64> {
        self.members.iter().filter_map(|(_, cgroup)| *cgroup).collect()
    }

    pub fn is_kthread(&self, task: TaskId) -> bool {
        self.kthreads.get(task.0)
    }

    pub fn cgroup_of(&self, task: TaskId) -> Option<u64> {
        self.members.get(task.0)
    }

    /// How many tasks have come to be in that cgroup, or one below it.
    pub fn members_below(&self, cgroup: u64) -> u64 {
        let is_below = |id: u64| self.line(id).any(|id| id == cgroup);
        self.members.iter().filter(|(_, id)| id.is_some_and(is_below)).count() as u64
    }

    /// How many tasks stand in the queues of the lane of that generation.
    pub fn queued(&self, generation: u64) -> usize {
        self.queued.get(generation).copied().unwrap_or(0)
    }

    pub fn lane(&self, generation: u64) -> Option<&LaneSeen> {
        self.lanes.iter().find(|lane| lane.generation == generation)
    }

    /// Whether applications have lanes of their own: only then does level 1 sweep.
    pub fn has_apps(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_apps())
    }

    /// The lane through which the task has to come when it is queued now: that of the
    /// nearest cgroup that is assigned to an application with a lane, or the root's.
    pub fn lane_due(&self, task: TaskId) -> Option<&LaneSeen> {
        // No cgroup has the number 0.
        let cgroup = self.cgroup_of(task).unwrap_or(0);
        let mut known = self.due.borrow_mut();
        let due = known.at(cgroup as usize);
        if due.is_none() {
            *due = self.find_lane_due(cgroup);
        }
        due.map(|at| &self.lanes[at])
    }

    fn find_lane_due(&self, cgroup: u64) -> Option<usize> {
        let assigned = |id: u64| Some(self.assigned.get(id as usize)).filter(|app| *app != 0);
        let app = self.line(cgroup).find_map(assigned);
        let of_app = |lane: &LaneSeen| lane.is_apps() && !lane.quarantined && Some(lane.app) == app;
        let root = || self.lanes.iter().position(|lane| lane.is_root());
        self.lanes.iter().position(of_app).or_else(root)
    }
}
