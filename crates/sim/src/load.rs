//! Loading a program into a machine at work, and unloading it, after scx_enable() and
//! scx_disable() of kernel/sched/ext/ext.c. Both pass every task through the bypass mode: the
//! kernel queues what is runnable on the CPU where it is, in the order of coming, with short
//! slices, and asks the policy about nothing.

use crate::abi::{ExitInfo, InitTaskArgs, Ops, scx};
use crate::callbacks::Callback;
use crate::cgroups::id_and_above;
use crate::checkers::of_level1;
use crate::image::Image;
use crate::kernel::{Act, Event, Kernel, May};
use crate::kfuncs::Host;
use crate::maps::Maps;
use crate::ring::Ring;
use crate::scenario::Setup;
use crate::syscalls::AtReturn;
use crate::task::TaskId;
use crate::timers::Timers;
use crate::topology;
use crate::trace::{Observed, What};
use metasched_abi::USES_RUNNABLE;
use metasched_base::{Error, Kind, Result};
use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

/// From the order to load a program until tasks become its own: measured in a guest on 7.2,
/// as the time that attaching takes less that of the bypass. Here and below drawn each time.
const PREPARATION_NS: (u64, u64) = (11_000_000, 61_000_000);
/// How long the kernel bypasses a program that comes or goes, measured alike.
pub(crate) const BYPASS_NS: (u64, u64) = (24_000_000, 74_000_000);

/// Which class all tasks are in. In the kernel they change one by one, here at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Class {
    #[default]
    Fair,
    Ext,
}

/// How far a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    None,
    Enabling,
    Enabled,
    Disabling,
}

/// Where all tasks are, and how far a program is. They are in [`Class::Ext`] from when they become
/// the program's own until they are no more; the kernel bypasses it as it comes and as it goes.
#[derive(Default)]
pub(crate) struct Load {
    pub class: Class,
    pub bypass: bool,
    pub phase: Phase,
    /// How many programs were loaded.
    pub loads: u64,
    /// Why the last one left.
    pub exit: Option<ProgramExit>,
    /// The program before this one, without its callbacks, until its user space is gone: at the
    /// latest when the next one is loaded.
    pub left: Option<Loaded>,
}

/// What there is of a program in the kernel.
pub(crate) struct Loaded {
    /// All null while no program is loaded.
    pub ops: Ops,
    pub image: Option<Image>,
    pub host: *mut Host,
    pub maps: Maps,
    pub timers: Timers,
    /// What is to be called as tasks return to user space.
    pub at_return: Vec<AtReturn>,
    /// What is done after each of its timers.
    pub timed: Act,
}

impl Default for Loaded {
    fn default() -> Self {
        Loaded {
            ops: Ops::none(),
            image: None,
            host: std::ptr::null_mut(),
            maps: Maps::default(),
            timers: Timers::default(),
            at_return: Vec::new(),
            timed: Arc::new(|_| ()),
        }
    }
}

/// A program that can be loaded.
#[derive(Clone)]
pub struct Program {
    /// The shared object with its native code.
    pub image: &'static [u8],
    /// Its table of callbacks.
    pub ops: String,
    /// Writes its constants before it starts.
    pub setup: Setup,
    /// What its user space does once it is loaded.
    pub started: Act,
    /// What is done after each of its timers.
    pub timed: Act,
    /// It is level 1, whose invariants are checked from when it is loaded.
    pub level1: bool,
}

impl Program {
    /// The table of callbacks `ops` in an image, with its constants as they are.
    pub fn of(image: &'static [u8], ops: impl Into<String>) -> Program {
        Program {
            image,
            ops: ops.into(),
            setup: Arc::new(|_| Ok(())),
            started: Arc::new(|_| ()),
            timed: Arc::new(|_| ()),
            level1: false,
        }
    }
}

/// Why a program left the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramExit {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// `SCX_ECODE_*`.
    pub code: u64,
    /// The kernel's words.
    pub message: String,
}

impl ProgramExit {
    pub(crate) fn unregistered() -> Self {
        ProgramExit { kind: scx::EXIT_UNREG, code: 0, message: String::new() }
    }

    fn reason(&self) -> &'static str {
        match self.kind {
            scx::EXIT_UNREG => "unregistered from user space",
            _ => "unregistered from the main kernel",
        }
    }
}

impl Kernel {
    /// Which program is loaded, counted from 1; none while tasks are in the fair class.
    pub fn loaded(&self) -> Option<u64> {
        (self.load.class == Class::Ext).then_some(self.load.loads)
    }

    /// Whether the program is there to stay: it has not been told to leave.
    pub(crate) fn stays(&self) -> bool {
        self.load.class == Class::Ext && self.load.phase != Phase::Disabling
    }

    /// Why the last program left, if one did.
    pub fn program_exit(&self) -> Option<&ProgramExit> {
        self.load.exit.as_ref()
    }

