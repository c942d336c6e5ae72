//! A machine, a program, tasks, and what happens to them: one run.

use crate::checkers::{
    AffinityKept, CallbacksInOrder, NoTaskLost, OneCpuPerTask, QuotaKept, Shares,
    SharesNearWeights, WaitingBounded, WorkConserved, of_level1,
};
use crate::image::Image;
use crate::kernel::{Act, Kernel};
use crate::load::{Program, ProgramExit};
use crate::machine::Machine;
use crate::observer::{Observer, Shared};
use crate::paravirt::Paravirt;
use crate::span::Span;
use crate::task::{Task, TaskFigures, TaskSpec};
use crate::teams::TeamFigures;
use crate::world::World;
use metasched_scenario::requests::Arrivals;
use metasched_scenario::shared::{BarrierSpec, DeviceSpec, SharedSpec};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The seed of a run, or of a sweep's only run, is taken from here where it is set.
pub const SEED_VARIABLE: &str = "METASCHED_SIM_SEED";

/// Waiting is bounded by this unless the scenario says otherwise: some hundred
/// slices, beyond what any scenario here can need.
const WAIT_BOUND_NS: u64 = 2_000_000_000;

/// A CPU may be idle so long beside a waiting task that it could run: an interrupt
/// on its way takes microseconds, and a slice that ends is seen at the next tick.
const IDLE_WINDOW_NS: u64 = 10_000_000;

/// Writes a program's constants before it starts.
pub type Setup = Arc<dyn Fn(&Image) -> metasched_base::Result<()>>;

/// One run, described.
#[derive(Clone)]
pub struct Scenario {
    name: String,
    program: Option<Program>,
    machine: Machine,
    seed: u64,
    tasks: Vec<Arc<TaskSpec>>,
    shared: SharedSpec,
    acts: Vec<(u64, Act)>,
    /// Acts by how many events were handled before.
    between: Vec<(u64, Act)>,
    wait_bound_ns: u64,
    fair_waits_count: bool,
    shares: Option<Shares>,
    lane_shares: Option<f64>,
    idle_window_ns: u64,
    /// For how long a CPU may be idle in the calm, and from when on, where that differs.
    calm_idle_ns: Option<(u64, u64)>,
    whole_trace: bool,
    observers: Vec<Shared>,
    duration_ns: u64,
    ends_with_teams: bool,
    replay: Option<String>,
}

impl Scenario {
    /// A run of the table of callbacks `ops` in an image, on one CPU, for 1 s.
    pub fn of(name: impl Into<String>, image: &'static [u8], ops: impl Into<String>) -> Self {
        Scenario::under(name, Some(Program::of(image, ops)))
    }

    /// A run with no program at all, in the model of the kernel's fair class: see `fair.rs`.
    pub fn eevdf(name: impl Into<String>) -> Self {
        Scenario::under(name, None)
    }

    /// A run under a program that is loaded from the start, or under none.
    pub fn under(name: impl Into<String>, program: Option<Program>) -> Self {
        Scenario {
            name: name.into(),
            program,
            machine: Machine::cpus(1),
            seed: seed_of_environment().unwrap_or(1),
            tasks: Vec::new(),
            shared: SharedSpec::default(),
            acts: Vec::new(),
            between: Vec::new(),
            wait_bound_ns: WAIT_BOUND_NS,
            fair_waits_count: true,
            shares: None,
            lane_shares: None,
            idle_window_ns: IDLE_WINDOW_NS,
            calm_idle_ns: None,
            whole_trace: false,
            observers: Vec::new(),
            duration_ns: 1_000_000_000,
            ends_with_teams: false,
            replay: None,
        }
    }

    /// How the program's constants are written before it starts.
    pub fn setup(mut self, setup: Setup) -> Self {
        if let Some(program) = &mut self.program {
            program.setup = setup;
        }
        self
    }

    /// A machine of so many CPUs that are all alike.
    ///
    /// # Panics
    /// When that is none, or more than are modelled.
    pub fn cpus(self, cpus: usize) -> Self {
        self.machine(Machine::cpus(cpus))
    }

