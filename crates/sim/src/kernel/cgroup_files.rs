//! Cgroups, for scenarios that act on them: they are made, removed and written to.

use super::{Kernel, May};
use crate::abi::{Cgroup, CssSet, NO_QUOTA};
use crate::callbacks::Callback;
use crate::cgroups::{cgroup_of, id_and_above};
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::{Quota, What};
use metasched_abi::{WEIGHT_DFL, WEIGHT_IDLE};

impl Kernel {
    /// The id of the cgroup of that path, which is made if there is none.
    pub fn cgroup_id(&mut self, path: &str) -> u64 {
        id_and_above(cgroup_of(self.css_set(path))).0
    }

    /// The cgroup of that path; what is made for it the program hears of.
    pub(crate) fn css_set(&mut self, path: &str) -> *mut CssSet {
        let css_set = self.cgroups.at(path);
        self.tell_of_cgroups();
        css_set
    }

    /// All cgroups that the program knows, children before their parents.
    pub(crate) fn cgroups_bottom_up(&self) -> Vec<*mut Cgroup> {
        self.cgroups.bottom_up()
    }

    pub(crate) fn cgroups_are_new(&mut self) {
        self.cgroups.all_are_new();
    }

    /// The program hears of the cgroups that it does not know yet.
    pub(crate) fn tell_of_cgroups(&mut self) {
        if self.load.class == Class::Fair {
            return;
        }
        for cgroup in self.cgroups.take_new() {
            let (id, above) = id_and_above(cgroup);
            self.observe(0, None, What::Cgroup { id, above });
            let mut args = self.cgroup_init_args(cgroup);
            // SAFETY: cgroups stay in memory until the run is over.
            let idle = unsafe { (*cgroup).idle > 0 };
            let weight = if idle { WEIGHT_IDLE } else { args.weight };
            self.observe(0, None, What::CgroupWeight { cgroup: id, weight });
            // SAFETY: as above. The program has not heard of it yet.
            unsafe { (*cgroup).populated = self.has_tasks(cgroup).into() };
            let args = [cgroup as u64, std::ptr::from_mut(&mut args) as u64, 0];
            let said =
                self.call(self.program.ops.cgroup_init, Callback::CgroupInit, 0, May::Sleep, args)
                    as i32;
            if said != 0 {
                self.fail("cgroup_init", format!("ops.cgroup_init returned {said}"));
            }
        }
    }

    /// Whether tasks are in a cgroup, or below it.
    fn has_tasks(&self, cgroup: *mut Cgroup) -> bool {
        // SAFETY: cgroups stay in memory until the run is over, and nothing writes to them here.
        let level = unsafe { (*cgroup).level as usize };
        // SAFETY: as above.
        let is_in = |css_set| unsafe { (*cgroup_of(css_set)).ancestors[level] == cgroup };
        self.tasks.iter().any(|task| !task.dead && is_in(task.c().cgroups))
    }

    /// Writes `cpu.max` of a cgroup, and `cpu.max.burst`; no quota means "max".
    pub fn set_cgroup_max(&mut self, path: &str, period_us: u64, quota_us: u64, burst_us: u64) {
        let id = self.cgroup_id(path);
        let quota = (quota_us != NO_QUOTA).then(|| Quota {
            quota_ns: quota_us * 1_000,
            period_ns: period_us * 1_000,
            burst_ns: burst_us * 1_000,
        });
        self.observe(0, None, What::Limit { cgroup: id, quota: quota.map(Box::new) });
        let cgroup = cgroup_of(self.css_set(path));
        self.fair_set_cgroup_max(cgroup, quota);
        let callback = self.program.ops.cgroup_set_bandwidth;
        let args = [cgroup as u64, period_us, quota_us, burst_us];
        self.call(callback, Callback::CgroupSetBandwidth, 0, May::Look, args);
    }

    /// Moves a task to another cgroup. No callback tells of it, as where the cpu
    /// controller is not enabled.
    pub fn move_to_cgroup(&mut self, task: TaskId, path: &str) {
        self.note(&format!("task {} moves to cgroup '{path}'", task.0));
        let (id, css_set) = (self.cgroup_id(path), self.css_set(path));
        self.observe(self.tasks[task].cpu, Some(task), What::Member(id));
        self.tasks[task].c_mut().cgroups = css_set;
        self.fair_moved(task);
        self.tell_of_move(task, path);
    }

    /// Stores the cgroup to which the task belongs now, and tells the readers.
    pub(crate) fn tell_of_move(&mut self, task: TaskId, path: &str) {
        self.tasks[task].cgroup = path.to_owned();
        self.audience.readers(|reader| reader.moved(self.clock.now, task, path));
        self.paravirt.moved(task, path);
    }

    /// Removes a cgroup; false where rmdir() refuses: a task is in it, or a cgroup below it,
    /// or it is not there.
    pub fn remove_cgroup(&mut self, path: &str) -> bool {
        let Some(css_set) = self.cgroups.existing(path) else { return false };
        if self.tasks.iter().any(|task| !task.dead && task.c().cgroups == css_set) {
            return false;
        }
        let Some(cgroup) = self.cgroups.remove(path) else { return false };
        self.paravirt.weighs(path, WEIGHT_DFL);
        let (id, _) = id_and_above(cgroup);
        self.observe(0, None, What::Limit { cgroup: id, quota: None });
        // Else it would not be removed.
        // SAFETY: one that was removed stays in memory, too, until the run is over.
        unsafe { (*cgroup).populated = 0 };
        let args = [cgroup as u64, 0, 0];
        self.call(self.program.ops.cgroup_exit, Callback::CgroupExit, 0, May::Sleep, args);
        true
    }

    /// Writes `cpu.idle` of a cgroup.
    pub fn set_cgroup_idle(&mut self, path: &str, idle: bool) {
        let cgroup = cgroup_of(self.css_set(path));
        self.fair_set_cgroup_idle(cgroup, idle);
        let weight = if idle { WEIGHT_IDLE } else { WEIGHT_DFL };
        self.observe_cgroup_weight(path, cgroup, weight);
        let callback = self.program.ops.cgroup_set_idle;
        self.call(callback, Callback::CgroupSetIdle, 0, May::Look, [cgroup as u64, idle.into(), 0]);
    }

    fn observe_cgroup_weight(&mut self, path: &str, cgroup: *mut Cgroup, weight: u32) {
        self.paravirt.weighs(path, weight);
        let (id, _) = id_and_above(cgroup);
        self.observe(0, None, What::CgroupWeight { cgroup: id, weight });
    }

    /// Writes `cpu.weight` of a cgroup.
    pub fn set_cgroup_weight(&mut self, path: &str, weight: u32) {
        let cgroup = cgroup_of(self.css_set(path));
        self.fair_set_cgroup_weight(cgroup, weight);
        self.observe_cgroup_weight(path, cgroup, weight);
        let callback = self.program.ops.cgroup_set_weight;
        self.call(
            callback,
            Callback::CgroupSetWeight,
            0,
            May::Look,
            [cgroup as u64, weight.into(), 0],
        );
    }
}
