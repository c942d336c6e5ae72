//! What the kernel has counted of a thread.

use std::path::Path;

use metasched_host::cgroup::{SchedStat, thread_stat};
use nix::unistd::Pid;

/// Counts since the thread was born.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU time, waits and switches.
    pub sched: SchedStat,
    /// How often it changed its CPU; none where the kernel does not tell.
    pub migrations: Option<u64>,
}

impl Counters {
    /// Those of a thread of this process; none when it has ended.
    pub fn of(tid: Pid) -> Option<Counters> {
        let folder = format!("/proc/self/task/{tid}");
        let folder = Path::new(&folder);
        let sched = thread_stat(folder)?;
        let text = std::fs::read_to_string(folder.join("sched")).ok();
        Some(Counters { sched, migrations: text.as_deref().and_then(migrations) })
    }

    /// What has come since an earlier reading of the same thread.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let less = u64::saturating_sub;
        let (now, then) = (&self.sched, &earlier.sched);
        let sched = SchedStat {
            run_ns: less(now.run_ns, then.run_ns),
            wait_ns: less(now.wait_ns, then.wait_ns),
            timeslices: less(now.timeslices, then.timeslices),
            nvcsw: less(now.nvcsw, then.nvcsw),
            nivcsw: less(now.nivcsw, then.nivcsw),
        };
        let migrations = self.migrations.zip(earlier.migrations).map(|(a, b)| less(a, b));
        Counters { sched, migrations }
    }
}

/// `se.nr_migrations` of a thread's file `sched`.
fn migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::gettid;

    #[test]
    fn migrations_are_found_in_the_kernels_words() {
        let text = "web 0 (12, #threads: 3)\n-----\nse.exec_start      :   1.5\n\
                    se.nr_migrations                             :                    7\n";
        assert_eq!(migrations(text), Some(7));
        assert_eq!(migrations("se.exec_start : 1"), None);
    }

    #[test]
    fn a_thread_that_spins_is_seen_to_run() {
        let before = Counters::of(gettid()).expect("this thread is alive");
        crate::clock::Spinner::default().spin(20_000_000, || false);
        let seen = Counters::of(gettid()).expect("still alive").since(&before);
        assert!(seen.sched.run_ns >= 15_000_000, "{seen:?}");
    }
}