    /// The machine that it runs on.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }

    /// From which everything that is left to chance follows.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds a task.
    pub fn task(mut self, task: TaskSpec) -> Self {
        self.tasks.push(Arc::new(task));
        self
    }

    /// Adds `n` tasks.
    pub fn tasks(mut self, n: usize, task: impl Fn(usize) -> TaskSpec) -> Self {
        self.tasks.extend((0..n).map(task).map(Arc::new));
        self
    }

    /// Adds to what the tasks share.
    pub fn sharing(mut self, spec: &SharedSpec) -> Self {
        self.shared.merge(spec);
        self
    }

    /// Adds a pipe that holds so many messages; at least one.
    pub fn pipe(mut self, name: &str, capacity: usize) -> Self {
        self.shared.pipes.insert(name.into(), capacity.max(1));
        self
    }

    /// Adds a mutex.
    pub fn lock(mut self, name: &str) -> Self {
        self.shared.locks.insert(name.into());
        self
    }

    /// Adds a barrier, see [`BarrierSpec`].
    pub fn barrier(mut self, name: &str, parties: usize, spin_ns: u64) -> Self {
        self.shared.barriers.insert(name.into(), BarrierSpec { parties, spin_ns });
        self
    }

    /// Adds a device that works on `depth` operations at a time, at least one.
    pub fn device(mut self, name: &str, depth: usize, service: Span) -> Self {
        self.shared.devices.insert(name.into(), DeviceSpec { depth: depth.max(1), service });
        self
    }

    /// Adds requests that arrive.
    pub fn arrivals(mut self, name: &str, arrivals: Arrivals) -> Self {
        self.shared.arrivals.insert(name.into(), arrivals);
        self
    }

    /// What happens before that time, ns, counts in no figures, and in checks it does.
    pub fn warm_up(self, ns: u64) -> Self {
        self.at(ns, Kernel::forget_figures)
    }

    /// The cgroups that its tasks are in when they are born; the root's is empty.
    pub fn cgroups(&self) -> BTreeSet<&str> {
        self.tasks.iter().map(|task| task.cgroup.as_str()).collect()
    }

    /// The scenario with the tasks of one cgroup alone.
    pub fn only_in(mut self, cgroup: &str) -> Self {
        self.tasks.retain(|task| task.cgroup == cgroup);
        self
    }

    /// Does something at a given time, ns.
    pub fn at(mut self, ns: u64, act: impl Fn(&mut Kernel) + 'static) -> Self {
        self.acts.push((ns, Arc::new(act)));
        self
    }

    /// Does something right after the `handled`-th event, before anything else can happen.
    pub fn after(mut self, handled: u64, act: impl Fn(&mut Kernel) + 'static) -> Self {
        self.between.push((handled, Arc::new(act)));
        self
    }

    /// No task may wait longer.
    pub fn waits_at_most(mut self, ns: u64) -> Self {
        self.wait_bound_ns = ns;
        self
    }

    /// In the fair class a task may wait for as long as that likes, also beside an idle CPU.
    pub fn waits_but_in_the_fair_class(mut self) -> Self {
        self.fair_waits_count = false;
        self
    }

    /// Tasks that are always busy must get time by their weights.
    pub fn shares(mut self, tolerance: f64) -> Self {
        self.shares = Some(Shares { tolerance });
        self
    }

    /// Lanes that always have work for every CPU must get time by their weights.
    pub fn lane_shares(mut self, tolerance: f64) -> Self {
        self.lane_shares = Some(tolerance);
        self
    }

    /// No CPU may be idle for longer beside a task that it could run.
    pub fn idle_at_most(mut self, ns: u64) -> Self {
        self.idle_window_ns = ns;
        self
    }

    /// No CPU may be idle for longer beside a task that it could run, from so long after the moment
    /// when faults stop, see [`Kernel::calm`].
    pub fn idle_at_most_in_the_calm(mut self, ns: u64, after_ns: u64) -> Self {
        self.calm_idle_ns = Some((ns, after_ns));
        self
    }

    /// The command that runs this again, where it is not the test that runs.
    pub fn replayed_by(mut self, command: impl Into<String>) -> Self {
        self.replay = Some(command.into());
        self
    }

