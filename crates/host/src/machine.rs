//! What the machine is, as far as figures measured on it depend on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use metasched_base::{Result, parse_cpu_list};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{below, kernel, read_trimmed};

/// The machine that something was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The processor's name for itself.
    pub cpu_model: String,
    /// Processors that are on line.
    pub cpus: u32,
    /// Whether some cores run more than one thread.
    pub smt: bool,
    /// Groups of CPUs that share a last-level cache.
    pub llcs: u32,
    /// NUMA nodes.
    pub nodes: u32,
    /// Memory that the kernel manages, in bytes.
    pub memory_bytes: u64,
    /// What virtualises this machine; None on bare metal.
    pub hypervisor: Option<String>,
    /// Whether instructions are emulated in software (QEMU's TCG): floating point and
    /// vector code are then slower by orders of magnitude.
    pub emulated: bool,
    /// As `uname -r` says it.
    pub kernel_release: String,
    /// The operating system's name for itself.
    pub os: String,
}

/// Describes the machine below `root`.
pub fn machine(root: &Path) -> Result<HostFacts> {
    describe(root, hypervisor_signature)
}

/// A short name of the machine: figures are compared only where it is the same.
///
/// The kernel and the operating system are left out, because a result's key holds the
/// kernel beside it; memory counts in whole GiB, because what firmware and kernel
/// reserve differs a little from boot to boot.
pub fn fingerprint(machine: &HostFacts) -> String {
    const GIB: u64 = 1 << 30;
    const SHORT: usize = 12;
    let text = format!(
        "{}|{}|{}|{}|{}|{}|{}|{}",
        machine.cpu_model,
        machine.cpus,
        machine.smt,
        machine.llcs,
        machine.nodes,
        machine.memory_bytes.div_ceil(GIB),
        machine.hypervisor.as_deref().unwrap_or("bare metal"),
        machine.emulated,
    );
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()[..SHORT].to_string()
}

/// The CPUs that are on line, those side by side that share most: a core, then a last-level
/// cache, then a NUMA node.
pub fn cpus_by_place(root: &Path) -> Vec<u32> {
    let cpuinfo = read_trimmed(root, "/proc/cpuinfo").unwrap_or_default();
    let nodes = cpus_of_nodes(root);
    let first_of = |list: Option<String>| {
        list.and_then(|list| parse_cpu_list(&list)).and_then(|cpus| cpus.first().copied())
    };
    let mut cpus: Vec<u32> = online_cpus(root, &cpuinfo).into_iter().collect();
    cpus.sort_by_cached_key(|cpu| {
        let node = nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node);
        let core = cpu_file(root, *cpu, "topology/thread_siblings_list");
        (node, first_of(last_level_cache(root, *cpu)), first_of(core), *cpu)
    });
    cpus
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// Its last-level cache; caches are numbered from 0, by their lowest CPUs.
    pub llc: u32,
    /// Its NUMA node.
    pub node: u32,
    /// The next CPU of its core, round and round: the CPU itself where it is alone there.
    pub sibling: u32,
    /// Whether it was on line as this was read.
    pub online: bool,
}

/// Where each CPU is that the machine below `root` may have, on line or not. One that is off
/// line does not say: it counts as alone on its core, under cache 0 of node 0.
pub fn places(root: &Path) -> BTreeMap<u32, CpuPlace> {
    let cpuinfo = read_trimmed(root, "/proc/cpuinfo").unwrap_or_default();
    let online = online_cpus(root, &cpuinfo);
    let possible = read_trimmed(root, "/sys/devices/system/cpu/possible")
        .and_then(|list| parse_cpu_list(&list))
        .unwrap_or_default();
    let alone =
        |cpu: u32| (cpu, CpuPlace { llc: 0, node: 0, sibling: cpu, online: online.contains(&cpu) });
    let mut places: BTreeMap<u32, CpuPlace> = possible.union(&online).copied().map(alone).collect();
    // Each list is read for the first of its CPUs only: there may be hundreds.
    let mut left = online.clone();
    let mut llcs = 0;
    while let Some(first) = left.first().copied() {
        let shared = last_level_cache(root, first).and_then(|list| parse_cpu_list(&list));
        let package = || cpus_of_package(root, first, &left);
        for cpu in shared.unwrap_or_else(package).into_iter().chain([first]) {
            if left.remove(&cpu) {
                places.entry(cpu).and_modify(|place| place.llc = llcs);
            }
        }
        llcs += 1;
    }
    let mut left = online;
    while let Some(first) = left.pop_first() {
        let core = cpu_file(root, first, "topology/thread_siblings_list")
            .and_then(|list| parse_cpu_list(&list))
            .unwrap_or_default();
        for (cpu, next) in core.iter().zip(core.iter().cycle().skip(1)) {
            left.remove(cpu);
            places.entry(*cpu).and_modify(|place| place.sibling = *next);
        }
    }
    for (node, cpus) in cpus_of_nodes(root) {
        for cpu in cpus {
            places.entry(cpu).and_modify(|place| place.node = node);
        }
    }
    places
}

