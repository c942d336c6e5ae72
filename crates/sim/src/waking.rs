//! How a task becomes runnable, sleeps, yields and dies; how it changes from
//! outside, by a new weight or affinity. This file, `enqueue.rs` and `schedule.rs`
//! are the sched_ext scheduling class. Which callback is called when follows
//! kernel/sched/ext/ext.c of Linux 7.2; functions bear the names of those there.

use crate::abi::{CpuMask, scx};
use crate::callbacks::Callback;
use crate::kernel::{Kernel, May};
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::What;
use std::ffi::c_void;
use std::rc::Rc;

impl Kernel {
    pub(crate) fn pointer(&self, id: TaskId) -> u64 {
        self.tasks[id].raw.pointer() as u64
    }

    /// A task becomes runnable, woken on `waker`.
    pub(crate) fn wake_up(&mut self, id: TaskId, waker: usize, wake_flags: u64) {
        self.cost(waker, self.machine.what_it_costs().wake_ns);
        let outer = self.calls.waking_on.replace(waker);
        self.observe(waker, Some(id), What::Wake);
        self.tasks[id].runnable_since = Some(self.clock.now);
        self.tasks[id].doing.wakes(self.clock.now);
        let (cpu, selected) = match self.fair_stays(id) {
            true => (self.tasks[id].cpu, false),
            false => self.select_task_rq(id, waker, wake_flags),
        };
        self.set_task_cpu(id, cpu);
        let woken = if wake_flags & scx::WAKE_FORK == 0 { scx::ENQ_WAKEUP } else { 0 };
        self.enqueue_task(id, woken | if selected { scx::ENQ_CPU_SELECTED } else { 0 }, None);
        // wakeup_preempt(): the idle class gives way to any other.
        if self.cpus[cpu].curr.is_none() {
            self.resched(cpu);
        } else if self.load.class == Class::Fair {
            if self.fair_preempts(id, cpu, wake_flags) {
                self.fair_preempt(cpu, waker);
            }
            self.fair_set_timer(cpu);
        }
        if cpu != waker && self.cpus[cpu].curr.is_none() {
            self.cost(waker, self.machine.what_it_costs().tell_ns);
        }
        self.calls.waking_on = outer;
    }

    pub(crate) fn select_task_rq(
        &mut self,
        id: TaskId,
        waker: usize,
        wake_flags: u64,
    ) -> (usize, bool) {
        let previous = self.tasks[id].cpu;
        let c = self.tasks[id].c();
        if c.nr_cpus_allowed == 1 || c.migration_disabled != 0 {
            let only = self.tasks[id].c().cpus_mask.iter().next().unwrap_or(previous);
            let cpu = if self.may_run_on(id, only) { only } else { self.fallback_cpu(id) };
            return (cpu, false);
        }
        let cpu = if self.load.class == Class::Fair {
            self.fair_select_cpu(id, waker, wake_flags)
        } else if self.load.bypass {
            previous
        } else if self.program.ops.select_cpu.is_null() {
            match self.select_cpu_dfl(id, waker, previous, wake_flags, None, 0) {
                Some(cpu) => {
                    self.tasks[id].c_mut().scx.slice = scx::SLICE_DFL;
                    self.tasks[id].direct = Some((scx::DSQ_LOCAL, 0));
                    cpu
                }
                None => previous,
            }
        } else {
            let may = May::InsertOne { task: id, spent: false, selecting: true };
            let args = [self.pointer(id), previous as u64, wake_flags];
            let cpu = self.call(self.program.ops.select_cpu, Callback::SelectCpu, waker, may, args)
                as i32;
            if cpu < 0 || cpu as usize >= self.cpus.len() {
                self.scx_error(format!("invalid CPU {cpu} from ops.select_cpu()"));
            }
            (cpu.max(0) as usize).min(self.cpus.len() - 1)
        };
        self.tasks[id].selected_cpu = cpu;
        // The kernel never trusts the answer.
        let cpu = if self.may_run_on(id, cpu) { cpu } else { self.fallback_cpu(id) };
        (cpu, true)
    }

