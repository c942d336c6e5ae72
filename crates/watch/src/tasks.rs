//! The threads of some cgroups, and what they did between two looks.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use metasched_base::{Figure, Unit};
use metasched_host::cgroup::{Cgroup, SchedStat, thread_stat};

/// Of more threads nobody reads a list, and each costs two files at each look.
const THREADS_MOST: usize = 2000;

/// A thread, over the time between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Its number.
    pub tid: i32,
    /// That of its process.
    pub pid: i32,
    /// What it is called.
    pub name: String,
    /// How many CPUs' worth of time it had: 1 at most.
    pub cpus: f64,
    /// For what part of the time it waited for a CPU.
    pub waited: f64,
    /// Its mean wait before a run, nanoseconds; none where it did not run.
    pub wait_ns: Option<f64>,
    /// How often a second it began to run.
    pub runs_per_s: f64,
    /// How often a second it had to stop and could have gone on.
    pub preempted_per_s: f64,
    /// How often a second it stopped by itself.
    pub slept_per_s: f64,
}

/// What is told of a thread, in tables and documents.
pub const TASK_FIGURES: &[Figure<Task>] = &[
    Figure {
        name: "cpus",
        title: "CPU",
        unit: Unit::Share,
        help: "for what part of the time it ran",
        of: |task| Some(task.cpus),
    },
    Figure {
        name: "waited",
        title: "WAITED",
        unit: Unit::Share,
        help: "for what part of the time it waited for a CPU",
        of: |task| Some(task.waited),
    },
    Figure {
        name: "wait_ns",
        title: "MEAN WAIT",
        unit: Unit::Nanoseconds,
        help: "its mean wait before a run",
        of: |task| task.wait_ns,
    },
    Figure {
        name: "runs_per_s",
        title: "RUNS/S",
        unit: Unit::PerSecond,
        help: "how often a second it began to run",
        of: |task| Some(task.runs_per_s),
    },
    Figure {
        name: "preempted_per_s",
        title: "PREEMPTED/S",
        unit: Unit::PerSecond,
        help: "how often a second it had to stop and could have gone on",
        of: |task| Some(task.preempted_per_s),
    },
    Figure {
        name: "slept_per_s",
        title: "SLEPT/S",
        unit: Unit::PerSecond,
        help: "how often a second it stopped by itself, to sleep or to wait for something",
        of: |task| Some(task.slept_per_s),
    },
];

/// Looks at the threads of cgroups again and again.
#[derive(Debug)]
pub struct Tasks {
    root: PathBuf,
    earlier: HashMap<i32, SchedStat>,
    at: Instant,
}

impl Tasks {
    /// Looks for the first time, on the system below `root`.
    pub fn begin(root: &Path, cgroups: &[String], without: &[String]) -> Self {
        let mut tasks = Self { root: root.to_owned(), earlier: HashMap::new(), at: Instant::now() };
        tasks.look(cgroups, without);
        tasks
    }

    /// The threads in these cgroups and below, without those in others and below them; those that ran
    /// most come first. Of the whole system, if no cgroup is named.
    pub fn look(&mut self, cgroups: &[String], without: &[String]) -> Vec<Task> {
        let now = Instant::now();
        let seconds = now.duration_since(self.at).as_secs_f64().max(1e-6);
        let threads = self.threads(cgroups, without);
        let mut tasks: Vec<Task> = threads
            .iter()
            .map(|(tid, (pid, folder, stat))| {
                let before = self.earlier.get(tid).filter(|b| b.run_ns <= stat.run_ns);
                let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
                let task = Task {
                    tid: *tid,
                    pid: *pid,
                    name: name.trim_end().to_owned(),
                    ..Task::default()
                };
                // One that is new here has a past that is not of this time.
                before.map_or(task.clone(), |before| task.with(before, stat, seconds))
            })
            .collect();
        tasks.sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then(a.tid.cmp(&b.tid)));
        self.earlier = threads.into_iter().map(|(tid, (_, _, stat))| (tid, stat)).collect();
        self.at = now;
        tasks
    }

    /// Process, folder and figures of each thread.
    fn threads(
        &self,
        cgroups: &[String],
        without: &[String],
    ) -> HashMap<i32, (i32, PathBuf, SchedStat)> {
        let within = |name: &str, path: &String| {
            name == path
                || name.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let named: Vec<String> = match cgroups {
            [] => vec![String::new()],
            some => some.to_vec(),
        };
        let mut threads = HashMap::new();
        let all = named
            .iter()
            .filter_map(|path| {
                Cgroup::find(&self.root, &format!("/{path}/")).ok()?.and_below().ok()
            })
            .flatten()
            .filter(|cgroup| !without.iter().any(|path| within(&cgroup.name(), path)));
        for pid in all.flat_map(|cgroup| processes(&cgroup)) {
            let folder = self.root.join(format!("proc/{pid}/task"));
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let tid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
                if let (Some(tid), Some(stat)) = (tid, thread_stat(&entry.path())) {
                    threads.insert(tid, (pid, entry.path(), stat));
                }
                if threads.len() >= THREADS_MOST {
                    return threads;
                }
            }
        }
        threads
    }
}

