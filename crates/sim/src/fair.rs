//! The class in which tasks live while no program is loaded: earliest eligible virtual deadline
//! first, with cgroups, as kernel/sched/fair.c of Linux 7.3 has it. All tasks of a CPU compete in
//! one queue (`fair/timeline.rs`), with the weights that the hierarchy of cgroups leaves them
//! (`fair/groups.rs`).
//!
//! That a request is served is noticed by a timer of its own (HRTICK) where somebody waits. A
//! task that wakes takes another CPU when that CPU next enters the kernel (PREEMPT_LAZY).

mod average;
mod balance;
mod cgroups;
mod groups;
mod timeline;

use crate::abi::scx;
use crate::dsq::DsqRef;
use crate::kernel::{Event, Kernel};
use crate::task::TaskId;
use crate::trace::What;
use groups::{Change, Groups, weight_of};
use timeline::{Entity, Next, Timeline};

/// What a task asks for at once, on one CPU; more on more of them (`sysctl_sched_base_slice`).
const SLICE_NS: u64 = 700_000;
/// CPUs beyond these make slices no longer.
const SLICE_CPUS: usize = 8;
/// A timer for the end of a request is set for no less.
const LEAST_TIMER_NS: u64 = 10_000;

/// What belongs to no CPU.
#[derive(Default)]
pub(crate) struct FairClass {
    groups: Groups,
    /// The tasks throttled by `cpu.max`, in the order in which they were.
    parked: Vec<TaskId>,
    /// How many tasks wait.
    waiting: usize,
}

/// What a CPU has of the class.
#[derive(Default)]
pub(crate) struct FairQueue {
    timeline: Timeline,
    /// How many of those that compete are below a cgroup with `cpu.idle`.
    idle: usize,
    /// How many cgroups have tasks among them, or cgroups that do.
    groups: usize,
    /// The CPU is to choose anew when it next enters the kernel.
    lazy: bool,
    /// The timer for the end of a request is set, and which one it is.
    timer_set: bool,
    timers: u64,
}

impl FairQueue {
    fn forget(&mut self) {
        *self = FairQueue { timers: self.timers, ..FairQueue::default() };
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It competes for no CPU.
    Out,
    /// It competes, and does not run.
    Waiting,
    /// It is about to run.
    Chosen,
    Running,
}

/// What a task has of the class.
pub(crate) struct FairTask {
    /// As it is, unless it runs.
    entity: Entity,
    place: Standing,
    /// It has never competed.
    newcomer: bool,
    /// While it competes: its cgroup, whether that gives way, and its own weight.
    group: usize,
    idle: bool,
    own: u64,
}

impl FairTask {
    pub fn new(id: TaskId) -> FairTask {
        FairTask {
            entity: Entity::new(id),
            place: Standing::Out,
            newcomer: true,
            group: 0,
            idle: false,
            own: 0,
        }
    }

    fn forget(&mut self) {
        *self = FairTask { newcomer: false, ..FairTask::new(self.entity.id) };
    }

    /// Whether it sleeps, and competes until it owes nothing.
    fn is_delayed(&self) -> bool {
        self.place == Standing::Waiting && self.entity.delayed
    }
}

impl Kernel {
    /// The slice that a task asks for.
    fn fair_slice_ns(&self) -> u64 {
        let cpus = self.cpus.online.count().clamp(1, SLICE_CPUS);
        let usual = SLICE_NS * (1 + u64::from(cpus.ilog2()));
        self.machine.what_base_slice_ns().unwrap_or(usual)
    }

    /// What a switch to a task takes longer since it is below cgroups that the one before is not below.
    pub(crate) fn fair_groups_ns(&self, cpu: usize, id: TaskId) -> u64 {
        let line = |id: TaskId| self.fair_class.groups.line(self.tasks[id].fair.group);
        let shared = |group: &usize| {
            self.cpus[cpu].curr.is_some_and(|before| line(before).any(|above| above == *group))
        };
        let levels = line(id).filter(|group| !shared(group)).count();
        self.machine.groups_ns(levels, self.cpus[cpu].fair.groups)
    }

    /// The tasks of a cgroup on a CPU change.
    fn fair_change(&mut self, group: usize, cpu: usize, change: Change) {
        let (online, now) = (self.cpus.online.count(), self.clock.now);
        let more = self.fair_class.groups.change(group, cpu, change, online, now);
        let groups = &mut self.cpus[cpu].fair.groups;
        *groups = groups.strict_add_signed(more);
    }

