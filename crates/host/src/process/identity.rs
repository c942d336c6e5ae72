use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process told apart from a later one that was given the same number: its pid
/// and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` when there is none, or a zombie.
    pub fn of(root: &Path, pid: i32) -> Option<Self> {
        Self::with_parent(root, pid).map(|(id, _)| id)
    }

    /// The same, with the number of its parent.
    fn with_parent(root: &Path, pid: i32) -> Option<(Self, i32)> {
        let stat = std::fs::read_to_string(root.join(format!("proc/{pid}/stat"))).ok()?;
        // The name is in parentheses and may hold spaces and parentheses itself.
        let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        // The parent is field 4, so the start time, field 22, is 17 further.
        let start_ticks = fields.nth(17)?.parse().ok()?;
        Some((Self { pid, start_ticks }, parent))
    }

    /// Those that it has started and that still run.
    pub fn children(&self, root: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Self::with_parent(root, entry.file_name().to_str()?.parse().ok()?))
            .filter(|(_, parent)| *parent == self.pid && self.is_alive(root))
            .map(|(child, _)| child)
            .collect()
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self, root: &Path) -> bool {
        Self::of(root, self.pid) == Some(*self)
    }

    /// Sends a signal, if this very process still runs; true if it was sent.
    ///
    /// Between the check and the signal the process can end and its number be given
    /// away. The kernel hands numbers out in turn, so that takes tens of thousands of
    /// new processes within microseconds.
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive(Path::new("/")) && kill(Pid::from_raw(self.pid), signal).is_ok()
    }

    /// As [`ProcessId::signal`], to the whole process group that it leads, if it leads one.
    pub fn signal_group(&self, signal: Signal) -> bool {
        let pid = Pid::from_raw(self.pid);
        self.is_alive(Path::new("/"))
            && match nix::unistd::getpgid(Some(pid)) {
                Ok(group) if group == pid => killpg(pid, signal).is_ok(),
                Ok(_) | Err(Errno::ESRCH) => kill(pid, signal).is_ok(),
                Err(_) => false,
            }
    }
}

/// The most memory that this process has had resident, in KiB; `None` if /proc does not say.
///
/// `getrusage` will not do: what it gives includes the process that started this one.
pub fn peak_memory_kib(root: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(root.join("proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_this_process_own() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let status = "Name:\tx\nVmPeak:\t  9000 kB\nVmHWM:\t    6800 kB\nVmRSS:\t 5000 kB\n";
        std::fs::write(root.path().join("proc/self/status"), status).unwrap();
        assert_eq!(peak_memory_kib(root.path()), Some(6800));
        assert_eq!(peak_memory_kib(&root.path().join("none")), None);
    }

    fn tree(pid: i32, stat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stat"), stat).unwrap();
        root
    }

    const STAT: &str = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321 1000 200 18446744073709551615\n";

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_start_time() {
        let root = tree(7, STAT);
        let id = ProcessId::of(root.path(), 7).unwrap();
        assert_eq!(id, ProcessId { pid: 7, start_ticks: 4321 });
        assert!(id.is_alive(root.path()));
    }

    #[test]
    fn a_process_knows_its_children() {
        let root = tree(7, STAT);
        std::fs::create_dir_all(root.path().join("proc/1")).unwrap();
        std::fs::write(root.path().join("proc/1/stat"), STAT.replace(" S 1 ", " S 0 ")).unwrap();
        let parent = ProcessId { pid: 1, start_ticks: 4321 };
        assert_eq!(parent.children(root.path()), [ProcessId { pid: 7, start_ticks: 4321 }]);
        assert!(ProcessId { start_ticks: 1, ..parent }.children(root.path()).is_empty());
    }

    #[test]
    fn a_later_process_with_the_same_number_is_another_one() {
        let root = tree(7, STAT);
        assert!(!ProcessId { pid: 7, start_ticks: 4320 }.is_alive(root.path()));
    }

    #[test]
    fn a_zombie_does_not_run() {
        let root = tree(7, &STAT.replace(" S 1 ", " Z 1 "));
        assert_eq!(ProcessId::of(root.path(), 7), None);
    }
}
