//! `bench-choice`: how good the recommendation is, over random workloads in the simulator.
//!
//! Each workload is tuned as `metasched sim tune` does. Then all contenders are simulated again
//! with seeds that the tuning never saw: the one that is best in these is what the recommendation
//! should have been, and how much worse the recommended one is, is told by further seeds, so that
//! neither the choice nor the judge is praised for noise of its own.
//!
//! A second part has more and more applications at once, and tells up to how many turns, and
//! lanes, are better than the best single scheduler.

mod judge;
mod workloads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use judge::{Judged, judge};
use metasched_base::{Interrupt, Kind, Progress, Result, ResultExt};
use metasched_benches::finish;
use metasched_scenario::file::ScenarioFile;
use metasched_simbed::{Setup, Tuning};
use metasched_stats::{Interval, geometric_mean, paired_ratio};
use serde::Serialize;

/// Judges recommendations by seeds that they never saw, over random workloads.
#[derive(Debug, Parser)]
#[command(name = "bench-choice")]
struct Args {
    /// How many random workloads of two to four applications
    #[arg(long, default_value_t = 100)]
    workloads: u64,
    /// How many random workloads of each number of applications in the second part; 0 leaves it out
    #[arg(long, default_value_t = 8)]
    workloads_of_each: u64,
    /// The numbers of applications there
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3, 4, 6, 8, 12, 16])]
    apps: Vec<usize>,
    /// The seed of the first workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write each workload into this folder, as a scenario for 'metasched sim tune'
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
}

/// A recommendation is good if it is no further than this from the best.
const GOOD: f64 = 0.98;
/// Seeds of the curve's judgement.
const CURVE_SEEDS: u64 = 100_000;

#[derive(Serialize)]
struct Figures {
    /// Of how many workloads.
    workloads: usize,
    /// Recommendations within 2 % of the best contender's objective.
    within_2_percent: usize,
    /// Recommendations that are surely further than that.
    surely_further: usize,
    /// Runs that a tuning took: the median, and the most.
    runs_median: u64,
    runs_most: u64,
    /// Seconds of this machine that it took in the mean.
    seconds_mean: f64,
    /// Ratios of the objective to the default scheduler, geometric means.
    recommended_over_default: Option<f64>,
    best_over_default: Option<f64>,
    /// How often what was recommended.
    recommended: BTreeMap<&'static str, usize>,
    /// Each workload.
    judged: Vec<Judged>,
    /// By the number of applications.
    curve: Vec<Curve>,
}

/// More applications at once.
#[derive(Serialize)]
struct Curve {
    applications: usize,
    /// Ratios of the objective to the best single scheduler, over the workloads.
    turns_over_single: Option<Interval>,
    lanes_over_single: Option<Interval>,
    /// In how many of the workloads it was more, of those of the interval: the tuning may have left all turns,
    /// or all lanes, behind.
    turns_better: usize,
    lanes_better: usize,
}

fn setup(text: &str, name: &str, out: Option<&Path>) -> Result<Setup> {
    let path = out.unwrap_or(Path::new("")).join(format!("{name}.toml"));
    if out.is_some() {
        std::fs::write(&path, text)
            .attempt(Kind::Failed, || format!("write '{}'", path.display()))?;
    }
    let file = ScenarioFile::parse(&path, text)?;
    let spec = file.machine.clone();
    Setup::new(file, spec, Vec::new(), None)
}

