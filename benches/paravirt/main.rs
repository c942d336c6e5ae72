//! `bench-paravirt`: a parallel program in a virtual machine, on a host that is idle or overloaded.
//!
//! The published study's questions: how long does a program run whose threads spin at barriers, or
//! block there, and what does it gain if its number of threads follows what the host tells of CPUs?
//! How much slower is spinning by how many virtual CPUs wait for a CPU (*phantoms*)? And two that
//! were not asked: what becomes of two machines that both do so, and what does the observer cost?
//! Beds are the simulator, with a host of the published size, and machines with the program in a
//! container: the testbed's guest, and with `--here` this machine as it is. `--measure` adds rounds to
//! a file for each.

mod container;
mod machines;
mod measured;
mod observer;
mod program;
mod simulated;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use metasched_base::{Interrupt, Result};
use metasched_benches::all_are_known;
use metasched_benches::beside::play_or;
use metasched_benches::rounds::Kept;
use metasched_stats::Interval;
use serde::Serialize;

use measured::Cell;
use observer::Cost;
use program::{Load, MEASURED_CPUS, Way};
use simulated::Sim;

/// The baseline.
const EEVDF: &str = "eevdf";
/// What is simulated: the kernel's own scheduler and the published ones first.
const SIMULATED: [&str; 5] = [EEVDF, "fair", "central", "vtime", "pv"];
/// What is measured.
const MEASURED: [&str; 4] = [EEVDF, "fair", "central", "pv"];
/// Beside how many tasks the measured machine counts as overloaded: half of its CPUs, as published.
const OVERLOADED_BY: usize = 1;
/// The simulated bed, in JSON.
const SIM: &str = "sim";
/// The measured ones: the testbed's guest, which has all schedulers, and a machine with CPUs of its
/// own, whose kernel may have none but EEVDF.
const GUEST: &str = "guest";
const HERE: &str = "here";

/// Simulates and measures a parallel program whose number of threads follows its host.
#[derive(Debug, Parser)]
#[command(name = "bench-paravirt")]
struct Args {
    /// Measure on this machine, which adds rounds to --keep; without it the program is simulated,
    /// and both beds shown
    #[arg(long)]
    measure: bool,
    /// Simulate nothing: show what was measured
    #[arg(long, conflicts_with = "measure")]
    show: bool,
    /// With --measure: this is no guest; what is measured is kept apart. Where the kernel has no
    /// sched_ext there is only EEVDF
    #[arg(long, requires = "measure")]
    here: bool,
    /// Where what was measured in the guest is kept
    #[arg(long, value_name = "FILE", env = "METASCHED_ROUNDS", default_value = "rounds.jsonl")]
    keep: PathBuf,
    /// Where what was measured with --here is kept [default: beside --keep]
    #[arg(long, value_name = "FILE")]
    keep_here: Option<PathBuf>,
    /// With --measure: put away what was measured, and begin anew
    #[arg(long)]
    fresh: bool,
    /// How many rounds are to be measured, those of earlier runs included
    #[arg(long, default_value_t = 8)]
    rounds: u64,
    /// Begin no round after this time; the same command goes on
    #[arg(long, default_value = "20m", value_parser = metasched_base::parse_duration)]
    budget: Duration,
    /// Only these schedulers of the host; EEVDF is always measured
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How many seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// How much of the program is simulated, of 1
    #[arg(long, default_value_t = 0.2, value_parser = part_of_one)]
    share: f64,
    /// The simulated host, with what its kernel takes
    #[arg(long, default_value = "benches/paravirt/machine.toml")]
    machine: PathBuf,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
    /// Play a part in the benchmark (internal)
    #[arg(long, hide = true)]
    part: Option<String>,
}

impl Args {
    /// Where the rounds of each measured bed are kept.
    fn kept(&self) -> [(&'static str, PathBuf); 2] {
        let here = self.keep_here.clone();
        let here = here.unwrap_or_else(|| self.keep.with_extension("here.jsonl"));
        [(GUEST, self.keep.clone()), (HERE, here)]
    }

    fn wants(&self, scheduler: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == scheduler)
    }
}

fn part_of_one(text: &str) -> std::result::Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.001..=1.0).contains(part));
    part.ok_or_else(|| format!("'{text}' is no part of the program; write 0.001 to 1"))
}

/// By bed, then by scheduler.
type ByBed<T> = BTreeMap<&'static str, BTreeMap<String, T>>;

#[derive(Serialize)]
struct Figures {
    /// How long the program runs with all of its threads on the overloaded host, over how long it
    /// runs if their number follows the host; both spin.
    speedup_overloaded: ByBed<Option<Interval>>,
    /// The same where both block.
    speedup_overloaded_blocking: ByBed<Option<Interval>>,
    /// How long the program runs on the idle host with all of its threads, over how long it runs if
    /// their number follows the host; both spin. 0.98 is a loss of two hundredths.
    ratio_idle: ByBed<Option<Interval>>,
    /// The same where both block.
    ratio_idle_blocking: ByBed<Option<Interval>>,
    /// How long it runs on the idle host blocking, over spinning.
    blocking_idle: ByBed<Option<Interval>>,
    /// Everything else of the simulated bed.
    sim: Option<Sim>,
    seeds: u64,
    share: f64,
    /// Everything else of the measured ones.
    measured: BTreeMap<&'static str, Measured>,
}

