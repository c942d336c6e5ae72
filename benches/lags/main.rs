//! `bench-lags`: functions of a serverless platform on one node, by how many there are.
//!
//! The published study's questions: what becomes of the median, of the 95th percentile, of the calls that
//! are answered within a second, and of the CPU time that goes into scheduling, with 1 to 19
//! functions for each CPU? There are two beds: the simulator, with as many CPUs as the study had, and
//! the machine itself, which `--measure` adds rounds of to a file. Each scheduler is compared with EEVDF by
//! pairs of runs with one seed, or in one round.

mod measured;
mod simulated;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use metasched_base::{Interrupt, Result};
use metasched_benches::finish;
use metasched_benches::rounds::Kept;
use serde::Serialize;

use tables::{Bed, table};

/// How many functions there were in the published study.
const DENSITIES: [u64; 9] = [12, 24, 48, 72, 96, 120, 144, 192, 228];
/// The baseline.
const EEVDF: &str = "eevdf";
/// EEVDF with a slice that the study's authors found to help.
const LONG_SLICE: &str = "eevdf-100ms";
const LONG_SLICE_NS: u64 = 100_000_000;
/// EEVDF where each function may use one CPU only.
const PINNED: &str = "pinned";

/// Simulates and measures functions on one node, by how many there are.
#[derive(Debug, Parser)]
#[command(name = "bench-lags")]
struct Args {
    /// Measure on this machine, which adds rounds to --keep; without it functions are simulated, and
    /// both beds shown
    #[arg(long)]
    measure: bool,
    /// Where what was measured is kept
    #[arg(long, value_name = "FILE", env = "METASCHED_ROUNDS", default_value = "rounds.jsonl")]
    keep: PathBuf,
    /// With --measure: put away what was measured, and begin anew
    #[arg(long)]
    fresh: bool,
    /// How many rounds are to be measured, those of earlier runs included
    #[arg(long, default_value_t = 4)]
    rounds: u64,
    /// Begin no round after this time; the same command goes on
    #[arg(long, default_value = "40m", value_parser = metasched_base::parse_duration)]
    budget: Duration,
    /// How long each load is measured
    #[arg(long, default_value = "4s", value_parser = metasched_base::parse_duration)]
    duration: Duration,
    /// Measure only these loads: a variant and how many functions for each CPU, such as plain/19, or
    /// serving and how many servers
    #[arg(long, value_delimiter = ',', value_name = "LOAD")]
    loads: Vec<String>,
    /// Measure only these schedulers, beside EEVDF
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How many functions are simulated; 0 for none
    #[arg(long, value_delimiter = ',', default_values_t = DENSITIES)]
    functions: Vec<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// How long each simulated run lasts, in seconds, two of which do not count
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(3..))]
    seconds: u64,
    /// The simulated node, with what its kernel takes
    #[arg(long, default_value = "benches/lags/machine.toml")]
    machine: PathBuf,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
}

/// What calls do, or who answers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Variant {
    /// Each hashes by itself.
    Plain,
    /// Each hashes with four threads.
    Parallel,
    /// Every second function does.
    Mixed,
    /// Each hashes by itself, and four times as many are under way, so that CPUs are short; measured only.
    Crowded,
    /// Users ask model servers; measured only.
    Serving,
}

impl Variant {
    const ALL: [Variant; 5] =
        [Variant::Plain, Variant::Parallel, Variant::Mixed, Variant::Crowded, Variant::Serving];

    /// In tables, JSON and `--loads`.
    fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Parallel => "parallel",
            Variant::Mixed => "mixed",
            Variant::Crowded => "crowded",
            Variant::Serving => "serving",
        }
    }
}

#[derive(Serialize)]
struct Figures {
    /// By variant, density and scheduler: simulated, on the CPUs that the machine's file says.
    sim: Bed,
    seeds: u64,
    /// Measured, on `cpus` CPUs.
    guest: Bed,
    rounds: u64,
    cpus: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.measure {
        return finish(measured::measure(&args));
    }
    finish(bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let sim = simulated::simulate(args, &interrupt)?;
    let kept = Kept::read(&args.keep)?;
    let guest = kept.as_ref().map(measured::bed).unwrap_or_default();
    let cpus = kept.as_ref().map_or(0, |rounds| rounds.setting.cpus);
    let rounds = kept.as_ref().map_or(0, |kept| kept.count(EEVDF, EEVDF));
    if !args.json {
        let of_sim = format!("simulated, {} seeds", args.seeds);
        let of_guest = format!("measured on {cpus} CPUs, {rounds} rounds");
        for (bed, how) in [(&sim, of_sim), (&guest, of_guest)] {
            for variant in Variant::ALL {
                if let Some(rows) = bed.of(variant) {
                    println!("{}: {how}\n{}\n", variant.name(), table(rows));
                }
            }
        }
    }
    Ok(Figures { sim, seeds: args.seeds, guest, rounds, cpus })
}
