//! The modelled kernel: its state, its clock and its events. What the scheduling
//! class does with them is in `waking.rs`, `enqueue.rs` and `schedule.rs`, what
//! policies may call in `kfuncs.rs`.

use crate::abi::{Cgroup, CgroupInitArgs, CpuMask, CssSet, NO_QUOTA, Ops, scx};
use crate::cgroups::Cgroups;
use crate::checkers::Checker;
use crate::costs::Charged;
use crate::dsq::Dsq;
use crate::dsq_iter::DsqIter;
use crate::fair::FairQueue;
use crate::idle::{Idle, Searched};
use crate::image::Image;
use crate::kfuncs::Host;
use crate::load::{Class, Phase, Program, ProgramExit};
use crate::machine::{Costs, Machine};
use crate::maps::Maps;
use crate::observer::Shared;
use crate::operate::FOR_EVER_NS;
use crate::random::Random;
use crate::step::Name;
use crate::task::{Next, Raw, Task, TaskFigures, TaskId, TaskSpec};
use crate::trace::{Observed, Quota, Trace, What};
use crate::world::World;
use metasched_base::Result;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

/// Events at one instant before the run is called a livelock: far more than the
/// largest modelled machine has CPUs.
const INSTANT_EVENTS: u64 = 100_000;

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

/// In place of a callback's name: what user space calls, and what a timer does.
pub(crate) const PROGRAM: &str = "a system-call program";
pub(crate) const TIMER: &str = "a timer's callback";

/// What a program does at a given time, given the kernel.
pub type Act = Arc<dyn Fn(&mut Kernel)>;

pub(crate) enum Event {
    Arrive(Arc<TaskSpec>),
    Wake(TaskId),
    Resched(usize),
    RunEnd { cpu: usize, epoch: u64 },
    Tick(usize),
    Kick { cpu: usize, flags: u64 },
    Push(usize),
    Dying(usize),
    Watchdog { load: u64 },
    Attach(Box<Program>),
    Enabled,
    Detach(ProgramExit),
    IoDone { device: Name, task: TaskId },
    Request(Name),
    Act(Act),
}

struct Scheduled {
    /// Time, then chance, then the order of scheduling: events of one instant
    /// have no order on a real machine either.
    key: Reverse<(u64, u32, u64)>,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
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
    pub in_balance: bool,
    /// The last to run was the kernel's stopper thread, not a task of ours.
    pub stopper: bool,
    pub switches: u64,
    pub costs: Charged,
    /// What waits here in the fair class.
    pub fair: FairQueue,
    /// When the present run of its task began.
    pub picked_at: u64,
}

/// In which callback the policy is, and so what it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// select_cpu and enqueue: insert this task, once.
    InsertOne { task: TaskId, spent: bool, selecting: bool },
    /// dispatch: insert and move any task.
    Dispatch,
    /// A callback with the run queue locked: look, kick.
    Look,
    /// Timers and CPU hotplug, with no run queue locked: move tasks between queues.
    Unlocked,
    /// init, init_task and system-call programs: make queues as well.
    Sleep,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub callback: &'static str,
    pub cpu: usize,
    pub may: May,
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
    /// The CPUs that are switched on.
    pub(crate) online: CpuMask,
    /// Those of them that take tasks: one that goes off line gives up its tasks first.
    pub(crate) active: CpuMask,
    pub(crate) searched: Searched,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) world: World,
    cgroups: Cgroups,
    pub(crate) idle_tasks: Vec<Raw>,
    pub(crate) global: Dsq,
    pub(crate) user: BTreeMap<u64, Dsq>,
    pub(crate) idle: Idle,
    /// Where all tasks are, and how far a program is that comes or goes: see `load.rs`.
    pub(crate) class: Class,
    pub(crate) bypass: bool,
    pub(crate) phase: Phase,
    pub(crate) loads: u64,
    pub(crate) exit: Option<ProgramExit>,
    /// How many tasks wait in the fair class.
    pub(crate) fair_waiting: usize,
    /// All null while no program is loaded.
    pub(crate) ops: Ops,
    pub(crate) image: Option<Image>,
    pub(crate) host: *mut Host,
    pub(crate) context: Context,
    pub(crate) dispatched: Vec<Buffered>,
    pub(crate) moved: usize,
    pub(crate) deferred: Vec<TaskId>,
    pub(crate) maps: Maps,
    pub(crate) dsq_iters: Vec<DsqIter>,
    events: BinaryHeap<Scheduled>,
    scheduled: u64,
    pub(crate) handled: u64,
    checkers: Vec<Box<dyn Checker>>,
    observers: Vec<Shared>,
    trace: Trace,
    fault: Option<Fault>,
    /// What happens between two events, by how many were handled before.
    between: BTreeMap<u64, Vec<Act>>,
}

