use super::cpus::Cpus;
use super::hierarchy::Weights;
use super::picture::{ByLane, Picture, generation_of};
use super::{Checker, ms};
use crate::dense::Dense;
use crate::dsq::DsqRef;
use crate::kinds::Kinds;
use crate::metasched::{LAZY, LaneSeen, LaneState};
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_abi::{
    QUARANTINE_SWEEPS, SHARED_SLICE_NS, SWEEP_NS, URGENT_MOST_SWEEPS, URGENT_SWEEPS,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// After so long without, an account with queued work is urgent: a sweep that comes late, one
/// that still finds it served since the last, and those that have to pass.
pub(super) const URGENT_NS: u64 = (URGENT_SWEEPS + 2) * SWEEP_NS;
/// After so long an account with the least share of many is urgent.
const URGENT_MOST_NS: u64 = (URGENT_MOST_SWEEPS + 2) * SWEEP_NS;
/// What runs when an account gets urgent may have begun with a long slice: a tick cuts it, the
/// next one ends it. A kernel thread may come in between.
pub(super) fn choice_ns(tick_ns: u64) -> u64 {
    2 * tick_ns + SHARED_SLICE_NS
}

/// Each other account may be as urgent: a slice, seen at a tick.
pub(super) fn other_lane_ns(tick_ns: u64) -> u64 {
    tick_ns + SHARED_SLICE_NS
}

/// Of more cgroups of an account it is not tried which leaves it the least share.
const CGROUPS_TRIED: usize = 8;

/// While applications have lanes, no account with queued work waits longer than a bound,
/// which depends on the number of accounts and of new lanes, and on its share where that is small.
pub struct AccountsServed {
    cpus: usize,
    on_line: Cpus,
    tick_ns: u64,
    picture: Picture,
    weights: Weights,
    /// After how long each account is urgent, where somebody has asked since shares changed.
    urgent: RefCell<BTreeMap<u32, u64>>,
    apps_since: Option<u64>,
    /// Accounts with queued work, by their application's number.
    unserved: BTreeMap<u32, Unserved>,
    /// The account of the lane in whose queue a task stood last before it ran.
    came_through: Dense<Option<u32>>,
    /// The task that each CPU runs: a policy may let one go on without queueing it.
    running: Dense<Option<TaskId>>,
    newest: u64,
    /// Up to then no account can have waited for too long.
    look_at: u64,
}

/// An account that has work and is not served.
#[derive(Clone, Copy)]
struct Unserved {
    since: u64,
    /// How many generations of lanes had been given out by then.
    newest: u64,
    /// After how long it is urgent in any case; where shares have changed since, any may have
    /// been its own.
    urgent_ns: u64,
}

impl AccountsServed {
    /// What changes shares, and how many CPUs make them.
    const OF_SHARES: Kinds = Picture::OF_CGROUPS.and(Kinds::CGROUP_WEIGHT).and(Cpus::ON_LINE);

    /// For a machine of so many CPUs with so long between ticks.
    pub fn new(cpus: usize, tick_ns: u64) -> Self {
        AccountsServed {
            cpus,
            on_line: Cpus::default(),
            tick_ns,
            picture: Picture::default(),
            weights: Weights::default(),
            urgent: RefCell::default(),
            apps_since: None,
            unserved: BTreeMap::new(),
            came_through: Dense::default(),
            running: Dense::default(),
            newest: 0,
            look_at: 0,
        }
    }

    /// The account of a lane, by its generation. One that is told of after the insert is the
    /// task's own.
    fn account_of(&self, generation: u64, task: TaskId) -> Option<u32> {
        let lane = self.picture.lane(generation).or_else(|| self.picture.lane_due(task));
        lane.map(|lane| lane.app)
    }

    /// The accounts for which a task runs: that of the lane that it came through, and its own
    /// by now, since it may have gone straight to an idle CPU, or over to that one.
    fn accounts_of(&self, task: TaskId) -> [Option<u32>; 2] {
        let due = self.picture.lane_due(task).filter(|_| !self.picture.is_kthread(task));
        [self.came_through.get(task.0), due.map(|lane| lane.app)]
    }

    /// How many tasks stand in the queues of an account's lanes.
    fn queued(&self, account: u32) -> usize {
        let its = self.picture.lanes.iter().filter(|lane| lane.app == account);
        its.map(|lane| self.picture.queued(lane.generation)).sum()
    }

    fn unserved_from(&self, since: u64) -> Unserved {
        Unserved { since, newest: self.newest, urgent_ns: URGENT_NS }
    }

    fn changes_shares(&self, what: &What) -> bool {
        match what {
            What::Lanes(lanes) => **lanes != *self.picture.lanes,
            what => Self::OF_SHARES.has(what.kind()),
        }
    }

    /// After how long an account is urgent at the latest: twice as long as level 1 says, since who
    /// has work is known to it some sweeps later, and with the least share that it could have.
    fn urgent_ns(&self, account: u32) -> u64 {
        *self.urgent.borrow_mut().entry(account).or_insert_with(|| {
            let online = (self.cpus - self.on_line.offline()).max(1);
            let slice_ns = SHARED_SLICE_NS as f64 / (self.least_share(account) * online as f64);
            ((4.0 * slice_ns) as u64).clamp(URGENT_NS, URGENT_MOST_NS)
        })
    }

    /// The share of an account of which one cgroup alone has work, beside all others; 0 where it
    /// has more cgroups than are tried, or none any more, whose tasks still stand there.
    fn least_share(&self, account: u32) -> f64 {
        let members = self.picture.with_members();
        let (own, others): (BTreeSet<u64>, BTreeSet<u64>) =
            members.iter().partition(|id| self.picture.app_of(**id) == account);
        if own.is_empty() || own.len() > CGROUPS_TRIED {
            return 0.0;
        }
        let share = |id: &u64| {
            let mut busy = others.clone();
            busy.insert(*id);
            self.weights.shares(&self.picture, &busy).get(&account).copied().unwrap_or(0.0)
        };
        own.iter().map(share).fold(1.0, f64::min)
    }

    fn overdue(&mut self, now: u64) -> Result<(), String> {
        if now <= self.look_at {
            return Ok(());
        }
        let Some(apps_since) = self.apps_since else {
            self.look_at = u64::MAX;
            return Ok(());
        };
        let accounts: BTreeSet<u32> = self.picture.lanes.iter().map(|lane| lane.app).collect();
        // What is not served from now on, or runs, has all of that time.
        let mut look_at = now + URGENT_NS;
        for (account, unserved) in &self.unserved {
            let mut running = self.running.iter().filter_map(|(_, task)| *task);
            if running.any(|task| self.accounts_of(task).contains(&Some(*account))) {
                continue;
            }
            let since = unserved.since.max(apps_since);
            // The first task of a lane that is made meanwhile comes first once.
            let others = accounts.len() as u64 + (self.newest - unserved.newest);
            let choices = choice_ns(self.tick_ns) + others * other_lane_ns(self.tick_ns);
            let mut bound = unserved.urgent_ns + choices;
            if now - since > bound {
                bound = self.urgent_ns(*account).max(unserved.urgent_ns) + choices;
            }
            if now - since > bound {
                return Err(format!(
                    "account {account} has {} tasks queued and was not served for {}; the bound \
                     is {}",
                    self.queued(*account),
                    ms(now - since),
                    ms(bound)
                ));
            }
            look_at = look_at.min(since + bound);
        }
        self.look_at = look_at;
        Ok(())
    }
}

impl Checker for AccountsServed {
    fn name(&self) -> &'static str {
        "accounts_served"
    }

    fn wants(&self) -> Kinds {
        Picture::OF_LANES.and(Self::OF_SHARES).and(Kinds::START).and(Kinds::STOP)
    }

    fn look_at(&self) -> u64 {
        self.look_at
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let said = self.overdue(event.at);
        if self.changes_shares(&event.what) {
            self.urgent.borrow_mut().clear();
            for unserved in self.unserved.values_mut() {
                unserved.urgent_ns = URGENT_MOST_NS;
            }
        }
        self.on_line.take(event);
        self.picture.take(event);
        self.weights.take(&event.what);
        match (&event.what, event.task) {
            (What::Lanes(lanes), _) => {
                let newest = lanes.iter().map(|lane| lane.generation).max().unwrap_or(0);
                self.newest = self.newest.max(newest);
                let since = self.picture.has_apps().then_some(event.at);
                self.apps_since = since.map(|at| self.apps_since.unwrap_or(at));
                // With fewer accounts bounds are shorter.
                self.look_at = event.at;
            }
            (What::Insert(DsqRef::User(queue)), Some(task)) => {
                let account = generation_of(*queue).and_then(|of| self.account_of(of, task));
                if let Some(account) = account {
                    *self.came_through.at(task.0) = Some(account);
                    let unserved = self.unserved_from(event.at);
                    self.unserved.entry(account).or_insert(unserved);
                }
            }
            (What::Remove(DsqRef::User(queue)), Some(task)) => {
                let account = generation_of(*queue).and_then(|of| self.account_of(of, task));
                if let Some(account) = account
                    && self.queued(account) == 0
                {
                    self.unserved.remove(&account);
                }
            }
            (What::Start, Some(task)) => *self.running.at(event.cpu) = Some(task),
            (What::Stop { .. }, Some(task)) => {
                *self.running.at(event.cpu) = None;
                for account in self.accounts_of(task).into_iter().flatten() {
                    let from_now = self.unserved_from(event.at);
                    if let Some(unserved) = self.unserved.get_mut(&account) {
                        *unserved = from_now;
                    }
                }
                *self.came_through.at(task.0) = None;
            }
            // Lanes of another program may have the same generations.
            (What::Detached, _) => {
                self.apps_since = None;
                self.unserved.clear();
                self.came_through.clear();
                self.running.clear();
            }
            _ => {}
        }
        said
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.overdue(now)
    }
}

