//! `bench-turns`: what turns by the kernel's timer cost, by their length.
//!
//! `fifo` and `vtime` take turns of equal length under hackbench. What that takes is set
//! against the mean of the two alone, each on its one lane, in the same boot and in rounds
//! of random order: if turns cost nothing, the ratio is 1.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use metasched_base::{Interrupt, Progress, Result};
use metasched_benches::{Timed, finish, order, realtime, show, table};
use metasched_loader::{LaneTurn, LoadOptions, Program, TurnFigures};
use metasched_stats::{Interval, paired_ratio};
use serde::Serialize;

/// Measures what turns cost at 1, 10, 100 and 1800 ms.
#[derive(Debug, Parser)]
#[command(name = "bench-turns")]
struct Args {
    /// How many rounds; each runs every subject once
    #[arg(long, default_value_t = 8)]
    rounds: u64,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Sized for some seconds in an emulated guest, so that it sees turns of 1800 ms.
const WORKLOAD: Timed = Timed {
    name: "hackbench",
    command: &["hackbench", "-g", "4", "-l", "{}"],
    loops: 200,
    marker: "Time:",
};
const POLICIES: [&str; 2] = ["fifo", "vtime"];
/// Lengths of turns, ms; the last is the published base timeslice.
const LENGTHS_MS: [u64; 4] = [1, 10, 100, 1800];
/// How often long turns are looked at, which has the lane that rests put aside.
const LOOK: Duration = Duration::from_millis(50);

/// What is in force while the load runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Alone(&'static str),
    Turns { ms: u64 },
}

/// What turns of one length came to.
#[derive(Default, Serialize)]
struct Turns {
    /// Time under turns over the mean of the two policies alone: lower is better.
    ratio: Option<Interval>,
    turns: u64,
    change_us_mean: f64,
    late_us_mean: f64,
    late_us_max: f64,
    #[serde(skip)]
    times_s: Vec<f64>,
    #[serde(skip)]
    changes: u64,
}

#[derive(Serialize)]
struct Figures {
    /// By the length of turns in milliseconds.
    by_length: BTreeMap<u64, Turns>,
    vtime_over_fifo: Option<Interval>,
    rounds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    realtime()?;
    let subjects: Vec<Subject> = POLICIES
        .map(Subject::Alone)
        .into_iter()
        .chain(LENGTHS_MS.map(|ms| Subject::Turns { ms }))
        .collect();
    let mut alone: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut by_length: BTreeMap<u64, Turns> = BTreeMap::new();
    let progress = Progress::new("bench-turns", args.rounds * subjects.len() as u64);
    // The first run after the boot pays for cold caches and translations.
    run(Subject::Alone(POLICIES[0]))?;
    for round in 0..args.rounds {
        for s in order(subjects.len(), args.seed, round) {
            interrupt.check("the benchmark")?;
            let (time_s, figures) = run(subjects[s])?;
            match subjects[s] {
                Subject::Alone(policy) => alone.entry(policy).or_default().push(time_s),
                Subject::Turns { ms } => by_length.entry(ms).or_default().add(time_s, &figures),
            }
            progress.step();
        }
    }
    drop(progress);
    let [fifo, vtime] = POLICIES.map(|policy| &alone[policy]);
    let mean: Vec<f64> = fifo.iter().zip(vtime).map(|(a, b)| (a + b) / 2.0).collect();
    let over = |times: &[f64], under: &[f64]| {
        let pairs: Vec<_> = times.iter().copied().zip(under.iter().copied()).collect();
        paired_ratio(&pairs, args.seed)
    };
    let mut shown = table(&[
        "turns of",
        "time ratio to the mean of both alone",
        "a change",
        "late, mean and max",
    ]);
    for (ms, turns) in &mut by_length {
        turns.ratio = over(&turns.times_s, &mean);
        shown.add_row([
            format!("{ms} ms"),
            show(turns.ratio),
            format!("{:.1} us", turns.change_us_mean),
            format!("{:.1} us, {:.1} us", turns.late_us_mean, turns.late_us_max),
        ]);
    }
    let vtime_over_fifo = over(vtime, fifo);
    shown.add_row(["vtime / fifo, each alone".to_owned(), show(vtime_over_fifo)]);
    println!("{shown}");
    Ok(Figures { by_length, vtime_over_fifo, rounds: args.rounds, seed: args.seed })
}

/// Runs the load under a subject, on a program that was just loaded.
fn run(subject: Subject) -> Result<(f64, TurnFigures)> {
    let first = match subject {
        Subject::Alone(policy) => policy,
        Subject::Turns { .. } => POLICIES[0],
    };
    let mut program = Program::load(&LoadOptions::policy(first))?;
    if let Subject::Turns { ms } = subject {
        let length = Duration::from_millis(ms);
        program.start_turns(&POLICIES.map(|p| LaneTurn { policy: p.to_owned(), length }))?;
    }
    let time_s = std::thread::scope(|scope| {
        let load = scope.spawn(|| WORKLOAD.run(None));
        while !load.is_finished() {
            std::thread::sleep(LOOK);
            program.look_at_turns();
        }
        load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let figures = match subject {
        Subject::Alone(_) => TurnFigures::default(),
        Subject::Turns { .. } => program.stop_turns()?,
    };
    program.unload()?;
    Ok((time_s, figures))
}

impl Turns {
    /// One more run; means are kept over all of them.
    fn add(&mut self, time_s: f64, figures: &TurnFigures) {
        let mean_us = |before_us: f64, n: u64, sum_ns: u64, more: u64| {
            (before_us * n as f64 + sum_ns as f64 / 1e3) / (n + more).max(1) as f64
        };
        self.change_us_mean =
            mean_us(self.change_us_mean, self.changes, figures.changing_ns, figures.changes);
        self.late_us_mean =
            mean_us(self.late_us_mean, self.turns, figures.late_sum_ns, figures.begun);
        self.late_us_max = self.late_us_max.max(figures.late_max_ns as f64 / 1e3);
        self.changes += figures.changes;
        self.turns += figures.begun;
        self.times_s.push(time_s);
    }
}
