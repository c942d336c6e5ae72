//! A workload: a folder with a manifest that says how to prepare, start, load and
//! stop an application, so that adding one needs no code in the tool.

mod check;
mod command;
mod expand;
mod hash;
mod locate;
mod pair;
mod raw;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_experiment::Objective;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

pub use command::{CommandFailed, Given, check_program};
pub use expand::expand;
pub use locate::{available, locate};
pub use pair::{BOTH, Side};
pub use resolve::{Workload, parse_setting};

/// The name of the manifest in a workload's folder.
pub const FILE_NAME: &str = "manifest.toml";

/// A manifest as it was read and checked.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The workload's name.
    pub name: String,
    /// One line that says what it is.
    pub summary: String,
    /// Its folder, in which every command runs.
    pub folder: PathBuf,
    /// Folders beside it whose files its commands read.
    pub uses: Vec<PathBuf>,
    /// What can be set, by name.
    pub params: BTreeMap<String, Param>,
    /// What is done once per machine and values of [`Manifest::prepare_params`].
    pub prepare: Option<Step>,
    /// The parameters that what is prepared and staged depends on; all where this is absent.
    pub prepare_params: Option<Vec<String>>,
    /// What is done once per boot, before the first start.
    pub stage: Option<Step>,
    /// The forms in which it can be measured, in the order of the manifest.
    pub forms: Vec<Form>,
}

/// A parameter. Its value is part of the workload's hash.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Param {
    /// The value when none is set.
    pub default: String,
    /// The values that it can have; any where this is empty.
    pub choices: Vec<String>,
    /// What the value `auto` stands for.
    pub auto: Option<Auto>,
    /// What it does.
    pub help: String,
}

/// What `auto` stands for on which machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Auto {
    /// Where the CPU is emulated in software.
    pub emulated: String,
    /// Everywhere else.
    pub native: String,
}

/// A command that is run to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// One way to measure the workload.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its name.
    pub name: String,
    /// One line that says what it is.
    pub summary: String,
    /// What its throughput counts.
    pub unit: String,
    /// What it says that it is for.
    pub objective: Option<Objective>,
    /// The forms that measure its parts alone, where it is a whole that has parts.
    pub parts: Vec<String>,
    /// The application, in the order in which its processes start.
    pub processes: Vec<Process>,
    /// What is run for every measurement.
    pub load: Load,
}

/// A process of the application.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The cgroup that it lives in, below the workload's.
    pub cgroup: String,
    /// What is added to its environment.
    pub env: BTreeMap<String, String>,
    /// It is only started when every one of these parameters has one of these values.
    pub when: BTreeMap<String, Vec<String>>,
    /// How to know that it is ready; at once where this is absent.
    pub ready: Option<Ready>,
    /// The signal that asks it to stop.
    pub stop: Signal,
    /// How long it may take to obey.
    pub stop_grace: Duration,
}

/// How to know that a process is ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// What is tried.
    pub probe: Probe,
    /// How long it may take until that succeeds.
    pub timeout: Duration,
}

/// A question to a process that starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// A GET of this address that is answered with a 2xx status.
    Http(String),
    /// A command that exits with status 0.
    Command(Vec<String>),
    /// A file (or socket) that is there.
    File(String),
}

/// What is run for every measurement.
#[derive(Clone, Debug)]
pub struct Load {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The cgroup that it lives in, below the workload's.
    pub cgroup: String,
    /// What is added to its environment.
    pub env: BTreeMap<String, String>,
    /// How its standard output is read.
    pub reads: Reader,
    /// How long one run may take; absent, that follows from the duration.
    pub timeout: Option<Duration>,
    /// What goes with a command that the user gave; absent where it is a manifest's.
    pub given: Option<Given>,
}

impl Form {
    /// What it is judged by: what it says; else what answers requests by their latency, and
    /// a command that runs to its end by its throughput.
    pub fn objective(&self) -> Objective {
        self.objective.unwrap_or(Objective::by_default(self.load.reads != Reader::Elapsed))
    }
}

/// How a load tool's standard output becomes figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// The last line that starts with `METASCHED ` holds them as JSON.
    Metrics,
    /// One latency in microseconds per line, perhaps after `# duration_s X`.
    Latencies,
    /// The wall time of the command is the figure.
    Elapsed,
}

impl Manifest {
    /// Whether what is prepared depends on this parameter.
    fn is_prepared_for(&self, param: &String) -> bool {
        self.prepare_params.as_ref().is_none_or(|params| params.contains(param))
    }

    /// Reads and checks the manifest of the workload in `folder`.
    ///
    /// Errors: [`Kind::BadInput`] with path and line for everything that is wrong in it.
    pub fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(FILE_NAME);
        let text = std::fs::read_to_string(&path).map_err(|e| {
            Error::new(Kind::BadInput, format!("read the manifest '{}'", path.display()), e)
                .remedy("a workload is a folder with a manifest.toml")
        })?;
        let folder = std::path::absolute(folder).map_err(|e| {
            Error::new(Kind::Failed, format!("find the folder '{}'", folder.display()), e)
        })?;
        check::manifest(&path, &text, folder)
    }

    /// The form with this name.
    pub fn form(&self, name: &str) -> Result<&Form> {
        self.forms.iter().find(|form| form.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.forms.iter().map(|form| form.name.as_str()).collect();
            Error::new(
                Kind::BadInput,
                format!("measure the form '{name}' of '{}'", self.name),
                "there is no such form",
            )
            .remedy(format!("its forms are {}", names.join(", ")))
        })
    }
}
