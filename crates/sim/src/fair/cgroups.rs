//! Cgroups in the fair class: shares by `cpu.weight` at every level of the hierarchy, and
//! `cpu.max`.
//!
//! A task counts with what of its own weight the hierarchy leaves: among those that want to run,
//! its part of its cgroup's weight, of that the cgroup's part of the one above, and so on, over
//! all CPUs. The kernel comes to the same with an entity for each cgroup on each CPU, whose
//! weights it brings up to date now and then.
//!
//! A cgroup with a quota has one account. When it is used up, which is seen when run time is
//! charged, what is below it stands aside until the next period. The kernel hands the account
//! out to CPUs in portions of 5 ms.

use crate::abi::{Cgroup, CgroupInitArgs, NO_QUOTA};
use crate::dsq::DsqRef;
use crate::kernel::Kernel;
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::{Quota, What};
use std::sync::Arc;

/// Weights are counted in parts of one, since the hierarchy divides them.
pub(super) const UNIT: u64 = 1024;
/// What a cgroup with `cpu.idle` weighs: 3 where 1024 is usual (WEIGHT_IDLEPRIO).
const IDLE_WEIGHT: u64 = 3 * 100;
/// The place of the root, by its id.
const ROOT: usize = 1;

/// All cgroups that tasks of this class were in, by their ids.
#[derive(Default)]
pub(crate) struct FairGroups {
    groups: Vec<Group>,
    /// Who stands aside, in that order.
    parked: Vec<TaskId>,
    /// How many have a quota.
    limited: usize,
}

#[derive(Clone)]
struct Group {
    /// The one above; 0 until it is known, and above the root.
    above: usize,
    weight: u32,
    idle: bool,
    /// Tasks and cgroups in it that want to run: how many, and their weights in [`UNIT`]s.
    busy: usize,
    busy_weight: u64,
    limit: Option<Limit>,
    /// Tells this limit from earlier ones.
    limits: u64,
}

#[derive(Clone)]
struct Limit {
    quota: Quota,
    /// What is left of it, ns; what was used beyond is made up for later.
    left: i64,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            above: 0,
            weight: 100,
            idle: false,
            busy: 0,
            busy_weight: 0,
            limit: None,
            limits: 0,
        }
    }
}

impl Group {
    fn own_weight(&self) -> u64 {
        if self.idle { IDLE_WEIGHT } else { u64::from(self.weight) * UNIT }
    }
}

impl FairGroups {
    /// The place of a cgroup, with all those above it.
    fn at(&mut self, cgroup: *mut Cgroup) -> usize {
        let cgroup = unsafe { &*cgroup };
        let (id, above) = cgroup.id_and_above();
        let at = id as usize;
        if self.groups.len() <= at {
            self.groups.resize(at + 1, Group::default());
        }
        if at != ROOT && self.groups[at].above == 0 {
            self.groups[at].above = above.map_or(0, |above| above as usize);
            self.at(cgroup.ancestors[cgroup.level as usize - 1]);
        }
        at
    }

    /// A cgroup and those above it, without the root.
    fn line(&self, at: usize) -> impl Iterator<Item = usize> {
        let below = |at: &usize| *at > ROOT;
        std::iter::successors(Some(at).filter(below), move |at| {
            Some(self.groups[*at].above).filter(below)
        })
    }

    /// So much more wants to run in a cgroup.
    fn add(&mut self, at: usize, weight: u64) {
        let group = &mut self.groups[at];
        group.busy += 1;
        group.busy_weight += weight;
        if group.busy == 1 && at != ROOT {
            let (above, own) = (group.above, group.own_weight());
            self.add(above, own);
        }
    }

    fn subtract(&mut self, at: usize, weight: u64) {
        let group = &mut self.groups[at];
        group.busy -= 1;
        group.busy_weight -= weight;
        if group.busy == 0 && at != ROOT {
            let (above, own) = (group.above, group.own_weight());
            self.subtract(above, own);
        }
    }

    /// Changes what a cgroup weighs.
    fn weigh(&mut self, at: usize, change: impl FnOnce(&mut Group)) {
        let before = self.groups[at].own_weight();
        change(&mut self.groups[at]);
        let (busy, above) = (self.groups[at].busy > 0, self.groups[at].above);
        if busy && at != ROOT {
            let own = self.groups[at].own_weight();
            let sum = &mut self.groups[above].busy_weight;
            *sum = *sum - before + own;
        }
    }

