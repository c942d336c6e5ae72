//! The threads of a play, and what becomes of them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_scenario::TaskSpec;
use metasched_scenario::file::nice_of_weight;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, gettid};

use crate::counters::Counters;
use crate::futex;
use crate::player::{Actor, Work};
use crate::shared::{Curtain, Props};

/// One thread.
pub struct Member {
    pub spec: Arc<TaskSpec>,
    pub tid: Pid,
    /// What it had done when figures began to count; nothing if it was not born yet.
    pub before: Counters,
    /// What it had done when it ended, or when the play did.
    pub after: Option<Counters>,
    pub work: Work,
}

/// Everything that the threads have in common.
pub struct Crew {
    pub props: Props,
    pub curtain: Curtain,
    pub members: Mutex<Vec<Member>>,
    /// What went wrong first.
    fault: Mutex<Option<Error>>,
    failed: AtomicBool,
    alive: AtomicUsize,
    ready: AtomicU32,
    /// When it begins, ns; 0 as long as that is not known.
    starts_ns: AtomicU64,
    /// From when on what is done counts, ns.
    counts_ns: AtomicU64,
    gate: AtomicU32,
    seed: u64,
    born: AtomicU64,
    /// Who looks at the clock.
    director: Pid,
}

impl Crew {
    pub fn new(props: Props, seed: u64, director: Pid) -> Crew {
        Crew {
            props,
            curtain: Curtain::default(),
            members: Mutex::default(),
            fault: Mutex::default(),
            failed: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
            ready: AtomicU32::new(0),
            starts_ns: AtomicU64::new(0),
            counts_ns: AtomicU64::new(0),
            gate: AtomicU32::new(0),
            seed,
            born: AtomicU64::new(0),
            director,
        }
    }

    /// Something went wrong: the play ends. The first fault counts.
    pub fn fail(&self, error: Error) {
        self.fault.lock().expect("nobody panics with it").get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
        self.curtain.fall();
        rouse(self.director);
    }

    /// What went wrong, if something did.
    pub fn fault(&self) -> Result<()> {
        let fault = self.fault.lock().expect("nobody panics with it").clone();
        fault.map_or(Ok(()), Err)
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Starts a thread, which waits for the start if there was none yet.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn hire(
        self: &Arc<Self>,
        spec: Arc<TaskSpec>,
        parent: Option<Arc<Children>>,
    ) -> Result<()> {
        let crew = Arc::clone(self);
        let name: String = spec.name.chars().take(15).collect();
        self.alive.fetch_add(1, Ordering::SeqCst);
        // Not to be joined: who is gone is told by `alive`, and forks would pile up handles.
        let started = std::thread::Builder::new().name(name).stack_size(STACK).spawn(move || {
            if let Err(error) = crew.play(&spec) {
                crew.fail(error);
            }
            if let Some(parent) = parent {
                parent.one_less();
            }
            crew.alive.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            self.alive.fetch_sub(1, Ordering::SeqCst);
        }
        let count = self.alive.load(Ordering::SeqCst) + 1;
        started.map(drop).attempt(Kind::Failed, || format!("start thread {count} of the play"))
    }

    /// The whole life of a thread.
    fn play(self: &Arc<Self>, spec: &Arc<TaskSpec>) -> Result<()> {
        let tid = gettid();
        settle(spec)?;
        let number = self.born.fetch_add(1, Ordering::SeqCst);
        let at = {
            let mut members = self.members.lock().expect("nobody panics with it");
            let (before, after, work) = Default::default();
            members.push(Member { spec: spec.clone(), tid, before, after, work });
            members.len() - 1
        };
        let forked = self.gate.load(Ordering::Acquire) == 1;
        self.ready.fetch_add(1, Ordering::SeqCst);
        while self.gate.load(Ordering::Acquire) == 0 && !self.curtain.has_fallen() {
            futex::wait(&self.gate, 0);
        }
        let starts_ns = self.starts_ns.load(Ordering::Acquire);
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let mut actor = Actor::new(spec, self, seed);
        let arrived = forked || self.curtain.sleep_until(starts_ns + spec.arrives_ns).is_ok();
        if arrived {
            actor.play()?;
        }
        let counters = Counters::of(tid);
        let mut members = self.members.lock().expect("nobody panics with it");
        members[at].work = actor.into_work();
        if members[at].after.is_none() {
            members[at].after = counters;
        }
        Ok(())
    }

    /// How many threads have come to the start.
    pub fn ready(&self) -> usize {
        self.ready.load(Ordering::SeqCst) as usize
    }

    /// Lets all begin at that time, ns; what is done counts so much later.
    pub fn start(&self, at_ns: u64, warm_up_ns: u64) {
        self.starts_ns.store(at_ns, Ordering::Release);
        self.counts_ns.store(at_ns + warm_up_ns, Ordering::Release);
        self.gate.store(1, Ordering::Release);
        futex::wake(&self.gate, u32::MAX);
    }

    /// How many threads live.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
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
        let members = self.members.lock().expect("nobody panics with it");
        let of = |member: &&Member| member.after.is_none() && member.spec.group == group;
        members.iter().filter(of).map(|member| member.tid).collect()
    }
}

/// Ends a sleep of one of our threads, so that it sees what has changed.
pub const SIGNAL: Signal = Signal::SIGUSR1;

/// Has a thread of this process look up, if it is still there.
pub fn rouse(thread: Pid) {
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
    pub fn wait(&self, curtain: &Curtain) -> Result<(), crate::shared::Over> {
        loop {
            match self.0.load(Ordering::SeqCst) {
                0 => return Ok(()),
                _ if curtain.has_fallen() => return Err(crate::shared::Over),
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
