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
//!
//! The other service is redis, which ten clients keep busy all the time: it wants its whole
//! share, and so has nothing saved up when a request comes. What it is measured by is the
//! requests that it serves and their p99.

use std::collections::BTreeMap;
use std::net::TcpStream;
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
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// Measures a service beside a neighbour that wants all of the machine.
#[derive(Debug, Parser)]
#[command(name = "bench-neighbour")]
struct Args {
    /// How many rounds; each runs every load under every scheduler
    #[arg(long, default_value_t = 12)]
    rounds: u64,
    /// How long each run lasts
    #[arg(long, default_value = "8s", value_parser = metasched_base::parse_duration)]
    duration: Duration,
    /// Threads of the neighbour, for each CPU; beside redis it has three
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Which loads there are in turn: the service beside a batch job, a fork storm or nobody,
    /// which shows what of its p99 is the machine's own, or redis beside a batch job
    #[arg(long, value_delimiter = ',', default_value = "batch,forks,nobody,redis")]
    loads: Vec<Load>,
    /// Which schedulers are compared with EEVDF: those that `metasched list` shows, and lanes,
    /// which is the service on one with vtime and its neighbour on one with fifo
    #[arg(long, value_delimiter = ',', default_value = "fifo,vtime,lanes")]
    schedulers: Vec<String>,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the server of redis is; under this name, since Debian's is another program too
    #[arg(long, default_value = "redis-server")]
    redis_server: String,
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

/// What is run under every scheduler: a service, and who is beside it.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Load {
    Batch,
    Forks,
    Nobody,
    Redis,
}

impl Load {
    /// Its name in tables and JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Forks => "forks",
            Self::Nobody => "nobody",
            Self::Redis => "redis",
        }
    }

    /// The part that the neighbour plays, if there is one.
    fn neighbour(self) -> Option<Part> {
        match self {
            Self::Batch | Self::Redis => Some(Part::Batch),
            Self::Forks => Some(Part::Forks),
            Self::Nobody => None,
        }
    }
}

/// What is no candidate's name: the service and its neighbour on lanes of their own.
const LANES: &str = "lanes";
/// Policies of the service's and of the neighbour's lane, then.
const LANES_POLICIES: [&str; 2] = ["vtime", "fifo"];
/// How often the service has something to do.
const PERIOD: Duration = Duration::from_millis(10);
/// How long that takes it, alone on a CPU.
const WORK: Duration = Duration::from_millis(1);
/// The neighbour runs for so long before the service is measured, and so long after.
const LEAD: Duration = Duration::from_millis(500);
/// Clients of redis, each with one request at a time.
const REDIS_CLIENTS: u64 = 10;
/// Threads of the batch job beside redis, for each CPU.
const REDIS_HOGS: usize = 3;
/// Requests by which it is found out how many redis serves in the time that a run is to last.
const REDIS_TRIAL: u64 = 1000;
/// A port of the loopback interface that nobody else is likely to have.
const REDIS_PORT: u16 = 16379;
/// No program of the benchmark may take longer than its time and this much.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the service saw: times in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seen {
    response_p99_us: f64,
    /// Redis does not say.
    wake_p99_us: Option<f64>,
    /// Of redis, which is asked as often as it answers.
    served_per_s: Option<f64>,
}

/// How a scheduler is put in force.
struct Subject {
    name: String,
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
    served: Option<Interval>,
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
    /// By load and scheduler, over EEVDF.
    over_eevdf: BTreeMap<&'static str, BTreeMap<String, Ratios>>,
    /// By load and scheduler: the median over the rounds of the service's p99 response,
    /// microseconds. Of an emulated machine's absolute times only the order is of interest.
    response_p99_us: BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
    /// The same: its waits in the run queue.
    queue_p99_us: BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
    /// The same: what redis served, per second.
    served_per_s: BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
    rounds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.part {
        None => finish(bench(&args)),
        Some(Part::Service) => finish(Ok(serve(&args))),
        Some(Part::Batch) => finish(batch(&args)),
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
        wake_p99_us: percentile(&waits, 0.99),
        served_per_s: None,
    }
}

/// Counts what `step` does in so many threads, per second, until the time is over or the
/// service has ended and says so.
fn repeat(args: &Args, step: impl Fn() + Sync) -> Result<f64> {
    let interrupt = Interrupt::listen()?;
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    Ok(std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    step();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        interrupt.sleep(args.duration);
        over.store(true, Ordering::Relaxed);
        // What was begun before counts for nothing.
        done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
    }))
}

