use super::parked::by_level1;
use super::{Checker, ms};
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::trace::{Observed, What};
use metasched_abi::{BEYOND_MOST_NS, PARKED_LOOK_NS};

/// Nobody is parked in a system call, where it may hold what others wait for, before it has run there
/// for [`BEYOND_MOST_NS`]. What is left of that for a call is what the task did not use up in those
/// before it since it last had a piece of its quota; so calls are counted together until it has been
/// parked, and was let through because there was something left, or until it has computed in user space
/// for so long that it had a piece, or no limit.
#[derive(Default)]
pub struct CallsEnd {
    tasks: Dense<Task>,
    /// The kernel bypasses the program, and lets tasks run that have nothing left.
    bypassed: bool,
}

/// A task that returns to user space with nothing left runs for less than that, ns, until its CPU
/// has chosen anew.
const LATE_NS: u64 = 200_000;

#[derive(Clone, Default)]
struct Task {
    in_call: bool,
    /// While it runs: up to then `ran_ns` is counted, ns.
    runs_from: Option<u64>,
    /// So long it has run in system calls, ns.
    ran_ns: u64,
    parked_from: Option<u64>,
}

impl Task {
    fn count(&mut self, now: u64, bypassed: bool) {
        match self.runs_from.map(|from| now - from) {
            Some(ns) if self.in_call => self.ran_ns += ns,
            Some(ns) if ns >= LATE_NS && !bypassed => self.ran_ns = 0,
            _ => {}
        }
        self.runs_from = self.runs_from.map(|_| now);
    }
}

impl Checker for CallsEnd {
    fn name(&self) -> &'static str {
        "calls_end"
    }

    fn wants(&self) -> Kinds {
        let runs = Kinds::START.and(Kinds::STOP).and(Kinds::INSERT);
        runs.and(Kinds::SYSCALL).and(Kinds::GUEST).and(Kinds::EXIT).and(Kinds::BYPASS)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        if let What::Bypass(begins) = event.what {
            self.tasks.values_mut().for_each(|task| task.count(event.at, self.bypassed));
            self.bypassed = begins;
        }
        let (Some(id), now) = (event.task, event.at) else { return Ok(()) };
        let task = self.tasks.at(id.0);
        match &event.what {
            What::Start => {
                task.runs_from = Some(now);
                // A task that was parked for longer may run though nothing is left.
                if task.parked_from.take().is_some_and(|from| now - from < PARKED_LOOK_NS) {
                    task.ran_ns = 0;
                }
            }
            What::Stop { .. } => {
                task.count(now, self.bypassed);
                task.runs_from = None;
            }
            What::Syscall(_) | What::Guest => {
                task.count(now, self.bypassed);
                task.in_call = matches!(event.what, What::Syscall(true));
            }
            What::Insert(queue) if by_level1(queue) => {
                if task.in_call && task.ran_ns < BEYOND_MOST_NS {
                    let ran = ms(task.ran_ns);
                    return Err(format!("task {} is parked after {ran} in system calls", id.0));
                }
                task.parked_from.get_or_insert(now);
            }
            What::Exit => *task = Task::default(),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::feed;
    use super::*;
    use crate::dsq::DsqRef;
    use crate::dsq::PARKED;

    const QUEUE: DsqRef = DsqRef::User(*PARKED.start());
    const STOP: What = What::Stop { runnable: true };

    /// A task runs in a call for so long, and is parked.
    fn parked_after(ns: u64, checker: &mut CallsEnd) -> Result<(), String> {
        let events = [(0, 0, 1, What::Start), (0, 0, 1, What::Syscall(true))];
        feed(checker, events)?;
        feed(checker, [(ns, 0, 1, STOP), (ns, 0, 1, What::Insert(QUEUE))])
    }

    #[test]
    fn who_is_parked_early_in_its_call_is_reported() {
        let early = parked_after(BEYOND_MOST_NS - 1, &mut CallsEnd::default());
        assert!(early.unwrap_err().contains("task 1 is parked after"));
        parked_after(BEYOND_MOST_NS, &mut CallsEnd::default()).unwrap();
    }

    #[test]
    fn who_has_returned_or_is_in_its_guest_may_be_parked() {
        for over in [What::Syscall(false), What::Guest] {
            let mut checker = CallsEnd::default();
            let events = [
                (0, 0, 1, What::Start),
                (0, 0, 1, What::Syscall(true)),
                (5, 0, 1, over),
                (5, 0, 1, STOP),
                (5, 0, 1, What::Insert(QUEUE)),
            ];
            feed(&mut checker, events).unwrap();
        }
    }

    /// Bypassed it may compute though it has no piece.
    #[test]
    fn what_ran_in_calls_does_not_count_after_a_piece_in_user_space() {
        for (user_ns, bypassed, fails) in
            [(LATE_NS - 1, false, false), (LATE_NS, false, true), (LATE_NS, true, false)]
        {
            let mut checker = CallsEnd::default();
            let events = [
                (0, 0, 1, What::Start),
                (0, 0, 1, What::Syscall(true)),
                (BEYOND_MOST_NS, 0, 1, What::Syscall(false)),
            ];
            feed(&mut checker, events).unwrap();
            let next = BEYOND_MOST_NS + user_ns;
            if bypassed {
                feed(&mut checker, [(BEYOND_MOST_NS, 0, 0, What::Bypass(true))]).unwrap();
                feed(&mut checker, [(next, 0, 0, What::Bypass(false))]).unwrap();
            }
            let events = [
                (next, 0, 1, What::Syscall(true)),
                (next + 1, 0, 1, STOP),
                (next + 1, 0, 1, What::Insert(QUEUE)),
            ];
            assert_eq!(feed(&mut checker, events).is_err(), fails, "{user_ns} ns, {bypassed}");
        }
    }

    #[test]
    fn what_ran_in_calls_counts_until_there_is_something_left_again() {
        for (parked_ns, fails) in [(PARKED_LOOK_NS - 1, true), (PARKED_LOOK_NS, false)] {
            let mut checker = CallsEnd::default();
            parked_after(BEYOND_MOST_NS, &mut checker).unwrap();
            let then = BEYOND_MOST_NS + parked_ns;
            let events = [
                (then, 0, 1, What::Start),
                (then + 1, 0, 1, STOP),
                (then + 1, 0, 1, What::Insert(QUEUE)),
            ];
            assert_eq!(feed(&mut checker, events).is_err(), fails);
        }
    }
}
