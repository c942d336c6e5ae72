//! The command under test, and what it leaves behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_host::process::{Child, Output, Spawn};
use metasched_profile::{Measurement, Query, Store};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;

use crate::machine::{TestMachine, processes, status};

/// An emulated guest on a busy machine needs minutes for what takes seconds elsewhere.
const PATIENCE: Duration = Duration::from_secs(240);

/// The machine, once nothing of an earlier test is left on it.
pub fn machine() -> TestMachine {
    let machine = TestMachine::take();
    eventually("nothing of an earlier test is left", nothing_left);
    machine
}

/// Whether the default scheduler is in force, and no process or cgroup of a workload,
/// and no metasched, is there.
pub fn nothing_left() -> bool {
    // By the program's name: the checkout may be called like that too, and then all that
    // is run from it has the word in its command line.
    let ours = |command: &str| {
        let program = command.split(' ').next().unwrap_or_default();
        let is_metasched = program.rsplit('/').next() == Some("metasched");
        command.contains("server.sh")
            || command.contains("load.sh")
            || (is_metasched && !command.contains("--guest-init"))
    };
    status().is_default()
        && processes(ours).is_empty()
        && ["pingpong", "beside"]
            .iter()
            .all(|name| !Path::new("/sys/fs/cgroup/metasched").join(name).exists())
}

/// Waits until something is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "it never came about: {what}; {:?}", status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The workload of most of these tests.
pub fn pingpong() -> String {
    fixture("pingpong")
}

/// A workload in the folder of fixtures.
pub fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).display().to_string()
}

/// A folder with a store.
pub struct Lab {
    pub folder: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub fn measurements(&self) -> Vec<Measurement> {
        let store = Store::open(self.store()).unwrap();
        store.measurements(&Query::default()).unwrap()
    }

    /// Writes a file and gives its path; a script if it begins like one.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if text.starts_with("#!") {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        path.display().to_string()
    }

    /// `metasched profile WORKLOAD ...` with this store and short runs.
    pub fn profile(&self, workload: &str, arguments: &[&str]) -> Run {
        self.measure(&["profile", workload], arguments)
    }

    /// `metasched tune WORKLOAD ...`, the same way.
    pub fn tune(&self, workload: &str, arguments: &[&str]) -> Run {
        self.measure(&["tune", "--workload", workload], arguments)
    }

    fn measure(&self, command: &[&str], arguments: &[&str]) -> Run {
        let store = self.store().display().to_string();
        let short = ["--duration", "1s", "--warmup", "0s", "--store", &store, "--json"];
        let all: Vec<&str> = command.iter().chain(arguments).chain(&short).copied().collect();
        Run::start(&all)
    }
}

/// A small file system at a lab's folder, while this lives.
pub struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    /// Mounts it with these options.
    pub fn mount(lab: &'a Lab, options: Option<&str>) -> Self {
        let folder = lab.folder.path();
        mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), options).unwrap();
        Self(folder)
    }

    /// From now on there is no space left on it.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// From now on nothing can be written to it.
    pub fn protect(&self) {
        let (none, flags): (Option<&str>, _) = (None, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY);
        mount(none, self.0, none, flags, none).unwrap();
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // Not unwrapped, for it may be dropped by a failing test.
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// A `metasched` command under test.
pub struct Run(Child);

/// What a command ended with.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Its standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self}"))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit status {:?}\n{}\n{}", self.code, self.stderr, self.stdout)
    }
}

impl Run {
    fn start(arguments: &[&str]) -> Self {
        // Tests lie in a folder below the program's.
        let exe = std::env::current_exe().unwrap();
        let binary = exe.parent().unwrap().parent().unwrap().join("metasched");
        assert!(binary.is_file(), "build it first: cargo build --release -p metasched");
        let command = std::iter::once(binary.to_str().unwrap()).chain(arguments.iter().copied());
        let tail = || Output::Tail(1 << 20);
        Self(Spawn::new(command).stdout(tail()).stderr(tail()).start().unwrap())
    }

    /// Waits until the store holds so many measurements.
    pub fn wait_for(&mut self, lab: &Lab, measurements: usize) {
        eventually("enough was measured", || {
            assert!(self.0.poll().unwrap().is_none(), "it ended: {}", self.0.last_lines(20));
            lab.store().exists() && lab.measurements().len() >= measurements
        });
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.poll().unwrap().is_some()
    }

    /// Sends it, and it alone, a signal.
    pub fn signal(&self, signal: Signal) {
        assert!(self.0.id().signal(signal), "it has ended: {}", self.0.last_lines(20));
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Ended {
        let status = self.0.wait(PATIENCE).unwrap().expect("it ends");
        Ended { code: status.code(), stdout: self.0.stdout_tail(), stderr: self.0.stderr_tail() }
    }
}
