//! What a thread does: the steps of its task, one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use metasched_base::{Error, Kind, Result};
use metasched_scenario::TaskSpec;
use metasched_scenario::random::Random;
use metasched_scenario::step::{Name, Step};
use metasched_stats::DurationHistogram;

use crate::clock::{Spinner, now_ns};
use crate::shared::{Message, Stopped};
use crate::threads::{Children, Threads};

/// What a thread got done, in all the time that counts.
#[derive(Default)]
pub struct Work {
    /// From a request's arrival to its answer.
    pub responses: DurationHistogram,
    /// Units of work; a request is one.
    pub done: u64,
}

/// Why a thread goes no further.
enum End {
    /// The replay is over.
    Stopped,
    /// The task does what it must not.
    Fault(Error),
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        End::Stopped
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Fault(error)
    }
}

/// A thread at work.
pub struct Worker<'a> {
    spec: &'a Arc<TaskSpec>,
    threads: &'a Arc<Threads>,
    random: Random,
    spinner: Spinner,
    /// When the requests arrived that it works on, ns, the oldest first.
    requests: VecDeque<u64>,
    /// When it woke, ns, if it has not run since.
    woke: Option<u64>,
    timers: Vec<Option<u64>>,
    /// How often each loop was gone through, by the step that ends it.
    passes: Vec<u64>,
    locks: BTreeSet<Name>,
    children: Arc<Children>,
    work: Work,
}

impl<'a> Worker<'a> {
    pub fn new(spec: &'a Arc<TaskSpec>, threads: &'a Arc<Threads>, seed: u64) -> Self {
        Worker {
            spec,
            threads,
            random: Random::new(seed),
            spinner: Spinner::default(),
            requests: VecDeque::new(),
            woke: None,
            timers: Vec::new(),
            passes: vec![0; spec.steps.len()],
            locks: BTreeSet::new(),
            children: Arc::default(),
            work: Work::default(),
        }
    }

    pub fn into_work(self) -> Work {
        self.work
    }

