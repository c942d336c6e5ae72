//! CPUs that go off line and come back. The order is that of kernel/sched/core.c,
//! sched_cpu_deactivate() and sched_cpu_activate(): first a CPU takes no tasks any more; a grace
//! period of RCU later, for which a thread of the kernel has to run, the policy is told; each task
//! that the CPU still comes to is pushed away by the stopper thread, one whose affinity leaves it
//! nowhere to go being let run anywhere; and when nobody is left on its run queue, it is switched
//! off.

use crate::abi::scx;
use crate::callbacks::Callback;
use crate::idle::Searched;
use crate::kernel::{Event, Kernel, May};
use crate::load::ProgramExit;
use crate::span::Span;
use crate::task::{Task, TaskId, TaskSpec};
use crate::trace::What;
use std::rc::Rc;
use std::sync::Arc;

/// How often the kernel looks whether a CPU that goes off line has given up its tasks.
const LOOK_NS: u64 = 1_000_000;
/// The thread that makes grace periods. Here one is born for each.
const RCU_THREAD: &str = "rcu_preempt";
/// What it runs for each time, and how long it sleeps between: a tick of 250 Hz.
const RCU_RUN_NS: u64 = 20_000;
const RCU_SLEEP_NS: u64 = 4_000_000;
/// How often it runs: it begins the grace period, looks for readers, and ends it.
const RCU_RUNS: u64 = 3;

/// How long a grace period may take. The kernel loses its patience after 21 s, and ends us; nothing here
/// lets a task wait for a tenth of that.
const RCU_PATIENCE_NS: u64 = 2_000_000_000;
/// The program that the tracepoint calls by which the kernel tells that a CPU changes its state.
const TRACEPOINT: &str = "cpu_changes";

/// A CPU that takes no tasks any more, of which the policy is told at the end of a grace period.
pub(crate) struct Leaving {
    cpu: usize,
    since: u64,
    /// The thread that makes it.
    rcu: TaskId,
    /// Tasks that may have been preempted where they read under RCU, each with how often it had run by then:
    /// all that waited for that CPU. The grace period ends after they have run.
    readers: Vec<(TaskId, u64)>,
}

impl Kernel {
    /// Takes a CPU off line; false where it is so already, or is the last one.
    ///
    /// A policy without a callback for it leaves the kernel, with a code that asks for
    /// a restart. Every task that waits for the CPU is taken for one that was preempted where it reads
    /// under RCU.
    pub fn cpu_off(&mut self, cpu: usize) -> bool {
        self.goes_off(cpu, |_| true)
    }

    /// The same where none of them reads.
    pub fn cpu_off_without_readers(&mut self, cpu: usize) -> bool {
        self.goes_off(cpu, |_| false)
    }

    fn goes_off(&mut self, cpu: usize, reads: impl Fn(&Task) -> bool) -> bool {
        if !self.cpus.active.has(cpu) || self.cpus.active.count() == 1 {
            return false;
        }
        self.note(&format!("CPU {cpu} goes off line"));
        self.call_tracepoint();
        self.cpus.active.clear(cpu);
        self.idle.searched = Searched::of(&self.machine, &self.cpus.active);
        self.observe(cpu, None, What::Offline);
        self.resched(cpu);
        let running = self.cpus[cpu].curr;
        let waits = |(id, task): &(TaskId, &Task)| {
            task.cpu == cpu && task.queued() && Some(*id) != running && reads(task)
        };
        let tasks = self.tasks.iter().enumerate().map(|(at, task)| (TaskId(at), task));
        let readers = tasks.filter(waits).map(|(id, task)| (id, task.figures.waits)).collect();
        let rcu = self.begin_grace_period();
        self.cpus.leaving.push(Leaving { cpu, since: self.clock.now, rcu, readers });
        self.schedule_at(self.clock.now + LOOK_NS, Event::Dying(cpu));
        true
    }

    /// Calls the program's tracepoint, if it has one.
    fn call_tracepoint(&mut self) {
        let program = self.program.image.as_ref().and_then(|image| image.symbol(TRACEPOINT));
        if let Some(program) = program {
            let cpu = self.first_active();
            self.call(program, Callback::Program, cpu, May::Unlocked, [0; 3]);
        }
    }

    /// Has the thread run that makes a grace period.
    fn begin_grace_period(&mut self) -> TaskId {
        let spec = TaskSpec::named(RCU_THREAD)
            .run(Span::Exactly(RCU_RUN_NS))
            .sleep(Span::Exactly(RCU_SLEEP_NS))
            .rounds(RCU_RUNS)
            .in_group("")
            .kthread();
        let cpu = self.any_cpu();
        let rcu = self.bear(Arc::new(spec), cpu, None);
        self.wake_up(rcu, cpu, scx::WAKE_TTWU);
        rcu
    }

