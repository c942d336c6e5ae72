//! The few system calls that no library wraps.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libbpf_rs::libbpf_sys;
use metasched_base::parse_cpu_list;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use rustix::thread::{MembarrierCommand, membarrier};

/// How often a program that finds the timer of turns at work is run again. The timer takes
/// microseconds; a CPU of a virtual machine may stop in it for far longer.
const TRIES: u32 = 1000;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// Runs a `SEC("syscall")` program with `args` as its context; what it returned. One that
/// asks for it is run again.
///
/// There is no output: such programs leave their results in global variables.
pub(crate) fn run_program(program: BorrowedFd<'_>, args: &[u8]) -> io::Result<i32> {
    for _ in 1..TRIES {
        match run_once(program, args)? {
            status if -status == Errno::EAGAIN as i32 => std::thread::sleep(BETWEEN_TRIES),
            status => return Ok(status),
        }
    }
    run_once(program, args)
}

fn run_once(program: BorrowedFd<'_>, args: &[u8]) -> io::Result<i32> {
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        ..Default::default()
    };
    if !args.is_empty() {
        opts.ctx_in = args.as_ptr().cast();
        opts.ctx_size_in = args.len() as u32;
    }
    // SAFETY: opts and the context that it points to outlive the call.
    let status = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut opts) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    Ok(opts.retval as i32)
}

/// How many instructions the verifier went through when it read a program.
pub(crate) fn verified_instructions(program: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: it is as large as the size says.
    let status =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut size) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    Ok(info.verified_insns)
}

/// Waits until every callback of a scheduler that runs now has come to its end,
/// with what it inserted.
///
/// Callbacks run with interrupts off. So when the calling thread has run on a CPU,
/// those that had begun there are over. A thread that runs first (see
/// [`metasched_host::process::run_first`]) visits all CPUs in well under a millisecond; an RCU grace period
/// would do too, but it waits for kernel threads that the load itself delays.
pub(crate) fn wait_for_callbacks() -> io::Result<()> {
    match visit_cpus()? {
        true => Ok(()),
        // It went off line meanwhile, or a cpuset keeps us away from it.
        false => wait_for_grace_period(),
    }
}

/// Has the calling thread run on each CPU that is on line, one after the other; false if it could not on one.
pub(crate) fn visit_cpus() -> io::Result<bool> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let before = sched_getaffinity(Pid::from_raw(0))?;
    let visited = parse_cpu_list(&online).unwrap_or_default().into_iter().all(|cpu| {
        let mut only = CpuSet::new();
        let set = only.set(cpu as usize);
        set.and_then(|()| sched_setaffinity(Pid::from_raw(0), &only)).is_ok()
    });
    sched_setaffinity(Pid::from_raw(0), &before)?;
    Ok(visited)
}

/// A whole RCU grace period.
fn wait_for_grace_period() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visiting_the_cpus_leaves_the_thread_where_it_may_run() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        wait_for_callbacks().unwrap();
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }
}