/// Those in the cgroup itself.
fn processes(cgroup: &Cgroup) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.path().join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

impl Task {
    /// With what it did between two readings.
    fn with(mut self, before: &SchedStat, now: &SchedStat, seconds: f64) -> Self {
        let waited_ns = now.wait_ns.saturating_sub(before.wait_ns) as f64;
        let runs = now.timeslices.saturating_sub(before.timeslices) as f64;
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        self.cpus = rate(now.run_ns, before.run_ns) / 1e9;
        self.waited = waited_ns / 1e9 / seconds;
        self.wait_ns = (runs > 0.0).then(|| waited_ns / runs);
        self.runs_per_s = runs / seconds;
        self.preempted_per_s = rate(now.nivcsw, before.nivcsw);
        self.slept_per_s = rate(now.nvcsw, before.nvcsw);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn thread(root: &Path, pid: i32, tid: i32, schedstat: &str) {
        let folder = format!("proc/{pid}/task/{tid}");
        write(root, &format!("{folder}/comm"), &format!("t{tid}\n"));
        write(root, &format!("{folder}/schedstat"), schedstat);
        let switches = "voluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t2\n";
        write(root, &format!("{folder}/status"), switches);
    }

    #[test]
    fn threads_of_cgroups_and_below_without_others_those_that_ran_most_first() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (cgroup, pid) in [("", 1), ("a", 10), ("a/b", 20), ("ab", 30)] {
            let folder = Path::new("sys/fs/cgroup").join(cgroup);
            write(root, &folder.join("cgroup.procs").to_string_lossy(), &format!("{pid}\n"));
            write(root, &folder.join("cgroup.controllers").to_string_lossy(), "cpu\n");
            thread(root, pid, pid, "0 0 0");
        }
        thread(root, 10, 11, "0 0 0");
        let tids = |cgroups: &[&str], without: &[&str]| {
            let owned =
                |all: &[&str]| all.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
            let mut tasks = Tasks::begin(root, &owned(cgroups), &owned(without));
            let found = tasks.look(&owned(cgroups), &owned(without));
            found.iter().map(|task| task.tid).collect::<Vec<_>>()
        };
        assert_eq!(tids(&["a"], &[]), [10, 11, 20]);
        assert_eq!(tids(&[], &["a"]), [1, 30]);
        let mut tasks = Tasks::begin(root, &["a".to_owned()], &[]);
        thread(root, 10, 11, "500000 2000000 4");
        let found = tasks.look(&["a".to_owned()], &[]);
        assert_eq!((found[0].tid, found[0].pid, found[0].name.as_str()), (11, 10, "t11"));
        assert_eq!(found[0].wait_ns, Some(500_000.0));
        assert!(found[0].cpus > 0.0 && found[0].waited > found[0].cpus, "{:?}", found[0]);
        // One that was not there before has done nothing yet.
        thread(root, 20, 21, "900000000 0 9");
        let new = tasks.look(&["a".to_owned()], &[]);
        assert_eq!(new.iter().find(|task| task.tid == 21).unwrap().cpus, 0.0);
    }
}
