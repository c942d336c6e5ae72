//! The machine's side: scenarios played with real threads.

use std::collections::BTreeMap;

use metasched_base::{Interrupt, Progress, Result};
use metasched_benches::agreement::{Figure, Figures};
use metasched_benches::played::{Pair, Played};
use metasched_benches::{order, put_in_force};
use metasched_control::{CandidateEnv, Switcher, SwitcherOptions, candidates, find};
use metasched_loader::WaitTracer;
use metasched_play::{Plan, Stage, calibrate};
use metasched_scenario::file::ScenarioFile;

use crate::{Args, LANES, SCHEDULERS, file_of, files, responses};

/// The machine's side.
pub fn play_all(args: &Args) -> Result<Played> {
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

    let mut switcher = Switcher::new(SwitcherOptions::new("bench-calibration"))?;
    let mut machines = BTreeMap::new();
    for (name, policy) in SCHEDULERS {
        put_in_force(&mut switcher, find(&candidates, policy)?)?;
        // As it is while scenarios are played.
        let tracer = WaitTracer::attach(&[])?;
        let machine = calibrate(name, &interrupt)?;
        drop(tracer);
        eprint!("{}", machine.to_toml());
        machines.insert(name.to_owned(), machine);
    }
    let progress = Progress::new("bench-calibration", args.rounds * pairs.len() as u64);
    for round in 0..args.rounds {
        for s in order(SCHEDULERS.len(), args.seed, round) {
            let (name, policy) = SCHEDULERS[s];
            put_in_force(&mut switcher, find(&candidates, policy)?)?;
            for pair in pairs.iter_mut().filter(|pair| pair.scheduler == name) {
                progress.message(format!("{} under {name}", pair.scenario));
                let file = file_of(&files, &pair.scenario)?;
                let played = play(file, &mut switcher, args.seed + round, &interrupt)?;
                pair.runs.push(figures_of_machine(&played));
                switcher.check_alive()?;
                progress.step();
            }
        }
    }
    switcher.restore()?;
    let Args { rounds, seed, duration, .. } = *args;
    Ok(Played { rounds, seed, duration, machines, pairs })
}

/// Plays a scenario once under what is in force, with its lanes if it has any.
fn play(
    file: &ScenarioFile,
    switcher: &mut Switcher,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<metasched_play::Played> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan::of(file, None, cpus)?;
    let stage = Stage::build(&plan)?;
    if let Some(program) = switcher.program() {
        stage.give_lanes(&file.lanes, program)?;
    }
    let played = stage.play(seed, interrupt);
    if let Some(program) = switcher.program() {
        stage.take_lanes(&file.lanes, program)?;
    }
    stage.strike()?;
    played
}

fn figures_of_machine(played: &metasched_play::Played) -> BTreeMap<String, Figures> {
    let seconds = played.window_ns as f64 / 1e9;
    let of_group = |group: &metasched_play::PlayedGroup| {
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
    played.groups.iter().map(|(path, group)| (path.clone(), of_group(group))).collect()
}
