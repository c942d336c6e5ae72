//! What the kernel does by itself while all CPUs are busy.

use std::collections::BTreeMap;
use std::path::Path;

use metasched_base::{Interrupt, Result};
use metasched_host::cgroup::thread_stat;
use metasched_host::process::{Thread, threads};
use metasched_scenario::file::KernelThread;
use nix::libc;

use super::costs::beside_load;
use crate::clock::{now_ns, sleep_until};

/// How long it is watched, ns.
const WATCHED_NS: u64 = 4_000_000_000;
/// How often a thread has to run in that time to be told of: once a second.
const OFTEN: u64 = 4;
/// The load: stretches of computing with pauses between them, ns.
const COMPUTES_NS: u64 = 3_000_000;
const PAUSES_NS: u64 = 1_000_000;
/// `SCHED_EXT` of the kernel's policies; libc does not have it.
const SCHED_EXT: i32 = 7;

/// A kernel thread as it was at some time.
struct Seen {
    name: String,
    cpu: Option<usize>,
    run_ns: u64,
    runs: u64,
}

/// The threads of the kernel that run once a second or more beside a load on every CPU, without
/// those that go before all ordinary tasks.
///
/// # Errors
/// When it was interrupted.
pub fn kernel_threads(cpus: usize, interrupt: &Interrupt) -> Result<Vec<KernelThread>> {
    // More of them than CPUs, so that there are switches, and none is idle for long.
    let load = (0..2 * cpus).map(|_| None);
    let (before, after) = beside_load(load, compute_and_pause, || watch(interrupt))?;
    let mut threads = Vec::new();
    for (pid, now) in after {
        // One that was born meanwhile had done nothing before.
        let (run_ns, runs) = before.get(&pid).map_or((0, 0), |then| (then.run_ns, then.runs));
        let runs = now.runs.saturating_sub(runs);
        if runs >= OFTEN {
            threads.push(KernelThread {
                name: now.name,
                cpu: now.cpu,
                every_ns: WATCHED_NS / runs,
                run_ns: now.run_ns.saturating_sub(run_ns) / runs,
            });
        }
    }
    Ok(threads)
}

fn compute_and_pause() {
    let until = now_ns() + COMPUTES_NS;
    while now_ns() < until {}
    sleep_until(now_ns() + PAUSES_NS);
}

/// The kernel's threads before and after they were watched.
fn watch(interrupt: &Interrupt) -> Result<(BTreeMap<u32, Seen>, BTreeMap<u32, Seen>)> {
    let before = seen(Path::new("/"));
    let end = now_ns() + WATCHED_NS;
    while now_ns() < end {
        sleep_until((now_ns() + WATCHED_NS / 8).min(end));
        interrupt.check("the calibration")?;
    }
    Ok((before, seen(Path::new("/"))))
}

/// All threads of the kernel's that are ordinary tasks, by their numbers.
fn seen(root: &Path) -> BTreeMap<u32, Seen> {
    let all = threads(root).into_iter().filter(|(_, thread)| is_ordinary_of_kernel(thread));
    let one = |(tid, thread): (u32, Thread)| {
        // One that has ended meanwhile is none.
        let counted = thread_stat(&root.join(format!("proc/{tid}")))?;
        // One that may use several has none of its own.
        let only = thread.allowed.first().filter(|_| thread.allowed.len() == 1);
        let seen = Seen {
            cpu: only.map(|cpu| *cpu as usize),
            name: thread.comm,
            run_ns: counted.run_ns,
            runs: counted.timeslices,
        };
        Some((tid, seen))
    };
    all.filter_map(one).collect()
}

fn is_ordinary_of_kernel(thread: &Thread) -> bool {
    thread.kernel && matches!(thread.policy, libc::SCHED_OTHER | SCHED_EXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn kernel_threads_are_told_from_programs_and_from_those_that_go_first() {
        const KERNEL: u64 = 2_129_984;
        const PROGRAM: u64 = 4_194_304;
        let root = tempfile::tempdir().unwrap();
        let status = "Cpus_allowed_list:\t1\nvoluntary_ctxt_switches:\t4\n\
                      nonvoluntary_ctxt_switches:\t5\n";
        for (tid, name, flags, policy) in [
            (54, "kworker/0:1-a (b)", KERNEL, libc::SCHED_OTHER),
            (55, "ext", KERNEL, SCHED_EXT),
            (56, "migration/1", KERNEL, libc::SCHED_FIFO),
            (57, "program", PROGRAM, libc::SCHED_OTHER),
        ] {
            let stat =
                format!("{tid} ({name}) S 2 0 0 0 -1 {flags} {}{policy} 0\n", "0 ".repeat(31));
            // A process is its first thread, too.
            for place in [format!("proc/{tid}"), format!("proc/{tid}/task/{tid}")] {
                let folder = root.path().join(place);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("stat"), &stat).unwrap();
                fs::write(folder.join("status"), status).unwrap();
                fs::write(folder.join("schedstat"), "7000 1 9\n").unwrap();
            }
        }
        let several = status.replace("\t1\n", "\t0-1\n");
        fs::write(root.path().join("proc/55/task/55/status"), several).unwrap();
        let seen = seen(root.path());
        let told: Vec<_> = seen.values().map(|s| (s.name.as_str(), s.cpu)).collect();
        assert_eq!(told, [("kworker/0:1-a (b)", Some(1)), ("ext", None)]);
        assert_eq!((seen[&54].run_ns, seen[&54].runs), (7_000, 9));
    }
}
