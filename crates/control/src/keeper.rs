//! The keeper: a process in the background that holds a scheduler, and takes orders
//! through a socket.
//!
//! One line of JSON asks, one line answers, then the connection ends. Orders are
//! served one after the other, as there is one state machine.

mod client;
mod door;
mod messages;
mod name;
mod stop;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::Prompt;
use metasched_loader::LaneSpec;
use nix::poll::{PollFd, PollFlags, poll};

use crate::assignments::Assignments;
use crate::candidate::{Candidate, CandidateKind};
use crate::exit::unix_now_s;
use crate::follower::Follower;
use crate::program::LaneProgram;
use crate::quarantine::{describe, say};
use crate::rules::{RuleApp, Why};
use crate::switch::Mechanism;
use crate::switcher::Switcher;
use door::{Call, Door};
use messages::{LONG_WORK, SHORT_WORK, SOCKET};

pub use client::ask;
pub use messages::{Answer, Failure, KeeperStatus, Order};
pub use name::scheduler_name;
pub use stop::stop;

/// How often the keeper looks whether its scheduler is still there.
const LOOK: Duration = Duration::from_secs(1);

/// After a change of the hierarchy of cgroups, what follows within this time is taken in
/// together: who makes cgroups without end must not keep a CPU busy here.
const BURST: Duration = Duration::from_millis(10);

/// What the keeper is at when cgroups came or went that rules may match.
const FOLLOWING: &str = "put on lanes what the rules match";

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
            Ok(Order::Flag { cgroup, options }) => {
                let Self { switcher, assignments, follower, .. } = self;
                let app = follower.as_ref().map(Follower::latency_aware).cloned();
                let app = app.unwrap_or_else(RuleApp::latency_aware_by_default);
                let said =
                    ours(switcher).and_then(|p| assignments.flag(p, &cgroup, &app, &options));
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
            exempt: self.assignments.exempt().clone(),
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
