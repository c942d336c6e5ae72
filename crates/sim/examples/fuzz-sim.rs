//! Random runs of level 1 in the simulator, with faults, until one fails; that one is made
//! smaller and written to a file. `make fuzz-sim ARGS=--help`.

use clap::Parser;
use metasched_base::parse_duration;
use metasched_sim::Failure;
use metasched_sim::fuzz::{self, Case, generate, scenario};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs of the simulator with faults at random; each failure is made smaller and kept.
#[derive(Parser)]
#[command(name = "make fuzz-sim")]
struct Options {
    /// Runs, one for each seed
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Begin no run after this time
    #[arg(long = "for", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Runs at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Go on after a failure; one is kept for each checker
    #[arg(long)]
    keep_going: bool,
    /// Run this seed alone
    #[arg(long, conflicts_with = "replay")]
    seed: Option<u64>,
    /// Run the case in this file alone
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Leave a case that fails as it is
    #[arg(long)]
    no_shrink: bool,
    /// Write the whole trace of the run to this file; with --seed or --replay
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Most runs that making a case smaller may take
    #[arg(long, default_value_t = 2_000)]
    shrink_runs: u64,
    /// Where cases that failed are written to
    #[arg(long, default_value = "target/fuzz-sim")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How many checkers failed.
fn run(options: &Options) -> Result<usize, String> {
    if let Some(path) = &options.replay {
        let cannot = |e: &dyn std::fmt::Display| format!("cannot replay {}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| cannot(&e))?;
        let case: Case = serde_json::from_str(&text).map_err(|e| cannot(&e))?;
        let command = format!("make fuzz-sim ARGS=\"--replay {}\"", path.display());
        return one(options, &case, &command, true);
    }
    if let Some(seed) = options.seed {
        return one(options, &generate(seed), &fuzz::replay_seed(seed), options.no_shrink);
    }
    campaign(options)
}

fn one(options: &Options, case: &Case, command: &str, as_it_is: bool) -> Result<usize, String> {
    let run = scenario(case).replayed_by(command);
    let run = if options.trace.is_some() { run.traced() } else { run };
    match run.run() {
        Ok(outcome) => {
            println!(
                "passed: {:.3} s simulated, {} events, in {:.3} s",
                outcome.simulated_ns as f64 / 1e9,
                outcome.events,
                outcome.wall.as_secs_f64()
            );
            trace(options, &outcome.trace)?;
            Ok(0)
        }
        Err(failure) => {
            trace(options, failure.trace())?;
            report(options, case, failure, as_it_is)?;
            Ok(1)
        }
    }
}

fn trace(options: &Options, text: &str) -> Result<(), String> {
    let Some(path) = &options.trace else { return Ok(()) };
    std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn campaign(options: &Options) -> Result<usize, String> {
    let began = Instant::now();
    let (next, done, over) =
        (AtomicU64::new(options.from), AtomicU64::new(0), AtomicBool::new(false));
    let simulated_ms = AtomicU64::new(0);
    let failures: Mutex<Vec<(Case, Failure)>> = Mutex::default();
    let last = options.from.saturating_add(options.runs);
    let late = || options.time.is_some_and(|time| began.elapsed() >= time);
    let work = || {
        while !over.load(Ordering::Relaxed) && !late() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= last {
                break;
            }
            let case = generate(seed);
            match scenario(&case).run() {
                Ok(outcome) => {
                    simulated_ms.fetch_add(outcome.simulated_ns / 1_000_000, Ordering::Relaxed);
                }
                Err(failure) => {
                    eprintln!("seed {seed}: {}: {}", failure.check, failure.message);
                    failures.lock().expect("no holder panics").push((case, failure));
                    if !options.keep_going {
                        over.store(true, Ordering::Relaxed);
                    }
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| threads.spawn(work)).collect();
        let mut told = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() >= Duration::from_secs(10) {
                told = Instant::now();
                eprintln!("fuzz-sim: {}", so_far(&done, &simulated_ms, began));
            }
        }
    });
    println!("fuzz-sim: {}", so_far(&done, &simulated_ms, began));
    let mut failures = failures.into_inner().expect("no holder panics");
    failures.sort_by_key(|(case, _)| case.seed);
    let mut kept: Vec<String> = Vec::new();
    for (case, failure) in failures {
        if kept.contains(&failure.check) {
            continue;
        }
        kept.push(failure.check.clone());
        report(options, &case, failure, options.no_shrink)?;
    }
    println!(
        "fuzz-sim: {} of {} runs failed",
        if kept.is_empty() { "none" } else { "some" },
        done.load(Ordering::Relaxed)
    );
    Ok(kept.len())
}

fn so_far(done: &AtomicU64, simulated_ms: &AtomicU64, began: Instant) -> String {
    let (runs, simulated) =
        (done.load(Ordering::Relaxed), simulated_ms.load(Ordering::Relaxed) as f64 / 1e3);
    let seconds = began.elapsed().as_secs_f64();
    format!("{runs} runs, {simulated:.0} s simulated in {seconds:.0} s")
}

/// Says how a case fails; makes it smaller, and writes it to a file.
fn report(options: &Options, case: &Case, failure: Failure, as_it_is: bool) -> Result<(), String> {
    println!("\n{failure}");
    if as_it_is {
        return Ok(());
    }
    eprintln!("fuzz-sim: making it smaller");
    let run = |case: &Case| scenario(case).run().err();
    let mut shrunk = fuzz::shrink(case.clone(), failure, options.shrink_runs, &run);
    shrunk.case.broke = format!("{}: {}", shrunk.failure.check, shrunk.failure.message);
    let path = options.out.join(format!("{}-{}.json", shrunk.failure.check, case.seed));
    write(&path, &shrunk.case).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    let acts = shrunk.case.acts.len();
    println!(
        "after {} runs: {} CPUs, {} tasks, {acts} acts; {}: {}\n\
         replay: make fuzz-sim ARGS=\"--replay {}\"\n\
         keep:   cp {} crates/sim/tests/seeds/WHAT-BROKE.json, and say what broke in its first line",
        shrunk.runs,
        shrunk.case.machine.cpus,
        shrunk.case.tasks.len(),
        shrunk.failure.check,
        shrunk.failure.message,
        path.display(),
        path.display(),
    );
    Ok(())
}

fn write(path: &Path, case: &Case) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("{}\n", serde_json::to_string_pretty(case)?))
}
