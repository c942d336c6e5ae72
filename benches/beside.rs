//! A service that must answer soon, beside a neighbour that wants all: the parts that a bench
//! plays as processes of its own, each in its cgroup.
//!
//! The service wakes every 10 ms, computes for about a millisecond, and is done: its response time
//! is counted from the moment at which it was due. Its neighbour is a batch job of many threads, or
//! a fork storm. A bench that plays them hands its hidden argument `--part` to [`play_or`].

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::finish;
use metasched_base::{Error, Interrupt, Kind, Result, ResultExt};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use metasched_loader::{WaitTracer, Waiters};
use metasched_stats::percentile;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How often the service has something to do.
const PERIOD: Duration = Duration::from_millis(10);
/// How long that takes it, alone on a CPU.
const WORK: Duration = Duration::from_millis(1);
/// The neighbour runs for so long before the service is measured.
const LEAD: Duration = Duration::from_millis(500);
/// No program of a bench may take longer than its time and this much.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// A neighbour ends when the service has, or by itself after this.
const NEIGHBOUR_LASTS: Duration = Duration::from_secs(240);

/// What a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Answers requests that are due at regular times.
    Service,
    /// Computes in many threads.
    Batch,
    /// Starts processes that end at once, in many threads.
    Forks,
    /// Many threads that want a CPU at once: three of four always, the fourth often.
    Crowd,
    /// Threads that compute together for a part of each period, and sleep together for the rest.
    Periodic,
}

/// A part, and how it is played.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Play {
    part: Part,
    lasts_ms: u64,
    threads: usize,
    /// How much to compute per request, in rounds of xorshift.
    work: u64,
}

impl Play {
    /// The service, for so long; `work` by [`calibrate`].
    pub fn service(lasts: Duration, work: u64) -> Play {
        Play { part: Part::Service, lasts_ms: lasts.as_millis() as u64, threads: 1, work }
    }

    /// A neighbour of so many threads, until it is told to end.
    pub fn neighbour(part: Part, threads: usize, work: u64) -> Play {
        Play { part, lasts_ms: NEIGHBOUR_LASTS.as_millis() as u64, threads, work }
    }

    /// So many threads, which begin together, until the process is killed.
    pub fn crowd(threads: usize) -> Play {
        Play { part: Part::Crowd, lasts_ms: NEIGHBOUR_LASTS.as_millis() as u64, threads, work: 0 }
    }

    /// So many threads, which compute for [`OVERLOAD_BUSY`] of each [`OVERLOAD_PERIOD`], until the
    /// process is killed. How much they get done by then is their scheduler's business.
    pub fn periodic(threads: usize) -> Play {
        Play { part: Part::Periodic, ..Play::crowd(threads) }
    }

    fn lasts(&self) -> Duration {
        Duration::from_millis(self.lasts_ms)
    }

    /// Starts this program, which has to hand what it gets after `--part` to [`play_or`].
    pub fn start(&self, cgroup: &Cgroup) -> Result<Child> {
        let how = serde_json::to_string(self)
            .attempt(Kind::Failed, || "say how a part of the benchmark is played".to_owned())?;
        Spawn::new(["/proc/self/exe", "--part", &how])
            .cgroup(cgroup)
            .stdout(Output::Tail(1 << 12))
            .stderr(Output::Tail(1 << 12))
            .start()
    }

    /// Plays the service to its end.
    pub fn serve(&self, cgroup: &Cgroup) -> Result<Seen> {
        answer(&mut self.start(cgroup)?, self.lasts())
    }
}

/// Plays the part that this program was started for, by its argument `--part`, or is the bench.
pub fn play_or<T: Serialize>(part: Option<&str>, bench: impl FnOnce() -> Result<T>) -> ExitCode {
    match part {
        None => finish(bench()),
        Some(how) => act(how),
    }
}

fn act(how: &str) -> ExitCode {
    let play: Play = match serde_json::from_str(how) {
        Ok(play) => play,
        Err(error) => {
            eprintln!("cannot play '{how}': {error}; --part is the benchmark's own");
            return ExitCode::from(Kind::Usage.exit_code());
        }
    };
    match play.part {
        Part::Service => finish(Ok(serve(&play))),
        Part::Batch => finish(batch(&play)),
        Part::Forks => finish(forks(&play)),
        Part::Crowd => finish(crowd(&play)),
        Part::Periodic => finish(periodic(&play)),
    }
}

