//! The threads of a replay, and what becomes of them.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_scenario::TaskSpec;
use metasched_scenario::file::nice_of_weight;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, gettid};

use crate::clock::{now_ns, sleep_until};
use crate::counters::Counters;
use crate::futex;
use crate::shared::{Shared, Stop};
use crate::worker::{Work, Worker};

/// How long threads may take to come to the start, or to end, ns.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Between looks at that, ns.
const LOOK_NS: u64 = 1_000_000;

/// One thread.
pub struct Thread {
    pub spec: Arc<TaskSpec>,
    pub tid: Pid,
    /// What it had done when figures began to count; nothing if it was not born yet.
    pub before: Counters,
    /// What it had done when it ended, or when the replay did.
    pub after: Option<Counters>,
    pub work: Work,
}

/// Everything that the threads have in common.
pub struct Threads {
    pub shared: Shared,
    pub stop: Stop,
    all: Mutex<Vec<Thread>>,
    /// What went wrong first.
    fault: Mutex<Option<Error>>,
    alive: AtomicUsize,
    ready: AtomicU32,
    /// When it begins, ns; 0 as long as that is not known.
    starts_ns: AtomicU64,
    /// From when on what is done counts, ns.
    counts_ns: AtomicU64,
    gate: AtomicU32,
    seed: u64,
    born: AtomicU64,
    /// The thread that looks at the clock.
    watcher: Pid,
}

impl Threads {
    pub fn new(shared: Shared, seed: u64, watcher: Pid) -> Threads {
        Threads {
            shared,
            stop: Stop::default(),
            all: Mutex::default(),
            fault: Mutex::default(),
            alive: AtomicUsize::new(0),
            ready: AtomicU32::new(0),
            starts_ns: AtomicU64::new(0),
            counts_ns: AtomicU64::new(0),
            gate: AtomicU32::new(0),
            seed,
            born: AtomicU64::new(0),
            watcher,
        }
    }

    /// Something went wrong: the replay ends. The first fault counts.
    pub fn fail(&self, error: Error) {
        self.fault.lock().expect("nobody panics with it").get_or_insert(error);
        self.stop.set();
        signal(self.watcher);
    }

    /// What went wrong, if something did.
    pub fn fault(&self) -> Result<()> {
        let fault = self.fault.lock().expect("nobody panics with it").clone();
        fault.map_or(Ok(()), Err)
    }

    /// Starts a thread, which waits for the start if there was none yet.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn spawn(
        self: &Arc<Self>,
        spec: Arc<TaskSpec>,
        parent: Option<Arc<Children>>,
    ) -> Result<()> {
        let threads = Arc::clone(self);
        let name: String = spec.name.chars().take(15).collect();
        self.alive.fetch_add(1, Ordering::SeqCst);
        // Not to be joined: who is gone is told by `alive`, and forks would pile up handles.
        let started = std::thread::Builder::new().name(name).stack_size(STACK).spawn(move || {
            if let Err(error) = threads.live(&spec) {
                threads.fail(error);
            }
            if let Some(parent) = parent {
                parent.one_less();
            }
            threads.alive.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            self.alive.fetch_sub(1, Ordering::SeqCst);
        }
        let count = self.alive.load(Ordering::SeqCst) + 1;
        started.map(drop).attempt(Kind::Failed, || format!("start thread {count} of the replay"))
    }

    /// The whole life of a thread.
    fn live(self: &Arc<Self>, spec: &Arc<TaskSpec>) -> Result<()> {
        let tid = gettid();
        settle(spec)?;
        let number = self.born.fetch_add(1, Ordering::SeqCst);
        let at = {
            let mut all = self.all.lock().expect("nobody panics with it");
            let (before, after, work) = Default::default();
            all.push(Thread { spec: spec.clone(), tid, before, after, work });
            all.len() - 1
        };
        let forked = self.gate.load(Ordering::Acquire) == 1;
        self.ready.fetch_add(1, Ordering::SeqCst);
        while self.gate.load(Ordering::Acquire) == 0 && !self.stop.is_set() {
            futex::wait(&self.gate, 0);
        }
        let starts_ns = self.starts_ns.load(Ordering::Acquire);
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut worker = Worker::new(spec, self, seed);
        let arrived = forked || self.stop.sleep_until(starts_ns + spec.arrives_ns).is_ok();
        if arrived {
            worker.run()?;
        }
        let counters = Counters::of(tid);
        let mut all = self.all.lock().expect("nobody panics with it");
        all[at].work = worker.into_work();
        if all[at].after.is_none() {
            all[at].after = counters;
        }
        Ok(())
    }

    /// Waits until so many threads have come to the start.
    ///
    /// # Errors
    /// When one cannot, or they take too long.
    pub fn wait_until_ready(&self, threads: usize) -> Result<()> {
        let end = now_ns() + PATIENCE_NS;
        while (self.ready.load(Ordering::SeqCst) as usize) < threads {
            self.fault()?;
            if now_ns() >= end {
                let cause = "it did not come to that in a minute";
                let attempt = "wait until the threads of the replay are ready";
                return Err(Error::new(Kind::Timeout, attempt, cause)
                    .remedy("replay fewer tasks, or on a machine that does less besides"));
            }
            sleep_until(now_ns() + LOOK_NS);
        }
        self.fault()
    }

    /// Lets all begin at that time, ns; what is done counts so much later.
    pub fn start(&self, at_ns: u64, warm_up_ns: u64) {
        self.starts_ns.store(at_ns, Ordering::Release);
        self.counts_ns.store(at_ns + warm_up_ns, Ordering::Release);
        self.gate.store(1, Ordering::Release);
        futex::wake(&self.gate, u32::MAX);
    }

    /// Something of each thread.
    pub fn each<T>(&self, of: impl Fn(&Thread) -> T) -> Vec<T> {
        self.all.lock().expect("nobody panics with it").iter().map(of).collect()
    }

    /// Reads the counters of those that live. Each is kept without the lock for as long as that
    /// takes, since who ends wants it.
    fn look(&self, keep: impl Fn(&mut Thread, Option<Counters>)) {
        for (at, tid) in self.each(|thread| thread.tid).into_iter().enumerate() {
            let counters = Counters::of(tid);
            keep(&mut self.all.lock().expect("nobody panics with it")[at], counters);
        }
    }

    /// What is done from now on counts.
    pub fn look_before(&self) {
        // One that has ended did all of it in the warm-up.
        self.look(|thread, now| thread.before = now.or(thread.after).unwrap_or_default());
    }

    /// What was done until now counts.
    pub fn look_after(&self) {
        self.look(|thread, now| thread.after = thread.after.or(now));
    }

    /// Ends them all, those too that wait for the start, and waits until they have.
    pub fn end(&self) {
        self.stop.set();
        self.start(now_ns(), 0);
        let end = now_ns() + PATIENCE_NS;
        while self.alive.load(Ordering::SeqCst) > 0 && now_ns() < end {
            self.each(|thread| thread.tid).into_iter().for_each(signal);
            sleep_until(now_ns() + LOOK_NS);
        }
    }

    /// When it began, ns.
    pub fn starts_ns(&self) -> u64 {
        self.starts_ns.load(Ordering::Acquire)
    }

    /// Whether what is done at that time counts, ns.
    pub fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.counts_ns.load(Ordering::Relaxed)
    }

    /// The threads of a group that live.
    pub fn living(&self, group: &str) -> Vec<Pid> {
        let all = self.all.lock().expect("nobody panics with it");
        let of = |thread: &&Thread| thread.after.is_none() && thread.spec.group == group;
        all.iter().filter(of).map(|thread| thread.tid).collect()
    }
}

