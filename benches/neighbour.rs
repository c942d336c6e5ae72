//! `bench-neighbour`: a service that must answer soon, beside a neighbour that wants all.
//!
//! The service wakes every 10 ms, computes for about a millisecond, and is done: its
//! response time is counted from the moment at which it was due. Its neighbour is a batch
//! job of many threads, or a fork storm. Both are in cgroups of equal `cpu.weight`. What
//! a scheduler is measured by is the service's p99, and what that costs the neighbour.
//!
//! Both of the service's times hold what the machine adds: a timer that is late, a virtual
//! CPU that stands still. So its waits in the run queue are traced too, from runnable to
//! running by the kernel's clock, and it is measured with nobody beside it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use metasched_base::{Error, Interrupt, Kind, Progress, Result, ResultExt};
use metasched_benches::{finish, order, put_in_force, realtime, show, table};
use metasched_control::{Candidate, CandidateEnv, Switcher, SwitcherOptions, candidates, find};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use metasched_loader::{DEFAULT_WEIGHT, LaneSpec, WaitTracer};
use metasched_stats::{Interval, median, paired_ratio, percentile};
use serde::{Deserialize, Serialize};

/// Measures a service beside a neighbour that wants all of the machine.
#[derive(Debug, Parser)]
#[command(name = "bench-neighbour")]
struct Args {
    /// How many rounds; each runs every scheduler beside every neighbour
    #[arg(long, default_value_t = 12)]
    rounds: u64,
    /// How long each run lasts
    #[arg(long, default_value = "8s", value_parser = metasched_base::parse_duration)]
    duration: Duration,
    /// Threads of the neighbour, for each CPU
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Which neighbours there are in turn; what nobody beside it leaves of the service's p99
    /// is the machine's own
    #[arg(long, value_delimiter = ',', default_value = "batch,forks,nobody")]
    neighbours: Vec<Neighbour>,
    /// Which schedulers are compared with EEVDF
    #[arg(long, value_delimiter = ',', default_value = "fifo,vtime,lanes")]
    schedulers: Vec<Scheduler>,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play a part in the benchmark (internal)
    #[arg(long, hide = true)]
    part: Option<Part>,
    /// How much to compute per request, in rounds of xorshift (internal)
    #[arg(long, hide = true, default_value_t = 0)]
    work: u64,
}

/// What a process of the benchmark plays.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    Service,
    Batch,
    Forks,
}

/// What is beside the service.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Neighbour {
    Batch,
    Forks,
    Nobody,
}

impl Neighbour {
    /// Its name in tables and JSON, and the part that it plays, if any.
    fn role(self) -> (&'static str, Option<Part>) {
        match self {
            Self::Batch => ("batch", Some(Part::Batch)),
            Self::Forks => ("forks", Some(Part::Forks)),
            Self::Nobody => ("nobody", None),
        }
    }
}

/// What is compared with EEVDF.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Scheduler {
    Fifo,
    Vtime,
    Lanes,
}
/// How often the service has something to do.
const PERIOD: Duration = Duration::from_millis(10);
/// How long that takes it, alone on a CPU.
const WORK: Duration = Duration::from_millis(1);
/// The neighbour runs for so long before the service is measured, and so long after.
const LEAD: Duration = Duration::from_millis(500);

/// What the service saw, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seen {
    response_p99_us: f64,
    wake_p99_us: f64,
}

