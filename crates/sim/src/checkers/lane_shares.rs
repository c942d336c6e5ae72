use super::Checker;
use super::hierarchy::Weights;
use super::picture::Picture;
use crate::abi::CpuMask;
use crate::kinds::Kinds;
use crate::metasched::{LaneSeen, LaneState};
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Shares are compared over so long: some hundred slices of 2 ms that end at a tick.
const WINDOW_NS: u64 = 1_000_000_000;
/// A lane whose share is less than this much of one CPU gets more than its share: after
/// 32 ms it comes first, and then runs for a tick.
const LEAST_CPUS: f64 = 1.0 / 8.0;

/// Lanes that have work for every CPU all the time get the CPU time that the hierarchy of
/// cgroups leaves them.
///
/// Compared are the lanes that had at least as many tasks as there are CPUs, all of which may
/// run anywhere, throughout a window and the one before it, if nothing else changed either. A
/// cgroup that had work at some times and not at others may count or not.
pub struct LaneShares {
    cpus: usize,
    tolerance: f64,
    picture: Picture,
    weights: Weights,
    tasks: BTreeMap<TaskId, Wants>,
    /// Cgroups that began or ceased to have work in this window, and in the one before it.
    flickers: BTreeSet<u64>,
    flickered: BTreeSet<u64>,
    /// When the window began, and whether the one before it was as quiet.
    from: u64,
    settled: bool,
    lanes: BTreeMap<u64, Busy>,
}

#[derive(Default)]
struct Wants {
    anywhere: bool,
    runnable: bool,
    /// It waits for its cgroup's limit, and not for a CPU.
    parked: bool,
    since: Option<u64>,
}

#[derive(Default)]
struct Busy {
    ran_ns: u64,
    /// Whether it had enough to do at every moment of this window, and of the last.
    saturated: bool,
    before: bool,
}

impl LaneShares {
    /// For a machine of so many CPUs; the tolerance is a part of what is due.
    pub fn new(cpus: usize, tolerance: f64) -> Self {
        LaneShares {
            cpus,
            tolerance,
            picture: Picture::default(),
            weights: Weights::default(),
            flickers: BTreeSet::new(),
            flickered: BTreeSet::new(),
            tasks: BTreeMap::new(),
            from: 0,
            settled: false,
            lanes: BTreeMap::new(),
        }
    }

    /// Kernel threads are no lane's: nobody pays for them.
    fn lane_of(&self, task: TaskId) -> Option<u64> {
        let due = self.picture.lane_due(task).filter(|_| !self.picture.is_kthread(task));
        due.map(|lane| lane.generation)
    }

    fn count(&mut self, task: TaskId, now: u64) {
        let lane = self.lane_of(task);
        let Some(since) = self.tasks.get_mut(&task).and_then(|wants| wants.since.as_mut()) else {
            return;
        };
        let ran = now - std::mem::replace(since, now).max(self.from);
        if let Some(lane) = lane {
            self.lanes.entry(lane).or_default().ran_ns += ran;
        }
    }

    /// How many tasks of a lane want a CPU, any CPU.
    fn wanting(&self, lane: u64) -> usize {
        let of_lane = |(task, wants): &(&TaskId, &Wants)| {
            let now = wants.runnable && !wants.parked;
            now && wants.anywhere && self.lane_of(**task) == Some(lane)
        };
        self.tasks.iter().filter(of_lane).count()
    }