    /// A task competes from now on, beside those of its cgroup.
    fn fair_join(&mut self, id: TaskId) {
        let (cpu, group) = (self.tasks[id].cpu, self.fair_group(id));
        let own = weight_of(self.tasks[id].c().scx.weight);
        let idle = self.fair_class.groups.is_idle(group);
        self.fair_change(group, cpu, Change { load: own as i64, members: 1, runnable: 1 });
        let flat = self.fair_class.groups.flat(group, cpu, own);
        let fair = &mut self.tasks[id].fair;
        (fair.group, fair.own, fair.idle) = (group, own, idle);
        fair.entity.reweigh(flat);
        self.cpus[cpu].fair.idle += usize::from(idle);
    }

    /// It does no more.
    fn fair_part(&mut self, id: TaskId, runnable: i64) {
        let (cpu, fair) = (self.tasks[id].cpu, &self.tasks[id].fair);
        let (group, idle) = (fair.group, fair.idle);
        self.cpus[cpu].fair.idle -= usize::from(idle);
        let load = -(fair.own as i64);
        self.fair_change(group, cpu, Change { load, members: -1, runnable });
        self.fair_slack(group);
    }

    /// A task that wants to run comes to its CPU's queue: it woke, comes from elsewhere, or gives
    /// the CPU up.
    pub(crate) fn fair_enqueue(&mut self, id: TaskId) {
        let cpu = self.tasks[id].cpu;
        let place = self.tasks[id].fair.place;
        if self.fair_throttled(id) {
            self.fair_leave(id, false);
            return self.fair_park(id);
        }
        if place == Standing::Running {
            let entity = self.cpus[cpu].fair.timeline.current.take();
            return self.fair_wait(id, entity.expect("it is the one that runs"));
        }
        self.update_curr(cpu);
        let (slice_ns, tick_ns) = (self.fair_slice_ns(), self.machine.tick_ns());
        if self.tasks[id].fair.is_delayed() {
            let group = self.tasks[id].fair.group;
            self.fair_change(group, cpu, Change { runnable: 1, ..Change::default() });
            let timeline = &mut self.cpus[cpu].fair.timeline;
            let mut entity = timeline.remove(id, self.tasks[id].fair.entity.deadline);
            timeline.insert(entity);
            timeline.update_lag(&mut entity, slice_ns, tick_ns);
            let moved = timeline.average() - entity.lag != entity.vruntime;
            timeline.remove(id, entity.deadline);
            if moved {
                timeline.place(&mut entity, slice_ns, false);
            }
            entity.delayed = false;
            return self.fair_wait(id, entity);
        }
        self.fair_join(id);
        let fair = &mut self.tasks[id].fair;
        let (mut entity, newcomer) = (fair.entity, std::mem::take(&mut fair.newcomer));
        self.cpus[cpu].fair.timeline.place(&mut entity, slice_ns, newcomer);
        self.fair_wait(id, entity);
    }

    /// It waits for its CPU.
    fn fair_wait(&mut self, id: TaskId, entity: Entity) {
        let cpu = self.tasks[id].cpu;
        self.cpus[cpu].fair.timeline.insert(entity);
        let task = &mut self.tasks[id];
        (task.fair.entity, task.fair.place) = (entity, Standing::Waiting);
        task.dsq = Some(DsqRef::Fair(cpu));
        self.fair_class.waiting += 1;
        self.observe(cpu, Some(id), What::Insert(DsqRef::Fair(cpu)));
    }

    /// Takes a task out of the queue, to run or to leave.
    pub(crate) fn fair_dequeue(&mut self, id: TaskId, cpu: usize) -> bool {
        let fair = &mut self.tasks[id].fair;
        if fair.place != Standing::Waiting {
            return false;
        }
        fair.entity = self.cpus[cpu].fair.timeline.remove(id, fair.entity.deadline);
        fair.place = Standing::Chosen;
        self.fair_class.waiting -= 1;
        true
    }

