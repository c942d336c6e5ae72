use std::time::Duration;

use metasched_base::{Interrupt, Result};
use metasched_control::{Candidate, SwitchRecord, Switcher, Turn, take_turns};
use metasched_strategy::timeslices;

use crate::{Error, Kind, Subject};

/// What is done while a subject is in force. It ends early when the interrupt that it
/// is given is raised.
pub type Work<'a> = &'a mut (dyn FnMut(&Interrupt) + Send);

/// Puts subjects in force.
pub trait Executor {
    /// The default scheduler as a subject.
    fn baseline(&self) -> Result<Subject>;
    /// Puts a subject in force; gives the changes of scheduler that it took.
    fn enter(&mut self, subject: &Subject) -> Result<Vec<SwitchRecord>>;
    /// Does the work while the subject, which was entered, is in force; a strategy
    /// takes its turns meanwhile. Fails if a scheduler has left the kernel.
    fn during(&mut self, subject: &Subject, work: Work) -> Result<Vec<SwitchRecord>>;
}

/// The real one: changes this machine's scheduler.
pub struct SwitcherExecutor<'a> {
    switcher: &'a mut Switcher,
    candidates: &'a [Candidate],
}

impl<'a> SwitcherExecutor<'a> {
    /// Will put these candidates in force through this switcher.
    pub fn new(switcher: &'a mut Switcher, candidates: &'a [Candidate]) -> Self {
        Self { switcher, candidates }
    }

    /// The candidate that the subject names, with the same version and options.
    fn candidate(&self, subject: &Subject) -> Result<Candidate> {
        self.candidates
            .iter()
            .find(|candidate| Subject::scheduler(candidate) == *subject)
            .cloned()
            .ok_or_else(|| missing(&subject.to_string()))
    }

    fn turns(&self, subject: &Subject) -> Result<Vec<Turn>> {
        let Subject::Strategy { base_slice_ms, turns, .. } = subject else { return Ok(Vec::new()) };
        let weights: Vec<f64> = turns.iter().map(|turn| turn.weight).collect();
        let slices = timeslices(Duration::from_millis(*base_slice_ms), &weights);
        turns
            .iter()
            .zip(slices)
            .map(|(turn, slice)| {
                let candidate = self
                    .candidates
                    .iter()
                    .find(|c| {
                        Subject::scheduler(c).to_string() == turn.scheduler
                            && c.version == turn.version
                    })
                    .ok_or_else(|| missing(&format!("{} {}", turn.scheduler, turn.version)))?;
                Ok(Turn { candidate: candidate.clone(), slice, app: turn.app.clone() })
            })
            .collect()
    }
}

fn missing(what: &str) -> Error {
    Error::new(Kind::BadInput, format!("put '{what}' in force"), "there is no such candidate")
        .remedy("see 'metasched list'; another version of it may have been installed since")
}

impl Executor for SwitcherExecutor<'_> {
    fn baseline(&self) -> Result<Subject> {
        self.candidates
            .iter()
            .map(Subject::scheduler)
            .find(Subject::is_baseline)
            .ok_or_else(|| missing(crate::BASELINE))
    }

    fn enter(&mut self, subject: &Subject) -> Result<Vec<SwitchRecord>> {
        // One that left after its own run was over is not the fault of this one.
        match self.switcher.check_alive() {
            Err(e) if e.kind == Kind::SchedulerExit => {}
            other => other?,
        }
        let record = match subject {
            Subject::Scheduler { .. } => self.switcher.switch_to(&self.candidate(subject)?)?,
            Subject::Strategy { mechanism, .. } => {
                // The first turn's, so that the measured time holds only changes of turn.
                let turns = self.turns(subject)?;
                let first = turns.iter().find(|turn| !turn.slice.is_zero()).ok_or_else(|| {
                    Error::new(Kind::BadInput, format!("run '{subject}'"), "it has no turns")
                })?;
                self.switcher.switch_by(&first.candidate, *mechanism)?
            }
        };
        Ok(if record.is_change() { vec![record] } else { Vec::new() })
    }

    fn during(&mut self, subject: &Subject, work: Work) -> Result<Vec<SwitchRecord>> {
        let Subject::Strategy { mechanism, .. } = subject else {
            work(&Interrupt::default());
            self.switcher.check_alive()?;
            return Ok(Vec::new());
        };
        let turns = self.turns(subject)?;
        let mut records = Vec::new();
        let (done, cancel) = (Interrupt::default(), Interrupt::default());
        let taken = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                // Also when the work panics: else the turns would go on for ever.
                let _done = RaiseAtEnd(&done);
                work(&cancel);
            });
            let taken = take_turns(self.switcher, &turns, *mechanism, None, &done, &mut |event| {
                if event.switch.is_change() {
                    records.push(event.switch.clone());
                }
            });
            if taken.is_err() {
                cancel.raise();
            }
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
            taken
        });
        taken?;
        self.switcher.check_alive()?;
        Ok(records)
    }
}

struct RaiseAtEnd<'a>(&'a Interrupt);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}
