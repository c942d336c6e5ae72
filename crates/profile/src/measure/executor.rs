use std::time::Duration;

use metasched_base::{Interrupt, Result};
use metasched_control::{
    Assignments, Candidate, LaneProgram, SwitchRecord, Switcher, Turn, take_turns,
};
use metasched_experiment::{Share, lane_weights, timeslices};
use metasched_loader::LaneSpec;

use crate::{Error, Kind, Subject, TurnShare};

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
    /// The lanes of the subject in force.
    lanes: Assignments,
}

impl<'a> SwitcherExecutor<'a> {
    /// Will put these candidates in force through this switcher.
    pub fn new(switcher: &'a mut Switcher, candidates: &'a [Candidate]) -> Self {
        let lanes = Assignments::new(switcher.root());
        Self { switcher, candidates, lanes }
    }

    /// The candidate that the subject names, with the same version and options.
    fn candidate(&self, subject: &Subject) -> Result<Candidate> {
        self.candidates
            .iter()
            .find(|candidate| Subject::scheduler(candidate) == *subject)
            .cloned()
            .ok_or_else(|| missing(&subject.to_string()))
    }

    /// The candidate of that name, options included, and version.
    fn named(&self, scheduler: &str, version: &str) -> Result<Candidate> {
        self.candidates
            .iter()
            .find(|c| Subject::scheduler(c).to_string() == scheduler && c.version == version)
            .cloned()
            .ok_or_else(|| missing(&format!("{scheduler} {version}")))
    }

    fn turns(&self, subject: &Subject) -> Result<Vec<Turn>> {
        let Subject::Strategy { base_slice_ms, turns, .. } = subject else { return Ok(Vec::new()) };
        let weights: Vec<f64> = turns.iter().map(|turn| turn.weight).collect();
        let slices = timeslices(Duration::from_millis(*base_slice_ms), &weights);
        turns
            .iter()
            .zip(slices)
            .map(|(turn, slice)| {
                let candidate = self.named(&turn.scheduler, &turn.version)?;
                Ok(Turn { candidate, slice, app: turn.app.clone() })
            })
            .collect()
    }

    /// Puts each application on its lane.
    fn assign(&mut self, lanes: &[TurnShare]) -> Result<()> {
        let shares: Vec<f64> = lanes.iter().map(|lane| lane.weight).collect();
        let parts = lanes.iter().map(|lane| Share::parts_of(&lane.app).len()).sum();
        for (lane, weight) in lanes.iter().zip(lane_weights(&shares, parts)) {
            let policy = self.named(&lane.scheduler, &lane.version)?;
            let spec = LaneSpec { weight: Some(weight), ..policy.lane() };
            self.lanes.assign_all(program(self.switcher)?, &lane.cgroups, &spec)?;
        }
        Ok(())
    }

    /// When the latest lane lost its application because its policy did not dispatch.
    fn last_quarantine_ns(&mut self) -> Option<u64> {
        self.switcher.program()?.quarantines().iter().map(|q| q.at_ns).max()
    }
}

/// Our program, which was just put in force.
fn program(switcher: &mut Switcher) -> Result<&mut dyn LaneProgram> {
    switcher.program().ok_or_else(|| {
        Error::new(Kind::BadInput, "put applications on lanes", "our program is not in force")
            .remedy("choose a policy of ours for everything else")
    })
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
        match self.switcher.program() {
            Some(program) => self.lanes.clear(program)?,
            // They went with the program.
            None => self.lanes = Assignments::new(self.switcher.root()),
        }
        let record = match subject {
            Subject::Scheduler { .. } => self.switcher.switch_to(&self.candidate(subject)?)?,
            Subject::Lanes { default: (policy, version), lanes, .. } => {
                let record = self.switcher.switch_to(&self.named(policy, version)?)?;
                self.assign(lanes)?;
                record
            }
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
            let quarantine = self.last_quarantine_ns();
            work(&Interrupt::default());
            self.switcher.check_alive()?;
            if self.last_quarantine_ns() != quarantine {
                return Err(Error::new(
                    Kind::SchedulerExit,
                    format!("keep '{subject}' in force"),
                    "a lane was put in quarantine: its policy left tasks that could run",
                ));
            }
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
