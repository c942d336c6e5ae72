//! What every contender is given alike: the scenario, the machine, the time.

use std::path::Path;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration};
use metasched_sim::Machine;
use metasched_sim::file::{MachineSpec, ScenarioFile};

/// The modelled machine, where it is not to be the scenario's.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MachineArgs {
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
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "true")]
    pub smt: Option<bool>,
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
    /// Reads the scenario; what is given here counts more than what it says.
    pub fn new(
        path: &Path,
        machine: &MachineArgs,
        duration: Option<Duration>,
        warm_up: Option<Duration>,
    ) -> Result<Self> {
        let file = ScenarioFile::load(path)?;
        let spec = MachineSpec {
            cpus: machine.cpus.unwrap_or(file.machine.cpus),
            llcs: machine.llcs.unwrap_or(file.machine.llcs),
            nodes: machine.nodes.unwrap_or(file.machine.nodes),
            smt: machine.smt.unwrap_or(file.machine.smt),
        };
        let machine = Machine::new(spec.cpus, spec.llcs, spec.nodes, spec.smt)?;
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
        Ok(Bed { file, spec, machine, duration_ns, warm_up_ns })
    }

    /// The machine in words.
    pub fn machine_text(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let MachineSpec { cpus, llcs, nodes, smt } = self.spec;
        let smt = if smt { ", SMT" } else { "" };
        format!("{}, {}, {}{smt}", count(cpus, "CPU"), count(llcs, "LLC"), count(nodes, "node"))
    }
}

/// A duration in ns; what is longer than a u64 holds is as long as that.
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
