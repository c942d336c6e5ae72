use super::picture::Picture;
use super::{Checker, ms};
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::{Observed, Quota, What};
use metasched_abi::{LIMIT_STEPS, OVERDRAFT_NS, PIECE_LEAST_NS, PIECE_MOST_NS, SWEEP_NS};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Over so many periods a cgroup gets what they grant, and what it had saved up.
const PERIODS: u64 = 10;
/// Beyond what was granted, a task that runs when the limit is set, or comes as it runs, may do
/// so for a tick before its CPU knows of the limit, and in the fair class each one for a tick
/// before it is stopped.
const OVERRUN_TICKS: u64 = 2;
/// Under level 1 each task of the cgroup may run for so long, ns, until its CPU's timer has
/// expired, or it has come to a CPU and found nothing left, and the CPU has chosen anew.
const LATE_NS: u64 = 200_000;

/// All limits are looked at once in so long, and those of a task when it stops: a period is a
/// millisecond at least.
const LOOK_NS: u64 = 1_000_000;

/// `cpu.max` is kept: the tasks of a cgroup and of those below it run no more than granted.
/// Kernel threads among them are charged and never stopped, and who is in a system call ends it first;
/// what they run is left out here.
pub struct QuotaKept {
    tick_ns: u64,
    picture: Picture,
    /// What runs, by its CPU.
    running: Dense<Option<TaskId>>,
    /// The tasks that are in a system call.
    in_syscall: BTreeSet<TaskId>,
    limits: BTreeMap<u64, Limited>,
    /// How long level 1 takes to look at each of them, with as many as there were at once.
    round_ns: u64,
    /// When all of them were looked at.
    looked_at: u64,
    /// All that were set, also while nobody keeps them.
    quotas: BTreeMap<u64, Quota>,
    /// Nobody keeps limits for now: a program comes or goes.
    suspended: bool,
    /// It goes.
    leaving: bool,
}

struct Limited {
    quota: Quota,
    since: u64,
    /// Periods began before that: one more may end in any time.
    under_way: bool,
    /// What was used until `counted`, and how many tasks have run since.
    used_ns: u64,
    counted: u64,
    running: u64,
    /// How many tasks have been in it, or came; and how many ran then.
    members: u64,
    ran_already: u64,
    /// Level 1 keeps it, and not the fair class.
    by_level1: bool,
    /// What was used when each of the latest periods began, and that period's number.
    starts: VecDeque<(u64, u64)>,
}

impl Limited {
    /// Brings the account up to date.
    fn count(&mut self, now: u64) {
        self.used_ns += self.running * (now - self.counted);
        self.counted = now;
    }

    /// Beyond what was granted, what may be used.
    fn overrun(&self, tick_ns: u64) -> u64 {
        let ticks_ns = OVERRUN_TICKS * tick_ns;
        match self.by_level1 {
            true => {
                // A task that runs when a limit is set may have taken a piece of what was there before, beside
                // the one with which it came out of a parking queue.
                let already_ns = self.ran_already * ticks_ns.max(PIECE_MOST_NS + PIECE_LEAST_NS);
                OVERDRAFT_NS + already_ns + self.members * LATE_NS
            }
            false => self.members * ticks_ns,
        }
    }

