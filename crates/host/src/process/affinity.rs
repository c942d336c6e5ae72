use metasched_base::{Kind, Result, ResultExt};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may use, in ascending order.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .attempt(Kind::Failed, || "read which CPUs may be used".to_owned())?;
    Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::sched_setaffinity;

    #[test]
    fn a_thread_that_is_kept_to_its_last_cpu_may_use_no_other() {
        // A thread of its own: what it may use ends with it.
        let test = || {
            let all = allowed_cpus().unwrap();
            let mut set = CpuSet::new();
            set.set(*all.last().unwrap()).unwrap();
            sched_setaffinity(Pid::from_raw(0), &set).unwrap();
            assert_eq!(allowed_cpus().unwrap(), all[all.len() - 1..]);
        };
        std::thread::spawn(test).join().unwrap();
    }
}
