//! Cgroups with a limit in `cpu.max`, which level 1 enforces: how often they were throttled.

use serde::{Deserialize, Serialize};

use crate::program::Program;
use crate::skel::metasched::types;

/// The limit of a cgroup and what it has come to. Counts begin when the limit is set, or
/// the program loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The cgroup, by its id.
    pub cgroup: u64,
    /// What it may run in each period, with everything below it, in nanoseconds.
    pub quota_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
    /// What it may save up beyond a quota, in nanoseconds.
    pub burst_ns: u64,
    /// Periods that are over.
    pub nr_periods: u64,
    /// Those of them in which it had used up what it was granted.
    pub nr_throttled: u64,
    /// For how long its tasks were kept from running by that, in nanoseconds.
    pub throttled_ns: u64,
    /// What was used beyond that and is not made up for: a debt that would keep tasks from
    /// running for more than 5 s is written off, in nanoseconds.
    pub forgiven_ns: u64,
    /// Whether they are at this moment.
    pub throttled: bool,
}

/// All limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Those that are enforced.
    pub enforced: Vec<Limit>,
    /// How often there was no place for another one: such a cgroup is not limited.
    pub refused: u64,
}

impl Limit {
    fn new(l: &types::limit, now_ns: u64) -> Self {
        let throttled = l.throttled != 0;
        let since_ns = if throttled { now_ns.saturating_sub(l.throttled_from_ns) } else { 0 };
        Self {
            cgroup: l.cgroup,
            quota_ns: l.quota_ns,
            period_ns: l.period_ns,
            burst_ns: l.burst_ns,
            nr_periods: l.nr_periods,
            nr_throttled: l.nr_throttled,
            throttled_ns: l.throttled_ns + since_ns,
            forgiven_ns: l.forgiven_ns,
            throttled,
        }
    }
}

impl Program {
    /// Every cgroup with a limit in `cpu.max`.
    pub fn limits(&self) -> Limits {
        let now_ns = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
            .map_or(0, |now| std::time::Duration::from(now).as_nanos() as u64);
        let (limits, refused) = self.variables().limits();
        let live = limits.iter().filter(|limit| limit.cgroup != 0);
        Limits { enforced: live.map(|limit| Limit::new(limit, now_ns)).collect(), refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_is_throttled_now_has_been_so_up_to_now() {
        let mut raw = types::limit {
            cgroup: 7,
            throttled_ns: 1_000,
            throttled_from_ns: 5_000,
            ..types::limit::default()
        };
        assert_eq!(Limit::new(&raw, 9_000).throttled_ns, 1_000);
        raw.throttled = 1;
        assert_eq!(Limit::new(&raw, 9_000).throttled_ns, 5_000);
        // The kernel may have moved on since the clock was read.
        assert_eq!(Limit::new(&raw, 4_000).throttled_ns, 1_000);
    }
}