    /// Loads a program: some ten milliseconds from now tasks become its own, and some more
    /// later it is asked about them. Fails the run where there is one already.
    pub fn load(&mut self, program: &Program) {
        if self.load.phase != Phase::None {
            self.fail("load", "another program is attached; unload it first");
            return;
        }
        self.note("a program is loaded");
        self.load.phase = Phase::Enabling;
        let delay = self.random.within(PREPARATION_NS.0, PREPARATION_NS.1);
        self.schedule_at(self.clock.now + delay, Event::Attach(Box::new(program.clone())));
    }

    /// Unloads the program; fails the run where there is none in force.
    pub fn unload(&mut self) {
        if self.load.phase != Phase::Enabled {
            self.fail("unload", "no program is attached");
            return;
        }
        self.leave(ProgramExit::unregistered());
    }

    /// The program goes, for that reason; unless it is on its way already.
    pub(crate) fn leave(&mut self, exit: ProgramExit) {
        if self.load.class == Class::Fair || self.load.phase == Phase::Disabling {
            return;
        }
        self.note(&format!("the program leaves: {} {}", exit.reason(), exit.message));
        self.load.phase = Phase::Disabling;
        self.observe(0, None, What::Detached);
        self.set_bypass(true);
        let delay = self.random.within(BYPASS_NS.0, BYPASS_NS.1);
        self.schedule_at(self.clock.now + delay, Event::Detach(Box::new(exit)));
    }

    /// Opens a program and puts its callbacks in place, with no task yet.
    ///
    /// # Errors
    /// When the image cannot be loaded or uses what is not modelled. A fault in `ops.init`
    /// is a fault of the run.
    pub(crate) fn start(&mut self, program: &Program) -> Result<()> {
        let image = Image::open(program.image)?;
        topology::tell(&image, &self.machine)?;
        (program.setup)(&image)?;
        self.program.host = Host::connect(&image)?;
        // SAFETY: a program's `ops` is the name of a `struct sched_ext_ops`. open() has compared
        // its layout with that of `Ops`, which is of raw pointers and numbers, whatever they are.
        self.program.ops = unsafe { std::ptr::read(image.ops(&program.ops)?) };
        self.leave_out(&image);
        self.program.image = Some(image);
        // By now the user space of the one before is gone.
        self.load.left = None;
        self.ring = Ring::default();
        self.program.timed = program.timed.clone();
        refuse_what_is_not_modelled(&self.program.ops)?;
        self.load.class = Class::Ext;
        self.load.loads += 1;
        self.cgroups_are_new();
        let result = self.call(self.program.ops.init, Callback::Init, 0, May::Sleep, [0; 3]) as i32;
        if result != 0 {
            self.fail("init", format!("ops.init returned {result}"));
        }
        self.tell_of_cgroups();
        self.watch();
        Ok(())
    }

    /// Callbacks of level 1 that no policy names, as the loader leaves them out.
    fn leave_out(&mut self, image: &Image) {
        let Some(used) = image.symbol("policies_use") else { return };
        // SAFETY: meta/table.bpf.h declares it so. It calls nothing.
        let used: extern "C" fn() -> u32 = unsafe { std::mem::transmute(used) };
        if used() & USES_RUNNABLE == 0 {
            self.program.ops.runnable = std::ptr::null();
            self.program.ops.quiescent = std::ptr::null();
        }
    }

    pub(crate) fn attach(&mut self, program: &Program) {
        let waiting = self.waiting();
        for id in &waiting {
            self.dequeue_task(*id, scx::DEQ_SCHED_CHANGE, false);
        }
        self.fair_forget();
        self.load.bypass = true;
        self.observe(0, None, What::Bypass(true));
        self.idle.forget();
        if let Err(error) = self.start(program) {
            self.fail("load", error.to_string());
            return;
        }
        if program.level1 {
            self.check_level1();
        }
        (program.started)(self);
        for id in self.living() {
            self.init_task(id, false);
        }
        for id in self.living() {
            self.enable_task(id);
            let cpu = self.tasks[id].cpu;
            if self.cpus[cpu].curr == Some(id) {
                self.tasks[id].c_mut().scx.slice = self.default_slice_ns();
                let p = self.pointer(id);
                self.call(self.program.ops.runnable, Callback::Runnable, cpu, May::Look, [p, 0, 0]);
                self.call(self.program.ops.running, Callback::Running, cpu, May::Look, [p, 0, 0]);
            }
        }
        for id in waiting {
            self.enqueue_task(id, 0, None);
        }
        self.resched_all();
        let delay = self.random.within(BYPASS_NS.0, BYPASS_NS.1);
        self.schedule_at(self.clock.now + delay, Event::Enabled);
    }