/// The CPUs in the socket of one, where the kernel says nothing of caches.
fn cpus_of_package(root: &Path, cpu: u32, of: &BTreeSet<u32>) -> BTreeSet<u32> {
    let package = |cpu| cpu_file(root, cpu, "topology/physical_package_id");
    let this = package(cpu);
    of.iter().copied().filter(|other| package(*other) == this).collect()
}

/// What two CPUs share, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// A core.
    Core,
    /// A last-level cache.
    Llc,
    /// A NUMA node.
    Node,
    /// Memory across nodes only.
    Machine,
}

/// What two CPUs of the machine below `root` share.
pub fn sharing(root: &Path, a: u32, b: u32) -> Sharing {
    let has_b = |list: String| parse_cpu_list(&list).is_some_and(|cpus| cpus.contains(&b));
    if cpu_file(root, a, "topology/thread_siblings_list").is_some_and(has_b) {
        return Sharing::Core;
    }
    let llcs = |cpus: [u32; 2]| last_level_caches(root, &BTreeSet::from(cpus));
    if llcs([a, b]) == 1 {
        return Sharing::Llc;
    }
    let nodes = cpus_of_nodes(root);
    let has_both = |(_, cpus): &(u32, BTreeSet<u32>)| cpus.contains(&a) && cpus.contains(&b);
    if nodes.is_empty() || nodes.iter().any(has_both) { Sharing::Node } else { Sharing::Machine }
}

fn describe(root: &Path, signature: impl Fn() -> Option<[u8; 12]>) -> Result<HostFacts> {
    let cpuinfo = read_trimmed(root, "/proc/cpuinfo").unwrap_or_default();
    let cpus = online_cpus(root, &cpuinfo);
    let signature = if has_hypervisor_flag(&cpuinfo) { signature() } else { None };
    Ok(HostFacts {
        cpu_model: field(&cpuinfo, "model name").unwrap_or("unknown").to_string(),
        cpus: cpus.len() as u32,
        smt: cpus.iter().any(|&cpu| {
            cpu_file(root, cpu, "topology/thread_siblings_list")
                .and_then(|list| parse_cpu_list(&list))
                .is_some_and(|siblings| siblings.len() > 1)
        }),
        llcs: last_level_caches(root, &cpus),
        nodes: numa_nodes(root),
        memory_bytes: memory_bytes(root),
        hypervisor: signature.map(|signature| hypervisor_name(&signature)),
        emulated: signature.is_some_and(|signature| &signature == TCG),
        kernel_release: kernel::release(root)?.text,
        os: os_name(root),
    })
}

/// What QEMU's software emulation answers; target/i386/cpu.c of QEMU.
const TCG: &[u8; 12] = b"TCGTCGTCGTCG";

