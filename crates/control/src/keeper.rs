//! The keeper: a process in the background that holds a scheduler, and takes orders
//! through a socket.
//!
//! One line of JSON asks, one line answers, then the connection ends. Orders are
//! served one after the other, as there is one state machine.

mod client;
mod door;
mod stop;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::Prompt;
use metasched_loader::{LaneInfo, LaneSpec, Limits, Quarantine};
use nix::poll::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use crate::assignments::{App, Assigned, Assignments};
use crate::candidate::{Candidate, CandidateKind};
use crate::exit::unix_now_s;
use crate::follower::Follower;
use crate::program::LaneProgram;
use crate::quarantine::{describe, say};
use crate::rules::{RuleApp, Why};
use crate::switch::{Mechanism, SwitchRecord};
use crate::switcher::Switcher;
use door::{Call, Door};

pub use client::ask;
pub use stop::stop;

/// The socket's name in the run folder.
const SOCKET: &str = "control.sock";

/// How often the keeper looks whether its scheduler is still there.
const LOOK: Duration = Duration::from_secs(1);

/// After a change of the hierarchy of cgroups, what follows within this time is taken in
/// together: who makes cgroups without end must not keep a CPU busy here.
const BURST: Duration = Duration::from_millis(10);

/// How long work may take that brings a scheduler into the kernel or out: a failed start with
/// everything that follows.
const LONG_WORK: Duration = Duration::from_secs(400);

/// How long other work may take: many times what a place for a lane is waited for.
const SHORT_WORK: Duration = Duration::from_secs(30);

/// What the keeper is at when cgroups came or went that rules may match.
const FOLLOWING: &str = "put on lanes what the rules match";

/// An order to the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Tell what is in force.
    Status,
    /// Put another scheduler in force; without a mechanism the better one is taken.
    Switch {
        /// The scheduler.
        candidate: Candidate,
        /// How to change to it.
        mechanism: Option<Mechanism>,
    },
    /// Put a cgroup on a lane of its own.
    Assign {
        /// The cgroup, as the user names it.
        cgroup: String,
        /// What its lane is to be.
        lane: LaneSpec,
        /// Whether the cgroup is to be removed when nobody is in it any more.
        brief: bool,
    },
    /// Take a cgroup off its lane.
    Unassign {
        /// The cgroup, as the user names it.
        cgroup: String,
    },
    /// Change a lane in force.
    Adjust {
        /// The cgroup, as the user names it.
        cgroup: String,
        /// The lane's weight, if that is to change.
        weight: Option<u32>,
        /// Options of its policy that are to change.
        options: BTreeMap<String, u64>,
    },
    /// Put back what was found, and end.
    Stop,
}

impl Order {
    /// What it is to do, to be read after "cannot".
    fn describe(&self) -> String {
        match self {
            Order::Status => "ask the keeper what is in force".to_owned(),
            Order::Switch { candidate, .. } => format!("switch to '{}'", candidate.name),
            Order::Assign { cgroup, .. } => format!("assign '{cgroup}'"),
            Order::Unassign { cgroup } => format!("unassign '{cgroup}'"),
            Order::Adjust { cgroup, .. } => format!("change the lane of '{cgroup}'"),
            Order::Stop => "stop the keeper".to_owned(),
        }
    }

    /// How long it may take.
    fn bound(&self) -> Duration {
        match self {
            Order::Switch { .. } | Order::Stop => LONG_WORK,
            _ => SHORT_WORK,
        }
    }
}

/// What the keeper holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperStatus {
    /// The keeper's process.
    pub pid: u32,
    /// What is in force by its doing.
    pub scheduler: Candidate,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
    /// What will be put back at the end, by its name in the kernel.
    pub earlier: Option<String>,
    /// The lanes of our program, where that is what is in force.
    pub lanes: Vec<LaneInfo>,
    /// Applications that have lanes of their own.
    pub apps: Vec<App>,
    /// Applications of the rules that have none: no cgroup matches now, or they are to be
    /// on the default lane.
    pub without_lane: Vec<RuleApp>,
    /// The latest lanes whose policies did not dispatch.
    pub quarantines: Vec<Quarantine>,
    /// Cgroups with a limit in `cpu.max`, while our program enforces them.
    pub limits: Limits,
    /// The policies that our program was loaded with, where that is what is in force.
    pub policies: Vec<String>,
}