/// What the service saw: times in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// From when a request was due, or sent, to its answer.
    pub response_p99_us: f64,
    /// From when it was due until the service looked. Redis does not say.
    pub wake_p99_us: Option<f64>,
    /// Of redis, which is asked as often as it answers.
    pub served_per_s: Option<f64>,
}

/// One run, as it was.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// By the service itself.
    pub seen: Seen,
    /// The service's waits in the run queue.
    pub queue_p99_us: f64,
    /// What the neighbour got done, per second; 0 without one.
    pub done_per_s: f64,
}

/// The cgroups of service and neighbour, of equal `cpu.weight`.
pub struct Groups {
    /// The service's.
    pub service: Cgroup,
    /// Its neighbour's.
    pub neighbour: Cgroup,
}

impl Groups {
    /// Below a cgroup of the bench's own.
    pub fn new(of: &str) -> Result<Self> {
        Ok(Self {
            service: Cgroup::create(&format!("metasched/{of}/service"))?,
            neighbour: Cgroup::create(&format!("metasched/{of}/neighbour"))?,
        })
    }

    /// Removes both, which nobody may be in any more.
    pub fn remove(self) -> Result<()> {
        self.service.remove()?;
        self.neighbour.remove()
    }

    /// One run: the neighbour begins, `warm_up` is done, and then `serve` while waits in the run
    /// queue are traced.
    pub fn run<T>(
        &self,
        neighbour: Option<Play>,
        warm_up: impl FnOnce() -> Result<T>,
        serve: impl FnOnce(T) -> Result<Seen>,
    ) -> Result<Run> {
        let mut beside = neighbour.map(|play| play.start(&self.neighbour)).transpose()?;
        std::thread::sleep(LEAD);
        let warm = warm_up()?;
        let tracer = WaitTracer::attach(&[Waiters::Cgroup(self.service.id()?)])?;
        let seen = serve(warm)?;
        let queue_p99_ns = tracer.read()?.first().and_then(|waits| waits.percentile_ns(0.99));
        drop(tracer);
        let done_per_s = match &mut beside {
            Some(child) => {
                child.signal(Signal::SIGINT);
                answer(child, Duration::ZERO)?
            }
            None => 0.0,
        };
        Ok(Run {
            seen,
            queue_p99_us: queue_p99_ns.map_or(f64::NAN, |ns| ns as f64 / 1e3),
            done_per_s,
        })
    }
}

/// Some computing that the compiler cannot leave out, nor make another loop of where it
/// knows the number of rounds: the calibration would then be of that one.
#[inline(never)]
fn compute(rounds: u64) -> u64 {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x)
}

fn serve(play: &Play) -> Seen {
    let (mut waits, mut responses) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let mut due = start;
    while start.elapsed() < play.lasts() {
        due += PERIOD;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        waits.push(due.elapsed().as_secs_f64() * 1e6);
        compute(play.work);
        responses.push(due.elapsed().as_secs_f64() * 1e6);
        // One that is late by more than a period has missed the next: it is not made up for.
        while due.elapsed() > PERIOD {
            due += PERIOD;
        }
    }
    Seen {
        response_p99_us: percentile(&responses, 0.99).unwrap_or(f64::NAN),
        wake_p99_us: percentile(&waits, 0.99),
        served_per_s: None,
    }
}

/// Counts what `step` does in so many threads, per second, until the time is over or the
/// service has ended and says so.
fn repeat(play: &Play, step: impl Fn() + Sync) -> Result<f64> {
    let interrupt = Interrupt::listen()?;
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    Ok(std::thread::scope(|scope| {
        for _ in 0..play.threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    step();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        interrupt.sleep(play.lasts());
        over.store(true, Ordering::Relaxed);
        // What was begun before counts for nothing.
        done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
    }))
}

fn batch(play: &Play) -> Result<f64> {
    // A tenth of a request is fine enough to count by.
    repeat(play, || {
        compute(play.work / 10);
    })
}

fn forks(play: &Play) -> Result<f64> {
    let failed = AtomicBool::new(false);
    let done_per_s = repeat(play, || {
        // The signal that ends us may end one that has just been born, too.
        let went_well =
            |status: ExitStatus| status.success() || status.signal() == Some(Signal::SIGINT as i32);
        let ran = std::process::Command::new("/bin/true").status();
        failed.fetch_or(!ran.is_ok_and(went_well), Ordering::Relaxed);
    })?;
    if failed.into_inner() {
        return Err(Error::new(Kind::Failed, "start '/bin/true' again and again", "it failed"));
    }
    Ok(done_per_s)
}

