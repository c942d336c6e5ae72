//! Each of a guest's CPUs on a CPU of this machine of its own.
//!
//! A guest's CPU that wakes another one, which had nothing to do, makes this machine's scheduler
//! wake a thread; and that thread it likes to put where the waker is, in its place. Then neither
//! gets on until the next tick here: the one that was woken spins for a lock that the other
//! holds. The guest sees wake-ups of milliseconds, which are no doing of its kernel's.

use std::path::Path;

use metasched_base::{Error, Kind, Result, ResultExt};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Puts each thread of QEMU's that is a CPU of the guest on one of these CPUs, in their order.
///
/// # Errors
/// When there are too few, or no such thread is found.
pub(crate) fn pin(qemu: u32, cpus: &[usize]) -> Result<()> {
    let attempt = || "pin the guest's CPUs".to_owned();
    let tasks = format!("/proc/{qemu}/task");
    let mut pinned = 0;
    for entry in Path::new(&tasks).read_dir().attempt(Kind::Failed, attempt)? {
        let folder = entry.attempt(Kind::Failed, attempt)?.path();
        // One that has ended meanwhile is none.
        let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let Some(number) = number_of(&name) else { continue };
        let thread = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
        let (Some(thread), Some(cpu)) = (thread, cpus.get(number)) else {
            let cause = format!("there is no CPU here for its CPU {number}");
            return Err(Error::new(Kind::Unsupported, attempt(), cause)
                .remedy("give it fewer CPUs, or leave --pin out"));
        };
        let mut set = CpuSet::new();
        set.set(*cpu).attempt(Kind::Failed, attempt)?;
        sched_setaffinity(Pid::from_raw(thread), &set).attempt(Kind::Failed, attempt)?;
        pinned += 1;
    }
    if pinned == 0 {
        return Err(Error::new(Kind::Unsupported, attempt(), "QEMU's threads have no names")
            .remedy("leave --pin out"));
    }
    Ok(())
}

/// Which of the guest's CPUs a thread is by its name, `CPU 1/TCG`; none if it is another one.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_cpus_are_told_from_others() {
        assert_eq!(number_of("CPU 0/TCG\n"), Some(0));
        assert_eq!(number_of("CPU 13/KVM\n"), Some(13));
        assert_eq!(number_of("qemu-system-x86\n"), None);
        assert_eq!(number_of("IO mon_iothread\n"), None);
    }

    #[test]
    fn a_process_without_such_threads_is_refused() {
        let error = pin(std::process::id(), &[0]).unwrap_err();
        assert!(error.to_string().contains("have no names"), "{error}");
    }
}