/// The keeper's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Order::Status`].
    Status(Box<KeeperStatus>),
    /// To [`Order::Switch`].
    Switched(SwitchRecord),
    /// To [`Order::Assign`] and [`Order::Adjust`].
    Assigned(Assigned),
    /// To [`Order::Unassign`]: what was assigned.
    Unassigned(App),
    /// To [`Order::Stop`]: what is in force again, by its name in the kernel.
    Stopped {
        /// `None` for the default scheduler.
        back: Option<String>,
    },
    /// To any of them.
    Failed(Failure),
    /// Before any of them, again and again, while the keeper is at work.
    Working {
        /// What it is at, which may be another client's order.
        on: String,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
}

/// An [`Error`] on its way through the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    exit_code: u8,
    attempt: String,
    cause: String,
    remedy: String,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self { exit_code: e.kind.exit_code(), attempt: e.attempt, cause: e.cause, remedy: e.remedy }
    }
}

impl From<Failure> for Error {
    fn from(f: Failure) -> Self {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.exit_code() == f.exit_code)
            .unwrap_or(Kind::Failed);
        Error::new(kind, f.attempt, f.cause).remedy(f.remedy)
    }
}

/// The keeper itself.
#[derive(Debug)]
pub struct Keeper {
    /// First, so that it is closed before the lock is released: the next keeper's is at the same
    /// place.
    door: Door,
    switcher: Switcher,
    assignments: Assignments,
    follower: Option<Follower>,
    since_unix_s: u64,
    /// When to look next at what nobody tells of.
    next_look: Instant,
    /// What went wrong at the last look.
    look_failed: Option<String>,
    /// Until when changes of the hierarchy may gather.
    gather_until: Instant,
}

impl Keeper {
    /// Puts the candidate in force, and listens for orders in `run_dir`.
    pub fn start(mut switcher: Switcher, candidate: &Candidate, run_dir: &Path) -> Result<Self> {
        switcher.switch_to(candidate)?;
        let mut assignments = Assignments::new(switcher.root());
        // Before the door is open: what is made from then on is a client's.
        assignments.remove_what_was_left();
        let door = Door::open(&run_dir.join(SOCKET))?;
        Ok(Self {
            switcher,
            assignments,
            follower: None,
            door,
            since_unix_s: unix_now_s(),
            next_look: Instant::now(),
            look_failed: None,
            gather_until: Instant::now(),
        })
    }

    /// Sets options of the default lane, by `change` of its policy; they go with that lane.
    ///
    /// # Errors
    /// `BadInput` for an option that the policy has not, and where no policy of ours is in force.
    pub fn set_default(&mut self, change: &LaneSpec) -> Result<()> {
        ours(&mut self.switcher)?.set_lane(0, change)
    }

