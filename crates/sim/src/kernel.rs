//! The modelled kernel: its state, its clock and its events. What the scheduling
//! class does with them is in `waking.rs`, `enqueue.rs` and `schedule.rs`, what
//! policies may call in `kfuncs/`.

mod calendar;
mod calls;
mod cgroup_files;
mod events;
mod lives;

pub(crate) use calls::{Context, May};
pub(crate) use events::Event;

use crate::abi::{CpuMask, Ops, scx};
use crate::audience::Audience;
use crate::callbacks::Callback;
use crate::cgroups::{Cgroups, id_and_above};
use crate::checkers::Checker;
use crate::costs::Charged;
use crate::dsq::{Dsq, Queues};
use crate::dsq_iter::DsqIter;
use crate::fair::{FairClass, FairQueue};
use crate::hotplug::Leaving;
use crate::idle::{Idle, Searched};
use crate::image::Image;
use crate::kfuncs::Host;
use crate::load::{Class, Phase, Program, ProgramExit};
use crate::machine::Machine;
use crate::maps::Maps;
use crate::metasched::LaneSeen;
use crate::observer::Shared;
use crate::random::Random;
use crate::ring::Ring;
use crate::syscalls::AtReturn;
use crate::task::{Raw, Task, TaskFigures, TaskId};
use crate::timers::{Left, Timers};
use crate::trace::{Observed, What};
use crate::world::World;
use calendar::Calendar;
use events::Scheduled;
use metasched_base::Result;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The checker or rule that it failed by.
    pub check: String,
    /// What happened.
    pub message: String,
    /// When, ns since the start.
    pub at: u64,
}

/// What a program does at a given time, given the kernel.
pub type Act = Arc<dyn Fn(&mut Kernel)>;

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

/// One insert made in ops.dispatch, in force when it returns.
pub(crate) struct Buffered {
    pub task: TaskId,
    pub hand_over: Option<u64>,
    pub dsq_id: u64,
    pub flags: u64,
}

/// The kernel.
pub struct Kernel {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) machine: Machine,
    /// All CPUs that it has.
    anywhere: Rc<CpuMask>,
    /// The CPUs that are switched on.
    pub(crate) online: CpuMask,
    /// Those of them that take tasks: one that goes off line gives up its tasks first.
    pub(crate) active: CpuMask,
    pub(crate) searched: Searched,
    pub(crate) leaving: Vec<Leaving>,
    /// Whose timers have expired on a CPU that is going off line, and on which.
    pub(crate) wakes_late: Vec<(usize, TaskId)>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) world: World,
    cgroups: Cgroups,
    pub(crate) idle_tasks: Vec<Raw>,
    pub(crate) global: Dsq,
    pub(crate) user: Queues,
    pub(crate) idle: Idle,
    /// Where all tasks are, and how far a program is that comes or goes: see `load.rs`.
    pub(crate) class: Class,
    pub(crate) bypass: bool,
    pub(crate) phase: Phase,
    pub(crate) loads: u64,
    pub(crate) exit: Option<ProgramExit>,
    pub(crate) fair_class: FairClass,
    /// All null while no program is loaded.
    pub(crate) ops: Ops,
    pub(crate) image: Option<Image>,
    pub(crate) host: *mut Host,
    pub(crate) context: Context,
    /// The CPU of whoever changes something about a task: he makes the callbacks about that, with
    /// the run queue of the task's CPU locked.
    pub(crate) changer: Option<usize>,
    /// The CPU on which a wake-up is being made: that of whoever wakes. He makes the callbacks,
    /// as above.
    pub(crate) waking_on: Option<usize>,
    pub(crate) dispatched: Vec<Buffered>,
    pub(crate) moved: usize,
    pub(crate) deferred: Vec<TaskId>,
    /// Queues whose tasks are to be enqueued anew.
    pub(crate) reenqueued: Vec<u64>,
    pub(crate) maps: Maps,
    pub(crate) timers: Timers,
    /// What is to be called as tasks return to user space.
    pub(crate) at_return: Vec<AtReturn>,
    /// Whether timers expire between an enqueue and its insert.
    pub(crate) timers_in_gaps: bool,
    /// The most calls of the kernel that one of each kind of callbacks has made.
    most_calls: [u64; Callback::ALL.len()],
    /// How often any timer was set.
    pub(crate) timers_set: u64,
    /// What is left of the program before this one, until its user space is gone.
    pub(crate) left: Option<Left>,
    /// What is done after a timer of the program's.
    pub(crate) timed: Act,
    /// Level 1's lanes, as checkers heard of them last.
    pub(crate) lanes_told: Rc<[LaneSeen]>,
    pub(crate) dsq_iters: Vec<DsqIter>,
    pub(crate) ring: Ring,
    events: Calendar<Scheduled>,
    /// How many events were, counted round and round.
    scheduled: u32,
    pub(crate) handled: u64,
    audience: Audience,
    fault: Option<Fault>,
    /// What happens between two events, by how many were handled before.
    between: BTreeMap<u64, Vec<Act>>,
}