    /// What the hierarchy leaves of a task's weight, in [`UNIT`]s.
    fn effective(&self, at: usize, weight: u32) -> u64 {
        let own = u64::from(weight) * UNIT;
        let part = |left: u64, at: usize| {
            let group = &self.groups[at];
            left * group.own_weight() / group.busy_weight.max(1)
        };
        self.line(at).fold(own, part).max(1)
    }

    /// Whether a quota above is used up.
    fn throttled(&self, at: usize) -> bool {
        let used_up = |at: usize| self.groups[at].limit.as_ref().is_some_and(|l| l.left <= 0);
        self.limited > 0 && self.line(at).any(used_up)
    }

    /// Takes run time off all accounts above; gives the cgroups whose quota that used up.
    fn charge(&mut self, at: usize, ran_ns: u64) -> Vec<usize> {
        if self.limited == 0 {
            return Vec::new();
        }
        let line: Vec<usize> = self.line(at).collect();
        let mut used_up = Vec::new();
        for at in line {
            let Some(limit) = &mut self.groups[at].limit else { continue };
            let before = limit.left;
            limit.left -= ran_ns as i64;
            if before > 0 && limit.left <= 0 {
                used_up.push(at);
            }
        }
        used_up
    }
}

impl Kernel {
    fn fair_group(&mut self, id: TaskId) -> usize {
        self.fair_groups.at(self.tasks[id.0].raw.cgroup())
    }

    /// A task's weight beside all others, in [`UNIT`]s.
    pub(super) fn fair_weight(&self, id: TaskId) -> u64 {
        let task = &self.tasks[id.0];
        let weight = task.c().scx.weight;
        match task.fair_in {
            Some((group, _)) => self.fair_groups.effective(group, weight),
            None => u64::from(weight) * UNIT,
        }
    }

    /// A task wants to run, in the cgroup in which it is now and with the weight that it has.
    pub(super) fn fair_activate(&mut self, id: TaskId) {
        let now = (self.fair_group(id), self.tasks[id.0].c().scx.weight);
        if self.tasks[id.0].fair_in != Some(now) {
            self.fair_deactivate(id);
            self.fair_groups.add(now.0, u64::from(now.1) * UNIT);
            self.tasks[id.0].fair_in = Some(now);
        }
    }

    /// It wants to run no more, or may not.
    pub(crate) fn fair_deactivate(&mut self, id: TaskId) {
        if let Some((group, weight)) = self.tasks[id.0].fair_in.take() {
            self.fair_groups.subtract(group, u64::from(weight) * UNIT);
        }
    }