    /// A task wants to run no more, or not here. One that goes to sleep in debt competes on
    /// until it owes nothing: so it cannot sleep that away.
    pub(crate) fn fair_leave(&mut self, id: TaskId, sleeps: bool) {
        // Such a one is no more among those that want to run.
        if self.tasks[id].fair.is_delayed() {
            return self.fair_settle(id);
        }
        let cpu = self.tasks[id].cpu;
        let (slice_ns, tick_ns) = (self.fair_slice_ns(), self.machine.tick_ns());
        if self.tasks[id].fair.place == Standing::Waiting {
            self.update_curr(cpu);
        }
        let exits = self.tasks[id].c().flags & scx::PF_EXITING != 0;
        let stays = sleeps && !exits && !self.fair_throttled(id);
        let fair = &mut self.tasks[id].fair;
        let timeline = &mut self.cpus[cpu].fair.timeline;
        let mut entity = match fair.place {
            Standing::Running => timeline.current.expect("it is the one that runs"),
            Standing::Waiting => *timeline.get(id, fair.entity.deadline),
            Standing::Chosen | Standing::Out => return self.dispatch_dequeue(id),
        };
        timeline.update_lag(&mut entity, slice_ns, tick_ns);
        if stays && !timeline.eligible(entity.vruntime) {
            timeline.current = None;
            entity.delayed = true;
            timeline.insert(entity);
            (fair.entity, fair.place) = (entity, Standing::Waiting);
            let group = fair.group;
            return self.fair_change(group, cpu, Change { runnable: -1, ..Change::default() });
        }
        match fair.place {
            Standing::Running => timeline.current = None,
            _ => self.dispatch_dequeue(id),
        }
        self.fair_part(id, -1);
        if !sleeps {
            entity.deadline -= entity.vruntime;
            entity.relative = true;
        }
        let fair = &mut self.tasks[id].fair;
        (fair.entity, fair.place) = (entity, Standing::Out);
    }

    /// A task that sleeps competes no more.
    pub(crate) fn fair_settle(&mut self, id: TaskId) {
        if !self.tasks[id].fair.is_delayed() {
            return;
        }
        let cpu = self.tasks[id].cpu;
        self.update_curr(cpu);
        let (slice_ns, tick_ns) = (self.fair_slice_ns(), self.machine.tick_ns());
        let timeline = &mut self.cpus[cpu].fair.timeline;
        let mut entity = self.tasks[id].fair.entity;
        timeline.update_lag(&mut entity, slice_ns, tick_ns);
        timeline.remove(id, entity.deadline);
        entity.delayed = false;
        let fair = &mut self.tasks[id].fair;
        (fair.entity, fair.place) = (entity, Standing::Out);
        self.fair_part(id, 0);
    }

    /// Whether a task that sleeps still competes for its CPU: then it wakes there.
    pub(crate) fn fair_stays(&mut self, id: TaskId) -> bool {
        let cpu = self.tasks[id].cpu;
        if self.tasks[id].fair.is_delayed() && !self.may_run_on(id, cpu) {
            self.fair_settle(id);
        }
        self.tasks[id].fair.is_delayed()
    }

    /// What runs has come to this class, or to another cgroup or weight, while it ran.
    pub(crate) fn fair_resume(&mut self, cpu: usize, id: TaskId) {
        self.fair_join(id);
        let slice_ns = self.fair_slice_ns();
        let fair = &mut self.tasks[id].fair;
        let timeline = &mut self.cpus[cpu].fair.timeline;
        timeline.place(&mut fair.entity, slice_ns, std::mem::take(&mut fair.newcomer));
        fair.place = Standing::Running;
        timeline.begin(fair.entity);
        self.fair_set_timer(cpu);
    }

    /// A task that was chosen begins to run.
    pub(crate) fn fair_begin(&mut self, cpu: usize, id: TaskId) {
        let (slice_ns, tick_ns) = (self.fair_slice_ns(), self.machine.tick_ns());
        let fair = &mut self.tasks[id].fair;
        let (group, own) = (fair.group, fair.own);
        fair.place = Standing::Running;
        let flat = self.fair_class.groups.flat(group, cpu, own);
        let timeline = &mut self.cpus[cpu].fair.timeline;
        timeline.current = Some(fair.entity);
        timeline.reweigh_current(flat, slice_ns, tick_ns);
        if let Some(entity) = timeline.current {
            timeline.begin(entity);
        }
    }

    /// Charges the task that runs.
    pub(crate) fn fair_charge(&mut self, cpu: usize, id: TaskId, ran_ns: u64) {
        if ran_ns == 0 || self.tasks[id].fair.place != Standing::Running {
            return;
        }
        let group = self.tasks[id].fair.group;
        self.fair_class.groups.charge(group, cpu, ran_ns);
        let slice_ns = self.fair_slice_ns();
        let queue = &mut self.cpus[cpu].fair;
        let served = queue.timeline.charge(ran_ns, slice_ns);
        let others = queue.timeline.count() > 1;
        queue.lazy |= others && (served || !queue.timeline.is_protected());
    }

    /// The task that a CPU runs next: the next one of its own queue, else one of another CPU's.
    pub(crate) fn fair_pick(&mut self, cpu: usize, previous: Option<TaskId>) -> Option<TaskId> {
        self.update_curr(cpu);
        self.cpus[cpu].fair.timer_set = false;
        let next = self.fair_next(cpu, previous);
        self.cpus[cpu].fair.lazy = false;
        next
    }