/// The task that a callback is about, by its first argument.
fn task_of_callback(name: &str, arg: u64) -> Option<TaskId> {
    const OF_TASKS: [&str; 15] = [
        "select_cpu",
        "enqueue",
        "dequeue",
        "tick",
        "runnable",
        "running",
        "stopping",
        "quiescent",
        "yield",
        "set_weight",
        "set_cpumask",
        "init_task",
        "exit_task",
        "enable",
        "disable",
    ];
    let task = arg as *const crate::abi::TaskStruct;
    OF_TASKS.contains(&name).then(|| TaskId(unsafe { (*task).pid } as usize - 1))
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
            online: all,
            active: all,
            searched: Searched::of(machine, &all),
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            tasks: Vec::new(),
            world: World::default(),
            cgroups,
            idle_tasks: (0..cpus).map(|cpu| Raw::idle(cpu, root)).collect(),
            global: Dsq::default(),
            user: BTreeMap::new(),
            idle: Idle { cpus: all, cores: all },
            class: Class::Fair,
            bypass: false,
            phase: Phase::None,
            loads: 0,
            exit: None,
            fair_waiting: 0,
            ops: Ops::none(),
            image: None,
            host: std::ptr::null_mut(),
            context: Context { callback: "nothing", cpu: 0, may: May::Look },
            dispatched: Vec::new(),
            moved: 0,
            deferred: Vec::new(),
            maps: Maps::default(),
            dsq_iters: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            handled: 0,
            checkers: Vec::new(),
            observers: Vec::new(),
            trace: Trace::new(whole_trace),
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
        self.checkers.push(checker);
    }

    /// Adds a reader; it sees what happens from now on.
    pub fn read_by(&mut self, observer: Shared) {
        self.observers.push(observer);
    }

    /// Tells checkers and readers how the machine stands before anything happens.
    pub fn observe_start(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.observe(cpu, None, What::Idle);
        }
        for cgroup in self.cgroups.bottom_up() {
            let (id, above) = unsafe { (*cgroup).id_and_above() };
            self.observe(0, None, What::Cgroup { id, above });
        }
        for id in self.user.keys().copied().collect::<Vec<_>>() {
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
        let event = Observed { at: self.now, cpu, task, what };
        for checker in &mut self.checkers {
            if let Err(message) = checker.observe(&event)
                && self.fault.is_none()
            {
                let check = checker.name().to_owned();
                self.fault = Some(Fault { check, message, at: self.now });
            }
        }
        for observer in &self.observers {
            observer.borrow_mut().observe(&event);
        }
        self.trace.record(event);
    }

    /// Calls into the policy, if it has that callback. Nothing is called after a
    /// fault: the kernel bypasses a scheduler that it is about to eject.
    pub(crate) fn call<const N: usize>(
        &mut self,
        callback: *const c_void,
        name: &'static str,
        cpu: usize,
        may: May,
        args: [u64; N],
    ) -> u64 {
        // No callback has more than four; those that it has not are not looked at.
        let arg = |place: usize| args.get(place).copied().unwrap_or(0);
        if self.fault.is_some() {
            return 0;
        }
        // Programs and timers are the scheduler's own: the kernel has no order for them.
        if self.class == Class::Ext && ![PROGRAM, TIMER].contains(&name) {
            let within = self.context.callback;
            self.observe(
                cpu,
                task_of_callback(name, arg(0)),
                What::Call { callback: name, within },
            );
        }
        if callback.is_null() || self.fault.is_some() {
            return 0;
        }
        self.cost(cpu, self.machine.what_it_costs().callback_ns);
        let outer = std::mem::replace(&mut self.context, Context { callback: name, cpu, may });
        let Some(trampoline) = self.image.as_ref().map(|image| image.trampoline) else { return 0 };
        let host = self.host;
        // Calls nest (dispatch moves a task, which calls dequeue), so what was
        // there is put back.
        let outer_kernel = unsafe { (*host).enter(self) };
        let result = unsafe { trampoline(callback, arg(0), arg(1), arg(2), arg(3)) };
        unsafe { (*host).leave(outer_kernel) };
        self.context = outer;
        result
    }

    /// Runs a function of the image as a system-call program, which may sleep, and
    /// gives what it returns.
    ///
    /// # Errors
    /// When the image has no such function.
    pub fn program(&mut self, name: &str, [a, b]: [u64; 2]) -> Result<i32> {
        let program = self.image().required(name)?;
        let cpu = self.first_active();
        Ok(self.call(program, PROGRAM, cpu, May::Sleep, [a, b, 0]) as i32)
    }

    /// Runs a function of the image as the callback of a timer, which may not sleep, and
    /// gives what it returns.
    ///
    /// # Errors
    /// When the image has no such function.
    pub fn timer(&mut self, name: &str) -> Result<i32> {
        let callback = self.image().required(name)?;
        let cpu = self.first_active();
        Ok(self.call(callback, TIMER, cpu, May::Unlocked, [0; 3]) as i32)
    }

    /// The image, to look at the program's globals.
    ///
    /// # Panics
    /// When no program is loaded.
    pub fn image(&self) -> &Image {
        self.image.as_ref().expect("a program is loaded")
    }

    /// A value of one of the program's maps whose keys are 32 bits: those of all CPUs side
    /// by side. None if there is none yet.
    pub(crate) fn map_words(&mut self, map: &str, key: u32) -> Option<&mut [u64]> {
        let map = self.image.as_ref()?.symbol(map)?;
        self.maps.words(map, &key.to_ne_bytes())
    }

    pub(crate) fn schedule_at(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        let chance = self.random.bits() as u32;
        self.events.push(Scheduled { key: Reverse((at, chance, self.scheduled)), event });
    }

    /// Lets a task arrive at its time.
    pub fn spawn(&mut self, spec: TaskSpec) {
        let spec = Arc::new(spec);
        self.schedule_at(spec.arrives_ns, Event::Arrive(spec));
    }

    /// Does something at a given time.
    pub fn act_at(&mut self, at: u64, act: Act) {
        self.schedule_at(at, Event::Act(act));
    }

    /// Does something right after the `handled`-th event of the run, before anything else
    /// can happen.
    pub fn act_after(&mut self, handled: u64, act: Act) {
        self.between.entry(handled).or_default().push(act);
    }

    /// How many events the engine has handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Leaves a mark in the trace.
    pub fn note(&mut self, text: &str) {
        self.observe(0, None, What::Note(Rc::from(text)));
    }

    /// Asks a CPU to choose again; what its local queue holds is looked at then.
    pub(crate) fn resched(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].resched, true) {
            let delay = self.ipi_delay();
            self.schedule_at(self.now + delay, Event::Resched(cpu));
        }
    }

    pub(crate) fn ipi_delay(&mut self) -> u64 {
        let Costs { ipi_least_ns, ipi_most_ns, .. } = self.machine.what_it_costs();
        self.random.within(ipi_least_ns, ipi_most_ns)
    }

    /// Runs until `end`, or until something fails.
    pub fn run_until(&mut self, end: u64) {
        let mut instant = 0;
        while self.fault.is_none() {
            let Some(next) = self.events.peek() else { break };
            let Reverse((at, _, _)) = next.key;
            if at > end {
                break;
            }
            let event = self.events.pop().expect("just seen").event;
            instant = if at == self.now { instant + 1 } else { 0 };
            self.now = at;
            self.handled += 1;
            if instant > INSTANT_EVENTS {
                self.fail("livelock", "time does not advance any more");
            }
            self.handle(event);
            for act in self.between.remove(&self.handled).unwrap_or_default() {
                act(self);
                self.run_deferred();
            }
        }
        if self.fault.is_none() {
            self.now = end;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(spec) => {
                let cpu = self.any_cpu();
                let task = self.bear(spec, cpu, false);
                self.wake_up(task, cpu, scx::WAKE_TTWU);
            }
            Event::Wake(task) => {
                let cpu = self.tasks[task.0].cpu;
                let waker = if self.active.has(cpu) { cpu } else { self.first_active() };
                self.wake_up(task, waker, scx::WAKE_TTWU);
            }
            Event::Resched(cpu) if self.online.has(cpu) => self.schedule(cpu),
            Event::Resched(cpu) => self.cpus[cpu].resched = false,
            Event::Push(cpu) => self.push(cpu),
            Event::Dying(cpu) => self.dying(cpu),
            Event::Attach(program) => self.attach(&program),
            Event::Enabled => self.enabled(),
            Event::Detach(exit) => self.detach(exit),
            Event::Watchdog { load } => self.watchdog(load),
            Event::RunEnd { cpu, epoch } => {
                if self.cpus[cpu].epoch == epoch {
                    self.next_step(cpu);
                }
            }
            Event::Tick(cpu) => self.tick(cpu),
            Event::Kick { cpu, flags } => self.kicked(cpu, flags),
            Event::IoDone { device, task } => self.io_done(&device, task),
            Event::Request(queue) => self.request_arrives(&queue),
            Event::Act(act) => act(self),
        }
        self.run_deferred();
    }

    /// Makes a task and tells the policy: init_task, enable, set_weight.
    pub(crate) fn bear(&mut self, spec: Arc<TaskSpec>, cpu: usize, fork: bool) -> TaskId {
        let id = TaskId(self.tasks.len());
        let all = self.machine.all();
        let allowed = spec.allowed.map_or(all, |mask| mask.and(&all));
        if allowed.is_empty() {
            self.fail("scenario", format!("'{}' may run on no CPU of this machine", spec.name));
        }
        let (weight, now) = (spec.weight, self.now);
        let css_set = self.css_set(&spec.cgroup);
        self.tasks.push(Task::new(id, spec, allowed, now, css_set));
        self.tasks[id.0].cpu = cpu;
        for observer in &self.observers {
            let task = &self.tasks[id.0];
            observer.borrow_mut().born(id, &task.name, &task.spec.cgroup);
        }
        self.init_task(id, fork);
        let (cgroup, _) = unsafe { (*(*css_set).dfl_cgrp).id_and_above() };
        self.observe(cpu, Some(id), What::Arrive { weight, allowed: Rc::new(allowed) });
        self.observe(cpu, Some(id), What::Member(cgroup));
        self.enable_task(id);
        id
    }

    /// What the task that runs on `cpu` does next: its step is over.
    fn next_step(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        self.update_curr(cpu);
        if self.tasks[id.0].remaining > 0 {
            // The kernel took some of the time meanwhile.
            return self.plan_run_end(cpu);
        }
        let Kernel { tasks, random, .. } = self;
        match tasks[id.0].next(random) {
            Next::Run(ns) => {
                self.tasks[id.0].remaining = ns;
                self.plan_run_end(cpu);
            }
            Next::Sleep(ns) => {
                let late_ns = self.machine.what_it_costs().timer_ns;
                self.schedule_at(self.now + ns + late_ns, Event::Wake(id));
                self.block(cpu, false);
            }
            Next::Yield => self.yield_now(cpu),
            Next::Fork(spec) => {
                let child = self.bear(spec, cpu, true);
                self.tasks[child.0].doing.parent = Some(id);
                self.tasks[id.0].doing.children += 1;
                self.wake_up(child, cpu, scx::WAKE_FORK);
                self.plan_run_end(cpu);
            }
            Next::Operate(step) => self.operate(cpu, &step),
            Next::Exit => {
                self.exit_notify(cpu, id);
                self.block(cpu, true);
            }
        }
    }

    /// Schedules the end of the present step, at once where none is left.
    pub(crate) fn plan_run_end(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        self.cpus[cpu].epoch += 1;
        let (epoch, remaining) = (self.cpus[cpu].epoch, self.tasks[id.0].remaining);
        // Who spins is let go by somebody else.
        if remaining < FOR_EVER_NS / 2 {
            let end = self.now + self.cpus[cpu].costs.due_ns + remaining;
            self.schedule_at(end, Event::RunEnd { cpu, epoch });
        }
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
        for checker in &mut self.checkers {
            if let Err(message) = checker.finish(self.now)
                && self.fault.is_none()
            {
                let check = checker.name().to_owned();
                self.fault = Some(Fault { check, message, at: self.now });
            }
        }
        for observer in &self.observers {
            observer.borrow_mut().finish(self.now);
        }
        // Nobody watches a machine that is taken apart.
        self.checkers.clear();
        self.observers.clear();
        for id in (0..self.tasks.len()).map(TaskId) {
            if !self.tasks[id.0].dead {
                self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, false);
                self.retire(id);
            }
        }
        self.say_goodbye(&ProgramExit::unregistered());
    }

    /// The last events and, where asked for, the text of the whole run.
    pub(crate) fn into_trace(self) -> (Vec<String>, String) {
        (self.trace.recent(), self.trace.into_text())
    }
}

