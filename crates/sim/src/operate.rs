//! What tasks do with what they share: the call is made on the CPU of the task that makes
//! it, and so are the wake-ups that follow from it.

use crate::abi::scx;
use crate::kernel::{Event, Kernel};
use crate::requests::Request;
use crate::step::{Name, Stage, Step};
use crate::sync::Passed;
use crate::task::TaskId;

/// Time that a task spins that never blocks: no event ends it but its release.
pub(crate) const FOR_EVER_NS: u64 = u64::MAX / 2;

/// How a wake-up by a task is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waker {
    /// It goes on with its own work.
    GoesOn,
    /// It says that it is about to sleep, as pipes always do (fs/pipe.c), be it true or not.
    AboutToSleep,
}

impl Waker {
    fn flags(self) -> u64 {
        match self {
            Waker::GoesOn => scx::WAKE_TTWU,
            Waker::AboutToSleep => scx::WAKE_TTWU | scx::WAKE_SYNC,
        }
    }
}

/// What has become of a call.
pub(crate) enum Call {
    /// It is made, for the usual price.
    Made,
    /// It is made, and was none of the kernel's: it is free.
    Free,
    /// It is made, and an interrupt that its CPU was asked for comes before the task goes on.
    Interrupted,
    /// The task has to wait, asleep.
    Blocks(Stage),
    /// The task has to wait, and burns CPU time for so long at most.
    Spins(u64),
    /// It is not over: the task is in that stage, and uses CPU time for so long.
    GoesOn(Stage, u64),
    /// The task is to sleep until that time, ns, and takes a while to do so.
    FallsAsleep(u64),
}

/// A call that cannot be made: what the task does, and what is wrong with it.
pub(crate) type Refused = String;

impl Kernel {
    /// The task that runs on `cpu` goes on, blocks or spins, as its step makes it.
    pub(crate) fn operate(&mut self, cpu: usize, step: &Step) {
        let id = self.cpus[cpu].curr.expect("only what runs makes calls");
        let call = self.call_made(cpu, id, step).unwrap_or_else(|refused| {
            let name = &self.tasks[id].name;
            self.fail("scenario", format!("task '{name}' {refused}"));
            Call::Free
        });
        let (stage, remaining) = match call {
            Call::Made => (Stage::Fresh, self.machine.what_it_costs().call_ns),
            Call::Free => (Stage::Fresh, 0),
            Call::Interrupted => (Stage::Fresh, self.machine.what_it_costs().ipi_most_ns + 1),
            Call::Blocks(stage) => {
                self.tasks[id].doing.stage = stage;
                return self.block(cpu, false);
            }
            Call::GoesOn(stage, ns) => (stage, ns),
            Call::Spins(ns) => (Stage::Spins, ns.min(FOR_EVER_NS)),
            Call::FallsAsleep(due) => {
                (Stage::FallsAsleep(due), self.machine.what_it_costs().sleep_ns)
            }
        };
        self.tasks[id].doing.stage = stage;
        self.tasks[id].remaining = remaining;
        self.plan_run_end(cpu);
    }

