//! Run-queue waits of an application's cgroups, while one load runs.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result};
use metasched_loader::WaitTracer;

use super::Group;

/// The tracer, and which cgroup has which name.
pub(super) struct Tracer {
    tracer: WaitTracer,
    names: BTreeMap<u64, String>,
}

impl Tracer {
    /// Attaches the tracer to these groups.
    pub(super) fn attach<'a>(
        groups: impl Iterator<Item = (&'a str, &'a dyn Group)>,
    ) -> Result<Self> {
        let mut names = BTreeMap::new();
        for (name, group) in groups {
            let id = group.id()?.ok_or_else(|| {
                Error::new(
                    Kind::Unsupported,
                    "trace run-queue waits",
                    format!("'{name}' is not a cgroup"),
                )
            })?;
            names.insert(id, name.to_owned());
        }
        let ids: Vec<u64> = names.keys().copied().collect();
        Ok(Self { tracer: WaitTracer::attach(&ids)?, names })
    }

    /// The waits since it was attached, by the name of the cgroup.
    pub(super) fn read(&self) -> Result<BTreeMap<String, Vec<u64>>> {
        let histograms = self.tracer.read()?;
        Ok(histograms
            .into_iter()
            .filter_map(|h| Some((self.names.get(&h.cgroup_id)?.clone(), h.waits.octaves())))
            .collect())
    }
}
