//! A machine, a program, tasks, and what happens to them: one run.

use crate::checkers::{
    AffinityKept, CallbacksInOrder, DeadLanesEmpty, LaneShares, LanesDrained, LanesServed,
    NoTaskLost, OneCpuPerTask, OneLanePerTask, PARKED, Quarantined, QuotaKept, Shares,
    SharesNearWeights, WaitingBounded, WorkConserved,
};
use crate::image::Image;
use crate::kernel::{Act, Kernel};
use crate::task::{TaskFigures, TaskSpec};
use std::fmt;
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
    image: &'static [u8],
    ops: String,
    setup: Setup,
    cpus: usize,
    seed: u64,
    tasks: Vec<TaskSpec>,
    acts: Vec<(u64, Act)>,
    /// The same, by how many events were handled before.
    between: Vec<(u64, Act)>,
    begin: Option<Act>,
    level1: bool,
    wait_bound_ns: u64,
    shares: Option<Shares>,
    lane_shares: Option<f64>,
    idle_window_ns: u64,
    whole_trace: bool,
    duration_ns: u64,
    replay: Option<String>,
}

impl Scenario {
    /// A run of the table of callbacks `ops` in an image, on one CPU, for 1 s.
    pub fn of(name: impl Into<String>, image: &'static [u8], ops: impl Into<String>) -> Self {
        Scenario {
            name: name.into(),
            image,
            ops: ops.into(),
            setup: Arc::new(|_| Ok(())),
            cpus: 1,
            seed: seed_of_environment().unwrap_or(1),
            tasks: Vec::new(),
            acts: Vec::new(),
            between: Vec::new(),
            begin: None,
            level1: false,
            wait_bound_ns: WAIT_BOUND_NS,
            shares: None,
            lane_shares: None,
            idle_window_ns: IDLE_WINDOW_NS,
            whole_trace: false,
            duration_ns: 1_000_000_000,
            replay: None,
        }
    }

    /// How the program's constants are written before it starts.
    pub fn setup(mut self, setup: Setup) -> Self {
        self.setup = setup;
        self
    }

