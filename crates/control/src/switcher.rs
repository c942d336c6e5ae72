//! The one state machine that owns every change of the scheduler.

mod earlier;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_host::sched_ext::{SchedExt, State, Status};

use crate::candidate::{Candidate, CandidateKind, EEVDF, name_in_force};
use crate::exit::SchedulerExit;
use crate::external::{External, GOODBYE};
use crate::graces::{Graces, POLL, SYSRQ_REMEDY};
use crate::guard::Guard;
use crate::lock::{Lock, RUN_DIR};
use crate::program::{KernelLoader, LaneProgram, OPS_NAME, ProgramLoader};
use crate::switch::{Mechanism, SwitchRecord};

pub(crate) use earlier::Earlier;
use earlier::PutBack;

/// Pauses before each attempt to go back to the last good scheduler after a failed
/// start: what made the start fail (memory, a CPU that went off line) may pass.
const BACK_OFF: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2)];

/// How a [`Switcher`] works.
pub struct SwitcherOptions {
    /// What the command is called to others who find the lock held: `metasched run`.
    pub command: String,
    /// Whether a scheduler that is found in force may be stopped, and is put back at
    /// the end, instead of being a reason to refuse.
    pub take_over: bool,
    /// What brings our own program into the kernel.
    pub loader: Box<dyn ProgramLoader>,
    /// The root of the file system, for `/sys` and `/proc`.
    pub root: PathBuf,
    /// Where the lock and what is true until the next boot live.
    pub run_dir: PathBuf,
    /// The command of the guard process; `None` finds the metasched binary.
    pub guard: Option<Vec<String>>,
    pub(crate) graces: Graces,
    pub(crate) back_off: Vec<Duration>,
}

impl SwitcherOptions {
    /// The options of this system, for the command that is called so.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            take_over: false,
            loader: Box::new(KernelLoader::default()),
            root: PathBuf::from("/"),
            run_dir: PathBuf::from(RUN_DIR),
            guard: None,
            graces: Graces::default(),
            back_off: BACK_OFF.to_vec(),
        }
    }

    /// Load our program with these policies only, and the one that is wanted first; with all if
    /// none is given.
    pub fn policies(mut self, policies: &[String]) -> Self {
        let policies = policies.to_vec();
        self.loader = Box::new(KernelLoader { policies, ..KernelLoader::default() });
        self
    }

    /// Stop what is found in force, and put it back at the end.
    pub fn take_over(mut self, yes: bool) -> Self {
        self.take_over = yes;
        self
    }
}

/// What is in force by our doing.
enum Running {
    Default,
    Lane(Box<dyn LaneProgram>),
    External(External),
}

/// The state machine. One on a machine at a time: it holds the lock.
///
/// ```text
///             switch_to                      fails
///   eevdf  ─────────────▶  candidate A  ──▶ (B) ──back-off──▶ A again ──▶ eevdf
///     ▲                        │
///     └── the scheduler leaves ┘  (reported, never restarted here)
/// ```
///
/// Dropping it does what [`Switcher::restore`] does.
pub struct Switcher {
    options: SwitcherOptions,
    sysfs: SchedExt,
    running: Running,
    current: Candidate,
    earlier: Option<Earlier>,
    /// Whether what was to be stopped may be in force still.
    unsettled: bool,
    last_exit: Option<SchedulerExit>,
    guard: Guard,
    /// Last, so that it is released when all else is done.
    _lock: Lock,
}

impl Switcher {
    /// Takes the lock, posts the guard, and finds out what is in force.
    ///
    /// A scheduler of somebody else's is a failure of kind [`Kind::Busy`], unless the
    /// options say that it may be taken over: then it is stopped, to be started again
    /// at the end.
    pub fn new(options: SwitcherOptions) -> Result<Self> {
        let sysfs = SchedExt::at(&options.root);
        let status = sysfs.status()?;
        if status.state == State::Absent {
            return Err(Error::new(
                Kind::Unsupported,
                "change the scheduler",
                "this kernel has no sched_ext",
            )
            .remedy("run it in the testbed: metasched vm -- metasched ...; 'metasched doctor' tells what is missing"));
        }
        let lock = Lock::take(&options.run_dir, &options.command)?;
        let command = match &options.guard {
            Some(command) => command.clone(),
            None => Guard::default_command()?,
        };
        let guard = Guard::start(&command, &options.root, &options.run_dir, lock.share()?)?;
        let mut switcher = Self {
            current: Candidate::eevdf(""),
            sysfs,
            running: Running::Default,
            earlier: None,
            unsettled: false,
            last_exit: None,
            guard,
            _lock: lock,
            options,
        };
        switcher.take_over()?;
        Ok(switcher)
    }