    /// Goes through the steps until they or the replay are over.
    ///
    /// # Errors
    /// When the task does what it must not.
    pub fn run(&mut self) -> Result<()> {
        self.woke = Some(now_ns());
        let mut round = 0;
        while self.spec.rounds.is_none_or(|rounds| round < rounds) && !self.spec.steps.is_empty() {
            match self.round() {
                Ok(()) => round += 1,
                Err(End::Stopped) => return Ok(()),
                Err(End::Fault(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), End> {
        let spec = self.spec;
        let mut at = 0;
        while at < spec.steps.len() {
            if self.threads.stop.is_set() {
                return Err(End::Stopped);
            }
            if let Step::Again { back, times } = &spec.steps[at] {
                self.passes[at] += 1;
                if self.passes[at] < *times {
                    at -= back;
                    continue;
                }
                self.passes[at] = 0;
            } else {
                self.step(&spec.steps[at])?;
            }
            at += 1;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), End> {
        let threads = self.threads;
        let (shared, stop) = (&threads.shared, &threads.stop);
        let began = now_ns();
        match step {
            Step::Run(span) => {
                let ns = span.draw(&mut self.random);
                self.spinner.spin(ns, || stop.is_set());
                self.woke = None;
            }
            Step::Busy(ns) => {
                let until = self.woke.take().unwrap_or(began) + ns;
                self.spinner.spin(*ns, || stop.is_set() || now_ns() >= until);
            }
            Step::Sleep(span) => {
                let due = began + span.draw(&mut self.random);
                stop.sleep_until(due)?;
                self.woke = Some(due);
            }
            Step::Timer { timer, period_ns, keeps_schedule } => {
                self.every(*timer, *period_ns, *keeps_schedule)?;
            }
            Step::Yield => {
                // It cannot fail on Linux.
                let _ = nix::sched::sched_yield();
            }
            Step::Fork(child) => {
                self.children.one_more();
                threads.spawn(child.clone(), Some(self.children.clone()))?;
            }
            Step::Join => self.children.wait(stop)?,
            Step::Io(name) => {
                let device = &shared.devices[name];
                let service_ns = device.service.draw(&mut self.random);
                self.woke = Some(device.operate(service_ns, stop)?);
            }
            Step::Write(name, n) => {
                for _ in 0..*n {
                    let request_ns = self.requests.pop_front().unwrap_or(0);
                    let message = Message { request_ns, written_ns: now_ns() };
                    shared.pipes[name].write(message, stop)?;
                }
            }
            Step::Read(name, n) => {
                for _ in 0..*n {
                    let message = shared.pipes[name].read(stop)?;
                    self.woken_at(message.written_ns, began);
                    if message.request_ns != 0 {
                        self.requests.push_back(message.request_ns);
                    }
                }
            }
            Step::Lock(name) => {
                if !self.locks.insert(name.clone()) {
                    return Err(self.fault(format!("takes lock '{name}' and has it already")));
                }
                shared.locks[name].take(stop)?;
            }
            Step::Unlock(name) => {
                if !self.locks.remove(name) {
                    return Err(self.fault(format!("gives back lock '{name}' and has it not")));
                }
                shared.locks[name].give_back();
            }
            Step::Barrier(name) => {
                let spinner = &mut self.spinner;
                shared.barriers[name].arrive(stop, |ns, enough| spinner.spin(ns, enough))?;
            }
            Step::Wake(name, n) => shared.semaphores[name].post(*n as u32),
            Step::Wait(name) => {
                let semaphore = &shared.semaphores[name];
                semaphore.take(stop)?;
                self.woken_at(semaphore.posted_ns.load(Ordering::Relaxed), began);
            }
            Step::Signal { condition, all } => shared.conditions[condition].signal(*all),
            Step::Await { condition, lock } => {
                let condition = &shared.conditions[condition];
                let lock = lock.as_ref().map(|name| &shared.locks[name]);
                condition.wait(lock, stop)?;
                self.woken_at(condition.signalled_ns.load(Ordering::Relaxed), began);
            }
            Step::Accept(name) => {
                let next = shared.arrivals[name].lock().expect("nobody panics with it").next();
                // Where none arrives any more it waits for the end.
                let at = next.map_or(u64::MAX, |at| threads.starts_ns().saturating_add(at));
                stop.sleep_until(at)?;
                self.woken_at(at, began);
                self.requests.push_back(at);
            }
            // What runs in between runs in user space: there is no call that computes for so long.
            Step::Syscall | Step::Return | Step::Guest => {}
            Step::Begin => self.requests.push_back(self.woke.take().unwrap_or(began)),
            Step::End => {
                if self.requests.is_empty() {
                    return Err(self.fault("ends a request and has none".to_owned()));
                }
                for at in std::mem::take(&mut self.requests) {
                    if threads.counts(began) {
                        self.work.responses.record(began.saturating_sub(at));
                        self.work.done += 1;
                    }
                }
            }
            Step::Done(n) if threads.counts(began) => self.work.done += n,
            Step::Done(_) => {}
            Step::Again { .. } => unreachable!("a round goes through loops itself"),
            Step::Team { .. } => unreachable!("a scenario with teams is refused"),
        }
        Ok(())
    }

    /// It was woken then, unless what it waited for had been there before it asked.
    fn woken_at(&mut self, at: u64, asked: u64) {
        if at >= asked {
            self.woke = Some(at);
        }
    }

    fn every(&mut self, timer: usize, period_ns: u64, keeps: bool) -> Result<(), Stopped> {
        if self.timers.len() <= timer {
            self.timers.resize(timer + 1, None);
        }
        let now = now_ns();
        let due = self.timers[timer].unwrap_or(now) + period_ns.max(1);
        self.timers[timer] = Some(if due > now || keeps { due } else { now });
        self.threads.stop.sleep_until(due)?;
        self.woke = Some(due);
        Ok(())
    }

    fn fault(&self, what: String) -> End {
        let cause = format!("task '{}' {what}", self.spec.name);
        End::Fault(
            Error::new(Kind::BadInput, "replay the scenario", cause).remedy("correct its steps"),
        )
    }
}
