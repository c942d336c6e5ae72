//! What a trace does not tell: the machine, cgroups, and what threads may do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use metasched_base::Result;
use metasched_host::cgroup::Cgroup;
use metasched_host::kernel::config;
use metasched_host::machine::{HostFacts, cpus_by_place};
use metasched_host::process::{Thread, threads};
use metasched_scenario::record::{CgroupFacts, Facts, MachineFacts};

/// The machine as the simulator has machines, and what of it that leaves out.
///
/// # Errors
/// `BadInput`, where it has more CPUs than are modelled.
pub fn machine(root: &Path, machine: &HostFacts) -> Result<(MachineFacts, Vec<String>)> {
    let (cpus, llcs, nodes) =
        (machine.cpus as usize, machine.llcs as usize, machine.nodes as usize);
    let smt = machine.smt;
    let mut said = vec![format!("Machine: {}, {cpus} CPUs.", machine.cpu_model)];
    let numbered = cpus_by_place(root);
    if numbered.iter().zip(0..).any(|(cpu, at)| *cpu != at) {
        let list: Vec<String> = numbered.iter().map(u32::to_string).collect();
        said.push(format!(
            "CPUs 0, 1, ... of the model are these of the machine: {}.",
            list.join(" ")
        ));
    }
    let shapes = [(llcs, nodes, smt), (llcs, 1, smt), (1, 1, smt), (1, 1, false)];
    let fits = |(llcs, nodes, smt): &(usize, usize, bool)| {
        metasched_scenario::Machine::new(cpus, *llcs, *nodes, *smt).is_ok()
    };
    let Some(at) = shapes.iter().position(fits) else {
        // Says what is wrong with it.
        metasched_scenario::Machine::new(cpus, 1, 1, false)?;
        unreachable!("one of the shapes fits");
    };
    if at > 0 {
        said.push(format!(
            "Its {llcs} last-level caches on {nodes} nodes are not alike, as those of a model are: \
             simplified."
        ));
    }
    let (llcs, nodes, smt) = shapes[at];
    let config = config(root, &machine.kernel_release)?;
    let hz = config.and_then(|config| config.hz());
    Ok((MachineFacts { cpus, llcs, nodes, smt, hz }, said))
}

/// The threads that were there at some time.
pub struct Threads(BTreeMap<u32, Thread>);

impl Threads {
    /// Those that are there now.
    pub fn look(root: &Path) -> Self {
        Threads(threads(root))
    }

    /// With those that a later look found, which counts more.
    pub fn and(mut self, later: Threads) -> Self {
        self.0.extend(later.0);
        self
    }

    /// As a recording has them.
    pub fn facts(self, root: &Path) -> BTreeMap<u32, Facts> {
        let numbered = cpus_by_place(root);
        let facts = |thread: Thread| {
            let cpus: BTreeSet<u32> = (0..)
                .zip(&numbered)
                .filter(|(_, cpu)| thread.allowed.contains(cpu))
                .map(|(at, _)| at)
                .collect();
            Facts {
                comm: thread.comm,
                cgroup: thread.cgroup,
                affinity: Some(cpus).filter(|cpus| !cpus.is_empty() && cpus.len() < numbered.len()),
                kthread: thread.kernel,
            }
        };
        self.0.into_iter().map(|(tid, thread)| (tid, facts(thread))).collect()
    }
}

/// What these cgroups and those above them are given. One that is gone has nothing any more.
pub fn cgroups<'a>(
    root: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, CgroupFacts> {
    let all: BTreeSet<&str> = paths
        .flat_map(|path| Path::new(path).ancestors().filter_map(Path::to_str))
        .filter(|path| !path.is_empty())
        .collect();
    let facts = |path: &str| {
        let cgroup = Cgroup::find(root, &format!("/{path}")).ok()?;
        let limits = cgroup.limits();
        Some(CgroupFacts {
            weight: cgroup.cpu_weight(),
            quota_us: limits.quota_us,
            burst_us: limits.burst_us,
            idle: limits.idle,
        })
    };
    all.into_iter().filter_map(|path| Some((path.to_owned(), facts(path)?))).collect()
}
