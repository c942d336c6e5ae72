//! cgroup v2: made, found, filled, read, followed and removed.

mod find;
mod limits;
mod tree;
mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use serde::{Deserialize, Serialize};

pub use find::of_process;
pub use limits::Limits;
pub use tree::{Node, Tree};
pub use watch::Watch;

/// Where cgroup v2 is mounted, below the root of the file system.
pub const MOUNT: &str = "sys/fs/cgroup";

/// How long killed processes may take to vanish. The kernel kills at once; what
/// takes time is a process in the middle of an uninterruptible wait.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A control group. Dropping it does not remove it: call [`Cgroup::remove`].
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// The root of the file system, for `/proc` and `/sys`.
    root: PathBuf,
    path: PathBuf,
}

/// CPU time of a cgroup and everything below it since it was made, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStat {
    /// All CPU time.
    pub usage_usec: u64,
    /// Of it in user space.
    pub user_usec: u64,
    /// Of it in the kernel.
    pub system_usec: u64,
    /// For how long the kernel kept its tasks from running by `cpu.max`; 0 where it has none.
    pub throttled_usec: u64,
}

/// What the scheduler did for a set of threads. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedStat {
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time runnable but not running: the run-queue wait, in whatever queue.
    pub wait_ns: u64,
    /// How many times a thread was put on a CPU.
    pub timeslices: u64,
    /// Switches that a thread asked for by blocking.
    pub nvcsw: u64,
    /// Switches that were forced on a thread.
    pub nivcsw: u64,
}

impl std::ops::AddAssign for SchedStat {
    fn add_assign(&mut self, other: Self) {
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.timeslices += other.timeslices;
        self.nvcsw += other.nvcsw;
        self.nivcsw += other.nivcsw;
    }
}

/// [`SchedStat`] of each thread, so that a difference of two readings stays right
/// when threads come and go in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStats(BTreeMap<i32, SchedStat>);

impl ThreadStats {
    /// The sum over all threads.
    pub fn total(&self) -> SchedStat {
        let mut sum = SchedStat::default();
        for stat in self.0.values() {
            sum += *stat;
        }
        sum
    }

    /// What was added since an earlier reading.
    ///
    /// A thread that began in between counts whole; of one that ended, what it did
    /// after the earlier reading is lost, as the kernel keeps nothing of it. A thread
    /// whose counters fell is a new one that was given an old number.
    pub fn since(&self, earlier: &ThreadStats) -> SchedStat {
        let mut sum = SchedStat::default();
        for (tid, now) in &self.0 {
            let before = earlier
                .0
                .get(tid)
                .copied()
                .filter(|b| b.run_ns <= now.run_ns && b.timeslices <= now.timeslices)
                .unwrap_or_default();
            sum += SchedStat {
                run_ns: now.run_ns - before.run_ns,
                wait_ns: now.wait_ns.saturating_sub(before.wait_ns),
                timeslices: now.timeslices - before.timeslices,
                nvcsw: now.nvcsw.saturating_sub(before.nvcsw),
                nivcsw: now.nivcsw.saturating_sub(before.nivcsw),
            };
        }
        sum
    }
}

