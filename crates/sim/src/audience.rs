//! The watchers of a run: checkers, readers, and the trace. Everything that happens comes here
//! first, several times for each event of the engine, so that who has no use for a kind of
//! event is not told of it.

use crate::checkers::Checker;
use crate::kernel::Fault;
use crate::kinds::Kinds;
use crate::metasched::LaneSeen;
use crate::observer::{Observer, Shared};
use crate::trace::{Observed, Trace};
use std::rc::Rc;

pub(crate) struct Audience {
    checkers: Vec<Box<dyn Checker>>,
    /// Which of them want each kind of event, in their order.
    wanted_by: [Vec<usize>; Kinds::COUNT],
    /// From when on some checker wants to see whatever comes; it may be too early.
    look_at: u64,
    readers: Vec<(Kinds, Shared)>,
    trace: Trace,
    /// What the run failed by: what was found first.
    pub fault: Option<Fault>,
    /// Level 1's lanes, as checkers heard of them last.
    pub lanes_told: Rc<[LaneSeen]>,
}

impl Audience {
    /// Nobody yet; the text of everything is kept where `whole_trace`.
    pub fn new(whole_trace: bool) -> Self {
        Audience {
            checkers: Vec::new(),
            wanted_by: std::array::from_fn(|_| Vec::new()),
            look_at: u64::MAX,
            readers: Vec::new(),
            trace: Trace::new(whole_trace),
            fault: None,
            lanes_told: Rc::default(),
        }
    }

    /// Fails the run, unless it has failed already.
    pub fn fail(&mut self, at: u64, check: impl Into<String>, message: impl Into<String>) {
        if self.fault.is_none() {
            self.fault = Some(Fault { check: check.into(), message: message.into(), at });
        }
    }

    pub fn add_checker(&mut self, checker: Box<dyn Checker>) {
        let wants = checker.wants();
        for (kind, wanted_by) in self.wanted_by.iter_mut().enumerate() {
            if wants.has(kind) {
                wanted_by.push(self.checkers.len());
            }
        }
        self.look_at = self.look_at.min(checker.look_at());
        self.checkers.push(checker);
    }

    /// Whether a checker of that name is there.
    pub fn checks(&self, name: &str) -> bool {
        self.checkers.iter().any(|checker| checker.name() == name)
    }

    pub fn add_reader(&mut self, reader: Shared) {
        let wants = reader.borrow().wants();
        self.readers.push((wants, reader));
    }

    /// Tells all of an event. What the first checker found that found anything fails the run.
    pub fn observe(&mut self, event: Observed) {
        let at = event.at;
        let kind = event.what.kind();
        let mut found = None;
        let mut tell = |checker: &mut Box<dyn Checker>| {
            if let Err(message) = checker.observe(&event)
                && found.is_none()
            {
                found = Some((checker.name(), message));
            }
            checker.look_at()
        };
        if event.at > self.look_at {
            let mut look_at = u64::MAX;
            for checker in &mut self.checkers {
                let mut next = checker.look_at();
                if checker.wants().has(kind) || event.at > next {
                    next = tell(checker);
                }
                look_at = look_at.min(next);
            }
            self.look_at = look_at;
        } else {
            for at in &self.wanted_by[kind] {
                self.look_at = self.look_at.min(tell(&mut self.checkers[*at]));
            }
        }
        for (wants, reader) in &self.readers {
            if wants.has(kind) {
                reader.borrow_mut().observe(&event);
            }
        }
        self.trace.record(event);
        if let Some((check, message)) = found {
            self.fail(at, check, message);
        }
    }

    /// Every reader, for what is no event.
    pub fn readers(&self, mut tell: impl FnMut(&mut dyn Observer)) {
        for (_, reader) in &self.readers {
            tell(&mut *reader.borrow_mut());
        }
    }

    /// The run is over, and all go.
    pub fn finish(&mut self, now: u64) {
        let mut found = None;
        for checker in &mut self.checkers {
            if let Err(message) = checker.finish(now)
                && found.is_none()
            {
                found = Some((checker.name(), message));
            }
        }
        self.readers(|reader| reader.finish(now));
        // Nobody watches a machine that is taken apart.
        self.checkers.clear();
        self.wanted_by.iter_mut().for_each(Vec::clear);
        self.look_at = u64::MAX;
        self.readers.clear();
        if let Some((check, message)) = found {
            self.fail(now, check, message);
        }
    }

    /// The last events and, where asked for, the text of the whole run.
    pub fn into_trace(self) -> (Vec<String>, String) {
        (self.trace.recent(), self.trace.into_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::What;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Writes down what it is told of.
    struct Listener {
        told: Rc<RefCell<Vec<u64>>>,
        look_at: u64,
    }

    impl Checker for Listener {
        fn name(&self) -> &'static str {
            "listener"
        }

        fn wants(&self) -> Kinds {
            Kinds::IDLE
        }

        fn look_at(&self) -> u64 {
            self.look_at
        }

        fn observe(&mut self, event: &Observed) -> Result<(), String> {
            if event.at > self.look_at {
                self.look_at = u64::MAX;
            }
            self.told.borrow_mut().push(event.at);
            Ok(())
        }
    }

    #[test]
    fn a_checker_hears_of_what_it_wants_and_of_anything_when_its_time_has_come() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let mut audience = Audience::new(false);
        audience.add_checker(Box::new(Listener { told: told.clone(), look_at: 20 }));
        let events = [
            (10, What::Busy),
            (11, What::Idle),
            (20, What::Busy),
            (21, What::Busy),
            (22, What::Busy),
        ];
        for (at, what) in events {
            audience.observe(Observed { at, cpu: 0, task: None, what });
        }
        assert_eq!(*told.borrow(), [11, 21]);
        assert!(audience.fault.is_none());
    }
}
