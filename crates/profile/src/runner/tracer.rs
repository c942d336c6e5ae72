//! Run-queue waits of an application's cgroups, and how long they run at a time, while one load
//! runs.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result};
use metasched_loader::{WaitTracer, Waiters};
use metasched_stats::{RunLengths, WaitHistogram};

use super::Group;

/// The tracer, and the names of the cgroups in the order in which it was asked for them.
pub(super) struct Tracer {
    tracer: WaitTracer,
    names: Vec<String>,
}

/// What was traced of one cgroup.
pub(super) struct Traced {
    /// Waits by powers of two.
    pub waits: Vec<u64>,
    pub runs: RunLengths,
}

impl Tracer {
    /// Attaches the tracer to these groups.
    pub(super) fn attach<'a>(
        groups: impl Iterator<Item = (&'a str, &'a dyn Group)>,
    ) -> Result<Self> {
        let mut names = Vec::new();
        let mut waiters = Vec::new();
        for (name, group) in groups {
            let id = group.id()?.ok_or_else(|| {
                Error::new(
                    Kind::Unsupported,
                    "trace run-queue waits",
                    format!("'{name}' is not a cgroup"),
                )
            })?;
            names.push(name.to_owned());
            waiters.push(Waiters::Cgroup(id));
        }
        Ok(Self { tracer: WaitTracer::attach_with_runs(&waiters)?, names })
    }

    /// The waits and the runs since it was attached, by the name of the cgroup.
    pub(super) fn read(&self) -> Result<BTreeMap<String, Traced>> {
        let (waits, runs) = (self.tracer.read()?, self.tracer.read_runs()?);
        let traced = waits.iter().map(WaitHistogram::octaves).zip(runs);
        let traced = traced.map(|(waits, runs)| Traced { waits, runs });
        Ok(self.names.iter().cloned().zip(traced).collect())
    }
}
