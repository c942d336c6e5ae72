//! The class in which tasks live while no program is loaded: weighted fair, a queue for
//! each CPU in the order of virtual run time. A simple model of the kernel's fair class, so
//! that a swap of programs can be compared with a lane's replacement, and a policy with the
//! default. **Comparable in shape, not in figures**: the kernel's has deadlines, decaying
//! loads, and domains that are balanced at paces of their own. Cgroups are in `fair/cgroups.rs`.

mod cgroups;

use crate::abi::{CpuMask, scx};
use crate::dsq::DsqRef;
use crate::kernel::Kernel;
use crate::task::TaskId;
use crate::trace::What;
use cgroups::UNIT;
use std::collections::BTreeSet;

pub(crate) use cgroups::FairGroups;

/// How long a task runs on beside one that lags.
const SLICE_NS: u64 = 3_000_000;
/// By how much a task that wakes must lag behind the one that runs to take its CPU.
const WAKE_LAG_NS: u64 = 1_000_000;
/// A busy CPU looks at the others once in so many ticks.
const BALANCE_TICKS: u64 = 4;
/// Where virtual time begins: far from where it could wrap round, either way.
const START: u64 = 1 << 48;

/// Run time scaled by weight, which is in [`UNIT`]s.
fn weighted_ns(ns: u64, weight: u64) -> u64 {
    (u128::from(ns) * u128::from(100 * UNIT) / u128::from(weight)) as u64
}

/// What a CPU has waiting.
pub(crate) struct FairQueue {
    waiting: BTreeSet<(u64, TaskId)>,
    /// All their weights.
    weight: u64,
    /// What the one that lags most has come to; never falls.
    min: u64,
}

impl Default for FairQueue {
    fn default() -> Self {
        FairQueue { waiting: BTreeSet::new(), weight: 0, min: START }
    }
}

impl Kernel {
    fn weighted(&self, id: TaskId, ns: u64) -> u64 {
        weighted_ns(ns, self.fair_weight(id))
    }

    /// Who waits on a CPU.
    fn fair_waiting_on(&self, cpu: usize) -> Vec<TaskId> {
        self.cpus[cpu].fair.waiting.iter().map(|(_, id)| *id).collect()
    }

    /// The task of a queue that lags most, and its virtual time.
    fn most_behind(&self, cpu: usize) -> Option<(u64, TaskId)> {
        self.cpus[cpu].fair.waiting.first().copied()
    }

    /// Puts a task into its CPU's queue. What it has saved up while it slept is a slice.
    pub(crate) fn fair_enqueue(&mut self, id: TaskId) {
        if self.fair_throttled(id) {
            return self.fair_park(id);
        }
        self.fair_activate(id);
        let cpu = self.tasks[id.0].cpu;
        let saved = self.weighted(id, SLICE_NS);
        let weight = self.fair_weight(id);
        let queue = &mut self.cpus[cpu].fair;
        let task = &mut self.tasks[id.0];
        task.vruntime = match task.vruntime {
            0 => queue.min,
            vruntime => vruntime.max(queue.min.saturating_sub(saved)),
        };
        queue.waiting.insert((task.vruntime, id));
        queue.weight += weight;
        task.queued_weight = weight;
        task.dsq = Some(DsqRef::Fair(cpu));
        self.fair_waiting += 1;
        self.observe(cpu, Some(id), What::Insert(DsqRef::Fair(cpu)));
    }

    /// Takes a task out of it.
    pub(crate) fn fair_dequeue(&mut self, id: TaskId, cpu: usize) -> bool {
        let task = &self.tasks[id.0];
        let queue = &mut self.cpus[cpu].fair;
        queue.weight -= task.queued_weight;
        self.fair_waiting -= 1;
        queue.waiting.remove(&(task.vruntime, id))
    }

