//! Readers of a run that judge nothing: figures, traces, pictures. Like a checker, one sees
//! the stream of events and none of the engine's tables.

use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::Observed;
use std::cell::RefCell;
use std::rc::Rc;

/// Reads a run as it goes by.
pub trait Observer {
    /// A task is born; this comes before its first event.
    fn born(&mut self, _task: TaskId, _name: &str, _cgroup: &str) {}

    /// A task is in another cgroup from `at` ns on.
    fn moved(&mut self, _at: u64, _task: TaskId, _cgroup: &str) {}

    /// The kinds of events that it wants to see; all unless it says otherwise.
    fn wants(&self) -> Kinds {
        Kinds::ALL
    }

    /// Something happens.
    fn observe(&mut self, event: &Observed);

    /// The run is over, at `now` ns.
    fn finish(&mut self, _now: u64) {}
}

/// A reader that whoever describes the run reads out when it is over.
pub type Shared = Rc<RefCell<dyn Observer>>;