/// What was measured in a bed.
#[derive(Serialize)]
struct Measured {
    /// By scheduler, tasks beside the program, and the program's way.
    program: BTreeMap<&'static str, BTreeMap<usize, BTreeMap<&'static str, Cell>>>,
    observer: Vec<Cost>,
    rounds: u64,
    cpus: usize,
    kernel: String,
}

impl Measured {
    fn of(kept: &Kept, args: &Args) -> Self {
        let by_way = |scheduler, hogs| {
            Way::ALL.map(|way| (way.name(), Cell::of(kept, scheduler, hogs, way))).into()
        };
        let was_measured = |name: &&str| args.wants(name) && kept.count(name, EEVDF) > 0;
        let schedulers = MEASURED.into_iter().filter(was_measured);
        let program = schedulers
            .map(|name| (name, measured::OVERLOADS.map(|hogs| (hogs, by_way(name, hogs))).into()));
        Self {
            program: program.collect(),
            observer: observer::costs(kept),
            rounds: kept.count(EEVDF, EEVDF),
            cpus: kept.setting.cpus,
            kernel: kept.setting.kernel.clone(),
        }
    }

    /// What the program gains one way over all of its threads, by scheduler.
    fn by_scheduler(
        &self,
        hogs: usize,
        way: Way,
        of: impl Fn(&Cell) -> Option<Interval>,
    ) -> BTreeMap<String, Option<Interval>> {
        let each = self.program.iter();
        each.map(|(name, cells)| ((*name).to_owned(), of(&cells[&hogs][way.name()]))).collect()
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.measure {
        return metasched_benches::finish(measured::measure(&args));
    }
    play_or(args.part.as_deref(), || bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let known: Vec<&str> = SIMULATED.iter().chain(&MEASURED).copied().collect();
    all_are_known(&args.only, &known)?;
    let schedulers: Vec<&str> = SIMULATED.into_iter().filter(|name| args.wants(name)).collect();
    let sim = match args.show {
        true => None,
        false => Some(simulated::simulate(args, &schedulers, &interrupt)?),
    };
    let mut measured = BTreeMap::new();
    for (bed, path) in args.kept() {
        measured.extend(Kept::read(&path)?.map(|kept| (bed, Measured::of(&kept, args))));
    }
    if !args.json {
        print_tables(args, sim.as_ref(), &schedulers, &measured);
    }
    let by_bed = |load: Load,
                  hogs: usize,
                  way: Way,
                  of_sim: fn(&Sim, &str, Load, Way) -> Option<Interval>,
                  of_cell: fn(&Cell) -> Option<Interval>| {
        let of_sim = |sim: &Sim| {
            let each = schedulers.iter();
            each.map(|name| ((*name).to_owned(), of_sim(sim, name, load, way))).collect()
        };
        let beds = measured.iter().map(|(bed, of)| (*bed, of.by_scheduler(hogs, way, of_cell)));
        sim.iter().map(|sim| (SIM, of_sim(sim))).chain(beds).collect()
    };
    let gain = |load, hogs, way| {
        let of_sim = |sim: &Sim, name: &str, load, way: Way| {
            sim.runs.ratio(name, load, way.with_all_threads(), way)
        };
        by_bed(load, hogs, way, of_sim, |cell| cell.own_gain)
    };
    Ok(Figures {
        speedup_overloaded: gain(Load::PERIODIC, OVERLOADED_BY, Way::Adapting),
        speedup_overloaded_blocking: gain(Load::PERIODIC, OVERLOADED_BY, Way::AdaptingBlocking),
        ratio_idle: gain(Load::Idle, 0, Way::Adapting),
        ratio_idle_blocking: gain(Load::Idle, 0, Way::AdaptingBlocking),
        blocking_idle: by_bed(
            Load::Idle,
            0,
            Way::Blocking,
            |sim, name, load, way| sim.runs.ratio(name, load, way, Way::Spinning),
            |cell| cell.gain.map(|gain| gain.inverse()),
        ),
        sim,
        seeds: args.seeds,
        share: args.share,
        measured,
    })
}

fn print_tables(
    args: &Args,
    sim: Option<&Sim>,
    schedulers: &[&str],
    measured: &BTreeMap<&str, Measured>,
) {
    if let Some(sim) = sim {
        println!("simulated, {} seeds, {} of the program\n", args.seeds, args.share);
        println!("{}\n", sim.runs.table(schedulers));
        if schedulers.contains(&EEVDF) {
            println!("{}\n", sim.runs.by_overload());
        }
        println!("simulated as measured, on {MEASURED_CPUS} CPUs:\n");
        println!("{}\n", sim.runs.as_measured(schedulers));
        println!("{}\n", sim.runs.slowdown(schedulers));
        println!("{}", sim.runs.over_time(schedulers));
        println!("{}\n", sim.two_machines.table());
    }
    for (bed, of) in measured {
        let Measured { rounds, cpus, kernel, .. } = of;
        println!("{bed}: measured on {cpus} CPUs of Linux {kernel}, {rounds} rounds\n");
        println!("{}\n", tables::measured(&of.program));
        println!("{}\n", observer::costs_table(&of.observer));
    }
}