/// How a scheduler is put in force.
struct Subject {
    name: &'static str,
    candidate: Candidate,
    /// Policies of the service's and of the neighbour's lane.
    lanes: Option<[&'static str; 2]>,
}

/// One run, as it was.
#[derive(Clone, Copy)]
struct Run {
    seen: Seen,
    /// The service's waits in the run queue.
    queue_p99_us: f64,
    /// What the neighbour got done, per second.
    done_per_s: f64,
}

#[derive(Serialize)]
struct Ratios {
    response_p99: Option<Interval>,
    wake_p99: Option<Interval>,
    queue_p99: Option<Interval>,
    neighbour_throughput: Option<Interval>,
}

#[derive(Serialize)]
struct Figures {
    /// Lanes over EEVDF beside the batch job: the service's p99 response.
    p99_ratio: Option<f64>,
    /// The same: the batch job's throughput.
    hog_ratio: Option<f64>,
    /// By neighbour and scheduler, over EEVDF.
    over_eevdf: BTreeMap<&'static str, BTreeMap<&'static str, Ratios>>,
    /// By neighbour and scheduler: the median over the rounds of the service's p99 response,
    /// microseconds. Of an emulated machine's absolute times only the order is of interest.
    response_p99_us: BTreeMap<&'static str, BTreeMap<&'static str, Option<f64>>>,
    /// The same: its waits in the run queue.
    queue_p99_us: BTreeMap<&'static str, BTreeMap<&'static str, Option<f64>>>,
    rounds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.part {
        None => finish(bench(&args)),
        Some(Part::Service) => finish(Ok(serve(&args))),
        Some(Part::Batch) => finish(Ok(batch(&args))),
        Some(Part::Forks) => finish(forks(&args)),
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

fn serve(args: &Args) -> Seen {
    let (mut waits, mut responses) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let mut due = start;
    while start.elapsed() < args.duration {
        due += PERIOD;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        waits.push(due.elapsed().as_secs_f64() * 1e6);
        compute(args.work);
        responses.push(due.elapsed().as_secs_f64() * 1e6);
        // One that is late by more than a period has missed the next: it is not made up for.
        while due.elapsed() > PERIOD {
            due += PERIOD;
        }
    }
    Seen {
        response_p99_us: percentile(&responses, 0.99).unwrap_or(f64::NAN),
        wake_p99_us: percentile(&waits, 0.99).unwrap_or(f64::NAN),
    }
}

/// Counts what `step` does in so many threads until the time is over.
fn repeat(args: &Args, step: impl Fn() + Sync) -> u64 {
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    step();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(args.duration);
        over.store(true, Ordering::Relaxed);
        // What was begun before counts for nothing.
        done.load(Ordering::Relaxed)
    })
}

fn batch(args: &Args) -> u64 {
    // A tenth of a request is fine enough to count by.
    repeat(args, || {
        compute(args.work / 10);
    })
}

fn forks(args: &Args) -> Result<u64> {
    let failed = AtomicBool::new(false);
    let done = repeat(args, || {
        let ran = std::process::Command::new("/bin/true").status();
        failed.fetch_or(!ran.is_ok_and(|status| status.success()), Ordering::Relaxed);
    });
    if failed.into_inner() {
        return Err(Error::new(Kind::Failed, "start '/bin/true' again and again", "it failed"));
    }
    Ok(done)
}

/// How much computing takes [`WORK`] on this machine, under EEVDF and with nobody beside.
fn calibrate() -> u64 {
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

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let work = calibrate();
    realtime()?;
    let groups = Groups::new()?;
    let table = candidates(&CandidateEnv::system())?;
    let named = |name: &str| find(&table, name).cloned();
    let mut subjects = vec![Subject { name: "eevdf", candidate: named("eevdf")?, lanes: None }];
    for scheduler in &args.schedulers {
        let (name, policy, lanes) = match scheduler {
            Scheduler::Fifo => ("fifo", "fifo", None),
            Scheduler::Vtime => ("vtime", "vtime", None),
            Scheduler::Lanes => ("lanes", "fifo", Some(["vtime", "fifo"])),
        };
        subjects.push(Subject { name, candidate: named(policy)?, lanes });
    }
    let mut switcher = Switcher::new(SwitcherOptions::new("bench-neighbour"))?;
    // runs[neighbour][subject][round]
    let mut runs = vec![vec![Vec::new(); subjects.len()]; args.neighbours.len()];
    let progress = Progress::new("bench-neighbour", args.rounds * subjects.len() as u64);
    for round in 0..args.rounds {
        for s in order(subjects.len(), args.seed, round) {
            progress.message(subjects[s].name.to_owned());
            groups.start(&mut switcher, &subjects[s])?;
            for (n, neighbour) in args.neighbours.iter().enumerate() {
                interrupt.check("the benchmark")?;
                runs[n][s].push(groups.run(args, *neighbour, work)?);
                switcher.check_alive()?;
            }
            progress.step();
        }
    }
    switcher.restore()?;
    drop(progress);
    groups.remove()?;
    Ok(figures(args, &subjects, &runs))
}

/// The two cgroups, of equal weight.
struct Groups {
    service: Cgroup,
    neighbour: Cgroup,
}

impl Groups {
    fn new() -> Result<Self> {
        Ok(Self {
            service: Cgroup::create("metasched/bench-neighbour/service")?,
            neighbour: Cgroup::create("metasched/bench-neighbour/neighbour")?,
        })
    }

    fn remove(self) -> Result<()> {
        self.service.remove()?;
        self.neighbour.remove()
    }

    fn start(&self, switcher: &mut Switcher, subject: &Subject) -> Result<()> {
        put_in_force(switcher, &subject.candidate)?;
        let (Some(policies), Some(program)) = (subject.lanes, switcher.program()) else {
            return Ok(());
        };
        for ((cgroup, policy), app) in
            [&self.service, &self.neighbour].iter().zip(policies).zip(1..)
        {
            let weight = cgroup.cpu_weight().unwrap_or(DEFAULT_WEIGHT);
            program.set_app(app, &LaneSpec::of(policy), weight)?;
            program.assign(cgroup.id()?, app)?;
        }
        Ok(())
    }