/// Cgroups, for scenarios that act on them.
impl Kernel {
    /// The id of the cgroup of that path, which is made if there is none.
    pub fn cgroup_id(&mut self, path: &str) -> u64 {
        unsafe { (*(*(*self.css_set(path)).dfl_cgrp).kn).id }
    }

    /// The cgroup of that path; what is made for it the program hears of.
    pub(crate) fn css_set(&mut self, path: &str) -> *mut CssSet {
        let css_set = self.cgroups.at(path);
        self.tell_of_cgroups();
        css_set
    }

    /// All cgroups that the program knows, children before their parents.
    pub(crate) fn cgroups_bottom_up(&self) -> Vec<*mut Cgroup> {
        self.cgroups.bottom_up()
    }

    pub(crate) fn cgroups_are_new(&mut self) {
        self.cgroups.all_are_new();
    }

    /// The program hears of the cgroups that it does not know yet.
    pub(crate) fn tell_of_cgroups(&mut self) {
        if self.class == Class::Fair {
            return;
        }
        for cgroup in self.cgroups.take_new() {
            let (id, above) = unsafe { (*cgroup).id_and_above() };
            self.observe(0, None, What::Cgroup { id, above });
            let mut args = CgroupInitArgs {
                weight: 100,
                bw_period_us: 100_000,
                bw_quota_us: NO_QUOTA,
                bw_burst_us: 0,
            };
            let args = [cgroup as u64, std::ptr::from_mut(&mut args) as u64, 0];
            let said = self.call(self.ops.cgroup_init, "cgroup_init", 0, May::Sleep, args) as i32;
            if said != 0 {
                self.fail("cgroup_init", format!("ops.cgroup_init returned {said}"));
            }
        }
    }