/// Ends a sleep of one of our threads, so that it sees what has changed.
pub const SIGNAL: Signal = Signal::SIGUSR1;

/// Has a thread of this process look up, if it is still there.
pub fn signal(thread: Pid) {
    let process = getpid().as_raw();
    // SAFETY: the call takes numbers; who is gone is not found.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread.as_raw(), SIGNAL as i32) };
}

/// A thread here needs little: its deepest call is a system call.
const STACK: usize = 256 * 1024;

/// The tasks that one bore and that live.
#[derive(Default)]
pub struct Children(AtomicU32);

impl Children {
    pub fn one_more(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn one_less(&self) {
        if self.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            futex::wake(&self.0, u32::MAX);
        }
    }

    /// Waits until none is left.
    pub fn wait(&self, stop: &Stop) -> Result<(), crate::shared::Stopped> {
        loop {
            match self.0.load(Ordering::SeqCst) {
                0 => return Ok(()),
                _ if stop.is_set() => return Err(crate::shared::Stopped),
                left => futex::wait(&self.0, left),
            }
        }
    }
}

/// Gives the calling thread its weight and its CPUs, and timers that are as exact as they can.
fn settle(spec: &TaskSpec) -> Result<()> {
    set_weight(gettid(), spec.weight)?;
    if let Some(allowed) = &spec.allowed {
        set_affinity(gettid(), allowed.iter())?;
    }
    // The model's timers have no slack of 50 us either.
    // SAFETY: the call takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    Ok(())
}

/// Gives a thread the nice value of that weight.
pub fn set_weight(tid: Pid, weight: u32) -> Result<()> {
    let Some(nice) = nice_of_weight(weight) else { return Ok(()) };
    if tid == gettid() && nice == 0 {
        return Ok(());
    }
    // SAFETY: the call takes numbers. For the kernel, a process here is a thread.
    let done =
        unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.as_raw() as libc::id_t, nice as i32) };
    match done {
        0 => Ok(()),
        _ => {
            let cause = std::io::Error::last_os_error();
            let attempt = format!("give a thread the nice value {nice}");
            Err(Error::new(Kind::Denied, attempt, cause).remedy("run metasched as root"))
        }
    }
}

/// Lets a thread run on these CPUs only.
pub fn set_affinity(tid: Pid, cpus: impl Iterator<Item = usize>) -> Result<()> {
    let attempt = || "choose the CPUs of a thread".to_owned();
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(cpu).attempt(Kind::BadInput, attempt)?;
    }
    sched_setaffinity(tid, &set).attempt(Kind::Failed, attempt)
}
