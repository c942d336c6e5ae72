//! What the callbacks of our program take, as the kernel counts it.

use libbpf_rs::query::ProgInfoIter;
use metasched_base::Result;

use crate::run_stats::CountRuns;

/// The callbacks that run for every change of task. The kernel keeps 15 characters of
/// a name, which tell them apart.
pub const HOT_CALLBACKS: [&str; 7] =
    ["select_cpu", "runnable", "enqueue", "dispatch", "running", "stopping", "quiescent"];

/// A callback of our program, summed over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackCost {
    /// Its name in `sched_ext_ops`.
    pub name: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// How long it ran, nanoseconds: the two readings of the clock included.
    pub run_ns: u64,
}

/// Counts while it lives.
#[derive(Debug)]
pub struct CountCallbacks {
    _counting: CountRuns,
}

impl CountCallbacks {
    /// Begins to count.
    ///
    /// # Errors
    /// As [`CountRuns::start`].
    pub fn start() -> Result<Self> {
        Ok(Self { _counting: CountRuns::start()? })
    }

    /// The callbacks of our program so far; empty where it is not loaded.
    pub fn read(&self) -> Vec<CallbackCost> {
        ProgInfoIter::default()
            .filter_map(|program| {
                let name = program.name.to_string_lossy().into_owned();
                let short = name.strip_prefix("metasched_")?;
                let name = HOT_CALLBACKS.into_iter().find(|hot| hot.starts_with(short))?;
                Some(CallbackCost { name, calls: program.run_cnt, run_ns: program.run_time_ns })
            })
            .collect()
    }
}