    fn call_made(&mut self, cpu: usize, id: TaskId, step: &Step) -> Result<Call, Refused> {
        Ok(match step {
            Step::Run(_) | Step::Sleep(_) | Step::Yield | Step::Fork(_) | Step::Again { .. } => {
                unreachable!("not of this file: {step:?}")
            }
            Step::Timer { timer, period_ns, keeps_schedule } => {
                self.timer_wait(id, *timer, *period_ns, *keeps_schedule)
            }
            Step::Join => match self.tasks[id].doing.children {
                0 => Call::Made,
                _ => Call::Blocks(Stage::Joins),
            },
            Step::Io(device) => self.io(id, device)?,
            Step::Write(pipe, n) => self.pass(cpu, id, pipe, *n, true)?,
            Step::Read(pipe, n) => self.pass(cpu, id, pipe, *n, false)?,
            Step::Lock(lock) => match self.lock(id, lock)? {
                true => Call::Made,
                false => Call::Blocks(Stage::Waits),
            },
            Step::Unlock(lock) => {
                self.unlock(cpu, id, lock)?;
                Call::Made
            }
            Step::Syscall => {
                self.syscall_begins(cpu, id);
                Call::Free
            }
            Step::Return => self.syscall_ends(cpu, id),
            Step::Guest => self.enters_guest(cpu, id),
            Step::Barrier(barrier) => self.barrier(cpu, id, barrier)?,
            Step::Team { team, thread } => self.take_part(cpu, id, team, *thread)?,
            Step::Busy(ns) => self.busy(id, *ns),
            Step::Wake(semaphore, n) => {
                let woken = self.world.semaphores.entry(semaphore.clone()).or_default().post(*n);
                self.wake_all(cpu, woken);
                Call::Made
            }
            Step::Wait(semaphore) => {
                match self.world.semaphores.entry(semaphore.clone()).or_default().take(id) {
                    true => Call::Made,
                    false => Call::Blocks(Stage::Waits),
                }
            }
            Step::Signal { condition, all } => {
                let n = if *all { u64::MAX } else { 1 };
                let woken = self.world.conditions.entry(condition.clone()).or_default().first(n);
                for id in &woken {
                    self.tasks[*id].doing.stage = Stage::Released;
                }
                self.wake_all(cpu, woken);
                Call::Made
            }
            Step::Await { condition, lock } => self.await_condition(cpu, id, condition, lock)?,
            Step::Accept(queue) => {
                let found = self.world.queues.get_mut(queue);
                let found = found.ok_or_else(|| missing("accepts requests of", queue))?;
                match found.take(id) {
                    Some(request) => {
                        self.tasks[id].doing.requests.push_back(request);
                        Call::Made
                    }
                    None => Call::Blocks(Stage::Waits),
                }
            }
            Step::Begin => {
                let task = &mut self.tasks[id];
                let random = Box::new(task.random().branch());
                let at = task.doing.arrived(self.clock.now);
                task.doing.requests.push_back(Request { at, client: None, random });
                Call::Free
            }
            Step::End => self.end_requests(id)?,
            Step::Done(n) => {
                self.tasks[id].doing.done += n;
                Call::Free
            }
        })
    }

    /// Who is late, or was let go, has been busy for long enough.
    fn busy(&mut self, id: TaskId, ns: u64) -> Call {
        let now = self.clock.now;
        let doing = &mut self.tasks[id].doing;
        if doing.stage == Stage::Released {
            return Call::Free;
        }
        let until = doing.arrived(now) + ns;
        if until <= now {
            return Call::Free;
        }
        self.schedule_at(until, Event::Enough(id));
        Call::Spins(u64::MAX)
    }

    /// A task was busy for long enough.
    pub(crate) fn enough(&mut self, id: TaskId) {
        if !self.tasks[id].dead {
            self.let_go(id, Stage::Released, 0);
        }
    }

    /// A task that burns CPU time, or will when it runs, is in another stage from now on, and burns
    /// so much.
    pub(crate) fn let_go(&mut self, id: TaskId, stage: Stage, ns: u64) {
        let cpu = self.tasks[id].cpu;
        let runs = self.cpus[cpu].curr == Some(id);
        if runs {
            self.update_curr(cpu);
        }
        self.tasks[id].doing.stage = stage;
        self.tasks[id].remaining = ns;
        if runs {
            self.plan_run_end(cpu);
        }
    }