    fn judge(&mut self, cgroup: u64, now: u64, tick_ns: u64, round_ns: u64) -> Result<(), String> {
        let Quota { quota_ns, period_ns, burst_ns } = self.quota;
        let period = (now - self.since) / period_ns;
        if self.starts.back().is_none_or(|(last, _)| *last < period) {
            self.starts.push_back((period, self.used_ns));
        }
        while self.starts.front().is_some_and(|(first, _)| first + PERIODS < period) {
            self.starts.pop_front();
        }
        let overrun = self.overrun(tick_ns);
        let (first, before) = self.starts[0];
        let recent = self.used_ns - before;
        let more = u64::from(self.under_way);
        // Level 1 grants short periods together, as often as it looks: ten of them may have in
        // them what was due before. And what it granted late for the period before may be left
        // when these begin: as much as all can run until it fills up again, and what they have not
        // yet run of their pieces then. These count as used, so as much is granted in their place.
        let left_ns = quota_ns.min(self.members * (round_ns + PIECE_MOST_NS));
        let (late, left_ns) = match self.by_level1 {
            true => (round_ns / (period_ns + 1), left_ns),
            false => (0, 0),
        };
        // And what tasks took in those as they came out of a parking queue they may run in these.
        let reserved_ns = if self.by_level1 { self.members * PIECE_LEAST_NS } else { 0 };
        let granted =
            (period - first + 1 + more + late) * quota_ns + left_ns + reserved_ns + burst_ns;
        if recent > granted + overrun {
            return Err(format!(
                "cgroup {cgroup} ran for {} in {} periods, which grant {}",
                ms(recent),
                period - first + 1,
                ms(granted)
            ));
        }
        // Nothing is saved up before the limit was set. Of periods that began before there may be
        // left what was granted together.
        let granted = (period + 1 + more * (1 + late)) * quota_ns + more * burst_ns;
        if self.used_ns > granted + overrun {
            return Err(format!(
                "cgroup {cgroup} ran for {} since its limit was set, {} were granted",
                ms(self.used_ns),
                ms(granted)
            ));
        }
        Ok(())
    }
}

impl QuotaKept {
    /// For a machine with so long between ticks.
    pub fn new(tick_ns: u64) -> Self {
        QuotaKept {
            tick_ns,
            picture: Picture::default(),
            running: Dense::default(),
            in_syscall: BTreeSet::new(),
            limits: BTreeMap::new(),
            round_ns: SWEEP_NS,
            looked_at: 0,
            quotas: BTreeMap::new(),
            suspended: false,
            leaving: false,
        }
    }

    /// Whether what a task runs counts.
    fn is_counted(&self, task: TaskId) -> bool {
        !self.picture.is_kthread(task) && !self.in_syscall.contains(&task)
    }

    /// An account of a cgroup begins, if anybody keeps it.
    fn begin(&mut self, cgroup: u64, quota: Quota, now: u64, under_way: bool) {
        if self.suspended {
            return;
        }
        let below = |task: &TaskId| {
            let of = self.picture.cgroup_of(*task);
            of.is_some_and(|of| self.picture.line(of).any(|id| id == cgroup))
        };
        // A task that is in a system call may have taken a piece before, too, and so may a kernel thread.
        // What that has not used when it sleeps goes back, and others run it.
        let ran_already: Vec<TaskId> =
            self.running.iter().filter_map(|(_, on)| *on).filter(below).collect();
        let running = ran_already.iter().filter(|task| self.is_counted(**task)).count() as u64;
        let limited = Limited {
            quota,
            since: now,
            under_way,
            used_ns: 0,
            counted: now,
            running,
            members: self.picture.members_below(cgroup),
            ran_already: ran_already.len() as u64,
            by_level1: !self.picture.lanes.is_empty(),
            starts: VecDeque::new(),
        };
        self.limits.insert(cgroup, limited);
        let sweeps = self.limits.len().div_ceil(LIMIT_STEPS) as u64;
        self.round_ns = self.round_ns.max(sweeps * SWEEP_NS);
    }

    /// Brings all accounts up to date, then looks at them.
    fn judge_all(&mut self, now: u64) -> Result<(), String> {
        self.looked_at = now;
        let mut said = Ok(());
        for (id, limited) in &mut self.limits {
            limited.count(now);
            said = said.and(limited.judge(*id, now, self.tick_ns, self.round_ns));
        }
        said
    }

