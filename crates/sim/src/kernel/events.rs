//! What will happen, and when: the queue of events, and the clock that follows them.

use super::calendar::{Calendar, Dated};
use super::{Act, Kernel};
use crate::abi::scx;
use crate::load::{Program, ProgramExit};
use crate::machine::Costs;
use crate::step::Name;
use crate::task::{TaskId, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events at one instant before the run is called a livelock: far more than the
/// largest modelled machine has CPUs.
const INSTANT_EVENTS: u64 = 100_000;

/// Two of them with their keys are to fit into a line of the cache: what is seldom is in boxes.
pub(crate) enum Event {
    Arrive(Arc<TaskSpec>),
    Wake(TaskId),
    Resched(usize),
    RunEnd {
        cpu: u32,
        epoch: u64,
    },
    Tick(usize),
    /// The request of what a CPU runs in the fair class is served.
    Served {
        cpu: u32,
        timer: u64,
    },
    /// The interrupt for which one CPU has asked another, see `Cpu::kicks`.
    Kick {
        from: u32,
        cpu: u32,
        if_idle: bool,
    },
    Timer {
        place: u32,
        armed: u64,
    },
    Push(usize),
    /// A higher scheduling class has no more use for a CPU.
    GiveBack(usize),
    Dying(usize),
    Watchdog {
        load: u64,
    },
    Attach(Box<Program>),
    Enabled,
    Detach(Box<ProgramExit>),
    IoDone(Box<(Name, TaskId)>),
    /// A task was busy for long enough.
    Enough(TaskId),
    Request(Box<Name>),
    Act(Box<Act>),
}

const _: () = assert!(size_of::<Scheduled>() == 32, "see Event");

struct Scheduled {
    /// Time, then chance, then the order of scheduling: events of one instant
    /// have no order on a real machine either.
    key: u128,
    event: Event,
}

impl Dated for Scheduled {
    fn at(&self) -> u64 {
        (self.key >> 64) as u64
    }
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
        // The queue gives the greatest first.
        other.key.cmp(&self.key)
    }
}

/// Time, and what will happen.
pub(crate) struct Clock {
    /// Since boot, ns. It never goes back: an event that is late comes at once.
    pub now: u64,
    events: Calendar<Scheduled>,
    /// How many events were scheduled, counted round and round.
    scheduled: u32,
    pub handled: u64,
    /// When the run ends, ns.
    pub ends: u64,
    /// Whether it ends as soon as all teams have.
    pub ends_with_teams: bool,
    /// What happens between two events, by how many were handled before.
    between: BTreeMap<u64, Vec<Act>>,
    /// How often a timer of any program was set. It tells one setting from all others, also where a
    /// program has left timers behind.
    pub timers_set: u64,
    /// Whether timers expire between an enqueue and its insert.
    pub timers_in_gaps: bool,
}

impl Clock {
    pub fn new() -> Self {
        Clock {
            now: 0,
            events: Calendar::new(),
            scheduled: 0,
            handled: 0,
            ends: 0,
            ends_with_teams: false,
            between: BTreeMap::new(),
            timers_set: 0,
            timers_in_gaps: false,
        }
    }

    fn schedule(&mut self, at: u64, chance: u32, event: Event) {
        self.scheduled = self.scheduled.wrapping_add(1);
        let key = u128::from(at) << 64 | u128::from(chance) << 32 | u128::from(self.scheduled);
        self.events.push(Scheduled { key, event });
    }
}

impl Kernel {
    pub(crate) fn schedule_at(&mut self, at: u64, event: Event) {
        let chance = self.random.bits() as u32;
        self.clock.schedule(at, chance, event);
    }

    /// Lets a task arrive at its time.
    pub fn spawn(&mut self, spec: Arc<TaskSpec>) {
        self.schedule_at(spec.arrives_ns, Event::Arrive(spec));
    }

    /// Does something at a given time.
    pub fn act_at(&mut self, at: u64, act: Act) {
        self.schedule_at(at, Event::Act(Box::new(act)));
    }

    /// Does something right after the `handled`-th event of the run, before anything else
    /// can happen.
    pub fn act_after(&mut self, handled: u64, act: Act) {
        self.clock.between.entry(handled).or_default().push(act);
    }

    /// How many events the engine has handled.
    pub fn handled(&self) -> u64 {
        self.clock.handled
    }