    fn timer_wait(&mut self, id: TaskId, timer: usize, period_ns: u64, keeps: bool) -> Call {
        let now = self.clock.now;
        let sleep_ns = self.machine.what_it_costs().sleep_ns;
        let doing = &mut self.tasks[id].doing;
        match doing.stage {
            Stage::Waits => return Call::Free,
            Stage::FallsAsleep(due) if due <= now => {
                doing.wakes(due);
                return Call::Free;
            }
            Stage::FallsAsleep(due) => {
                self.wake_at(id, due);
                return Call::Blocks(Stage::Waits);
            }
            _ => {}
        }
        if doing.timers.len() <= timer {
            doing.timers.resize(timer + 1, None);
        }
        let due = doing.timers[timer].unwrap_or(now) + period_ns.max(1);
        doing.timers[timer] = Some(if due > now || keeps { due } else { now });
        if due > now && sleep_ns > 0 {
            return Call::FallsAsleep(due);
        }
        if due > now {
            self.wake_at(id, due);
            return Call::Blocks(Stage::Waits);
        }
        // Late: what begins now was due then.
        doing.wakes(due);
        Call::Made
    }

    fn io(&mut self, id: TaskId, name: &Name) -> Result<Call, Refused> {
        if self.tasks[id].doing.stage == Stage::Released {
            return Ok(Call::Made);
        }
        let device = self.world.devices.get_mut(name);
        let device = device.ok_or_else(|| missing("waits for device", name))?;
        let service_ns = device.spec.service.draw(self.tasks[id].random()).max(1);
        if device.submit(id, service_ns) {
            self.io_begins(name, id, service_ns);
        }
        Ok(Call::Blocks(Stage::Waits))
    }

    fn io_begins(&mut self, device: &Name, task: TaskId, service_ns: u64) {
        self.schedule_at(
            self.clock.now + service_ns,
            Event::IoDone(Box::new((device.clone(), task))),
        );
    }

    /// A device's interrupt, on the CPU that the operation came from.
    pub(crate) fn io_done(&mut self, name: &Name, id: TaskId) {
        let next = self.world.devices.get_mut(name).and_then(|device| device.complete());
        if let Some((task, service_ns)) = next {
            self.io_begins(name, task, service_ns);
        }
        self.tasks[id].doing.stage = Stage::Released;
        let cpu = self.tasks[id].cpu;
        self.wake_up(id, cpu, scx::WAKE_TTWU);
    }

    fn pass(
        &mut self,
        cpu: usize,
        id: TaskId,
        name: &Name,
        n: u64,
        writes: bool,
    ) -> Result<Call, Refused> {
        let doing = &mut self.tasks[id].doing;
        let left = if let Stage::Left(left) = doing.stage { left } else { n };
        let does = if writes { "writes to pipe" } else { "reads from pipe" };
        let pipe = self.world.pipes.get_mut(name).ok_or_else(|| missing(does, name))?;
        let Passed { left, wakes } = match writes {
            true => pipe.write(id, left, &mut doing.requests),
            false => pipe.read(id, left, &mut doing.requests),
        };
        for woken in wakes {
            self.wake_up(woken, cpu, Waker::AboutToSleep.flags());
        }
        Ok(if left > 0 { Call::Blocks(Stage::Left(left)) } else { Call::Made })
    }

    fn lock(&mut self, id: TaskId, name: &Name) -> Result<bool, Refused> {
        let lock = self.world.locks.get_mut(name).ok_or_else(|| missing("takes lock", name))?;
        let taken = lock.take(id).map_err(|why| format!("takes lock '{name}' and {why}"))?;
        self.tasks[id].doing.locks += u64::from(taken);
        Ok(taken)
    }

    fn unlock(&mut self, cpu: usize, id: TaskId, name: &Name) -> Result<(), Refused> {
        let lock =
            self.world.locks.get_mut(name).ok_or_else(|| missing("gives back lock", name))?;
        let next =
            lock.give_back(id).map_err(|why| format!("gives back lock '{name}' and {why}"))?;
        self.tasks[id].doing.locks -= 1;
        self.wake_all(cpu, next);
        Ok(())
    }