    /// Writes `cpu.max` of a cgroup, and `cpu.max.burst`; no quota means "max".
    pub fn set_cgroup_max(&mut self, path: &str, period_us: u64, quota_us: u64, burst_us: u64) {
        let id = self.cgroup_id(path);
        let quota = (quota_us != NO_QUOTA).then_some(Quota {
            quota_ns: quota_us * 1_000,
            period_ns: period_us * 1_000,
            burst_ns: burst_us * 1_000,
        });
        self.observe(0, None, What::Limit { cgroup: id, quota });
        let cgroup = unsafe { (*self.css_set(path)).dfl_cgrp } as u64;
        let callback = self.ops.cgroup_set_bandwidth;
        let args = [cgroup, period_us, quota_us, burst_us];
        self.call(callback, "cgroup_set_bandwidth", 0, May::Look, args);
    }

    /// Moves a task to another cgroup. No callback tells of it, as where the cpu
    /// controller is not enabled.
    pub fn move_to_cgroup(&mut self, task: TaskId, path: &str) {
        self.note(&format!("task {} moves to cgroup '{path}'", task.0));
        let (id, css_set) = (self.cgroup_id(path), self.css_set(path));
        self.observe(self.tasks[task.0].cpu, Some(task), What::Member(id));
        self.tasks[task.0].c_mut().cgroups = css_set;
        self.tell_of_move(task, path);
    }

