//! Rounds on this machine.
//!
//! Each round puts every scheduler in force once, in random order and in one boot, and runs the
//! program each way on the idle machine and beside each overload. What the observer costs is
//! measured once in a round, under EEVDF.

use std::collections::BTreeMap;
use std::path::Path;

use metasched_base::{Interrupt, Kind, Progress, Result};
use metasched_benches::rounds::{Kept, Measured, Plan, Rounds, Setting};
use metasched_benches::{all_are_known, order, put_in_force, realtime};
use metasched_control::{
    Candidate, CandidateEnv, Switcher, SwitcherOptions, candidates, find, put_back_after,
};
use metasched_profile::runner::{Cgroups, Site};
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

use crate::container::{Container, Files, Ran, STEPS};
use crate::observer::{self, OBSERVER};
use crate::program::Way;
use crate::{Args, EEVDF, MEASURED};

/// Beside how many tasks the program runs that compute for half of each period; the first is none.
pub const OVERLOADS: [usize; 3] = [0, 1, 2];
/// Of the order of runs, beside that of schedulers.
const SEED: u64 = 2;

/// Under what name a figure of such runs is kept.
fn key(hogs: usize, way: Way, figure: &str) -> String {
    format!("{hogs} hogs/{}/{figure}", way.name())
}

/// What the rounds come to.
#[derive(Serialize)]
pub struct Done {
    rounds: u64,
    cpus: usize,
}

/// Measures until there are enough rounds, or the time is over.
pub fn measure(args: &Args) -> Result<Done> {
    let interrupt = Interrupt::listen()?;
    all_are_known(&args.only, &MEASURED)?;
    let site = Site::here(Box::new(Cgroups::new(None)), &interrupt)?;
    let files = Files::find(&site)?;
    let setting = Setting::here(format!("ua of {STEPS} steps, {}", files.versions()?))?;
    let kept = args.kept();
    let (_, keep) = &kept[usize::from(args.here)];
    let mut rounds = Rounds::open(keep, &setting, args.fresh)?;
    realtime()?;
    let container = Container::new(&files, setting.cpus)?;
    let measured = all_rounds(args, &container, &mut rounds, &interrupt);
    measured.and(container.remove())?;
    Ok(Done { rounds: rounds.kept.next_round(), cpus: rounds.kept.setting.cpus })
}

/// Under every scheduler that there is.
fn all_rounds(
    args: &Args,
    container: &Container,
    rounds: &mut Rounds,
    interrupt: &Interrupt,
) -> Result<()> {
    if args.here && !Path::new("/sys/kernel/sched_ext").exists() {
        let contenders = [(OBSERVER, None), (EEVDF, None)];
        return go_on(args, container, &contenders, rounds, None, interrupt);
    }
    let table = candidates(&CandidateEnv::system())?;
    let mut contenders = vec![(OBSERVER, Some(Candidate::eevdf("")))];
    for name in MEASURED {
        if name == EEVDF || args.wants(name) {
            contenders.push((name, Some(find(&table, name)?.clone())));
        }
    }
    put_back_after(SwitcherOptions::new("bench-paravirt"), |switcher| {
        go_on(args, container, &contenders, rounds, Some(switcher), interrupt)
    })
}

/// Round after round. Without a switcher what is in force stays.
fn go_on(
    args: &Args,
    container: &Container,
    contenders: &[(&str, Option<Candidate>)],
    rounds: &mut Rounds,
    mut switcher: Option<&mut Switcher>,
    interrupt: &Interrupt,
) -> Result<()> {
    warm_up(container, interrupt)?;
    let subjects: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    let plan = Plan {
        bench: "bench-paravirt",
        baseline: EEVDF,
        rounds: args.rounds,
        budget: args.budget,
        seed: 1,
    };
    rounds.go_on(&plan, &subjects, |at, round| {
        let (name, candidate) = &contenders[at];
        let mut in_force = switcher.as_deref_mut().zip(candidate.as_ref());
        if *name != OBSERVER {
            return scheduler(container, name, round, &mut in_force, interrupt);
        }
        if let Some((switcher, eevdf)) = in_force {
            switcher.switch_to(eevdf)?;
        }
        observer::measure(container, round, interrupt)
    })
}

/// Runs the program each way once for nothing.
fn warm_up(container: &Container, interrupt: &Interrupt) -> Result<()> {
    let progress = Progress::new("warm-up".to_owned(), Way::ALL.len() as u64);
    for way in Way::ALL {
        interrupt.check("the benchmark")?;
        progress.message(way.name().to_owned());
        container.run(way, 0)?;
        progress.step();
    }
    Ok(())
}

