//! A fleet: machines that are alike, each the full model, with a placer in front of them. How many of them
//! keep the latency that a number of them has under another scheduler?

mod place;
mod report;

use std::time::Instant;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_scenario::file::FleetSpec;

use crate::arrangement::{Arrangement, distinct};
use crate::calls::Calls;
use crate::parallel::each;
use crate::runs::{Steps, failed};
use crate::setup::Setup;
pub use place::place;
pub use report::{FleetEntry, FleetReport, Placed, Verdict};

/// What is asked, and of what.
pub struct Fleet<'a> {
    /// The machine, the functions, how long.
    pub setup: &'a Setup,
    /// What is asked.
    pub spec: FleetSpec,
    /// How many seeds, from the setup's first on.
    pub runs: u64,
    /// By how much a percentile may be higher and still count as kept: 0.05 is 5 %.
    pub tolerance: f64,
    /// Ends it early.
    pub interrupt: &'a Interrupt,
}

/// One machine with its functions, under one scheduler.
struct Job {
    nodes: u64,
    scheduler: usize,
    seed: u64,
    functions: Vec<usize>,
    node: u64,
}

impl Fleet<'_> {
    /// Simulates all of it.
    ///
    /// # Errors
    /// Where the file speaks of no fleet that can be, a function finds no room, or a run fails.
    pub fn run(&self, again: String) -> Result<FleetReport> {
        let began = Instant::now();
        let setup = self.setup;
        if setup.file.functions.is_empty() {
            let attempt = format!("place the functions of '{}'", setup.file.name);
            return Err(Error::new(Kind::BadInput, attempt, "it has none")
                .remedy("add a [[function]]; see docs/simulator.md"));
        }
        let arrangements = distinct(self.spec.schedulers.clone(), |name| {
            let arrangement = Arrangement::policy(name, &setup.settings)?;
            arrangement.check(setup)?;
            Ok(arrangement)
        })?;
        let room = self.spec.fill * setup.spec.cpus as u64;
        let mut jobs = Vec::new();
        for nodes in self.spec.machines.clone() {
            for seed in setup.first_seed..setup.first_seed + self.runs {
                let placed = place(&setup.file.functions, nodes, room, self.spec.placer, seed)?;
                for scheduler in 0..arrangements.len() {
                    for (node, functions) in (0..).zip(placed.clone()) {
                        jobs.push(Job { nodes, scheduler, seed, functions, node });
                    }
                }
            }
        }
        let name = format!("simulating the fleet '{}'", setup.file.name);
        let mut steps = Steps::new(name, jobs.len(), began);
        let work = |job: &Job| {
            let on_node = setup.with_functions(&job.functions);
            // Each machine draws from numbers of its own, the same under all schedulers.
            let seed = job.seed * 1_000_003 + job.node;
            let scenario = arrangements[job.scheduler].scenario(&on_node, seed);
            scenario.run().map(|outcome| Calls::of(&outcome)).map_err(|failure| (seed, failure))
        };
        let results = each(&jobs, self.interrupt, work, &mut || steps.step())?;
        let mut cells: Vec<report::Cell> = Vec::new();
        for (job, result) in jobs.iter().zip(results) {
            let calls = result.map_err(|(seed, failure)| {
                let arrangement = &arrangements[job.scheduler];
                failed(&setup.file.name, &arrangement.name, seed, &failure, &again)
            })?;
            let key = (job.nodes, job.scheduler, job.seed);
            match cells.iter_mut().rev().find(|cell| cell.key == key) {
                Some(cell) => cell.calls.add(&calls),
                None => cells.push(report::Cell { key, calls }),
            }
        }
        Ok(report::report(self, &cells, again))
    }

    fn window_s(&self) -> f64 {
        self.setup.measurement().as_secs_f64()
    }
}
