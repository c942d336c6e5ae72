//! `bench-calibration`: the simulator beside the kernel that it models.
//!
//! Scenarios are replayed with real threads, and simulated on the model of the same machine, as
//! `metasched sim calibrate` measures it under the same scheduler. Each figure of each cgroup
//! is compared, within a tolerance that was fixed before. Two negative controls compare what is
//! not the same, and must disagree: otherwise the comparison could not tell anything.

mod compare;
mod machine;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use compare::{Outcome, compare};
use metasched_base::{Error, Kind, Result};
use metasched_benches::agreement::Figure;
use metasched_benches::finish;
use metasched_benches::machine_side::MachineSide;
use metasched_scenario::file::ScenarioFile;
use metasched_stats::DurationHistogram;

/// Compares the simulator with the kernel.
#[derive(Debug, Parser)]
#[command(name = "bench-calibration")]
struct Args {
    /// How many rounds; each replays every scenario under every scheduler
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Which scenarios; all if none is named
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// How long each lasts, instead of what it says
    #[arg(long, value_parser = metasched_base::parse_duration)]
    duration: Option<Duration>,
    /// The seed of the first round, and of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate only: take the machine's side from this file, which an earlier run left
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["rounds", "duration", "seed"])]
    machine: Option<PathBuf>,
}

/// The scenarios: kinds of work that differ in what they ask of a scheduler.
const SCENARIOS: [(&str, &str); 9] = [
    ("hogs", include_str!("hogs.toml")),
    ("weights", include_str!("weights.toml")),
    ("wakers", include_str!("wakers.toml")),
    ("pingpong", include_str!("pingpong.toml")),
    ("chain", include_str!("chain.toml")),
    ("lock", include_str!("lock.toml")),
    ("barrier", include_str!("barrier.toml")),
    ("lanes-hogs", include_str!("lanes-hogs.toml")),
    ("lanes-web", include_str!("lanes-web.toml")),
];
/// Level 1 with the lanes that a scenario says; all others run those that say nothing of lanes.
const LANES: (&str, &str) = ("lanes", "vtime");
/// No program: the kernel's fair class.
const EEVDF: &str = "eevdf";
/// What is put in force on both sides: its name, and the policy of its root lane.
const SCHEDULERS: [(&str, &str); 4] = [("fifo", "fifo"), ("vtime", "vtime"), (EEVDF, EEVDF), LANES];
/// The file in METASCHED_OUT in which the machine's side is kept.
const KEPT: &str = "machine.json";

fn main() -> ExitCode {
    let outcome = bench(&Args::parse());
    let calibrated = outcome.as_ref().is_ok_and(|outcome| outcome.calibrated);
    match finish(outcome) {
        ExitCode::SUCCESS if !calibrated => ExitCode::from(Kind::Failed.exit_code()),
        code => code,
    }
}

fn bench(args: &Args) -> Result<Outcome> {
    let side = match &args.machine {
        Some(path) => MachineSide::load(path)?,
        None => {
            let side = machine::replay_all(args)?;
            if let Some(folder) = std::env::var_os("METASCHED_OUT") {
                side.keep(&Path::new(&folder).join(KEPT))?;
            }
            side
        }
    };
    let files = files(&args.scenarios, side.duration)?;
    compare(&files, &side)
}

/// The scenarios that are asked for.
fn files(
    names: &[String],
    duration: Option<Duration>,
) -> Result<Vec<(&'static str, ScenarioFile)>> {
    if let Some(unknown) =
        names.iter().find(|name| !SCENARIOS.iter().any(|(known, _)| known == name))
    {
        let known = SCENARIOS.map(|(name, _)| name).join(", ");
        let attempt = format!("replay '{unknown}'");
        return Err(Error::new(Kind::BadInput, attempt, "there is no such scenario")
            .remedy(format!("there are {known}")));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let mut files = Vec::new();
    for (name, text) in SCENARIOS.into_iter().filter(|(name, _)| wanted(name)) {
        let mut file = ScenarioFile::parse(Path::new(&format!("{name}.toml")), text)?;
        if let Some(duration) = duration {
            file.duration_ns = duration.as_nanos() as u64;
        }
        files.push((name, file));
    }
    Ok(files)
}

fn file_of<'a>(files: &'a [(&str, ScenarioFile)], name: &str) -> Result<&'a ScenarioFile> {
    let found = files.iter().find(|(known, _)| *known == name).map(|(_, file)| file);
    found.ok_or_else(|| {
        Error::new(Kind::BadInput, format!("compare '{name}'"), "there is no such scenario")
    })
}

/// Response times, where there are any.
fn responses(all: &DurationHistogram) -> impl Iterator<Item = (Figure, Option<f64>)> {
    let of = |(figure, q)| Some((figure, Some(all.percentile_ns(q)? as f64 / 1e3)));
    [(Figure::ResponseP50, 0.5), (Figure::ResponseP99, 0.99)].into_iter().filter_map(of)
}