/// All runs under a scheduler, in random order. What fails under it says so, and the others go on.
fn scheduler(
    container: &Container,
    name: &str,
    round: u64,
    switched: &mut Option<(&mut Switcher, &Candidate)>,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let (mut values, mut failed) = (BTreeMap::new(), BTreeMap::new());
    let mut in_force = false;
    for overload in order(OVERLOADS.len(), SEED, round) {
        let hogs = OVERLOADS[overload];
        for way in order(Way::ALL.len(), SEED + 1 + hogs as u64, round) {
            let way = Way::ALL[way];
            interrupt.check("the benchmark")?;
            if let Some((switcher, candidate)) = switched
                && !in_force
            {
                put_in_force(switcher, candidate)?;
                in_force = true;
            }
            let run = container.overload(hogs).and_then(|_hogs| container.run(way, round));
            // Whoever is not in force any more is what explains a run that failed.
            let alive = switched.as_mut().map_or(Ok(()), |(switcher, _)| switcher.check_alive());
            match alive.and(run) {
                Ok(ran) => values.extend(figures(hogs, way, ran)),
                Err(error) if error.kind == Kind::Interrupted => return Err(error),
                Err(error) => {
                    in_force = false;
                    failed.insert(key(hogs, way, ""), error.to_string());
                }
            }
        }
    }
    Ok(Measured { round, subject: name.to_owned(), values, failed })
}

fn figures(hogs: usize, way: Way, ran: Ran) -> impl Iterator<Item = (String, f64)> {
    let (threads, windows) = ran.adapted.unzip();
    let figures = [
        ("seconds", Some(ran.seconds)),
        ("cpu_s", Some(ran.cpu_s)),
        ("threads", threads),
        ("windows", windows),
    ];
    figures.into_iter().filter_map(move |(name, value)| Some((key(hogs, way, name), value?)))
}

/// What was measured of the program running one way beside an overload.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// How long it runs spinning with all threads, over how long it runs this way.
    pub gain: Option<Interval>,
    /// How long it runs waiting the same way with all threads, over how long it runs this way.
    pub own_gain: Option<Interval>,
    /// Medians: its run time and its CPU time, s.
    pub seconds: Option<f64>,
    pub cpu_s: Option<f64>,
    /// How many threads regions had in the mean, and how many windows were used.
    pub threads: Option<f64>,
    pub windows: Option<f64>,
    runs: usize,
    /// Why the last run failed, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Cell {
    /// Of all rounds under a scheduler.
    pub fn of(kept: &Kept, scheduler: &str, hogs: usize, way: Way) -> Cell {
        let over = |way: Way, other: Way| {
            let seconds = |way| key(hogs, way, "seconds");
            paired_ratio(&kept.pairs_within(&seconds(other), &seconds(way), scheduler), 1)
        };
        let middle = |figure| median(&kept.values(&key(hogs, way, figure), scheduler));
        Cell {
            gain: over(way, Way::Spinning),
            own_gain: over(way, way.with_all_threads()),
            seconds: middle("seconds"),
            cpu_s: middle("cpu_s"),
            threads: middle("threads"),
            windows: middle("windows"),
            runs: kept.values(&key(hogs, way, "seconds"), scheduler).len(),
            failed: kept.why_not(&key(hogs, way, ""), scheduler).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_gains_over_all_threads_of_the_same_round() {
        let (program, kernel, options) = (String::new(), String::new(), String::new());
        let setting = Setting { program, kernel, cpus: 2, options };
        let round = |round, spinning, blocking, adapting, adapting_blocking| {
            let runs = [
                (Way::Spinning, spinning),
                (Way::Blocking, blocking),
                (Way::Adapting, adapting),
                (Way::AdaptingBlocking, adapting_blocking),
            ];
            let of = |(way, seconds): (Way, f64)| {
                let adapted = way.adapts().then_some((1.5, 100.0));
                figures(1, way, Ran { seconds, cpu_s: 2.0 * seconds, adapted })
            };
            let values = runs.into_iter().flat_map(of).collect();
            Measured { round, subject: "fair".to_owned(), values, failed: BTreeMap::new() }
        };
        let mut last = round(1, 3.0, 6.0, 2.0, 3.0);
        last.failed.insert(key(0, Way::Spinning, ""), "it ended".to_owned());
        let kept = Kept { setting, measured: vec![round(0, 2.0, 4.0, 1.0, 4.0), last] };
        let estimate = |interval: Option<Interval>| interval.unwrap().estimate;
        let near = |found: f64, value: f64| assert!((found - value).abs() < 1e-9, "{found}");
        let blocking = Cell::of(&kept, "fair", 1, Way::AdaptingBlocking);
        near(estimate(blocking.gain), (0.5_f64 * 1.0).sqrt());
        near(estimate(blocking.own_gain), (1.0_f64 * 2.0).sqrt());
        assert_eq!((blocking.seconds, blocking.cpu_s), (Some(3.5), Some(7.0)));
        assert_eq!((blocking.threads, blocking.windows), (Some(1.5), Some(100.0)));
        let spinning = Cell::of(&kept, "fair", 1, Way::Spinning);
        near(estimate(spinning.gain), 1.0);
        assert_eq!((spinning.threads, spinning.runs), (None, 2));
        let idle = Cell::of(&kept, "fair", 0, Way::Spinning);
        assert!(idle.gain.is_none() && idle.failed.as_deref() == Some("it ended"));
    }
}
