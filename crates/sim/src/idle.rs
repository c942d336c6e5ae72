//! The kernel's default search for an idle CPU. All CPUs are alike here: SMT,
//! last-level caches and NUMA nodes are not modelled, nor are synchronous
//! wake-ups, so of the kernel's rules two are left: the previous CPU if it is
//! idle, else any idle CPU.

use crate::abi::CpuMask;
use crate::kernel::Kernel;
use crate::task::TaskId;

impl Kernel {
    /// Claims an idle CPU for a task.
    pub(crate) fn select_cpu_dfl(&mut self, id: TaskId, previous: usize) -> Option<usize> {
        let allowed = self.tasks[id.0].c().cpus_mask;
        if allowed.has(previous) && self.test_and_clear_idle(previous) {
            return Some(previous);
        }
        self.pick_idle(&allowed)
    }

    /// Claims any idle CPU of a set. The search starts behind the last one found,
    /// as the kernel's does, so that tasks spread.
    pub(crate) fn pick_idle(&mut self, allowed: &CpuMask) -> Option<usize> {
        let cpu = self.distribute(&self.idle.and(allowed))?;
        self.idle.clear(cpu);
        Some(cpu)
    }

    /// One CPU of a set, another one each time.
    pub(crate) fn distribute(&mut self, mask: &CpuMask) -> Option<usize> {
        let from = self.next_distributed;
        let cpu = mask.iter().find(|cpu| *cpu >= from).or_else(|| mask.iter().next())?;
        self.next_distributed = cpu + 1;
        Some(cpu)
    }

    /// Claims a CPU if it is idle.
    pub(crate) fn test_and_clear_idle(&mut self, cpu: usize) -> bool {
        let idle = self.idle.has(cpu);
        self.idle.clear(cpu);
        idle
    }
}