impl Kernel {
    /// Boots a machine, with a program loaded from the start or with none.
    ///
    /// # Errors
    /// When the program cannot be loaded or uses what is not modelled. A fault in
    /// `ops.init` is a fault of the run: see [`Kernel::fault`].
    pub fn boot(
        machine: &Machine,
        program: Option<&Program>,
        seed: u64,
        whole_trace: bool,
    ) -> Result<Kernel> {
        let mut cgroups = Cgroups::new();
        let root = cgroups.at("");
        let (cpus, all) = (machine.nr_cpus(), machine.all());
        let mut kernel = Kernel {
            now: 0,
            random: Random::new(seed),
            machine: machine.clone(),
            anywhere: Rc::new(all),
            online: all,
            active: all,
            searched: Searched::of(machine, &all),
            leaving: Vec::new(),
            wakes_late: Vec::new(),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            tasks: Vec::new(),
            world: World::default(),
            cgroups,
            idle_tasks: (0..cpus).map(|cpu| Raw::idle(cpu, root)).collect(),
            global: Dsq::default(),
            user: Queues::default(),
            idle: Idle { cpus: all, cores: all },
            class: Class::Fair,
            bypass: false,
            phase: Phase::None,
            loads: 0,
            exit: None,
            fair_class: FairClass::default(),
            ops: Ops::none(),
            image: None,
            host: std::ptr::null_mut(),
            changer: None,
            context: Context {
                callback: Callback::Nothing,
                cpu: 0,
                may: May::Look,
                calls_before: 0,
            },
            waking_on: None,
            dispatched: Vec::new(),
            moved: 0,
            deferred: Vec::new(),
            reenqueued: Vec::new(),
            maps: Maps::default(),
            timers: Timers::default(),
            at_return: Vec::new(),
            timers_in_gaps: false,
            most_calls: [0; Callback::ALL.len()],
            timers_set: 0,
            left: None,
            timed: Arc::new(|_| ()),
            lanes_told: Rc::default(),
            dsq_iters: Vec::new(),
            ring: Ring::default(),
            events: Calendar::new(),
            scheduled: 0,
            handled: 0,
            audience: Audience::new(whole_trace),
            fault: None,
            between: BTreeMap::new(),
        };
        if let Some(program) = program {
            kernel.start(program)?;
            kernel.phase = Phase::Enabled;
        }
        Ok(kernel)
    }

    /// Adds a checker; it sees what happens from now on.
    pub fn check(&mut self, checker: Box<dyn Checker>) {
        self.audience.add_checker(checker);
    }

    /// Whether a checker of that name is there.
    pub(crate) fn checks(&self, name: &str) -> bool {
        self.audience.checks(name)
    }

    /// Adds a reader; it sees what happens from now on.
    pub fn read_by(&mut self, observer: Shared) {
        self.audience.add_reader(observer);
    }

