//! The measurements themselves: small pieces of work whose costs the model composes of the same
//! parts.

use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_loader::{WaitTracer, Waiters};
use metasched_stats::WaitHistogram;
use nix::unistd::gettid;

use crate::clock::{cpu_ns, now_ns, sleep_until};
use crate::shared::{Message, Pipe, Stop};
use crate::threads::set_affinity;

/// Repeats that warm up, and count for nothing.
const WARM_UP: usize = 5;
/// Repeats that count: the interval of a median of so many leaves out nine at either end.
const REPEATS: usize = 31;
/// The threads of a chain in which each wakes the next; a whole one is far shorter than a slice.
const LINKS: usize = 16;
/// Calls in a repeat.
const CALLS: u64 = 500;
/// Naps of each kind, and how long one is, ns: long enough for a CPU to be idle by then.
const NAPS: usize = 120;
const NAP_NS: u64 = 1_000_000;
/// What a task is taken to find cold on another CPU, bytes: a first-level cache.
const WORKING_SET: usize = 32 * 1024;

/// A thread whose affinity ends with it.
pub fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Repeats a measurement, without those that warm up.
fn repeated<T>(interrupt: &Interrupt, mut once: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for repeat in 0..WARM_UP + REPEATS {
        interrupt.check("the calibration")?;
        let value = once()?;
        if repeat >= WARM_UP {
            all.push(value);
        }
    }
    Ok(all)
}

/// What chains came to, one figure for each repeat, ns.
pub struct Chains {
    pub call_ns: Vec<f64>,
    /// Of somebody who may use all CPUs, while none is idle.
    pub wake_ns: Vec<f64>,
    /// Of somebody who may use the waker's CPU only.
    pub here_ns: Vec<f64>,
    pub switch_ns: Vec<f64>,
}

/// Calls, wake-ups and switches.
///
/// In a chain, one thread writes to a pipe for each of many that sleep in it, and then waits
/// for the last of them, all on one CPU. For each of them, and for who waits in the end, the
/// model counts a call and a wake-up by the writer, a switch, and the call that reads.
pub fn chains(cpus: &[usize], interrupt: &Interrupt) -> Result<Chains> {
    apart(|| {
        let stop = Stop::default();
        set_affinity(gettid(), once(cpus[0]))?;
        let alone = Pipe::new(1)?;
        let call_ns = repeated(interrupt, || {
            let began = cpu_ns();
            for _ in 0..CALLS {
                let passed = alone.write(Message::default(), &stop);
                passed.and_then(|()| alone.read(&stop)).expect("nobody ends it");
            }
            Ok((cpu_ns() - began) as f64 / (2 * CALLS) as f64)
        })?;
        let call = metasched_stats::median(&call_ns).expect("there are repeats");

        let here = Chain::new(&cpus[..1])?;
        let links = (LINKS + 1) as f64;
        let (mut here_ns, mut switch_ns) = (Vec::new(), Vec::new());
        for Passed { writing_ns, whole_ns } in repeated(interrupt, || Ok(here.pass()))? {
            let wake = writing_ns as f64 / LINKS as f64 - call;
            here_ns.push(wake);
            switch_ns.push(whole_ns as f64 / links - 2.0 * call - wake);
        }
        here.end();
        // Who may use several CPUs is asked for one of them, and looks whether one is idle.
        let wake_ns = match cpus.len() {
            1 => here_ns.clone(),
            _ => beside_work(&cpus[1..], || {
                let anywhere = Chain::new(cpus)?;
                let passed = repeated(interrupt, || Ok(anywhere.pass()));
                anywhere.end();
                let wake = |p: &Passed| p.writing_ns as f64 / LINKS as f64 - call;
                Ok(passed?.iter().map(wake).collect())
            })?,
        };
        Ok(Chains { call_ns, wake_ns, here_ns, switch_ns })
    })
}

/// Does something while these CPUs compute.
pub fn beside_work<T>(cpus: &[usize], does: impl FnOnce() -> Result<T>) -> Result<T> {
    beside_load(cpus.iter().copied().map(Some), std::hint::spin_loop, does)
}

