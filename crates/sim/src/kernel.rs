//! The modelled kernel: its state, its clock and its events. What the scheduling
//! class does with them is in `waking.rs`, `enqueue.rs` and `schedule.rs`, what
//! policies may call in `kfuncs/`.

mod calendar;
mod calls;
mod cgroup_files;
mod cpus;
mod events;
mod lives;
mod tasks;

pub(crate) use calls::May;
pub(crate) use cpus::Kick;
pub(crate) use events::Event;

use crate::abi::scx;
use crate::audience::Audience;
use crate::cgroups::{Cgroups, id_and_above};
use crate::checkers::Checker;
use crate::enqueue::Dispatch;
use crate::fair::FairClass;
use crate::idle::Idle;
use crate::load::{Load, Loaded, Phase, Program, ProgramExit};
use crate::machine::Machine;
use crate::observer::Shared;
use crate::paravirt::Paravirt;
use crate::random::Random;
use crate::ring::Ring;
use crate::task::{Raw, TaskFigures, TaskId};
use crate::trace::{Observed, What};
use crate::world::World;
use calls::Calls;
use cpus::Cpus;
use events::Clock;
use metasched_base::Result;
use std::rc::Rc;
use std::sync::Arc;
use tasks::Tasks;

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

/// The kernel, in parts. Each has its invariants with it, in the file of its type.
pub struct Kernel {
    pub(crate) clock: Clock,
    /// Of what the machine does: when interrupts come, and how late.
    pub(crate) random: Random,
    /// Each task without a parent and each queue of requests has its stream from here, so that under all
    /// schedulers they ask the same.
    pub(crate) origins: Random,
    pub(crate) machine: Machine,
    pub(crate) cpus: Cpus,
    pub(crate) idle: Idle,
    pub(crate) tasks: Tasks,
    /// What tasks wait for besides CPUs.
    pub(crate) world: World,
    /// What the host tells virtual machines.
    pub(crate) paravirt: Paravirt,
    cgroups: Cgroups,
    pub(crate) fair_class: FairClass,
    /// How far a program is that comes or goes, and where all tasks are meanwhile.
    pub(crate) load: Load,
    /// The program itself.
    pub(crate) program: Loaded,
    pub(crate) calls: Calls,
    pub(crate) dispatch: Dispatch,
    /// What the program tells its user space.
    pub(crate) ring: Ring,
    pub(crate) audience: Audience,
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
        let idle_tasks = (0..cpus).map(|cpu| Raw::idle(cpu, root)).collect();
        let mut kernel = Kernel {
            clock: Clock::new(),
            random: Random::new(seed),
            origins: Random::new(seed).branch(),
            machine: machine.clone(),
            cpus: Cpus::new(all),
            idle: Idle::new(machine, all),
            tasks: Tasks::new(idle_tasks, all),
            world: World::default(),
            paravirt: Paravirt::default(),
            cgroups,
            fair_class: FairClass::default(),
            load: Load::default(),
            program: Loaded::default(),
            calls: Calls::default(),
            dispatch: Dispatch::default(),
            ring: Ring::default(),
            audience: Audience::new(whole_trace),
        };
        if let Some(program) = program {
            kernel.start(program)?;
            kernel.load.phase = Phase::Enabled;
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
        for id in self.dispatch.user.ids() {
            self.observe(0, None, What::MakeQueue(id));
        }
    }

    /// Time since boot, ns.
    pub fn now(&self) -> u64 {
        self.clock.now
    }

    /// How many CPUs there are.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Where an interrupt comes that belongs to no CPU: any that takes tasks, by chance.
    pub(crate) fn any_cpu(&mut self) -> usize {
        let which = self.random.within(0, self.cpus.active.count() as u64 - 1) as usize;
        self.cpus.active.iter().nth(which).expect("one of those counted")
    }

    /// The first CPU that takes tasks.
    pub(crate) fn first_active(&self) -> usize {
        self.cpus.active.iter().next().unwrap_or(0)
    }

    /// The CPU on whose run queue a task is: where it runs, or last ran, or shall run.
    pub fn cpu_of(&self, task: TaskId) -> usize {
        self.tasks[task].cpu
    }

    /// The machine's own source of chance.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// What the run failed by, if it did.
    pub fn fault(&self) -> Option<&Fault> {
        self.audience.fault.as_ref()
    }

    /// Fails the run. The first fault counts.
    pub fn fail(&mut self, check: impl Into<String>, message: impl Into<String>) {
        self.audience.fail(self.clock.now, check, message);
    }

    /// Fails the run as the kernel ejects a scheduler.
    pub(crate) fn scx_error(&mut self, message: impl Into<String>) {
        self.fail("scx_error", message);
    }

    pub(crate) fn observe(&mut self, cpu: usize, task: Option<TaskId>, what: What) {
        let event = Observed { at: self.clock.now, cpu, task, what };
        self.paravirt.observe(&event);
        self.audience.observe(event);
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
        for task in self.tasks.iter_mut() {
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
        self.audience.finish(self.clock.now);
        for id in self.living() {
            self.dequeue_task(id, scx::DEQ_SCHED_CHANGE, false);
            self.retire(id);
        }
        self.say_goodbye(&ProgramExit::unregistered());
        if let Err(map) = self.program.maps.memory.finish() {
            self.written_too_late(map);
        }
    }

    /// The last events and, where asked for, the text of the whole run.
    pub(crate) fn into_trace(self) -> (Vec<String>, String) {
        self.audience.into_trace()
    }
}