fn batch(args: &Args) -> Result<f64> {
    // A tenth of a request is fine enough to count by.
    repeat(args, || {
        compute(args.work / 10);
    })
}

fn forks(args: &Args) -> Result<f64> {
    let failed = AtomicBool::new(false);
    let done_per_s = repeat(args, || {
        let ran = std::process::Command::new("/bin/true").status();
        failed.fetch_or(!ran.is_ok_and(|status| status.success()), Ordering::Relaxed);
    })?;
    if failed.into_inner() {
        return Err(Error::new(Kind::Failed, "start '/bin/true' again and again", "it failed"));
    }
    Ok(done_per_s)
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
    let plain = |name: &str| -> Result<Subject> {
        Ok(Subject { name: name.to_owned(), candidate: named(name)?, lanes: None })
    };
    let mut subjects = vec![plain("eevdf")?];
    for name in &args.schedulers {
        subjects.push(match name.as_str() {
            LANES => Subject {
                name: name.clone(),
                candidate: named(LANES_POLICIES[1])?,
                lanes: Some(LANES_POLICIES),
            },
            name => plain(name)?,
        });
    }
    let mut switcher = Switcher::new(SwitcherOptions::new("bench-neighbour"))?;
    // runs[load][subject][round]
    let mut runs = vec![vec![Vec::new(); subjects.len()]; args.loads.len()];
    let progress = Progress::new("bench-neighbour", args.rounds * subjects.len() as u64);
    for round in 0..args.rounds {
        for s in order(subjects.len(), args.seed, round) {
            progress.message(subjects[s].name.clone());
            groups.start(&mut switcher, &subjects[s])?;
            for (n, load) in args.loads.iter().enumerate() {
                interrupt.check("the benchmark")?;
                runs[n][s].push(groups.run(args, *load, work)?);
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

    fn run(&self, args: &Args, load: Load, work: u64) -> Result<Run> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let (threads, lasts) = match load {
            // Until it is told to end, since redis takes as long as it takes.
            Load::Redis => (REDIS_HOGS * cpus, PATIENCE * 3),
            _ => (args.threads * cpus, args.duration + LEAD * 2),
        };
        let server = (load == Load::Redis).then(|| serve_redis(args, &self.service)).transpose()?;
        let beside = load.neighbour().map(|part| play(part, &self.neighbour, lasts, threads, work));
        let mut beside = beside.transpose()?;
        std::thread::sleep(LEAD);
        let requests = match load {
            Load::Redis => {
                let served_per_s = ask_redis(REDIS_TRIAL, &self.service)?.served_per_s;
                (served_per_s.unwrap_or(0.0) * args.duration.as_secs_f64()) as u64
            }
            _ => 0,
        };
        let tracer = WaitTracer::attach(&[self.service.id()?])?;
        let seen = if load == Load::Redis {
            ask_redis(requests.max(REDIS_TRIAL), &self.service)?
        } else {
            let mut service = play(Part::Service, &self.service, args.duration, 1, work)?;
            answer(&mut service, args.duration)?
        };
        let queue_p99_ns = tracer.read()?.first().and_then(|found| found.waits.percentile_ns(0.99));
        drop(tracer);
        if let (Some(child), Load::Redis) = (&beside, load) {
            child.signal(Signal::SIGINT);
        }
        let done_per_s = beside.as_mut().map_or(Ok(0.0), |child| answer(child, lasts))?;
        drop(server);
        Ok(Run {
            seen,
            queue_p99_us: queue_p99_ns.map_or(f64::NAN, |ns| ns as f64 / 1e3),
            done_per_s,
        })
    }
}

/// Starts a server that keeps nothing, and waits until it answers.
fn serve_redis(args: &Args, cgroup: &Cgroup) -> Result<Child> {
    let port = REDIS_PORT.to_string();
    let command = [&args.redis_server, "--port", &port, "--bind", "127.0.0.1", "--save", ""];
    let mut server = Spawn::new(command)
        .cgroup(cgroup)
        .stdout(Output::Tail(1 << 12))
        .stderr(Output::Tail(1 << 12))
        .start()?;
    let failed = |cause: String| {
        Error::new(Kind::Failed, format!("start '{}'", args.redis_server), cause)
            .remedy("install redis-tools and use scripts/bench.sh, which finds the server in it")
    };
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", REDIS_PORT)).is_err() {
        if server.poll()?.is_some() {
            return Err(failed(server.stdout_tail() + &server.last_lines(3)));
        }
        if start.elapsed() > PATIENCE {
            return Err(failed("it did not answer in a minute".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

/// Has redis-benchmark, which knows of no time, ask so often for the same key.
fn ask_redis(requests: u64, cgroup: &Cgroup) -> Result<Seen> {
    let (port, clients) = (REDIS_PORT.to_string(), REDIS_CLIENTS.to_string());
    let requests = requests.to_string();
    let command = ["redis-benchmark", "-p", &port, "-t", "get", "-c", &clients, "-n", &requests];
    let attempt = || format!("run '{}'", command.join(" "));
    let mut child = Spawn::new(command.into_iter().chain(["--csv"]))
        .cgroup(cgroup)
        .stdout(Output::Tail(1 << 12))
        .stderr(Output::Tail(1 << 12))
        .start()?;
    match child.wait(PATIENCE)? {
        Some(status) if status.success() => redis_figures(&child.stdout_tail())
            .ok_or_else(|| Error::new(Kind::Failed, attempt(), child.stdout_tail())),
        Some(_) => Err(Error::new(Kind::Failed, attempt(), child.last_lines(3))),
        None => Err(Error::new(Kind::Timeout, attempt(), "it did not end in a minute")),
    }
}

/// The columns of redis-benchmark's table that we want, by their names in its first line.
fn redis_figures(csv: &str) -> Option<Seen> {
    let mut lines = csv.lines().filter(|line| line.starts_with('"'));
    let cells = |line: &str| line.split(',').map(|c| c.trim_matches('"').to_owned()).collect();
    let (names, values): (Vec<String>, Vec<String>) = (cells(lines.next()?), cells(lines.next()?));
    let value = |name: &str| -> Option<f64> {
        values.get(names.iter().position(|n| n == name)?)?.parse().ok()
    };
    Some(Seen {
        response_p99_us: value("p99_latency_ms")? * 1e3,
        wake_p99_us: None,
        served_per_s: Some(value("rps")?),
    })
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
    match child.wait(lasts + PATIENCE)? {
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
        "load",
        "served",
        "response p99",
        "wake-up wait p99",
        "run-queue wait p99",
        "neighbour's throughput",
    ]);
    let mut over_eevdf: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let medians = |of: fn(&Run) -> f64| {
        let of_subjects = |rounds: &Vec<Vec<Run>>| {
            let of_runs = |runs: &Vec<Run>| median(&runs.iter().map(of).collect::<Vec<_>>());
            subjects.iter().zip(rounds).map(|(s, runs)| (s.name.clone(), of_runs(runs))).collect()
        };
        let loads = args.loads.iter().map(|load| load.name());
        loads.zip(runs).map(|(name, rounds)| (name, of_subjects(rounds))).collect()
    };
    let served = |run: &Run| run.seen.served_per_s.unwrap_or(f64::NAN);
    for (n, load) in args.loads.iter().enumerate() {
        for (s, subject) in subjects.iter().enumerate().skip(1) {
            let ratio = |of: fn(&Run) -> f64| {
                let pairs: Vec<(f64, f64)> =
                    runs[n][s].iter().map(of).zip(runs[n][0].iter().map(of)).collect();
                paired_ratio(&pairs, args.seed)
            };
            let ratios = Ratios {
                served: ratio(served),
                response_p99: ratio(|run| run.seen.response_p99_us),
                wake_p99: ratio(|run| run.seen.wake_p99_us.unwrap_or(f64::NAN)),
                queue_p99: ratio(|run| run.queue_p99_us),
                neighbour_throughput: load.neighbour().and_then(|_| ratio(|run| run.done_per_s)),
            };
            shown.add_row([
                subject.name.clone(),
                load.name().to_owned(),
                show(ratios.served),
                show(ratios.response_p99),
                show(ratios.wake_p99),
                show(ratios.queue_p99),
                show(ratios.neighbour_throughput),
            ]);
            over_eevdf.entry(load.name()).or_default().insert(subject.name.clone(), ratios);
        }
    }
    println!("{shown}");
    let lanes = over_eevdf.get("batch").and_then(|by_subject| by_subject.get(LANES));
    Figures {
        p99_ratio: lanes.and_then(|r| r.response_p99).map(|i| i.estimate),
        hog_ratio: lanes.and_then(|r| r.neighbour_throughput).map(|i| i.estimate),
        over_eevdf,
        response_p99_us: medians(|run| run.seen.response_p99_us),
        queue_p99_us: medians(|run| run.queue_p99_us),
        served_per_s: medians(served),
        rounds: args.rounds,
        seed: args.seed,
    }
}
