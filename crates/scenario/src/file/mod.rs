//! Scenario files: what runs, on what, and what happens meanwhile. `docs/simulator.md` says
//! how they are written. A file whose name ends in `.json` is rt-app's.

mod cgroups;
mod changes;
mod events;
mod fleet;
mod functions;
mod groups;
mod kernel_threads;
mod raw;
mod read;
mod rtapp;
mod shared;
mod steps;
mod teams;
mod values;

use crate::machine::{Costs, HZ, Machine};
use crate::shared::SharedSpec;
use crate::task::TaskSpec;
pub use changes::Change;
pub use fleet::{FleetSpec, Placer};
pub use functions::Function;
pub use kernel_threads::KernelThread;
use metasched_base::{Kind, Place, Result, ResultExt};
use metasched_experiment::{About, Objective};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
pub use values::{CpuMax, nice_of_weight};

const ATTEMPT: &str = "read the scenario";

/// The machine that a scenario is meant for. The command line may say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// Logical CPUs.
    pub cpus: usize,
    /// Last-level caches, over which the CPUs are spread evenly.
    pub llcs: usize,
    /// NUMA nodes, over which the caches are spread evenly.
    pub nodes: usize,
    /// Whether two CPUs share each core.
    pub smt: bool,
    /// Ticks per second.
    pub hz: u32,
    /// What the kernel's own class asks for at once, where that is not the kernel's own choice.
    pub base_slice_ns: Option<u64>,
    /// What things cost on it.
    pub costs: Costs,
    /// What its kernel does by itself.
    pub kernel_threads: Vec<KernelThread>,
}

impl Default for MachineSpec {
    /// One CPU of a machine without costs.
    fn default() -> Self {
        MachineSpec {
            cpus: 1,
            llcs: 1,
            nodes: 1,
            smt: false,
            hz: HZ,
            base_slice_ns: None,
            costs: Costs::default(),
            kernel_threads: Vec::new(),
        }
    }
}

impl MachineSpec {
    /// Reads a file that has nothing but `[machine]`.
    ///
    /// # Errors
    /// As [`ScenarioFile::load`].
    pub fn load(path: &Path) -> Result<MachineSpec> {
        let shown = path.to_string_lossy();
        let text = std::fs::read_to_string(path)
            .attempt(Kind::BadInput, || format!("read the machine '{shown}'"))?;
        read::read_machine(Place { path: &shown, text: &text })
    }

    /// The machine itself.
    ///
    /// # Errors
    /// As [`Machine::new`] and [`Machine::hz`].
    pub fn machine(&self) -> Result<Machine> {
        let machine = Machine::new(self.cpus, self.llcs, self.nodes, self.smt)?;
        let machine = machine.hz(self.hz)?.costs(self.costs);
        Ok(match self.base_slice_ns {
            Some(ns) => machine.base_slice_ns(ns),
            None => machine,
        })
    }
}

/// A lane of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSpec {
    /// The number of its application: the `n`-th lane of a file has `n`, from 1.
    pub app: u32,
    /// The cgroup that is assigned to it.
    pub cgroup: String,
    /// Its policy.
    pub policy: String,
    /// Its weight, if it has one of its own; otherwise it is the cgroup's.
    pub weight: Option<u32>,
    /// What is set of its policy, as it stands in the file.
    pub options: BTreeMap<String, String>,
    /// What is set, by the numbers of the options.
    pub settings: Vec<(usize, u64)>,
    /// `cpu.weight` of the cgroup.
    cgroup_weight: u32,
}

impl LaneSpec {
    /// The weight that it has, its own or its cgroup's.
    pub fn weight_in_force(&self) -> u32 {
        self.weight.unwrap_or(self.cgroup_weight)
    }
}

/// A scenario as its file tells it.
#[derive(Clone)]
pub struct ScenarioFile {
    /// Its name; that of the file, if it does not say.
    pub name: String,
    /// What it is for, in a line or two.
    pub about: String,
    /// How long it runs, warm-up included, ns.
    pub duration_ns: u64,
    /// How much of that counts in no figures, ns.
    pub warm_up_ns: u64,
    /// From which everything that is left to chance follows, if it says so.
    pub seed: Option<u64>,
    /// The machine.
    pub machine: MachineSpec,
    /// Lanes of cgroups, beside the root lane.
    pub lanes: Vec<LaneSpec>,
    /// What cgroups are for, of those of which it says so.
    pub objectives: BTreeMap<String, Objective>,
    /// What tasks share.
    pub shared: SharedSpec,
    /// The tasks that are there at the beginning; those that others fork are in their steps.
    pub tasks: Vec<TaskSpec>,
    /// Functions; their tasks are among those.
    pub functions: Vec<Function>,
    /// What is asked of a fleet of such machines, if the file speaks of one.
    pub fleet: Option<FleetSpec>,
    /// What is written to cgroups at the beginning.
    pub cgroups: Vec<Change>,
    /// What changes later, and when, ns.
    pub events: Vec<(u64, Vec<Change>)>,
}