fn run(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .attempt(Kind::Failed, || format!("make the folder '{}'", out.display()))?;
    }
    let out = args.out.as_deref();
    let seeds = args.seed..args.seed + args.workloads;
    let of_curve = args.apps.len() as u64 * args.workloads_of_each;
    let progress = Progress::new("judging recommendations".to_owned(), args.workloads + of_curve);
    let mut judged = Vec::new();
    for seed in seeds {
        let setup = setup(&workloads::random(seed, None), &format!("random-{seed}"), out)?;
        let one = judge(&setup, &Tuning::default(), &interrupt)?;
        let Judged { workload, of_the_best: Interval { estimate, low, high, .. }, .. } = &one;
        progress.message(format!("{workload}: {estimate:.3} [{low:.3}-{high:.3}] of the best"));
        progress.step();
        judged.push(one);
    }
    let mut curve = Vec::new();
    for apps in args.apps.iter().copied().filter(|_| args.workloads_of_each > 0) {
        let mut pairs: [Vec<(f64, f64)>; 2] = Default::default();
        for seed in CURVE_SEEDS..CURVE_SEEDS + args.workloads_of_each {
            let name = format!("random-{apps}-{seed}");
            let setup = setup(&workloads::random(seed, Some(apps)), &name, out)?;
            let ways = judge::ways(&setup, &Tuning::default(), &interrupt)?;
            for (pairs, way) in pairs.iter_mut().zip([ways.turns, ways.lanes]) {
                pairs.extend(way.map(|way| (way, ways.single)));
            }
            progress.step();
        }
        let better = |pairs: &[(f64, f64)]| pairs.iter().filter(|(way, one)| way > one).count();
        curve.push(Curve {
            applications: apps,
            turns_over_single: paired_ratio(&pairs[0], 1),
            lanes_over_single: paired_ratio(&pairs[1], 1),
            turns_better: better(&pairs[0]),
            lanes_better: better(&pairs[1]),
        });
    }
    Ok(summary(judged, curve))
}

fn summary(judged: Vec<Judged>, curve: Vec<Curve>) -> Figures {
    let mut runs: Vec<u64> = judged.iter().map(|judged| judged.runs).collect();
    runs.sort_unstable();
    let mean =
        |of: &dyn Fn(&Judged) -> f64| geometric_mean(&judged.iter().map(of).collect::<Vec<_>>());
    let mut recommended = BTreeMap::new();
    judged.iter().for_each(|judged| *recommended.entry(judged.kind).or_default() += 1);
    let seconds: f64 = judged.iter().map(|judged| judged.seconds).sum();
    Figures {
        workloads: judged.len(),
        within_2_percent: judged.iter().filter(|j| j.of_the_best.estimate >= GOOD).count(),
        surely_further: judged.iter().filter(|j| j.of_the_best.high < GOOD).count(),
        runs_median: runs.get(runs.len() / 2).copied().unwrap_or(0),
        runs_most: runs.last().copied().unwrap_or(0),
        seconds_mean: seconds / judged.len().max(1) as f64,
        recommended_over_default: mean(&|j| j.recommended_over_default),
        best_over_default: mean(&|j| j.recommended_over_default / j.of_the_best.estimate),
        recommended,
        judged,
        curve,
    }
}

fn table(figures: &Figures) -> String {
    let Figures { workloads, within_2_percent, surely_further, .. } = figures;
    let percent = |ratio: Option<f64>| {
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0))
    };
    let mut out = format!(
        "{within_2_percent} of {workloads} recommendations are within 2 % of the best contender's \
         objective; {surely_further} are surely further\n\
         a tuning takes {} runs in the median, {} at most; {:.1} s here in the mean\n\
         over the default scheduler: recommended {}, the best {}\n\
         recommended: {:?}\n",
        figures.runs_median,
        figures.runs_most,
        figures.seconds_mean,
        percent(figures.recommended_over_default),
        percent(figures.best_over_default),
        figures.recommended,
    );
    for judged in figures.judged.iter().filter(|judged| judged.of_the_best.estimate < GOOD) {
        let Interval { estimate, low, high, .. } = judged.of_the_best;
        out += &format!(
            "  {}: {} is {estimate:.3} [{low:.3}-{high:.3}] of {}\n",
            judged.workload, judged.recommended, judged.best
        );
    }
    let ratio = |of: Option<Interval>, better: usize| {
        of.map_or_else(
            || "-".to_owned(),
            |of| {
                let Interval { estimate, low, high, n } = of;
                format!("{estimate:.3} [{low:.3}-{high:.3}] ({better} of {n})")
            },
        )
    };
    for row in &figures.curve {
        out += &format!(
            "{} applications: turns {}, lanes {} of the best single one\n",
            row.applications,
            ratio(row.turns_over_single, row.turns_better),
            ratio(row.lanes_over_single, row.lanes_better),
        );
    }
    out
}

fn main() -> ExitCode {
    let args = Args::parse();
    let figures = run(&args);
    if let (Ok(figures), false) = (&figures, args.json) {
        print!("{}", table(figures));
    }
    finish(figures)
}
