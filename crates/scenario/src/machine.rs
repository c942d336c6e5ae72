//! The machine: which CPUs there are, what they share, and what things cost on it.

use crate::cpu_mask::{CpuMask, MAX_CPUS};
use metasched_base::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// Ticks per second of Debian's kernels.
pub const HZ: u32 = 250;
/// What kernels are built with.
pub const HZ_RANGE: std::ops::RangeInclusive<u32> = 100..=1000;

/// What the kernel takes for itself, in ns of a CPU's time. It is lost to the CPU, and no
/// part of what a task is said to have run; the kernel's own books charge it to the task
/// that runs there next, as they do on a real machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// From one task to another, or from being idle to a task.
    pub switch_ns: u64,
    /// What a switch to a task takes longer in the kernel's own class for each level of cgroups that
    /// the task is below and the one before is not: each has an entity to be updated on that CPU.
    pub group_level_ns: u64,
    /// What it takes longer for each such level and each doubling of the cgroups that have tasks which
    /// want that CPU: a search in nested queues, and what it finds cold.
    pub group_queued_ns: u64,
    /// A task's first run on another CPU of its core: what it finds cold there.
    pub migration_core_ns: u64,
    /// A task's first run on another core with the same last-level cache.
    pub migration_llc_ns: u64,
    /// A task's first run under another cache of its NUMA node.
    pub migration_node_ns: u64,
    /// A task's first run on another NUMA node.
    pub migration_across_ns: u64,
    /// A run that begins on a CPU that was idle for longer than `cold_after_ns`: its clock is low
    /// and its caches are empty, whoever comes.
    pub cold_ns: u64,
    /// For how long a CPU stays warm.
    pub cold_after_ns: u64,
    /// Each callback, on the CPU that makes it.
    pub callback_ns: u64,
    /// Each call of the kernel that a callback makes, look-ups in maps among them: CPU time of
    /// the CPU that makes it, and on `bpf_ktime_get_ns()`, so that long callbacks are seen as such.
    pub kfunc_ns: u64,
    /// A call that may wait or wake somebody: CPU time of the task that makes it, and part of
    /// what it is said to have run.
    pub call_ns: u64,
    /// A wake-up, on the CPU that makes it.
    pub wake_ns: u64,
    /// What such a wake-up takes longer if the task is put on another CPU that is idle, which
    /// has to be told.
    pub tell_ns: u64,
    /// Going to sleep until a time and coming back, beside the switches: CPU time of the task
    /// that does, and part of what it is said to have run.
    pub sleep_ns: u64,
    /// How much later than asked for a timer goes off. It takes nobody's CPU time.
    pub timer_ns: u64,
    /// From a tick's look at the clock until the CPU switches, if it does. A slice that is a
    /// whole number of ticks has so much left at its last one, and lasts a tick longer.
    pub tick_late_ns: u64,
    /// The longest that a tick comes after its time; drawn for each tick of each CPU, from 0 on.
    pub tick_jitter_ns: u64,
    /// One tick in so many comes later than that, by chance; 0: none.
    pub tick_strays: u64,
    /// The longest that such a tick comes after its time.
    pub tick_stray_ns: u64,
    /// The least time from the moment when a CPU is asked to choose anew until it does. It
    /// takes nobody's CPU time either.
    pub ipi_least_ns: u64,
    /// The longest such time; drawn between both, so that seeds differ in which task comes first.
    pub ipi_most_ns: u64,
    /// The least and the longest such time where the CPU is idle, and it is an interrupt of its own
    /// that asks: a timer's, which wakes somebody there.
    pub own_least_ns: u64,
    /// The longest such time.
    pub own_most_ns: u64,
}

impl Default for Costs {
    /// A machine whose kernel takes nothing for itself. No call is free, so that time passes
    /// however often tasks wake each other: it takes about what a futex or a pipe takes
    /// natively, and so does an interrupt.
    fn default() -> Self {
        Costs {
            switch_ns: 0,
            group_level_ns: 0,
            group_queued_ns: 0,
            migration_core_ns: 0,
            migration_llc_ns: 0,
            migration_node_ns: 0,
            migration_across_ns: 0,
            cold_ns: 0,
            cold_after_ns: 0,
            callback_ns: 0,
            kfunc_ns: 0,
            call_ns: 300,
            wake_ns: 0,
            tell_ns: 0,
            sleep_ns: 0,
            timer_ns: 0,
            tick_late_ns: 0,
            tick_jitter_ns: 0,
            tick_strays: 0,
            tick_stray_ns: 0,
            ipi_least_ns: 200,
            ipi_most_ns: 2_000,
            own_least_ns: 200,
            own_most_ns: 2_000,
        }
    }
}

/// What two CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// They are one.
    Same,
    /// A core.
    Core,
    /// A last-level cache.
    Llc,
    /// A NUMA node.
    Node,
    /// Memory across nodes only.
    Machine,
}