    /// Tasks come from a program: who wants to run is found out anew, and periods begin.
    pub(crate) fn fair_forget(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.fair_in = None);
        for at in 0..self.fair_groups.groups.len() {
            let group = &mut self.fair_groups.groups[at];
            (group.busy, group.busy_weight) = (0, 0);
            self.fair_limit(at, self.fair_groups.groups[at].limit.as_ref().map(|l| l.quota));
        }
    }

    /// Whether `cpu.max` keeps a task off the CPUs.
    pub(super) fn fair_throttled(&mut self, id: TaskId) -> bool {
        let group = self.fair_group(id);
        self.fair_groups.throttled(group)
    }

    /// A task stands aside.
    pub(super) fn fair_park(&mut self, id: TaskId) {
        self.fair_deactivate(id);
        self.fair_groups.parked.push(id);
        self.tasks[id.0].dsq = Some(DsqRef::Throttled);
        self.observe(self.tasks[id.0].cpu, Some(id), What::Insert(DsqRef::Throttled));
    }

    /// It does so no more.
    pub(crate) fn fair_unpark(&mut self, id: TaskId) -> bool {
        let parked = &mut self.fair_groups.parked;
        let at = parked.iter().position(|parked| *parked == id);
        at.map(|at| parked.remove(at)).is_some()
    }

    /// What a task ran comes off the accounts above it. Where one is used up, what waits below
    /// stands aside, and what runs is interrupted.
    pub(super) fn fair_account(&mut self, id: TaskId, ran_ns: u64) {
        let group = self.fair_group(id);
        for used_up in self.fair_groups.charge(group, ran_ns) {
            for cpu in 0..self.cpus.len() {
                for waits in self.fair_waiting_on(cpu) {
                    if self.fair_below(waits, used_up) {
                        self.dispatch_dequeue(waits);
                        self.fair_park(waits);
                    }
                }
                if self.cpus[cpu].curr.is_some_and(|runs| self.fair_below(runs, used_up)) {
                    self.resched(cpu);
                }
            }
        }
    }

    fn fair_below(&mut self, id: TaskId, group: usize) -> bool {
        let own = self.fair_group(id);
        self.fair_groups.line(own).any(|at| at == group)
    }

    /// Whoever stands aside and need not any more comes back to the CPU that it was on.
    fn fair_release(&mut self) {
        for id in self.fair_groups.parked.clone() {
            if self.fair_throttled(id) {
                continue;
            }
            self.dispatch_dequeue(id);
            self.fair_enqueue(id);
            let cpu = self.tasks[id.0].cpu;
            let idle = self.cpus[cpu].curr.is_none();
            if idle {
                self.mark_idle(cpu, false);
            }
            if idle || self.fair_preempts(id, cpu) {
                self.resched(cpu);
            }
        }
    }

    /// What a program that comes is told of a cgroup.
    pub(crate) fn cgroup_init_args(&mut self, cgroup: *mut Cgroup) -> CgroupInitArgs {
        let at = self.fair_groups.at(cgroup);
        let group = &self.fair_groups.groups[at];
        let us = |ns: u64| ns / 1_000;
        match &group.limit {
            None => CgroupInitArgs {
                weight: group.weight,
                bw_period_us: 100_000,
                bw_quota_us: NO_QUOTA,
                bw_burst_us: 0,
            },
            Some(Limit { quota, .. }) => CgroupInitArgs {
                weight: group.weight,
                bw_period_us: us(quota.period_ns),
                bw_quota_us: us(quota.quota_ns),
                bw_burst_us: us(quota.burst_ns),
            },
        }
    }

    /// `cpu.weight` was written.
    pub(crate) fn fair_set_cgroup_weight(&mut self, cgroup: *mut Cgroup, weight: u32) {
        let at = self.fair_groups.at(cgroup);
        self.fair_groups.weigh(at, |group| group.weight = weight);
    }

    /// `cpu.idle` was written.
    pub(crate) fn fair_set_cgroup_idle(&mut self, cgroup: *mut Cgroup, idle: bool) {
        let at = self.fair_groups.at(cgroup);
        self.fair_groups.weigh(at, |group| group.idle = idle);
    }

    /// `cpu.max` was written: a period begins now.
    pub(crate) fn fair_set_cgroup_max(&mut self, cgroup: *mut Cgroup, quota: Option<Quota>) {
        let at = self.fair_groups.at(cgroup);
        self.fair_limit(at, quota);
        let with_limit = |group: &&Group| group.limit.is_some();
        self.fair_groups.limited = self.fair_groups.groups.iter().filter(with_limit).count();
        self.fair_release();
    }

    fn fair_limit(&mut self, at: usize, quota: Option<Quota>) {
        let group = &mut self.fair_groups.groups[at];
        group.limits += 1;
        let limits = group.limits;
        group.limit = quota.map(|quota| Limit { quota, left: quota.quota_ns as i64 });
        if let Some(Quota { period_ns, .. }) = quota {
            self.fair_refill_after(at, limits, period_ns);
        }
    }

    fn fair_refill_after(&mut self, at: usize, limits: u64, period_ns: u64) {
        // Under a program that is the program's to do.
        if self.class == Class::Fair {
            let refill = move |kernel: &mut Kernel| kernel.fair_refill(at, limits);
            self.act_at(self.now + period_ns, Arc::new(refill));
        }
    }

    /// A period of a cgroup's begins, unless it has another limit by now.
    fn fair_refill(&mut self, at: usize, limits: u64) {
        let group = &mut self.fair_groups.groups[at];
        let Some(limit) = group.limit.as_mut().filter(|_| group.limits == limits) else { return };
        let Quota { quota_ns, period_ns, burst_ns } = limit.quota;
        limit.left = (limit.left + quota_ns as i64).min((quota_ns + burst_ns) as i64);
        self.fair_release();
        self.fair_refill_after(at, limits, period_ns);
    }

    /// A task is in another cgroup.
    pub(crate) fn fair_moved(&mut self, id: TaskId) {
        if self.class != Class::Fair || !self.tasks[id.0].queued() {
            return;
        }
        match self.tasks[id.0].dsq {
            // It may stand aside there, or not any more.
            Some(DsqRef::Fair(_) | DsqRef::Throttled) => {
                self.dispatch_dequeue(id);
                self.fair_park(id);
                self.fair_release();
            }
            _ => self.fair_activate(id),
        }
    }
}