    /// The window begins again: what is known of it does not count.
    fn begin(&mut self, now: u64, settled: bool) {
        for task in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.count(task, now);
        }
        (self.from, self.settled) = (now, settled);
        self.flickered = std::mem::take(&mut self.flickers);
        let before = std::mem::take(&mut self.lanes);
        for lane in self.picture.lanes.clone().iter() {
            let busy = Busy {
                ran_ns: 0,
                saturated: self.wanting(lane.generation) >= self.cpus,
                before: settled && before.get(&lane.generation).is_some_and(|b| b.saturated),
            };
            self.lanes.insert(lane.generation, busy);
        }
    }

    fn compare(&self) -> Result<(), String> {
        // What level 1 itself serves of a lane has no share. A lane that leaves CPUs idle beside its
        // tasks, as pair does for one of another cgroup, has what it takes.
        let takes_all = |lane: &&LaneSeen| lane.conserves || self.cpus == 1;
        let in_force = |lane: &&LaneSeen| {
            lane.state == LaneState::InForce && lane.has_a_real_policy() && takes_all(lane)
        };
        let all = self.picture.lanes.iter();
        let busy: Vec<(&LaneSeen, u64)> = all
            .filter(in_force)
            .filter_map(|lane| Some((lane, self.lanes.get(&lane.generation)?)))
            .filter(|(_, busy)| busy.saturated && busy.before)
            .map(|(lane, busy)| (lane, busy.ran_ns))
            .collect();
        let total: u64 = busy.iter().map(|(_, ran)| ran).sum();
        let apps: BTreeSet<u32> = busy.iter().map(|(lane, _)| lane.app).collect();
        for (lane, ran) in &busy {
            let (least, most) = self.due_part(lane.app, &apps);
            let (least, most) = (least * total as f64, most * total as f64);
            if least < LEAST_CPUS * WINDOW_NS as f64 {
                return Ok(());
            }
            let ran = *ran as f64;
            if ran < least * (1.0 - self.tolerance) || ran > most * (1.0 + self.tolerance) {
                return Err(format!(
                    "lane {} ran for {:.0} ms beside others, {:.0} to {:.0} ms are due",
                    lane.generation,
                    ran / 1e6,
                    least / 1e6,
                    most / 1e6
                ));
            }
        }
        Ok(())
    }

    /// The least and the most that is due to an application of what all of some have, whoever of
    /// those that flicker has work: sought from its own at rest and all others at work, and the
    /// other way round, by one cgroup at a time.
    fn due_part(&self, app: u32, apps: &BTreeSet<u32>) -> (f64, f64) {
        let flickers: BTreeSet<u64> = self.flickers.union(&self.flickered).copied().collect();
        let steady = self.tasks.iter().filter(|(_, wants)| wants.runnable);
        let steady: BTreeSet<u64> = steady.filter_map(|(task, _)| self.counts_for(*task)).collect();
        let part = |busy: &BTreeSet<u64>| {
            let shares = self.weights.shares(&self.picture, busy);
            let of = |app: &u32| shares.get(app).copied().unwrap_or(0.0);
            of(&app) / apps.iter().map(of).sum::<f64>()
        };
        let extreme = |most: bool| {
            let is_own = |id: &&u64| (self.picture.app_of(**id) == app) == most;
            let mut busy: BTreeSet<u64> = steady.difference(&flickers).copied().collect();
            busy.extend(flickers.iter().filter(is_own));
            let mut found = part(&busy);
            for id in &flickers {
                let mut other = busy.clone();
                if !other.remove(id) {
                    other.insert(*id);
                }
                let part = part(&other);
                if (most && part > found) || (!most && part < found) {
                    (busy, found) = (other, part);
                }
            }
            found
        };
        (extreme(false), extreme(true))
    }

    /// The cgroup of a task that has a share.
    fn counts_for(&self, task: TaskId) -> Option<u64> {
        self.picture.cgroup_of(task).filter(|_| !self.picture.is_kthread(task))
    }

    /// The task wants no CPU any more: whether its lane has enough others that do.
    fn wants_less(&mut self, task: TaskId) {
        if let Some(lane) = self.lane_of(task)
            && self.lanes.get(&lane).is_some_and(|busy| busy.saturated)
            && self.wanting(lane) < self.cpus
        {
            self.lanes.entry(lane).or_default().saturated = false;
        }
    }

    /// The task wants to run, or does no more: whether its cgroup has others that do.
    fn flicker(&mut self, task: TaskId) {
        let Some(cgroup) = self.counts_for(task) else { return };
        let others = |(other, wants): (&TaskId, &Wants)| {
            *other != task && wants.runnable && self.counts_for(*other) == Some(cgroup)
        };
        if !self.flickers.contains(&cgroup) && !self.tasks.iter().any(others) {
            self.flickers.insert(cgroup);
        }
    }

    fn changes(&self, what: &What) -> bool {
        match what {
            What::Lanes(lanes) => **lanes != *self.picture.lanes,
            What::CgroupWeight { .. } => true,
            What::Arrive { .. } | What::Member(_) | What::Allowed(_) | What::Weight(_) => true,
            What::Limit { .. } | What::Assign { .. } | What::Detached => true,
            What::Bypass(_) | What::Offline | What::Online => true,
            _ => false,
        }
    }

    fn quiet(&self) -> bool {
        let asked = |lane: &LaneSeen| {
            !lane.quarantined && !matches!(lane.state, LaneState::Draining | LaneState::Resting)
        };
        self.picture.lanes.iter().all(asked)
    }
}

