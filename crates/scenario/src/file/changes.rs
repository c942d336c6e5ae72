//! What happens to a run from outside, at times that its file tells.

use super::LaneSpec;
use super::values::CpuMax;
use crate::cpu_mask::CpuMask;

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
    CgroupQuota(String, CpuMax, u64),
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
}
