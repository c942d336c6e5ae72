//! Lanes as user space sees them.

use std::collections::BTreeMap;

use metasched_abi::LaneState;
use metasched_stats::WaitHistogram;

/// A lane: a running instance of a policy.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct LaneInfo {
    /// Its slot, used again once the lane is freed.
    pub index: u32,
    /// The name of its policy.
    pub policy: String,
    /// Tells it from every other lane of this load.
    pub generation: u64,
    /// Where it stands in its life.
    pub state: LaneState,
    /// The application whose lane it is or was; 0: the root lane.
    pub app: u32,
    /// What the user gave its application, or `cpu.weight` of its cgroup as told last.
    pub weight: u32,
    /// What its application weighs now beside others, whatever the unit: what the hierarchy of
    /// cgroups leaves it among those that have work.
    pub weight_now: u32,
    /// How many tasks stand in its queues now.
    pub nr_queued: u32,
    /// What its tasks ran, in nanoseconds, while several lanes were served. A
    /// lane alone is not measured: that is what makes it cheap.
    pub runtime_ns: u64,
    /// How often the task of another application was preempted for its application.
    pub kicks: u64,
    /// The longest time for which it had work and its policy gave no CPU a task, in
    /// nanoseconds, as the sweep saw it, every 4 ms.
    pub longest_unserved_ns: u64,
    /// How long its tasks waited for a CPU, from runnable to running, while several lanes
    /// were served; time for which `cpu.max` kept them is waiting too. `None`: this
    /// kernel does not tell (it lacks CONFIG_SCHED_INFO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitHistogram>,
    /// Whether its policy is not asked any more, because it did not dispatch.
    pub quarantined: bool,
    /// When it came into force, nanoseconds of `CLOCK_MONOTONIC`; in a cycle, the last time.
    pub in_force_ns: u64,
    /// When a task first ran since then that came through it, same clock; None: not yet.
    pub first_run_ns: Option<u64>,
    /// What its policy counted, by the names in its `options.h`.
    pub counters: BTreeMap<String, u64>,
}

impl LaneInfo {
    /// Whether every task comes to it that has no application with a lane.
    pub fn is_root(&self) -> bool {
        self.state == LaneState::InForce && self.app == 0
    }

    /// Whether the tasks of an application's cgroups come to it.
    pub fn is_apps(&self) -> bool {
        self.state == LaneState::InForce && self.app != 0
    }
}