    /// The name of what is in force by our doing: [`EEVDF`] when nothing is.
    pub fn current(&self) -> &str {
        &self.current.name
    }

    /// The candidate that is in force by our doing.
    pub fn candidate(&self) -> &Candidate {
        &self.current
    }

    /// What was found in force and will be put back, by its name in the kernel.
    pub fn earlier(&self) -> Option<&str> {
        self.earlier.as_ref().map(|earlier| earlier.ops.as_str())
    }

    /// The guard, for registering what else must not outlive us.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }

    /// The root of the file system, for `/sys` and `/proc`.
    pub fn root(&self) -> &Path {
        &self.options.root
    }

    /// The reader of what the kernel says.
    pub fn sysfs(&self) -> &SchedExt {
        &self.sysfs
    }

    /// Our program, if it is what is in force.
    pub fn program(&mut self) -> Option<&mut dyn LaneProgram> {
        match &mut self.running {
            Running::Lane(program) => Some(program.as_mut()),
            _ => None,
        }
    }

    /// Says which candidate is in force by a turn that our program took of itself.
    pub(crate) fn turn_of(&mut self, candidate: &Candidate) {
        self.current.clone_from(candidate);
    }

    /// How the last scheduler that left on its own account did so.
    pub fn last_exit(&self) -> Option<&SchedulerExit> {
        self.last_exit.as_ref()
    }

    /// Puts a candidate in force: a policy by a lane of our program, if that is
    /// loaded; anything else by stopping the one and starting the other.
    pub fn switch_to(&mut self, candidate: &Candidate) -> Result<SwitchRecord> {
        let mechanism = match candidate.kind {
            CandidateKind::Policy => Mechanism::Lane,
            _ => Mechanism::Swap,
        };
        self.switch_by(candidate, mechanism)
    }

    /// Puts a candidate in force by the given mechanism. With [`Mechanism::Swap`] our
    /// own program is unloaded and loaded anew even between two policies.
    ///
    /// On failure the last good candidate is put back, after a pause and with a few
    /// attempts, else the default scheduler is in force; the error says which.
    pub fn switch_by(
        &mut self,
        candidate: &Candidate,
        mechanism: Mechanism,
    ) -> Result<SwitchRecord> {
        if mechanism == Mechanism::Lane && candidate.kind != CandidateKind::Policy {
            return Err(Error::new(
                Kind::BadInput,
                format!("put '{}' in force as a lane", candidate.name),
                "only our own policies run as lanes",
            )
            .remedy("use the mechanism 'swap'"));
        }
        self.check_alive()?;
        if candidate.name == self.current.name && candidate.command == self.current.command {
            return Ok(SwitchRecord::unchanged(self.current(), mechanism));
        }
        let began = Instant::now();
        let previous = self.current.clone();
        let mut record = SwitchRecord::unchanged(&previous.name, mechanism);
        record.to.clone_from(&candidate.name);
        if let (Running::Lane(program), Mechanism::Lane) = (&mut self.running, mechanism) {
            record.write_ns = Some(program.replace_root(&candidate.lane())?.write_ns);
            self.current = candidate.clone();
        } else {
            // Also where a lane was asked for: it is one from the next change on.
            record.mechanism = Mechanism::Swap;
            if !matches!(self.running, Running::Default) {
                record.stop_ns = Some(nanoseconds(self.stop_running()?));
            }
            match self.start(candidate) {
                Ok(took) => record.start_ns = took.map(nanoseconds),
                Err(error) => return Err(self.fall_back(&previous, error)),
            }
        }
        record.total_ns = nanoseconds(began.elapsed());
        Ok(record)
    }

