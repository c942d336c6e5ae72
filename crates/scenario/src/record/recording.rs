//! What was recorded: the trace, and what is known beside it.

use super::events::Event;
use super::threads::Seen;
use std::collections::{BTreeMap, BTreeSet};

/// Cgroups that lie deeper than a scenario may have them count as those above them.
const DEEPEST: usize = 14;

/// What is known of a thread beside its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its name, where the trace has none.
    pub comm: String,
    /// Its cgroup below the root of the hierarchy; the root's is empty.
    pub cgroup: String,
    /// The CPUs that it may use, as the model numbers them; none means all.
    pub affinity: Option<BTreeSet<u32>>,
    /// Whether it is a thread of the kernel's own.
    pub kthread: bool,
}

/// The machine, as far as a model can be like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// CPUs that are on line.
    pub cpus: usize,
    /// Last-level caches.
    pub llcs: usize,
    /// NUMA nodes.
    pub nodes: usize,
    /// Whether two CPUs share each core.
    pub smt: bool,
    /// Ticks per second, where that is known.
    pub hz: Option<u32>,
}

/// What a cgroup is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupFacts {
    /// `cpu.weight`, where the cpu controller is enabled.
    pub weight: Option<u32>,
    /// `cpu.max`: quota and period, us; none means "max".
    pub quota_us: Option<(u64, u64)>,
    /// `cpu.max.burst`, us.
    pub burst_us: u64,
    /// `cpu.idle`.
    pub idle: bool,
}

/// What was recorded of a machine.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// What the scenario is to be called.
    pub name: String,
    /// Where it will be, for the command that its head names.
    pub file: String,
    /// What it was made from, and what else its head is to say; lines without '#'.
    pub about: Vec<String>,
    /// What happened, in the order of time.
    pub events: Vec<Event>,
    /// How many events were lost.
    pub lost: u64,
    /// The machine, where it is known.
    pub machine: Option<MachineFacts>,
    /// What is known of threads, by their ids. One of which nothing is known is like the one
    /// that bore it.
    pub threads: BTreeMap<u32, Facts>,
    /// What is known of cgroups, by their paths.
    pub cgroups: BTreeMap<String, CgroupFacts>,
    /// Threads that belong to the recording itself.
    pub without: BTreeSet<u32>,
    /// Only what is in this cgroup or below it.
    pub only: Option<String>,
}

impl Recording {
    /// What is known of a thread; none if it is not to be in the scenario.
    pub(super) fn facts(&self, pid: u32, threads: &BTreeMap<u32, Seen>) -> Option<Facts> {
        if self.without.contains(&pid) {
            return None;
        }
        let mut above = BTreeSet::new();
        let mut at = Some(pid);
        let mut facts = Facts::default();
        while let Some(pid) = at.filter(|pid| above.insert(*pid)) {
            if let Some(known) = self.threads.get(&pid) {
                facts = known.clone();
                break;
            }
            at = threads.get(&pid).and_then(|seen| seen.parent);
        }
        if let Some((at, _)) = facts.cgroup.match_indices('/').nth(DEEPEST - 1) {
            facts.cgroup.truncate(at);
        }
        let within = |only: &String| {
            let rest = facts.cgroup.strip_prefix(only.as_str());
            rest.is_some_and(|rest| only.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        self.only.as_ref().is_none_or(within).then_some(facts)
    }
}
