//! What a CPU runs next: the slice, the local queue, the policy's dispatch, the
//! tick and the kicks.

use crate::abi::scx;
use crate::callbacks::Callback;
use crate::dsq::DsqRef;
use crate::kernel::{Event, Kernel, Kick, May};
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::What;

/// How often dispatch is asked again when what it gave is gone (SCX_DSP_MAX_LOOPS).
const DISPATCH_LOOPS: u32 = 32;

/// What a CPU runs next.
#[derive(PartialEq)]
enum Verdict {
    Keep,
    FromLocal,
}

impl Kernel {
    /// Charges the current task of `cpu` for the time since the last charge.
    pub(crate) fn update_curr(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        let now = self.clock.now;
        let ran = now - self.tasks[id].exec_start;
        let worked = ran - self.cpus[cpu].costs.take(ran);
        let task = &mut self.tasks[id];
        task.exec_start = now;
        task.figures.ran_ns += worked;
        task.remaining = task.remaining.saturating_sub(worked);
        let c = task.c_mut();
        c.se.exec_start = now;
        c.se.sum_exec_runtime += ran;
        if c.scx.slice != scx::SLICE_INF {
            c.scx.slice = c.scx.slice.saturating_sub(ran);
        }
        if self.load.class == Class::Fair {
            self.fair_charge(cpu, id, ran);
        }
    }

    /// The scheduler proper: what `cpu` runs from now on.
    pub(crate) fn schedule(&mut self, cpu: usize) {
        self.cpus[cpu].resched = false;
        if self.cpus[cpu].taken {
            return;
        }
        let previous = self.cpus[cpu].curr;
        let next = match self.load.class {
            Class::Fair => self.fair_pick(cpu, previous),
            Class::Ext => self.pick_task(cpu, previous),
        };
        let after_stopper = std::mem::take(&mut self.cpus[cpu].stopper);
        if next != previous || after_stopper {
            self.switch(cpu, previous, next, after_stopper);
        } else if next.is_none() {
            // Idle to idle: the CPU was claimed, and given no task.
            self.mark_idle(cpu, true);
        }
        if self.load.class == Class::Fair {
            self.fair_set_timer(cpu);
        }
        if !self.cpus.active.has(cpu) && self.cpus[cpu].curr.is_some() {
            self.push_later(cpu);
        }
        self.run_deferred();
    }

    fn pick_task(&mut self, cpu: usize, previous: Option<TaskId>) -> Option<TaskId> {
        self.cpus[cpu].in_balance = true;
        let verdict = self.balance_one(cpu, previous);
        self.cpus[cpu].in_balance = false;
        let next = match verdict {
            Some(Verdict::Keep) => previous,
            _ => self.cpus[cpu].local.first(),
        };
        if let Some(next) = next
            && self.tasks[next].c().scx.slice == 0
        {
            self.tasks[next].c_mut().scx.slice = self.default_slice_ns();
        }
        next
    }

    fn balance_one(&mut self, cpu: usize, previous: Option<TaskId>) -> Option<Verdict> {
        let keeps_slice = |k: &Kernel| {
            let keeps = |p: TaskId| k.tasks[p].queued() && k.tasks[p].c().scx.slice > 0;
            previous.is_some_and(keeps) && !k.load.bypass
        };
        self.update_curr(cpu);
        if keeps_slice(self) {
            return Some(Verdict::Keep);
        }
        if !self.cpus[cpu].local.is_empty() || self.consume(cpu, DsqRef::Global) {
            return Some(Verdict::FromLocal);
        }
        let mut loops = DISPATCH_LOOPS;
        let asks =
            !self.program.ops.dispatch.is_null() && !self.load.bypass && self.cpus.active.has(cpu);
        while asks && self.fault().is_none() {
            self.dispatch.moved = 0;
            let p = previous.map_or(0, |p| self.pointer(p));
            let args = [cpu as u64, p, 0];
            self.call(self.program.ops.dispatch, Callback::Dispatch, cpu, May::Dispatch, args);
            self.flush_dispatch_buf(cpu);
            if keeps_slice(self) {
                return Some(Verdict::Keep);
            }
            if !self.cpus[cpu].local.is_empty() || self.consume(cpu, DsqRef::Global) {
                return Some(Verdict::FromLocal);
            }
            loops -= 1;
            if loops == 0 {
                self.kick(cpu, 0);
                break;
            }
            if self.dispatch.moved == 0 {
                break;
            }
        }
        let alone = previous.is_some_and(|p| self.tasks[p].queued());
        let enqueues_last = self.program.ops.flags & scx::OPS_ENQ_LAST != 0 && !self.load.bypass;
        (alone && !enqueues_last).then_some(Verdict::Keep)
    }

