//! The published program, what it shares its host with, and what a run of it comes to.

use std::fmt::Write as _;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_sim::teams::TeamFigures;
use metasched_sim::{Outcome, Scenario};
use metasched_simbed::{Arrangement, Setup, failed};

/// How often the threads of NPB's UA, class B, meet at a barrier.
pub const BARRIERS: f64 = 38_768.0;
/// Barriers of a parallel region; not published.
const REGION: u64 = 8;
/// What 36 threads compute together from one barrier to the next, and how unequal their parts are:
/// on an idle host the program takes as long as it was published to.
const WORK_US: f64 = 7317.0;
const IMBALANCE: f64 = 0.1;
/// So many threads it has, one for each virtual CPU.
pub const THREADS: u64 = 36;
/// The periodic overload: so many tasks, on half of the CPUs where they are pinned. They compute
/// together for half of each 500 ms, and sleep together for the other half.
const OVERLOAD: u64 = 18;
const BUSY_MS: u64 = 250;
/// The measured machines have so many CPUs, and a thread for each, which computes as long as one of the published program.
pub const MEASURED_CPUS: u64 = 2;
/// No run is expected to take so long; one that does has failed.
const LONGEST_S: u64 = 600;

/// What the program does while it waits, and whether its number of threads follows what the host
/// tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Spinning,
    Blocking,
    /// It spins.
    Adapting,
    AdaptingBlocking,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Spinning, Way::Blocking, Way::Adapting, Way::AdaptingBlocking];

    /// In tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Spinning => "spinning",
            Way::Blocking => "blocking",
            Way::Adapting => "adapting",
            Way::AdaptingBlocking => "adapting_blocking",
        }
    }

    /// In tables.
    pub fn title(self) -> &'static str {
        match self {
            Way::Spinning => "spinning",
            Way::Blocking => "blocking",
            Way::Adapting => "adapting, spinning",
            Way::AdaptingBlocking => "adapting, blocking",
        }
    }

    /// Whether its number of threads follows the host.
    pub fn adapts(self) -> bool {
        matches!(self, Way::Adapting | Way::AdaptingBlocking)
    }

    /// One that waits the same way, with all of its threads.
    pub fn with_all_threads(self) -> Way {
        match self {
            Way::Spinning | Way::Adapting => Way::Spinning,
            Way::Blocking | Way::AdaptingBlocking => Way::Blocking,
        }
    }

    /// What it does at barriers, as `OMP_WAIT_POLICY` says it.
    pub fn policy(self) -> &'static str {
        match self.with_all_threads() {
            Way::Spinning => "active",
            _ => "passive",
        }
    }

    fn keys(self) -> &'static str {
        match self {
            Way::Spinning => "wait = \"spin\"",
            Way::Blocking => "wait = \"block\"",
            Way::Adapting => "wait = \"spin\"\nadapt = true",
            Way::AdaptingBlocking => "wait = \"block\"\nadapt = true",
        }
    }
}

/// What else the host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    Idle,
    /// So many tasks that compute together for so long of each 500 ms, and sleep together.
    Together {
        hogs: u64,
        busy_ms: u64,
    },
    /// [`Load::PERIODIC`] on the first half of the CPUs.
    Pinned,
    /// So many tasks that never sleep.
    Hogs(u64),
    /// What is measured: a host of as many CPUs, and so many tasks that compute together for half of each 500 ms, in a cgroup
    /// beside the program's.
    Measured(u64),
}

impl Load {
    /// The overload that stands for the published one.
    pub const PERIODIC: Load = Load::Together { hogs: OVERLOAD, busy_ms: BUSY_MS };

    /// In tables and in JSON.
    pub fn name(self) -> String {
        match self {
            Load::Idle => "idle".to_owned(),
            Load::PERIODIC => "overloaded".to_owned(),
            Load::Together { hogs, busy_ms } => format!("{hogs} hogs {busy_ms} ms"),
            Load::Pinned => "overloaded_pinned".to_owned(),
            Load::Hogs(count) => format!("{count} hogs"),
            Load::Measured(count) => format!("as_measured, {count} hogs"),
        }
    }

    /// How many CPUs the host has, and threads the program.
    fn cpus(self) -> u64 {
        if matches!(self, Load::Measured(_)) { MEASURED_CPUS } else { THREADS }
    }