    /// Level 1's checkers come with it, those that are not there yet, and hear how everything
    /// stands.
    fn check_level1(&mut self) {
        let stands = self.how_it_stands();
        let (cpus, tick_ns) = (self.cpus.len(), self.machine.tick_ns());
        for mut checker in of_level1(cpus, tick_ns, None) {
            if self.checks(checker.name()) {
                continue;
            }
            if let Some(wrong) = stands.iter().find_map(|event| checker.observe(event).err()) {
                self.fail(checker.name(), wrong);
            }
            self.check(checker);
        }
    }

    /// What has happened so far, as far as it matters: cgroups, queues, and the living tasks, of
    /// which none stands in a queue.
    fn how_it_stands(&self) -> Vec<Observed> {
        let at = self.clock.now;
        let of_machine = |what| Observed { at, cpu: 0, task: None, what };
        let mut events = vec![of_machine(What::Bypass(true))];
        for cgroup in self.cgroups_bottom_up().into_iter().rev() {
            let (id, above) = id_and_above(cgroup);
            events.push(of_machine(What::Cgroup { id, above }));
            if let Some(quota) = self.quota_of(id) {
                events.push(of_machine(What::Limit { cgroup: id, quota: Some(Box::new(quota)) }));
            }
        }
        events
            .extend(self.dispatch.user.ids().into_iter().map(|id| of_machine(What::MakeQueue(id))));
        for id in self.living() {
            let task = &self.tasks[id];
            let (weight, allowed) = (task.c().scx.weight, Rc::new(task.c().cpus_mask));
            let (cgroup, _) = id_and_above(task.raw.cgroup());
            let mut life = vec![
                What::Arrive { weight, allowed, kthread: task.spec.kthread },
                What::Member(cgroup),
            ];
            if self.cpus[task.cpu].curr == Some(id) {
                life.extend([What::Wake, What::Start]);
            } else if task.runnable_since.is_some() {
                life.push(What::Wake);
            }
            let of_task = |what| Observed { at, cpu: task.cpu, task: Some(id), what };
            events.extend(life.into_iter().map(of_task));
        }
        events
    }

    pub(crate) fn enabled(&mut self) {
        // It may have been told to leave meanwhile.
        if self.load.phase == Phase::Enabling {
            self.note("the program is in force");
            self.load.phase = Phase::Enabled;
            self.set_bypass(false);
        }
    }