    /// Asks a CPU to choose again; what its local queue holds is looked at then.
    pub(crate) fn resched(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].resched, true) {
            let Costs { own_least_ns, own_most_ns, .. } = self.machine.what_it_costs();
            let delay = match self.calls.waking_on == Some(cpu) {
                true => self.random.within(own_least_ns, own_most_ns),
                false => self.ipi_delay(),
            };
            self.schedule_at(self.clock.now + delay, Event::Resched(cpu));
        }
    }

    /// Schedules the next tick of a CPU. The ticks of all CPUs are due at the same times.
    pub(crate) fn next_tick(&mut self, cpu: usize) {
        let tick_ns = self.machine.tick_ns();
        let Costs { tick_jitter_ns, tick_strays, tick_stray_ns, .. } = self.machine.what_it_costs();
        let strays = tick_strays > 0 && self.random.within(1, tick_strays) == 1;
        let after_ns = match if strays { tick_stray_ns } else { tick_jitter_ns } {
            0 => 0,
            most_ns => self.random.within(0, most_ns.min(tick_ns - 1)),
        };
        self.schedule_at((self.clock.now / tick_ns + 1) * tick_ns + after_ns, Event::Tick(cpu));
    }

    pub(crate) fn ipi_delay(&mut self) -> u64 {
        let Costs { ipi_least_ns, ipi_most_ns, .. } = self.machine.what_it_costs();
        self.random.within(ipi_least_ns, ipi_most_ns)
    }

    /// Runs until `end`, or until something fails.
    pub fn run_until(&mut self, end: u64) {
        let mut instant = 0;
        self.clock.ends = end;
        while self.audience.fault.is_none() {
            let Some(next) = self.clock.events.pop_until(self.clock.ends) else { break };
            let (at, event) = (next.at(), next.event);
            // However many tasks come at once, they are as many as they are.
            let counts = !matches!(event, Event::Arrive(_));
            instant = if at == self.clock.now { instant + u64::from(counts) } else { 0 };
            self.clock.now = at;
            self.clock.handled += 1;
            if instant > INSTANT_EVENTS {
                self.fail("livelock", "time does not advance any more");
            }
            self.handle(event);
            if !self.clock.between.is_empty() {
                self.act_between();
            }
        }
        if self.audience.fault.is_none() {
            self.clock.now = self.clock.ends;
        }
    }

    fn act_between(&mut self) {
        for act in self.clock.between.remove(&self.clock.handled).unwrap_or_default() {
            act(self);
            self.run_deferred();
        }
    }

    /// The timer of a task that sleeps has expired on `waker`.
    pub(crate) fn timer_wakes(&mut self, task: TaskId, waker: usize) {
        self.wake_up(task, waker, scx::WAKE_TTWU);
        self.fair_leaves_kernel(waker);
        // What it does now was due then: that the timer is late is part of how long it takes.
        let late_ns = self.machine.what_it_costs().timer_ns;
        self.tasks[task].doing.wakes(self.clock.now - late_ns);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(spec) => {
                let cpu = self.any_cpu();
                let task = self.bear(spec, cpu, None);
                self.wake_up(task, cpu, scx::WAKE_TTWU);
            }
            Event::Wake(task) => {
                let cpu = self.tasks[task].cpu;
                if self.cpus.online.has(cpu) && !self.cpus.active.has(cpu) {
                    self.cpus.wakes_late.push((cpu, task));
                } else {
                    let waker = if self.cpus.active.has(cpu) { cpu } else { self.first_active() };
                    self.timer_wakes(task, waker);
                }
            }
            Event::Resched(cpu) if self.cpus.online.has(cpu) => self.schedule(cpu),
            Event::Resched(cpu) => self.cpus[cpu].resched = false,
            Event::Push(cpu) => self.push(cpu),
            Event::GiveBack(cpu) => self.give_back(cpu),
            Event::Dying(cpu) => self.dying(cpu),
            Event::Attach(program) => self.attach(&program),
            Event::Enabled => self.enabled(),
            Event::Detach(exit) => self.detach(*exit),
            Event::Watchdog { load } => self.watchdog(load),
            Event::RunEnd { cpu, epoch } => {
                let cpu = cpu as usize;
                if self.cpus[cpu].epoch == epoch {
                    self.next_step(cpu);
                    self.fair_leaves_kernel(cpu);
                }
            }
            Event::Tick(cpu) => self.tick(cpu),
            Event::Served { cpu, timer } => self.fair_served(cpu as usize, timer),
            Event::Kick { from, cpu, if_idle } => {
                self.kicked(from as usize, cpu as usize, if_idle);
            }
            Event::Timer { place, armed } => self.timer_expires(place as usize, armed),
            Event::IoDone(done) => self.io_done(&done.0, done.1),
            Event::Enough(task) => self.enough(task),
            Event::Request(queue) => self.request_arrives(&queue),
            Event::Act(act) => act(self),
        }
        self.run_deferred();
    }
}