    fn switch(
        &mut self,
        cpu: usize,
        previous: Option<TaskId>,
        next: Option<TaskId>,
        after_stopper: bool,
    ) {
        match previous {
            Some(id) => self.put_prev_task(cpu, id, next),
            None if after_stopper => {}
            None => self.update_idle(cpu, false),
        }
        self.cpus[cpu].epoch += 1;
        self.cpus[cpu].switches += 1;
        if let Some(id) = previous.filter(|id| self.tasks[*id].queued()) {
            self.sched_info_depart(id);
        }
        match next {
            Some(id) => {
                self.cost_of_switch(cpu, id);
                self.set_next_task(cpu, id);
                self.sched_info_arrive(id);
            }
            None => {
                self.cpus[cpu].curr = None;
                self.cost_begins_idle(cpu);
                self.update_idle(cpu, true);
            }
        }
    }

    pub(crate) fn put_prev_task(&mut self, cpu: usize, id: TaskId, next: Option<TaskId>) {
        self.update_curr(cpu);
        let runnable = self.tasks[id].queued();
        self.observe(cpu, Some(id), What::Stop { runnable });
        if !runnable {
            return;
        }
        self.tasks[id].c_mut().nivcsw += 1;
        self.tasks[id].figures.involuntary_switches += 1;
        self.tasks[id].runnable_since = Some(self.clock.now);
        let p = self.pointer(id);
        self.call(self.program.ops.stopping, Callback::Stopping, cpu, May::Look, [p, 1, 0]);
        let head = self.load.class == Class::Ext && !self.load.bypass;
        if head && self.tasks[id].c().scx.slice > 0 {
            self.dispatch_enqueue(cpu, DsqRef::Local(cpu), id, scx::ENQ_HEAD);
        } else {
            let flags = if next.is_none() { scx::ENQ_LAST } else { 0 };
            self.do_enqueue_task(id, flags, None);
        }
    }

    fn set_next_task(&mut self, cpu: usize, id: TaskId) {
        self.dispatch_dequeue(id);
        let now = self.clock.now;
        let task = &mut self.tasks[id];
        task.exec_start = now;
        task.c_mut().se.exec_start = now;
        let waited = now - task.runnable_since.take().unwrap_or(now);
        task.waits_ns.push(waited);
        task.figures.waited_ns += waited;
        task.figures.waits += 1;
        task.figures.longest_wait_ns = task.figures.longest_wait_ns.max(waited);
        task.figures.first_run_ns.get_or_insert(now);
        self.observe(cpu, Some(id), What::Start);
        let p = self.pointer(id);
        self.call(self.program.ops.running, Callback::Running, cpu, May::Look, [p, 0, 0]);
        self.cpus[cpu].curr = Some(id);
        if self.load.class == Class::Fair {
            self.fair_begin(cpu, id);
        }
        self.plan_run_end(cpu);
        // Only now, as in the kernel: a task that goes on with another slice changes nothing.
        let infinite =
            self.load.class == Class::Ext && self.tasks[id].c().scx.slice == scx::SLICE_INF;
        self.cpus[cpu].tickless = infinite && self.machine.may_stop_ticks(cpu);
        if !self.cpus[cpu].tickless {
            self.ticks_again(cpu);
        }
    }

    /// The CPU takes ticks from now on, while it is busy.
    pub(crate) fn ticks_again(&mut self, cpu: usize) {
        self.cpus[cpu].tickless = false;
        if !std::mem::replace(&mut self.cpus[cpu].ticking, true) {
            self.next_tick(cpu);
        }
    }

    /// A higher scheduling class, as of real-time tasks, has a CPU for so long. What runs there
    /// waits in the local queue with the rest of its slice; kicks find nobody.
    pub fn take_cpu(&mut self, cpu: usize, for_ns: u64) {
        if !self.cpus.active.has(cpu) || std::mem::replace(&mut self.cpus[cpu].taken, true) {
            return;
        }
        self.note(&format!("a higher class has CPU {cpu} for {for_ns} ns"));
        match self.cpus[cpu].curr {
            Some(id) => self.take_from(cpu, id),
            None => self.update_idle(cpu, false),
        }
        self.schedule_at(self.clock.now + for_ns, Event::GiveBack(cpu));
    }

