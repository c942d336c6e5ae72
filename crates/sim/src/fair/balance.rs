//! On which CPU tasks of the fair class run: where they wake, and which are moved.

use crate::abi::{CpuMask, scx};
use crate::kernel::Kernel;
use crate::task::TaskId;

/// A busy CPU looks at the others once in so many ticks.
const BALANCE_TICKS: u64 = 4;
/// By how many per cent more the CPU of before may have to do than the waker's, half of
/// `imbalance_pct`.
const WAKE_BIAS: u64 = 108;

impl Kernel {
    /// Where a task wakes: near the CPU that it was on, or near its waker.
    pub(crate) fn fair_select_cpu(&mut self, id: TaskId, waker: usize, wake_flags: u64) -> usize {
        let allowed = self.tasks[id].c().cpus_mask.and(&self.cpus.active);
        if wake_flags & scx::WAKE_FORK != 0 {
            let near = self.machine.llc(waker).and(&allowed);
            let idle =
                self.pick_idle(waker, &near, 0).or_else(|| self.pick_idle(waker, &allowed, 0));
            return idle.or_else(|| self.least_loaded(&allowed)).unwrap_or(waker);
        }
        let previous = self.tasks[id].cpu;
        let target = self.pull_to_waker(id, waker, wake_flags, &allowed);
        for cpu in [target, previous] {
            let near = self.machine.llc_of(cpu) == self.machine.llc_of(target);
            if near && allowed.has(cpu) && (self.test_and_clear_idle(cpu) || self.gives_way(cpu)) {
                return cpu;
            }
        }
        let near = self.machine.llc(target).and(&allowed);
        self.pick_idle(waker, &near, 0).unwrap_or(target)
    }

    /// Whether all that a CPU has to do gives way to others.
    fn gives_way(&self, cpu: usize) -> bool {
        let queue = &self.cpus[cpu].fair;
        queue.idle > 0 && queue.idle == queue.timeline.count()
    }

    /// The CPU where the search begins: the task's own or the waker's.
    fn pull_to_waker(&self, id: TaskId, waker: usize, wake_flags: u64, allowed: &CpuMask) -> usize {
        let previous = self.tasks[id].cpu;
        if !allowed.has(waker) {
            return previous;
        }
        if !self.cpus.active.has(previous) {
            return waker;
        }
        let (idle, near) =
            (&self.idle.cpus, self.machine.llc_of(previous) == self.machine.llc_of(waker));
        if idle.has(waker) && near {
            return if idle.has(previous) { previous } else { waker };
        }
        let sync = wake_flags & scx::WAKE_SYNC != 0;
        if sync && self.at_work(waker) == 1 {
            return waker;
        }
        if idle.has(previous) {
            return previous;
        }
        // Who is about to sleep does not count, and the task itself does where it comes to.
        let current = self.cpus[waker].fair.timeline.current.map_or(0, |current| current.weight);
        let own = self.tasks[id].fair.entity.weight;
        let here = self.weight_on(waker) - if sync { current } else { 0 } + own;
        let there = self.weight_on(previous);
        if here * 100 < there * WAKE_BIAS + u64::from(sync) { waker } else { previous }
    }

    /// How many want to run on a CPU.
    fn at_work(&self, cpu: usize) -> usize {
        let timeline = &self.cpus[cpu].fair.timeline;
        timeline.count() - timeline.waiting().iter().filter(|waits| waits.delayed).count()
    }

    /// The weights of all that runs on a CPU or waits for it.
    fn weight_on(&self, cpu: usize) -> u64 {
        self.cpus[cpu].fair.timeline.weight()
    }

    fn least_loaded(&self, set: &CpuMask) -> Option<usize> {
        set.iter().min_by_key(|cpu| self.weight_on(*cpu))
    }

    /// A CPU with nothing to do takes a task that waits elsewhere, from as near as there is
    /// one.
    pub(super) fn pull(&mut self, cpu: usize) {
        if self.fair_class.waiting == 0 || !self.cpus.active.has(cpu) {
            return;
        }
        for set in [self.machine.llc(cpu), self.machine.node(cpu), self.machine.all()] {
            let from = set.iter().max_by_key(|from| {
                let any = self.movable(*from, cpu).is_some();
                (any, if any { self.weight_on(*from) } else { 0 }, usize::MAX - from)
            });
            if let Some(id) = from.and_then(|from| self.movable(from, cpu)) {
                return self.fair_move(id, cpu);
            }
        }
    }

    /// The task of a queue that may go to another CPU and whose turn is last.
    fn movable(&self, from: usize, to: usize) -> Option<TaskId> {
        if from == to {
            return None;
        }
        let mut waiting = self.cpus[from].fair.timeline.waiting().iter().rev();
        waiting.find(|waits| !waits.delayed && self.may_run_on(waits.id, to)).map(|waits| waits.id)
    }

    fn fair_move(&mut self, id: TaskId, to: usize) {
        self.fair_leave(id, false);
        self.sched_info_dequeue(id);
        self.set_task_cpu(id, to);
        self.fair_enqueue(id);
        self.sched_info_enqueue(id);
        if self.cpus[to].curr.is_none() {
            self.mark_idle(to, false);
            self.resched(to);
        } else if self.fair_preempts(id, to, 0) {
            self.cpus[to].fair.lazy = true;
        }
    }

    /// An idle CPU has no timer: a busy one with more than it can run looks for it.
    pub(super) fn lend_to_idle(&mut self, cpu: usize) {
        if self.cpus[cpu].fair.timeline.waiting().is_empty() {
            return;
        }
        let idle = self.idle.cpus.and(&self.cpus.active);
        let near = idle.and(&self.machine.llc(cpu));
        for to in near.iter().chain(idle.but(&near).iter()) {
            let Some(id) = self.movable(cpu, to) else { continue };
            if self.test_and_clear_idle(to) {
                return self.fair_move(id, to);
            }
        }
    }

    pub(super) fn balance_now_and_then(&mut self, cpu: usize) {
        let ticks = self.clock.now / self.machine.tick_ns();
        if (ticks + cpu as u64).is_multiple_of(BALANCE_TICKS) {
            self.balance(cpu);
        }
    }

    /// Takes a task from the CPU with most to do, if that makes both more alike.
    fn balance(&mut self, cpu: usize) {
        if self.fair_class.waiting == 0 {
            return;
        }
        let own = self.weight_on(cpu);
        let Some(from) = self.cpus.active.iter().max_by_key(|from| {
            let near = self.machine.nearness(cpu, *from);
            (self.weight_on(*from), std::cmp::Reverse(near), usize::MAX - from)
        }) else {
            return;
        };
        let theirs = self.weight_on(from);
        let Some(id) = self.movable(from, cpu) else { return };
        if own + self.tasks[id].fair.entity.weight < theirs {
            self.fair_move(id, cpu);
        }
    }
}
