//! Lanes of applications: made, replaced, weighted, and cgroups assigned to them.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use metasched_abi::{
    ACCOUNTS_MAX, ASSIGNED_MAX, AppArgs, AssignArgs, BACK_TO_ROOT, IntoBytes, LANE_OPTIONS_MAX,
    LaneArgs, OPTION_DEFAULT, PolicyInfo, QUARANTINES_KEPT, check_weight,
};
use metasched_base::{Error, Kind, Result};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::policy;
use crate::program::{Program, Replacement};
use crate::skel::metasched::types;
use crate::syscalls::run_program;

/// Applications that may have a lane of their own, numbered from 1: all but the one that
/// stands for everything else.
pub const APPS: u32 = ACCOUNTS_MAX as u32 - 1;

/// What the lane of an application is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSpec {
    /// Its policy, or a preset of one.
    pub policy: String,
    /// What its cgroups share among their siblings in place of `cpu.weight`; `None`: that.
    pub weight: Option<u32>,
    /// Options of the policy that are not to have their default.
    pub options: BTreeMap<String, u64>,
}

/// A lane that lost its application because its policy did not dispatch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Quarantine {
    /// The application.
    pub app: u32,
    /// The policy.
    pub policy: String,
    /// When, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// For how long it had had work and given no CPU a task, nanoseconds.
    pub unserved_ns: u64,
    /// How many tasks were queued.
    pub nr_queued: u32,
    /// How many tasks level 1 could have run and did, that the policy left.
    pub rescues: u32,
}

impl LaneSpec {
    /// A lane of that policy with its defaults, weighted by `cpu.weight`.
    pub fn of(policy: &str) -> Self {
        Self { policy: policy.to_owned(), weight: None, options: BTreeMap::new() }
    }

    /// Refuses what no lane can be: a policy or an option that there is not, a value out
    /// of its range.
    ///
    /// # Errors
    /// `BadInput`, with what there is.
    pub fn check(&self) -> Result<()> {
        let policy = self.policy()?;
        if let Some(weight) = self.weight {
            check_weight(weight)?;
        }
        for (name, value) in &self.options {
            policy.option(name, *value)?;
        }
        Ok(())
    }

    fn policy(&self) -> Result<&'static PolicyInfo> {
        policy::variant(&self.policy)
    }

    fn options(&self) -> Result<[u64; LANE_OPTIONS_MAX]> {
        let policy = self.policy()?;
        let mut values = [OPTION_DEFAULT; LANE_OPTIONS_MAX];
        for (name, value) in &self.options {
            values[policy.option(name, *value)?] = *value;
        }
        Ok(values)
    }
}

impl Program {
    /// Puts a new lane in force for an application (1 to [`APPS`]), its first or one in
    /// place of an earlier one, which is served until it is empty. `weight` is what the
    /// lane has where the spec leaves it to `cpu.weight`.
    ///
    /// # Errors
    /// `BadInput` for what no lane can be; `Busy` while all slots are taken;
    /// `SchedulerExit` if the program has left the kernel.
    pub fn set_app(&mut self, app: u32, spec: &LaneSpec, weight: u32) -> Result<Replacement> {
        spec.check()?;
        let weight = spec.weight.unwrap_or(weight);
        check_weight(weight)?;
        let attempt = || format!("give application {app} a lane of '{}'", spec.policy);
        let args = AppArgs {
            app,
            variant: self.held.number_of(&spec.policy, attempt)?,
            weight,
            weight_fixed: spec.weight.is_some().into(),
            options: spec.options()?,
        };
        self.put_in_force(self.programs().set_app.as_fd(), args.as_bytes(), attempt)
    }

    /// Takes an application's lane away: its tasks go to the root lane.
    ///
    /// # Errors
    /// `BadInput` if it has none; `SchedulerExit` if the program has left the kernel.
    pub fn drop_app(&mut self, app: u32) -> Result<()> {
        let attempt = || format!("take the lane of application {app} away");
        let args = AssignArgs { app, ..Default::default() };
        self.call(&self.programs().drop_app, args.as_bytes(), attempt)?;
        self.reaper.wake();
        Ok(())
    }

    /// Assigns a cgroup, by its id, to an application that has a lane, or to
    /// [`BACK_TO_ROOT`]; everything below it that is not assigned itself goes along.
    ///
    /// # Errors
    /// `BadInput` if the application has no lane; `Busy` if too many cgroups are
    /// assigned; `SchedulerExit` if the program has left the kernel.
    pub fn assign(&mut self, cgroup: u64, app: u32) -> Result<()> {
        let attempt = || match app {
            BACK_TO_ROOT => format!("put the cgroup {cgroup} back on the default lane"),
            _ => format!("assign the cgroup {cgroup} to application {app}"),
        };
        let args = AssignArgs { cgroup, app, ..Default::default() };
        self.call(&self.programs().assign, args.as_bytes(), attempt)
    }