    /// Keeps the text of the whole trace.
    pub fn traced(mut self) -> Self {
        self.whole_trace = true;
        self
    }

    /// Has somebody read what happens, beside the checkers. What he made of it is his who
    /// keeps the other end; a scenario that is run twice is read twice.
    pub fn read_by<O: Observer + 'static>(mut self, observer: &Rc<RefCell<O>>) -> Self {
        self.observers.push(observer.clone());
        self
    }

    /// How long it runs, ns.
    pub fn run_for(mut self, ns: u64) -> Self {
        self.duration_ns = ns;
        self
    }

    /// It ends as soon as all teams have, where that is earlier.
    pub fn until_teams_end(mut self) -> Self {
        self.ends_with_teams = true;
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the program cannot be loaded, breaks a rule of the kernel's, or a
    /// checker finds something.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let started = Instant::now();
        let program = self.program.as_ref();
        let mut kernel = Kernel::boot(&self.machine, program, self.seed, self.whole_trace)
            .map_err(|e| self.failure("load", &e.to_string(), 0, Vec::new()))?;
        for observer in &self.observers {
            kernel.read_by(observer.clone());
        }
        kernel.paravirt = Paravirt::of(&self.shared, &self.machine.all());
        self.add_checkers(&mut kernel);
        if let Some(program) = program {
            (program.started)(&mut kernel);
        }
        kernel.world = World::of(&self.shared, &mut kernel.origins);
        kernel.clock.ends_with_teams = self.ends_with_teams;
        kernel.begin_arrivals();
        for (handled, act) in &self.between {
            kernel.act_after(*handled, act.clone());
        }
        for task in &self.tasks {
            kernel.spawn(task.clone());
        }
        for (ns, act) in &self.acts {
            kernel.act_at(*ns, act.clone());
        }
        kernel.run_until(self.duration_ns);
        kernel.shut_down();
        let wall = started.elapsed();
        let told = kernel.tasks.iter_mut().filter(|task| !task.spec.group.is_empty());
        let tasks = told.map(TaskOutcome::of).collect();
        let unanswered = kernel
            .world
            .queues
            .iter()
            .map(|(name, queue)| (name.to_string(), queue.unanswered()))
            .collect();
        let teams = kernel.world.teams.iter();
        let teams = teams.map(|(name, team)| (name.to_string(), team.figures.clone())).collect();
        let (fault, now, events) = (kernel.fault().cloned(), kernel.now(), kernel.handled());
        let switches = kernel.cpus.iter().map(|cpu| cpu.switches).sum();
        let lost_ns = kernel.cpus.iter().map(|cpu| cpu.costs.lost_ns).sum();
        let exit = kernel.program_exit().cloned();
        let (recent, trace) = kernel.into_trace();
        match fault {
            Some(fault) => {
                let mut failure = self.failure(&fault.check, &fault.message, fault.at, recent);
                failure.seen.trace = trace;
                Err(failure)
            }
            None => {
                let simulated_ns = now;
                Ok(Outcome {
                    tasks,
                    unanswered,
                    teams,
                    trace,
                    simulated_ns,
                    events,
                    switches,
                    lost_ns,
                    exit,
                    wall,
                })
            }
        }
    }

    fn add_checkers(&self, kernel: &mut Kernel) {
        kernel.check(Box::<NoTaskLost>::default());
        kernel.check(Box::<OneCpuPerTask>::default());
        kernel.check(Box::<AffinityKept>::default());
        kernel.check(Box::<CallbacksInOrder>::default());
        let waiting = WaitingBounded::new(self.wait_bound_ns);
        let all = self.fair_waits_count;
        kernel.check(Box::new(if all { waiting } else { waiting.but_in_the_fair_class() }));
        let work_conserved = WorkConserved::new(self.idle_window_ns);
        let work_conserved =
            if all { work_conserved } else { work_conserved.but_in_the_fair_class() };
        kernel.check(Box::new(match self.calm_idle_ns {
            Some((window_ns, after_ns)) => work_conserved.in_the_calm(window_ns, after_ns),
            None => work_conserved,
        }));
        // Where it is loaded later they come with it.
        if self.program.as_ref().is_some_and(|program| program.level1) {
            let (cpus, tick_ns) = (self.machine.nr_cpus(), self.machine.tick_ns());
            for checker in of_level1(cpus, tick_ns, self.lane_shares) {
                kernel.check(checker);
            }
        } else if self.program.is_none() {
            // The fair class keeps quotas too.
            kernel.check(Box::new(QuotaKept::new(self.machine.tick_ns())));
        }
        if let Some(shares) = self.shares {
            kernel.check(Box::new(SharesNearWeights::new(shares)));
        }
        kernel.observe_start();
    }

    pub(crate) fn failure(
        &self,
        check: &str,
        message: &str,
        at: u64,
        recent: Vec<String>,
    ) -> Failure {
        Failure {
            check: check.to_owned(),
            message: message.to_owned(),
            at,
            scenario: self.name.clone(),
            seed: self.seed,
            machine: self.machine.to_string().into(),
            seen: Box::new(Seen { recent, trace: String::new(), replay: self.replay.clone() }),
        }
    }

    /// Runs it, and panics with the failure's whole message.
    pub fn pass(&self) -> Outcome {
        self.run().unwrap_or_else(|failure| panic!("{failure}"))
    }
}

