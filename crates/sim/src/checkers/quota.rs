use super::picture::Picture;
use super::{Checker, ms};
use crate::task::TaskId;
use crate::trace::{Observed, Quota, What};
use std::collections::{BTreeMap, VecDeque};

/// Over so many periods a cgroup gets what they grant, and what it had saved up.
const PERIODS: u64 = 10;
/// Beyond what was granted, each task that has been in the cgroup may run for so long:
/// for a tick before its CPU knows of the limit, and for one before it is stopped.
const OVERRUN_TICKS: u64 = 2;

/// `cpu.max` is kept: the tasks of a cgroup and of those below it run no more than granted.
pub struct QuotaKept {
    overrun_ns: u64,
    picture: Picture,
    /// What runs: since when it is not yet counted.
    running: BTreeMap<TaskId, u64>,
    limits: BTreeMap<u64, Limited>,
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
    used_ns: u64,
    /// How many tasks have been in it, or came.
    members: u64,
    /// What was used when each of the latest periods began, and that period's number.
    starts: VecDeque<(u64, u64)>,
}

impl Limited {
    fn judge(&mut self, cgroup: u64, now: u64, overrun_ns: u64) -> Result<(), String> {
        let Quota { quota_ns, period_ns, burst_ns } = self.quota;
        let period = (now - self.since) / period_ns;
        if self.starts.back().is_none_or(|(last, _)| *last < period) {
            self.starts.push_back((period, self.used_ns));
        }
        while self.starts.front().is_some_and(|(first, _)| first + PERIODS < period) {
            self.starts.pop_front();
        }
        let overrun = self.members * overrun_ns;
        let (first, before) = self.starts[0];
        let recent = self.used_ns - before;
        let granted = (period - first + 1) * quota_ns + burst_ns;
        if recent > granted + overrun {
            return Err(format!(
                "cgroup {cgroup} ran for {} in {} periods, which grant {}",
                ms(recent),
                period - first + 1,
                ms(granted)
            ));
        }
        // Nothing is saved up before the limit was set.
        let granted = (period + 1) * quota_ns;
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
            overrun_ns: OVERRUN_TICKS * tick_ns,
            picture: Picture::default(),
            running: BTreeMap::new(),
            limits: BTreeMap::new(),
            quotas: BTreeMap::new(),
            suspended: false,
            leaving: false,
        }
    }

    /// An account of a cgroup begins, if anybody keeps it.
    fn begin(&mut self, cgroup: u64, quota: Quota, now: u64) {
        if self.suspended {
            return;
        }
        let limited = Limited {
            quota,
            since: now,
            used_ns: 0,
            members: self.picture.members_below(cgroup),
            starts: VecDeque::new(),
        };
        self.limits.insert(cgroup, limited);
    }

    /// Brings all accounts up to date, then looks at them.
    fn count(&mut self, now: u64) -> Result<(), String> {
        for (task, since) in &mut self.running {
            let ran = now - std::mem::replace(since, now);
            let Some(cgroup) = self.picture.cgroup_of(*task) else { continue };
            for id in self.picture.line(cgroup) {
                if let Some(limited) = self.limits.get_mut(&id) {
                    limited.used_ns += ran;
                }
            }
        }
        let mut limits = self.limits.iter_mut();
        limits.try_for_each(|(id, limited)| limited.judge(*id, now, self.overrun_ns))
    }
}

impl Checker for QuotaKept {
    fn name(&self) -> &'static str {
        "quota_kept"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        match (&event.what, event.task) {
            (What::Start, Some(task)) => {
                self.running.insert(task, event.at);
            }
            (What::Stop { .. }, Some(task)) => {
                let said = if self.limits.is_empty() { Ok(()) } else { self.count(event.at) };
                self.running.remove(&task);
                return said;
            }
            (What::Member(cgroup), Some(_)) => {
                self.count(event.at)?;
                for id in self.picture.line(*cgroup) {
                    if let Some(limited) = self.limits.get_mut(&id) {
                        limited.members += 1;
                    }
                }
            }
            (What::Limit { cgroup, quota }, _) => {
                self.count(event.at)?;
                self.limits.remove(cgroup);
                self.quotas.remove(cgroup);
                if let Some(quota) = *quota {
                    self.quotas.insert(*cgroup, quota);
                    self.begin(*cgroup, quota, event.at);
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
                self.count(event.at)?;
                for (cgroup, quota) in self.quotas.clone() {
                    self.begin(cgroup, quota, event.at);
                }
            }
            _ => {}
        }
        self.picture.take(event);
        Ok(())
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.count(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;

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
                (0, 0, 0, What::Limit { cgroup: 5, quota: Some(quota) }),
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

    #[test]
    fn what_was_not_used_long_ago_is_not_saved_up() {
        let mut limited = Limited {
            quota: Quota { quota_ns: QUOTA, period_ns: PERIOD, burst_ns: 0 },
            since: 0,
            used_ns: 0,
            members: 0,
            starts: VecDeque::new(),
        };
        for period in 0..30 {
            limited.judge(1, period * PERIOD, 0).unwrap();
        }
        limited.used_ns = 12 * QUOTA;
        assert!(limited.judge(1, 30 * PERIOD, 0).unwrap_err().contains("in 11 periods"));
    }
}