    /// Undoes the assignment of a cgroup, by its id.
    ///
    /// # Errors
    /// `BadInput` if it is not assigned; `SchedulerExit` if the program has left.
    pub fn unassign(&mut self, cgroup: u64) -> Result<()> {
        let attempt = || format!("undo the assignment of the cgroup {cgroup}");
        let args = AssignArgs { cgroup, ..Default::default() };
        self.call(&self.programs().unassign, args.as_bytes(), attempt)
    }

    /// Changes the lane that an application has, in force at once and without another
    /// lane: its weight, or options of its policy. 0 stands for the root lane.
    ///
    /// # Errors
    /// As [`Program::set_app`].
    pub fn set_lane(&mut self, app: u32, spec: &LaneSpec) -> Result<()> {
        spec.check()?;
        let options = spec.options()?;
        let changed = (0..LANE_OPTIONS_MAX).filter(|i| options[*i] != OPTION_DEFAULT);
        let none = [LANE_OPTIONS_MAX];
        let weight = spec.weight.unwrap_or(0);
        for option in none.into_iter().chain(changed) {
            let args = LaneArgs {
                app,
                weight,
                weight_fixed: (weight > 0).into(),
                option: option as u32,
                value: options.get(option).copied().unwrap_or(0),
            };
            let attempt = || format!("change the lane of application {app}");
            self.call(&self.programs().set_lane, args.as_bytes(), attempt)?;
        }
        Ok(())
    }

    /// The latest lanes that were put in quarantine, oldest first, at most 16.
    pub fn quarantines(&self) -> Vec<Quarantine> {
        let mut found: Vec<Quarantine> = (0..QUARANTINES_KEPT)
            .map(|at| self.variables().quarantine(at))
            .filter(|q| q.at_ns != 0)
            .map(|q: types::quarantine| Quarantine {
                app: q.app,
                policy: policy::by_number(q.variant).map_or("unknown", |p| p.name).to_owned(),
                at_ns: q.at_ns,
                unserved_ns: q.unserved_ns,
                nr_queued: q.nr_queued,
                rescues: q.rescues,
            })
            .collect();
        found.sort_by_key(|q| q.at_ns);
        found
    }

    /// Those that came since the last call, of 16 at most. Their lanes are freed.
    pub fn new_quarantines(&mut self) -> Vec<Quarantine> {
        let now = self.variables().quarantined();
        let new = now - std::mem::replace(&mut self.quarantines_told, now);
        if new == 0 {
            return Vec::new();
        }
        // The sweep, which took the application's lane away, cannot free it.
        self.reaper.wake();
        let mut latest = self.quarantines();
        latest.split_off(latest.len().saturating_sub(new as usize))
    }

    /// Calls a program that changes what is assigned.
    fn call(&self, program: &impl AsFd, args: &[u8], attempt: impl Fn() -> String) -> Result<()> {
        let one_caller = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        let status = run_program(program.as_fd(), args);
        drop(one_caller);
        self.accept(status, &attempt, |errno| {
            let (kind, cause, remedy) = match errno {
                Errno::ENOENT => (Kind::BadInput, "there is nothing to change".to_owned(), ""),
                Errno::EINVAL => (Kind::BadInput, "there is no such application".to_owned(), ""),
                Errno::EBUSY => (
                    Kind::Busy,
                    "its policy changes with the turns that are taken".to_owned(),
                    "change its weight alone, or stop the turns first",
                ),
                Errno::E2BIG => (
                    Kind::Busy,
                    format!("{ASSIGNED_MAX} cgroups are assigned"),
                    "assign a cgroup further up: those below it inherit",
                ),
                _ => return None,
            };
            Some(Error::new(kind, attempt(), cause).remedy(remedy))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(policy: &str, weight: Option<u32>, options: &[(&str, u64)]) -> LaneSpec {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        LaneSpec { policy: policy.to_owned(), weight, options }
    }

    #[test]
    fn what_no_lane_can_be_is_refused_with_what_there_is() {
        spec("fifo", Some(10_000), &[("slice_ns", 5_000_000)]).check().unwrap();
        for (bad, said) in [
            (spec("lavd", None, &[]), "fifo, vtime"),
            (spec("fifo", Some(0), &[]), "1 to 10000"),
            (spec("fifo", Some(10_001), &[]), "1 to 10000"),
            (spec("fifo", None, &[("slice", 1)]), "it has slice_ns"),
            (spec("fifo", None, &[("slice_ns", 1)]), "100000 to 1000000000 ns"),
        ] {
            let error = bad.check().unwrap_err();
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn options_that_are_not_named_keep_their_default() {
        let values = spec("fifo", None, &[("slice_ns", 5_000_000)]).options().unwrap();
        assert_eq!(values[0], 5_000_000);
        assert!(values[1..].iter().all(|value| *value == OPTION_DEFAULT));
    }
}
