use super::cpus::Cpus;
use super::picture::{Picture, generation_of};
use super::served::{URGENT_NS, choice_ns, other_lane_ns};
use super::{Checker, ms};
use crate::dense::Dense;
use crate::dsq::{DsqRef, PARKED};
use crate::kinds::Kinds;
use crate::metasched::LaneState;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_abi::{DYING_DSQ, KTHREADS_DSQ};
use std::collections::{BTreeMap, BTreeSet};

/// A task is queued in its lane's queues only: those of the lane that was in force for its
/// cgroup when it was queued, or the one for tasks whose cgroups are throttled; a kernel
/// thread may stand in the one for those instead.
#[derive(Default)]
pub struct OneLanePerTask {
    picture: Picture,
    /// What was wrong with the latest insert. The sweep may take a lane away and queue
    /// tasks in one go, and the lanes are told of only after that.
    suspect: Option<(Observed, u64)>,
    /// The task that has just left a queue, and its lane: one that moves to another queue of the
    /// same lane, handed to a CPU, stays in it, also when that lane drains.
    left: Option<(TaskId, u64)>,
}

impl OneLanePerTask {
    fn judge(&self, event: &Observed, queue: u64) -> Result<(), String> {
        let Some(task) = event.task else { return Ok(()) };
        let Some(generation) = generation_of(queue) else {
            return match queue {
                _ if PARKED.contains(&queue) || queue == DYING_DSQ => Ok(()),
                KTHREADS_DSQ if self.picture.is_kthread(task) => Ok(()),
                _ => Err(format!("task {} is put into queue {queue:#x}, no lane's", task.0)),
            };
        };
        match self.picture.lane_due(task) {
            Some(due) if due.generation == generation => Ok(()),
            due => Err(format!(
                "task {} is put into a queue of lane {generation}; its lane is {:?}",
                task.0,
                due.map(|lane| lane.generation)
            )),
        }
    }

    fn rejudge(&mut self) -> Result<(), String> {
        match self.suspect.take() {
            Some((event, queue)) => self.judge(&event, queue),
            None => Ok(()),
        }
    }
}

impl Checker for OneLanePerTask {
    fn name(&self) -> &'static str {
        "one_lane_per_task"
    }

    fn wants(&self) -> Kinds {
        Picture::OF_CGROUPS.and(Kinds::INSERT).and(Kinds::REMOVE)
    }

    fn look_at(&self) -> u64 {
        self.suspect.as_ref().map_or(u64::MAX, |(then, _)| then.at)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let over = self.suspect.as_ref().is_some_and(|(then, _)| then.at < event.at);
        if over {
            self.rejudge()?;
        }
        self.picture.take(event);
        match event.what {
            What::Lanes(_) => self.rejudge(),
            What::Remove(DsqRef::User(queue)) => {
                self.left = event.task.zip(generation_of(queue));
                Ok(())
            }
            What::Insert(DsqRef::User(queue)) => {
                let left = self.left.take();
                let moves = left.is_some() && left == event.task.zip(generation_of(queue));
                if !moves && self.suspect.is_none() && self.judge(event, queue).is_err() {
                    self.suspect = Some((event.clone(), queue));
                }
                Ok(())
            }
            What::Insert(_) => {
                self.left = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _now: u64) -> Result<(), String> {
        self.rejudge()
    }
}

/// Queues of a lane that is no longer served are empty, those of a freed lane are gone,
/// and nobody is put into a queue that is not there.
#[derive(Default)]
pub struct DeadLanesEmpty {
    picture: Picture,
    queues: BTreeSet<u64>,
    /// Whether there is a lane that is not served.
    unserved: bool,
}

impl Checker for DeadLanesEmpty {
    fn name(&self) -> &'static str {
        "dead_lanes_empty"
    }

    fn wants(&self) -> Kinds {
        Picture::OF_LANES.and(Kinds::MAKE_QUEUE).and(Kinds::DESTROY_QUEUE)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        self.picture.take(event);
        let task = event.task.map_or(0, |task| task.0);
        match &event.what {
            What::MakeQueue(id) => {
                self.queues.insert(*id);
            }
            What::DestroyQueue(id) => {
                self.queues.remove(id);
                let left = generation_of(*id).map_or(0, |of| self.picture.queued(of));
                if left > 0 {
                    return Err(format!("queue {id:#x} is destroyed, and its lane has {left}"));
                }
            }
            What::Insert(DsqRef::User(id)) => {
                if !self.queues.contains(id) {
                    return Err(format!("task {task} is put into queue {id:#x}, which is gone"));
                }
                let lane = generation_of(*id).filter(|_| self.unserved);
                let lane = lane.and_then(|of| self.picture.lane(of));
                if let Some(lane) = lane.filter(|lane| !lane.served) {
                    return Err(format!("task {task} is put into {lane:?}, which is not served"));
                }
            }
            What::Lanes(lanes) => {
                self.unserved = lanes.iter().any(|lane| !lane.served);
                for lane in lanes.iter().filter(|lane| !lane.served) {
                    let left = self.picture.queued(lane.generation);
                    if left > 0 {
                        return Err(format!("{left} tasks stand in {lane:?}, which is not served"));
                    }
                }
                let freed = |id: &&u64| {
                    generation_of(**id).is_some_and(|of| self.picture.lane(of).is_none())
                };
                if let Some(id) = self.queues.iter().find(freed) {
                    return Err(format!("queue {id:#x} is there, and its lane was freed"));
                }
            }
            What::Detached => self.unserved = false,
            _ => {}
        }
        Ok(())
    }
}