    pub fn tasks(self) -> String {
        let together = |busy_ms| format!("steps = [\"busy {busy_ms}ms\", \"every 500ms\"]");
        let task =
            |count: u64, rest: &str| format!("[[task]]\nname = \"hog\"\ncount = {count}\n{rest}\n");
        match self {
            Load::Idle | Load::Hogs(0) | Load::Measured(0) => String::new(),
            Load::Together { hogs, busy_ms } => task(hogs, &together(busy_ms)),
            Load::Pinned => task(OVERLOAD, &format!("affinity = \"0-17\"\n{}", together(BUSY_MS))),
            Load::Hogs(count) => task(count, "steps = [\"run 1s\"]"),
            Load::Measured(count) => {
                task(count, &format!("cgroup = \"beside\"\n{}", together(BUSY_MS)))
            }
        }
    }
}

/// A team of the published program's kind, which computes as long as `of` threads of it; without `regions` it goes on for ever.
pub fn team(
    name: &str,
    (threads, of): (u64, u64),
    way: Way,
    regions: Option<u64>,
    more: &str,
) -> String {
    let work_us = WORK_US * of as f64 / THREADS as f64;
    let mut text = format!(
        "[[team]]\nname = \"{name}\"\nthreads = {threads}\nbarriers = {REGION}\n\
         work = \"{work_us}us\"\nimbalance = {IMBALANCE}\n{}\n{more}\n",
        way.keys()
    );
    if let Some(regions) = regions {
        let _ = writeln!(text, "regions = {regions}");
    }
    text
}

/// One run of the program.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How long a run of the full length would take, s.
    pub seconds: f64,
    /// How many of its virtual CPUs waited for a CPU in the mean.
    pub phantoms: f64,
    /// What became of it.
    pub figures: TeamFigures,
}

/// Runs a part of the program.
///
/// # Errors
/// When a checker finds something, or the program does not end.
pub fn run(
    spec: &MachineSpec,
    scheduler: &str,
    (way, load): (Way, Load),
    seed: u64,
    part: f64,
) -> Result<Ran> {
    let cpus = load.cpus();
    let (spec, part, more) = match load {
        // Few CPUs are simulated fast, and the whole program meets more of the overload's periods.
        Load::Measured(_) => {
            let spec = MachineSpec { cpus: cpus as usize, smt: false, ..spec.clone() };
            (spec, 1.0, "cgroup = \"container\"")
        }
        _ => (spec.clone(), part, ""),
    };
    let regions = (BARRIERS * part / REGION as f64).round().max(1.0) as u64;
    let text = format!("duration = \"{LONGEST_S}s\"\n")
        + &team("ua", (cpus, cpus), way, Some(regions), more)
        + &load.tasks();
    let named = format!("{}-{}", way.name(), load.name());
    let outcome = simulate(&spec, scheduler, (&named, &text), seed, Scenario::until_teams_end)?;
    let figures = outcome.team("ua").clone();
    let ran_ns = figures.ran_ns().ok_or_else(|| {
        let cause = format!("it does not end within {LONGEST_S} s");
        Error::new(Kind::Simulation, format!("simulate {named} under {scheduler}"), cause)
            .remedy("take a smaller part of the program: --share 0.1")
    })?;
    let of_team = outcome.all().zip(outcome.belongings()).filter(|(_, (group, _))| *group == "ua");
    let waited_ns: u64 = of_team.map(|((_, figures), _)| figures.waited_ns).sum();
    Ok(Ran {
        seconds: ran_ns as f64 / 1e9 / part,
        phantoms: waited_ns as f64 / ran_ns as f64,
        figures,
    })
}

/// Runs a scenario, which has a name and a text, under a scheduler; `with` may add to it.
///
/// # Errors
/// When the scenario is wrong, or a checker finds something.
pub fn simulate(
    spec: &MachineSpec,
    scheduler: &str,
    (named, text): (&str, &str),
    seed: u64,
    with: impl FnOnce(Scenario) -> Scenario,
) -> Result<Outcome> {
    let file = ScenarioFile::parse(Path::new(&format!("{named}.toml")), text)?;
    let setup = Setup::new(file, spec.clone(), Vec::new(), Some(seed))?;
    let arrangement = Arrangement::policy(scheduler, &[])?;
    let outcome = with(arrangement.scenario(&setup, seed)).run();
    let again = format!("bench-paravirt --only {scheduler}");
    outcome.map_err(|failure| failed(named, scheduler, seed, &failure, &again))
}
