//! The machine as a program knows it: `struct topology` of `bpf/topology.bpf.h`, which the
//! loader fills in for a real one.

use crate::image::Image;
use crate::machine::Machine;
use metasched_abi::{CPUS_MAX, Cpus, Topology};
use metasched_base::Result;

/// Tells a program of the machine, if it wants to know.
///
/// # Errors
/// When its constants cannot be written.
pub(crate) fn tell(image: &Image, machine: &Machine) -> Result<()> {
    if image.symbol("topology").is_none() {
        return Ok(());
    }
    let mut told = Topology {
        cpus: (machine.nr_cpus() + machine.numbers_without_cpu()) as u32,
        llcs: machine.nr_llcs() as u32,
        nodes: machine.nr_nodes() as u32,
        online: machine.nr_cpus() as u32,
        possible: Cpus { words: machine.all().words() },
        llc: [0; CPUS_MAX],
        node: [0; CPUS_MAX],
        sibling: [0; CPUS_MAX],
    };
    for cpu in 0..machine.nr_cpus() {
        let core = machine.core_of(cpu);
        told.llc[cpu] = machine.llc_of(cpu) as u16;
        told.node[cpu] = machine.node_of(cpu) as u16;
        told.sibling[cpu] = (core.start + (cpu - core.start + 1) % core.len()) as u16;
    }
    // SAFETY: the symbol is of that type wherever it is there.
    unsafe { image.set("topology", told) }
}