/// The hypervisor's signature from CPUID leaf 0x4000_0000, which it answers in EBX, ECX, EDX.
#[cfg(target_arch = "x86_64")]
fn hypervisor_signature() -> Option<[u8; 12]> {
    // SAFETY: every x86_64 processor has CPUID. Newer compilers know that and call it safe.
    #[allow(unused_unsafe)]
    let answer = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let mut signature = [0; 12];
    for (bytes, word) in signature.chunks_exact_mut(4).zip([answer.ebx, answer.ecx, answer.edx]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Some(signature)
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_signature() -> Option<[u8; 12]> {
    None
}

fn hypervisor_name(signature: &[u8; 12]) -> String {
    match signature {
        s if s == TCG => "QEMU TCG".into(),
        b"KVMKVMKVM\0\0\0" => "KVM".into(),
        b"Microsoft Hv" => "Hyper-V".into(),
        b"VMwareVMware" => "VMware".into(),
        b"XenVMMXenVMM" => "Xen".into(),
        other => String::from_utf8_lossy(other).trim_end_matches('\0').to_string(),
    }
}

fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn online_cpus(root: &Path, cpuinfo: &str) -> BTreeSet<u32> {
    read_trimmed(root, "/sys/devices/system/cpu/online")
        .and_then(|list| parse_cpu_list(&list))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| {
            let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
            (0..count.max(1) as u32).collect()
        })
}

fn cpu_file(root: &Path, cpu: u32, name: &str) -> Option<String> {
    read_trimmed(root, &format!("/sys/devices/system/cpu/cpu{cpu}/{name}"))
}

/// Counts the distinct sets of CPUs that share the highest cache level that they have.
/// Where the kernel says nothing of caches (some guests), sockets stand for them.
fn last_level_caches(root: &Path, cpus: &BTreeSet<u32>) -> u32 {
    let package = |cpu| cpu_file(root, cpu, "topology/physical_package_id");
    let groups: BTreeSet<String> = cpus
        .iter()
        .filter_map(|&cpu| last_level_cache(root, cpu).or_else(|| package(cpu)))
        .collect();
    groups.len().max(1) as u32
}

/// The CPUs that share the last-level cache of one, as the kernel lists them.
fn last_level_cache(root: &Path, cpu: u32) -> Option<String> {
    // No processor has more: data and instructions at level 1, then levels 2 to 4.
    const MAX_CACHES: u32 = 8;
    let cache = |index: u32| {
        let level = cpu_file(root, cpu, &format!("cache/index{index}/level"))?;
        let shared = cpu_file(root, cpu, &format!("cache/index{index}/shared_cpu_list"))?;
        Some((level.parse::<u32>().ok()?, shared))
    };
    (0..MAX_CACHES).filter_map(cache).max().map(|(_, shared)| shared)
}

/// The NUMA nodes that are on line; none where the kernel says nothing of nodes.
fn online_nodes(root: &Path) -> BTreeSet<u32> {
    read_trimmed(root, "/sys/devices/system/node/online")
        .and_then(|list| parse_cpu_list(&list))
        .unwrap_or_default()
}

fn numa_nodes(root: &Path) -> u32 {
    online_nodes(root).len().max(1) as u32
}

/// The CPUs of each NUMA node; none of a node that does not tell.
fn cpus_of_nodes(root: &Path) -> Vec<(u32, BTreeSet<u32>)> {
    let cpus = |node: &u32| {
        read_trimmed(root, &format!("/sys/devices/system/node/node{node}/cpulist"))
            .and_then(|list| parse_cpu_list(&list))
            .unwrap_or_default()
    };
    online_nodes(root).iter().map(|node| (*node, cpus(node))).collect()
}

fn memory_bytes(root: &Path) -> u64 {
    const KIB: u64 = 1024;
    read_trimmed(root, "/proc/meminfo")
        .as_deref()
        .and_then(|text| field(text, "MemTotal"))
        .and_then(|value| value.trim_end_matches(" kB").trim().parse::<u64>().ok())
        .unwrap_or(0)
        * KIB
}

fn os_name(root: &Path) -> String {
    std::fs::read_to_string(below(root, "/etc/os-release"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| "unknown".into(), |name| name.trim_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = below(root, path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Four CPUs: two cores of two threads, one last-level cache a core.
    fn guest() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor sse\n",
        );
        write(root, "/proc/meminfo", "MemTotal:        4000000 kB\nMemFree: 1 kB\n");
        write(root, "/proc/sys/kernel/osrelease", "7.2.13-test\n");
        write(root, "/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian 12\"\n");
        write(root, "/sys/devices/system/cpu/online", "0-3\n");
        write(root, "/sys/devices/system/node/online", "0-1\n");
        for cpu in 0..4 {
            let pair = if cpu < 2 { "0-1" } else { "2-3" };
            let of = format!("/sys/devices/system/cpu/cpu{cpu}");
            write(root, &format!("{of}/topology/thread_siblings_list"), pair);
            write(root, &format!("{of}/cache/index0/level"), "1");
            write(root, &format!("{of}/cache/index0/shared_cpu_list"), &cpu.to_string());
            write(root, &format!("{of}/cache/index3/level"), "3");
            write(root, &format!("{of}/cache/index3/shared_cpu_list"), pair);
        }
        dir
    }

    #[test]
    fn an_emulated_guest_is_described_and_known_as_emulated() {
        let root = guest();
        let machine = describe(root.path(), || Some(*TCG)).unwrap();
        let expected = HostFacts {
            cpu_model: "Some CPU".into(),
            cpus: 4,
            smt: true,
            llcs: 2,
            nodes: 2,
            memory_bytes: 4_096_000_000,
            hypervisor: Some("QEMU TCG".into()),
            emulated: true,
            kernel_release: "7.2.13-test".into(),
            os: "Debian 12".into(),
        };
        assert_eq!(machine, expected);
    }

    #[test]
    fn cpus_that_share_a_core_stand_side_by_side_however_they_are_numbered() {
        let dir = guest();
        let root = dir.path();
        for (cpu, pair) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let of = format!("/sys/devices/system/cpu/cpu{cpu}");
            write(root, &format!("{of}/topology/thread_siblings_list"), pair);
            write(root, &format!("{of}/cache/index3/shared_cpu_list"), "0-3");
        }
        assert_eq!(cpus_by_place(root), [0, 2, 1, 3]);
        write(root, "/sys/devices/system/node/node0/cpulist", "1,3");
        write(root, "/sys/devices/system/node/node1/cpulist", "0,2");
        assert_eq!(cpus_by_place(root), [1, 3, 0, 2]);
    }

    #[test]
    fn cpus_tell_their_cache_node_and_sibling_and_those_off_line_do_not() {
        let dir = guest();
        let root = dir.path();
        write(root, "/sys/devices/system/cpu/possible", "0-4,6");
        write(root, "/sys/devices/system/node/node0/cpulist", "0-1");
        write(root, "/sys/devices/system/node/node1/cpulist", "2-3");
        let places: Vec<_> = places(root).into_iter().collect();
        let at = |llc, node, sibling| CpuPlace { llc, node, sibling, online: true };
        let off = |cpu| (cpu, CpuPlace { online: false, ..at(0, 0, cpu) });
        assert_eq!(
            places,
            [
                (0, at(0, 0, 1)),
                (1, at(0, 0, 0)),
                (2, at(1, 1, 3)),
                (3, at(1, 1, 2)),
                off(4),
                off(6),
            ]
        );
    }

    #[test]
    fn a_guest_on_real_hardware_is_not_emulated() {
        let root = guest();
        let machine = describe(root.path(), || Some(*b"KVMKVMKVM\0\0\0")).unwrap();
        assert_eq!((machine.hypervisor.as_deref(), machine.emulated), (Some("KVM"), false));
    }

    #[test]
    fn a_machine_without_the_hypervisor_flag_is_not_asked_for_a_signature() {
        let root = guest();
        write(root.path(), "/proc/cpuinfo", "flags : fpu sse\n");
        let machine = describe(root.path(), || panic!("asked")).unwrap();
        assert_eq!(machine.hypervisor, None);
    }

    #[test]
    fn the_fingerprint_ignores_the_kernel_and_a_little_memory_but_not_the_topology() {
        let root = guest();
        let a = describe(root.path(), || None).unwrap();
        let mut b = HostFacts { kernel_release: "7.3.4".into(), ..a.clone() };
        b.memory_bytes -= 4096;
        assert_eq!(fingerprint(&a), fingerprint(&b));
        b.llcs = 1;
        assert_ne!(fingerprint(&a), fingerprint(&b));
    }
}