    /// Keeps to which cgroup the task belongs now, and tells those who read.
    pub(crate) fn tell_of_move(&mut self, task: TaskId, path: &str) {
        self.tasks[task.0].cgroup = path.to_owned();
        for observer in &self.observers {
            observer.borrow_mut().moved(self.now, task, path);
        }
    }

    /// Removes a cgroup; false where rmdir() refuses: a task is in it, or a cgroup below it,
    /// or it is not there.
    pub fn remove_cgroup(&mut self, path: &str) -> bool {
        let Some(css_set) = self.cgroups.existing(path) else { return false };
        if self.tasks.iter().any(|task| !task.dead && task.c().cgroups == css_set) {
            return false;
        }
        let Some(cgroup) = self.cgroups.remove(path) else { return false };
        let (id, _) = unsafe { (*cgroup).id_and_above() };
        self.observe(0, None, What::Limit { cgroup: id, quota: None });
        let args = [cgroup as u64, 0, 0];
        self.call(self.ops.cgroup_exit, "cgroup_exit", 0, May::Sleep, args);
        true
    }

    /// Faults stop: checkers demand progress from now on.
    pub fn calm(&mut self) {
        self.observe(0, None, What::Calm);
    }

    /// Writes `cpu.idle` of a cgroup.
    pub fn set_cgroup_idle(&mut self, path: &str, idle: bool) {
        let cgroup = unsafe { (*self.css_set(path)).dfl_cgrp } as u64;
        let callback = self.ops.cgroup_set_idle;
        self.call(callback, "cgroup_set_idle", 0, May::Look, [cgroup, idle.into(), 0]);
    }

    /// Writes `cpu.weight` of a cgroup.
    pub fn set_cgroup_weight(&mut self, path: &str, weight: u32) {
        let cgroup = unsafe { (*self.css_set(path)).dfl_cgrp } as u64;
        let callback = self.ops.cgroup_set_weight;
        self.call(callback, "cgroup_set_weight", 0, May::Look, [cgroup, weight.into(), 0]);
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
