//! What the program is told of the machine before it is loaded, and what it needs for it.

use std::collections::BTreeMap;

use ::object::{File, Object as _, ObjectSection as _};
use libbpf_rs::OpenMapMut;
use metasched_abi::{
    CPUS_MAX, LANE_CPU_SETS_MAX, LANE_QUEUES_MAX, LANES_MAX, USES_GROUPS, USES_PLACES,
    USES_RUNNABLE,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::machine::CpuPlace;

use crate::object::object;
use crate::skel::metasched::{OpenMetaschedSkel, types};

/// What a policy keeps beside its tasks, by the policy's number: `policy_shapes` of
/// meta/table.bpf.h.
struct Shape {
    /// `POLICY_USES` of bpf/policy.h.
    uses: u64,
    /// Bytes for each CPU, and for each last-level cache.
    cpu_bytes: u64,
    llc_bytes: u64,
    /// Sets of CPUs.
    cpu_sets: u64,
    /// Whether it has a half in user space.
    user_half: u64,
}

/// As the program's file says.
fn shapes() -> Vec<Shape> {
    let file = File::parse(object().bytes).expect("the compiler's own output");
    let section = file.section_by_name(".policy_shapes").expect("table.bpf.h makes it");
    let words = |bytes: &[u8; 5 * 8]| {
        let [uses, cpu_bytes, llc_bytes, cpu_sets, user_half] = std::array::from_fn(|at| {
            u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("8"))
        });
        Shape { uses, cpu_bytes, llc_bytes, cpu_sets, user_half }
    };
    section.data().expect("the compiler has filled it").as_chunks().0.iter().map(words).collect()
}

/// A ring that nobody writes to: a page.
const LEAST_RING_BYTES: u32 = 4096;

/// Writes a machine's topology into the program, gives its maps of CPUs and caches the
/// size that the enabled policies need there, and leaves out callbacks that none of them
/// names.
pub(crate) fn prepare(
    open: &mut OpenMetaschedSkel<'_>,
    machine: &BTreeMap<u32, CpuPlace>,
) -> Result<()> {
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
    let enabled = rodata.enabled_policies;
    let topology = &mut rodata.topology;
    fill_in(topology, machine)?;
    let (cpus, llcs) = (topology.cpus, topology.llcs);
    let shapes = shapes();
    let mine = || shapes.iter().enumerate().filter(|(i, _)| enabled >> i & 1 == 1).map(|(_, s)| s);
    let size = |map: &mut OpenMapMut<'_>, wanted: bool, each: usize| {
        map.set_max_entries(if wanted { (LANES_MAX * each) as u32 } else { 1 })
            .attempt(Kind::Failed, || "size a map".into())
    };
    let used = mine().fold(0, |all, shape| all | shape.uses);
    // SAFETY: the skeleton points it at the map's initial value, as for the timeout.
    let ops = unsafe { &mut *open.struct_ops.metasched_ops };
    if used & u64::from(USES_RUNNABLE) == 0 {
        ops.runnable = std::ptr::null_mut();
        ops.quiescent = std::ptr::null_mut();
    }
    size(&mut open.maps.cpu_states, mine().any(|s| s.cpu_bytes > 0), cpus as usize)?;
    size(&mut open.maps.llc_states, mine().any(|s| s.llc_bytes > 0), llcs as usize)?;
    // As mark_words() of meta/marks.bpf.h.
    let words = (LANE_QUEUES_MAX * (cpus + llcs) as usize) / 32 + 1;
    size(&mut open.maps.marks, used & u64::from(USES_PLACES) != 0, words)?;
    size(&mut open.maps.cpu_sets, mine().any(|s| s.cpu_sets > 0), LANE_CPU_SETS_MAX)?;
    if used & u64::from(USES_GROUPS) == 0 {
        let least = open.maps.groups.set_max_entries(1);
        least.attempt(Kind::Failed, || "size a map".into())?;
    }
    if mine().all(|s| s.user_half == 0) {
        let least = open.maps.user_messages.set_max_entries(LEAST_RING_BYTES);
        least.attempt(Kind::Failed, || "size a map".into())?;
    }
    Ok(())
}

fn fill_in(topology: &mut types::topology, places: &BTreeMap<u32, CpuPlace>) -> Result<()> {
    let highest = places.keys().next_back().copied().unwrap_or(0);
    if highest as usize >= CPUS_MAX {
        return Err(Error::new(
            Kind::Unsupported,
            "describe this machine to the kernel program",
            format!("it may have a CPU {highest}"),
        )
        .remedy(format!("boot with possible_cpus={CPUS_MAX}")));
    }
    topology.cpus = highest + 1;
    topology.llcs = places.values().map(|place| place.llc + 1).max().unwrap_or(1);
    topology.nodes = places.values().map(|place| place.node + 1).max().unwrap_or(1);
    topology.online = places.values().filter(|place| place.online).count().max(1) as u32;
    for (cpu, place) in places {
        let cpu = *cpu as usize;
        topology.possible.words[cpu / 64] |= 1 << (cpu % 64);
        topology.llc[cpu] = place.llc as u16;
        topology.node[cpu] = place.node as u16;
        topology.sibling[cpu] = place.sibling as u16;
    }
    Ok(())
}
