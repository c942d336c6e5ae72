//! Cgroups in the fair class: their files, and what `cpu.max` does to tasks.
//!
//! A cgroup with a quota has an account for each period. CPUs take portions of 5 ms off it, and
//! give back what they have no use for. Where a CPU has used its portion and there is no other,
//! each task stands aside when it is to run there next, until the next period.

use super::groups::Limit;
use crate::abi::{Cgroup, CgroupInitArgs, NO_QUOTA, scx};
use crate::dsq::DsqRef;
use crate::kernel::Kernel;
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::{Quota, What};
use std::sync::Arc;

/// How long after a CPU has given something back others that wait for it have it.
const SLACK_NS: u64 = 5_000_000;

impl Kernel {
    pub(super) fn fair_group(&mut self, id: TaskId) -> usize {
        self.fair_class.groups.at(self.tasks[id].raw.cgroup())
    }

    /// Tasks come from a program, or go to one: who wants to run is found out anew, and periods
    /// begin.
    pub(crate) fn fair_forget(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.fair.forget());
        self.cpus.iter_mut().for_each(|cpu| cpu.fair.forget());
        self.fair_class.groups.forget();
        for at in 0.. {
            let Some(group) = self.fair_class.groups.get(at) else { break };
            let quota = group.limit.as_ref().map(|limit| limit.quota);
            self.fair_limit(at, quota);
        }
    }

    /// Whether `cpu.max` keeps a task off the CPU that it is on. The kernel does so as a task goes
    /// back to user space: never with threads of its own, nor with whoever exits.
    pub(super) fn fair_throttled(&mut self, id: TaskId) -> bool {
        if self.tasks[id].c().flags & (scx::PF_EXITING | scx::PF_KTHREAD) != 0 {
            return false;
        }
        let group = self.fair_group(id);
        self.fair_class.groups.throttled(group, self.tasks[id].cpu)
    }

    /// A task stands aside.
    pub(super) fn fair_park(&mut self, id: TaskId) {
        self.fair_class.parked.push(id);
        self.tasks[id].dsq = Some(DsqRef::Throttled);
        self.observe(self.tasks[id].cpu, Some(id), What::Insert(DsqRef::Throttled));
    }

    /// It does so no more.
    pub(crate) fn fair_unpark(&mut self, id: TaskId) -> bool {
        let parked = &mut self.fair_class.parked;
        let at = parked.iter().position(|parked| *parked == id);
        at.map(|at| parked.remove(at)).is_some()
    }

    /// A task that is throttled no more comes back to the CPU that it was on.
    pub(super) fn fair_release(&mut self) {
        for id in self.fair_class.parked.clone() {
            if self.fair_throttled(id) {
                continue;
            }
            self.dispatch_dequeue(id);
            self.fair_come_back(id);
        }
    }

    /// A task that did not compete does so again, on the CPU that it was on.
    fn fair_come_back(&mut self, id: TaskId) {
        self.fair_enqueue(id);
        let cpu = self.tasks[id].cpu;
        let idle = self.cpus[cpu].curr.is_none();
        if idle {
            self.mark_idle(cpu, false);
        }
        if idle || self.fair_preempts(id, cpu, 0) {
            self.resched(cpu);
        }
    }

    /// What a CPU gave back to an account, here or above, others may have, if they wait for it.
    pub(super) fn fair_slack(&mut self, group: usize) {
        if self.fair_class.parked.is_empty() {
            return;
        }
        let groups = &self.fair_class.groups;
        let awaited: Vec<usize> = groups.line(group).filter(|at| groups.is_awaited(*at)).collect();
        for at in awaited {
            let hand_out = move |kernel: &mut Kernel| {
                if kernel.load.class == Class::Fair && kernel.fair_class.groups.distribute(at) {
                    kernel.fair_release();
                }
            };
            self.act_at(self.clock.now + SLACK_NS, Arc::new(hand_out));
        }
    }

    /// What a program that comes is told of a cgroup.
    pub(crate) fn cgroup_init_args(&mut self, cgroup: *mut Cgroup) -> CgroupInitArgs {
        let at = self.fair_class.groups.at(cgroup);
        let group = self.fair_class.groups.get_mut(at);
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

    /// The quota of a cgroup, if it has one.
    pub(crate) fn quota_of(&self, cgroup: u64) -> Option<Quota> {
        let group = self.fair_class.groups.get(cgroup as usize)?;
        group.limit.as_ref().map(|limit| limit.quota)
    }

    /// `cpu.weight` was written.
    pub(crate) fn fair_set_cgroup_weight(&mut self, cgroup: *mut Cgroup, weight: u32) {
        let at = self.fair_class.groups.at(cgroup);
        self.fair_class.groups.get_mut(at).weight = weight;
        self.fair_weights_change(at);
    }

    /// `cpu.idle` was written.
    pub(crate) fn fair_set_cgroup_idle(&mut self, cgroup: *mut Cgroup, idle: bool) {
        let at = self.fair_class.groups.at(cgroup);
        self.fair_class.groups.get_mut(at).idle = idle;
        // SAFETY: cgroups stay in memory until the run is over, and no reference to one is kept.
        unsafe { (*cgroup).idle = idle.into() };
        self.fair_weights_change(at);
    }

    /// The entities of a cgroup weigh something else, on all CPUs.
    fn fair_weights_change(&mut self, at: usize) {
        let (online, now) = (self.cpus.online.count(), self.clock.now);
        for cpu in self.fair_class.groups.at_work(at) {
            self.fair_class.groups.change(at, cpu, Default::default(), online, now);
        }
    }

    /// `cpu.max` was written: a period begins now.
    pub(crate) fn fair_set_cgroup_max(&mut self, cgroup: *mut Cgroup, quota: Option<Quota>) {
        let at = self.fair_class.groups.at(cgroup);
        self.fair_limit(at, quota);
        self.fair_release();
    }

    fn fair_limit(&mut self, at: usize, quota: Option<Quota>) {
        self.fair_class.groups.begin_limit(at, quota);
        if let Some(Quota { period_ns, .. }) = quota {
            let limits = self.fair_class.groups.get_mut(at).limits;
            self.fair_refill_after(at, limits, period_ns);
        }
    }

    fn fair_refill_after(&mut self, at: usize, limits: u64, period_ns: u64) {
        // Under a program that is the program's to do.
        if self.load.class == Class::Fair {
            let refill = move |kernel: &mut Kernel| kernel.fair_refill(at, limits);
            self.act_at(self.clock.now + period_ns, Arc::new(refill));
        }
    }

    /// A period of a cgroup's begins, unless it has another limit by now.
    fn fair_refill(&mut self, at: usize, limits: u64) {
        let group = self.fair_class.groups.get_mut(at);
        let Some(limit) = group.limit.as_mut().filter(|_| group.limits == limits) else { return };
        let Quota { quota_ns, period_ns, burst_ns } = limit.quota;
        limit.left_ns = (limit.left_ns + quota_ns as i64).min((quota_ns + burst_ns) as i64);
        if self.fair_class.groups.distribute(at) {
            self.fair_release();
        }
        self.fair_refill_after(at, limits, period_ns);
    }

    /// A task is in another cgroup. It may stand aside there, or not any more.
    pub(crate) fn fair_moved(&mut self, id: TaskId) {
        if self.load.class != Class::Fair {
            return;
        }
        let cpu = self.tasks[id].cpu;
        if !self.tasks[id].queued() {
            self.fair_settle(id);
        } else if self.cpus[cpu].curr == Some(id) {
            self.update_curr(cpu);
            self.fair_leave(id, false);
            self.fair_resume(cpu, id);
        } else {
            self.fair_leave(id, false);
            self.fair_come_back(id);
        }
    }
}