    /// How many CPUs the machine has.
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus;
        self
    }

    /// From which everything that is left to chance follows.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds a task.
    pub fn task(mut self, task: TaskSpec) -> Self {
        self.tasks.push(task);
        self
    }

    /// Adds `n` tasks.
    pub fn tasks(mut self, n: usize, task: impl Fn(usize) -> TaskSpec) -> Self {
        self.tasks.extend((0..n).map(task));
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

    /// The program is level 1: its invariants are checked, and `begin` is done first.
    pub(crate) fn of_level1(mut self, begin: impl Fn(&mut Kernel) + 'static) -> Self {
        self.level1 = true;
        self.begin = Some(Arc::new(begin));
        self
    }

    /// No task may wait longer.
    pub fn waits_at_most(mut self, ns: u64) -> Self {
        self.wait_bound_ns = ns;
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

    /// How long it runs, ns.
    pub fn run_for(mut self, ns: u64) -> Self {
        self.duration_ns = ns;
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the program cannot be loaded, breaks a rule of the kernel's, or a
    /// checker finds something.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let started = Instant::now();
        let mut kernel = Kernel::boot(
            self.image,
            &self.ops,
            self.cpus,
            self.seed,
            self.whole_trace,
            &*self.setup,
        )
        .map_err(|e| self.failure("load", &e.to_string(), 0, Vec::new()))?;
        self.add_checkers(&mut kernel);
        if let Some(begin) = &self.begin {
            begin(&mut kernel);
        }
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
        let tasks =
            kernel.tasks.iter().map(|task| (task.name.clone(), task.figures)).collect::<Vec<_>>();
        let waits_ns = kernel.tasks.iter_mut().map(|t| std::mem::take(&mut t.waits_ns)).collect();
        let (fault, now, events) = (kernel.fault().cloned(), kernel.now(), kernel.handled);
        let switches = kernel.cpus.iter().map(|cpu| cpu.switches).sum();
        let (recent, trace) = kernel.into_trace();
        match fault {
            Some(fault) => {
                let mut failure = self.failure(&fault.check, &fault.message, fault.at, recent);
                failure.seen.trace = trace;
                Err(failure)
            }
            None => {
                Ok(Outcome { tasks, waits_ns, trace, simulated_ns: now, events, switches, wall })
            }
        }
    }

    fn add_checkers(&self, kernel: &mut Kernel) {
        kernel.check(Box::<NoTaskLost>::default());
        kernel.check(Box::<OneCpuPerTask>::default());
        kernel.check(Box::<AffinityKept>::default());
        kernel.check(Box::<CallbacksInOrder>::default());
        kernel.check(Box::new(WaitingBounded::new(self.wait_bound_ns)));
        let work_conserved = WorkConserved::new(self.idle_window_ns);
        kernel.check(Box::new(match self.level1 {
            true => work_conserved.except_in(PARKED),
            false => work_conserved,
        }));
        if self.level1 {
            kernel.check(Box::<OneLanePerTask>::default());
            kernel.check(Box::<DeadLanesEmpty>::default());
            kernel.check(Box::<LanesDrained>::default());
            kernel.check(Box::<LanesServed>::default());
            kernel.check(Box::<Quarantined>::default());
            kernel.check(Box::<QuotaKept>::default());
        }
        if let Some(tolerance) = self.lane_shares {
            kernel.check(Box::new(LaneShares::new(self.cpus, tolerance)));
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
            cpus: self.cpus,
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
    cpus: usize,
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
    /// The text of the whole run, where it was asked for.
    pub fn trace(&self) -> &str {
        &self.seen.trace
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { check, message, at, scenario, seed, cpus, .. } = self;
        writeln!(f, "{check}: {message}")?;
        writeln!(f, "scenario '{scenario}', seed {seed}, {cpus} CPUs, at {at} ns; before that:")?;
        for line in &self.seen.recent {
            writeln!(f, "  {line}")?;
        }
        if let Some(command) = &self.seen.replay {
            return write!(f, "replay: {command}");
        }
        let thread = std::thread::current();
        let test = thread.name().filter(|name| *name != "main").unwrap_or("");
        write!(f, "replay: {SEED_VARIABLE}={seed} cargo test --release -p metasched-sim -- {test}")
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a run gave.
pub struct Outcome {
    tasks: Vec<(String, TaskFigures)>,
    /// Beside those.
    waits_ns: Vec<Vec<u64>>,
    /// Every event as text, where it was asked for.
    pub trace: String,
    /// Simulated time, ns.
    pub simulated_ns: u64,
    /// How many events the engine handled.
    pub events: u64,
    /// How many context switches there were.
    pub switches: u64,
    /// Wall time of it all, loading included.
    pub wall: Duration,
}

impl Outcome {
    /// The figures of the task of that name; the first, where several bear it.
    ///
    /// # Panics
    /// When there is none.
    pub fn task(&self, name: &str) -> TaskFigures {
        let found = self.tasks.iter().find(|(n, _)| n == name);
        found.unwrap_or_else(|| panic!("no task is called '{name}'")).1
    }

    /// The figures of all tasks, in the order of their birth.
    pub fn all(&self) -> impl Iterator<Item = (&str, TaskFigures)> {
        self.tasks.iter().map(|(name, figures)| (name.as_str(), *figures))
    }

    /// How long the tasks waited whose names begin so: each time, in ascending order.
    pub fn waits_ns(&self, name: &str) -> Vec<u64> {
        let all = self.tasks.iter().zip(&self.waits_ns);
        let of = all.filter(|((task, _), _)| task.starts_with(name));
        let mut waits: Vec<u64> = of.flat_map(|(_, waits)| waits).copied().collect();
        waits.sort_unstable();
        waits
    }

    /// The names of the tasks in the order in which they first ran.
    pub fn first_runs(&self) -> Vec<&str> {
        let mut ran: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|(name, figures)| Some((figures.first_run_ns?, name.as_str())))
            .collect();
        ran.sort();
        ran.into_iter().map(|(_, name)| name).collect()
    }

    /// Simulated time over wall time.
    pub fn speed(&self) -> f64 {
        self.simulated_ns as f64 / self.wall.as_nanos().max(1) as f64
    }
}
