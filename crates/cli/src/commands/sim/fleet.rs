//! `metasched sim fleet`: how many machines keep a latency.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt, brief_time, format_duration};
use metasched_scenario::file::Placer;
use metasched_simbed::{Fleet, FleetEntry, FleetReport, Placed};

use super::again;
use super::bed::BedArgs;
use super::show::table;
use crate::commands::percent::{change, parse_percent};
use crate::context::Context;

/// Schedulers that are compared where neither the file nor the user says.
const SCHEDULERS: [&str; 3] = ["eevdf", "fair", "lags"];

/// Simulates a fleet: machines that are alike, and a placer that gives each function to one of them.
///
/// Every machine is the full model. The file is a scenario with functions; its table "fleet" says how many
/// machines there are, who places, and under which schedulers. Says how long calls take by the number of
/// machines, how many CPUs do the calls' work and how many are busy, and how many machines keep the median
/// and the 95th percentile of the baseline: the first scheduler on a number of machines.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bed: BedArgs,
    /// The schedulers, in place of the file's; all are compared with the first
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    schedulers: Vec<String>,
    /// How many machines, each of these numbers in turn, in place of the file's
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=10_000))]
    machines: Vec<u64>,
    /// So many under the first scheduler are what all is compared with, in place of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    baseline: Option<u64>,
    /// Who places functions, in place of the file's: spread, pack or least-loaded
    #[arg(long, value_name = "NAME")]
    placer: Option<Placer>,
    /// How many seeds: each has other calls, and another order in which functions come
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1_000))]
    runs: u64,
    /// By how much a percentile may be higher and still count as kept
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    tolerance: f64,
    /// Writes what --json prints into this file as well
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let setup = args.bed.setup()?;
    let Some(mut spec) = setup.file.fleet.clone() else {
        let attempt = format!("simulate the fleet '{}'", setup.file.name);
        return Err(Error::new(Kind::BadInput, attempt, "its file has no [fleet]")
            .remedy("add one, or simulate one machine: metasched sim; see docs/simulator.md"));
    };
    if !args.schedulers.is_empty() {
        spec.schedulers.clone_from(&args.schedulers);
    }
    if spec.schedulers.is_empty() {
        spec.schedulers = SCHEDULERS.map(str::to_owned).to_vec();
    }
    if !args.machines.is_empty() {
        spec.machines.clone_from(&args.machines);
    }
    spec.placer = args.placer.unwrap_or(spec.placer);
    spec.baseline = args.baseline.unwrap_or(spec.baseline);
    spec.machines.push(spec.baseline);
    spec.machines.sort_unstable();
    spec.machines.dedup();
    let fleet = Fleet {
        setup: &setup,
        spec,
        runs: args.runs,
        tolerance: args.tolerance,
        interrupt: &context.interrupt,
    };
    let report = fleet.run(again::all(&context.given, setup.first_seed))?;
    if let Some(path) = &args.out {
        let attempt = || format!("write '{}'", path.display());
        let document = serde_json::to_string(&report).attempt(Kind::Failed, attempt)?;
        std::fs::write(path, document + "\n").attempt(Kind::Failed, attempt)?;
    }
    context.print(&report, text)?;
    Ok(0)
}

fn text(report: &FleetReport) -> String {
    let mut out = header(report);
    let _ = writeln!(out, "{}\n", calls(report));
    let _ = writeln!(out, "{}\n", used(report));
    let _ = writeln!(out, "{}\n", verdicts(report));
    let _ = writeln!(out, "again: {}", report.replay);
    out
}

fn header(report: &FleetReport) -> String {
    let brief = |ns| format_duration(Duration::from_nanos(ns));
    let about = match report.about.as_str() {
        "" => String::new(),
        about => format!(": {about}"),
    };
    let (first, last) = (report.seeds.first().unwrap_or(&0), report.seeds.last().unwrap_or(&0));
    format!(
        "metasched {}, simulated\n{}{about}\n{} functions, which use {:.1} CPUs in the mean and ask for \
         {:.1}, placed by '{}'\neach machine: {}; {}, of which {} of warm-up do not count; seeds {first} to \
         {last}\n\n",
        report.version,
        report.scenario,
        report.functions,
        report.wanted_cpus,
        report.requested_cpus,
        report.placer,
        report.machine,
        brief(report.duration_ns),
        brief(report.warm_up_ns),
    )
}

fn names<const N: usize>(titles: [&str; N]) -> Vec<String> {
    titles.map(str::to_owned).to_vec()
}

/// How long calls took.
fn calls(report: &FleetReport) -> String {
    let mut rows = table(
        names([
            "machines",
            "scheduler",
            "p50",
            "p95",
            "p99",
            "in time/s",
            "of all",
            "p50 over first",
            "p95 over first",
        ]),
        2,
    );
    for entry in &report.entries {
        let time = |placed: &Placed| brief_time(placed.ns);
        let over = |placed: &Placed| {
            placed.over_first.as_ref().map_or("-".to_owned(), |ratio| change(*ratio))
        };
        let part = entry.timely_per_s / entry.answered_per_s.max(1e-9);
        rows.add_row([
            entry.machines.to_string(),
            entry.scheduler.clone(),
            time(&entry.p50),
            time(&entry.p95),
            time(&entry.p99),
            format!("{:.0}", entry.timely_per_s),
            format!("{:.1} %", 100.0 * part),
            over(&entry.p50),
            over(&entry.p95),
        ]);
    }
    rows.to_string()
}

/// What CPUs did: calls, and what they cost.
fn used(report: &FleetReport) -> String {
    let titles = [
        "machines",
        "scheduler",
        "CPUs for calls",
        "CPUs busy",
        "more",
        "of all CPUs",
        "switches/s each",
    ];
    let mut rows = table(names(titles), 2);
    let more = |entry: &FleetEntry| entry.perceived_cpus / entry.effective_cpus.max(1e-9) - 1.0;
    for entry in &report.entries {
        rows.add_row([
            entry.machines.to_string(),
            entry.scheduler.clone(),
            format!("{:.1}", entry.effective_cpus),
            format!("{:.1}", entry.perceived_cpus),
            format!("{:+.0} %", 100.0 * more(entry)),
            format!("{:.0} %", 100.0 * entry.utilisation),
            format!("{:.0}", entry.switches_per_s),
        ]);
    }
    rows.to_string()
}

/// How many machines it takes.
fn verdicts(report: &FleetReport) -> String {
    let first = report.entries.first().map_or("", |entry| &entry.scheduler);
    let mut out = format!(
        "machines that keep the median and the 95th percentile of {} under {first}, within {:.0} %:",
        report.baseline_machines,
        100.0 * report.tolerance
    );
    for verdict in &report.verdicts {
        let nodes =
            verdict.machines.map_or("more than were simulated".to_owned(), |n| n.to_string());
        let _ = write!(out, "\n  {:<12} {nodes}", verdict.scheduler);
    }
    let _ = write!(
        out,
        "\n  {:<12} {} (nobody shares what a function asks for)",
        "dedicated", report.dedicated_machines
    );
    out
}