/// What a crowd says as it begins.
pub const CROWD_BEGINS: &str = "begins";
/// The threads of a crowd that do not compute always do so for this long,
const CROWD_RUN: Duration = Duration::from_micros(300);
/// and then sleep for so much times one to sixteen.
const CROWD_SLEEP: Duration = Duration::from_micros(300);
/// Enough for a loop; there may be ten thousand of them.
const CROWD_STACK: usize = 32 << 10;

fn crowd(play: &Play) -> Result<()> {
    let attempt = || format!("start {} threads", play.threads);
    let begin = Arc::new(Barrier::new(play.threads + 1));
    for i in 0..play.threads {
        let begin = Arc::clone(&begin);
        let thread = move || {
            begin.wait();
            for round in i as u32.. {
                let began = Instant::now();
                while i % 4 != 0 || began.elapsed() < CROWD_RUN {
                    compute(1_000);
                }
                std::thread::sleep(CROWD_SLEEP * (1 + round % 16));
            }
        };
        let builder = std::thread::Builder::new().stack_size(CROWD_STACK);
        builder.spawn(thread).attempt(Kind::Failed, attempt)?;
    }
    println!("{CROWD_BEGINS}");
    begin.wait();
    std::thread::sleep(play.lasts());
    Ok(())
}

/// How often the threads of a periodic overload begin to compute.
pub const OVERLOAD_PERIOD: Duration = Duration::from_millis(500);
/// For how long they compute then, whether they have a CPU or not.
pub const OVERLOAD_BUSY: Duration = Duration::from_millis(250);

/// Waits until so long after a period of the overload has begun: periods begin at multiples of
/// their length, by `CLOCK_MONOTONIC`, so that nobody has to be asked.
pub fn wait_for_phase(phase: Duration) {
    std::thread::sleep(until_phase(into_period(), phase));
}

/// For how long the present period has lasted.
fn into_period() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    let into = Duration::from(now).as_nanos() % OVERLOAD_PERIOD.as_nanos();
    Duration::from_nanos(into as u64)
}

/// How long it is until `phase`, `into` a period: less than a period.
fn until_phase(into: Duration, phase: Duration) -> Duration {
    let next = if phase < into { phase + OVERLOAD_PERIOD } else { phase };
    next - into
}

fn periodic(play: &Play) -> Result<()> {
    let attempt = || format!("start {} threads", play.threads);
    let begun = Instant::now();
    let thread = || {
        while begun.elapsed() < play.lasts() {
            wait_for_phase(Duration::ZERO);
            // One that got its CPU late ends with the others.
            while into_period() < OVERLOAD_BUSY {
                compute(1_000);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..play.threads {
            let builder = std::thread::Builder::new();
            builder.spawn_scoped(scope, thread).attempt(Kind::Failed, attempt)?;
        }
        Ok(())
    })
}

/// How much computing takes [`WORK`] on this machine, under EEVDF and with nobody beside.
pub fn calibrate() -> u64 {
    const TRIAL: u64 = 200_000;
    // The first one warms up; the least of several was not disturbed.
    let best = (0..6)
        .map(|_| {
            let start = Instant::now();
            compute(TRIAL);
            start.elapsed()
        })
        .skip(1)
        .min()
        .unwrap_or(WORK);
    (TRIAL as f64 * WORK.as_secs_f64() / best.as_secs_f64()) as u64
}

/// What a part says at its end.
fn answer<T: DeserializeOwned>(child: &mut Child, lasts: Duration) -> Result<T> {
    let attempt = || "run a part of the benchmark".to_owned();
    // Beside a fork storm even the end takes its time.
    match child.wait(lasts + PATIENCE)? {
        Some(status) if status.success() => {
            serde_json::from_str(child.stdout_tail().trim()).attempt(Kind::Failed, attempt)
        }
        Some(_) => Err(Error::new(Kind::Failed, attempt(), child.last_lines(3))),
        None => Err(Error::new(Kind::Timeout, attempt(), "it did not end a minute after its time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_waited_for_less_than_a_period() {
        let wait = |into, phase| {
            until_phase(Duration::from_millis(into), Duration::from_millis(phase)).as_millis()
        };
        assert_eq!(wait(0, 0), 0);
        assert_eq!(wait(1, 0), 499);
        assert_eq!(wait(100, 300), 200);
        assert_eq!(wait(300, 100), 300);
    }
}
