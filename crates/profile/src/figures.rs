use std::collections::BTreeMap;

use metasched_experiment::Sample;
use metasched_stats::RunLengths;
use serde::{Deserialize, Serialize};

/// What one run of a load gave.
///
/// Latencies are in microseconds. Where the load tool gives a histogram, the
/// percentiles are recomputed from it, so that every workload's are made alike.
/// What metasched observes itself is absent where it did not look (control runs)
/// or could not (the kernel does not tell, or the threads were gone by then).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// Requests (or whatever the form's unit says) finished in a second.
    pub throughput_per_s: f64,
    /// How many were finished.
    pub requests: u64,
    /// How many failed; they count in no other figure.
    pub errors: u64,
    /// How long the load ran, in seconds, as the load tool says.
    pub duration_s: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 95th percentile of the latency.
    pub p95_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
    /// 99.9th percentile of the latency.
    pub p999_us: f64,
    /// Highest latency.
    pub max_us: f64,
    /// Latency histogram: value in microseconds, count; ascending by value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<(u64, u64)>>,
    /// Likewise of some of the requests, by what the load calls them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub subsets: BTreeMap<String, Vec<(u64, u64)>>,
    /// Mean time that a thread of the application waited on a run queue each time
    /// that it got a CPU (schedstat), in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_mean_us: Option<f64>,
    /// How long all threads of the machine together waited for a CPU while the load was there, from
    /// its start to its end, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_s: Option<f64>,
    /// Voluntary context switches of the application in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvcsw_per_s: Option<f64>,
    /// Involuntary context switches of the application in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nivcsw_per_s: Option<f64>,
    /// CPU time of the application during the run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Of it in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    /// Exit status of a command that the user gave, as a shell tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Of a pair: the geometric mean of what its services serve in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_per_s: Option<f64>,
    /// Of a pair: how good it was for each by what that is for, only good for ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merit: Option<f64>,
    /// Run-queue waits of the application, only in traced runs: bucket i counts
    /// those of at least 2^i and less than 2^(i+1) nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_histogram: Option<Vec<u64>>,
    /// Likewise those of the tool that loads it, where that has a cgroup of its own: the clients
    /// wait for CPUs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_wait_histogram: Option<Vec<u64>>,
    /// How long the application's threads ran at a time, only in traced runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunLengths>,
}

impl LoadFigures {
    /// As the experiment counts them.
    pub fn sample(&self) -> Sample {
        // No latency at all is written as 0.
        let p99_us = if self.p99_us > 0.0 { self.p99_us } else { f64::NAN };
        let sample = Sample::new(self.throughput_per_s, p99_us);
        let done = self.throughput_per_s * self.duration_s;
        Sample {
            wait_us: self.waited_s.map_or(f64::NAN, |waited_s| waited_s * 1e6 / done),
            served_per_s: self.served_per_s.unwrap_or(sample.served_per_s),
            merit: self.merit.unwrap_or(sample.merit),
            ..sample
        }
    }
}

/// What one cgroup did during a run. Rates are per second of the load's duration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartFigures {
    /// CPU time in seconds, from the cgroup's `cpu.stat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Of it in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    /// Mean run-queue wait for each time that a thread got a CPU, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_mean_us: Option<f64>,
    /// How often its threads got a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeslices: Option<u64>,
    /// Voluntary context switches in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvcsw_per_s: Option<f64>,
    /// Involuntary context switches in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nivcsw_per_s: Option<f64>,
    /// Run-queue waits, only in traced runs; buckets as in [`LoadFigures::wait_histogram`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_histogram: Option<Vec<u64>>,
    /// How long its threads ran at a time, only in traced runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunLengths>,
    /// What its own load says, where it is one of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Box<LoadFigures>>,
}

/// The figures of each part of an application, by the name of its cgroup; of each of a pair by
/// its name.
pub type Parts = BTreeMap<String, PartFigures>;