    /// Puts on lanes what rules match, now and from then on.
    ///
    /// # Errors
    /// What keeps one of them from its lane now; later that is told.
    pub fn follow(&mut self, mut follower: Follower) -> Result<()> {
        let _at_work = self.door.at_work(FOLLOWING, SHORT_WORK);
        let failed = follower.begin(ours(&mut self.switcher)?, &mut self.assignments)?;
        self.follower = Some(follower);
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Holds the scheduler and serves orders until it is told to stop, a signal
    /// comes, or the time is over; then puts back what was found. An error when the scheduler left
    /// the kernel on its own account, or what was found is not back.
    pub fn run(mut self, interrupt: &Interrupt, until: Option<Instant>) -> Result<()> {
        // In the load's own queues it would wait for the load at each call of a BPF program, and
        // at each of the verifier's turns.
        let _prompt = Prompt::new();
        let served = self.serve_until(interrupt, until);
        // While the door is open, so that nobody takes us for one that hangs or is not there.
        let _at_work = self.door.at_work("put back what was found", LONG_WORK);
        match (served, self.switcher.restore()) {
            (Err(error), Err(second)) => Err(error.and(&second)),
            (served, restored) => served.and(restored),
        }
    }

    /// Serves orders until it is told to stop, a signal comes, or the time is over.
    fn serve_until(&mut self, interrupt: &Interrupt, until: Option<Instant>) -> Result<()> {
        let over = || until.is_some_and(|until| Instant::now() >= until);
        while !interrupt.is_raised() && !over() {
            {
                // One that has left may have to be stopped.
                let _at_work = self.door.at_work("look after what is in force", LONG_WORK);
                self.switcher.check_alive()?;
                if Instant::now() >= self.next_look {
                    self.look()?;
                    self.next_look = Instant::now() + LOOK;
                }
            }
            if let (Some(follower), Some(program)) = (&mut self.follower, self.switcher.program()) {
                let _at_work = self.door.at_work(FOLLOWING, SHORT_WORK);
                follower.apply(program, &mut self.assignments)?;
            }
            let wake = until.map_or(self.next_look, |until| until.min(self.next_look));
            let (client, change) = self.wait(interrupt, wake);
            if interrupt.is_raised() {
                continue;
            }
            if let (true, Some(follower)) = (change, &mut self.follower) {
                follower.update();
                self.gather_until = Instant::now() + BURST;
            }
            if client
                && let Some(call) = self.door.next()
                && self.serve(call)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until a client or a change of the hierarchy of cgroups is there, and tells
    /// which of them; or until a signal comes, or that time.
    fn wait(&self, interrupt: &Interrupt, until: Instant) -> (bool, bool) {
        let gathers = Instant::now() < self.gather_until;
        let until = if gathers { until.min(self.gather_until) } else { until };
        let change = self.follower.as_ref().and_then(Follower::fd).filter(|_| !gathers);
        let fds = [Some(self.door.as_fd()), Some(interrupt.as_fd()), change];
        let mut ready: Vec<PollFd> =
            fds.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A millisecond more, so that it has come when this returns.
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        // Interrupted by a signal counts as nobody there.
        if poll(&mut ready, left.min(LOOK).as_millis() as u16).unwrap_or(0) == 0 {
            return (false, false);
        }
        let is_there = |at: usize| ready.get(at).is_some_and(|fd| fd.any().unwrap_or(false));
        (is_there(0), is_there(2))
    }

    /// Looks at what nobody tells of. What goes wrong is told once, and tried again at the next
    /// look: nobody waits for it, and the scheduler is in force all the same.
    ///
    /// # Errors
    /// `SchedulerExit` if the program has left the kernel.
    fn look(&mut self) -> Result<()> {
        let told = self.tell_quarantines();
        let forgotten = self.forget_what_vanished();
        if let Some(follower) = &mut self.follower {
            follower.look();
        }
        let failed = match told.and(forgotten) {
            Err(error) if error.kind == Kind::SchedulerExit => return Err(error),
            done => done.err().map(|error| error.to_string()),
        };
        if let Some(text) = failed.as_ref().filter(|_| failed != self.look_failed) {
            say(self.switcher.root(), text);
        }
        self.look_failed = failed;
        Ok(())
    }

    fn forget_what_vanished(&mut self) -> Result<()> {
        match self.switcher.program() {
            Some(program) => self.assignments.forget_what_vanished(program),
            None => {
                self.assignments.remove_what_is_empty();
                Ok(())
            }
        }
    }

    /// Says which lanes have come into quarantine, once; their cgroups are on the default
    /// lane by then.
    fn tell_quarantines(&mut self) -> Result<()> {
        let Some(program) = self.switcher.program() else { return Ok(()) };
        let new = program.new_quarantines();
        if new.is_empty() {
            return Ok(());
        }
        self.assignments.note_quarantines(program, &new)?;
        for quarantine in &new {
            let app = self.assignments.apps().find(|app| app.number == quarantine.app);
            say(self.switcher.root(), &describe(quarantine, app));
        }
        Ok(())
    }

    /// Serves one client; true when it was told to stop.
    fn serve(&mut self, call: Call) -> bool {
        let order = serde_json::from_str::<Order>(&call.line);
        let _at_work = order.as_ref().ok().map(|o| self.door.at_work(&o.describe(), o.bound()));
        if let (Some(follower), false) = (&mut self.follower, matches!(order, Ok(Order::Status))) {
            follower.reconsider();
        }
        let (answer, stop) = match order {
            Err(e) => (
                Err(Error::new(Kind::BadInput, "read an order", e)
                    .remedy("use the metasched of the same version as the keeper")),
                false,
            ),
            Ok(Order::Status) => {
                (self.status().map(|status| Answer::Status(Box::new(status))), false)
            }
            Ok(Order::Switch { candidate, mechanism }) => {
                (self.switch(&candidate, mechanism), false)
            }
            Ok(Order::Assign { cgroup, lane, brief }) => {
                let Self { switcher, assignments, .. } = self;
                let said = ours(switcher).and_then(|p| assignments.assign(p, &cgroup, &lane));
                if let (true, Ok(assigned)) = (brief, &said) {
                    assignments.remove_when_empty(&assigned.cgroup);
                }
                (said.map(Answer::Assigned), false)
            }
            Ok(Order::Unassign { cgroup }) => {
                let Self { switcher, assignments, .. } = self;
                let said = ours(switcher).and_then(|p| assignments.unassign(p, &cgroup));
                (said.map(Answer::Unassigned), false)
            }
            Ok(Order::Adjust { cgroup, weight, options }) => {
                let Self { switcher, assignments, .. } = self;
                let said =
                    ours(switcher).and_then(|p| assignments.adjust(p, &cgroup, weight, &options));
                (said.map(Answer::Assigned), false)
            }
            Ok(Order::Stop) => {
                let back = self.switcher.earlier().map(str::to_owned);
                (self.switcher.restore().map(|()| Answer::Stopped { back }), true)
            }
        };
        call.answer(&answer.unwrap_or_else(|error| Answer::Failed(error.into())));
        stop
    }

    fn switch(&mut self, candidate: &Candidate, by: Option<Mechanism>) -> Result<Answer> {
        let unloads = candidate.kind != CandidateKind::Policy || by == Some(Mechanism::Swap);
        if unloads && !self.assignments.is_empty() {
            return Err(Error::new(
                Kind::Busy,
                format!("switch to '{}'", candidate.name),
                format!(
                    "{} cgroups are on lanes of our program, which this would take out",
                    self.assignments.apps().map(|app| app.cgroups.len()).sum::<usize>()
                ),
            )
            .remedy("take them off first: metasched lane unassign --all"));
        }
        let record = match by {
            Some(mechanism) => self.switcher.switch_by(candidate, mechanism)?,
            None => self.switcher.switch_to(candidate)?,
        };
        if record.is_change() {
            self.since_unix_s = unix_now_s();
        }
        Ok(Answer::Switched(record))
    }

    /// What is held.
    ///
    /// # Errors
    /// If the kernel does not tell of our program.
    pub fn status(&mut self) -> Result<KeeperStatus> {
        let (lanes, quarantines, limits, policies) = match self.switcher.program() {
            Some(program) => {
                (program.lanes()?, program.quarantines(), program.limits(), program.policies())
            }
            None => Default::default(),
        };
        let has_lane = |name: &str| {
            let mut by_rule = self.assignments.apps().filter(|app| app.why != Why::Hand);
            by_rule.any(|app| app.name == name)
        };
        let given = self.follower.as_ref().map_or(&[][..], Follower::apps);
        Ok(KeeperStatus {
            pid: std::process::id(),
            scheduler: self.switcher.candidate().clone(),
            since_unix_s: self.since_unix_s,
            earlier: self.switcher.earlier().map(str::to_owned),
            lanes,
            apps: self.assignments.apps().cloned().collect(),
            without_lane: given.iter().filter(|app| !has_lane(&app.name)).cloned().collect(),
            quarantines,
            limits,
            policies,
        })
    }
}

/// Our program, if it is what is in force.
fn ours(switcher: &mut Switcher) -> Result<&mut dyn LaneProgram> {
    let current = switcher.current().to_owned();
    switcher.program().ok_or_else(|| {
        Error::new(
            Kind::BadInput,
            "change lanes",
            format!("'{current}' is in force, and lanes are in our own program"),
        )
        .remedy("put a policy of ours in force first: metasched switch vtime")
    })
}

#[cfg(test)]
mod tests;
