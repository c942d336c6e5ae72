//! The kernel's built-in tracking of idle CPUs and its default search for one, after
//! kernel/sched/ext/idle.c of Linux 7.2: whole idle cores before idle siblings of busy
//! ones, the previous CPU before others, its cache before its node before the machine.

use crate::abi::{CpuMask, scx};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::TaskId;

/// Which CPUs are idle and nobody has claimed yet. That an idle CPU may be missing here is
/// the kernel's way, and mends itself when it next finds nothing to do.
pub(crate) struct Idle {
    pub cpus: CpuMask,
    /// Those whose whole core is; looked at only where there is SMT.
    pub cores: CpuMask,
    /// Renewed whenever a CPU goes off line or comes back.
    pub searched: Searched,
}

impl Idle {
    /// All CPUs are idle, and their cores.
    pub fn new(machine: &Machine, all: CpuMask) -> Self {
        Idle { cpus: all, cores: all, searched: Searched::of(machine, &all) }
    }

    /// CPUs are found to be idle when they next look for work.
    pub fn forget(&mut self) {
        (self.cpus, self.cores) = Default::default();
    }
}

/// What the search looks at of the machine, as of the last change of what is on line.
#[derive(Default)]
pub(crate) struct Searched {
    /// Some core has two CPUs.
    pub smt: bool,
    /// There is more than one cache.
    llc: bool,
    /// There is more than one node, and nodes are not the same sets as caches.
    node: bool,
}

impl Searched {
    /// `active`: the CPUs that schedule tasks.
    pub fn of(machine: &Machine, active: &CpuMask) -> Searched {
        let Some(first) = active.iter().next() else { return Searched::default() };
        let all = active.count();
        let of_llc = |cpu| machine.llc(cpu).and(active).count();
        let of_node = |cpu| machine.node(cpu).and(active).count();
        Searched {
            smt: active.iter().any(|cpu| machine.core(cpu).and(active).count() > 1),
            llc: of_llc(first) < all,
            node: of_node(first) < all && active.iter().any(|cpu| of_llc(cpu) != of_node(cpu)),
        }
    }
}

impl Kernel {
    /// Writes down that a CPU has become idle, or busy.
    pub(crate) fn mark_idle(&mut self, cpu: usize, idle: bool) {
        if idle {
            self.idle.cpus.set(cpu);
        } else {
            self.idle.cpus.clear(cpu);
        }
        if !self.idle.searched.smt {
            return;
        }
        let online = &self.cpus.online;
        let core = self.machine.core_of(cpu).filter(|cpu| online.has(*cpu));
        if !idle {
            core.for_each(|cpu| self.idle.cores.clear(cpu));
        } else if core.clone().all(|cpu| self.idle.cpus.has(cpu)) {
            core.for_each(|cpu| self.idle.cores.set(cpu));
        }
    }

    /// Claims a CPU if it is idle. Its core is not wholly idle either way.
    pub(crate) fn test_and_clear_idle(&mut self, cpu: usize) -> bool {
        if self.idle.searched.smt {
            let online = &self.cpus.online;
            let core = self.machine.core_of(cpu).filter(|cpu| online.has(*cpu));
            core.for_each(|cpu| self.idle.cores.clear(cpu));
            // One that is off line is no part of its core any more.
            self.idle.cores.clear(cpu);
        }
        let idle = self.idle.cpus.has(cpu);
        self.idle.cpus.clear(cpu);
        idle
    }

    /// One CPU of a set, another one each time that CPU `here` asks.
    pub(crate) fn distribute(&mut self, here: usize, mask: &CpuMask) -> Option<usize> {
        let cpu = mask.next_from(self.cpus[here].distributed + 1)?;
        self.cpus[here].distributed = cpu;
        Some(cpu)
    }

