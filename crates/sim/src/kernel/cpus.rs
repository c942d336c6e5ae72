//! The CPUs: what each has, and which of them take part.

use crate::abi::CpuMask;
use crate::costs::Charged;
use crate::dsq::Dsq;
use crate::fair::FairQueue;
use crate::hotplug::Leaving;
use crate::task::TaskId;
use std::ops::{Index, IndexMut};

/// All CPUs that the machine has, by their number.
pub(crate) struct Cpus {
    each: Vec<Cpu>,
    /// Those that are switched on.
    pub online: CpuMask,
    /// Those of them that take tasks: one that goes off line gives up its tasks first. Never none.
    pub active: CpuMask,
    /// Those that take no tasks any more, of which the policy was not told yet.
    pub leaving: Vec<Leaving>,
    /// The tasks whose timers have expired on a CPU that is going off line, and that CPU.
    pub wakes_late: Vec<(usize, TaskId)>,
}

/// One CPU and its run queue.
#[derive(Default)]
pub(crate) struct Cpu {
    pub curr: Option<TaskId>,
    pub local: Dsq,
    /// A reschedule is on its way.
    pub resched: bool,
    /// Tells the present run of a task from earlier ones.
    pub epoch: u64,
    /// The CPU that a search made here found last, see `idle.rs`.
    pub distributed: usize,
    pub ticking: bool,
    /// Its ticks are stopped.
    pub tickless: bool,
    pub ticks: u64,
    pub in_balance: bool,
    /// The last to run was of a higher class, as the kernel's stopper thread is.
    pub stopper: bool,
    /// A higher scheduling class has this CPU.
    pub taken: bool,
    pub switches: u64,
    pub costs: Charged,
    /// What it has of the fair class.
    pub fair: FairQueue,
    /// What it has asked of CPUs for which the interrupt is on its way.
    pub kicks: Vec<Kick>,
}

/// One CPU is to choose anew; as the kernel's sets have it, at once or only if it is idle.
pub(crate) struct Kick {
    pub cpu: usize,
    pub if_idle: bool,
    pub flags: u64,
}

impl Cpus {
    /// All of them are on line and idle.
    pub fn new(all: CpuMask) -> Self {
        Cpus {
            each: (0..all.count()).map(|_| Cpu::default()).collect(),
            online: all,
            active: all,
            leaving: Vec::new(),
            wakes_late: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.each.len()
    }

    pub fn get(&self, cpu: usize) -> Option<&Cpu> {
        self.each.get(cpu)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Cpu> {
        self.each.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Cpu> {
        self.each.iter_mut()
    }
}

impl Index<usize> for Cpus {
    type Output = Cpu;
    fn index(&self, cpu: usize) -> &Cpu {
        &self.each[cpu]
    }
}

impl IndexMut<usize> for Cpus {
    fn index_mut(&mut self, cpu: usize) -> &mut Cpu {
        &mut self.each[cpu]
    }
}
