//! Scenarios that are read from files.

use crate::scenario::Scenario;
use crate::task::{Span, TaskSpec};
use metasched_base::{Error, Kind, Result, ResultExt, parse_duration};
use serde::Deserialize;
use std::path::Path;

/// A scenario as its file describes it.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// What it is called.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// How long it runs, ns.
    pub duration_ns: u64,
    /// What of that is not counted, ns.
    pub warm_up_ns: u64,
    /// The seed, where the file says one.
    pub seed: Option<u64>,
    /// The machine that it is meant for.
    pub machine: MachineSpec,
    /// Which cgroups have lanes.
    pub lanes: Vec<LaneSpec>,
    tasks: Vec<TaskSpec>,
}

/// A machine, described.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSpec {
    /// How many CPUs.
    pub cpus: usize,
    /// How many last-level caches.
    pub llcs: usize,
    /// How many NUMA nodes.
    pub nodes: usize,
    /// Whether two CPUs make a core.
    pub smt: bool,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec { cpus: 1, llcs: 1, nodes: 1, smt: false }
    }
}

/// A lane of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneSpec {
    /// The cgroup's path.
    pub cgroup: String,
    /// The lane's policy.
    pub policy: String,
    /// The lane's weight.
    #[serde(default = "even")]
    pub weight: u32,
}

fn even() -> u32 {
    100
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    #[serde(default)]
    about: String,
    duration: String,
    #[serde(default)]
    warm_up: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    machine: MachineSpec,
    #[serde(default, rename = "lane")]
    lanes: Vec<LaneSpec>,
    #[serde(default, rename = "task")]
    tasks: Vec<RawTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: String,
    #[serde(default = "one")]
    count: usize,
    #[serde(default)]
    cgroup: String,
    run: String,
    #[serde(default)]
    sleep: Option<String>,
}

fn one() -> usize {
    1
}

impl ScenarioFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says something that no scenario can.
    pub fn load(path: &Path) -> Result<ScenarioFile> {
        let attempt = || format!("read the scenario '{}'", path.display());
        let text = std::fs::read_to_string(path).attempt(Kind::BadInput, attempt)?;
        let raw: Raw = toml::from_str(&text).attempt(Kind::BadInput, attempt)?;
        let mut tasks = Vec::new();
        for task in &raw.tasks {
            for i in 0..task.count {
                let name =
                    if task.count > 1 { format!("{} {i}", task.name) } else { task.name.clone() };
                let spec = TaskSpec::named(name).in_cgroup(&task.cgroup).run(span(&task.run)?);
                tasks.push(match &task.sleep {
                    Some(sleep) => spec.sleep(span(sleep)?).for_ever(),
                    None => spec.for_ever(),
                });
            }
        }
        if tasks.is_empty() {
            return Err(
                Error::new(Kind::BadInput, attempt(), "it has no task").remedy("add a [[task]]")
            );
        }
        Ok(ScenarioFile {
            name: raw.name,
            about: raw.about,
            duration_ns: ns(&raw.duration)?,
            warm_up_ns: raw.warm_up.as_deref().map_or(Ok(0), ns)?,
            seed: raw.seed,
            machine: raw.machine,
            lanes: raw.lanes,
            tasks,
        })
    }

    /// Adds what the file describes to a scenario.
    pub fn apply(&self, scenario: Scenario) -> Scenario {
        self.tasks.iter().fold(scenario, |scenario, task| scenario.task(task.clone()))
    }
}

fn ns(text: &str) -> Result<u64> {
    Ok(u64::try_from(parse_duration(text)?.as_nanos()).unwrap_or(u64::MAX))
}

fn span(text: &str) -> Result<Span> {
    Ok(match text.split_once("..") {
        Some((low, high)) => Span::Between(ns(low)?, ns(high)?),
        None => Span::Exactly(ns(text)?),
    })
}
