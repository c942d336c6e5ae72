//! What tasks wait for, as the real thing: pipes, mutexes, barriers, semaphores, conditions.
//! Devices and requests are timers, since they are of no machine's own.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use metasched_base::{Kind, Result, ResultExt};
use metasched_scenario::Span;
use metasched_scenario::file::ScenarioFile;
use metasched_scenario::requests::Times;
use metasched_scenario::shared::{BarrierSpec, DeviceSpec};
use metasched_scenario::step::{Name, Step};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, read, write};

use crate::clock::{now_ns, sleep_until};
use crate::futex;

/// A pipe's slot is a page.
const PAGE: usize = 4096;

/// The replay is over: threads that wait end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Whether it is.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Ends the replay. A thread that sleeps needs a signal besides.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Stopped> {
        if self.is_set() { Err(Stopped) } else { Ok(()) }
    }

    /// Sleeps until that time, ns.
    pub fn sleep_until(&self, at_ns: u64) -> Result<(), Stopped> {
        while now_ns() < at_ns {
            self.check()?;
            sleep_until(at_ns);
        }
        Ok(())
    }
}

/// What goes through a pipe: when the request that it is about arrived (0: it is about none),
/// and when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub request_ns: u64,
    pub written_ns: u64,
}

/// A pipe in packet mode, so that each message has a slot of its own, however short.
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipe {
    pub fn new(holds: usize) -> Result<Pipe> {
        let attempt = || format!("make a pipe that holds {holds} messages");
        let (reader, writer) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_DIRECT).attempt(Kind::Failed, attempt)?;
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ((holds * PAGE) as i32))
            .attempt(Kind::Failed, attempt)?;
        Ok(Pipe { reader, writer })
    }

    pub fn write(&self, message: Message, stop: &Stop) -> Result<(), Stopped> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&message.request_ns.to_ne_bytes());
        bytes[8..].copy_from_slice(&message.written_ns.to_ne_bytes());
        loop {
            stop.check()?;
            match write(&self.writer, &bytes) {
                Err(Errno::EINTR) => {}
                other => return other.map(drop).map_err(|_| Stopped),
            }
        }
    }

    pub fn read(&self, stop: &Stop) -> Result<Message, Stopped> {
        let mut bytes = [0; 16];
        loop {
            stop.check()?;
            match read(&self.reader, &mut bytes) {
                Err(Errno::EINTR) => {}
                Err(_) => return Err(Stopped),
                Ok(_) => break,
            }
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Ok(Message { request_ns: word(0), written_ns: word(8) })
    }
}

/// A mutex whose waiters sleep at once: 0 free, 1 taken, 2 taken and perhaps waited for.
#[derive(Default)]
pub struct Lock(AtomicU32);

impl Lock {
    pub fn take(&self, stop: &Stop) -> Result<(), Stopped> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if self.0.compare_exchange(0, 1, acquire, relaxed).is_ok() {
            return Ok(());
        }
        while self.0.swap(2, acquire) != 0 {
            stop.check()?;
            futex::wait(&self.0, 2);
        }
        Ok(())
    }

    pub fn give_back(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            futex::wake(&self.0, 1);
        }
    }
}

/// A barrier.
pub struct Barrier {
    parties: u32,
    spin_ns: u64,
    arrived: AtomicU32,
    round: AtomicU32,
}

impl Barrier {
    pub fn new(spec: &BarrierSpec) -> Barrier {
        let (arrived, round) = Default::default();
        Barrier { parties: spec.parties as u32, spin_ns: spec.spin_ns, arrived, round }
    }

    /// Comes to it; `spin` burns CPU time for so long at most, or until it is told that it is
    /// enough.
    pub fn arrive(
        &self,
        stop: &Stop,
        spin: impl FnOnce(u64, &dyn Fn() -> bool),
    ) -> Result<(), Stopped> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 >= self.parties {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.fetch_add(1, Ordering::Release);
            futex::wake(&self.round, u32::MAX);
            return Ok(());
        }
        let waits = || self.round.load(Ordering::Acquire) == round;
        if self.spin_ns > 0 {
            spin(self.spin_ns, &|| !waits() || stop.is_set());
        }
        while waits() {
            stop.check()?;
            futex::wait(&self.round, round);
        }
        Ok(())
    }
}

