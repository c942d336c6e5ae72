//! What the tests of the kernel program share: the program, its cgroups, and patience.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_host::cgroup::Cgroup;
use metasched_loader::{LoadOptions, Program};

use crate::load::Hog;

pub fn sysfs(name: &str) -> String {
    let path = Path::new("/sys/kernel/sched_ext").join(name);
    fs::read_to_string(&path).map(|text| text.trim().to_string()).unwrap_or_default()
}

/// The program with that policy in force, `fifo` and `vtime`: with all the verifier takes twice as long.
pub fn load(policy: &str) -> Program {
    let policies = ["fifo", "vtime"].map(str::to_owned).into();
    load_as(&LoadOptions { policies, ..LoadOptions::policy(policy) })
}

/// The program with that policy in force, and all the others.
pub fn load_all(policy: &str) -> Program {
    load_as(&LoadOptions::policy(policy))
}

fn load_as(options: &LoadOptions) -> Program {
    let program = Program::load(options).unwrap();
    assert_eq!(sysfs("state"), "enabled");
    assert_eq!(sysfs("root/ops"), "metasched");
    program
}

/// Polls until it holds; panics with `what` if that takes longer than a minute,
/// which even an overloaded emulated machine does not.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: not in 60 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How often in a row [`settles`] wants a figure to be right.
const IN_A_ROW: u32 = 3;

/// Looks once in `every` until it holds several times in a row: a figure that is wrong may pass by
/// the right one, and does not stay there.
pub fn settles(what: &str, every: Duration, mut holds: impl FnMut() -> bool) {
    let mut in_a_row = 0;
    wait_until(&format!("{what}, {IN_A_ROW} times in a row"), || {
        std::thread::sleep(every);
        in_a_row = if holds() { in_a_row + 1 } else { 0 };
        in_a_row == IN_A_ROW
    });
}

/// CPU 1 is off line as long as this lives.
pub struct Offline;

impl Offline {
    const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";

    pub fn cpu1() -> Self {
        fs::write(Self::SWITCH, "0").unwrap();
        Self
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // Not unwrapped, for it may be dropped by a failing test.
        let _ = fs::write(Self::SWITCH, "1");
    }
}

/// A cgroup, removed when this is dropped.
pub struct Group(PathBuf);

impl Group {
    pub fn new(name: &str) -> Self {
        let path = Path::new("/sys/fs/cgroup").join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn id(&self) -> u64 {
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(&self.0).unwrap())
    }

    /// The CPU time that the kernel has charged it with.
    pub fn usage(&self) -> Duration {
        let stat = Cgroup::open(&self.0).unwrap().cpu_stat().unwrap();
        Duration::from_micros(stat.usage_usec)
    }

    pub fn take(&self, hog: &Hog) {
        fs::write(self.0.join("cgroup.procs"), hog.pid().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended holds its cgroup for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn assert_alive(program: &Program) {
    if let Some(record) = program.exited() {
        // Apart, since it is long: who reads the failure wants the reason.
        eprintln!("{}", record.dump);
        let (kind, reason, message) = (record.kind_name, record.reason, record.message);
        panic!("the kernel ended the program ({kind}): {reason}; {message}");
    }
    assert_eq!(sysfs("nr_rejected"), "0", "tasks were refused");
}
