use std::io;

use nix::libc;

/// Makes the calling thread run before all ordinary ones, and outside of any sched_ext
/// scheduler, at a real-time priority of 1 or more. What it starts does not inherit that.
/// For a thread that does next to nothing, but at once.
pub fn run_first(priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads the parameter and nothing else; 0 is this thread.
    let status = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