/// For each task that stands in lanes that drain, and each lane there is, a lane that was
/// replaced may take so long to get empty: such a lane is served at least once in the time that
/// [`super::AccountsServed`] allows, on a machine with few lanes.
fn drain_task_ns(tick_ns: u64) -> u64 {
    URGENT_NS + choice_ns(tick_ns) + FEW_LANES * other_lane_ns(tick_ns)
}

/// As many as that comes to in most runs.
const FEW_LANES: u64 = 8;

/// What [`drain_task_ns`] is while no application has a lane: eight of nine choices go to lanes that
/// drain, each for 2 ms, which ends at a tick or the one after; half as much again for what comes
/// between.
fn drain_task_alone_ns(tick_ns: u64) -> u64 {
    choice_ns(tick_ns) * 3 / 2
}

/// A lane that was replaced is empty soon: reassignment delays nobody by more than level 1
/// lets any task wait. Who may run only on CPUs that take no tasks waits until the kernel lets
/// it run elsewhere, and that is when they are off line.
pub struct LanesDrained {
    tick_ns: u64,
    picture: Picture,
    cpus: Cpus,
    /// The lane in a queue of which each task stands.
    stands: Dense<Option<u64>>,
    /// Lanes that drain, by generation.
    drains: BTreeMap<u64, Drain>,
    /// The newest generation.
    newest: u64,
    /// Up to then none of them can have taken too long.
    look_at: u64,
}

#[derive(Clone, Copy)]
struct Drain {
    since: u64,
    /// How many tasks and lanes were there before.
    before: u64,
    newest: u64,
    alone: bool,
}

impl LanesDrained {
    /// For a machine with so long between ticks.
    pub fn new(tick_ns: u64) -> Self {
        LanesDrained {
            tick_ns,
            picture: Picture::default(),
            cpus: Cpus::default(),
            stands: Dense::default(),
            drains: BTreeMap::new(),
            newest: 0,
            look_at: u64::MAX,
        }
    }

    /// When a lane that drains has to be empty.
    fn due(&self, drain: &Drain) -> u64 {
        let each = match drain.alone {
            true => drain_task_alone_ns(self.tick_ns),
            false => drain_task_ns(self.tick_ns),
        };
        // A lane that is made meanwhile comes first once.
        drain.since + (drain.before + self.newest - drain.newest) * each
    }

    /// How many tasks stand in a lane that a CPU could run.
    fn left(&self, generation: u64) -> usize {
        let stands = self.stands.iter().filter(|(_, lane)| **lane == Some(generation));
        stands.filter(|(task, _)| self.cpus.may_run(TaskId(*task))).count()
    }
}

