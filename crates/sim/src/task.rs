//! Tasks: what the engine keeps of them.

use crate::abi::{
    Cgroup, CpuMask, CssSet, Registers, SchedEntity, SchedInfo, ScxEntity, SignalStruct,
    TaskStruct, scx,
};
use crate::cgroups::cgroup_of;
use crate::dsq::DsqRef;
use crate::fair::FairTask;
use crate::memory::Value;
use crate::random::Random;
pub use crate::step::Step;
use crate::step::{Doing, Stage};
pub use metasched_scenario::task::TaskSpec;
use std::ptr;
use std::sync::Arc;

/// A task's place in the engine's table; its pid is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// Where a task stands between the kernel and the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    /// The policy has no say over it.
    None,
    /// Handed over by ops.enqueue and not dispatched yet; the number tells this
    /// hand-over from earlier ones.
    Queued(u64),
}

/// What the script of a task wants next.
pub enum Next {
    /// To run for so long.
    Run(u64),
    /// To sleep for so long.
    Sleep(u64),
    /// To sleep until that time, ns, which it has got ready for.
    SleepUntil(u64),
    /// To yield.
    Yield,
    /// To bear a task.
    Fork(Arc<TaskSpec>),
    /// Something that the engine does with what tasks share, see `operate.rs`.
    Operate(Step),
    /// To end.
    Exit,
}

/// Figures of one task, all in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskFigures {
    /// Time on a CPU.
    pub ran_ns: u64,
    /// Longest time from runnable to running.
    pub longest_wait_ns: u64,
    /// All such times together.
    pub waited_ns: u64,
    /// How many there were.
    pub waits: u64,
    /// How often it changed its CPU.
    pub migrations: u64,
    /// How often it left its CPU because it slept, waited or ended.
    pub voluntary_switches: u64,
    /// How often it left its CPU although it wanted to run on.
    pub involuntary_switches: u64,
    /// When it first ran.
    pub first_run_ns: Option<u64>,
    /// When it exited.
    pub exited_ns: Option<u64>,
}

/// A C struct at a fixed address, which the policy may hold on to.
pub struct Raw {
    task: *mut TaskStruct,
    signal: *mut SignalStruct,
}

impl Raw {
    /// What a CPU runs when it has nothing to run: pid 0, and no task of ours.
    pub(crate) fn idle(cpu: usize, css_set: *mut CssSet) -> Raw {
        let spec = TaskSpec::named(format!("swapper/{cpu}")).kthread();
        let raw = Raw::new(TaskId(0), &spec, CpuMask::one(cpu), 0, css_set);
        // SAFETY: it was just made, and nobody else knows of it.
        let c = unsafe { &mut *raw.pointer() };
        (c.pid, c.tgid) = (0, 0);
        c.flags |= scx::PF_IDLE;
        raw
    }

    fn new(id: TaskId, spec: &TaskSpec, allowed: CpuMask, now: u64, css_set: *mut CssSet) -> Raw {
        let mut comm = [0; 16];
        spec.name.bytes().take(15).enumerate().for_each(|(i, b)| comm[i] = b);
        let signal = SignalStruct { nr_threads: 1, group_exec_task: ptr::null_mut(), flags: 0 };
        let signal = Box::into_raw(Box::new(signal));
        let task = Box::into_raw(Box::new(TaskStruct {
            pid: id.0 as i32 + 1,
            tgid: id.0 as i32 + 1,
            flags: if spec.kthread { scx::PF_KTHREAD } else { 0 },
            prio: 120,
            static_prio: 120,
            nr_cpus_allowed: allowed.count() as i32,
            migration_disabled: 0,
            rcu_read_lock_nesting: 0,
            cpus_ptr: ptr::null_mut(),
            cpus_mask: allowed,
            se: SchedEntity::default(),
            scx: ScxEntity { weight: spec.weight, slice: scx::SLICE_DFL, ..Default::default() },
            sched_info: SchedInfo::default(),
            nvcsw: 0,
            nivcsw: 0,
            start_time: now,
            cgroups: css_set,
            signal,
            pending: 0,
            regs: Registers { ax: 0, orig_ax: -1 },
            comm,
        }));
        // SAFETY: it was just made, and nobody else knows of it.
        unsafe { (*task).cpus_ptr = &raw mut (*task).cpus_mask };
        Raw { task, signal }
    }

