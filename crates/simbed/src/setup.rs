//! What every contender is given alike: the scenario, the machine, options, seeds.

use std::time::Duration;

use metasched_abi::Setting;
use metasched_base::{Error, Kind, Result, format_duration};
use metasched_experiment::Objective;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_sim::Machine;

/// What every contender is given alike.
pub struct Setup {
    /// The scenario, with how long it is simulated.
    pub file: ScenarioFile,
    /// What the machine is to be.
    pub spec: MachineSpec,
    /// The machine itself.
    pub machine: Machine,
    /// Options of each policy.
    pub settings: Vec<Setting>,
    /// The seed of the first run; those after it have the numbers after it.
    pub first_seed: u64,
}

impl Setup {
    /// A scenario on a machine. Without `seed` it is the scenario's, and 1 if that has none.
    ///
    /// # Errors
    /// `BadInput` where there can be no such machine, or nothing is left after the warm-up.
    pub fn new(
        file: ScenarioFile,
        spec: MachineSpec,
        settings: Vec<Setting>,
        seed: Option<u64>,
    ) -> Result<Self> {
        let machine = spec.machine()?;
        let ScenarioFile { duration_ns, warm_up_ns, .. } = file;
        if warm_up_ns >= duration_ns {
            let brief = |ns| format_duration(Duration::from_nanos(ns));
            return Err(Error::new(
                Kind::BadInput,
                format!("simulate '{}'", file.name),
                format!("it runs for {}, all of it warm-up", brief(duration_ns)),
            )
            .remedy(format!("give a --duration of more than {}", brief(warm_up_ns))));
        }
        let first_seed = seed.or(file.seed).unwrap_or(1);
        Ok(Setup { file, spec, machine, settings, first_seed })
    }

    /// The same with a part of the functions, by their places.
    pub fn with_functions(&self, places: &[usize]) -> Setup {
        Setup {
            file: self.file.with_functions(places),
            spec: self.spec.clone(),
            machine: self.machine.clone(),
            settings: self.settings.clone(),
            first_seed: self.first_seed,
        }
    }

    /// How much of a run counts.
    pub fn measurement(&self) -> Duration {
        Duration::from_nanos(self.file.duration_ns - self.file.warm_up_ns)
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
