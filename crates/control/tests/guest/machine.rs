//! The machine that a guest test changes: one test at a time, and put right after each.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metasched_control::{RUN_DIR, holder, lock_holder};
use metasched_host::sched_ext::{SchedExt, State, Status};
use nix::sys::signal::Signal;

/// An emulated guest under load needs most of a minute for what takes a second elsewhere.
const PATIENCE: Duration = Duration::from_secs(60);

/// The machine, for one test at a time. Bind it before anything that a test starts: what
/// is still there when it is dropped, last of all, was left by a test that failed.
pub struct TestMachine {
    _alone: MutexGuard<'static, ()>,
}

impl TestMachine {
    /// Waits for it. Panics where there is no sched_ext.
    pub fn take() -> Self {
        static MACHINE: Mutex<()> = Mutex::new(());
        assert!(
            status().state != State::Absent,
            "this kernel has no sched_ext: run it in the testbed with 'make test-guest'"
        );
        let machine = Self { _alone: MACHINE.lock().unwrap_or_else(PoisonError::into_inner) };
        clear();
        assert!(status().is_default(), "what an earlier test left cannot be ended: {:?}", status());
        machine
    }
}

impl Drop for TestMachine {
    fn drop(&mut self) {
        clear();
    }
}

pub fn status() -> Status {
    SchedExt::at(Path::new("/")).status().unwrap()
}

/// A process as `ps` shows it.
#[derive(Debug)]
#[allow(dead_code, reason = "where this file is another crate's test too they are only shown")]
pub struct Process {
    pub pid: i32,
    pub comm: String,
    /// Its command line, a blank after each word.
    pub command: String,
}

/// All processes whose command lines are like that.
pub fn processes(like: impl Fn(&str) -> bool) -> Vec<Process> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let bytes = std::fs::read(entry.path().join("cmdline")).ok()?;
            let comm = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            let command = String::from_utf8_lossy(&bytes).replace('\0', " ");
            Some(Process { pid, comm: comm.trim().to_owned(), command })
        })
        .filter(|process| like(&process.command))
        .collect()
}

/// Ends every scheduler, and whoever would put one in force, until none is left. It does
/// not panic, as it is also called by tests that panic already.
fn clear() {
    let root = Path::new("/");
    let us = std::process::id().cast_signed();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut asked = Vec::new();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let Ok(status) = SchedExt::at(root).status() else { return };
            // The owner of all changes first: it, or the guard that holds the lock when
            // it is dead, may put back what it found, which is then next.
            let id = match lock_holder(Path::new(RUN_DIR)) {
                Some(owner) => Some(owner.id),
                None if status.is_default() => return,
                None => holder(root, &status.ops.unwrap_or_default()).map(|holder| holder.id),
            };
            if let Some(id) = id.filter(|id| id.pid != us && !asked.contains(id)) {
                id.signal_group(signal);
                asked.push(id);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