/// CPUs, numbered so that neighbours share most: the two of a core, then a cache, then a
/// node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    cpus: usize,
    llcs: usize,
    nodes: usize,
    /// CPUs of each cache, and of each node.
    of_llc: usize,
    of_node: usize,
    smt: bool,
    /// Numbers after those of the CPUs that stand for none.
    numbers_without_cpu: usize,
    hz: u32,
    nohz_full: bool,
    base_slice_ns: Option<u64>,
    costs: Costs,
}

impl Machine {
    /// CPUs that are all alike: a core each, under one cache, at 250 Hz, without costs.
    ///
    /// # Panics
    /// When there is none, or more than are modelled.
    pub fn cpus(cpus: usize) -> Machine {
        Machine::new(cpus, 1, 1, false).unwrap_or_else(|e| panic!("{e}"))
    }

    /// CPUs under `llcs` last-level caches on `nodes` NUMA nodes, evenly; with `smt`, two
    /// to a core.
    ///
    /// # Errors
    /// When a number is 0, does not divide evenly, or is beyond what is modelled.
    pub fn new(cpus: usize, llcs: usize, nodes: usize, smt: bool) -> Result<Machine> {
        let refused = |cause: String, remedy: String| {
            let attempt =
                format!("model a machine of {cpus} CPUs, {llcs} caches and {nodes} nodes");
            Err(Error::new(Kind::BadInput, attempt, cause).remedy(remedy))
        };
        for (number, name) in [(cpus, "CPUs"), (llcs, "last-level caches"), (nodes, "nodes")] {
            if number == 0 {
                return refused(format!("it has no {name}"), "give 1 at least".into());
            }
        }
        if cpus > MAX_CPUS {
            return refused("there are too many CPUs".into(), format!("give {MAX_CPUS} at most"));
        }
        if !llcs.is_multiple_of(nodes) {
            return refused(
                format!("{llcs} caches cannot be spread evenly over {nodes} nodes"),
                "give a multiple of the nodes".into(),
            );
        }
        let cores = if smt { 2 * llcs } else { llcs };
        if !cpus.is_multiple_of(cores) {
            let each = if smt { " in cores of two" } else { "" };
            return refused(
                format!("{cpus} CPUs cannot be spread evenly over {llcs} caches{each}"),
                format!("give a multiple of {cores} CPUs"),
            );
        }
        let (of_llc, of_node) = (cpus / llcs, cpus / nodes);
        let (numbers_without_cpu, costs) = (0, Costs::default());
        Ok(Machine {
            cpus,
            llcs,
            nodes,
            of_llc,
            of_node,
            smt,
            numbers_without_cpu,
            hz: HZ,
            nohz_full: false,
            base_slice_ns: None,
            costs,
        })
    }

    /// With so many ticks per second.
    ///
    /// # Errors
    /// When no kernel is built with that.
    pub fn hz(mut self, hz: u32) -> Result<Machine> {
        if !HZ_RANGE.contains(&hz) {
            return Err(Error::new(
                Kind::BadInput,
                format!("model a machine with {hz} ticks per second"),
                "no kernel is built so",
            )
            .remedy(format!("give {} to {}", HZ_RANGE.start(), HZ_RANGE.end())));
        }
        self.hz = hz;
        Ok(self)
    }

    /// Whose CPUs but the first take no ticks while they run a task that began with an infinite
    /// slice. The kernel has another CPU make one tick a second in their place; here there is none.
    pub fn nohz_full(mut self) -> Machine {
        self.nohz_full = true;
        self
    }

    /// Whose kernel has its own class ask for so long a slice (`sched/base_slice_ns` in debugfs).
    pub fn base_slice_ns(mut self, ns: u64) -> Machine {
        self.base_slice_ns = Some(ns);
        self
    }

    /// That slice, where it is not the kernel's own choice.
    #[inline]
    pub fn what_base_slice_ns(&self) -> Option<u64> {
        self.base_slice_ns
    }

    /// With these costs.
    pub fn costs(mut self, costs: Costs) -> Machine {
        self.costs = costs;
        self
    }

