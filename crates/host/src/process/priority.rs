use std::io;
use std::marker::PhantomData;

use nix::libc;
use rustix::process::{getpriority_process, setpriority_process};

// Classes are asked for by libc: neither nix nor rustix has sched_setscheduler(2), which the C
// libraries do not agree on.

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

/// While it lives, this thread runs before all ordinary tasks, and outside of any
/// sched_ext scheduler: at the lowest real-time priority.
///
/// Where the kernel refuses that, as it does in a cgroup without real-time budget, the thread
/// gets the least niceness. Where that is refused too it stays what it was: what it does is
/// late under load then, but it is done.
#[derive(Debug)]
pub struct Prompt {
    before: Before,
    /// The priority is the thread's, so this must not leave it.
    _not_send: PhantomData<*const ()>,
}

/// What the thread had.
#[derive(Debug)]
enum Before {
    Same,
    Class(libc::c_int, libc::sched_param),
    Nice(i32),
}

/// The least niceness.
const LEAST_NICE: i32 = -20;

impl Prompt {
    /// Makes the calling thread a prompt one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            before: Self::class().or_else(Self::nice).unwrap_or(Before::Same),
            _not_send: PhantomData,
        }
    }

    fn class() -> Option<Before> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: pid 0 is this thread; the parameters are ours.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: as before.
        let known = policy >= 0 && unsafe { libc::sched_getparam(0, &raw mut parameters) } == 0;
        (known && run_first(1).is_ok()).then_some(Before::Class(policy, parameters))
    }

    fn nice() -> Option<Before> {
        let before = getpriority_process(None).ok()?;
        setpriority_process(None, LEAST_NICE).ok().map(|()| Before::Nice(before))
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        match &self.before {
            Before::Same => {}
            // SAFETY: pid 0 is this thread; the values are what it had.
            Before::Class(policy, parameters) => unsafe {
                libc::sched_setscheduler(0, *policy, &raw const *parameters);
            },
            // It is what the thread had, which it may have again.
            Before::Nice(before) => drop(setpriority_process(None, *before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_afterwards_what_it_was() {
        // SAFETY: reads this thread's own policy.
        let now = || (unsafe { libc::sched_getscheduler(0) }, getpriority_process(None).unwrap());
        let before = now();
        let prompt = Prompt::new();
        match prompt.before {
            Before::Class(..) => assert_eq!(now().0 & 0xff, libc::SCHED_FIFO),
            Before::Nice(_) => assert_eq!(now().1, LEAST_NICE),
            Before::Same => assert_eq!(now(), before),
        }
        {
            // One within another, as a load is in the keeper.
            let inner = Prompt::new();
            drop(inner);
        }
        assert_ne!(matches!(prompt.before, Before::Class(..)), now().0 & 0xff == libc::SCHED_OTHER);
        drop(prompt);
        assert_eq!(now(), before);
    }

    #[test]
    fn without_real_time_a_thread_is_less_nice_meanwhile() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let prompt =
            Prompt { before: Prompt::nice().unwrap_or(Before::Same), _not_send: PhantomData };
        if matches!(prompt.before, Before::Nice(_)) {
            assert_eq!(nice(), LEAST_NICE);
        }
        drop(prompt);
        assert_eq!(nice(), before);
    }
}