    /// Whether what we put in force still is. If it has left the kernel, the error is
    /// of kind [`Kind::SchedulerExit`], the record is kept, and from then on the
    /// default scheduler is what is in force; nothing is started again. What was found is
    /// forgotten where an operator took out what we put in its place.
    pub fn check_alive(&mut self) -> Result<()> {
        let exit = match &mut self.running {
            Running::Default => {
                return if matches!(self.sysfs.state()?, State::Disabled | State::Absent) {
                    Ok(())
                } else {
                    Err(self.stranger("keep the default scheduler in force"))
                };
            }
            Running::External(external) => external.exited(&self.sysfs, &self.options.graces)?,
            Running::Lane(program) => {
                let mut exit = program.exited();
                if exit.is_none() && self.sysfs.state()? == State::Enabled {
                    return Ok(());
                }
                // The kernel says why only when it has nearly done with taking it out.
                let end = Instant::now() + GOODBYE;
                while exit.is_none() && Instant::now() < end {
                    std::thread::sleep(POLL * 5);
                    exit = program.exited();
                }
                Some(match exit {
                    Some(exit) => SchedulerExit::of_program(&self.current.name, exit),
                    None => {
                        let reason = "the kernel took it out";
                        SchedulerExit::new(&self.current.name, "detached", reason, "")
                    }
                })
            }
        };
        let Some(exit) = exit else { return Ok(()) };
        let error = exit.error();
        // For `metasched status`; that it cannot be kept must not hide the exit itself.
        let _ = exit.save(&self.options.run_dir);
        if exit.by_operator {
            // A user who does that wants no scheduler in force. A guard that cannot be told so is
            // ended when it is dismissed.
            self.earlier = None;
            let _ = self.guard.set_earlier(None);
        }
        self.last_exit = Some(exit);
        self.stop_running()?;
        Err(error)
    }

    /// Stops what we put in force and puts back what was found, if anything was. What failed is
    /// tried again by the next call.
    pub fn restore(&mut self) -> Result<()> {
        let stopped = match self.running {
            Running::Default if self.unsettled => self.settle(),
            Running::Default => Ok(()),
            _ => self.stop_running().map(drop),
        };
        // Even then: the process may be gone and only its cleaning up be slow.
        match (stopped, self.put_back()) {
            (Err(error), Err(second)) => Err(error.and(&second)),
            (stopped, put_back) => stopped.and(put_back),
        }
    }

    /// Sees whether what could not be stopped has gone by now.
    fn settle(&mut self) -> Result<()> {
        let status = self.sysfs.status()?;
        self.unsettled = !status.is_default();
        if !self.unsettled {
            return Ok(());
        }
        let ops = status.ops.unwrap_or_default();
        let cause = format!("the state is still '{}', scheduler '{ops}'", status.state);
        Err(Error::new(Kind::Timeout, "have the default scheduler in force", cause)
            .remedy(SYSRQ_REMEDY))
    }

    /// Starts again what was found.
    fn put_back(&mut self) -> Result<()> {
        let Some(earlier) = &self.earlier else { return Ok(()) };
        let SwitcherOptions { root, run_dir, graces, .. } = &self.options;
        // One that could not be stopped may yet end: then the guard is to start it.
        if earlier.start(root, &self.sysfs, run_dir, graces)? == PutBack::Started {
            self.earlier = None;
            self.unsettled = false;
            self.guard.set_earlier(None)?;
        }
        Ok(())
    }

    /// Deals with what was found in force at the beginning.
    fn take_over(&mut self) -> Result<()> {
        // One that is on its way in or out is judged by where it ends.
        let status = self.sysfs.wait(
            "change the scheduler",
            self.options.graces.start,
            POLL * 5,
            |status| matches!(status.state, State::Disabled | State::Enabled),
        )?;
        if status.is_default() {
            return Ok(());
        }
        if !self.options.take_over {
            return Err(self.stranger("change the scheduler"));
        }
        let earlier = Earlier::find(&self.options.root, &status)?;
        self.guard.set_earlier(Some(earlier.clone()))?;
        let stopped = earlier.stop(&self.options.root, &self.sysfs, &self.options.graces);
        self.earlier = Some(earlier);
        self.unsettled = stopped.is_err();
        stopped
    }

