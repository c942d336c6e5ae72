//! The machine that is modelled: its CPUs, and what they share.

use metasched_base::{Error, Kind, Result};

/// CPUs that are all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    cpus: usize,
}

impl Machine {
    /// A machine of so many CPUs, last-level caches and NUMA nodes; `smt`: two CPUs to a core.
    ///
    /// # Errors
    /// When it is not modelled.
    pub fn new(cpus: usize, llcs: usize, nodes: usize, smt: bool) -> Result<Machine> {
        let refuse = |cause: String| {
            Err(Error::new(Kind::Unsupported, "make that machine", cause)
                .remedy("ask for 1 to 1024 CPUs, one cache and one node"))
        };
        match (cpus, llcs, nodes, smt) {
            (1..=crate::abi::MAX_CPUS, 1, 1, false) => Ok(Machine { cpus }),
            (_, 1, 1, false) => refuse(format!("{cpus} CPUs are not modelled")),
            _ => refuse("caches, nodes and SMT are not modelled".into()),
        }
    }

    /// How many CPUs it has.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Which last-level cache a CPU is at.
    pub fn llc_of(&self, _cpu: usize) -> usize {
        0
    }

    /// Which NUMA node a CPU belongs to.
    pub fn node_of(&self, _cpu: usize) -> usize {
        0
    }
}
