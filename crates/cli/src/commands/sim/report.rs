//! What is printed of a comparison, as text or as JSON.

use std::collections::BTreeMap;

use metasched_stats::DurationHistogram;
use serde::Serialize;

use super::compare::{Metric, Ratio, Work};

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct Report {
    pub version: String,
    pub scenario: String,
    pub about: String,
    pub machine: String,
    pub duration_ns: u64,
    pub warm_up_ns: u64,
    pub seeds: Vec<u64>,
    pub contenders: Vec<Entry>,
    /// How narrow intervals were to be, and how wide the widest is.
    pub precision: Option<f64>,
    pub widest: Option<f64>,
    pub replay: String,
}

/// A contender.
#[derive(Debug, Serialize)]
pub struct Entry {
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
    pub cgroup: String,
    /// Whether tables show it.
    #[serde(skip)]
    pub shown: bool,
    pub tasks: u64,
    pub work: Work,
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
    pub response: Option<Spread>,
    pub voluntary_per_s: f64,
    pub involuntary_per_s: f64,
    /// These three are none where they are not measured.
    pub migrations_per_s: Option<f64>,
    pub across_llcs_per_s: Option<f64>,
    pub across_nodes_per_s: Option<f64>,
    /// To the first contender, by metric; absent for the first, and where there is nothing
    /// to compare.
    pub ratios: BTreeMap<Metric, Ratio>,
}

/// Percentiles of durations.
#[derive(Debug, Serialize)]
pub struct Spread {
    pub count: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
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
