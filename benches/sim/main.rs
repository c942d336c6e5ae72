//! `bench-sim`: how fast the simulator is, and how much memory it takes.
//!
//! It measures the simulator itself and runs on this machine as it is. Loads and what
//! schedules them are in `loads.rs`; every run has all checkers on, and one that fails ends
//! the bench. Speeds are simulated time over wall time of one thread, medians of rounds in
//! random order after one that does not count.

mod loads;
mod measure;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use loads::{BIG, CURVE, Load, SUBJECTS, Subject};
use measure::{Sample, Speed};
use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_benches::{finish, order};
use metasched_host::machine::machine;
use metasched_host::process::peak_memory_kib;
use metasched_sim::ms;
use serde::Serialize;

/// Measures the simulator's speed, by policy, load and size, and its memory.
#[derive(Debug, Parser)]
#[command(name = "bench-sim")]
struct Args {
    /// How many rounds; each runs every subject under both loads
    #[arg(long, default_value_t = 9)]
    rounds: u64,
    /// How many rounds of the curve
    #[arg(long, default_value_t = 3)]
    curve_rounds: u64,
    /// How many times the big case runs
    #[arg(long, default_value_t = 2)]
    big_runs: u64,
    /// How many times as long all runs are
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the tables into this page, too
    #[arg(long, value_name = "PAGE.md")]
    page: Option<PathBuf>,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
}

