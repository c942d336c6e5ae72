//! What happens to a run from outside, at times that its file tells.

use super::LaneSpec;
use super::values::Quota;
use crate::abi::CpuMask;
use crate::kernel::Kernel;
use crate::metasched;

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// All tasks of a group that live get another weight.
    TaskWeight(String, u32),
    /// They may use other CPUs.
    TaskAffinity(String, CpuMask),
    /// They move to another cgroup.
    TaskMove(String, String),
    /// `cpu.weight` of a cgroup.
    CgroupWeight(String, u32),
    /// `cpu.max` of a cgroup, with its burst in us.
    CgroupQuota(String, Quota, u64),
    /// `cpu.idle` of a cgroup.
    CgroupIdle(String, bool),
    /// A cgroup has a lane of its own, its first or another one.
    Lane(LaneSpec),
    /// It has none any more.
    NoLane {
        /// The cgroup.
        cgroup: String,
        /// The number of its application.
        app: u32,
    },
    /// The root lane is replaced.
    RootLane(String),
    /// A CPU goes off line, or on line again.
    Online(usize, bool),
}

impl Change {
    /// Whether it changes lanes, which the fair class has none of.
    pub fn needs_program(&self) -> bool {
        matches!(self, Change::Lane(_) | Change::NoLane { .. } | Change::RootLane(_))
    }

    /// Carries it out.
    pub fn apply(&self, kernel: &mut Kernel) {
        match self {
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
            Change::CgroupQuota(path, quota, burst_us) => {
                kernel.set_cgroup_max(path, quota.period_us, quota.quota_us, *burst_us);
            }
            Change::CgroupIdle(path, idle) => kernel.set_cgroup_idle(path, *idle),
            Change::Lane(lane) => lane.put_in_force(kernel),
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
}