    pub(crate) fn detach(&mut self, exit: ProgramExit) {
        let (waiting, running) = (self.waiting(), self.running());
        for id in waiting.iter().chain(&running) {
            self.dequeue_task(*id, scx::DEQ_SCHED_CHANGE, false);
        }
        for id in self.living() {
            self.forget_task(id);
            self.tasks[id].storage.clear();
        }
        self.say_goodbye(&exit);
        self.load.exit = Some(exit);
        self.program.ops = Ops::none();
        self.program.at_return.clear();
        self.load.left = Some(std::mem::take(&mut self.program));
        for id in std::mem::take(&mut self.dispatch.user).ids() {
            self.observe(0, None, What::DestroyQueue(id));
        }
        (self.load.class, self.load.bypass, self.load.phase) = (Class::Fair, false, Phase::None);
        self.observe(0, None, What::Bypass(false));
        self.idle.forget();
        self.fair_forget();
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].curr.is_none() && self.cpus.active.has(cpu) {
                self.mark_idle(cpu, true);
            }
        }
        for id in running {
            let cpu = self.tasks[id].cpu;
            self.tasks[id].c_mut().scx.flags |= scx::TASK_QUEUED;
            self.fair_resume(cpu, id);
        }
        for id in waiting {
            self.enqueue_task(id, 0, None);
        }
        self.resched_all();
    }

    /// The last that a program hears.
    pub(crate) fn say_goodbye(&mut self, exit: &ProgramExit) {
        for cgroup in self.cgroups_bottom_up() {
            let callback = self.program.ops.cgroup_exit;
            self.call(callback, Callback::CgroupExit, 0, May::Sleep, [cgroup as u64, 0, 0]);
        }
        let text = |text: &str| CString::new(text).expect("no zero in the kernel's words");
        let (reason, message) = (text(exit.reason()), text(&exit.message));
        let mut info = ExitInfo {
            kind: exit.kind,
            exit_code: exit.code as i64,
            reason: reason.as_ptr().cast(),
            bt: std::ptr::null_mut(),
            bt_len: 0,
            msg: message.as_ptr().cast(),
            dump: c"".as_ptr().cast(),
        };
        let at = std::ptr::from_mut(&mut info) as u64;
        self.call(self.program.ops.exit, Callback::Exit, 0, May::Sleep, [at, 0, 0]);
    }

    /// Has every waiting task queued anew, by the kernel or by the policy.
    fn set_bypass(&mut self, on: bool) {
        self.load.bypass = on;
        self.observe(0, None, What::Bypass(on));
        for id in self.waiting() {
            self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, false);
            self.enqueue_task(id, 0, None);
        }
        for cpu in (0..self.cpus.len()).filter(|_| !on) {
            if self.cpus[cpu].curr.is_none() {
                // It has missed what happened meanwhile.
                let args = [cpu as u64, 1, 0];
                self.call(self.program.ops.update_idle, Callback::UpdateIdle, cpu, May::Look, args);
            }
        }
        for cpu in (0..self.cpus.len()).filter(|_| on) {
            if self.cpus[cpu].tickless {
                self.ticks_again(cpu);
            }
        }
        self.resched_all();
    }

    /// What the kernel itself grants.
    pub(crate) fn default_slice_ns(&self) -> u64 {
        if self.load.bypass { scx::SLICE_BYPASS } else { scx::SLICE_DFL }
    }

    fn resched_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.resched(cpu);
        }
    }

    /// The tasks that live now, whatever becomes of them.
    pub(crate) fn living(&self) -> Vec<TaskId> {
        self.tasks.living().collect()
    }

    fn running(&self) -> Vec<TaskId> {
        self.cpus.iter().filter_map(|cpu| cpu.curr).filter(|id| self.tasks[*id].queued()).collect()
    }

    /// Every runnable task that does not run, the one that came first before others.
    fn waiting(&self) -> Vec<TaskId> {
        let mut waiting: Vec<TaskId> = self.living();
        waiting.retain(|id| {
            let task = &self.tasks[*id];
            task.queued() && self.cpus[task.cpu].curr != Some(*id)
        });
        waiting.sort_by_key(|id| (self.tasks[*id].runnable_since, *id));
        waiting
    }

    /// The policy hears of a task.
    pub(crate) fn init_task(&mut self, id: TaskId, fork: bool) {
        let (cpu, raw) = (self.tasks[id].cpu, &self.tasks[id].raw);
        let (p, mut args) = (raw.pointer() as u64, InitTaskArgs { fork, cgroup: raw.cgroup() });
        let args_at = std::ptr::from_mut(&mut args) as u64;
        let made = self.call(
            self.program.ops.init_task,
            Callback::InitTask,
            cpu,
            May::Sleep,
            [p, args_at, 0],
        ) as i32;
        if made != 0 {
            self.fail("init_task", format!("ops.init_task returned {made}"));
        }
        if self.tasks[id].c().scx.disallow {
            self.fail("refused", "ops.init_task set disallow, which is not modelled");
        }
    }

    /// The task is the policy's from now on.
    pub(crate) fn enable_task(&mut self, id: TaskId) {
        let (cpu, p, weight) =
            (self.tasks[id].cpu, self.pointer(id), self.tasks[id].c().scx.weight);
        self.call(self.program.ops.enable, Callback::Enable, cpu, May::Look, [p, 0, 0]);
        self.call(
            self.program.ops.set_weight,
            Callback::SetWeight,
            cpu,
            May::Look,
            [p, weight.into(), 0],
        );
    }

    /// disable and exit_task: the policy knows the task no more.
    pub(crate) fn forget_task(&mut self, id: TaskId) {
        let (cpu, p) = (self.tasks[id].cpu, self.pointer(id));
        self.call(self.program.ops.disable, Callback::Disable, cpu, May::Look, [p, 0, 0]);
        // struct scx_exit_task_args { bool cancelled; }
        let mut cancelled = false;
        let args_at = std::ptr::from_mut(&mut cancelled) as u64;
        self.call(self.program.ops.exit_task, Callback::ExitTask, cpu, May::Look, [p, args_at, 0]);
    }
}

fn refuse_what_is_not_modelled(ops: &Ops) -> Result<()> {
    let refused = |cause: String| Err(Error::new(Kind::Unsupported, "attach the policy", cause));
    for (flag, name) in [
        (scx::OPS_SWITCH_PARTIAL, "SCX_OPS_SWITCH_PARTIAL"),
        (scx::OPS_BUILTIN_IDLE_PER_NODE, "SCX_OPS_BUILTIN_IDLE_PER_NODE"),
        (scx::OPS_ALWAYS_ENQ_IMMED, "SCX_OPS_ALWAYS_ENQ_IMMED"),
    ] {
        if ops.flags & flag != 0 {
            return refused(format!("it sets {name}, which is not modelled"));
        }
    }
    let unknown = ops.flags & !scx::OPS_KNOWN;
    if unknown != 0 {
        return refused(format!("it sets the flags {unknown:#x}, which are not modelled"));
    }
    if ops.timeout_ms > scx::WATCHDOG_MAX_MS {
        return refused(format!(
            "its timeout of {} ms is longer than the kernel takes, {} ms",
            ops.timeout_ms,
            scx::WATCHDOG_MAX_MS
        ));
    }
    Ok(())
}
