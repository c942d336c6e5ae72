//! Random runs of level 1 in the simulator, with faults, until one fails; that one is made
//! smaller and written to a file. `make fuzz-sim ARGS=--help`.

use clap::Parser;
use metasched_base::parse_duration;
use metasched_sim::Failure;
use metasched_sim::fuzz::{
    self, Case, Theme, events_before_calm, everywhere, generate, generate_about, reassignments,
    scenario,
};
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
    /// Cases about one thing: root, lanes, turns, shares, limits, moves, hotplug, programs,
    /// quotas or changes
    #[arg(long, value_parser = theme, conflicts_with = "replay")]
    about: Option<Theme>,
    /// With --seed or --replay: the case again and again, with one reassignment more, of every
    /// kind, after each of its events in turn
    #[arg(long)]
    everywhere: bool,
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

fn theme(name: &str) -> Result<Theme, String> {
    let known = Theme::ALL.iter().find(|(called, _)| *called == name);
    known.map(|(_, theme)| *theme).ok_or_else(|| format!("there is no theme '{name}'"))
}

impl Options {
    fn generate(&self, seed: u64) -> Case {
        self.about.map_or_else(|| generate(seed), |theme| generate_about(theme, seed))
    }

    fn replay_seed(&self, seed: u64) -> String {
        let about = Theme::ALL.iter().find(|(_, theme)| Some(*theme) == self.about);
        let about = about.map_or(String::new(), |(name, _)| format!(" --about {name}"));
        format!("make fuzz-sim ARGS=\"--seed {seed}{about}\"")
    }
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
        if options.everywhere {
            return at_every_point(options, &case);
        }
        let command = format!("make fuzz-sim ARGS=\"--replay {}\"", path.display());
        return one(options, &case, &command, true);
    }
    if let Some(seed) = options.seed {
        if options.everywhere {
            return at_every_point(options, &options.generate(seed));
        }
        return one(
            options,
            &options.generate(seed),
            &options.replay_seed(seed),
            options.no_shrink,
        );
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
    let last = options.from.saturating_add(options.runs);
    run_all(options, (options.from..last).map(|seed| options.generate(seed)))
}

/// One more reassignment after each event before faults stop.
fn at_every_point(options: &Options, case: &Case) -> Result<usize, String> {
    let events = match events_before_calm(case) {
        Ok(events) => events,
        Err(failure) => {
            report(options, case, failure, true)?;
            return Ok(1);
        }
    };
    let acts = reassignments(case);
    println!("fuzz-sim: {} kinds of reassignments after each of {events} events", acts.len());
    run_all(options, everywhere(case, acts, events))
}

/// Runs cases until one fails, or as long as the options say; how many checkers failed.
fn run_all(options: &Options, cases: impl Iterator<Item = Case> + Send) -> Result<usize, String> {
    let began = Instant::now();
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let simulated_ms = AtomicU64::new(0);
    let cases = Mutex::new(cases.enumerate());
    let failures: Mutex<Vec<(usize, Case, Failure)>> = Mutex::default();
    let late = || options.time.is_some_and(|time| began.elapsed() >= time);
    let work = || {
        while !over.load(Ordering::Relaxed) && !late() {
            let next = cases.lock().expect("no holder panics").next();
            let Some((place, case)) = next else { break };
            let command = options.replay_seed(case.seed);
            match scenario(&case).replayed_by(command).run() {
                Ok(outcome) => {
                    simulated_ms.fetch_add(outcome.simulated_ns / 1_000_000, Ordering::Relaxed);
                }
                Err(failure) => {
                    eprintln!("seed {}: {}: {}", case.seed, failure.check, failure.message);
                    failures.lock().expect("no holder panics").push((place, case, failure));
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
    failures.sort_by_key(|(place, _, _)| *place);
    let failed = failures.len();
    let mut kept: Vec<String> = Vec::new();
    for (_, case, failure) in failures {
        if kept.contains(&failure.check) {
            continue;
        }
        kept.push(failure.check.clone());
        report(options, &case, failure, options.no_shrink)?;
    }
    println!("fuzz-sim: {failed} of {} runs failed", done.load(Ordering::Relaxed));
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