    /// A task gives its CPU up to a higher scheduling class.
    pub(crate) fn take_from(&mut self, cpu: usize, id: TaskId) {
        self.put_prev_task(cpu, id, Some(id));
        self.sched_info_depart(id);
        self.cpus[cpu].curr = None;
        self.cost_begins_idle(cpu);
        self.cpus[cpu].epoch += 1;
    }

    pub(crate) fn give_back(&mut self, cpu: usize) {
        self.cpus[cpu].taken = false;
        self.cpus[cpu].stopper = true;
        self.schedule(cpu);
    }

    pub(crate) fn update_idle(&mut self, cpu: usize, idle: bool) {
        self.observe(cpu, None, if idle { What::Idle } else { What::Busy });
        self.mark_idle(cpu, idle);
        if !self.load.bypass {
            let args = [cpu as u64, idle.into(), 0];
            self.call(self.program.ops.update_idle, Callback::UpdateIdle, cpu, May::Look, args);
        }
    }

    /// How many ticks a CPU has taken.
    pub fn ticks(&self, cpu: usize) -> u64 {
        self.cpus[cpu].ticks
    }

    /// The timer interrupt of a busy CPU; an idle one has none.
    pub(crate) fn tick(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr.filter(|_| !self.cpus[cpu].tickless) else {
            self.cpus[cpu].ticking = false;
            return;
        };
        self.cpus[cpu].ticks += 1;
        self.next_tick(cpu);
        self.update_curr(cpu);
        if self.load.class == Class::Fair {
            return self.fair_tick(cpu, id);
        }
        if self.load.bypass {
            self.tasks[id].c_mut().scx.slice = 0;
        } else {
            let p = self.pointer(id);
            self.call(self.program.ops.tick, Callback::Tick, cpu, May::Look, [p, 0, 0]);
        }
        if self.tasks[id].c().scx.slice == 0 {
            self.schedule_after_tick(cpu);
        }
    }

    /// The task's clock stops, and the next one's begins, when the interrupt is over.
    pub(crate) fn schedule_after_tick(&mut self, cpu: usize) {
        match self.machine.what_it_costs().tick_late_ns {
            0 => self.schedule(cpu),
            late_ns => {
                if !std::mem::replace(&mut self.cpus[cpu].resched, true) {
                    self.schedule_at(self.clock.now + late_ns, Event::Resched(cpu));
                }
            }
        }
    }

    /// Kicks take effect after the callback, by an interrupt. What a CPU asks of another before
    /// that has come is one kick, as in the kernel, which keeps a set of CPUs for each.
    pub(crate) fn kick(&mut self, cpu: usize, flags: u64) {
        self.observe(cpu, None, What::Kick { preempt: flags & scx::KICK_PREEMPT != 0 });
        let delay = self.ipi_delay();
        // A kick that waits for a busy CPU spins until that has come to choose anew.
        let here = self.calls.context.cpu;
        if flags & scx::KICK_WAIT != 0 && here != cpu && self.cpus[cpu].curr.is_some() {
            self.cost(here, delay);
        }
        let if_idle = flags & scx::KICK_IDLE != 0;
        let asked = self.cpus[here].kicks.iter_mut();
        match asked.into_iter().find(|kick| kick.cpu == cpu && kick.if_idle == if_idle) {
            Some(kick) => kick.flags |= flags,
            None => {
                self.cpus[here].kicks.push(Kick { cpu, if_idle, flags });
                let kick = Event::Kick { from: here as u32, cpu: cpu as u32, if_idle };
                self.schedule_at(self.clock.now + delay, kick);
            }
        }
    }

    pub(crate) fn kicked(&mut self, from: usize, cpu: usize, if_idle: bool) {
        let kicks = &mut self.cpus[from].kicks;
        let place = kicks.iter().position(|kick| kick.cpu == cpu && kick.if_idle == if_idle);
        let flags = kicks.swap_remove(place.expect("the kernel has asked for it")).flags;
        if !self.cpus.online.has(cpu) {
            return;
        }
        let current = self.cpus[cpu].curr;
        if flags & scx::KICK_IDLE != 0 && current.is_some() {
            return;
        }
        if let Some(id) = current
            && flags & scx::KICK_PREEMPT != 0
        {
            self.tasks[id].c_mut().scx.slice = 0;
        }
        self.schedule(cpu);
    }
}