/// The seeds of a sweep: 1 to `n`, or the one of the environment alone.
pub fn seeds(n: u64) -> impl Iterator<Item = u64> {
    let only = seed_of_environment();
    let range = only.map_or(1..=n, |seed| seed..=seed);
    range.into_iter()
}

fn seed_of_environment() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok()?.parse().ok()
}

/// Why a run failed, and how to see it again.
#[derive(Clone)]
pub struct Failure {
    /// The checker or rule.
    pub check: String,
    /// What it found.
    pub message: String,
    /// When, ns since the start.
    pub at: u64,
    scenario: String,
    seed: u64,
    machine: Box<str>,
    seen: Box<Seen>,
}

/// What a failure shows besides.
#[derive(Clone)]
struct Seen {
    recent: Vec<String>,
    trace: String,
    replay: Option<String>,
}

impl Failure {
    /// What happened just before it, oldest first.
    pub fn recent(&self) -> &[String] {
        &self.seen.recent
    }

    /// The text of the whole run, where it was asked for.
    pub fn trace(&self) -> &str {
        &self.seen.trace
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { check, message, at, scenario, seed, machine, .. } = self;
        writeln!(f, "{check}: {message}")?;
        writeln!(f, "scenario '{scenario}', seed {seed}, {machine}, at {at} ns; before that:")?;
        for line in &self.seen.recent {
            writeln!(f, "  {line}")?;
        }
        if let Some(command) = &self.seen.replay {
            return write!(f, "replay: {command}");
        }
        let thread = std::thread::current();
        let test = thread.name().filter(|name| *name != "main").unwrap_or("");
        let packages = "-p metasched-sim -p metasched-sim-tests";
        write!(f, "replay: {SEED_VARIABLE}={seed} cargo test --release {packages} -- {test}")
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What one task came to.
struct TaskOutcome {
    name: String,
    group: String,
    cgroup: String,
    figures: TaskFigures,
    waits_ns: Vec<u64>,
    responses_ns: Vec<u64>,
    done: u64,
}

impl TaskOutcome {
    fn of(task: &mut Task) -> TaskOutcome {
        TaskOutcome {
            name: task.name.clone(),
            group: task.spec.group.clone(),
            cgroup: std::mem::take(&mut task.cgroup),
            figures: task.figures,
            waits_ns: std::mem::take(&mut task.waits_ns),
            responses_ns: std::mem::take(&mut task.doing.responses_ns),
            done: task.doing.done,
        }
    }

    /// Whether it is of that group, in that cgroup, or in one below it.
    fn belongs_to(&self, name: &str) -> bool {
        let below = self
            .cgroup
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') && !name.is_empty());
        self.group == name || below
    }
}

/// What a run gave.
pub struct Outcome {
    tasks: Vec<TaskOutcome>,
    unanswered: Vec<(String, u64)>,
    teams: Vec<(String, TeamFigures)>,
    /// Every event as text, where it was asked for.
    pub trace: String,
    /// Simulated time, ns.
    pub simulated_ns: u64,
    /// How many events the engine handled.
    pub events: u64,
    /// How many context switches there were.
    pub switches: u64,
    /// What the kernel took for itself on all CPUs, ns: see [`crate::Costs`].
    pub lost_ns: u64,
    /// Why the last program left before the end, if one did.
    pub exit: Option<ProgramExit>,
    /// Wall time of it all, loading included.
    pub wall: Duration,
}

impl Outcome {
    /// The figures of the task of that name; the first, where several bear it.
    ///
    /// # Panics
    /// When there is none.
    pub fn task(&self, name: &str) -> TaskFigures {
        let found = self.tasks.iter().find(|task| task.name == name);
        found.unwrap_or_else(|| panic!("no task is called '{name}'")).figures
    }

    /// The figures of all tasks, in the order of their birth.
    pub fn all(&self) -> impl Iterator<Item = (&str, TaskFigures)> {
        self.tasks.iter().map(|task| (task.name.as_str(), task.figures))
    }

    /// How long the tasks waited whose names begin so: each time, in ascending order.
    pub fn waits_ns(&self, name: &str) -> Vec<u64> {
        let of = self.tasks.iter().filter(|task| task.name.starts_with(name));
        let mut waits: Vec<u64> = of.flat_map(|task| &task.waits_ns).copied().collect();
        waits.sort_unstable();
        waits
    }

    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a TaskOutcome> {
        self.tasks.iter().filter(move |task| task.belongs_to(name))
    }

    /// How long requests took, from their arrival to their answer, ns, in ascending order:
    /// those that tasks answered which are of the group of that name, in the cgroup of that
    /// name, or in one below it. A task that was moved counts where it was last.
    pub fn responses_ns(&self, name: &str) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.of(name).flat_map(|task| &task.responses_ns).copied().collect();
        all.sort_unstable();
        all
    }

    /// The cgroup of each task, and how long the requests took that it answered, ns.
    pub fn responses_by_cgroup(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.tasks.iter().map(|task| (task.cgroup.as_str(), task.responses_ns.as_slice()))
    }

    /// How many units of work the same tasks did; a request is one, and `done` steps say more.
    pub fn done(&self, name: &str) -> u64 {
        self.of(name).map(|task| task.done).sum()
    }

    /// What tasks did that were last in exactly that cgroup, each: how long its requests took,
    /// ns, and how many units of work it did.
    pub fn work_in(&self, cgroup: &str) -> impl Iterator<Item = (&[u64], u64)> {
        let of = self.tasks.iter().filter(move |task| task.cgroup == cgroup);
        of.map(|task| (task.responses_ns.as_slice(), task.done))
    }

    /// Group and cgroup of all tasks, beside [`Outcome::all`].
    pub fn belongings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tasks.iter().map(|task| (task.group.as_str(), task.cgroup.as_str()))
    }

    /// Requests that arrived and were not answered by the end of the run, by the name of
    /// their queue: more than a few, and response times tell only half of the story.
    pub fn unanswered(&self) -> impl Iterator<Item = (&str, u64)> {
        self.unanswered.iter().map(|(name, n)| (name.as_str(), *n))
    }

    /// What became of the parallel program of that name.
    ///
    /// # Panics
    /// When there is none.
    pub fn team(&self, name: &str) -> &TeamFigures {
        let found = self.teams.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no team is called '{name}'")).1
    }

    /// The names of the tasks in the order in which they first ran.
    pub fn first_runs(&self) -> Vec<&str> {
        let mut ran: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|task| Some((task.figures.first_run_ns?, task.name.as_str())))
            .collect();
        ran.sort();
        ran.into_iter().map(|(_, name)| name).collect()
    }

    /// Simulated time over wall time.
    pub fn speed(&self) -> f64 {
        self.simulated_ns as f64 / self.wall.as_nanos().max(1) as f64
    }
}