/// A lane whose policy does not dispatch is in quarantine by then: it has to be urgent once,
/// so that level 1 tries itself, and unserved for as many sweeps as it takes. The kernel's
/// watchdog would end everything after 30 s.
const QUARANTINE_NS: u64 = QUARANTINE_SWEEPS * SWEEP_NS + 2 * URGENT_NS;

/// A lane whose policy takes tasks and gives no CPU any is put in quarantine. What drains for the
/// same account comes before it, and is served.
#[derive(Default)]
pub struct Quarantined {
    picture: Picture,
    apps_since: Option<u64>,
    /// Since when lanes, by generation, have had work throughout.
    busy_since: ByLane<u64>,
    /// Those that have none, and since when: one whose last task takes the place of another
    /// has work again at the same moment.
    empty_since: ByLane<u64>,
    /// When each account last had a task in a lane that is no longer in force.
    drained_at: BTreeMap<u32, u64>,
    /// Whether a lane has a policy that does not dispatch.
    lazy: bool,
}

impl Checker for Quarantined {
    fn name(&self) -> &'static str {
        "quarantined_in_time"
    }

    fn wants(&self) -> Kinds {
        Picture::OF_LANES
    }

    fn look_at(&self) -> u64 {
        if self.lazy { 0 } else { u64::MAX }
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let said = self.finish(event.at);
        self.picture.take(event);
        match event.what {
            What::Lanes(_) => {
                let since = self.picture.has_apps().then_some(event.at);
                self.apps_since = since.map(|at| self.apps_since.unwrap_or(at));
                self.lazy = !self.picture.lanes.iter().all(LaneSeen::has_a_real_policy);
            }
            What::Insert(DsqRef::User(queue)) => {
                let Some(generation) = generation_of(queue) else { return said };
                let emptied = self.empty_since.remove(generation);
                if emptied.is_none_or(|at| at < event.at) {
                    let since = self.busy_since.or_insert(generation, event.at);
                    if emptied.is_some() {
                        *since = event.at;
                    }
                }
            }
            What::Remove(DsqRef::User(queue)) => {
                let Some(generation) = generation_of(queue) else { return said };
                if self.picture.queued(generation) == 0 {
                    *self.empty_since.or_insert(generation, event.at) = event.at;
                }
                let of = self.picture.lane(generation);
                if let Some(lane) = of.filter(|lane| lane.state == LaneState::Draining) {
                    self.drained_at.insert(lane.app, event.at);
                }
            }
            // Lanes of another program may have the same generations.
            What::Detached => {
                self.apps_since = None;
                self.busy_since.clear();
                self.empty_since.clear();
                self.drained_at.clear();
                self.lazy = false;
            }
            _ => {}
        }
        said
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        let Some(apps_since) = self.apps_since.filter(|_| self.lazy) else { return Ok(()) };
        for lane in self.picture.lanes.iter() {
            let Some(since) = self.busy_since.get(lane.generation) else { continue };
            let asked = lane.state == LaneState::InForce;
            let drained_at = self.drained_at.get(&lane.app).copied().unwrap_or(0);
            let busy = now - (*since).max(apps_since).max(drained_at);
            let queued = self.empty_since.get(lane.generation).is_none();
            let lazy = !lane.has_a_real_policy();
            if lazy && asked && !lane.quarantined && queued && busy > QUARANTINE_NS {
                return Err(format!(
                    "lane {} has the policy '{LAZY}', and work for {}; it is not in quarantine",
                    lane.generation,
                    ms(busy)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{feed, lane};
    use super::*;
    use crate::metasched::POLICIES;
    use LaneState::InForce;
    use metasched_abi::LANE_DSQ_BITS;

    const QUEUE: DsqRef = DsqRef::User(2 << LANE_DSQ_BITS);
    const TICK_NS: u64 = 4_000_000;
    const BOUND: u64 = URGENT_NS + (2 * TICK_NS + 2_000_000) + 2 * (TICK_NS + 2_000_000);

    /// Everything else has a task, and so has application 1 on its lane.
    fn two_lanes() -> AccountsServed {
        let mut checker = AccountsServed::new(1, TICK_NS);
        let cgroups = [
            (0, 0, 0, What::Cgroup { id: 1, above: None }),
            (0, 0, 0, What::Cgroup { id: 2, above: Some(1) }),
            (0, 0, 0, What::Lanes([lane(1, InForce, 0), lane(2, InForce, 1)].into())),
            (0, 0, 0, What::Assign { cgroup: 2, app: 1 }),
            (0, 0, 1, What::Member(1)),
            (0, 0, 3, What::Member(2)),
        ];
        feed(&mut checker, cgroups).unwrap();
        checker
    }

    #[test]
    fn an_account_that_is_not_served_is_caught() {
        let mut checker = two_lanes();
        feed(&mut checker, [(0, 0, 3, What::Insert(QUEUE))]).unwrap();
        checker.finish(BOUND).unwrap();
        assert!(checker.finish(BOUND + 1).unwrap_err().starts_with("account 1 has 1 tasks queued"));
    }

    #[test]
    fn an_account_that_gives_a_cpu_a_task_is_served() {
        let mut checker = two_lanes();
        let served = [
            (0, 0, 3, What::Insert(QUEUE)),
            (0, 0, 4, What::Insert(QUEUE)),
            (7, 0, 3, What::Remove(QUEUE)),
            (7, 0, 3, What::Start),
        ];
        feed(&mut checker, served).unwrap();
        checker.finish(2 * BOUND).unwrap();
        let stop = What::Stop { runnable: false };
        feed(&mut checker, [(2 * BOUND, 0, 3, stop)]).unwrap();
        checker.finish(3 * BOUND).unwrap();
        checker.finish(3 * BOUND + 1).unwrap_err();
    }

    #[test]
    fn an_account_is_served_while_a_task_of_it_runs_that_went_straight_to_an_idle_cpu() {
        let mut checker = two_lanes();
        let straight = [(0, 0, 3, What::Start), (0, 0, 4, What::Insert(QUEUE))];
        feed(&mut checker, straight).unwrap();
        checker.finish(2 * BOUND).unwrap();
        feed(&mut checker, [(2 * BOUND, 0, 3, What::Stop { runnable: false })]).unwrap();
        checker.finish(3 * BOUND).unwrap();
        checker.finish(3 * BOUND + 1).unwrap_err();
    }

    #[test]
    fn taking_a_task_out_and_putting_it_back_is_no_service() {
        let mut checker = two_lanes();
        let changed = [
            (0, 0, 3, What::Insert(QUEUE)),
            (0, 0, 4, What::Insert(QUEUE)),
            (9, 0, 3, What::Remove(QUEUE)),
            (9, 0, 3, What::Insert(QUEUE)),
        ];
        feed(&mut checker, changed).unwrap();
        checker.finish(BOUND + 1).unwrap_err();
    }

    #[test]
    fn a_lazy_lane_that_keeps_its_application_is_caught() {
        let mut checker = Quarantined::default();
        let mut lazy = lane(2, InForce, 1);
        lazy.policy = POLICIES.len() as u32;
        let lanes = What::Lanes([lane(1, InForce, 0), lazy].into());
        feed(&mut checker, [(0, 0, 0, lanes), (0, 0, 3, What::Insert(QUEUE))]).unwrap();
        checker.finish(QUARANTINE_NS).unwrap();
        assert!(checker.finish(QUARANTINE_NS + 1).unwrap_err().contains("not in quarantine"));
    }

    #[test]
    fn a_lazy_lane_has_its_time_from_when_the_lane_before_it_was_drained() {
        let mut checker = Quarantined::default();
        let (mut before, mut lazy) = (lane(2, LaneState::Draining, 1), lane(3, InForce, 1));
        before.policy = POLICIES.len() as u32;
        lazy.policy = POLICIES.len() as u32;
        let lanes = What::Lanes([lane(1, InForce, 0), before, lazy].into());
        let begin = [
            (0, 0, 0, lanes),
            (0, 0, 3, What::Insert(QUEUE)),
            (0, 0, 4, What::Insert(DsqRef::User(3 << LANE_DSQ_BITS))),
            (9, 0, 3, What::Remove(QUEUE)),
        ];
        feed(&mut checker, begin).unwrap();
        checker.finish(9 + QUARANTINE_NS).unwrap();
        checker.finish(10 + QUARANTINE_NS).unwrap_err();
    }
}