impl Checker for LanesDrained {
    fn name(&self) -> &'static str {
        "lanes_drained"
    }

    fn wants(&self) -> Kinds {
        Picture::OF_LANES.and(Cpus::ON_LINE).and(Cpus::OF_TASKS)
    }

    fn look_at(&self) -> u64 {
        self.look_at
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        self.cpus.take(event);
        self.picture.take(event);
        match (&event.what, event.task) {
            (What::Detached, _) => {
                self.drains.clear();
                self.stands.clear();
            }
            (What::Insert(DsqRef::User(queue)), Some(task)) => {
                *self.stands.at(task.0) = generation_of(*queue);
            }
            (What::Remove(DsqRef::User(_)), Some(task)) => *self.stands.at(task.0) = None,
            _ => {}
        }
        if let What::Lanes(lanes) = &event.what {
            let drain = || lanes.iter().filter(|lane| lane.state == LaneState::Draining);
            let tasks: u64 = drain().map(|lane| self.picture.queued(lane.generation) as u64).sum();
            let newest = lanes.iter().map(|lane| lane.generation).max().unwrap_or(0);
            self.newest = self.newest.max(newest);
            let (before, newest) = (tasks + lanes.len() as u64, self.newest);
            // A lane whose policy does not dispatch is emptied by level 1, as slowly as that serves it.
            let alone = !self.picture.has_apps() && drain().all(|lane| lane.has_a_real_policy());
            for lane in drain() {
                let drain = Drain { since: event.at, before, newest, alone };
                let drain = self.drains.entry(lane.generation).or_insert(drain);
                drain.alone &= alone;
            }
            self.drains.retain(|of, _| drain().any(|lane| lane.generation == *of));
        }
        if matches!(event.what, What::Lanes(_) | What::Detached) {
            self.look_at = self.drains.values().map(|d| self.due(d)).min().unwrap_or(u64::MAX);
        }
        self.finish(event.at)
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        if now <= self.look_at {
            return Ok(());
        }
        for (generation, drain) in &self.drains {
            if now <= self.due(drain) || self.picture.lane(*generation).is_none() {
                continue;
            }
            let left = self.left(*generation);
            if left > 0 {
                return Err(format!(
                    "lane {generation} drains for {}, and {left} tasks stand in it still",
                    ms(now - drain.since)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed, lane};
    use super::*;
    use crate::abi::CpuMask;
    use metasched_abi::LANE_DSQ_BITS;
    use std::rc::Rc;
    const TICK_NS: u64 = 4_000_000;

    use LaneState::{Draining, InForce, Retired};

    fn queue_of(generation: u64) -> DsqRef {
        DsqRef::User(generation << LANE_DSQ_BITS)
    }

    /// Lanes 1 (root) and 2 (application 5), and task 0 in cgroup 7, below 6.
    fn machine() -> Vec<(u64, usize, usize, What)> {
        vec![
            (0, 0, 0, What::Cgroup { id: 6, above: None }),
            (0, 0, 0, What::Cgroup { id: 7, above: Some(6) }),
            (0, 0, 0, What::MakeQueue(1 << LANE_DSQ_BITS)),
            (0, 0, 0, What::MakeQueue(2 << LANE_DSQ_BITS)),
            (0, 0, 0, What::Lanes([lane(1, InForce, 0), lane(2, InForce, 5)].into())),
            (0, 0, 0, arrive(&[0])),
            (0, 0, 0, What::Member(7)),
        ]
    }

    #[test]
    fn a_task_in_another_lanes_queue_is_caught() {
        let mut checker = OneLanePerTask::default();
        feed(&mut checker, machine()).unwrap();
        feed(&mut checker, [(1, 0, 0, What::Insert(queue_of(1)))]).unwrap();
        feed(&mut checker, [(2, 0, 0, What::Assign { cgroup: 6, app: 5 })]).unwrap();
        feed(&mut checker, [(3, 0, 0, What::Insert(queue_of(2)))]).unwrap();
        feed(&mut checker, [(4, 0, 0, What::Insert(queue_of(1)))]).unwrap();
        assert!(checker.finish(5).unwrap_err().contains("its lane is Some(2)"));
    }

    #[test]
    fn a_task_among_the_kernel_threads_is_caught_unless_it_is_one() {
        let mut checker = OneLanePerTask::default();
        feed(&mut checker, machine()).unwrap();
        let allowed = Rc::default();
        feed(&mut checker, [(0, 0, 1, What::Arrive { weight: 100, allowed, kthread: true })])
            .unwrap();
        feed(&mut checker, [(1, 0, 1, What::Insert(DsqRef::User(KTHREADS_DSQ)))]).unwrap();
        feed(&mut checker, [(2, 0, 0, What::Insert(DsqRef::User(KTHREADS_DSQ)))]).unwrap();
        assert!(checker.finish(3).unwrap_err().contains("task 0 is put into queue 0x2, no lane's"));
    }

    #[test]
    fn a_lane_that_is_told_of_after_the_insert_counts() {
        let mut checker = OneLanePerTask::default();
        feed(&mut checker, machine()).unwrap();
        let later = What::Lanes([lane(3, InForce, 0)].into());
        feed(&mut checker, [(1, 0, 0, What::Insert(queue_of(3))), (1, 0, 0, later)]).unwrap();
        checker.finish(2).unwrap();
    }

    #[test]
    fn a_task_in_a_lane_that_is_retired_is_caught() {
        let mut checker = DeadLanesEmpty::default();
        feed(&mut checker, machine()).unwrap();
        feed(&mut checker, [(1, 0, 0, What::Insert(queue_of(2)))]).unwrap();
        let mut dead = lane(2, Retired, 5);
        dead.served = false;
        let after = What::Lanes([lane(1, InForce, 0), dead].into());
        assert!(feed(&mut checker, [(2, 0, 0, after)]).unwrap_err().contains("not served"));
    }

    #[test]
    fn a_queue_that_outlives_its_lane_is_caught() {
        let mut checker = DeadLanesEmpty::default();
        feed(&mut checker, machine()).unwrap();
        let after = What::Lanes([lane(1, InForce, 0)].into());
        assert!(feed(&mut checker, [(2, 0, 0, after)]).unwrap_err().contains("0x2000000 is there"));
    }

    #[test]
    fn a_lane_that_never_gets_empty_is_caught() {
        let mut checker = LanesDrained::new(TICK_NS);
        feed(&mut checker, machine()).unwrap();
        feed(&mut checker, [(1, 0, 0, What::Insert(queue_of(2)))]).unwrap();
        let after = What::Lanes([lane(1, InForce, 0), lane(2, Draining, 5)].into());
        feed(&mut checker, [(2, 0, 0, after)]).unwrap();
        let until = 2 + 3 * drain_task_alone_ns(TICK_NS);
        checker.finish(until).unwrap();
        assert!(checker.finish(until + 1).unwrap_err().contains("lane 2 drains"));
        feed(&mut checker, [(9, 0, 0, What::Remove(queue_of(2)))]).unwrap();
        checker.finish(until + 1).unwrap();
    }

    #[test]
    fn who_may_run_only_where_no_cpu_takes_tasks_is_waited_for() {
        let mut checker = LanesDrained::new(TICK_NS);
        feed(&mut checker, machine()).unwrap();
        let only_cpu_1 = || What::Allowed(Rc::new(CpuMask::one(1)));
        let after = What::Lanes([lane(1, InForce, 0), lane(2, Draining, 5)].into());
        let goes = [
            (1, 1, 0, only_cpu_1()),
            (1, 1, 0, What::Insert(queue_of(2))),
            (2, 1, 0, What::Offline),
            (2, 0, 0, after),
        ];
        feed(&mut checker, goes).unwrap();
        let until = 2 + 3 * drain_task_alone_ns(TICK_NS);
        checker.finish(until + 1).unwrap();
        let anywhere = What::Allowed(Rc::new(CpuMask::first(2)));
        let error = feed(&mut checker, [(until + 2, 0, 0, anywhere)]).unwrap_err();
        assert!(error.contains("and 1 tasks stand in it still"), "{error}");
    }
}
