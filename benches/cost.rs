//! `bench-cost`: what the lane layer costs.
//!
//! Our `fifo` policy on the root lane does what the kernel tools' `scx_simple -f` does
//! without lanes; what it takes longer is the cost of the layer. Both stand beside EEVDF
//! in the same boot, in rounds of random order.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use metasched_base::{Interrupt, Progress, Result};
use metasched_benches::{Timed, finish, order, show, table};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, Mechanism, Switcher, SwitcherOptions,
};
use metasched_stats::{Interval, geometric_mean, paired_ratio};
use serde::Serialize;

/// Measures the cost of the lane layer against `scx_simple -f` and EEVDF.
#[derive(Debug, Parser)]
#[command(name = "bench-cost")]
struct Args {
    /// The kernel tools' scx_simple, as benches/scx_simple.sh builds it
    #[arg(long, value_name = "PATH")]
    scx_simple: String,
    /// How many rounds; each runs every scheduler once
    #[arg(long, default_value_t = 12)]
    rounds: u64,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Sized for about two seconds each in an emulated guest.
const WORKLOADS: [Timed; 2] = [
    Timed { name: "hackbench", command: &["hackbench", "-g", "4", "-l", "200"], marker: "Time:" },
    Timed {
        name: "pipe",
        command: &["perf", "bench", "sched", "pipe", "-l", "20000"],
        marker: "Total time:",
    },
];

#[derive(Serialize)]
struct Figures {
    /// Geometric mean over the workloads, time ratio: lower is better.
    ratio_fifo_over_scx_simple: Option<f64>,
    ratio_fifo_over_eevdf: Option<f64>,
    by_workload: BTreeMap<&'static str, BTreeMap<String, Option<Interval>>>,
    rounds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let ours = metasched_control::candidates(&CandidateEnv::system())?;
    let ours = |name| metasched_control::find(&ours, name).cloned();
    let candidates = [
        ours("eevdf")?,
        Candidate {
            name: "scx_simple -f".into(),
            kind: CandidateKind::External,
            summary: "the kernel tools' FIFO scheduler".into(),
            version: String::new(),
            command: vec![args.scx_simple.clone(), "-f".into()],
        },
        ours("fifo")?,
        ours("vtime")?,
    ];
    let mut switcher = Switcher::new(SwitcherOptions::new("bench-cost"))?;
    // times[workload][candidate][round], in seconds.
    let mut times = vec![vec![Vec::new(); candidates.len()]; WORKLOADS.len()];
    let progress = Progress::new("bench-cost", args.rounds * candidates.len() as u64);
    for round in 0..args.rounds {
        for c in order(candidates.len(), args.seed, round) {
            interrupt.check("the benchmark")?;
            progress.message(candidates[c].name.clone());
            // Process swap, so that every scheduler starts from the same clean state.
            switcher.switch_by(&candidates[c], Mechanism::Swap)?;
            for (w, workload) in WORKLOADS.iter().enumerate() {
                // The first run after a switch pays for cold caches and translations.
                if round == 0 {
                    workload.run()?;
                }
                times[w][c].push(workload.run()?);
                switcher.check_alive()?;
            }
            progress.step();
        }
    }
    switcher.restore()?;
    drop(progress);
    Ok(figures(args, &candidates, &times))
}

fn figures(args: &Args, candidates: &[Candidate], times: &[Vec<Vec<f64>>]) -> Figures {
    const COMPARED: [(&str, &str); 5] = [
        ("scx_simple -f", "eevdf"),
        ("fifo", "eevdf"),
        ("vtime", "eevdf"),
        ("fifo", "scx_simple -f"),
        ("vtime", "scx_simple -f"),
    ];
    let index = |name: &str| candidates.iter().position(|c| c.name == name);
    let ratio = |w: usize, over: &str, under: &str| -> Option<Interval> {
        let (a, b) = (index(over)?, index(under)?);
        let pairs: Vec<_> = times[w][a].iter().copied().zip(times[w][b].iter().copied()).collect();
        paired_ratio(&pairs, args.seed)
    };
    let mut titles = vec!["time ratio (lower is better)"];
    titles.extend(WORKLOADS.iter().map(|w| w.name));
    let mut shown = table(&titles);
    let mut by_workload: BTreeMap<&'static str, BTreeMap<String, Option<Interval>>> =
        BTreeMap::new();
    for (over, under) in COMPARED {
        let mut row = vec![format!("{over} / {under}")];
        for (w, workload) in WORKLOADS.iter().enumerate() {
            let interval = ratio(w, over, under);
            row.push(show(interval));
            by_workload
                .entry(workload.name)
                .or_default()
                .insert(format!("{over}/{under}"), interval);
        }
        shown.add_row(row);
    }
    println!("{shown}");
    let combined = |over: &str, under: &str| {
        let estimates: Option<Vec<f64>> =
            (0..WORKLOADS.len()).map(|w| ratio(w, over, under).map(|i| i.estimate)).collect();
        geometric_mean(&estimates?)
    };
    Figures {
        ratio_fifo_over_scx_simple: combined("fifo", "scx_simple -f"),
        ratio_fifo_over_eevdf: combined("fifo", "eevdf"),
        by_workload,
        rounds: args.rounds,
        seed: args.seed,
    }
}
