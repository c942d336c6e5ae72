//! A scenario file, carried out in the model.

use crate::abi::{CpuMask, NO_QUOTA};
use crate::kernel::Kernel;
use crate::metasched;
use crate::scenario::Scenario;
use metasched_scenario::file::{Change, LaneSpec, MachineSpec, ScenarioFile};

impl Scenario {
    /// Adds a file's tasks and what they share, its cgroups with their limits, and its events; and
    /// the warm-up. Not its lanes, which belong to how it is scheduled: see
    /// [`Scenario::with_lanes`].
    pub fn with_file(self, file: &ScenarioFile) -> Self {
        let mut scenario = self.sharing(&file.shared);
        for task in &file.tasks {
            scenario = scenario.task(task.clone());
        }
        let cgroups = (0, file.cgroups.clone());
        for (at, changes) in [cgroups].iter().chain(&file.events).cloned() {
            scenario = scenario.at(at, move |kernel| {
                changes.iter().for_each(|change| apply(change, kernel));
            });
        }
        if file.limits() {
            // A throttled task waits beside idle CPUs, as it should.
            scenario = scenario.idle_at_most(file.duration_ns).waits_at_most(file.duration_ns);
        }
        match file.warm_up_ns {
            0 => scenario,
            ns => scenario.warm_up(ns),
        }
    }

    /// Puts lanes in force at the beginning of a run of the metascheduler.
    pub fn with_lanes(self, lanes: &[LaneSpec]) -> Self {
        let lanes = lanes.to_vec();
        self.at(0, move |kernel| lanes.iter().for_each(|lane| put_in_force(lane, kernel)))
    }

    /// Adds a machine's kernel threads, as tasks of the root cgroup. Those of CPUs that it has
    /// not are left out.
    pub fn with_kernel_threads(mut self, machine: &MachineSpec) -> Self {
        let all = machine.kernel_threads.len() as u64;
        for (number, thread) in (1..).zip(&machine.kernel_threads) {
            if thread.cpu.is_none_or(|cpu| cpu < machine.cpus) {
                self = self.task(thread.task(number, all));
            }
        }
        self
    }
}

/// Makes a lane, or replaces the one that its application has, and assigns its cgroup.
pub fn put_in_force(lane: &LaneSpec, kernel: &mut Kernel) {
    let weight = (lane.weight_in_force(), lane.weight.is_some());
    metasched::set_app_with(kernel, lane.app, &lane.policy, weight, &lane.settings);
    metasched::assign(kernel, &lane.cgroup, lane.app);
}

fn apply(change: &Change, kernel: &mut Kernel) {
    match change {
        Change::TaskWeight(group, weight) => {
            for task in kernel.tasks_in_group(group) {
                kernel.set_weight(task, *weight);
            }
        }
        Change::TaskAffinity(group, mask) => {
            if mask.and(&CpuMask::first(kernel.nr_cpus())).is_empty() {
                let said = format!("'{group}' may run on no CPU of this machine");
                return kernel.fail("scenario", said);
            }
            for task in kernel.tasks_in_group(group) {
                kernel.set_affinity(task, *mask);
            }
        }
        Change::TaskMove(group, cgroup) => {
            for task in kernel.tasks_in_group(group) {
                kernel.move_to_cgroup(task, cgroup);
            }
        }
        Change::CgroupWeight(path, weight) => kernel.set_cgroup_weight(path, *weight),
        Change::CgroupQuota(path, max, burst_us) => {
            let quota_us = max.quota_us.unwrap_or(NO_QUOTA);
            kernel.set_cgroup_max(path, max.period_us, quota_us, *burst_us);
        }
        Change::CgroupIdle(path, idle) => kernel.set_cgroup_idle(path, *idle),
        Change::Lane(lane) => put_in_force(lane, kernel),
        Change::NoLane { cgroup, app } => {
            metasched::unassign(kernel, cgroup);
            metasched::drop_app(kernel, *app);
        }
        Change::RootLane(policy) => metasched::replace_root(kernel, policy),
        Change::Online(cpu, true) => {
            kernel.cpu_on(*cpu);
        }
        Change::Online(cpu, false) => {
            kernel.cpu_off(*cpu);
        }
    }
}
