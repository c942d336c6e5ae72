use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Kind, Result};

/// Whether SIGINT, SIGTERM or SIGHUP has asked us to stop.
///
/// Long loops ask it between steps, so that stopping always takes the same
/// orderly way: the scheduler is put back and children are ended. A second
/// signal ends the process at once; the guard process then cleans up.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen for the signals. Call once, early in `main`.
    pub fn listen() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in
            [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // Registered first, so that it sees the flag as the first signal left it.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(Kind::Interrupted.exit_code()),
                Arc::clone(&flag),
            )
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|e| Error::new(Kind::Failed, "listen for signals", e))?;
        }
        Ok(Self(flag))
    }

    /// Asks for the stop that a signal would ask for.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error of kind [`Kind::Interrupted`] if a stop was asked for.
    pub fn check(&self, attempt: &str) -> Result<()> {
        if self.is_raised() {
            return Err(Error::new(Kind::Interrupted, format!("finish {attempt}"), "interrupted")
                .remedy("what was finished is kept; the same command goes on from there"));
        }
        Ok(())
    }

    /// Sleeps for `duration` or until a stop is asked for; true if it slept it all.
    pub fn sleep(&self, duration: Duration) -> bool {
        // Short enough that a user who presses Ctrl-C does not press it again.
        const POLL: Duration = Duration::from_millis(20);
        let end = Instant::now() + duration;
        loop {
            if self.is_raised() {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(POLL));
        }
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
}