impl ScenarioFile {
    /// Reads a scenario.
    ///
    /// # Errors
    /// `BadInput`, with the line, what is wrong there, and what may be written.
    pub fn load(path: &Path) -> Result<ScenarioFile> {
        let text = std::fs::read_to_string(path)
            .attempt(Kind::BadInput, || format!("{ATTEMPT} '{}'", path.display()))?;
        Self::parse(path, &text)
    }

    /// Reads a scenario from a text; `path` says whose it is, and its format.
    ///
    /// # Errors
    /// As [`ScenarioFile::load`].
    pub fn parse(path: &Path, text: &str) -> Result<ScenarioFile> {
        let shown = path.to_string_lossy();
        let place = Place { path: &shown, text };
        let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        match path.extension().is_some_and(|extension| extension == "json") {
            true => rtapp::read(place, stem),
            false => read::read(place, stem),
        }
    }

    /// The same with these of its functions only, by their places.
    pub fn with_functions(&self, places: &[usize]) -> ScenarioFile {
        let mut file = self.clone();
        let of_functions = self.functions.first().map_or(self.tasks.len(), |f| f.tasks.start);
        file.tasks.truncate(of_functions);
        file.functions.clear();
        for function in &self.functions {
            file.shared.arrivals.remove(&function.name);
        }
        for function in places.iter().map(|place| &self.functions[*place]) {
            let from = file.tasks.len();
            file.tasks.extend_from_slice(&self.tasks[function.tasks.clone()]);
            let arrivals = self.shared.arrivals[&function.name].clone();
            file.shared.arrivals.insert(function.name.clone(), arrivals);
            let tasks = from..file.tasks.len();
            file.functions.push(Function { tasks, ..function.clone() });
        }
        file
    }

    /// What an experiment has to know of it; the machine and the default scheduler are the bed's.
    pub fn described(&self) -> About {
        let cgroups: BTreeSet<&String> = self.tasks.iter().map(|task| &task.cgroup).collect();
        let asked = self.lanes.iter().map(|lane| (lane.cgroup.clone(), lane.policy.clone()));
        About {
            application: self.name.clone(),
            has_several: cgroups.len() > 1,
            parts: cgroups.into_iter().filter(|path| !path.is_empty()).cloned().collect(),
            measurement: Duration::from_nanos(self.duration_ns.saturating_sub(self.warm_up_ns)),
            objectives: self.objectives.clone(),
            asked: asked.collect(),
            ..About::default()
        }
    }

    /// Everything that changes from outside, at its beginning or later.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let events = self.events.iter().flat_map(|(_, changes)| changes);
        self.cgroups.iter().chain(events)
    }

    /// Whether a cgroup has a quota at some time.
    pub fn limits(&self) -> bool {
        self.changes().any(|change| matches!(change, Change::CgroupQuota(..)))
    }

    /// Whether its events change lanes, which the fair class has none of: then it tells nothing
    /// under that.
    pub fn needs_program(&self) -> bool {
        self.changes().any(Change::needs_program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documentation() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
        std::fs::read_to_string(path).expect("docs/simulator.md")
    }

    #[test]
    fn every_key_of_a_scenario_file_is_documented() {
        let text = documentation();
        let mut keys = 0;
        for line in include_str!("raw.rs").lines() {
            let Some(key) = line.trim().strip_prefix("pub ").and_then(|l| l.split(": ").next())
            else {
                continue;
            };
            if key.contains(['(', ' ']) || key.starts_with("(super)") {
                continue;
            }
            keys += 1;
            assert!(text.contains(&format!("`{key}`")), "docs/simulator.md: describe `{key}`");
        }
        assert!(keys > 40, "only {keys} keys were found in raw.rs");
    }

    #[test]
    fn every_step_is_documented_as_it_is_written() {
        let text = documentation();
        for (verb, usage) in steps::VERBS {
            assert!(text.contains(&format!("| `{usage}` |")), "docs/simulator.md: describe {verb}");
        }
    }

    #[test]
    fn every_key_of_rt_app_that_is_read_is_documented() {
        let text = documentation();
        for key in rtapp::KEYS.iter().flat_map(|keys| keys.iter()) {
            assert!(text.contains(&format!("`{key}`")), "docs/simulator.md: describe `{key}`");
        }
    }
}