    /// The task is one of so many threads of a process, which its first thread began.
    pub(crate) fn is_thread_of(&mut self, first: TaskId, threads: usize) {
        // SAFETY: both are there as long as `self`, and nobody else has them now.
        unsafe {
            (*self.task).tgid = first.0 as i32 + 1;
            (*self.signal).nr_threads = threads as i32;
        }
    }

    /// What the policy is given.
    pub fn pointer(&self) -> *mut TaskStruct {
        self.task
    }

    /// Where the task's cgroup is.
    pub fn cgroup(&self) -> *mut Cgroup {
        // SAFETY: the struct is there as long as `self`, and nothing writes to it here.
        cgroup_of(unsafe { (*self.task).cgroups })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: both are from Box::into_raw() in new(), and this alone frees them. A kernel keeps
        // its tasks until the run is over, so no program looks at them any more.
        unsafe {
            drop(Box::from_raw(self.task));
            drop(Box::from_raw(self.signal));
        }
    }
}

/// A task as the engine keeps it.
pub struct Task {
    pub(crate) name: String,
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) raw: Raw,
    pub(crate) cgroup: String,
    /// Its run queue: where it runs, or last ran, or shall run.
    pub(crate) cpu: usize,
    /// Where it last ran.
    pub(crate) ran_on: Option<usize>,
    pub(crate) ops_state: OpsState,
    pub(crate) hand_overs: u64,
    /// The policy owes a dequeue for it.
    pub(crate) in_custody: bool,
    /// The queue in which it stands.
    pub(crate) dsq: Option<DsqRef>,
    /// What it is found by there.
    pub(crate) dsq_key: u64,
    /// How often it was put into one: tells an iterator whether it is still the same time.
    pub(crate) inserts: u64,
    pub(crate) fair: FairTask,
    /// Verdict of an insert from select_cpu or enqueue: queue and flags.
    pub(crate) direct: Option<(u64, u64)>,
    pub(crate) selected_cpu: usize,
    pub(crate) exec_start: u64,
    /// What is left of the present Run step.
    pub(crate) remaining: u64,
    step: usize,
    round: u64,
    pub(crate) doing: Doing,
    /// Of what it does while it works on no request, see [`Task::random`].
    own_random: Random,
    exiting: bool,
    /// How long it takes it to deal with the signal that killed it.
    dying: u64,
    pub(crate) dead: bool,
    /// Since when it waits for a CPU.
    pub(crate) runnable_since: Option<u64>,
    /// Since when it waits as its run queue has it, see `sched_info.rs`.
    pub(crate) last_queued: Option<u64>,
    /// Every wait that is over.
    pub(crate) waits_ns: Vec<u64>,
    pub(crate) figures: TaskFigures,
    /// By the address of the map that it is of.
    pub(crate) storage: Vec<(usize, Value)>,
}

/// Run time of a task between the start of its exit and its death: a task is
/// still scheduled then, and policies see it with PF_EXITING.
const EXIT_NS: u64 = 20_000;

impl Task {
    pub(crate) fn new(
        id: TaskId,
        spec: Arc<TaskSpec>,
        allowed: CpuMask,
        now: u64,
        css_set: *mut CssSet,
        own_random: Random,
    ) -> Task {
        Task {
            name: spec.name.clone(),
            raw: Raw::new(id, &spec, allowed, now, css_set),
            cgroup: spec.cgroup.clone(),
            spec,
            cpu: 0,
            ran_on: None,
            ops_state: OpsState::None,
            hand_overs: 0,
            in_custody: false,
            dsq: None,
            dsq_key: 0,
            inserts: 0,
            fair: FairTask::new(id),
            direct: None,
            selected_cpu: 0,
            exec_start: 0,
            remaining: 0,
            step: 0,
            round: 0,
            doing: Doing::default(),
            own_random,
            exiting: false,
            dying: 0,
            dead: false,
            runnable_since: None,
            last_queued: None,
            waits_ns: Vec::new(),
            figures: TaskFigures::default(),
            storage: Vec::new(),
        }
    }

