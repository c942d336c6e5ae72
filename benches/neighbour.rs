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
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_benches::beside::{Groups, PATIENCE, Part, Play, Run, Seen, calibrate, play_or};
use metasched_benches::{order, put_in_force, realtime, show, table};
use metasched_control::{
    Candidate, CandidateEnv, Switcher, SwitcherOptions, candidates, find, put_back_after,
};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use metasched_loader::{DEFAULT_WEIGHT, LaneSpec};
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

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
    part: Option<String>,
}

/// The load under every scheduler: a service, and what runs beside it.
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
/// Clients of redis, each with one request at a time.
const REDIS_CLIENTS: u64 = 10;
/// Threads of the batch job beside redis, for each CPU.
const REDIS_HOGS: usize = 3;
/// Requests by which it is found out how many redis serves in the time that a run is to last.
const REDIS_TRIAL: u64 = 1000;
/// A port of the loopback interface that nobody else is likely to have.
const REDIS_PORT: u16 = 16379;
/// How a scheduler is put in force.
struct Subject {
    name: String,
    candidate: Candidate,
    /// Policies of the service's and of the neighbour's lane.
    lanes: Option<[&'static str; 2]>,
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
    play_or(args.part.as_deref(), || bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let work = calibrate();
    realtime()?;
    let groups = Groups::new("bench-neighbour")?;
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
    // runs[load][subject][round]
    let mut runs = vec![vec![Vec::new(); subjects.len()]; args.loads.len()];
    let progress = Progress::new("bench-neighbour", args.rounds * subjects.len() as u64);
    put_back_after(SwitcherOptions::new("bench-neighbour"), |switcher| {
        for round in 0..args.rounds {
            for s in order(subjects.len(), args.seed, round) {
                progress.message(subjects[s].name.clone());
                start(&groups, switcher, &subjects[s])?;
                for (n, load) in args.loads.iter().enumerate() {
                    interrupt.check("the benchmark")?;
                    runs[n][s].push(run(&groups, args, *load, work)?);
                    switcher.check_alive()?;
                }
                progress.step();
            }
        }
        Ok(())
    })?;
    drop(progress);
    groups.remove()?;
    Ok(figures(args, &subjects, &runs))
}

fn start(groups: &Groups, switcher: &mut Switcher, subject: &Subject) -> Result<()> {
    put_in_force(switcher, &subject.candidate)?;
    let (Some(policies), Some(program)) = (subject.lanes, switcher.program()) else {
        return Ok(());
    };
    for ((cgroup, policy), app) in
        [&groups.service, &groups.neighbour].iter().zip(policies).zip(1..)
    {
        let weight = cgroup.cpu_weight().unwrap_or(DEFAULT_WEIGHT);
        program.set_app(app, &LaneSpec::of(policy), weight)?;
        program.assign(cgroup.id()?, app)?;
    }
    Ok(())
}

fn run(groups: &Groups, args: &Args, load: Load, work: u64) -> Result<Run> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if load == Load::Redis { REDIS_HOGS * cpus } else { args.threads * cpus };
    let neighbour = load.neighbour().map(|part| Play::neighbour(part, threads, work));
    if load != Load::Redis {
        let service = Play::service(args.duration, work);
        return groups.run(neighbour, || Ok(()), |()| service.serve(&groups.service));
    }
    let _server = serve_redis(args, &groups.service)?;
    let how_often = || {
        let served_per_s = ask_redis(REDIS_TRIAL, &groups.service)?.served_per_s;
        Ok((served_per_s.unwrap_or(0.0) * args.duration.as_secs_f64()) as u64)
    };
    groups
        .run(neighbour, how_often, |requests| ask_redis(requests.max(REDIS_TRIAL), &groups.service))
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