/// Does something while threads do theirs over and over: one for each of these, on that CPU
/// only, or on any that we may use.
pub fn beside_load<T>(
    threads: impl Iterator<Item = Option<usize>>,
    round: impl Fn() + Sync,
    does: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in threads {
            let (round, over) = (&round, &over);
            scope.spawn(move || {
                let pinned = cpu.map_or(Ok(()), |cpu| set_affinity(gettid(), once(cpu)));
                while pinned.is_ok() && !over.load(Ordering::Relaxed) {
                    round();
                }
            });
        }
        let done = does();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// Threads that sleep in a pipe each.
struct Chain {
    pipes: Arc<Vec<Pipe>>,
    done: Arc<Pipe>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

/// What one pass took, ns.
struct Passed {
    /// CPU time of the writer.
    writing_ns: u64,
    /// From the first word to the last.
    whole_ns: u64,
}

impl Chain {
    /// On these CPUs.
    fn new(cpus: &[usize]) -> Result<Chain> {
        let pipes: Result<Vec<Pipe>> = (0..LINKS).map(|_| Pipe::new(1)).collect();
        let (pipes, done) = (Arc::new(pipes?), Arc::new(Pipe::new(1)?));
        let told = Arc::new(AtomicUsize::new(0));
        let mut chain = Chain { pipes, done, stop: Stop::default(), threads: Vec::new() };
        for link in 0..LINKS {
            let (pipes, done, told) = (chain.pipes.clone(), chain.done.clone(), told.clone());
            let cpus = cpus.to_vec();
            chain.threads.push(std::thread::spawn(move || {
                let stop = Stop::default();
                set_affinity(gettid(), cpus.into_iter()).expect("CPUs that we may use");
                // A word of the end is one about a request.
                while pipes[link].read(&stop).is_ok_and(|word| word == Message::default()) {
                    if told.fetch_add(1, Ordering::SeqCst) % LINKS == LINKS - 1 {
                        done.write(Message::default(), &stop).expect("nobody ends it");
                    }
                }
            }));
        }
        Ok(chain)
    }

    fn pass(&self) -> Passed {
        let (began, cpu) = (now_ns(), cpu_ns());
        for pipe in self.pipes.iter() {
            pipe.write(Message::default(), &self.stop).expect("nobody ends it");
        }
        let writing_ns = cpu_ns() - cpu;
        self.done.read(&self.stop).expect("nobody ends it");
        Passed { writing_ns, whole_ns: now_ns() - began }
    }

    fn end(self) {
        let word = Message { request_ns: 1, written_ns: 0 };
        for pipe in self.pipes.iter() {
            pipe.write(word, &self.stop).expect("nobody ended it before");
        }
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// What naps came to.
pub struct Naps {
    /// From when a sleeper was to wake until it ran, each time, ns.
    pub late_ns: Vec<f64>,
    /// CPU time of one sleep and the return from it, ns.
    pub asleep_ns: Vec<f64>,
    /// CPU time of a write that wakes somebody on another CPU, which is idle, each time, ns.
    pub telling_ns: Vec<f64>,
    /// How long those waited whom a timer of their own CPU woke, which was idle; or why that was
    /// not to be had. The kernel's own books have nothing of it: they take the same clock for
    /// both ends.
    pub own: Result<WaitHistogram>,
    /// The waits of those who were woken by another CPU.
    pub told: Result<WaitHistogram>,
}

/// Timers, and how soon an idle CPU runs who is woken: by a timer of its own, and where there
/// are two by another CPU.
pub fn naps(cpus: &[usize], interrupt: &Interrupt) -> Result<Naps> {
    // The whole system's: nothing else should run, or little.
    let tracer = WaitTracer::attach(&[Waiters::System]);
    let seen = || -> Result<WaitHistogram> {
        let tracer = tracer.as_ref().map_err(Clone::clone)?;
        let waits = tracer.read()?.pop().expect("the whole system was asked for");
        tracer.reset().map(|()| waits)
    };
    let (mut late_ns, mut asleep_ns, mut telling_ns) = (Vec::new(), Vec::new(), Vec::new());
    apart(|| {
        set_affinity(gettid(), once(cpus[0]))?;
        // SAFETY: the call takes a number.
        unsafe { nix::libc::prctl(nix::libc::PR_SET_TIMERSLACK, 1) };
        for _ in 0..NAPS {
            interrupt.check("the calibration")?;
            let (due, cpu) = (now_ns() + NAP_NS, cpu_ns());
            sleep_until(due);
            late_ns.push((now_ns() - due) as f64);
            asleep_ns.push((cpu_ns() - cpu) as f64);
        }
        Ok(())
    })?;
    let own = seen();
    if let [here, there, ..] = cpus {
        let pipe = Pipe::new(1)?;
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| -> Result<()> {
                set_affinity(gettid(), once(*there))?;
                for _ in 0..NAPS {
                    pipe.read(&Stop::default()).expect("nobody ends it");
                }
                Ok(())
            });
            set_affinity(gettid(), once(*here))?;
            for _ in 0..NAPS {
                // Awake: who sleeps here would be seen among those that are told.
                let until = now_ns() + NAP_NS;
                while now_ns() < until {}
                let cpu = cpu_ns();
                pipe.write(Message::default(), &Stop::default()).expect("nobody ends it");
                telling_ns.push((cpu_ns() - cpu) as f64);
            }
            set_affinity(gettid(), cpus.iter().copied())?;
            sleeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
    }
    let told = match cpus.len() {
        1 => Err(Error::new(Kind::Unsupported, "wake somebody on another CPU", "there is one")),
        _ => seen(),
    };
    Ok(Naps { late_ns, asleep_ns, telling_ns, own, told })
}

/// How long a tick keeps a thread that computes from it, one figure for each repeat, ns: in as
/// long as five of them take, the fifth of the longest times between two looks at the clock. What
/// else the machine does may be longer than all ticks, and is seldom five times so.
pub fn ticks(cpu: usize, period_ns: u64, interrupt: &Interrupt) -> Result<Vec<f64>> {
    const TICKS: usize = 5;
    apart(|| {
        set_affinity(gettid(), once(cpu))?;
        repeated(interrupt, || {
            let mut longest = [0; TICKS];
            let began = now_ns();
            let mut now = began;
            while now - began < TICKS as u64 * period_ns {
                let then = std::mem::replace(&mut now, now_ns());
                // The least of the longest gives way.
                if now - then > longest[0] {
                    longest[0] = now - then;
                    longest.sort_unstable();
                }
            }
            Ok(longest[0] as f64)
        })
    })
}

/// What a walk through a small working set takes longer right after a change of CPU than when
/// it is made again.
pub fn migrations(here: usize, there: usize, interrupt: &Interrupt) -> Result<Vec<f64>> {
    apart(|| {
        let memory: Vec<u64> = (0..WORKING_SET as u64 / 8).collect();
        let walk = || {
            let began = now_ns();
            std::hint::black_box(memory.iter().fold(0, |sum: u64, word| sum ^ word));
            (now_ns() - began) as f64
        };
        repeated(interrupt, || {
            let mut colder_ns = 0.0;
            for cpu in [here, there] {
                set_affinity(gettid(), once(cpu))?;
                colder_ns += walk() - walk();
            }
            Ok(colder_ns / 2.0)
        })
    })
}