    /// A task goes to another CPU's queue, and takes along how far it is ahead or behind.
    pub(crate) fn fair_migrate(&mut self, id: TaskId, from: usize, to: usize) {
        let (from, to) = (self.cpus[from].fair.min, self.cpus[to].fair.min);
        let task = &mut self.tasks[id.0];
        if task.vruntime != 0 {
            task.vruntime = task.vruntime.wrapping_sub(from).wrapping_add(to);
        }
    }

    /// What runs has come to this class while it ran.
    pub(crate) fn fair_begin(&mut self, cpu: usize, id: TaskId) {
        self.fair_activate(id);
        self.tasks[id.0].vruntime = self.cpus[cpu].fair.min;
        self.cpus[cpu].picked_at = self.now;
    }

    /// Charges the task that runs.
    pub(crate) fn fair_charge(&mut self, cpu: usize, id: TaskId, ran_ns: u64) {
        // It may have been changed while it ran.
        if self.tasks[id.0].queued() {
            self.fair_activate(id);
        }
        self.fair_account(id, ran_ns);
        let vruntime = self.tasks[id.0].vruntime + self.weighted(id, ran_ns);
        self.tasks[id.0].vruntime = vruntime;
        let behind = self.most_behind(cpu).map_or(vruntime, |(first, _)| first.min(vruntime));
        let min = &mut self.cpus[cpu].fair.min;
        *min = behind.max(*min);
    }

    /// What a CPU runs next: of its own the one that lags most, else one of another CPU's.
    pub(crate) fn fair_pick(&mut self, cpu: usize, previous: Option<TaskId>) -> Option<TaskId> {
        self.update_curr(cpu);
        let goes_on = previous.filter(|p| self.tasks[p.0].queued() && !self.fair_throttled(*p));
        if goes_on.is_none() && self.most_behind(cpu).is_none() {
            self.pull(cpu);
        }
        let first = self.most_behind(cpu);
        match (goes_on, first) {
            (Some(p), Some((vruntime, _))) if self.tasks[p.0].vruntime <= vruntime => Some(p),
            (Some(p), None) => Some(p),
            (_, first) => first.map(|(_, id)| id),
        }
    }

    /// A task woke on a CPU where another one runs: whether it goes first.
    pub(crate) fn fair_preempts(&self, id: TaskId, cpu: usize) -> bool {
        let Some(current) = self.cpus[cpu].curr else { return true };
        let unpaid = self.now - self.tasks[current.0].exec_start;
        let runs_at = self.tasks[current.0].vruntime + self.weighted(current, unpaid);
        self.tasks[id.0].vruntime + self.weighted(id, WAKE_LAG_NS) < runs_at
    }

    /// The timer interrupt of a busy CPU.
    pub(crate) fn fair_tick(&mut self, cpu: usize, id: TaskId) {
        if self.fair_throttled(id) {
            return self.schedule(cpu);
        }
        self.lend_to_idle(cpu);
        let ticks = self.now / self.machine.tick_ns();
        if (ticks + cpu as u64).is_multiple_of(BALANCE_TICKS) {
            self.balance(cpu);
        }
        let first = self.most_behind(cpu);
        let ran = self.now - self.cpus[cpu].picked_at;
        let behind = first.is_some_and(|(vruntime, _)| vruntime < self.tasks[id.0].vruntime);
        if ran >= SLICE_NS && behind {
            self.schedule(cpu);
        }
    }

    /// sched_yield(): as far on as after a whole slice.
    pub(crate) fn fair_yield(&mut self, id: TaskId) {
        self.tasks[id.0].vruntime += self.weighted(id, SLICE_NS);
    }

