//! `bench-policies`: every policy, what it was made after, and EEVDF under the same loads.
//!
//! Each round puts everybody in force once, in random order and in one boot, and runs every load.
//! What a round says is kept at once: a bench that was interrupted, or whose time is over, goes on
//! where it was with the same command. Ratios are of rounds, so a round's machine cancels out.

mod heat;
mod loads;
mod subjects;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use metasched_base::{Interrupt, Kind, Progress, Result};
use metasched_benches::beside::{Groups, calibrate, play_or};
use metasched_benches::rounds::{Measured, Plan, Rounds, Setting};
use metasched_benches::{all_are_known, put_in_force, realtime};
use metasched_control::{Candidate, Switcher, SwitcherOptions, put_back_after};
use serde::Serialize;

use heat::{Row, compare, intervals, map};
use loads::{Ground, LOADS, Load};
use subjects::{EEVDF, Subjects};

/// Measures every policy, its original and EEVDF under the same loads.
#[derive(Debug, Parser)]
#[command(name = "bench-policies")]
struct Args {
    /// How many rounds there are to be of each scheduler, those of earlier runs included
    #[arg(long, default_value_t = 6)]
    rounds: u64,
    /// Begin no round after this time; the same command goes on
    #[arg(long, default_value = "40m", value_parser = metasched_base::parse_duration)]
    budget: Duration,
    /// Only these schedulers, beside EEVDF
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Only these loads: hackbench, pipe, threads, cpu, compile, batch, forks
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    loads: Vec<String>,
    /// How many times as long the commands are; a guest whose clock counts instructions is slow,
    /// and needs no long ones
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The folder of the schedulers of the kernel's tools, see scripts/kernel-peers.sh
    #[arg(long, value_name = "FOLDER")]
    kernel_peers: Option<String>,
    /// One more scheduler, the original of a policy; can be given several times
    #[arg(long, value_name = "POLICY=COMMAND")]
    peer: Vec<String>,
    /// Where measurements are kept
    #[arg(long, value_name = "FILE", env = "METASCHED_ROUNDS", default_value = "rounds.jsonl")]
    keep: PathBuf,
    /// Put away what is there, and begin anew
    #[arg(long)]
    fresh: bool,
    /// Measure nothing: show what is there
    #[arg(long, conflicts_with = "fresh")]
    show: bool,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play a part in the benchmark (internal)
    #[arg(long, hide = true)]
    part: Option<String>,
}

#[derive(Serialize)]
struct Figures {
    /// Everybody over EEVDF; above 1 is better.
    over_eevdf: Vec<Row>,
    /// Policies over their originals.
    over_originals: Vec<Row>,
    /// In how many rounds each was measured.
    rounds: BTreeMap<String, u64>,
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    play_or(args.part.as_deref(), || bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let loads = chosen_loads(&args.loads)?;
    let mut subjects = Subjects::find(args.kernel_peers.as_deref(), &args.peer)?;
    subjects.keep(&args.only)?;
    let setting = Setting::here(format!("scale {}", args.scale))?;
    let mut rounds = Rounds::open(&args.keep, &setting, args.fresh)?;
    if !args.show {
        measure(args, &loads, &subjects.all, &mut rounds)?;
    }
    let beside: Vec<(String, String)> = subjects.all[1..]
        .iter()
        .map(|candidate| (candidate.name.clone(), EEVDF.to_owned()))
        .collect();
    let over_eevdf = compare(&rounds.kept, &loads, &beside, args.seed);
    let over_originals = compare(&rounds.kept, &loads, &subjects.pairs, args.seed);
    println!("{}\n", map("over EEVDF (above 1 is better)", &over_eevdf, &loads));
    println!("{}\n", intervals("over EEVDF", &over_eevdf, &loads));
    println!("{}", intervals("over the original", &over_originals, &loads));
    let count =
        |candidate: &Candidate| (candidate.name.clone(), rounds.kept.count(&candidate.name, EEVDF));
    Ok(Figures {
        over_eevdf,
        over_originals,
        rounds: subjects.all.iter().map(count).collect(),
        seed: args.seed,
    })
}

fn chosen_loads(names: &[String]) -> Result<Vec<&'static Load>> {
    all_are_known(names, &LOADS.each_ref().map(|load| load.name))?;
    Ok(LOADS
        .iter()
        .filter(|load| names.is_empty() || names.iter().any(|n| n == load.name))
        .collect())
}

/// Round after round, until everybody was in enough of them or the time is over.
fn measure(args: &Args, loads: &[&Load], all: &[Candidate], rounds: &mut Rounds) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let work = calibrate();
    realtime()?;
    let groups = Groups::new("bench-policies")?;
    let ground = Ground { groups: &groups, work, scale: args.scale };
    warm_up(loads, &ground, &interrupt)?;
    let subjects: Vec<&str> = all.iter().map(|candidate| candidate.name.as_str()).collect();
    let plan = Plan {
        bench: "bench-policies",
        baseline: EEVDF,
        rounds: args.rounds,
        budget: args.budget,
        seed: args.seed,
    };
    put_back_after(SwitcherOptions::new("bench-policies"), |switcher| {
        rounds.go_on(&plan, &subjects, |at, round| {
            measure_one(switcher, &all[at], loads, &ground, round, &interrupt)
        })
    })?;
    groups.remove()
}

/// Runs each load once for nothing: the first to compile reads all files, and the first to fork
/// all programs.
fn warm_up(loads: &[&Load], ground: &Ground, interrupt: &Interrupt) -> Result<()> {
    let progress = Progress::new("warm-up".to_owned(), loads.len() as u64);
    for load in loads {
        interrupt.check("the benchmark")?;
        progress.message(load.name.to_owned());
        load.run(ground)?;
        progress.step();
    }
    Ok(())
}

/// All loads under one scheduler. What fails under it says so, and the others go on.
fn measure_one(
    switcher: &mut Switcher,
    candidate: &Candidate,
    loads: &[&Load],
    ground: &Ground,
    round: u64,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let (mut values, mut failed) = (BTreeMap::new(), BTreeMap::new());
    let mut in_force = false;
    for load in loads {
        interrupt.check("the benchmark")?;
        let mut run = || -> Result<Vec<f64>> {
            if !in_force {
                put_in_force(switcher, candidate)?;
                in_force = true;
            }
            let run = load.run(ground);
            // Whoever is not in force any more is what explains a load that failed.
            if let Err(error) = switcher.check_alive() {
                in_force = false;
                return Err(error);
            }
            run
        };
        match run() {
            Ok(found) => {
                let named = load.figures.iter().map(|figure| figure.name.to_owned());
                values.extend(named.zip(found));
            }
            Err(error) if error.kind == Kind::Interrupted => return Err(error),
            Err(error) => {
                failed.insert(load.name.to_owned(), error.to_string());
            }
        }
    }
    Ok(Measured { round, subject: candidate.name.clone(), values, failed })
}
