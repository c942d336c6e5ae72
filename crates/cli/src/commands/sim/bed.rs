//! The options that say what is simulated, on what, for how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_loader::Setting;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_simbed::Setup;

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

    /// Refuses what only a modelled machine can have, where this one is meant.
    ///
    /// # Errors
    /// `Usage`, if a machine was asked for, or options of policies.
    pub fn refuse_a_machine(&self) -> Result<()> {
        let MachineArgs { machine, cpus, llcs, nodes, smt } = &self.machine;
        let modelled = machine.is_some() || smt.is_some();
        if !modelled && [cpus, llcs, nodes].iter().all(|n| n.is_none()) && self.settings.is_empty()
        {
            return Ok(());
        }
        let cause = "real threads have this machine, and policies their defaults";
        Err(Error::new(Kind::Usage, "replay on another machine", cause)
            .remedy("leave --machine, --cpus, --llcs, --nodes, --smt and --set out, or --replay"))
    }

    /// Reads the scenario; what is given here counts more than what it says.
    ///
    /// # Errors
    /// When it cannot be read, or nothing would be left of it.
    pub fn setup(&self) -> Result<Setup> {
        let mut file = ScenarioFile::load(self.path())?;
        let machine = &self.machine;
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
        file.duration_ns = self.duration.map_or(file.duration_ns, ns);
        file.warm_up_ns = self.warm_up.map_or(file.warm_up_ns, ns);
        Setup::new(file, spec, self.settings.clone(), self.seed)
    }
}

/// A duration in ns; what is longer than a u64 holds is as long as that.
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
