use super::Checker;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Asleep,
    Waiting,
    Running,
    Stopped,
    Gone,
}

/// A task wakes before it runs, stops before it runs again, and sleeps only after
/// it ran; nothing happens to one that is gone.
#[derive(Default)]
pub struct CallbacksInOrder {
    places: BTreeMap<TaskId, Place>,
}

impl Checker for CallbacksInOrder {
    fn name(&self) -> &'static str {
        "callbacks_in_order"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let Some(task) = event.task else { return Ok(()) };
        let place = self.places.get(&task).copied();
        let next = match (&event.what, place) {
            (What::Arrive { .. }, None) => Place::Asleep,
            (What::Wake, Some(Place::Asleep | Place::Stopped)) => Place::Waiting,
            (What::Enqueue | What::Insert(_) | What::Migrate, Some(Place::Waiting)) => {
                Place::Waiting
            }
            (What::Start, Some(Place::Waiting)) => Place::Running,
            (What::Stop { runnable: true }, Some(Place::Running)) => Place::Waiting,
            (What::Sleep, Some(Place::Running)) => Place::Stopped,
            (What::Stop { runnable: false }, Some(Place::Stopped)) => Place::Asleep,
            (What::Exit, Some(Place::Asleep)) => Place::Gone,
            // These come at any time while the task lives.
            (What::Dequeue | What::Remove(_), Some(place)) if place != Place::Gone => place,
            (What::Allowed(_) | What::Weight(_), Some(place)) if place != Place::Gone => place,
            (what, place) => {
                return Err(format!("task {} is {place:?}, and now: {what:?}", task.0));
            }
        };
        self.places.insert(task, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;

    #[test]
    fn a_task_that_runs_without_waking_is_caught() {
        let mut checker = CallbacksInOrder::default();
        let said = feed(&mut checker, [(0, 0, 1, arrive(&[0])), (1, 0, 1, What::Start)]);
        assert!(said.unwrap_err().contains("Asleep"));
    }

    #[test]
    fn a_task_that_comes_back_from_the_dead_is_caught() {
        let mut checker = CallbacksInOrder::default();
        let life = [
            (0, 0, 1, arrive(&[0])),
            (1, 0, 1, What::Wake),
            (2, 0, 1, What::Start),
            (3, 0, 1, What::Sleep),
            (3, 0, 1, What::Stop { runnable: false }),
            (3, 0, 1, What::Exit),
        ];
        feed(&mut checker, life).unwrap();
        assert!(feed(&mut checker, [(4, 0, 1, What::Wake)]).unwrap_err().contains("Gone"));
    }
}