/// The controllers of the hierarchy that is mounted at [`MOUNT`]. One of v2 that is elsewhere, beside
/// those of v1, does not count: its controllers are there.
///
/// # Errors
/// `Unsupported` where it is not of cgroup v2.
pub fn controllers(root: &Path) -> Result<Vec<String>> {
    let path = root.join(MOUNT);
    let text = fs::read_to_string(path.join("cgroup.controllers")).map_err(|_| {
        let cause = format!("'{}' is not a cgroup v2 file system", path.display());
        Error::new(Kind::Unsupported, "use cgroups", cause)
            .remedy("boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2 there")
    })?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

impl Cgroup {
    /// Makes the cgroup `name` (relative to `/sys/fs/cgroup`, such as
    /// `metasched/qa/front`), or takes the one that is there.
    ///
    /// The cpu controller is enabled for it in each of its parents: without that the
    /// kernel does not tell a BPF scheduler when a task moves between cgroups.
    pub fn create(name: &str) -> Result<Self> {
        Self::create_at(Path::new("/"), name)
    }

    /// As [`Cgroup::create`], on the system whose root directory is `root`.
    pub fn create_at(root: &Path, name: &str) -> Result<Self> {
        let attempt = || format!("make the cgroup '{name}'");
        if !is_plain(name) || name.is_empty() {
            return Err(Error::new(Kind::BadInput, attempt(), "it is not a plain relative path")
                .remedy("write it like 'metasched/qa/front'"));
        }
        let mut path = root.join(MOUNT);
        controllers(root).map_err(|error| Error { attempt: attempt(), ..error })?;
        for part in Path::new(name).components() {
            let control = path.join("cgroup.subtree_control");
            let enabled = fs::read_to_string(&control).unwrap_or_default();
            if !enabled.split_whitespace().any(|c| c.trim_start_matches('+') == "cpu") {
                fs::OpenOptions::new()
                    .write(true)
                    .open(&control)
                    .and_then(|mut file| std::io::Write::write_all(&mut file, b"+cpu"))
                    .map_err(|e| denied(e, format!("write '+cpu' to '{}'", control.display())))?;
            }
            path.push(part);
            match fs::create_dir(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(denied(e, format!("make '{}'", path.display())));
                }
                _ => {}
            }
        }
        Ok(Self { root: root.to_owned(), path })
    }

    /// The cgroup whose folder is `path`, which must be there.
    pub fn open(path: &Path) -> Result<Self> {
        fs::metadata(path.join("cgroup.procs"))
            .attempt(Kind::Failed, || format!("open the cgroup '{}'", path.display()))?;
        Ok(Self { root: PathBuf::from("/"), path: path.to_owned() })
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's number of it, by which BPF programs know it.
    pub fn id(&self) -> Result<u64> {
        fs::metadata(&self.path)
            .map(|m| m.ino())
            .attempt(Kind::Failed, || format!("read the number of '{}'", self.path.display()))
    }

    /// The processes in it, and in the cgroups below it. Those of threaded cgroups below it are in a cgroup
    /// above these, and are among them so.
    ///
    /// # Errors
    /// `Failed` where it is itself threaded: it has threads, and no processes.
    pub fn pids(&self) -> Result<Vec<i32>> {
        self.numbers("cgroup.procs")
    }

    /// The threads in it, and in the cgroups below it.
    ///
    /// # Errors
    /// `Failed` where its files cannot be read.
    pub fn tids(&self) -> Result<Vec<i32>> {
        self.numbers("cgroup.threads")
    }

    /// The numbers in this file of it and of all below it.
    fn numbers(&self, file: &str) -> Result<Vec<i32>> {
        let mut numbers = Vec::new();
        for folder in self.tree()? {
            match fs::read_to_string(folder.join(file)) {
                Ok(text) => numbers.extend(text.lines().filter_map(|l| l.parse::<i32>().ok())),
                Err(e) if gone(&e) => {}
                Err(e) if is_threaded(&e) && folder != self.path => {}
                Err(e) => {
                    let attempt = || format!("read '{}'", folder.join(file).display());
                    return Err(e).attempt(Kind::Failed, attempt);
                }
            }
        }
        Ok(numbers)
    }

    /// Moves a process into it.
    pub fn add(&self, pid: i32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
            .map_err(|e| denied(e, format!("move process {pid} to '{}'", self.path.display())))
    }

    /// Moves one thread into it. It must be threaded, below a cgroup that has the process.
    pub fn add_thread(&self, tid: i32) -> Result<()> {
        self.write("cgroup.threads", &tid.to_string())
            .map_err(|e| denied(e, format!("move thread {tid} to '{}'", self.path.display())))
    }

    /// Lets single threads be moved into it, for good. The cgroups above must be so already,
    /// up to that which has their process.
    pub fn make_threaded(&self) -> Result<()> {
        self.set("cgroup.type", "threaded")
    }

    /// Writes one of its files, such as `cpu.weight`.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        self.write(file, value).map_err(|e| {
            denied(e, format!("write '{value}' to '{}'", self.path.join(file).display()))
        })
    }

    fn write(&self, file: &str, value: &str) -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(self.path.join(file))?;
        std::io::Write::write_all(&mut file, value.as_bytes())
    }

    /// Whether a process or a thread is in it or below it. Not known where its file cannot be
    /// read, which counts as so.
    pub fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events"));
        !events.is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Kills every process in it and below it, and waits until none is left.
    pub fn kill(&self) -> Result<()> {
        if self.pids()?.is_empty() {
            return Ok(());
        }
        let kill = self.path.join("cgroup.kill");
        match fs::OpenOptions::new()
            .write(true)
            .open(&kill)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"1"))
        {
            Ok(()) => {}
            Err(e) if gone(&e) => return Ok(()),
            Err(e) => return Err(denied(e, format!("write '{}'", kill.display()))),
        }
        let end = Instant::now() + KILL_TIMEOUT;
        loop {
            let left = self.pids()?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(Error::new(
                    Kind::Timeout,
                    format!("kill the processes of '{}'", self.path.display()),
                    format!("still there: {left:?}"),
                )
                .remedy("they wait in the kernel: see /proc/PID/stack"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes it and the cgroups below it. They must be empty of processes.
    pub fn remove(&self) -> Result<()> {
        // A process that was just reaped can hold its cgroup for a moment.
        const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
        let end = Instant::now() + BUSY_TIMEOUT;
        for folder in self.tree()?.iter().rev() {
            loop {
                match fs::remove_dir(folder) {
                    Ok(()) => break,
                    Err(e) if gone(&e) => break,
                    Err(e)
                        if e.kind() == std::io::ErrorKind::ResourceBusy && Instant::now() < end =>
                    {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Err(e) => return Err(denied(e, format!("remove '{}'", folder.display()))),
                }
            }
        }
        Ok(())
    }

    /// Its CPU time.
    pub fn cpu_stat(&self) -> Result<CpuStat> {
        let path = self.path.join("cpu.stat");
        let text = fs::read_to_string(&path)
            .attempt(Kind::Failed, || format!("read '{}'", path.display()))?;
        let field = |name: &str| -> Result<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).ok_or_else(
                || {
                    Error::new(
                        Kind::Failed,
                        format!("read '{}'", path.display()),
                        format!("it has no number '{}'", name.trim()),
                    )
                },
            )
        };
        Ok(CpuStat {
            usage_usec: field("usage_usec ")?,
            user_usec: field("user_usec ")?,
            system_usec: field("system_usec ")?,
            // Only where the cpu controller is enabled.
            throttled_usec: field("throttled_usec ").unwrap_or(0),
        })
    }

    /// What the scheduler did for the threads that are in it now, from
    /// `/proc/PID/task/TID/schedstat` and `status`.
    pub fn threads(&self) -> Result<ThreadStats> {
        let mut stats = BTreeMap::new();
        for pid in self.pids()? {
            let tasks = self.root.join("proc").join(pid.to_string()).join("task");
            // A process that ended meanwhile has nothing left to read.
            let Ok(entries) = fs::read_dir(&tasks) else { continue };
            for entry in entries.flatten() {
                let tid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
                if let (Some(tid), Some(stat)) = (tid, thread_stat(&entry.path())) {
                    stats.insert(tid, stat);
                }
            }
        }
        Ok(ThreadStats(stats))
    }

    /// It and all below it, parents first.
    pub fn and_below(&self) -> Result<Vec<Self>> {
        let of = |path| Self { path, root: self.root.clone() };
        Ok(self.tree()?.into_iter().map(of).collect())
    }

    /// Its folder and those below, parents first.
    fn tree(&self) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        let mut next = vec![self.path.clone()];
        while let Some(folder) = next.pop() {
            match fs::read_dir(&folder) {
                Ok(entries) => {
                    next.extend(
                        entries
                            .flatten()
                            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                            .map(|e| e.path()),
                    );
                    folders.push(folder);
                }
                Err(e) if gone(&e) => {}
                Err(e) => {
                    return Err(e).attempt(Kind::Failed, || format!("list '{}'", folder.display()));
                }
            }
        }
        Ok(folders)
    }
}

