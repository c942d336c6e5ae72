use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use metasched_base::parse_cpu_list;

use crate::cgroup::of_process;

/// Fields of /proc/PID/stat after the name, from 0.
const FLAGS: usize = 6;
const POLICY: usize = 38;
/// A thread of the kernel's own, in those flags (PF_KTHREAD).
const KERNEL: u64 = 0x0020_0000;

/// What a scheduler knows of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name, 15 bytes at most.
    pub comm: String,
    /// The path of its cgroup below the mount point; the root's is empty.
    pub cgroup: String,
    /// The CPUs that it may use.
    pub allowed: BTreeSet<u32>,
    /// Whether it is one of the kernel's own.
    pub kernel: bool,
    /// Its scheduling policy, a `SCHED_*` of the kernel's.
    pub policy: i32,
}

/// Every thread that there is, by its number. Those that end meanwhile are left out.
pub fn threads(root: &Path) -> BTreeMap<u32, Thread> {
    let mut all = BTreeMap::new();
    for process in numbers(&root.join("proc")) {
        for thread in numbers(&root.join(format!("proc/{process}/task"))) {
            if let Some(read) = thread_of(root, &format!("{process}/task/{thread}")) {
                all.insert(thread, read);
            }
        }
    }
    all
}

/// The threads of this process.
pub fn own_threads() -> BTreeSet<u32> {
    numbers(Path::new("/proc/self/task")).into_iter().collect()
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn thread_of(root: &Path, place: &str) -> Option<Thread> {
    let folder = root.join("proc").join(place);
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name may hold anything, also parentheses.
    let (begin, rest) = stat.rsplit_once(')')?;
    let comm = begin.split_once('(')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let flags: u64 = fields.get(FLAGS)?.parse().ok()?;
    let policy = fields.get(POLICY)?.parse().ok()?;
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(Thread {
        comm: comm.to_owned(),
        cgroup: of_process(root, place).unwrap_or_default(),
        allowed: parse_cpu_list(allowed)?,
        kernel: flags & KERNEL != 0,
        policy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn threads_are_read_with_names_of_any_kind() {
        let root = tempfile::tempdir().unwrap();
        let write = |place: &str, file: &str, text: &str| {
            let folder = root.path().join("proc").join(place);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), text).unwrap();
        };
        // Nobody reads what is between the flags and the policy.
        let stat = |begin: &str, policy: u32| format!("{begin} {}{policy} 0\n", "0 ".repeat(31));
        write("7/task/7", "stat", &stat("7 (a) b) S 1 7 7 0 -1 4194560", 0));
        write("7/task/7", "status", "Name:\ta) b\nCpus_allowed_list:\t0-1,4\n");
        write("7/task/7", "cgroup", "3:cpu:/x\n0::/web.slice/nginx.service\n");
        write("9/task/9", "stat", &stat("9 (migration/1) S 2 0 0 0 -1 69238880", 1));
        write("9/task/9", "status", "Cpus_allowed_list:\t1\n");
        // One that has just ended, and what is no such line.
        write("11/task/11", "stat", "");
        write("13/task/13", "stat", "no such line");
        write("13/task/13", "status", "Cpus_allowed_list:\t1\n");
        let threads = threads(root.path());
        assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [7, 9]);
        let wanted = Thread {
            comm: "a) b".into(),
            cgroup: "web.slice/nginx.service".into(),
            allowed: [0, 1, 4].into(),
            kernel: false,
            policy: libc::SCHED_OTHER,
        };
        assert_eq!(threads[&7], wanted);
        assert!(threads[&9].kernel && threads[&9].cgroup.is_empty());
        assert_eq!(threads[&9].policy, libc::SCHED_FIFO);
    }

    #[test]
    fn this_thread_is_one_of_ours() {
        let own = own_threads();
        let here = threads(Path::new("/"));
        assert!(!own.is_empty() && own.iter().any(|tid| here.contains_key(tid)));
    }
}