/// A semaphore.
#[derive(Default)]
pub struct Semaphore {
    posted: AtomicU32,
    /// When it was last posted, ns.
    pub posted_ns: AtomicU64,
}

impl Semaphore {
    pub fn post(&self, n: u32) {
        self.posted_ns.store(now_ns(), Ordering::Relaxed);
        self.posted.fetch_add(n, Ordering::Release);
        futex::wake(&self.posted, n);
    }

    pub fn take(&self, stop: &Stop) -> Result<(), Stopped> {
        let one_less = |n: u32| n.checked_sub(1);
        while self.posted.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_less).is_err() {
            stop.check()?;
            futex::wait(&self.posted, 0);
        }
        Ok(())
    }
}

/// A condition.
#[derive(Default)]
pub struct Condition {
    signals: AtomicU32,
    /// When it was last signalled, ns.
    pub signalled_ns: AtomicU64,
}

impl Condition {
    pub fn signal(&self, all: bool) {
        self.signalled_ns.store(now_ns(), Ordering::Relaxed);
        self.signals.fetch_add(1, Ordering::Release);
        futex::wake(&self.signals, if all { u32::MAX } else { 1 });
    }

    /// Waits for the next signal, without the lock.
    pub fn wait(&self, lock: Option<&Lock>, stop: &Stop) -> Result<(), Stopped> {
        let seen = self.signals.load(Ordering::Acquire);
        if let Some(lock) = lock {
            lock.give_back();
        }
        futex::wait(&self.signals, seen);
        stop.check()?;
        lock.map_or(Ok(()), |lock| lock.take(stop))
    }
}

/// A device: when each of the operations that it works on at a time is done, ns.
pub struct Device {
    pub service: Span,
    done_ns: Mutex<Vec<u64>>,
}

impl Device {
    /// Waits for one operation that takes so long; when it is done, ns.
    pub fn operate(&self, service_ns: u64, stop: &Stop) -> Result<u64, Stopped> {
        let done = {
            let mut all = self.done_ns.lock().expect("nobody panics with it");
            let first = all.iter_mut().min().expect("it works on one at least");
            *first = (*first).max(now_ns()) + service_ns;
            *first
        };
        stop.sleep_until(done)?;
        Ok(done)
    }
}

/// Everything by name.
#[derive(Default)]
pub struct Shared {
    pub pipes: BTreeMap<Name, Pipe>,
    pub locks: BTreeMap<Name, Lock>,
    pub barriers: BTreeMap<Name, Barrier>,
    pub semaphores: BTreeMap<Name, Semaphore>,
    pub conditions: BTreeMap<Name, Condition>,
    pub devices: BTreeMap<Name, Device>,
    pub arrivals: BTreeMap<Name, Mutex<Times>>,
}