/// CPUs of the machine whose speeds are told.
const CPUS: usize = 8;
/// Simulated time of a run of each load on that machine: a tenth of a second of wall time
/// and more, against which loading does not count.
const LIGHT_NS: u64 = ms(100_000);
const CONTENDED_NS: u64 = ms(12_000);
/// The machines of the curve, and for how long one of [`CPUS`] runs; others run for so long
/// that there is as much to do, but not less than the last.
const SIZES: [usize; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
const CURVE_NS: u64 = ms(3_000);
const LEAST_NS: u64 = ms(100);
/// Simulated time of the big case.
const BIG_NS: u64 = ms(1_000);
/// Seeds that are run in parallel, and for how long each.
const SEEDS: u64 = 16;
const SEED_NS: u64 = ms(2_000);

#[derive(Serialize)]
pub(crate) struct Figures {
    /// Simulated time over wall time, medians by subject.
    speed_light: BTreeMap<String, f64>,
    speed_contended: BTreeMap<String, f64>,
    /// The same with intervals and all else, by load and subject.
    speeds: BTreeMap<String, BTreeMap<String, Speed>>,
    curve: Vec<Curve>,
    big: Option<Big>,
    seeds: Option<Seeds>,
    /// What it was measured on.
    host: String,
    rounds: u64,
    seed: u64,
}

#[derive(Serialize)]
pub(crate) struct Curve {
    subject: String,
    cpus: usize,
    #[serde(flatten)]
    speed: Speed,
}

/// The big case.
#[derive(Serialize)]
pub(crate) struct Big {
    cpus: usize,
    tasks: usize,
    cgroups: usize,
    lanes: usize,
    speed: f64,
    events: u64,
    wall_s: f64,
    ns_per_event: f64,
    /// The most memory that the process has had resident, MiB.
    peak_mib: f64,
}

/// Seeds one after the other, and in parallel.
#[derive(Serialize)]
pub(crate) struct Seeds {
    runs: u64,
    threads: usize,
    alone_s: f64,
    parallel_s: f64,
    speed_alone: f64,
    speed_parallel: f64,
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    // First, so that the peak of memory is its own.
    let big = big(args, &interrupt)?;
    let host = host()?;
    let speeds = speeds(args, &interrupt)?;
    let curve = curve(args, &interrupt)?;
    let seeds = seeds(args)?;
    let medians = |load: Load| {
        let by_subject = speeds.get(load.name()).into_iter().flatten();
        by_subject.map(|(subject, speed)| (subject.clone(), speed.speed)).collect()
    };
    let figures = Figures {
        speed_light: medians(Load::Light),
        speed_contended: medians(Load::Contended),
        speeds,
        curve,
        big,
        seeds: Some(seeds),
        host,
        rounds: args.rounds,
        seed: args.seed,
    };
    if !args.json {
        println!("{}", page::markdown(&figures));
    }
    if let Some(path) = &args.page {
        page::write(path, &figures)?;
    }
    Ok(figures)
}

/// What it is measured on.
fn host() -> Result<String> {
    let machine = machine(Path::new("/"))?;
    Ok(format!("Measured on {}, {} CPUs", machine.cpu_model, machine.cpus))
}

fn scaled(ns: u64, args: &Args) -> u64 {
    ((ns as f64 * args.scale) as u64).max(ms(1))
}

fn big(args: &Args, interrupt: &Interrupt) -> Result<Option<Big>> {
    let progress = Progress::new("the big case", args.big_runs);
    let mut samples = Vec::new();
    for seed in 1..=args.big_runs {
        interrupt.check("the benchmark")?;
        samples.push(Sample::of(&BIG.run(seed).run_for(scaled(BIG_NS, args)))?);
        progress.step();
    }
    let Some(speed) = Speed::of(&samples) else { return Ok(None) };
    let peak_kib = peak_memory_kib(Path::new("/")).ok_or_else(|| {
        Error::new(Kind::Unsupported, "read the peak of memory", "/proc/self/status has no VmHWM")
    })?;
    let walls: Vec<f64> = samples.iter().map(|sample| sample.wall_s).collect();
    Ok(Some(Big {
        cpus: BIG.cpus,
        tasks: BIG.tasks,
        cgroups: BIG.cgroups,
        lanes: BIG.lanes,
        speed: speed.speed,
        events: samples[0].events,
        wall_s: metasched_stats::median(&walls).unwrap_or(0.0),
        ns_per_event: speed.ns_per_event,
        peak_mib: peak_kib as f64 / 1024.0,
    }))
}

fn speeds(args: &Args, interrupt: &Interrupt) -> Result<BTreeMap<String, BTreeMap<String, Speed>>> {
    let cases: Vec<(Load, Subject)> = [Load::Light, Load::Contended]
        .into_iter()
        .flat_map(|load| SUBJECTS.map(|subject| (load, subject)))
        .collect();
    let progress = Progress::new("speeds", (args.rounds + 1) * cases.len() as u64);
    let mut samples = vec![Vec::new(); cases.len()];
    for round in 0..=args.rounds {
        for case in order(cases.len(), args.seed, round) {
            interrupt.check("the benchmark")?;
            let (load, subject) = cases[case];
            let ns = if load == Load::Light { LIGHT_NS } else { CONTENDED_NS };
            let run = load.under(subject, CPUS, round + 1).run_for(scaled(ns, args));
            let sample = Sample::of(&run)?;
            if round > 0 {
                samples[case].push(sample);
            }
            progress.step();
        }
    }
    let mut speeds: BTreeMap<String, BTreeMap<String, Speed>> = BTreeMap::new();
    for ((load, subject), samples) in cases.iter().zip(&samples) {
        if let Some(speed) = Speed::of(samples) {
            speeds.entry(load.name().to_owned()).or_default().insert(subject.name(), speed);
        }
    }
    Ok(speeds)
}

fn curve(args: &Args, interrupt: &Interrupt) -> Result<Vec<Curve>> {
    let points: Vec<(usize, Subject)> =
        SIZES.iter().flat_map(|cpus| CURVE.map(|subject| (*cpus, subject))).collect();
    let progress = Progress::new("the curve", args.curve_rounds * points.len() as u64);
    let mut samples = vec![Vec::new(); points.len()];
    for round in 0..args.curve_rounds {
        for point in order(points.len(), args.seed, round) {
            interrupt.check("the benchmark")?;
            let (cpus, subject) = points[point];
            let ns = (CURVE_NS * CPUS as u64 / cpus as u64).max(LEAST_NS);
            let run = Load::Contended.under(subject, cpus, round + 1).run_for(scaled(ns, args));
            samples[point].push(Sample::of(&run)?);
            progress.step();
        }
    }
    let told = points.iter().zip(&samples).filter_map(|((cpus, subject), samples)| {
        Some(Curve { subject: subject.name(), cpus: *cpus, speed: Speed::of(samples)? })
    });
    Ok(told.collect())
}

fn seeds(args: &Args) -> Result<Seeds> {
    let progress = Progress::new("seeds in parallel", 2 * SEEDS);
    let ns = scaled(SEED_NS, args);
    let on_threads = |threads: usize| -> Result<f64> {
        let next = AtomicU64::new(1);
        let began = Instant::now();
        let work = || -> Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > SEEDS {
                    return Ok(());
                }
                let run = Load::Contended.under(Subject::Alone("vtime"), CPUS, seed);
                Sample::of(&run.run_for(ns))?;
                progress.step();
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(began.elapsed().as_secs_f64())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (alone_s, parallel_s) = (on_threads(1)?, on_threads(threads)?);
    let simulated_s = SEEDS as f64 * ns as f64 / 1e9;
    Ok(Seeds {
        runs: SEEDS,
        threads,
        alone_s,
        parallel_s,
        speed_alone: simulated_s / alone_s,
        speed_parallel: simulated_s / parallel_s,
    })
}