    /// Claims an idle CPU of a set, one of an idle core if there is any.
    pub(crate) fn pick_idle(&mut self, here: usize, set: &CpuMask, flags: u64) -> Option<usize> {
        if self.idle.searched.smt {
            // Each that was claimed by itself before is taken out of the cores here.
            while let Some(cpu) = self.distribute(here, &self.idle.cores.and(set)) {
                if self.test_and_clear_idle(cpu) {
                    return Some(cpu);
                }
            }
            if flags & scx::PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        let cpu = self.distribute(here, &self.idle.cpus.and(set))?;
        self.test_and_clear_idle(cpu).then_some(cpu)
    }

    /// Claims an idle CPU for a task that is woken on CPU `here`. The claim of the waker's
    /// own CPU, for a synchronous wake-up, counts although it is busy: it will not be for
    /// long.
    pub(crate) fn select_cpu_dfl(
        &mut self,
        id: TaskId,
        here: usize,
        previous: usize,
        wake_flags: u64,
        within: Option<&CpuMask>,
        flags: u64,
    ) -> Option<usize> {
        // Nothing can be found, and nothing changes by looking for it.
        if self.idle.cpus.is_empty() && self.idle.cores.is_empty() {
            return None;
        }
        let mask = self.tasks[id].c().cpus_mask;
        let allowed = within.map_or(mask, |within| within.and(&mask));
        if allowed.is_empty() {
            return None;
        }
        let known = allowed.has(previous);
        if wake_flags & scx::WAKE_SYNC != 0
            && let Some(cpu) = self.select_for_sync(here, previous, known, &allowed)
        {
            return Some(cpu);
        }
        if self.idle.searched.smt {
            if known && self.idle.cores.has(previous) && self.test_and_clear_idle(previous) {
                return Some(previous);
            }
            let found = self.pick_nearby(here, previous, &allowed, scx::PICK_IDLE_CORE);
            if found.is_some() || flags & scx::PICK_IDLE_CORE != 0 {
                return found;
            }
        }
        if known && self.test_and_clear_idle(previous) {
            return Some(previous);
        }
        if self.idle.searched.smt {
            for cpu in self.machine.core_of(previous) {
                let usable = cpu != previous && self.cpus.online.has(cpu) && allowed.has(cpu);
                if usable && self.test_and_clear_idle(cpu) {
                    return Some(cpu);
                }
            }
        }
        self.pick_nearby(here, previous, &allowed, 0)
    }

    /// Claims an idle CPU of a set: under the cache of a CPU, on its node, or anywhere.
    fn pick_nearby(
        &mut self,
        here: usize,
        previous: usize,
        allowed: &CpuMask,
        flags: u64,
    ) -> Option<usize> {
        let Searched { llc, node, .. } = self.idle.searched;
        if llc {
            let near = self.machine.llc(previous).and(&self.cpus.active).and(allowed);
            if let Some(cpu) = self.pick_idle(here, &near, flags) {
                return Some(cpu);
            }
        }
        if node {
            let near = self.machine.node(previous).and(&self.cpus.active).and(allowed);
            if let Some(cpu) = self.pick_idle(here, &near, flags) {
                return Some(cpu);
            }
        }
        self.pick_idle(here, allowed, flags)
    }

    /// A synchronous wake-up: the waker says that it is about to sleep.
    fn select_for_sync(
        &mut self,
        here: usize,
        previous: usize,
        known: bool,
        allowed: &CpuMask,
    ) -> Option<usize> {
        let shares_cache = self.machine.llc_of(here) == self.machine.llc_of(previous);
        if known && shares_cache && self.test_and_clear_idle(previous) {
            return Some(previous);
        }
        let exits =
            self.cpus[here].curr.is_some_and(|id| self.tasks[id].c().flags & scx::PF_EXITING != 0);
        // The machine has room, and no task waits here that came first.
        let room = self.cpus[here].local.is_empty() && !self.idle.cpus.is_empty();
        if exits || !room || !allowed.has(here) {
            return None;
        }
        self.test_and_clear_idle(here);
        Some(here)
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::scx;
    use crate::{Machine, TaskSpec, exactly, ms, policy, us};
    use std::cell::Cell;
    use std::rc::Rc;

    /// Where a task goes that is woken by a hog on CPU 0 of a machine of two caches, having
    /// run on CPU 2 last, beside hogs on these CPUs.
    fn woken(flags: u64, busy: &[usize], allowed: &[usize]) -> usize {
        let found = Rc::new(Cell::new(usize::MAX));
        let seen = Rc::clone(&found);
        let allowed = allowed.iter().copied().collect();
        let mut run = policy("a wake-up", "fifo").machine(Machine::new(4, 2, 1, false).unwrap());
        for cpu in busy {
            run = run.task(TaskSpec::hog(format!("hog {cpu}")).only_on([*cpu]).arrives(ms(5)));
        }
        run.task(TaskSpec::named("it").only_on([2]).run(exactly(us(100))).sleep(exactly(ms(900))))
            .at(ms(50), move |kernel| {
                let it = kernel.task_named("it");
                kernel.set_affinity(it, allowed);
                kernel.wake_up(it, 0, scx::WAKE_TTWU | flags);
                seen.set(kernel.cpu_of(it));
            })
            // Behind a waker that does not sleep it waits for the end of a slice of 20 ms.
            .idle_at_most(ms(24))
            .run_for(ms(80))
            .pass();
        found.get()
    }

    #[test]
    fn a_synchronous_wake_up_goes_to_the_wakers_cpu_unless_that_is_farther_away() {
        let sync = scx::WAKE_SYNC;
        let all = [0, 1, 2, 3];
        // Its own CPU is idle, and under another cache than the waker's.
        assert_eq!(woken(sync, &[0], &all), 0);
        assert_eq!(woken(0, &[0], &all), 2);
        // Its own CPU is busy: the waker's, or an idle one near its own.
        assert_eq!(woken(sync, &[0, 2], &all), 0);
        assert_eq!(woken(0, &[0, 2], &all), 3);
        // The waker's may not be used, or the machine has no room.
        assert_eq!(woken(sync, &[0, 2], &[1, 2, 3]), 3);
        assert_eq!(woken(sync, &[0, 1, 2, 3], &all), 2);
    }
}
