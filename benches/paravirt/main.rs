//! `bench-paravirt`: a parallel program in a virtual machine, on a host that is idle or overloaded.
//!
//! The published study's questions: how long does a program run whose threads spin at barriers, or
//! block there, and what does it gain if its number of threads follows what the host tells of CPUs?
//! How much slower is spinning by how many virtual CPUs wait for a CPU (*phantoms*)? And one that
//! was not asked: what becomes of two machines that both do so? The bed is the simulator, with a
//! host of the published size.

mod machines;
mod program;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use metasched_base::{Interrupt, Result};
use metasched_benches::{all_are_known, finish};
use metasched_scenario::file::MachineSpec;
use metasched_simbed::{Steps, each};
use metasched_stats::Interval;
use serde::Serialize;

use machines::{CASES, Case, Shared};
use program::{Load, Ran, Way};
use tables::{Runs, Sharing};

/// What is compared: the kernel's own scheduler and the published ones first.
const SCHEDULERS: [&str; 4] = ["eevdf", "fair", "central", "vtime"];
/// How many tasks that never sleep spinning is measured beside.
const HOGS: [u64; 5] = [0, 4, 9, 18, 36];
/// The one bed that there is so far, in JSON.
const SIM: &str = "sim";

/// Simulates a parallel program in a virtual machine whose number of threads follows the host.
#[derive(Debug, Parser)]
#[command(name = "bench-paravirt")]
struct Args {
    /// Only these schedulers of the host
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How many seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// How much of the program is run, of 1
    #[arg(long, default_value_t = 0.2, value_parser = part_of_one)]
    part: f64,
    /// The simulated host, with what its kernel takes
    #[arg(long, default_value = "benches/paravirt/machine.toml")]
    machine: PathBuf,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
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
    /// How long it runs on the idle host if their number follows the host, over how long with all
    /// of them.
    ratio_idle: ByBed<Option<Interval>>,
    /// How long it runs on the idle host blocking, over spinning.
    blocking_idle: ByBed<Option<Interval>>,
    /// Everything else of the simulated bed.
    sim: Sim,
    seeds: u64,
    part: f64,
}

#[derive(Serialize)]
struct Sim {
    runs: Runs,
    two_machines: Sharing,
}

/// A simulated run of something.
enum Job {
    Program(String, Way, Load, u64),
    Machines(String, &'static Case, u64),
}

enum Done {
    Program(Ran),
    Machines(Shared),
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let spec = MachineSpec::load(&args.machine)?;
    all_are_known(&args.only, &SCHEDULERS)?;
    let wanted = |name: &&str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let schedulers: Vec<&str> = SCHEDULERS.into_iter().filter(wanted).collect();
    let jobs = jobs(&schedulers, args.seeds);
    let mut steps = Steps::new("simulating machines".to_owned(), jobs.len(), Instant::now());
    let work = |job: &Job| match job {
        Job::Program(scheduler, way, load, seed) => {
            program::run(&spec, scheduler, (*way, *load), *seed, args.part).map(Done::Program)
        }
        Job::Machines(scheduler, case, seed) => {
            machines::run(&spec, scheduler, case, *seed).map(Done::Machines)
        }
    };
    let results = each(&jobs, &interrupt, work, &mut || steps.step())?;
    let mut sim = Sim { runs: Runs::default(), two_machines: Sharing::default() };
    for (job, done) in jobs.into_iter().zip(results) {
        match (job, done?) {
            (Job::Program(scheduler, way, load, _), Done::Program(ran)) => {
                sim.runs.add(&scheduler, way, load, ran);
            }
            (Job::Machines(scheduler, case, _), Done::Machines(shared)) => {
                sim.two_machines.add(case, &scheduler, shared);
            }
            _ => unreachable!("each job has its own kind of result"),
        }
    }
    if !args.json {
        println!("simulated, {} seeds, {} of the program\n", args.seeds, args.part);
        println!("{}\n", sim.runs.table(&schedulers));
        println!("{}\n", sim.runs.slowdown(&schedulers));
        println!("{}", sim.runs.over_time(&schedulers));
        println!("{}\n", sim.two_machines.table());
    }
    let by_bed = |of: &dyn Fn(&str) -> Option<Interval>| {
        let by_scheduler = schedulers.iter().map(|name| ((*name).to_owned(), of(name)));
        BTreeMap::from([(SIM, by_scheduler.collect())])
    };
    let runs = &sim.runs;
    let (spinning, blocking, adapting) = (Way::Spinning, Way::Blocking, Way::Adapting);
    let (idle, periodic) = (Load::Idle, Load::Periodic);
    Ok(Figures {
        speedup_overloaded: by_bed(&|name| runs.ratio(name, periodic, spinning, adapting)),
        ratio_idle: by_bed(&|name| runs.ratio(name, idle, adapting, spinning)),
        blocking_idle: by_bed(&|name| runs.ratio(name, idle, blocking, spinning)),
        sim,
        seeds: args.seeds,
        part: args.part,
    })
}

fn jobs(schedulers: &[&str], seeds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for seed in 1..=seeds {
        for scheduler in schedulers.iter().map(|name| (*name).to_owned()) {
            for load in [Load::Idle, Load::Periodic, Load::Pinned] {
                for way in Way::ALL {
                    jobs.push(Job::Program(scheduler.clone(), way, load, seed));
                }
            }
            for hogs in HOGS {
                let load = Load::Hogs(hogs);
                jobs.push(Job::Program(scheduler.clone(), Way::Spinning, load, seed));
            }
            jobs.extend(CASES.iter().map(|case| Job::Machines(scheduler.clone(), case, seed)));
        }
    }
    jobs
}