    pub(crate) fn set_task_cpu(&mut self, id: TaskId, cpu: usize) {
        if self.tasks[id].cpu != cpu {
            self.fair_settle(id);
            self.tasks[id].cpu = cpu;
            if self.tasks[id].figures.first_run_ns.is_some() {
                self.tasks[id].figures.migrations += 1;
            }
            self.observe(cpu, Some(id), What::Migrate);
        }
    }

    /// The current task of `cpu` sleeps, or dies.
    pub(crate) fn block(&mut self, cpu: usize, dies: bool) {
        let id = self.cpus[cpu].curr.expect("only what runs can block");
        self.tasks[id].c_mut().nvcsw += 1;
        self.tasks[id].figures.voluntary_switches += 1;
        self.dequeue_task(id, scx::DEQ_SLEEP, false);
        self.sched_info_dequeue(id);
        self.observe(cpu, Some(id), What::Sleep);
        self.schedule(cpu);
        if dies {
            self.tasks[id].figures.exited_ns = Some(self.clock.now);
            self.observe(cpu, Some(id), What::Exit);
            self.retire(id);
        }
    }

    /// A task is gone, and the policy knows it no more.
    pub(crate) fn retire(&mut self, id: TaskId) {
        self.tasks[id].dead = true;
        self.never_returns(id);
        self.forget_task(id);
        for (map, value) in std::mem::take(&mut self.tasks[id].storage) {
            self.program.maps.memory.delete(map as *mut c_void, value);
        }
        self.grace_period();
    }

    /// sched_yield() by the current task of `cpu`.
    pub(crate) fn yield_now(&mut self, cpu: usize) {
        let id = self.cpus[cpu].curr.expect("only what runs can yield");
        if self.load.class == Class::Fair {
            self.update_curr(cpu);
            self.fair_yield(cpu);
        } else if self.program.ops.yield_.is_null() {
            self.tasks[id].c_mut().scx.slice = 0;
        } else {
            let p = self.pointer(id);
            self.call(self.program.ops.yield_, Callback::Yield, cpu, May::Look, [p, 0, 0]);
        }
        self.schedule(cpu);
        if self.cpus[cpu].curr == Some(id) {
            self.plan_run_end(cpu);
        }
    }

    /// Runs `change` with the task off its queue, and puts it back where it was. Whoever has it
    /// changed is on another CPU where there is one.
    pub(crate) fn changing(&mut self, id: TaskId, change: impl FnOnce(&mut Kernel)) {
        let cpu = self.tasks[id].cpu;
        let outer = self.calls.changer;
        let mut others = (1..self.nr_cpus()).map(|ahead| (cpu + ahead) % self.nr_cpus());
        self.calls.changer = outer.or(others.find(|cpu| self.cpus.active.has(*cpu)));
        self.change_aside(id, cpu, change);
        self.calls.changer = outer;
    }