impl Shared {
    /// What a scenario's tasks need; `steps` are all of theirs.
    pub fn of<'a>(
        file: &ScenarioFile,
        steps: impl Iterator<Item = &'a Step>,
        seed: u64,
    ) -> Result<Shared> {
        let spec = &file.shared;
        let mut shared = Shared {
            locks: spec.locks.iter().map(|name| (name.clone(), Lock::default())).collect(),
            barriers: spec
                .barriers
                .iter()
                .map(|(name, spec)| (name.clone(), Barrier::new(spec)))
                .collect(),
            devices: spec
                .devices
                .iter()
                .map(|(name, DeviceSpec { depth, service })| {
                    let done_ns = Mutex::new(vec![0; *depth]);
                    (name.clone(), Device { service: *service, done_ns })
                })
                .collect(),
            arrivals: spec
                .arrivals
                .iter()
                .zip(seed..)
                .filter_map(|((name, arrivals), seed)| {
                    Some((name.clone(), Mutex::new(arrivals.times(seed)?)))
                })
                .collect(),
            ..Shared::default()
        };
        for (name, holds) in &spec.pipes {
            shared.pipes.insert(name.clone(), Pipe::new(*holds)?);
        }
        for step in steps {
            match step {
                Step::Wake(name, _) | Step::Wait(name) => {
                    shared.semaphores.entry(name.clone()).or_default();
                }
                Step::Signal { condition, .. } | Step::Await { condition, .. } => {
                    shared.conditions.entry(condition.clone()).or_default();
                }
                _ => {}
            }
        }
        Ok(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;
    use std::time::Duration;

    #[test]
    fn a_message_takes_its_request_along() {
        let (pipe, stop) = (Pipe::new(2).unwrap(), Stop::default());
        let message = Message { request_ns: 77, written_ns: 99 };
        pipe.write(message, &stop).unwrap();
        pipe.write(Message::default(), &stop).unwrap();
        assert_eq!(pipe.read(&stop), Ok(message));
        assert_eq!(pipe.read(&stop), Ok(Message::default()));
    }

    #[test]
    fn a_pipe_holds_as_many_messages_as_it_is_said_to() {
        for holds in [1, 2, 16] {
            let (pipe, stop, written) =
                (Pipe::new(holds).unwrap(), Stop::default(), AtomicU32::new(0));
            scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..holds + 1 {
                        pipe.write(Message::default(), &stop).unwrap();
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                });
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(written.load(Ordering::SeqCst), holds as u32);
                pipe.read(&stop).unwrap();
            });
        }
    }

    #[test]
    fn a_lock_excludes_and_a_semaphore_remembers() {
        let (lock, posted, stop) = (Lock::default(), Semaphore::default(), Stop::default());
        // Not atomic: two who are in at once lose some.
        let count = AtomicU64::new(0);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        lock.take(&stop).unwrap();
                        let seen = count.load(Ordering::Relaxed);
                        count.store(seen + 1, Ordering::Relaxed);
                        lock.give_back();
                    }
                    posted.post(1);
                });
            }
            for _ in 0..4 {
                posted.take(&stop).unwrap();
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 8_000);
    }

    #[test]
    fn a_barrier_lets_nobody_go_before_all_have_come() {
        for spin_ns in [0, u64::MAX] {
            let (barrier, stop) =
                (Barrier::new(&BarrierSpec { parties: 3, spin_ns }), Stop::default());
            let come = AtomicU32::new(0);
            scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for round in 1..=20 {
                            come.fetch_add(1, Ordering::SeqCst);
                            let spin = |_: u64, enough: &dyn Fn() -> bool| {
                                while !enough() {
                                    std::thread::yield_now();
                                }
                            };
                            barrier.arrive(&stop, spin).unwrap();
                            assert!(come.load(Ordering::SeqCst) >= round * 3);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_signal_lets_one_go_and_gives_it_the_lock_again() {
        let (condition, lock, stop) = (Condition::default(), Lock::default(), Stop::default());
        scope(|scope| {
            let waiter = scope.spawn(|| {
                lock.take(&stop).unwrap();
                condition.wait(Some(&lock), &stop).unwrap();
                lock.give_back();
            });
            while !waiter.is_finished() {
                condition.signal(false);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        lock.take(&stop).unwrap();
    }

    #[test]
    fn operations_of_a_device_come_one_after_the_other() {
        let device = Device { service: Span::Exactly(0), done_ns: Mutex::new(vec![0]) };
        let (stop, began) = (Stop::default(), now_ns());
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| device.operate(2_000_000, &stop).unwrap());
            }
        });
        assert!(now_ns() - began >= 6_000_000);
    }

    #[test]
    fn nothing_waits_once_the_replay_is_over() {
        let stop = Stop::default();
        stop.set();
        assert_eq!(Pipe::new(1).unwrap().read(&stop), Err(Stopped));
        assert_eq!(Semaphore::default().take(&stop), Err(Stopped));
        assert_eq!(stop.sleep_until(u64::MAX), Err(Stopped));
    }
}
