//! What every scheduler is measured under, and which way its figures are better.

use std::time::Duration;

use metasched_base::Result;
use metasched_benches::Timed;
use metasched_benches::beside::{Groups, Part, Play, Run};

/// How long the service is measured.
const SERVICE_LASTS: Duration = Duration::from_secs(4);
/// Threads of the batch job beside it, and of the fork storm, for each CPU.
const BATCH_THREADS: usize = 4;
const FORK_THREADS: usize = 2;

/// A figure of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name in tables and in JSON.
    pub name: &'static str,
    /// Whether less is better.
    pub less: bool,
}

impl Figure {
    /// How many times as good as under the baseline it is.
    pub fn over(&self, value: f64, baseline: f64) -> (f64, f64) {
        if self.less { (baseline, value) } else { (value, baseline) }
    }
}

/// One load, which gives one figure or more.
pub struct Load {
    /// By which it is chosen.
    pub name: &'static str,
    /// In the order in which they are measured.
    pub figures: &'static [Figure],
    how: How,
}

enum How {
    Command(Timed),
    /// A service with a neighbour: threads for each CPU.
    Beside(Part, usize),
}

const fn less(name: &'static str) -> Figure {
    Figure { name, less: true }
}

const fn more(name: &'static str) -> Figure {
    Figure { name, less: false }
}

/// Sized for about two seconds each in an emulated guest of two CPUs.
pub const LOADS: [Load; 7] = [
    Load {
        name: "hackbench",
        figures: &[less("hackbench")],
        how: How::Command(Timed {
            name: "hackbench",
            command: &["hackbench", "-g", "4", "-l", "{}"],
            loops: 150,
            marker: "Time:",
        }),
    },
    Load {
        name: "pipe",
        figures: &[less("pipe")],
        how: How::Command(Timed {
            name: "pipe",
            command: &["perf", "bench", "sched", "pipe", "-l", "{}"],
            loops: 15_000,
            marker: "Total time:",
        }),
    },
    Load {
        name: "threads",
        figures: &[less("threads")],
        how: How::Command(Timed {
            name: "threads",
            command: &[
                "sysbench",
                "threads",
                "--threads=8",
                "--thread-locks=2",
                "--time=0",
                "--events={}",
                "run",
            ],
            loops: 150,
            marker: "total time:",
        }),
    },
    Load {
        name: "cpu",
        figures: &[less("cpu")],
        how: How::Command(Timed {
            name: "cpu",
            command: &["sysbench", "cpu", "--threads=6", "--time=0", "--events={}", "run"],
            loops: 2_000,
            marker: "total time:",
        }),
    },
    Load {
        name: "compile",
        figures: &[less("compile")],
        how: How::Command(Timed {
            name: "compile",
            command: &[
                "bash",
                "-c",
                "cd /usr/include && TIMEFORMAT='Time: %R' && time (seq {} | \
                 xargs -P 4 -I UNIT cc -O1 -x c -c -o /dev/null -include stdlib.h -include math.h stdio.h)",
            ],
            loops: 24,
            marker: "Time:",
        }),
    },
    Load {
        name: "batch",
        figures: &[less("p99 / batch"), more("batch")],
        how: How::Beside(Part::Batch, BATCH_THREADS),
    },
    Load {
        name: "forks",
        figures: &[less("p99 / forks"), more("forks")],
        how: How::Beside(Part::Forks, FORK_THREADS),
    },
];

/// What loads need of the machine.
pub struct Ground<'a> {
    /// The service's and its neighbour's cgroup; commands run in the service's.
    pub groups: &'a Groups,
    /// By `calibrate()`.
    pub work: u64,
    /// How many times as long commands are.
    pub scale: f64,
}

impl Load {
    /// Runs it once.
    ///
    /// # Returns
    /// A value for each of its figures: seconds, microseconds, or something a second.
    pub fn run(&self, ground: &Ground) -> Result<Vec<f64>> {
        match self.how {
            How::Command(timed) => {
                Ok(vec![timed.scaled(ground.scale).run(Some(&ground.groups.service))?])
            }
            How::Beside(part, threads) => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let neighbour = Play::neighbour(part, threads * cpus, ground.work);
                let service = Play::service(SERVICE_LASTS, ground.work);
                let serve = |()| service.serve(&ground.groups.service);
                let Run { seen, done_per_s, .. } =
                    ground.groups.run(Some(neighbour), || Ok(()), serve)?;
                Ok(vec![seen.response_p99_us, done_per_s])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let names: Vec<&str> =
            LOADS.iter().flat_map(|load| load.figures).map(|figure| figure.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn better_is_above_one_whichever_way_it_is_counted() {
        let ratio = |(a, b): (f64, f64)| a / b;
        assert_eq!(ratio(less("a time").over(1.0, 2.0)), 2.0);
        assert_eq!(ratio(more("a rate").over(2.0, 1.0)), 2.0);
    }
}