    /// Where a task wakes: near the CPU that it was on, or near its waker.
    pub(crate) fn fair_select_cpu(&mut self, id: TaskId, waker: usize, wake_flags: u64) -> usize {
        let allowed = self.tasks[id.0].c().cpus_mask.and(&self.active);
        if wake_flags & scx::WAKE_FORK != 0 {
            let near = self.machine.llc(waker).and(&allowed);
            let idle =
                self.pick_idle(waker, &near, 0).or_else(|| self.pick_idle(waker, &allowed, 0));
            return idle.or_else(|| self.least_loaded(&allowed)).unwrap_or(waker);
        }
        let previous = self.tasks[id.0].cpu;
        let target = self.pull_to_waker(previous, waker, wake_flags, &allowed);
        for cpu in [target, previous] {
            let near = self.machine.llc_of(cpu) == self.machine.llc_of(target);
            if near && allowed.has(cpu) && self.test_and_clear_idle(cpu) {
                return cpu;
            }
        }
        let near = self.machine.llc(target).and(&allowed);
        self.pick_idle(waker, &near, 0).unwrap_or(target)
    }

    /// Whether the search begins at the waker's CPU instead of the task's own.
    fn pull_to_waker(
        &self,
        previous: usize,
        waker: usize,
        wake_flags: u64,
        allowed: &CpuMask,
    ) -> usize {
        if !allowed.has(waker) {
            return previous;
        }
        let alone = self.cpus[waker].fair.waiting.is_empty();
        if wake_flags & scx::WAKE_SYNC != 0 && alone || !self.active.has(previous) {
            return waker;
        }
        if self.idle.cpus.has(previous) || self.weight_on(previous) <= self.weight_on(waker) {
            previous
        } else {
            waker
        }
    }

    /// The weights of all that runs on a CPU or waits for it.
    fn weight_on(&self, cpu: usize) -> u64 {
        let current = self.cpus[cpu].curr.map_or(0, |id| self.fair_weight(id));
        self.cpus[cpu].fair.weight + current
    }

    fn least_loaded(&self, set: &CpuMask) -> Option<usize> {
        set.iter().min_by_key(|cpu| self.weight_on(*cpu))
    }

    /// A CPU with nothing to do takes a task that waits elsewhere, from as near as there is
    /// one.
    fn pull(&mut self, cpu: usize) {
        if self.fair_waiting == 0 || !self.active.has(cpu) {
            return;
        }
        for set in [self.machine.llc(cpu), self.machine.node(cpu), self.machine.all()] {
            let from = set.iter().max_by_key(|from| {
                let any = self.movable(*from, cpu).is_some();
                (any, if any { self.cpus[*from].fair.weight } else { 0 }, usize::MAX - from)
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
        let waiting = self.cpus[from].fair.waiting.iter().rev().map(|(_, id)| *id);
        waiting.into_iter().find(|id| self.may_run_on(*id, to))
    }

    fn fair_move(&mut self, id: TaskId, to: usize) {
        self.dispatch_dequeue(id);
        self.sched_info_dequeue(id);
        self.set_task_cpu(id, to);
        self.fair_enqueue(id);
        self.sched_info_enqueue(id);
        if self.cpus[to].curr.is_none() {
            self.mark_idle(to, false);
            self.resched(to);
        }
    }

    /// An idle CPU has no timer: a busy one with more than it can run looks for it.
    fn lend_to_idle(&mut self, cpu: usize) {
        let idle = self.idle.cpus.and(&self.active);
        let near = idle.and(&self.machine.llc(cpu));
        for to in near.iter().chain(idle.but(&near).iter()) {
            let Some(id) = self.movable(cpu, to) else { continue };
            if self.test_and_clear_idle(to) {
                return self.fair_move(id, to);
            }
        }
    }

    /// Takes a task from the CPU with most to do, if that makes both more alike.
    fn balance(&mut self, cpu: usize) {
        let own = self.weight_on(cpu);
        let Some(from) = self.active.iter().max_by_key(|from| {
            let near = self.machine.nearness(cpu, *from);
            (self.weight_on(*from), std::cmp::Reverse(near), usize::MAX - from)
        }) else {
            return;
        };
        let theirs = self.weight_on(from);
        let Some(id) = self.movable(from, cpu) else { return };
        if own + self.fair_weight(id) < theirs {
            self.fair_move(id, cpu);
        }
    }
}