    fn barrier(&mut self, cpu: usize, id: TaskId, name: &Name) -> Result<Call, Refused> {
        match self.tasks[id].doing.stage {
            Stage::Released => return Ok(Call::Made),
            // It has spun long enough.
            Stage::Spins => return Ok(Call::Blocks(Stage::Waits)),
            _ => {}
        }
        let barrier = self.world.barriers.get_mut(name);
        let barrier = barrier.ok_or_else(|| missing("waits at barrier", name))?;
        let spin_ns = barrier.spec.spin_ns;
        let Some(released) = barrier.arrive(id) else {
            return Ok(match spin_ns {
                0 => Call::Blocks(Stage::Waits),
                ns => Call::Spins(ns),
            });
        };
        for other in released {
            if self.tasks[other].doing.stage == Stage::Spins {
                self.let_go(other, Stage::Released, 0);
            } else {
                self.tasks[other].doing.stage = Stage::Released;
                self.wake_up(other, cpu, Waker::GoesOn.flags());
            }
        }
        Ok(Call::Made)
    }

    fn await_condition(
        &mut self,
        cpu: usize,
        id: TaskId,
        condition: &Name,
        lock: &Option<Name>,
    ) -> Result<Call, Refused> {
        if self.tasks[id].doing.stage == Stage::Released {
            return Ok(match lock {
                Some(lock) if !self.lock(id, lock)? => Call::Blocks(Stage::Released),
                _ => Call::Made,
            });
        }
        self.world.conditions.entry(condition.clone()).or_default().wait(id);
        if let Some(lock) = lock {
            self.unlock(cpu, id, lock)?;
        }
        Ok(Call::Blocks(Stage::Waits))
    }

    fn end_requests(&mut self, id: TaskId) -> Result<Call, Refused> {
        let now = self.clock.now;
        let doing = &mut self.tasks[id].doing;
        if doing.requests.is_empty() {
            return Err("ends a request and has none".into());
        }
        for request in std::mem::take(&mut doing.requests) {
            let doing = &mut self.tasks[id].doing;
            doing.responses_ns.push(now - request.at);
            doing.done += 1;
            let Some(name) = request.client else { continue };
            let queue = self.world.queues.get_mut(&name).expect("it came from there");
            for at in queue.answer(now) {
                self.schedule_at(at, Event::Request(Box::new(name.clone())));
            }
        }
        Ok(Call::Free)
    }

    /// Lets every arrival process begin.
    pub(crate) fn begin_arrivals(&mut self) {
        let names: Vec<Name> = self.world.queues.keys().cloned().collect();
        for name in names {
            let queue = self.world.queues.get_mut(&name).expect("its own key");
            for at in queue.first() {
                self.schedule_at(at, Event::Request(Box::new(name.clone())));
            }
        }
    }

    /// A request arrives, with an interrupt on any CPU.
    pub(crate) fn request_arrives(&mut self, name: &Name) {
        let queue = self.world.queues.get_mut(name).expect("scheduled by its own name");
        let (woken, next) = queue.arrive(name, self.clock.now);
        for at in next {
            self.schedule_at(at, Event::Request(Box::new(name.clone())));
        }
        if let Some(id) = woken {
            let cpu = self.any_cpu();
            self.wake_up(id, cpu, scx::WAKE_TTWU);
        }
    }

    /// The task that runs on `cpu` ends: its parent hears of it.
    pub(crate) fn exit_notify(&mut self, cpu: usize, id: TaskId) {
        let doing = &self.tasks[id].doing;
        let (locks, parent) = (doing.locks, doing.parent);
        if locks > 0 {
            let name = &self.tasks[id].name;
            self.fail("scenario", format!("task '{name}' ends and has not given back a lock"));
        }
        let Some(parent) = parent else { return };
        let doing = &mut self.tasks[parent].doing;
        doing.children -= 1;
        if doing.children == 0 && doing.stage == Stage::Joins {
            self.wake_up(parent, cpu, Waker::GoesOn.flags());
        }
    }

    fn wake_all(&mut self, cpu: usize, tasks: impl IntoIterator<Item = TaskId>) {
        for id in tasks {
            self.wake_up(id, cpu, Waker::GoesOn.flags());
        }
    }
}

pub(crate) fn missing(does: &str, name: &Name) -> Refused {
    format!("{does} '{name}', which the scenario does not have")
}
