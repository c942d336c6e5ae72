use std::marker::PhantomData;

use metasched_host::process::run_first;
use nix::libc;

/// While it lives, this thread runs before all ordinary tasks, and outside of any
/// sched_ext scheduler: at the lowest real-time priority.
///
/// Where that is not allowed the thread stays what it was: turns and orders then are late
/// under load, but they are carried out.
pub(crate) struct Prompt {
    before: Option<(libc::c_int, libc::sched_param)>,
    /// The priority is the thread's, so this must not leave it.
    _not_send: PhantomData<*const ()>,
}

impl Prompt {
    pub(crate) fn new() -> Self {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: pid 0 is this thread; the parameters are ours.
        let before = unsafe {
            let policy = libc::sched_getscheduler(0);
            (policy >= 0 && libc::sched_getparam(0, &raw mut parameters) == 0)
                .then_some((policy, parameters))
        };
        let set = run_first(1).is_ok();
        Self { before: before.filter(|_| set), _not_send: PhantomData }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = self.before {
            // SAFETY: pid 0 is this thread; the values are what it had.
            unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_what_it_was_when_the_turns_are_over() {
        // SAFETY: reads this thread's own policy.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let prompt = Prompt::new();
        if prompt.before.is_some() {
            assert_eq!(policy() & 0xff, libc::SCHED_FIFO);
        }
        drop(prompt);
        assert_eq!(policy(), before);
    }
}
