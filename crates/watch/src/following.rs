//! A process and its children, followed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use metasched_base::{Figure, Interrupt, Result, Unit};
use metasched_host::process::ProcessId;
use metasched_loader::{CountRuns, FollowedProcess, Follower, Runs};

use crate::force::{Force, in_force};
use crate::looking_cost::LookingCost;
use crate::whom::process;

/// A process and all that it forks, from when this is made on.
pub struct Following {
    follower: Follower,
    counting: Option<CountRuns>,
    ran_before: Runs,
    began: Instant,
    cpus: u32,
    force: Force,
}

/// What is told of a process that is followed, in tables and documents.
pub const PROCESS_FIGURES: &[Figure<FollowedProcess>] = &[
    Figure {
        name: "ran_ns",
        title: "RAN",
        unit: Unit::Nanoseconds,
        help: "how long its threads ran, without runs that go on",
        of: |process| Some(process.ran_ns as f64),
    },
    Figure {
        name: "waited_ns",
        title: "WAITED",
        unit: Unit::Nanoseconds,
        help: "how long its threads waited for a CPU, without waits that go on",
        of: |process| Some(process.waits.sum_ns as f64),
    },
    Figure {
        name: "wait_p50_ns",
        title: "P50",
        unit: Unit::Nanoseconds,
        help: "half of its waits were no longer",
        of: |process| process.waits.percentile_ns(0.5).map(|ns| ns as f64),
    },
    Figure {
        name: "wait_p99_ns",
        title: "P99",
        unit: Unit::Nanoseconds,
        help: "99 of a hundred of its waits were no longer",
        of: |process| process.waits.percentile_ns(0.99).map(|ns| ns as f64),
    },
    Figure {
        name: "wait_max_ns",
        title: "LONGEST",
        unit: Unit::Nanoseconds,
        help: "its longest wait",
        of: |process| (process.waits.count() > 0).then_some(process.waits.max_ns as f64),
    },
    Figure {
        name: "runs",
        title: "RUNS",
        unit: Unit::Count,
        help: "how often a thread of it began to run",
        of: |process| Some(process.runs as f64),
    },
    Figure {
        name: "preemptions",
        title: "PREEMPTED",
        unit: Unit::Count,
        help: "how often a thread of it had to stop and could have gone on",
        of: |process| Some(process.preemptions as f64),
    },
    Figure {
        name: "moves",
        title: "MOVED",
        unit: Unit::Count,
        help: "how often a thread of it began to run on another CPU than before",
        of: |process| Some(process.moves as f64),
    },
];

impl Following {
    /// Begins to follow a process, all that is below it, and what these fork from now on.
    ///
    /// # Errors
    /// `BadInput` where there is none of that number; else as [`Follower::attach`].
    pub fn begin(pid: u32, interrupt: &Interrupt) -> Result<Self> {
        let root = Path::new("/");
        let force = in_force(interrupt)?;
        let follower = Follower::attach(&family(root, process(root, pid)?))?;
        let counting = CountRuns::start().ok();
        let cpus = metasched_host::machine::machine(root)?.cpus;
        let ran_before = follower.runs()?;
        Ok(Self { follower, counting, ran_before, began: Instant::now(), cpus, force })
    }

    /// What is in force since it began, as users name it.
    pub fn scheduler(&self) -> &str {
        &self.force.scheduler
    }

    /// For how long it has followed them, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// All that was seen so far, by number; those that have ended, too.
    pub fn read(&self) -> Result<BTreeMap<u32, FollowedProcess>> {
        self.follower.read()
    }

    /// How many processes there was no room for.
    pub fn missed(&self) -> u64 {
        self.follower.missed()
    }

    /// What following took so far; none where the kernel does not tell.
    pub fn overhead(&self) -> Result<Option<LookingCost>> {
        if self.counting.is_none() {
            return Ok(None);
        }
        let runs = self.follower.runs()?.since(&self.ran_before);
        Ok(Some(LookingCost::new(runs, self.length_ns(), self.cpus)))
    }
}

/// A process and all below it, with their names.
fn family(root: &Path, pid: u32) -> BTreeMap<u32, String> {
    let mut family = BTreeMap::new();
    let mut next: Vec<ProcessId> =
        i32::try_from(pid).ok().and_then(|pid| ProcessId::of(root, pid)).into_iter().collect();
    while let Some(one) = next.pop() {
        let name = std::fs::read_to_string(root.join(format!("proc/{}/comm", one.pid)));
        // One that has ended meanwhile is not looked for any more.
        let Ok(name) = name else { continue };
        if family.insert(one.pid as u32, name.trim_end().to_owned()).is_none() {
            next.extend(one.children(root));
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_a_process_its_children_and_theirs() {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent) in [(10, 1), (11, 10), (12, 11), (13, 1)] {
            let folder = root.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            let rest = "1 1 0 -1 0 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
            std::fs::write(folder.join("stat"), format!("{pid} (x) S {parent} {rest}\n")).unwrap();
            std::fs::write(folder.join("comm"), format!("name{pid}\n")).unwrap();
        }
        let names: Vec<String> = family(root.path(), 10).into_values().collect();
        assert_eq!(names, ["name10", "name11", "name12"]);
        assert!(family(root.path(), 99).is_empty());
    }
}
