//! What the kernel counts of each CPU's run queue.

use std::fs;
use std::path::Path;

/// How long tasks have waited for a CPU since the machine started, in nanoseconds, all tasks and
/// CPUs together, under any scheduler; of tasks that have ended too. None where the kernel does
/// not count it (CONFIG_SCHEDSTATS).
pub fn waited_ns(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/schedstat")).ok()?;
    let of_cpus = text.lines().filter(|line| line.starts_with("cpu"));
    // Documentation/scheduler/sched-stats.rst: of nine numbers the eighth is the time that was waited.
    of_cpus.map(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_all_cpus_are_added_up() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(waited_ns(root.path()), None);
        fs::create_dir(root.path().join("proc")).unwrap();
        let text = "version 17\ntimestamp 4294900000\n\
                    cpu0 0 0 0 0 0 0 900 70 5\ndomain0 MC 3 1 2\ncpu1 0 0 0 0 0 0 800 30 4\n";
        fs::write(root.path().join("proc/schedstat"), text).unwrap();
        assert_eq!(waited_ns(root.path()), Some(100));
    }
}
