//! What every contender is given alike: the scenario, the machine, the time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration, parse_duration};
use metasched_experiment::Objective;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_sim::Machine;

use crate::commands::lane::Setting;

/// The modelled machine, where it is not to be the scenario's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MachineArgs {
    /// The machine of this file, as 'metasched sim calibrate --out' writes it, instead of the
    /// scenario's; what else is given of it counts more
    #[arg(long, value_name = "FILE.toml")]
    pub machine: Option<PathBuf>,
    /// How many CPUs the machine has, instead of what the scenario says
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,
    /// How many last-level caches they share
    #[arg(long, value_name = "N")]
    pub llcs: Option<usize>,
    /// How many NUMA nodes they belong to
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Whether two CPUs make a core
    #[arg(long, value_name = "YES", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub smt: Option<bool>,
}

/// What is simulated, on what, for how long; shared with `plan` and `tune`.
#[derive(Clone, Debug, clap::Args)]
pub struct BedArgs {
    /// The scenario
    // Absent only where a subcommand stands in its place.
    #[arg(value_name = "SCENARIO.toml", required = true)]
    pub scenario: Option<PathBuf>,
    /// An option of the policy, or of each: slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub settings: Vec<Setting>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// How long a run lasts, in simulated time, instead of what the scenario says
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// How much of that is not counted
    #[arg(long = "warmup", value_name = "TIME", value_parser = parse_duration)]
    pub warm_up: Option<Duration>,
    /// The seed from which all chance follows, instead of what the scenario says. Further
    /// runs take the numbers after it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl BedArgs {
    /// Where the scenario is.
    pub fn path(&self) -> &Path {
        self.scenario.as_deref().expect("clap asks for it")
    }

    /// The seed of the first run.
    pub fn first_seed(&self, bed: &Bed) -> u64 {
        self.seed.or(bed.file.seed).unwrap_or(1)
    }

    /// Reads the scenario; what is given here counts more than what it says.
    ///
    /// # Errors
    /// When it cannot be read, or nothing would be left of it.
    pub fn bed(&self) -> Result<Bed> {
        Bed::new(self.path(), &self.machine, self.duration, self.warm_up)
    }
}

/// The test bed.
pub struct Bed {
    pub file: ScenarioFile,
    pub spec: MachineSpec,
    pub machine: Machine,
    pub duration_ns: u64,
    pub warm_up_ns: u64,
}

impl Bed {
    fn new(
        path: &Path,
        machine: &MachineArgs,
        duration: Option<Duration>,
        warm_up: Option<Duration>,
    ) -> Result<Self> {
        let mut file = ScenarioFile::load(path)?;
        let told = match &machine.machine {
            Some(path) => MachineSpec::load(path)?,
            None => file.machine.clone(),
        };
        let spec = MachineSpec {
            cpus: machine.cpus.unwrap_or(told.cpus),
            llcs: machine.llcs.unwrap_or(told.llcs),
            nodes: machine.nodes.unwrap_or(told.nodes),
            smt: machine.smt.unwrap_or(told.smt),
            ..told
        };
        let machine = spec.machine()?;
        let duration_ns = duration.map_or(file.duration_ns, ns);
        let warm_up_ns = warm_up.map_or(file.warm_up_ns, ns);
        if warm_up_ns >= duration_ns {
            let brief = |ns| format_duration(Duration::from_nanos(ns));
            return Err(Error::new(
                Kind::BadInput,
                format!("simulate '{}'", file.name),
                format!("it runs for {}, all of it warm-up", brief(duration_ns)),
            )
            .remedy(format!("give a --duration of more than {}", brief(warm_up_ns))));
        }
        (file.duration_ns, file.warm_up_ns) = (duration_ns, warm_up_ns);
        Ok(Bed { file, spec, machine, duration_ns, warm_up_ns })
    }

    /// What a cgroup is for, if the scenario says so.
    pub fn objective(&self, cgroup: &str) -> Option<Objective> {
        self.file.objectives.get(cgroup).copied()
    }

    /// The machine in words.
    pub fn machine_text(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let MachineSpec { cpus, llcs, nodes, smt, .. } = self.spec;
        let smt = if smt { ", SMT" } else { "" };
        format!("{}, {}, {}{smt}", count(cpus, "CPU"), count(llcs, "LLC"), count(nodes, "node"))
    }
}

/// A duration in ns; what is longer than a u64 holds is as long as that.
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