    /// The failure that somebody else's scheduler is in force.
    fn stranger(&self, attempt: &str) -> Error {
        let ops = self.sysfs.status().ok().and_then(|status| status.ops).unwrap_or_default();
        let holder = crate::holder::holder(&self.options.root, &ops);
        let (who, remedy) = match &holder {
            Some(h) => (
                format!(" (process {}: {})", h.id.pid, h.command.join(" ")),
                match &h.unit {
                    Some(unit) => format!("stop it first: systemctl stop {unit}"),
                    None => format!(
                        "stop it first: kill -INT {}; or let it be stopped and put back: --take-over",
                        h.id.pid
                    ),
                },
            ),
            None => (String::new(), "stop it first".to_owned()),
        };
        Error::new(Kind::Busy, attempt, format!("the scheduler '{ops}'{who} is in force"))
            .remedy(remedy)
    }

    /// Starts a candidate from the default scheduler. Gives what that took; `None`
    /// for the default scheduler itself.
    fn start(&mut self, candidate: &Candidate) -> Result<Option<Duration>> {
        let began = Instant::now();
        let options = &self.options;
        match candidate.kind {
            CandidateKind::Default => {
                self.current = candidate.clone();
                return Ok(None);
            }
            CandidateKind::External => {
                self.running = Running::External(External::start(
                    candidate,
                    &options.root,
                    &self.sysfs,
                    &options.graces,
                    Some(&self.guard),
                )?);
            }
            CandidateKind::Policy => {
                let program = options.loader.load(&candidate.lane())?;
                self.sysfs
                    .wait(
                        &format!("see '{}' in force", candidate.name),
                        options.graces.start,
                        POLL,
                        |status| {
                            status.state == State::Enabled
                                && status.ops.as_deref() == Some(OPS_NAME)
                        },
                    )
                    .map_err(|error| match program.exited() {
                        Some(exit) => Error::new(
                            Kind::SchedulerExit,
                            error.attempt,
                            format!("{}: {}", exit.reason, exit.message),
                        ),
                        None => error,
                    })?;
                self.running = Running::Lane(program);
            }
        }
        self.current = candidate.clone();
        Ok(Some(began.elapsed()))
    }

    /// Stops what we put in force. Gives the time until it was out.
    fn stop_running(&mut self) -> Result<Duration> {
        let began = Instant::now();
        let name = std::mem::replace(&mut self.current, Candidate::eevdf("")).name;
        let stopped = match std::mem::replace(&mut self.running, Running::Default) {
            Running::Default => return Ok(Duration::ZERO),
            Running::External(mut external) => {
                external.stop(&self.sysfs, &self.options.graces, Some(&self.guard))
            }
            Running::Lane(program) => {
                drop(program);
                let what = format!("stop '{name}'");
                // Another one may have been put in force since.
                let left = |status: &Status| {
                    status.is_default()
                        || status.state == State::Enabled && status.ops.as_deref() != Some(OPS_NAME)
                };
                let waited = self.sysfs.wait(&what, self.options.graces.kill, POLL, left);
                waited.map(|_| began.elapsed())
            }
        };
        self.unsettled = stopped.is_err();
        stopped
    }

    /// After a failed start: puts `previous` back, if it was not the default scheduler.
    fn fall_back(&mut self, previous: &Candidate, error: Error) -> Error {
        if previous.name == EEVDF {
            return Error { cause: format!("{}; {}", error.cause, self.in_force()), ..error };
        }
        let mut last = String::new();
        for pause in self.options.back_off.clone() {
            std::thread::sleep(pause);
            match self.start(previous) {
                Ok(_) => {
                    let cause = format!("{}; '{}' is in force again", error.cause, previous.name);
                    return Error { cause, ..error };
                }
                Err(e) => last = e.to_string(),
            }
        }
        let cause = format!(
            "{}; '{}' could not be put back either ({last}), {}",
            error.cause,
            previous.name,
            self.in_force()
        );
        Error { cause, ..error }
    }

    /// What the kernel says is in force, as a part of a sentence.
    fn in_force(&self) -> String {
        match self.sysfs.status() {
            Ok(status) if status.is_default() => "EEVDF is in force".to_owned(),
            Ok(status) => {
                format!("'{}' is in force (state '{}')", name_in_force(&status), status.state)
            }
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            eprintln!("metasched: {error}");
        }
        // Dismissed only when all is well: otherwise the guard goes on trying.
        if !self.unsettled && self.earlier.is_none() {
            let _ = self.guard.dismiss();
        }
    }
}

impl std::fmt::Debug for Switcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switcher")
            .field("current", &self.current.name)
            .field("earlier", &self.earlier)
            .finish_non_exhaustive()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