    /// How many CPUs there are, on line or not.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.llcs
    }

    /// How many NUMA nodes there are.
    pub fn nr_nodes(&self) -> usize {
        self.nodes
    }

    /// What things cost.
    #[inline]
    pub fn what_it_costs(&self) -> Costs {
        self.costs
    }

    /// Whether a CPU may go without ticks.
    #[inline]
    pub fn may_stop_ticks(&self, cpu: usize) -> bool {
        self.nohz_full && cpu > 0
    }

    /// Time between ticks, ns.
    #[inline]
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }

    /// Which last-level cache a CPU is under.
    #[inline]
    pub fn llc_of(&self, cpu: usize) -> usize {
        cpu / self.of_llc
    }

    /// Which NUMA node a CPU is on.
    #[inline]
    pub fn node_of(&self, cpu: usize) -> usize {
        cpu / self.of_node
    }

    /// The CPUs of its core.
    pub fn core(&self, cpu: usize) -> CpuMask {
        let core = self.core_of(cpu);
        CpuMask::range(core.start, core.end)
    }

    /// The numbers of the CPUs of its core.
    #[inline]
    pub fn core_of(&self, cpu: usize) -> std::ops::Range<usize> {
        let size = if self.smt { 2 } else { 1 };
        let first = cpu / size * size;
        first..first + size
    }

    /// The CPUs under its last-level cache.
    pub fn llc(&self, cpu: usize) -> CpuMask {
        self.group(cpu, self.of_llc)
    }

    /// The CPUs of its NUMA node.
    pub fn node(&self, cpu: usize) -> CpuMask {
        self.group(cpu, self.of_node)
    }

    /// With so many numbers more, after those of the CPUs, that stand for none, as on machines
    /// that were built for more of them.
    pub fn with_numbers_without_cpu(mut self, numbers: usize) -> Machine {
        self.numbers_without_cpu = numbers;
        self
    }

    /// How many there are.
    pub fn numbers_without_cpu(&self) -> usize {
        self.numbers_without_cpu
    }

    /// All of them.
    #[inline]
    pub fn all(&self) -> CpuMask {
        CpuMask::first(self.cpus)
    }

    fn group(&self, cpu: usize, size: usize) -> CpuMask {
        let first = cpu / size * size;
        CpuMask::range(first, first + size)
    }

    /// What two CPUs share.
    #[inline]
    pub fn nearness(&self, a: usize, b: usize) -> Nearness {
        if a == b {
            Nearness::Same
        } else if self.smt && a / 2 == b / 2 {
            Nearness::Core
        } else if self.llc_of(a) == self.llc_of(b) {
            Nearness::Llc
        } else if self.node_of(a) == self.node_of(b) {
            Nearness::Node
        } else {
            Nearness::Machine
        }
    }

    /// What a switch costs more in the kernel's own class to a task that is below so many levels of
    /// cgroups, where so many cgroups have tasks that want the CPU, ns.
    #[inline]
    pub fn groups_ns(&self, levels: usize, queued: usize) -> u64 {
        let doublings = u64::from((queued as u64 + 1).ilog2());
        levels as u64 * (self.costs.group_level_ns + doublings * self.costs.group_queued_ns)
    }

    /// What a task's first run on CPU `to` costs that ran on `from` before, ns.
    #[inline]
    pub fn migration_ns(&self, from: usize, to: usize) -> u64 {
        match self.nearness(from, to) {
            Nearness::Same => 0,
            Nearness::Core => self.costs.migration_core_ns,
            Nearness::Llc => self.costs.migration_llc_ns,
            Nearness::Node => self.costs.migration_node_ns,
            Nearness::Machine => self.costs.migration_across_ns,
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} CPUs", self.cpus)?;
        if self.llcs > 1 {
            write!(f, ", {} caches", self.llcs)?;
        }
        if self.nodes > 1 {
            write!(f, ", {} nodes", self.nodes)?;
        }
        if self.smt {
            write!(f, ", SMT")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_most() {
        let machine = Machine::new(64, 8, 2, true).unwrap();
        for (other, shared) in [
            (0, Nearness::Same),
            (1, Nearness::Core),
            (2, Nearness::Llc),
            (7, Nearness::Llc),
            (8, Nearness::Node),
            (31, Nearness::Node),
            (32, Nearness::Machine),
        ] {
            assert_eq!(machine.nearness(0, other), shared, "{other}");
            assert_eq!(machine.nearness(other, 0), shared, "{other}");
        }
        assert_eq!(machine.core(5), CpuMask::range(4, 6));
        assert_eq!(machine.llc(13), CpuMask::range(8, 16));
        assert_eq!(machine.node(40), CpuMask::range(32, 64));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        for (cpus, llcs, nodes, smt, cause) in [
            (0, 1, 1, false, "no CPUs"),
            (4, 0, 1, false, "no last-level caches"),
            (4, 1, 0, false, "no nodes"),
            (2_000, 1, 1, false, "too many CPUs"),
            (12, 3, 2, false, "3 caches cannot be spread evenly over 2 nodes"),
            (10, 4, 2, false, "10 CPUs cannot be spread evenly over 4 caches"),
            (12, 4, 2, true, "12 CPUs cannot be spread evenly over 4 caches in cores of two"),
        ] {
            let said = Machine::new(cpus, llcs, nodes, smt).unwrap_err().to_string();
            assert!(said.contains(cause) && said.contains("give "), "{said}");
        }
        assert!(Machine::cpus(1).hz(10).is_err());
        assert_eq!(Machine::cpus(1).hz(1000).unwrap().tick_ns(), 1_000_000);
    }

    #[test]
    fn costs_go_through_a_file_unchanged() {
        let costs = Costs { switch_ns: 1_500, migration_across_ns: 20_000, ..Costs::default() };
        let text = serde_json::to_string(&costs).unwrap();
        assert_eq!(serde_json::from_str::<Costs>(&text).unwrap(), costs);
        assert_eq!(serde_json::from_str::<Costs>("{}").unwrap(), Costs::default());
        assert!(serde_json::from_str::<Costs>(r#"{"swich_ns": 1}"#).is_err());
    }
}
