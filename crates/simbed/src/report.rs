//! What is printed of a comparison, as text or as JSON.

use std::collections::BTreeMap;

use metasched_experiment::Work;
use metasched_stats::DurationHistogram;
use serde::Serialize;

use crate::comparison::{Metric, Ratio};

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of the simulator.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// What it is, in its own words; may be empty.
    pub about: String,
    /// The machine, in words.
    pub machine: String,
    /// How long a run was.
    pub duration_ns: u64,
    /// How much of that does not count.
    pub warm_up_ns: u64,
    /// The seed of each run.
    pub seeds: Vec<u64>,
    /// What is compared; the first is what the others are compared with.
    pub contenders: Vec<Entry>,
    /// How narrow intervals were to be, where a number of runs was not asked for.
    pub precision: Option<f64>,
    /// How wide the widest is, to either side, as a part of the ratio.
    pub widest: Option<f64>,
    /// The command that gives the same again.
    pub replay: String,
}

/// A contender.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// By cgroup; the last one is all.
    pub groups: Vec<GroupEntry>,
    /// Of the CPU time that there was, how much was used.
    pub utilisation: f64,
    /// Of the CPU time that there was, how much was idle while somebody waited.
    /// None where it is not measured.
    pub idle_beside_work: Option<f64>,
    /// Events that the engine handled; none where it was replayed on a machine.
    pub events: Option<u64>,
}

/// The figures of a cgroup, over all seeds.
#[derive(Debug, Serialize)]
pub struct GroupEntry {
    /// Its path; `(root)`, or `all`.
    pub cgroup: String,
    /// Whether tables show it.
    #[serde(skip)]
    pub shown: bool,
    /// The most that it had in a run.
    pub tasks: u64,
    /// What its work is counted in.
    pub work: Work,
    /// That work, per second.
    pub throughput_per_s: f64,
    /// CPUs in use in the mean.
    pub cpus: f64,
    /// Of the CPU time that was used.
    pub share: f64,
    /// None where it is not measured.
    pub wait: Option<Spread>,
    /// For how long `cpu.max` kept its tasks off the CPUs in a run, all of them together; none
    /// where it is not measured.
    pub throttled_ns: Option<u64>,
    /// Of requests, where there are any.
    pub response: Option<Spread>,
    /// How often a task slept.
    pub voluntary_per_s: f64,
    /// How often a task had to leave its CPU.
    pub involuntary_per_s: f64,
    /// How often a task changed its CPU; none where it is not measured, as the next two.
    pub migrations_per_s: Option<f64>,
    /// Of these, how often to a CPU with another last-level cache.
    pub across_llcs_per_s: Option<f64>,
    /// Of these, how often to another NUMA node.
    pub across_nodes_per_s: Option<f64>,
    /// To the first contender, by metric; absent for the first, and where there is nothing
    /// to compare.
    pub ratios: BTreeMap<Metric, Ratio>,
}

/// Percentiles of durations.
#[derive(Debug, Serialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// Of ten, nine are at most as long.
    pub p90_ns: u64,
    /// Of a hundred, ninety-nine are at most as long.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Spread {
    /// Of these durations.
    pub fn of(durations: &DurationHistogram) -> Self {
        let at = |q| durations.percentile_ns(q).unwrap_or(0);
        Spread {
            count: durations.count(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: durations.max_ns().unwrap_or(0),
        }
    }
}