    fn run(&self, args: &Args, neighbour: Neighbour, work: u64) -> Result<Run> {
        let lasts = args.duration + LEAD * 2;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let (_, part) = neighbour.role();
        let beside = part.map(|part| play(part, &self.neighbour, lasts, args.threads * cpus, work));
        let mut beside = beside.transpose()?;
        std::thread::sleep(LEAD);
        let tracer = WaitTracer::attach(&[self.service.id()?])?;
        let mut service = play(Part::Service, &self.service, args.duration, 1, work)?;
        let seen = answer(&mut service, args.duration)?;
        let queue_p99_ns = tracer.read()?.first().and_then(|found| found.waits.percentile_ns(0.99));
        drop(tracer);
        let done: u64 = beside.as_mut().map_or(Ok(0), |child| answer(child, lasts))?;
        Ok(Run {
            seen,
            queue_p99_us: queue_p99_ns.map_or(f64::NAN, |ns| ns as f64 / 1e3),
            done_per_s: done as f64 / lasts.as_secs_f64(),
        })
    }
}

/// Starts this program in one of its parts.
fn play(part: Part, cgroup: &Cgroup, lasts: Duration, threads: usize, work: u64) -> Result<Child> {
    let name = part.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned());
    Spawn::new([
        "/proc/self/exe".to_owned(),
        "--part".to_owned(),
        name,
        "--duration".to_owned(),
        format!("{}ms", lasts.as_millis()),
        "--threads".to_owned(),
        threads.to_string(),
        "--work".to_owned(),
        work.to_string(),
    ])
    .cgroup(cgroup)
    .stdout(Output::Tail(1 << 12))
    .stderr(Output::Tail(1 << 12))
    .start()
}

/// What a part says at its end.
fn answer<T: serde::de::DeserializeOwned>(child: &mut Child, lasts: Duration) -> Result<T> {
    let attempt = || "run a part of the benchmark".to_owned();
    // Beside a fork storm even the end takes its time.
    match child.wait(lasts + Duration::from_secs(60))? {
        Some(status) if status.success() => {
            serde_json::from_str(child.stdout_tail().trim()).attempt(Kind::Failed, attempt)
        }
        Some(_) => Err(Error::new(Kind::Failed, attempt(), child.last_lines(3))),
        None => Err(Error::new(Kind::Timeout, attempt(), "it did not end a minute after its time")),
    }
}

fn figures(args: &Args, subjects: &[Subject], runs: &[Vec<Vec<Run>>]) -> Figures {
    let mut shown = table(&[
        "over EEVDF",
        "neighbour",
        "response p99",
        "wake-up wait p99",
        "run-queue wait p99",
        "neighbour's throughput",
    ]);
    let mut over_eevdf: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let medians = |of: fn(&Run) -> f64| {
        let of_subjects = |rounds: &Vec<Vec<Run>>| {
            let of_runs = |runs: &Vec<Run>| median(&runs.iter().map(of).collect::<Vec<_>>());
            subjects.iter().zip(rounds).map(|(s, runs)| (s.name, of_runs(runs))).collect()
        };
        let neighbours = args.neighbours.iter().map(|n| n.role().0);
        neighbours.zip(runs).map(|(name, rounds)| (name, of_subjects(rounds))).collect()
    };
    for (n, neighbour) in args.neighbours.iter().enumerate() {
        let (neighbour, part) = neighbour.role();
        for (s, subject) in subjects.iter().enumerate().skip(1) {
            let ratio = |of: fn(&Run) -> f64| {
                let pairs: Vec<(f64, f64)> =
                    runs[n][s].iter().map(of).zip(runs[n][0].iter().map(of)).collect();
                paired_ratio(&pairs, args.seed)
            };
            let ratios = Ratios {
                response_p99: ratio(|run| run.seen.response_p99_us),
                wake_p99: ratio(|run| run.seen.wake_p99_us),
                queue_p99: ratio(|run| run.queue_p99_us),
                neighbour_throughput: part.and_then(|_| ratio(|run| run.done_per_s)),
            };
            shown.add_row([
                subject.name.to_owned(),
                neighbour.to_owned(),
                show(ratios.response_p99),
                show(ratios.wake_p99),
                show(ratios.queue_p99),
                show(ratios.neighbour_throughput),
            ]);
            over_eevdf.entry(neighbour).or_default().insert(subject.name, ratios);
        }
    }
    println!("{shown}");
    let lanes = over_eevdf.get("batch").and_then(|by_subject| by_subject.get("lanes"));
    Figures {
        p99_ratio: lanes.and_then(|r| r.response_p99).map(|i| i.estimate),
        hog_ratio: lanes.and_then(|r| r.neighbour_throughput).map(|i| i.estimate),
        over_eevdf,
        response_p99_us: medians(|run| run.seen.response_p99_us),
        queue_p99_us: medians(|run| run.queue_p99_us),
        rounds: args.rounds,
        seed: args.seed,
    }
}