    /// The C struct. The policy writes to it too, but only during a callback.
    pub(crate) fn c(&self) -> &TaskStruct {
        // SAFETY: it is there as long as `self`. The policy has its address, but it runs only while
        // somebody has the whole kernel, of which this borrows a part.
        unsafe { &*self.raw.pointer() }
    }

    /// Its struct in C, to write to.
    pub(crate) fn c_mut(&mut self) -> &mut TaskStruct {
        // SAFETY: as above; and of us, nobody else has the task now.
        unsafe { &mut *self.raw.pointer() }
    }

    pub(crate) fn queued(&self) -> bool {
        self.c().scx.flags & scx::TASK_QUEUED != 0
    }

    pub(crate) fn may_use(&self, cpu: usize) -> bool {
        self.c().cpus_mask.has(cpu)
    }

    /// What it does is drawn from here: from the request that it works on, so that a request asks the same
    /// whoever works on it.
    pub(crate) fn random(&mut self) -> &mut Random {
        self.doing.requests.front_mut().map_or(&mut self.own_random, |request| &mut request.random)
    }

    /// The next thing that the script wants.
    pub(crate) fn next(&mut self) -> Next {
        if self.exiting {
            return Next::Exit;
        }
        if self.c().pending & scx::SIGKILL_BIT != 0 {
            // The signal is dealt with some time before the exit is marked.
            self.c_mut().pending &= !scx::SIGKILL_BIT;
            if self.dying > 0 {
                return Next::Run(self.dying);
            }
        }
        // SAFETY: it was made with the task, and goes with it.
        if unsafe { (*self.c().signal).flags } & scx::SIGNAL_GROUP_EXIT != 0 {
            return self.begin_exit();
        }
        // What it waited for may be there by now: it tries again.
        let step = if self.doing.begun() { Some(self.step - 1) } else { self.next_step() };
        match step.map(|at| &self.spec.steps[at]) {
            None => self.begin_exit(),
            Some(Step::Run(span)) => {
                let span = *span;
                self.doing.runs();
                Next::Run(span.draw(self.random()).max(1))
            }
            Some(Step::Sleep(span)) => {
                let span = *span;
                match std::mem::take(&mut self.doing.stage) {
                    Stage::FallsAsleep(due) => Next::SleepUntil(due),
                    _ => Next::Sleep(span.draw(self.random()).max(1)),
                }
            }
            Some(Step::Yield) => Next::Yield,
            Some(Step::Fork(spec)) => Next::Fork(spec.clone()),
            Some(step) => Next::Operate(step.clone()),
        }
    }

    /// It gets SIGKILL, and runs for so many ns between that and its exit.
    pub(crate) fn kill(&mut self, dying: u64) {
        let c = self.c_mut();
        c.pending |= scx::SIGKILL_BIT;
        // SAFETY: it was made with the task, and goes with it.
        unsafe { (*c.signal).flags |= scx::SIGNAL_GROUP_EXIT };
        (self.remaining, self.dying) = (0, dying);
    }

    fn begin_exit(&mut self) -> Next {
        self.exiting = true;
        self.c_mut().flags |= scx::PF_EXITING;
        Next::Run(EXIT_NS)
    }

    /// Goes on to the next step, and gives its place; none where the task is done.
    fn next_step(&mut self) -> Option<usize> {
        loop {
            if self.step == self.spec.steps.len() {
                self.step = 0;
                self.round += 1;
            }
            let over = self.spec.rounds.is_some_and(|rounds| self.round >= rounds);
            if over || self.spec.steps.is_empty() {
                return None;
            }
            self.step += 1;
            match self.spec.steps[self.step - 1] {
                Step::Again { back, times } => {
                    if self.doing.again(self.step, times) {
                        self.step -= 1 + back;
                    }
                }
                _ => return Some(self.step - 1),
            }
        }
    }
}
