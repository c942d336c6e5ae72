//! What changes from outside: cgroups, weights and affinities, at the beginning or later.

use metasched_base::Result;
use metasched_host::cgroup::Cgroup;
use metasched_scenario::file::{Change, CpuMax};
use nix::unistd::Pid;

use crate::threads::{set_affinity, set_weight};

/// Carries a change out on the machine; `threads` are those of a group that live. What
/// cannot be replayed never comes here, and every cgroup that is named was made.
pub fn carry_out<'a>(
    change: &Change,
    cgroup: impl Fn(&str) -> Option<&'a Cgroup>,
    threads: impl Fn(&str) -> Vec<Pid>,
) -> Result<()> {
    let set =
        |path: &str, file: &str, value: &str| cgroup(path).expect("it was made").set(file, value);
    match change {
        Change::TaskWeight(group, weight) => {
            threads(group).into_iter().try_for_each(|tid| set_weight(tid, *weight))
        }
        Change::TaskAffinity(group, mask) => {
            threads(group).into_iter().try_for_each(|tid| set_affinity(tid, mask.iter()))
        }
        Change::CgroupWeight(path, weight) => set(path, "cpu.weight", &weight.to_string()),
        Change::CgroupIdle(path, idle) => set(path, "cpu.idle", if *idle { "1" } else { "0" }),
        Change::CgroupQuota(path, CpuMax { quota_us, period_us }, burst_us) => {
            let quota = quota_us.map_or("max".to_owned(), |us| us.to_string());
            set(path, "cpu.max", &format!("{quota} {period_us}"))?;
            set(path, "cpu.max.burst", &burst_us.to_string())
        }
        Change::TaskMove(..)
        | Change::Lane(_)
        | Change::NoLane { .. }
        | Change::RootLane(_)
        | Change::Online(..) => unreachable!("none can be replayed: {change:?}"),
    }
}

/// The cgroup that a change is about.
pub fn cgroup_of(change: &Change) -> Option<&str> {
    match change {
        Change::CgroupWeight(path, _)
        | Change::CgroupIdle(path, _)
        | Change::CgroupQuota(path, ..) => Some(path),
        _ => None,
    }
}
