use super::{Checker, ms};
use crate::dense::Dense;
use crate::dsq::DsqRef;
use crate::kinds::Kinds;
use crate::trace::{Observed, What};
use metasched_abi::PARKED_LOOK_NS;

/// So long level 1 may keep a task parked, with the sweeps that look.
const AT_MOST_NS: u64 = 2 * PARKED_LOOK_NS + 100_000_000;

/// Nobody whose cgroup is throttled is parked for long, however small its quota: the kernel's
/// watchdog does not ask why a task waits. Whether it has run since is what counts, not who
/// took it out of its queue and put it back.
#[derive(Default)]
pub struct ParkedBounded {
    /// When each task was first parked since it ran last, and whether it is now.
    since: Dense<Option<u64>>,
    parked: Dense<bool>,
    /// Up to then nobody can have been parked for too long.
    look_at: u64,
}

/// The fair class, which has no watchdog, may keep a task aside for longer.
pub(super) fn by_level1(queue: &DsqRef) -> bool {
    matches!(queue, DsqRef::User(_)) && queue.throttles()
}

impl ParkedBounded {
    fn overdue(&mut self, now: u64) -> Result<(), String> {
        if now <= self.look_at {
            return Ok(());
        }
        let parked = |(task, since): (usize, &Option<u64>)| {
            (*since).filter(|_| self.parked.get(task)).map(|since| (since, task))
        };
        let first = self.since.iter().filter_map(parked).min();
        self.look_at = first.map_or(now, |(since, _)| since).saturating_add(AT_MOST_NS);
        match first {
            Some((since, task)) if now > self.look_at => {
                Err(format!("task {task} has been parked for {}", ms(now - since)))
            }
            _ => Ok(()),
        }
    }
}

impl Checker for ParkedBounded {
    fn name(&self) -> &'static str {
        "parked_bounded"
    }

    fn wants(&self) -> Kinds {
        let queues = Kinds::INSERT.and(Kinds::REMOVE);
        queues.and(Kinds::START).and(Kinds::SLEEP).and(Kinds::BYPASS)
    }

    fn look_at(&self) -> u64 {
        self.look_at
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let overdue = self.overdue(event.at);
        match (&event.what, event.task.map(|task| task.0)) {
            (What::Insert(queue), Some(task)) if by_level1(queue) => {
                self.since.at(task).get_or_insert(event.at);
                *self.parked.at(task) = true;
            }
            (What::Remove(queue), Some(task)) if by_level1(queue) => {
                *self.parked.at(task) = false;
            }
            (What::Start | What::Sleep, Some(task)) => *self.since.at(task) = None,
            // The kernel takes them out; a task that comes begins anew.
            (What::Bypass(_), _) => self.since.clear(),
            _ => {}
        }
        overdue
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.overdue(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::feed;
    use super::*;
    use crate::dsq::PARKED;

    const QUEUE: DsqRef = DsqRef::User(*PARKED.start());

    #[test]
    fn who_is_taken_out_and_put_back_is_parked_all_the_time() {
        let mut checker = ParkedBounded::default();
        let half = AT_MOST_NS / 2;
        let back = [(0, 0, 1, What::Insert(QUEUE)), (half, 0, 1, What::Remove(QUEUE))];
        feed(&mut checker, back).unwrap();
        feed(&mut checker, [(half, 0, 1, What::Insert(QUEUE))]).unwrap();
        checker.finish(AT_MOST_NS).unwrap();
        assert!(checker.finish(AT_MOST_NS + 1).unwrap_err().contains("task 1 has been parked"));
    }

    #[test]
    fn who_runs_meanwhile_begins_anew() {
        let mut checker = ParkedBounded::default();
        let half = AT_MOST_NS / 2;
        let runs = [
            (0, 0, 1, What::Insert(QUEUE)),
            (half, 0, 1, What::Remove(QUEUE)),
            (half, 0, 1, What::Start),
            (half, 0, 1, What::Insert(QUEUE)),
        ];
        feed(&mut checker, runs).unwrap();
        checker.finish(AT_MOST_NS + 1).unwrap();
    }
}
