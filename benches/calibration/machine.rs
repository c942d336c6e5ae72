//! The machine's side: scenarios replayed with real threads.

use std::collections::BTreeMap;

use metasched_base::{Interrupt, Progress, Result};
use metasched_benches::agreement::{Figure, Figures};
use metasched_benches::machine_side::{MachineSide, Pair};
use metasched_benches::{order, put_in_force};
use metasched_control::{
    CandidateEnv, Switcher, SwitcherOptions, candidates, find, put_back_after,
};
use metasched_loader::{WaitTracer, Waiters};
use metasched_replay::{Replay, Replayable, calibrate};
use metasched_scenario::file::ScenarioFile;

use crate::{Args, LANES, SCHEDULERS, file_of, files, responses};

/// The machine's side.
pub fn replay_all(args: &Args) -> Result<MachineSide> {
    let interrupt = Interrupt::listen()?;
    let files = files(&args.scenarios, args.duration)?;
    let candidates = candidates(&CandidateEnv::system())?;
    let mut pairs = Vec::new();
    for scheduler in SCHEDULERS {
        let wanted = files.iter().filter(|(_, file)| file.lanes.is_empty() != (scheduler == LANES));
        pairs.extend(wanted.map(|(scenario, _)| Pair {
            scenario: (*scenario).to_owned(),
            scheduler: scheduler.0.to_owned(),
            runs: Vec::new(),
        }));
    }

    let mut machines = BTreeMap::new();
    put_back_after(SwitcherOptions::new("bench-calibration"), |switcher| {
        for (name, policy) in SCHEDULERS {
            put_in_force(switcher, find(&candidates, policy)?)?;
            // As it is while scenarios are replayed.
            let tracer = WaitTracer::attach(&[Waiters::System])?;
            let machine = calibrate(name, &interrupt)?;
            drop(tracer);
            eprint!("{}", machine.to_toml());
            machines.insert(name.to_owned(), machine);
        }
        let progress = Progress::new("bench-calibration", args.rounds * pairs.len() as u64);
        for round in 0..args.rounds {
            for s in order(SCHEDULERS.len(), args.seed, round) {
                let (name, policy) = SCHEDULERS[s];
                put_in_force(switcher, find(&candidates, policy)?)?;
                for pair in pairs.iter_mut().filter(|pair| pair.scheduler == name) {
                    progress.message(format!("{} under {name}", pair.scenario));
                    let file = file_of(&files, &pair.scenario)?;
                    let replayed = replay(file, switcher, args.seed + round, &interrupt)?;
                    pair.runs.push(figures_of_machine(&replayed));
                    switcher.check_alive()?;
                    progress.step();
                }
            }
        }
        Ok(())
    })?;
    let Args { rounds, seed, duration, .. } = *args;
    Ok(MachineSide { rounds, seed, duration, machines, pairs })
}

/// Replays a scenario once under what is in force, with its lanes if it has any.
fn replay(
    file: &ScenarioFile,
    switcher: &mut Switcher,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<metasched_replay::Replayed> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let replayable = Replayable::of(file, None, cpus)?;
    let replay = Replay::prepare(&replayable)?;
    if let Some(program) = switcher.program() {
        replay.give_lanes(&file.lanes, program)?;
    }
    let replayed = replay.run(seed, interrupt);
    if let Some(program) = switcher.program() {
        replay.take_lanes(&file.lanes, program)?;
    }
    replay.remove()?;
    replayed
}

fn figures_of_machine(replayed: &metasched_replay::Replayed) -> BTreeMap<String, Figures> {
    let seconds = replayed.window_ns as f64 / 1e9;
    let of_group = |group: &metasched_replay::ReplayedGroup| {
        let wait = |q| Some(group.waits.as_ref()?.percentile_ns(q)? as f64 / 1e3);
        let mut figures = Figures::from([
            (Figure::Cpus, Some(group.cpu_ns as f64 / 1e9 / seconds)),
            (Figure::WaitP50, wait(0.5)),
            (Figure::WaitP99, wait(0.99)),
            (Figure::Switches, Some(group.switches() as f64 / seconds)),
            (Figure::Migrations, group.migrations.map(|n| n as f64 / seconds)),
        ]);
        figures.extend(responses(&group.responses));
        figures
    };
    replayed.groups.iter().map(|(path, group)| (path.clone(), of_group(group))).collect()
}
