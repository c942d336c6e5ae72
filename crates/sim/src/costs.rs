//! Where the time goes that the kernel takes for itself. It is owed by a CPU, and paid by
//! whatever task runs there next or at this moment: the task makes no headway meanwhile. As
//! in the kernel, whose clock for a task starts before the switch to it, that time is in the
//! task's sum_exec_runtime and comes off its slice; it is not in what the figures say that
//! the task ran.

use crate::kernel::Kernel;
use crate::load::Class;
use crate::task::TaskId;

/// The kernel's time on one CPU.
#[derive(Default)]
pub(crate) struct Charged {
    /// What has still to pass before the CPU's task makes headway, ns.
    pub due_ns: u64,
    /// All that was lost so far, ns.
    pub lost_ns: u64,
    /// Up to when an idle CPU has worked off what it owes.
    pub idle_from: u64,
    /// Since when it is idle.
    pub idle_since: u64,
}

impl Charged {
    /// Of a time that has passed, the kernel's part.
    pub fn take(&mut self, passed_ns: u64) -> u64 {
        let lost = passed_ns.min(self.due_ns);
        self.due_ns -= lost;
        self.lost_ns += lost;
        lost
    }
}

impl Kernel {
    /// A CPU has nothing to run from now on.
    pub(crate) fn cost_begins_idle(&mut self, cpu: usize) {
        self.cpus[cpu].costs.idle_from = self.clock.now;
        self.cpus[cpu].costs.idle_since = self.clock.now;
    }

    /// A timer of its own interrupts an idle CPU. As the kernel knew that it would, the CPU did not
    /// sleep deeply: if it was warm it still is. It does not warm one that was cold.
    pub(crate) fn interrupted_idle(&mut self, cpu: usize) {
        let idle_ns = self.clock.now - self.cpus[cpu].costs.idle_since;
        let warm = idle_ns <= self.machine.what_it_costs().cold_after_ns;
        if warm && self.cpus[cpu].curr.is_none() {
            self.cpus[cpu].costs.idle_since = self.clock.now;
        }
    }

    /// A CPU loses so much from now on.
    pub(crate) fn cost(&mut self, cpu: usize, ns: u64) {
        if ns == 0 && self.cpus[cpu].costs.due_ns == 0 {
            return;
        }
        let (now, idle) = (self.clock.now, self.cpus[cpu].curr.is_none());
        let costs = &mut self.cpus[cpu].costs;
        if idle {
            costs.take(now - costs.idle_from);
            costs.idle_from = now;
        }
        costs.due_ns += ns;
    }

    /// A CPU turns to a task.
    pub(crate) fn cost_of_switch(&mut self, cpu: usize, id: TaskId) {
        let from = self.tasks[id].ran_on.replace(cpu).unwrap_or(cpu);
        let costs = self.machine.what_it_costs();
        let mut ns = costs.switch_ns + self.machine.migration_ns(from, cpu);
        if self.load.class == Class::Fair && costs.group_level_ns + costs.group_queued_ns > 0 {
            ns += self.fair_groups_ns(cpu, id);
        }
        let idle_ns = self.clock.now - self.cpus[cpu].costs.idle_since;
        if self.cpus[cpu].curr.is_none() && idle_ns > costs.cold_after_ns {
            ns += costs.cold_ns;
        }
        self.cost(cpu, ns);
    }
}