    /// Whether a CPU goes off line and the policy is not told of it yet; it is, if that is due.
    fn still_leaves(&mut self, cpu: usize) -> bool {
        let Some(at) = self.cpus.leaving.iter().position(|leaving| leaving.cpu == cpu) else {
            return false;
        };
        let Leaving { since, rcu, readers, .. } = &self.cpus.leaving[at];
        let reads = |(task, ran): &&(TaskId, u64)| {
            let task = &self.tasks[*task];
            !task.dead && task.queued() && task.figures.waits == *ran
        };
        let reader = readers.iter().find(reads).map(|(task, _)| *task);
        if reader.is_some() || !self.tasks[*rcu].dead {
            if self.clock.now - since > RCU_PATIENCE_NS {
                let late = reader.unwrap_or(*rcu);
                let name = &self.tasks[late].name;
                let message =
                    format!("task {name} does not run, for which a CPU waits that goes off line");
                self.fail("rcu_stall", message);
            }
            return true;
        }
        self.cpus.leaving.remove(at);
        self.observe(cpu, None, What::Left);
        self.tell_of_hotplug(cpu, false);
        self.resched(cpu);
        false
    }

    /// Brings a CPU back; false where it is on line. While it is still on its way off, the
    /// kernel ends that first.
    pub fn cpu_on(&mut self, cpu: usize) -> bool {
        if cpu >= self.cpus.len() || self.cpus.active.has(cpu) {
            return false;
        }
        if self.cpus.online.has(cpu) {
            let again = Arc::new(move |kernel: &mut Kernel| {
                kernel.cpu_on(cpu);
            });
            self.act_at(self.clock.now + LOOK_NS, again);
            return true;
        }
        self.note(&format!("CPU {cpu} comes back"));
        self.call_tracepoint();
        self.cpus.online.set(cpu);
        self.cpus.active.set(cpu);
        self.idle.searched = Searched::of(&self.machine, &self.cpus.active);
        self.observe(cpu, None, What::Online);
        self.tell_of_hotplug(cpu, true);
        // The thread that brought it up runs there and is done: it is idle anew.
        self.update_idle(cpu, false);
        self.update_idle(cpu, true);
        self.resched(cpu);
        true
    }

    fn tell_of_hotplug(&mut self, cpu: usize, online: bool) {
        let [went_up, went_down] = self.program.ops.hotplug;
        let (callback, name, way) = match online {
            true => (went_up, Callback::CpuOnline, "online"),
            false => (went_down, Callback::CpuOffline, "offline"),
        };
        if callback.is_null() {
            self.leave(ProgramExit {
                kind: scx::EXIT_UNREG_KERN,
                code: scx::ECODE_ACT_RESTART | scx::ECODE_RSN_HOTPLUG,
                message: format!("cpu {cpu} going {way}, exiting scheduler"),
            });
            return;
        }
        self.call(callback, name, cpu, May::Unlocked, [cpu as u64, 0, 0]);
    }

    /// The stopper thread takes what a CPU off line has come to run from it.
    pub(crate) fn push_later(&mut self, cpu: usize) {
        let delay = self.ipi_delay();
        self.schedule_at(self.clock.now + delay, Event::Push(cpu));
    }

    pub(crate) fn push(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr.filter(|_| !self.cpus.active.has(cpu)) else { return };
        self.fallback_cpu(id);
        let mask = self.tasks[id].c().cpus_mask;
        self.migrate_away(id, cpu, mask);
    }

    /// A CPU is off when its run queue is empty. The last that it does is to wake threads that
    /// wait for that; here they are those that should have woken there meanwhile.
    pub(crate) fn dying(&mut self, cpu: usize) {
        let left = self.still_leaves(cpu)
            || self.tasks.iter().any(|task| task.cpu == cpu && task.queued());
        if left {
            // The thread that looks runs there, and gives the CPU up again.
            self.resched(cpu);
            self.schedule_at(self.clock.now + LOOK_NS, Event::Dying(cpu));
            return;
        }
        self.cpus.online.clear(cpu);
        for (_, task) in
            self.cpus.wakes_late.extract_if(.., |(on, _)| *on == cpu).collect::<Vec<_>>()
        {
            self.timer_wakes(task, cpu);
        }
    }

    /// Whether the calling CPU has switched its interrupts off for good: the kernel puts what that
    /// call asks for off to an interrupt which never comes, and all that is put off there later.
    pub(crate) fn interrupts_are_off(&mut self, call: &str) -> bool {
        let here = self.calls.context.cpu;
        let off = !self.cpus.online.has(here);
        if off {
            self.fail("lost", format!("{call} on CPU {here}, whose interrupts are off for good"));
        }
        off
    }

    /// Whether a task may run on a CPU, and the CPU takes tasks.
    pub(crate) fn may_run_on(&self, id: TaskId, cpu: usize) -> bool {
        self.cpus.active.has(cpu) && self.tasks[id].may_use(cpu)
    }

    /// select_fallback_rq(): where a task goes that cannot be where it should. Where there
    /// is nothing left of its affinity, it may run anywhere from now on.
    pub(crate) fn fallback_cpu(&mut self, id: TaskId) -> usize {
        let task = &self.tasks[id];
        let usable = task.c().cpus_mask.and(&self.cpus.active);
        let near = usable.and(&self.machine.node(task.cpu));
        if let Some(cpu) = near.iter().next().or_else(|| usable.iter().next()) {
            return cpu;
        }
        let (cpu, all) = (task.cpu, self.machine.all());
        self.changing(id, |kernel| kernel.set_cpus_allowed(id, all));
        self.observe(cpu, Some(id), What::Allowed(Rc::new(all)));
        let near = self.cpus.active.and(&self.machine.node(cpu));
        near.iter().next().unwrap_or_else(|| self.first_active())
    }
}
