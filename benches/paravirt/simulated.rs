//! The simulated bed.

use std::time::Instant;

use metasched_base::{Interrupt, Result};
use metasched_scenario::file::MachineSpec;
use metasched_simbed::{Steps, each};
use serde::Serialize;

use crate::machines::{self, CASES, Case, Shared};
use crate::measured::OVERLOADS as MEASURED_OVERLOADS;
use crate::program::{self, Load, Ran, Way};
use crate::tables::{Runs, Sharing};
use crate::{Args, EEVDF};

/// How many tasks that never sleep spinning is measured beside.
pub const HOGS: [u64; 5] = [0, 4, 9, 18, 36];
/// Overloads that the published one may have been, beside which the program runs under EEVDF: so
/// many tasks, for so long of each 500 ms.
pub const OVERLOADS: [(u64, u64); 6] =
    [(18, 250), (18, 275), (18, 300), (36, 250), (36, 275), (36, 300)];
/// The same for the whole time.
pub const ALWAYS: [u64; 2] = [18, 36];

/// What was simulated.
#[derive(Default, Serialize)]
pub struct Sim {
    pub runs: Runs,
    pub two_machines: Sharing,
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

/// Simulates all of it under these schedulers.
///
/// # Errors
/// When the machine's file is wrong, or a run fails.
pub fn simulate(args: &Args, schedulers: &[&str], interrupt: &Interrupt) -> Result<Sim> {
    let spec = MachineSpec::load(&args.machine)?;
    let jobs = jobs(schedulers, args.seeds);
    let mut steps = Steps::new("simulating machines".to_owned(), jobs.len(), Instant::now());
    let work = |job: &Job| match job {
        Job::Program(scheduler, way, load, seed) => {
            program::run(&spec, scheduler, (*way, *load), *seed, args.share).map(Done::Program)
        }
        Job::Machines(scheduler, case, seed) => {
            machines::run(&spec, scheduler, case, *seed).map(Done::Machines)
        }
    };
    let results = each(&jobs, interrupt, work, &mut || steps.step())?;
    let mut sim = Sim::default();
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
    Ok(sim)
}

fn jobs(schedulers: &[&str], seeds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for seed in 1..=seeds {
        for scheduler in schedulers.iter().map(|name| (*name).to_owned()) {
            let mut program =
                |way, load| jobs.push(Job::Program(scheduler.clone(), way, load, seed));
            for load in [Load::Idle, Load::PERIODIC, Load::Pinned] {
                Way::ALL.into_iter().for_each(|way| program(way, load));
            }
            for hogs in MEASURED_OVERLOADS {
                Way::ALL.into_iter().for_each(|way| program(way, Load::Measured(hogs as u64)));
            }
            HOGS.into_iter().for_each(|hogs| program(Way::Spinning, Load::Hogs(hogs)));
            if scheduler == EEVDF {
                for (hogs, busy_ms) in OVERLOADS {
                    let load = Load::Together { hogs, busy_ms };
                    if load != Load::PERIODIC {
                        [Way::Spinning, Way::Adapting]
                            .into_iter()
                            .for_each(|way| program(way, load));
                    }
                }
                ALWAYS.into_iter().for_each(|hogs| program(Way::Adapting, Load::Hogs(hogs)));
            }
            jobs.extend(CASES.iter().map(|case| Job::Machines(scheduler.clone(), case, seed)));
        }
    }
    jobs
}