    fn change_aside(&mut self, id: TaskId, cpu: usize, change: impl FnOnce(&mut Kernel)) {
        let (queued, current) = (self.tasks[id].queued(), self.cpus[cpu].curr == Some(id));
        if queued {
            self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, false);
        }
        self.fair_settle(id);
        change(self);
        if !queued {
            return;
        }
        if !current {
            self.enqueue_task(id, 0, None);
            return;
        }
        // It goes on running: in and out of the local queue without a word.
        let p = self.pointer(id);
        self.tasks[id].c_mut().scx.flags |= scx::TASK_QUEUED;
        self.call(self.program.ops.runnable, Callback::Runnable, cpu, May::Look, [p, 0, 0]);
        self.call(self.program.ops.running, Callback::Running, cpu, May::Look, [p, 0, 0]);
        if self.load.class == Class::Fair {
            self.fair_resume(cpu, id);
        }
    }

    /// Sends SIGKILL to a task: it exits when it has run for another `dying` ns. The scheduling
    /// class is not told of that where the task wants a CPU already, and one that sleeps is not
    /// modelled.
    pub fn kill(&mut self, id: TaskId, dying: u64) {
        let task = &mut self.tasks[id];
        if task.dead {
            return;
        }
        if !task.queued() {
            let name = task.name.clone();
            self.fail("refused", format!("'{name}' is killed in its sleep: it is not modelled"));
            return;
        }
        let cpu = task.cpu;
        if self.cpus[cpu].curr == Some(id) {
            self.update_curr(cpu);
        }
        self.tasks[id].kill(dying);
        if self.cpus[cpu].curr == Some(id) {
            self.plan_run_end(cpu);
        }
    }

    /// Changes the weight of a task, as a new nice value does.
    pub fn set_weight(&mut self, id: TaskId, weight: u32) {
        if self.tasks[id].dead {
            return;
        }
        let cpu = self.tasks[id].cpu;
        self.observe(cpu, Some(id), What::Weight(weight));
        self.changing(id, |kernel| {
            kernel.tasks[id].c_mut().scx.weight = weight;
            let p = kernel.pointer(id);
            kernel.call(
                kernel.program.ops.set_weight,
                Callback::SetWeight,
                cpu,
                May::Look,
                [p, weight.into(), 0],
            );
        });
    }

    /// Changes the CPUs that a task may use, as sched_setaffinity() does. CPUs
    /// that the machine lacks are left out; a set without any that takes tasks is refused.
    pub fn set_affinity(&mut self, id: TaskId, mask: CpuMask) {
        let mask = mask.and(&self.machine.all());
        if self.tasks[id].dead || mask.and(&self.cpus.active).is_empty() {
            return;
        }
        let cpu = self.tasks[id].cpu;
        self.changing(id, |kernel| kernel.set_cpus_allowed(id, mask));
        if mask.has(cpu) || !self.tasks[id].queued() {
            self.observe(cpu, Some(id), What::Allowed(Rc::new(mask)));
            return;
        }
        self.migrate_away(id, cpu, mask);
    }

    /// A task that runs stays on its CPU from now on, as one that has called `migrate_disable()`, twice,
    /// since policies take once for their own doing. How many CPUs it may use the kernel leaves as it is.
    ///
    /// Nothing ends it, and its CPU is not to go off line.
    pub fn disable_migration(&mut self, id: TaskId) {
        let cpu = self.tasks[id].cpu;
        assert_eq!(self.cpus[cpu].curr, Some(id), "a task does so while it runs");
        let c = self.tasks[id].c_mut();
        c.migration_disabled = 2;
        c.cpus_mask = CpuMask::one(cpu);
        self.observe(cpu, Some(id), What::Allowed(Rc::new(CpuMask::one(cpu))));
    }

    /// A task is in a read section of RCU from now on, twice, since the callbacks are in one for their
    /// own doing. Nothing ends it.
    pub fn enter_rcu_section(&mut self, id: TaskId) {
        self.tasks[id].c_mut().rcu_read_lock_nesting = 2;
    }

    /// Writes down where a task may run, and tells the policy. It stands in no queue.
    pub(crate) fn set_cpus_allowed(&mut self, id: TaskId, mask: CpuMask) {
        let c = self.tasks[id].c_mut();
        c.cpus_mask = mask;
        c.nr_cpus_allowed = mask.count() as i32;
        let (cpu, p) = (self.tasks[id].cpu, self.pointer(id));
        let at = self.tasks[id].c().cpus_ptr as u64;
        self.call(self.program.ops.set_cpumask, Callback::SetCpumask, cpu, May::Look, [p, at, 0]);
    }

    /// A task is on a CPU that it may use no more, or that goes off line: the stopper
    /// thread takes the CPU from it if it runs, and moves it.
    pub(crate) fn migrate_away(&mut self, id: TaskId, cpu: usize, mask: CpuMask) {
        let running = self.cpus[cpu].curr == Some(id);
        if running {
            self.take_from(cpu, id);
        }
        self.observe(cpu, Some(id), What::Allowed(Rc::new(mask)));
        self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, true);
        self.sched_info_dequeue(id);
        let there = self.fallback_cpu(id);
        self.set_task_cpu(id, there);
        self.tasks[id].c_mut().scx.flags |= scx::TASK_QUEUED;
        self.do_enqueue_task(id, 0, None);
        self.sched_info_enqueue(id);
        if self.cpus[there].curr.is_none() {
            self.resched(there);
        }
        if running {
            // The stopper thread is done: the CPU chooses anew.
            self.cpus[cpu].stopper = true;
            self.schedule(cpu);
        }
    }
}
