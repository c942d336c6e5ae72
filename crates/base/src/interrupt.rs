use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::{Error, Kind, Result};

/// Whether SIGINT, SIGTERM or SIGHUP has asked us to stop.
///
/// Long loops ask it between steps, so that stopping always takes the same
/// orderly way: the scheduler is put back and children are ended. A second
/// signal ends the process at once; the guard process then cleans up.
///
/// As a descriptor it becomes readable when a stop is asked for, and stays so: what
/// waits for something else can wait for that too, and need not look again and
/// again, which would take CPU time from what is measured.
#[derive(Clone, Debug)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    /// Nothing is ever read from it.
    reader: Arc<UnixStream>,
    writer: Arc<UnixStream>,
}

impl Default for Interrupt {
    /// One that only [`Interrupt::raise`] raises.
    fn default() -> Self {
        Self::new().expect("a pair of sockets")
    }
}

impl Interrupt {
    fn new() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        Ok(Self { raised: Arc::default(), reader: Arc::new(reader), writer: Arc::new(writer) })
    }

    /// Starts to listen for the signals. Call once, early in `main`.
    pub fn listen() -> Result<Self> {
        let attempt = |e| Error::new(Kind::Failed, "listen for signals", e);
        let this = Self::new().map_err(attempt)?;
        for signal in
            [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // In this order: the first sees the flag as the first signal left it, and
            // a woken thread finds the flag raised.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(Kind::Interrupted.exit_code()),
                Arc::clone(&this.raised),
            )
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&this.raised)))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, this.writer.try_clone()?))
            .map_err(attempt)?;
        }
        Ok(this)
    }

    /// Asks for the stop that a signal would ask for.
    pub fn raise(&self) {
        use std::io::Write;
        self.raised.store(true, Ordering::SeqCst);
        // It fails only if it is full, and then it is readable already.
        let _ = (&*self.writer).write(&[1]);
    }

    /// Whether a stop was asked for.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// An error of kind [`Kind::Interrupted`] if a stop was asked for.
    pub fn check(&self, attempt: &str) -> Result<()> {
        if self.is_raised() {
            return Err(Error::new(Kind::Interrupted, format!("finish {attempt}"), "interrupted"));
        }
        Ok(())
    }

    /// Sleeps for `duration` or until a stop is asked for; true if it slept it all.
    pub fn sleep(&self, duration: Duration) -> bool {
        self.sleep_until(Instant::now() + duration)
    }

    /// Sleeps until `end` or until a stop is asked for; true if it slept until then.
    pub fn sleep_until(&self, end: Instant) -> bool {
        loop {
            if self.is_raised() {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let mut raised = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            // Any error is a signal that was not for us, and then it sleeps on.
            let _ = ppoll(&mut raised, Some(TimeSpec::from_duration(left)), None);
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_interrupt_cuts_a_sleep_short() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        assert!(!interrupt.sleep(Duration::from_secs(3600)));
        assert_eq!(interrupt.check("the profile").unwrap_err().kind, Kind::Interrupted);
    }

    #[test]
    fn a_sleep_ends_when_another_thread_raises_it() {
        let interrupt = Interrupt::default();
        assert!(interrupt.sleep(Duration::from_millis(1)));
        let raiser = interrupt.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            raiser.raise();
        });
        assert!(!interrupt.sleep(Duration::from_secs(3600)));
        thread.join().unwrap();
    }
}
