//! Waits for children without looking again and again, which would itself take CPU
//! time from what is measured.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use metasched_base::{Interrupt, Kind, Result, ResultExt};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that can be waited for together with others.
#[derive(Debug)]
pub struct Watched(OwnedFd);

/// Why a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Woken {
    /// The process at this place in the list has ended.
    Ended(usize),
    /// The time is over.
    Timeout,
    /// A stop was asked for.
    Interrupted,
}

impl Watched {
    /// Watches our child with this number, which was not reaped yet.
    ///
    /// # Errors
    /// When there is no such process, or no descriptor left.
    pub fn new(pid: i32) -> Result<Self> {
        let attempt = || format!("watch the process {pid}");
        let pid = Pid::from_raw(pid).ok_or("there is none").attempt(Kind::Failed, attempt)?;
        let file = pidfd_open(pid, PidfdFlags::empty()).attempt(Kind::Failed, attempt)?;
        Ok(Self(file))
    }
}

/// Waits until one of the processes ends, the first of them in the list if several
/// have, or `timeout` is over, or one of the interrupts is raised.
///
/// # Errors
/// When the kernel does not let us wait.
pub fn wait(watched: &[&Watched], timeout: Duration, interrupts: &[&Interrupt]) -> Result<Woken> {
    let end = Instant::now() + timeout;
    let processes = watched.len();
    loop {
        if interrupts.iter().any(|interrupt| interrupt.is_raised()) {
            return Ok(Woken::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        let watched = watched.iter().map(|w| w.0.as_fd());
        let stops = interrupts.iter().map(|interrupt| interrupt.as_fd());
        let mut fds: Vec<PollFd> =
            watched.chain(stops).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None) {
            Ok(0) if left.is_zero() => return Ok(Woken::Timeout),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e).attempt(Kind::Failed, || "wait for processes".to_owned()),
        }
        let ended = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
        if let Some(place) = fds[..processes].iter().position(ended) {
            return Ok(Woken::Ended(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spawn;
    use super::*;

    #[test]
    fn the_process_that_ends_wakes_the_wait_at_once() {
        let long = Spawn::new(["sleep", "60"]).start().unwrap();
        let short = Spawn::new(["sleep", "0.1"]).start().unwrap();
        let (a, b) = (Watched::new(long.pid()).unwrap(), Watched::new(short.pid()).unwrap());
        let began = Instant::now();
        let woken = wait(&[&a, &b], Duration::from_secs(30), &[]).unwrap();
        assert_eq!(woken, Woken::Ended(1));
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(wait(&[&a], Duration::from_millis(20), &[]).unwrap(), Woken::Timeout);
        let interrupt = Interrupt::default();
        interrupt.raise();
        let woken = wait(&[&a], Duration::from_secs(30), &[&interrupt]).unwrap();
        assert_eq!(woken, Woken::Interrupted);
    }
}