impl Checker for LaneShares {
    fn name(&self) -> &'static str {
        "lane_shares"
    }

    fn wants(&self) -> Kinds {
        let changes = Kinds::ARRIVE.and(Kinds::ALLOWED).and(Kinds::WEIGHT).and(Kinds::LIMIT);
        let changes = changes.and(Kinds::CGROUP_WEIGHT);
        let machine = Kinds::BYPASS.and(Kinds::OFFLINE).and(Kinds::ONLINE);
        let runs = Kinds::WAKE.and(Kinds::START).and(Kinds::STOP).and(Kinds::SLEEP);
        let runs = runs.and(Kinds::INSERT).and(Kinds::REMOVE);
        Picture::OF_CGROUPS.and(changes).and(machine).and(runs).and(Kinds::EXIT)
    }

    fn look_at(&self) -> u64 {
        self.from + WINDOW_NS - 1
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let mut said = Ok(());
        if event.at >= self.from + WINDOW_NS {
            for task in self.tasks.keys().copied().collect::<Vec<_>>() {
                self.count(task, event.at);
            }
            if self.settled && self.quiet() {
                said = self.compare();
            }
            self.begin(event.at, true);
        }
        let changes = self.changes(&event.what);
        if let (true, Some(task)) = (changes, event.task) {
            self.count(task, event.at);
        }
        self.picture.take(event);
        self.weights.take(&event.what);
        if let Some(task) = event.task
            && matches!(event.what, What::Wake | What::Sleep | What::Exit)
        {
            self.flicker(task);
        }
        if let Some(task) = event.task {
            let anywhere = |allowed: &Rc<CpuMask>| (0..self.cpus).all(|cpu| allowed.has(cpu));
            let wants = self.tasks.entry(task).or_default();
            match &event.what {
                What::Arrive { allowed, .. } | What::Allowed(allowed) => {
                    wants.anywhere = anywhere(allowed);
                }
                What::Wake => wants.runnable = true,
                What::Start => wants.since = Some(event.at),
                What::Sleep | What::Exit => {
                    wants.runnable = false;
                    self.wants_less(task);
                }
                What::Insert(queue) if queue.throttles() => {
                    wants.parked = true;
                    self.wants_less(task);
                }
                What::Remove(queue) if queue.throttles() => wants.parked = false,
                What::Stop { .. } => {
                    self.count(task, event.at);
                    self.tasks.entry(task).or_default().since = None;
                }
                _ => {}
            }
        }
        if changes {
            self.begin(event.at, false);
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed, lane};
    use super::*;

    /// Two lanes of weights 100 and 300 whose tasks run in turns of those lengths, one CPU.
    fn turns(first_ns: u64, second_ns: u64) -> Result<(), String> {
        let mut checker = LaneShares::new(1, 0.2);
        let mut heavy = lane(2, LaneState::InForce, 1);
        heavy.given = Some(300);
        let lanes = [lane(1, LaneState::InForce, 0), heavy];
        let start = [
            (0, 0, 0, What::Cgroup { id: 1, above: None }),
            (0, 0, 0, What::Cgroup { id: 2, above: Some(1) }),
            (0, 0, 0, What::Lanes(lanes.into())),
            (0, 0, 0, What::Assign { cgroup: 2, app: 1 }),
        ];
        feed(&mut checker, start)?;
        for (task, cgroup) in [(1, 1), (2, 2)] {
            let life = [arrive(&[0]), What::Member(cgroup), What::Wake];
            feed(&mut checker, life.map(|what| (0, 0, task, what)))?;
        }
        let mut at = 0;
        while at < 3 * WINDOW_NS {
            for (task, ns) in [(1, first_ns), (2, second_ns)] {
                let stop = What::Stop { runnable: true };
                feed(&mut checker, [(at, 0, task, What::Start), (at + ns, 0, task, stop)])?;
                at += ns;
            }
        }
        Ok(())
    }

    #[test]
    fn lanes_want_time_by_their_weights() {
        turns(4_000_000, 12_000_000).unwrap();
        assert!(turns(8_000_000, 8_000_000).unwrap_err().contains("are due"));
    }
}