    /// The limits that a task of that cgroup is under, with their cgroups.
    fn limits_of(&mut self, cgroup: u64, mut then: impl FnMut(u64, &mut Limited)) {
        if self.limits.is_empty() {
            return;
        }
        for id in self.picture.line(cgroup) {
            if let Some(limited) = self.limits.get_mut(&id) {
                then(id, limited);
            }
        }
    }

    /// A task starts to run, or stops; what is wrong with the limits that it is under.
    fn runs(&mut self, task: TaskId, runs: bool, now: u64) -> Result<(), String> {
        let Some(cgroup) = self.picture.cgroup_of(task) else { return Ok(()) };
        if !self.is_counted(task) {
            return Ok(());
        }
        let (mut said, tick_ns, round_ns) = (Ok(()), self.tick_ns, self.round_ns);
        self.limits_of(cgroup, |id, limited| {
            limited.count(now);
            if runs {
                limited.running += 1;
                return;
            }
            limited.running -= 1;
            let judged = limited.judge(id, now, tick_ns, round_ns);
            if said.is_ok() {
                said = judged;
            }
        });
        said
    }
}

impl Checker for QuotaKept {
    fn name(&self) -> &'static str {
        "quota_kept"
    }

    fn wants(&self) -> Kinds {
        let runs = Kinds::START.and(Kinds::STOP);
        Picture::OF_CGROUPS.and(runs).and(Kinds::LIMIT).and(Kinds::BYPASS).and(Kinds::SYSCALL)
    }

    fn look_at(&self) -> u64 {
        if self.limits.is_empty() { u64::MAX } else { self.looked_at + LOOK_NS }
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let mut said = Ok(());
        if event.at > self.look_at() {
            said = self.judge_all(event.at);
        }
        match (&event.what, event.task) {
            (What::Start, Some(task)) => {
                *self.running.at(event.cpu) = Some(task);
                said = said.and(self.runs(task, true, event.at));
            }
            (What::Stop { .. }, Some(task)) => {
                *self.running.at(event.cpu) = None;
                said = said.and(self.runs(task, false, event.at));
            }
            (What::Member(cgroup), Some(task)) => {
                let on_cpu = self.running.iter().any(|(_, on)| *on == Some(task));
                let on_cpu = on_cpu && !self.picture.is_kthread(task);
                let runs = on_cpu && self.is_counted(task);
                if runs {
                    said = said.and(self.runs(task, false, event.at));
                }
                self.limits_of(*cgroup, |_, limited| {
                    limited.count(event.at);
                    limited.members += 1;
                    limited.ran_already += u64::from(on_cpu);
                    limited.running += u64::from(runs);
                });
            }
            // It runs, so for the account it stops as it enters, and starts as it returns.
            (What::Syscall(true), Some(task)) => {
                said = said.and(self.runs(task, false, event.at));
                self.in_syscall.insert(task);
            }
            (What::Syscall(false), Some(task)) => {
                self.in_syscall.remove(&task);
                said = said.and(self.runs(task, true, event.at));
            }
            (What::Limit { cgroup, quota }, _) => {
                said = said.and(self.judge_all(event.at));
                self.limits.remove(cgroup);
                self.quotas.remove(cgroup);
                if let Some(quota) = quota {
                    self.quotas.insert(*cgroup, **quota);
                    self.begin(*cgroup, **quota, event.at, false);
                }
            }
            (What::Detached, _) => {
                self.limits.clear();
                (self.suspended, self.leaving) = (true, true);
            }
            (What::Bypass(true), _) => {
                self.limits.clear();
                self.suspended = true;
            }
            (What::Bypass(false), _) => {
                // With none in force the fair class keeps them, or a program that has lanes.
                let left = std::mem::take(&mut self.leaving);
                self.suspended = !left && self.picture.lanes.is_empty();
                for (cgroup, quota) in self.quotas.clone() {
                    self.begin(cgroup, quota, event.at, true);
                }
            }
            _ => {}
        }
        self.picture.take(event);
        said
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.judge_all(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed, lane};
    use super::*;
    use crate::metasched::LaneState;
    use std::rc::Rc;

    const TICK_NS: u64 = 4_000_000;
    const PERIOD: u64 = 100_000_000;
    const QUOTA: u64 = 20_000_000;

    /// A task of a cgroup below the one with the limit runs for so long in each period.
    fn runs(each_ns: u64, periods: u64, burst_ns: u64) -> Result<(), String> {
        let mut checker = QuotaKept::new(TICK_NS);
        let quota = Quota { quota_ns: QUOTA, period_ns: PERIOD, burst_ns };
        feed(
            &mut checker,
            [
                (0, 0, 0, What::Cgroup { id: 5, above: None }),
                (0, 0, 0, What::Cgroup { id: 6, above: Some(5) }),
                (0, 0, 1, arrive(&[0])),
                (0, 0, 1, What::Member(6)),
                (0, 0, 0, What::Limit { cgroup: 5, quota: Some(Box::new(quota)) }),
            ],
        )?;
        for period in 0..periods {
            let at = period * PERIOD;
            let stop = What::Stop { runnable: true };
            feed(&mut checker, [(at, 0, 1, What::Start), (at + each_ns, 0, 1, stop)])?;
        }
        checker.finish(periods * PERIOD)
    }

    #[test]
    fn a_quota_may_be_used_up_each_period() {
        runs(QUOTA, 30, 0).unwrap();
    }

    #[test]
    fn a_tenth_too_much_is_caught_within_ten_periods() {
        assert!(runs(QUOTA + QUOTA / 10, 10, 0).unwrap_err().contains("cgroup 5 ran for"));
    }

    #[test]
    fn a_burst_does_not_add_to_what_is_granted_in_all() {
        runs(QUOTA + QUOTA / 10, 30, 5 * QUOTA).unwrap_err();
    }

    /// It may have a piece from before, and one of the new limit.
    #[test]
    fn who_is_in_a_system_call_as_its_limit_is_set_has_run_already() {
        for (more_ns, fails) in [(PIECE_MOST_NS + PIECE_LEAST_NS, false), (3 * PIECE_MOST_NS, true)]
        {
            let mut checker = QuotaKept::new(TICK_NS);
            let quota = Quota { quota_ns: QUOTA, period_ns: PERIOD, burst_ns: 0 };
            let lanes = [lane(1, LaneState::InForce, 0)];
            let events = [
                (0, 0, 0, What::Cgroup { id: 5, above: None }),
                (0, 0, 0, What::Lanes(Rc::new(lanes))),
                (0, 0, 1, arrive(&[0])),
                (0, 0, 1, What::Member(5)),
                (0, 0, 1, What::Start),
                (0, 0, 1, What::Syscall(true)),
                (0, 0, 0, What::Limit { cgroup: 5, quota: Some(Box::new(quota)) }),
                (0, 0, 1, What::Syscall(false)),
            ];
            feed(&mut checker, events).unwrap();
            let stop = What::Stop { runnable: true };
            let stopped = feed(&mut checker, [(QUOTA + more_ns, 0, 1, stop)]);
            assert_eq!(stopped.is_err(), fails, "{more_ns} ns more: {stopped:?}");
        }
    }

    #[test]
    fn what_was_not_used_long_ago_is_not_saved_up() {
        let mut limited = Limited {
            quota: Quota { quota_ns: QUOTA, period_ns: PERIOD, burst_ns: 0 },
            since: 0,
            under_way: false,
            used_ns: 0,
            counted: 0,
            running: 0,
            members: 0,
            ran_already: 0,
            by_level1: true,
            starts: VecDeque::new(),
        };
        for period in 0..30 {
            limited.judge(1, period * PERIOD, 0, SWEEP_NS).unwrap();
        }
        limited.used_ns = 12 * QUOTA;
        assert!(limited.judge(1, 30 * PERIOD, 0, SWEEP_NS).unwrap_err().contains("in 11 periods"));
    }
}
