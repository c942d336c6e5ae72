use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Interrupt, Result};
use metasched_host::machine::HostFacts;

use super::Groups;
use crate::manifest::Workload;
use crate::{Environment, Error, Kind, ResultExt};

/// Everything around a workload: the machine, the folders, the groups, the signals.
#[derive(Debug)]
pub struct Site {
    /// The machine that we are on.
    pub machine: HostFacts,
    /// Where prepared workloads are kept.
    pub cache_root: PathBuf,
    /// Where workloads scratch, until the next boot: a memory file system.
    pub run_root: PathBuf,
    /// How processes are held together.
    pub groups: Box<dyn Groups>,
    /// Whether a stop was asked for.
    pub interrupt: Interrupt,
}

impl Site {
    /// This machine, with its usual folders.
    pub fn here(groups: Box<dyn Groups>, interrupt: &Interrupt) -> Result<Self> {
        let machine = metasched_host::machine::machine(Path::new("/"))?;
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = nix::unistd::geteuid().is_root();
        let cache_root = metasched_base::cache_root();
        let run_root = if root {
            PathBuf::from(metasched_control::RUN_DIR).join("workloads")
        } else {
            variable("XDG_RUNTIME_DIR").unwrap_or_else(std::env::temp_dir).join("metasched")
        };
        Ok(Self { machine, cache_root, run_root, groups, interrupt: interrupt.clone() })
    }

    /// The environment that figures measured here depend on.
    pub fn environment(&self) -> Result<Environment> {
        let facts = serde_json::to_value(&self.machine)
            .attempt(Kind::Failed, || "describe the machine".to_owned())?;
        Ok(Environment {
            machine: metasched_host::machine::fingerprint(&self.machine),
            facts,
            kernel: self.machine.kernel_release.clone(),
            metasched: env!("CARGO_PKG_VERSION").to_owned(),
            cpus: self.machine.cpus,
            emulated: self.machine.emulated,
        })
    }

    /// The folder of the workload's prepared files.
    pub fn cache(&self, workload: &Workload) -> PathBuf {
        let of_workload = self.cache_root.join("workloads").join(&workload.manifest.name);
        of_workload.join(short(&workload.prepared_hash))
    }

    /// The folder in which the workload scratches.
    pub fn scratch(&self, workload: &Workload) -> PathBuf {
        self.run_root.join(&workload.manifest.name).join(short(&workload.prepared_hash))
    }

    /// The environment of every process and load of the workload. `duration` is what a load is
    /// to run for.
    pub fn variables(&self, workload: &Workload, duration: Duration) -> BTreeMap<String, String> {
        self.variables_with(workload, false, duration)
    }

    /// The environment of what prepares and stages the workload: without the parameters for which
    /// that is not done anew.
    pub fn preparing_variables(&self, workload: &Workload) -> BTreeMap<String, String> {
        self.variables_with(workload, true, Duration::ZERO)
    }

    fn variables_with(
        &self,
        workload: &Workload,
        to_prepare: bool,
        duration: Duration,
    ) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.display().to_string();
        let mut variables: BTreeMap<_, _> = workload.param_variables(to_prepare).collect();
        for (name, value) in [
            ("WORKLOAD", text(workload.manifest.folder.clone())),
            ("CACHE", text(self.cache(workload))),
            ("RUN", text(self.scratch(workload))),
            // A whole number is written without a point: shells cannot add 8.0.
            ("DURATION_S", duration.as_secs_f64().to_string()),
            ("EMULATED", u8::from(workload.emulated).to_string()),
            ("CPUS", self.machine.cpus.to_string()),
        ] {
            variables.insert(format!("METASCHED_{name}"), value);
        }
        variables
    }

    /// The kernel's name of this boot.
    pub fn boot_id(&self) -> Result<String> {
        let path = "/proc/sys/kernel/random/boot_id";
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .map_err(|e| Error::new(Kind::Failed, format!("read '{path}'"), e))
    }
}

/// Enough of a hash to tell the few workloads of one name apart in a path.
fn short(hash: &str) -> &str {
    &hash[..hash.len().min(16)]
}