/// Reads one thread's folder, `/proc/PID/task/TID`; `None` when the thread has ended.
pub fn thread_stat(folder: &Path) -> Option<SchedStat> {
    let schedstat = fs::read_to_string(folder.join("schedstat")).ok()?;
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let mut numbers = schedstat.split_whitespace().map(|n| n.parse::<u64>().ok());
    let switches = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(SchedStat {
        run_ns: numbers.next()??,
        wait_ns: numbers.next()??,
        timeslices: numbers.next()??,
        nvcsw: switches("voluntary_ctxt_switches:")?,
        nivcsw: switches("nonvoluntary_ctxt_switches:")?,
    })
}

/// Whether a path stays below where it begins.
fn is_plain(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Whether the error means that the cgroup was removed meanwhile.
fn gone(e: &std::io::Error) -> bool {
    e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(nix::libc::ENODEV)
}

/// Whether the error means that the cgroup is threaded, which has no processes of its own.
fn is_threaded(e: &std::io::Error) -> bool {
    e.raw_os_error() == Some(nix::libc::EOPNOTSUPP)
}

fn denied(e: std::io::Error, attempt: String) -> Error {
    match e.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Error::new(Kind::Denied, attempt, e).remedy("run metasched as root")
        }
        std::io::ErrorKind::ResourceBusy => Error::new(Kind::Busy, attempt, e)
            .remedy("processes are in it, or in a cgroup above it; move them away first"),
        _ => Error::new(Kind::Failed, attempt, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree in which the folders of `name` and its parents are there, with the
    /// files that the kernel would make.
    fn tree(name: &str) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let mut path = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(path.join("cgroup.subtree_control"), "memory\n").unwrap();
        for part in Path::new(name).components() {
            path.push(part);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.subtree_control"), "").unwrap();
            fs::write(path.join("cgroup.procs"), "").unwrap();
        }
        (root, path)
    }

    fn write_thread(root: &Path, pid: i32, tid: i32, schedstat: &str, switches: (u64, u64)) {
        let folder = root.join(format!("proc/{pid}/task/{tid}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("schedstat"), schedstat).unwrap();
        fs::write(
            folder.join("status"),
            format!(
                "Name:\tx\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
                switches.0, switches.1
            ),
        )
        .unwrap();
    }

    #[test]
    fn the_cpu_controller_is_enabled_in_every_parent() {
        let (root, path) = tree("metasched/qa/front");
        let cgroup = Cgroup::create_at(root.path(), "metasched/qa/front").unwrap();
        assert_eq!(cgroup.path(), path);
        for parent in path.ancestors().skip(1).take(3) {
            let control = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap();
            assert!(control.starts_with("+cpu"), "{}: {control}", parent.display());
        }
        assert_eq!(fs::read_to_string(path.join("cgroup.subtree_control")).unwrap(), "");
    }

    #[test]
    fn a_name_that_leaves_the_hierarchy_is_refused() {
        let (root, _) = tree("a");
        for name in ["/a", "../a", "a/../../b", ""] {
            assert_eq!(Cgroup::create_at(root.path(), name).unwrap_err().kind, Kind::BadInput);
        }
    }

    #[test]
    fn a_system_without_cgroup_v2_is_named_as_such() {
        let root = tempfile::tempdir().unwrap();
        let e = Cgroup::create_at(root.path(), "a").unwrap_err();
        assert_eq!(e.kind, Kind::Unsupported);
        assert!(e.to_string().contains("cgroup v2"), "{e}");
    }

    #[test]
    fn statistics_are_summed_over_all_threads_of_all_processes_below() {
        let (root, path) = tree("a/b");
        fs::write(path.parent().unwrap().join("cgroup.procs"), "10\n").unwrap();
        fs::write(path.join("cgroup.procs"), "20\n").unwrap();
        write_thread(root.path(), 10, 10, "100 10 1\n", (1, 2));
        write_thread(root.path(), 20, 20, "200 20 2\n", (3, 4));
        write_thread(root.path(), 20, 21, "400 40 4\n", (5, 6));
        let a = Cgroup::create_at(root.path(), "a").unwrap();
        assert_eq!(
            a.threads().unwrap().total(),
            SchedStat { run_ns: 700, wait_ns: 70, timeslices: 7, nvcsw: 9, nivcsw: 12 }
        );
    }

    #[test]
    fn a_difference_survives_threads_that_come_go_and_reuse_a_number() {
        let stat = |run_ns| SchedStat { run_ns, timeslices: run_ns, ..SchedStat::default() };
        let earlier = ThreadStats(BTreeMap::from([(1, stat(100)), (2, stat(50)), (3, stat(9))]));
        let now = ThreadStats(BTreeMap::from([(1, stat(130)), (3, stat(4)), (4, stat(7))]));
        assert_eq!(now.since(&earlier).run_ns, 30 + 4 + 7);
    }

    #[test]
    fn cpu_time_is_read_and_its_absence_is_an_error() {
        let (root, path) = tree("a");
        let a = Cgroup::create_at(root.path(), "a").unwrap();
        fs::write(path.join("cpu.stat"), "usage_usec 30\nuser_usec 20\nsystem_usec 10\n").unwrap();
        assert_eq!(
            a.cpu_stat().unwrap(),
            CpuStat { usage_usec: 30, user_usec: 20, system_usec: 10, throttled_usec: 0 }
        );
        fs::write(path.join("cpu.stat"), "usage_usec 30\n").unwrap();
        assert!(a.cpu_stat().unwrap_err().to_string().contains("user_usec"));
    }
}
