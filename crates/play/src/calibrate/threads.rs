//! What the kernel does by itself while all CPUs are busy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use metasched_base::{Interrupt, Kind, Result, ResultExt};
use metasched_host::cgroup::thread_stat;
use metasched_sim::file::KernelThread;

use crate::clock::{now_ns, sleep_until};

/// How long it is watched, ns.
const WATCHED_NS: u64 = 4_000_000_000;
/// How often a thread has to run in that time to be told of: once a second.
const OFTEN: u64 = 4;
/// The load: stretches of computing with pauses between them, ns.
const COMPUTES_NS: u64 = 3_000_000;
const PAUSES_NS: u64 = 1_000_000;
/// PF_KTHREAD of the kernel's flags of a task.
const KTHREAD: u64 = 0x0020_0000;
/// Fields of `/proc/PID/stat` after the name, from 0.
const FLAGS: usize = 6;
const POLICY: usize = 38;

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
/// When `/proc` cannot be read, or it was interrupted.
pub fn kernel_threads(cpus: usize, interrupt: &Interrupt) -> Result<Vec<KernelThread>> {
    let over = AtomicBool::new(false);
    let (before, after) = std::thread::scope(|scope| {
        // More of them than CPUs, so that there are switches, and none is idle for long.
        for _ in 0..2 * cpus {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let until = now_ns() + COMPUTES_NS;
                    while now_ns() < until {}
                    sleep_until(now_ns() + PAUSES_NS);
                }
            });
        }
        let before = all();
        let end = now_ns() + WATCHED_NS;
        let watched = loop {
            sleep_until((now_ns() + WATCHED_NS / 8).min(end));
            if let Err(error) = interrupt.check("the calibration") {
                break Err(error);
            }
            if now_ns() >= end {
                break Ok(());
            }
        };
        over.store(true, Ordering::Relaxed);
        watched.and_then(|()| Ok((before?, all()?)))
    })?;
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

/// All threads of the kernel's that are ordinary tasks, by their numbers.
fn all() -> Result<BTreeMap<u32, Seen>> {
    let mut all = BTreeMap::new();
    let attempt = || "look at the kernel's threads".to_owned();
    for entry in Path::new("/proc").read_dir().attempt(Kind::Failed, attempt)? {
        let folder = entry.attempt(Kind::Failed, attempt)?.path();
        let pid = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let Some((pid, seen)) = pid.zip(one(&folder)) {
            all.insert(pid, seen);
        }
    }
    Ok(all)
}

/// The thread of that folder of `/proc`; none if it is another one, or has ended.
fn one(folder: &Path) -> Option<Seen> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let name = ordinary_kernel_thread(&stat)?.to_owned();
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let counted = thread_stat(folder)?;
    Some(Seen {
        name,
        // A list of more is no number.
        cpu: allowed.trim().parse().ok(),
        run_ns: counted.run_ns,
        runs: counted.timeslices,
    })
}

/// The name in a line of `/proc/PID/stat`, if it is such a thread's.
fn ordinary_kernel_thread(stat: &str) -> Option<&str> {
    let (head, fields) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // Its policy is SCHED_NORMAL, or SCHED_EXT.
    let ordinary = matches!(number(POLICY)?, 0 | 7);
    (number(FLAGS)? & KTHREAD != 0 && ordinary).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KSWAPD: &str = "54 (kworker/0:1-a (b)) I 2 0 0 0 -1 2129984 0 0 0 0 9 88 0 0 20 0 1 0 36 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn kernel_threads_are_told_from_programs_and_from_those_that_go_first() {
        assert_eq!(ordinary_kernel_thread(KSWAPD), Some("kworker/0:1-a (b)"));
        let program = KSWAPD.replace("2129984", "4194304");
        assert_eq!(ordinary_kernel_thread(&program), None);
        let first = KSWAPD.replace(" 17 1 0 0 ", " 17 1 99 1 ");
        assert_eq!(ordinary_kernel_thread(&first), None);
        assert_eq!(ordinary_kernel_thread("no such line"), None);
    }
}