    fn fair_next(&mut self, cpu: usize, previous: Option<TaskId>) -> Option<TaskId> {
        loop {
            if self.cpus[cpu].fair.timeline.count() == 0 {
                self.pull(cpu);
            }
            let next = match self.cpus[cpu].fair.timeline.pick() {
                Next::Nobody => return None,
                Next::Current => previous.expect("it runs"),
                Next::Waiting(id, _) => id,
            };
            if self.tasks[next].fair.is_delayed() {
                self.fair_settle(next);
                continue;
            }
            let group = self.tasks[next].fair.group;
            self.fair_class.groups.charge(group, cpu, 0);
            if !self.fair_throttled(next) {
                return Some(next);
            }
            self.fair_leave(next, false);
            // A task that runs is throttled when it has given up its CPU.
            if previous != Some(next) {
                self.fair_park(next);
            }
        }
    }

    /// Sets the timer for the end of the present request, where somebody waits.
    pub(crate) fn fair_set_timer(&mut self, cpu: usize) {
        let queue = &mut self.cpus[cpu].fair;
        if queue.timer_set || queue.timeline.count() < 2 {
            return;
        }
        let Some(left_ns) = queue.timeline.left_ns() else { return };
        queue.timer_set = true;
        queue.timers += 1;
        let served = Event::Served { cpu: cpu as u32, timer: queue.timers };
        self.schedule_at(self.clock.now + (left_ns + 1).max(LEAST_TIMER_NS), served);
    }

    /// That timer has expired, unless it is not the last that was set.
    pub(crate) fn fair_served(&mut self, cpu: usize, timer: u64) {
        let runs = self.cpus[cpu].curr.is_some();
        let queue = &mut self.cpus[cpu].fair;
        if !queue.timer_set || queue.timers != timer || !runs {
            return;
        }
        queue.timer_set = false;
        self.update_curr(cpu);
        self.schedule_after_tick(cpu);
    }

    /// A task woke, or came, on a CPU where another one runs: whether it is to run in its place.
    pub(crate) fn fair_preempts(&mut self, id: TaskId, cpu: usize, wake_flags: u64) -> bool {
        if self.cpus[cpu].curr.is_none() {
            return true;
        }
        if self.tasks[id].fair.place != Standing::Waiting {
            return false;
        }
        self.update_curr(cpu);
        if wake_flags & scx::WAKE_FORK == 0 {
            while let Next::Waiting(next, _) = self.cpus[cpu].fair.timeline.pick() {
                if next == id {
                    return true;
                }
                if !self.tasks[next].fair.is_delayed() {
                    break;
                }
                self.fair_settle(next);
            }
        }
        let slice_ns = self.fair_slice_ns();
        self.cpus[cpu].fair.timeline.shorten(slice_ns);
        false
    }

    /// A task that woke on another CPU is to run in place of that one's. The CPU is interrupted only
    /// where it has to be anyhow: since it does the waking itself, which it does for CPUs under
    /// another cache, or to set its timer. Else it finds that out when it next enters the kernel.
    pub(crate) fn fair_preempt(&mut self, cpu: usize, waker: usize) {
        let far = self.machine.llc_of(cpu) != self.machine.llc_of(waker);
        let sets_timer = !self.cpus[cpu].fair.timer_set;
        if cpu == waker || far || sets_timer {
            return self.resched(cpu);
        }
        self.cpus[cpu].fair.lazy = true;
    }

    /// A CPU leaves the kernel: what was put off until then happens.
    pub(crate) fn fair_leaves_kernel(&mut self, cpu: usize) {
        if self.cpus[cpu].fair.lazy && self.cpus[cpu].curr.is_some() {
            self.resched(cpu);
        }
    }

    /// The timer interrupt of a busy CPU.
    pub(crate) fn fair_tick(&mut self, cpu: usize, id: TaskId) {
        let (slice_ns, tick_ns) = (self.fair_slice_ns(), self.machine.tick_ns());
        if self.tasks[id].fair.place == Standing::Running {
            let (group, own) = (self.tasks[id].fair.group, self.tasks[id].fair.own);
            self.fair_change(group, cpu, Change::default());
            let flat = self.fair_class.groups.flat(group, cpu, own);
            self.cpus[cpu].fair.timeline.reweigh_current(flat, slice_ns, tick_ns);
        }
        if self.fair_throttled(id) {
            return self.schedule_after_tick(cpu);
        }
        self.lend_to_idle(cpu);
        self.balance_now_and_then(cpu);
        if self.cpus[cpu].fair.lazy {
            self.schedule_after_tick(cpu);
        }
    }

    /// sched_yield(): as far on as after its whole request.
    pub(crate) fn fair_yield(&mut self, cpu: usize) {
        let slice_ns = self.fair_slice_ns();
        self.cpus[cpu].fair.timeline.forfeit(slice_ns);
    }
}