    /// Tells checkers and readers how the machine stands before anything happens.
    pub fn observe_start(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.observe(cpu, None, What::Idle);
        }
        for cgroup in self.cgroups.bottom_up() {
            let (id, above) = id_and_above(cgroup);
            self.observe(0, None, What::Cgroup { id, above });
        }
        for id in self.user.ids() {
            self.observe(0, None, What::MakeQueue(id));
        }
    }

    /// Time since boot, ns.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many CPUs there are.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Where an interrupt comes that belongs to no CPU: any that takes tasks, by chance.
    pub(crate) fn any_cpu(&mut self) -> usize {
        let which = self.random.within(0, self.active.count() as u64 - 1) as usize;
        self.active.iter().nth(which).expect("one of those counted")
    }

    /// The first CPU that takes tasks.
    pub(crate) fn first_active(&self) -> usize {
        self.active.iter().next().unwrap_or(0)
    }

    /// The CPU on whose run queue a task is: where it runs, or last ran, or shall run.
    pub fn cpu_of(&self, task: TaskId) -> usize {
        self.tasks[task.0].cpu
    }

    /// The engine's own source of chance.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// What the run failed by, if it did.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Fails the run. The first fault counts.
    pub fn fail(&mut self, check: impl Into<String>, message: impl Into<String>) {
        if self.fault.is_none() {
            self.fault = Some(Fault { check: check.into(), message: message.into(), at: self.now });
        }
    }

    /// Fails the run as the kernel ejects a scheduler.
    pub(crate) fn scx_error(&mut self, message: impl Into<String>) {
        self.fail("scx_error", message);
    }

    pub(crate) fn observe(&mut self, cpu: usize, task: Option<TaskId>, what: What) {
        let found = self.audience.observe(Observed { at: self.now, cpu, task, what });
        if let Some((check, message)) = found {
            self.fail(check, message);
        }
    }

    /// Leaves a mark in the trace.
    pub fn note(&mut self, text: &str) {
        self.observe(0, None, What::Note(Rc::from(text)));
    }

    /// Faults stop: checkers demand progress from now on.
    pub fn calm(&mut self) {
        self.observe(0, None, What::Calm);
    }

    /// Figures count from now on: what was before warmed up.
    pub fn forget_figures(&mut self) {
        self.note("figures count from here");
        for cpu in 0..self.cpus.len() {
            self.update_curr(cpu);
            self.cpus[cpu].switches = 0;
            self.cpus[cpu].costs.lost_ns = 0;
        }
        for task in &mut self.tasks {
            let TaskFigures { first_run_ns, exited_ns, .. } = task.figures;
            task.figures = TaskFigures { first_run_ns, exited_ns, ..Default::default() };
            task.waits_ns.clear();
            task.doing.responses_ns.clear();
            task.doing.done = 0;
        }
    }

    /// Ends the run: the policy is detached, the checkers give their last word.
    pub fn shut_down(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.update_curr(cpu);
        }
        if let Some((check, message)) = self.audience.finish(self.now) {
            self.fail(check, message);
        }
        for id in (0..self.tasks.len()).map(TaskId) {
            if !self.tasks[id.0].dead {
                self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, false);
                self.retire(id);
            }
        }
        self.say_goodbye(&ProgramExit::unregistered());
        if let Err(map) = self.maps.memory.finish() {
            self.written_too_late(map);
        }
    }

    /// The last events and, where asked for, the text of the whole run.
    pub(crate) fn into_trace(self) -> (Vec<String>, String) {
        self.audience.into_trace()
    }
}

/// Looking up tasks, for scenarios that act on them.
impl Kernel {
    /// The task of that name.
    ///
    /// # Panics
    /// When none bears it yet.
    pub fn task_named(&self, name: &str) -> TaskId {
        let at = self.tasks.iter().position(|task| task.name == name);
        TaskId(at.unwrap_or_else(|| panic!("no task is called '{name}'")))
    }

    /// The tasks of a group that live.
    pub fn tasks_in_group(&self, group: &str) -> Vec<TaskId> {
        let of = |i: &usize| !self.tasks[*i].dead && self.tasks[*i].spec.group == group;
        (0..self.tasks.len()).filter(of).map(TaskId).collect()
    }

    /// Any task that lives: the `which`-th, counted round and round.
    pub fn any_task(&self, which: u64) -> Option<TaskId> {
        let living: Vec<TaskId> =
            (0..self.tasks.len()).filter(|i| !self.tasks[*i].dead).map(TaskId).collect();
        let at = which.checked_rem(living.len() as u64)?;
        Some(living[at as usize])
    }
}
