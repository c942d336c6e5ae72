//! `bench-calibration`: the simulator beside the kernel that it models.
//!
//! Scenarios are played with real threads, and simulated on the model of the same machine, as
//! `metasched sim calibrate` measures it under the same scheduler. Each figure of each cgroup
//! is compared, within a tolerance that was fixed before. Two negative controls compare what is
//! not the same, and must disagree: otherwise the comparison could not tell anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_benches::agreement::{Cell, Figure, Figures, Side, Verdict, cells};
use metasched_benches::{finish, order, put_in_force, table};
use metasched_control::{Candidate, CandidateEnv, Switcher, SwitcherOptions, candidates, find};
use metasched_loader::WaitTracer;
use metasched_play::{Calibration, Plan, Played, Stage, calibrate};
use metasched_sim::figures::Figures as Simulated;
use metasched_sim::file::ScenarioFile;
use metasched_sim::metasched::set_option;
use metasched_sim::{Machine, Scenario, ms, options, policy};
use serde::Serialize;

/// Compares the simulator with the kernel.
#[derive(Debug, Parser)]
#[command(name = "bench-calibration")]
struct Args {
    /// How many rounds; each plays every scenario under every scheduler
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
}

/// The scenarios: kinds of work that differ in what they ask of a scheduler.
const SCENARIOS: [(&str, &str); 9] = [
    ("hogs", include_str!("calibration/hogs.toml")),
    ("weights", include_str!("calibration/weights.toml")),
    ("wakers", include_str!("calibration/wakers.toml")),
    ("pingpong", include_str!("calibration/pingpong.toml")),
    ("chain", include_str!("calibration/chain.toml")),
    ("lock", include_str!("calibration/lock.toml")),
    ("barrier", include_str!("calibration/barrier.toml")),
    ("lanes-hogs", include_str!("calibration/lanes-hogs.toml")),
    ("lanes-web", include_str!("calibration/lanes-web.toml")),
];
/// The policies under which all scenarios run that say nothing of lanes.
const POLICIES: [&str; 2] = ["fifo", "vtime"];
/// The name of level 1 with the lanes that a scenario says, and the policy of its root lane.
const LANES: (&str, &str) = ("lanes", "vtime");
/// A task may wait so long in the simulator: as long as the kernel lets it, ns.
const WATCHDOG_NS: u64 = ms(30_000);
/// So many of the cells have to agree.
const DEMANDED: f64 = 0.8;

/// What is put in force on both sides.
struct Scheduler {
    name: &'static str,
    policy: &'static str,
    lanes: bool,
    candidate: Candidate,
}

/// A scenario under a scheduler, and the figures of its cgroups in every run.
struct Pair<'a> {
    scenario: &'a str,
    file: &'a ScenarioFile,
    scheduler: usize,
    played: Vec<BTreeMap<String, Figures>>,
}

/// A cgroup's cells.
#[derive(Serialize)]
struct Row {
    scenario: String,
    scheduler: &'static str,
    cgroup: String,
    cells: Vec<Cell>,
}

/// A comparison that must fail.
#[derive(Serialize)]
struct Control {
    what: &'static str,
    /// The figure that tells.
    cell: Option<Cell>,
    disagrees: bool,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Tally {
    agree: u64,
    disagree: u64,
    not_measured: u64,
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Agrees => self.agree += 1,
            Verdict::Disagrees => self.disagree += 1,
            Verdict::NotMeasured => self.not_measured += 1,
        }
    }

    fn cells(&self) -> u64 {
        self.agree + self.disagree + self.not_measured
    }
}

#[derive(Serialize)]
struct Outcome {
    /// Whether enough agrees, and both controls disagree.
    calibrated: bool,
    all: Tally,
    by_figure: BTreeMap<Figure, Tally>,
    controls: Vec<Control>,
    /// By scheduler.
    machines: BTreeMap<&'static str, Calibration>,
    rows: Vec<Row>,
    rounds: u64,
    seed: u64,
}

fn main() -> ExitCode {
    let outcome = bench(&Args::parse());
    let calibrated = outcome.as_ref().is_ok_and(|outcome| outcome.calibrated);
    match finish(outcome) {
        ExitCode::SUCCESS if !calibrated => ExitCode::from(Kind::Failed.exit_code()),
        code => code,
    }
}

fn bench(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let files = files(args)?;
    let candidates = candidates(&CandidateEnv::system())?;
    let mut schedulers = Vec::new();
    for (name, policy) in POLICIES.map(|name| (name, name)).into_iter().chain([LANES]) {
        let candidate = find(&candidates, policy)?.clone();
        schedulers.push(Scheduler { name, policy, lanes: name == LANES.0, candidate });
    }
    let mut pairs = Vec::new();
    for (at, scheduler) in schedulers.iter().enumerate() {
        let wanted = files.iter().filter(|(_, file)| file.lanes.is_empty() != scheduler.lanes);
        pairs.extend(wanted.map(|(scenario, file)| Pair {
            scenario,
            file,
            scheduler: at,
            played: Vec::new(),
        }));
    }

    let mut switcher = Switcher::new(SwitcherOptions::new("bench-calibration"))?;
    let mut machines = BTreeMap::new();
    for scheduler in &schedulers {
        put_in_force(&mut switcher, &scheduler.candidate)?;
        // As it is while scenarios are played.
        let tracer = WaitTracer::attach(&[])?;
        let machine = calibrate(scheduler.name, &interrupt)?;
        drop(tracer);
        eprint!("{}", machine.to_toml());
        machines.insert(scheduler.name, machine);
    }
    let progress = Progress::new("bench-calibration", args.rounds * pairs.len() as u64);
    for round in 0..args.rounds {
        for s in order(schedulers.len(), args.seed, round) {
            put_in_force(&mut switcher, &schedulers[s].candidate)?;
            for pair in pairs.iter_mut().filter(|pair| pair.scheduler == s) {
                progress.message(format!("{} under {}", pair.scenario, schedulers[s].name));
                let played = play(pair.file, &mut switcher, args.seed + round, &interrupt)?;
                pair.played.push(figures_of_machine(&played));
                switcher.check_alive()?;
                progress.step();
            }
        }
    }
    switcher.restore()?;
    drop(progress);
    compare(args, &schedulers, &pairs, machines)
}

/// The scenarios that are asked for.
fn files(args: &Args) -> Result<Vec<(&'static str, ScenarioFile)>> {
    if let Some(unknown) =
        args.scenarios.iter().find(|name| !SCENARIOS.iter().any(|(known, _)| known == name))
    {
        let known = SCENARIOS.map(|(name, _)| name).join(", ");
        let attempt = format!("play '{unknown}'");
        return Err(Error::new(Kind::BadInput, attempt, "there is no such scenario")
            .remedy(format!("there are {known}")));
    }
    let wanted = |name: &str| args.scenarios.is_empty() || args.scenarios.iter().any(|n| n == name);
    let mut files = Vec::new();
    for (name, text) in SCENARIOS.into_iter().filter(|(name, _)| wanted(name)) {
        let mut file = ScenarioFile::parse(Path::new(&format!("{name}.toml")), text)?;
        if let Some(duration) = args.duration {
            file.duration_ns = duration.as_nanos() as u64;
        }
        files.push((name, file));
    }
    Ok(files)
}

/// Plays a scenario once under what is in force, with its lanes if it has any.
fn play(
    file: &ScenarioFile,
    switcher: &mut Switcher,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Played> {
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

fn figures_of_machine(played: &Played) -> BTreeMap<String, Figures> {
    let seconds = played.window_ns as f64 / 1e9;
    let of_group = |group: &metasched_play::PlayedGroup| {
        let wait = |q| Some(group.waits.as_ref()?.percentile_ns(q)? as f64 / 1e3);
        Figures::from([
            (Figure::Cpus, Some(group.cpu_ns as f64 / 1e9 / seconds)),
            (Figure::WaitP50, wait(0.5)),
            (Figure::WaitP99, wait(0.99)),
            (Figure::Switches, Some(group.switches() as f64 / seconds)),
            (Figure::Migrations, group.migrations.map(|n| n as f64 / seconds)),
        ])
    };
    played.groups.iter().map(|(path, group)| (path.clone(), of_group(group))).collect()
}

/// Simulates a scenario once, with its lanes; `slice_ns` is the root lane's, if it is not to be
/// the policy's default.
fn simulate(
    file: &ScenarioFile,
    root: &str,
    machine: &Machine,
    seed: u64,
    slice: Option<&str>,
) -> Result<BTreeMap<String, Figures>> {
    let figures = Rc::new(RefCell::new(Simulated::new(machine.clone(), file.warm_up_ns)));
    let bounded: Scenario =
        policy(file.name.clone(), root).waits_at_most(WATCHDOG_NS).idle_at_most(WATCHDOG_NS);
    let mut scenario = file
        .with_lanes(file.apply(bounded))
        .machine(machine.clone())
        .seed(seed)
        .run_for(file.duration_ns)
        .read_by(&figures);
    if let Some(slice) = slice {
        let (option, value) = options::option(root, "slice", slice)?;
        scenario = scenario.at(0, move |kernel| set_option(kernel, 0, option, value));
    }
    scenario.run().map_err(|failure| {
        Error::new(Kind::Simulation, format!("simulate '{}'", file.name), failure)
    })?;
    let figures = figures.borrow();
    let seconds = figures.window_ns() as f64 / 1e9;
    let of_group = |group: &metasched_sim::figures::GroupFigures| {
        let wait = |q| group.waits.percentile_ns(q).map(|ns| ns as f64 / 1e3);
        Figures::from([
            (Figure::Cpus, Some(group.cpu_ns as f64 / 1e9 / seconds)),
            (Figure::WaitP50, wait(0.5)),
            (Figure::WaitP99, wait(0.99)),
            (Figure::Switches, Some(group.switches() as f64 / seconds)),
            (Figure::Migrations, Some(group.migrations as f64 / seconds)),
        ])
    };
    Ok(figures.groups().map(|(path, group)| (path.to_owned(), of_group(group))).collect())
}

/// The figures of one cgroup in every run.
fn of_cgroup(runs: &[BTreeMap<String, Figures>], cgroup: &str) -> Vec<Figures> {
    runs.iter().map(|run| run.get(cgroup).cloned().unwrap_or_default()).collect()
}

fn compare(
    args: &Args,
    schedulers: &[Scheduler],
    pairs: &[Pair],
    machines: BTreeMap<&'static str, Calibration>,
) -> Result<Outcome> {
    let simulated = |pair: &Pair, root: &str, scheduler: &str, slice: Option<&str>| {
        let machine = machines[scheduler].spec()?.machine()?;
        let seeds = args.seed..args.seed + args.rounds;
        let runs: Result<Vec<_>> =
            seeds.map(|seed| simulate(pair.file, root, &machine, seed, slice)).collect();
        runs
    };
    let mut rows = Vec::new();
    for pair in pairs {
        let Scheduler { name, policy, .. } = schedulers[pair.scheduler];
        let runs = simulated(pair, policy, name, None)?;
        let cgroups = pair.played.first().into_iter().flat_map(BTreeMap::keys);
        rows.extend(cgroups.map(|cgroup| Row {
            scenario: pair.scenario.to_owned(),
            scheduler: name,
            cgroup: cgroup.clone(),
            cells: cells(&of_cgroup(&pair.played, cgroup), &of_cgroup(&runs, cgroup)),
        }));
    }
    let pair = |scenario: &str| {
        let under_fifo = |pair: &&Pair| schedulers[pair.scheduler].name == "fifo";
        pairs.iter().filter(under_fifo).find(|pair| pair.scenario == scenario)
    };
    let mut controls = Vec::new();
    for (what, scenario, cgroup, root, slice, figure) in [
        (
            "fifo on the machine, vtime in the simulator",
            "weights",
            "heavy",
            "vtime",
            None,
            Figure::Cpus,
        ),
        (
            "slices of 20 ms on the machine, of 5 ms in the simulator",
            "hogs",
            "hogs",
            "fifo",
            Some("5ms"),
            Figure::Switches,
        ),
    ] {
        let cell = pair(scenario)
            .map(|pair| -> Result<Option<Cell>> {
                let runs = simulated(pair, root, "fifo", slice)?;
                let cells = cells(&of_cgroup(&pair.played, cgroup), &of_cgroup(&runs, cgroup));
                Ok(cells.into_iter().find(|cell| cell.figure == figure))
            })
            .transpose()?
            .flatten();
        let disagrees = cell.is_some_and(|cell| cell.verdict() == Verdict::Disagrees);
        controls.push(Control { what, cell, disagrees });
    }
    let (mut all, mut by_figure) = (Tally::default(), BTreeMap::<Figure, Tally>::new());
    for cell in rows.iter().flat_map(|row| &row.cells) {
        all.count(cell.verdict());
        by_figure.entry(cell.figure).or_default().count(cell.verdict());
    }
    show_all(&rows, &by_figure, &controls);
    let enough = all.agree as f64 >= DEMANDED * all.cells() as f64;
    Ok(Outcome {
        calibrated: enough && controls.iter().all(|control| control.disagrees),
        all,
        by_figure,
        controls,
        machines,
        rows,
        rounds: args.rounds,
        seed: args.seed,
    })
}

fn show_all(rows: &[Row], by_figure: &BTreeMap<Figure, Tally>, controls: &[Control]) {
    let mut shown =
        table(&["scenario", "under", "cgroup", "figure", "machine", "simulator", "ratio", ""]);
    for row in rows {
        for cell in &row.cells {
            shown.add_row([
                row.scenario.clone(),
                row.scheduler.to_owned(),
                row.cgroup.clone(),
                cell.figure.name().to_owned(),
                side(cell.machine),
                side(cell.simulator),
                cell.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
                verdict(cell).to_owned(),
            ]);
        }
    }
    println!("{shown}");
    let mut tallies = table(&["figure", "tolerance, a factor of", "agree", "of"]);
    for (figure, tally) in by_figure {
        tallies.add_row([
            figure.name().to_owned(),
            figure.tolerance().to_string(),
            tally.agree.to_string(),
            tally.cells().to_string(),
        ]);
    }
    println!("{tallies}");
    let mut told = table(&["must disagree", "figure", "machine", "simulator", ""]);
    for control in controls {
        let cell = control.cell;
        told.add_row([
            control.what.to_owned(),
            cell.map_or("-", |cell| cell.figure.name()).to_owned(),
            side(cell.and_then(|cell| cell.machine)),
            side(cell.and_then(|cell| cell.simulator)),
            cell.as_ref().map_or("not measured", verdict).to_owned(),
        ]);
    }
    println!("{told}");
}

fn verdict(cell: &Cell) -> &'static str {
    match cell.verdict() {
        Verdict::Agrees => "agrees",
        Verdict::Disagrees => "DISAGREES",
        Verdict::NotMeasured => "not measured",
    }
}

/// A median with its interval: `1.03 [1.00-1.06]`.
fn side(side: Option<Side>) -> String {
    let digits = |value: f64| if value < 10.0 { 3 } else { 0 };
    match side {
        None => "not measured".to_owned(),
        Some(Side { median, interval: None }) => format!("{median:.*}", digits(median)),
        Some(Side { median, interval: Some((low, high)) }) => {
            let digits = digits(median);
            format!("{median:.digits$} [{low:.digits$}-{high:.digits$}]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> ScenarioFile {
        let (_, text) = SCENARIOS.iter().find(|(known, _)| *known == name).unwrap();
        ScenarioFile::parse(Path::new("s.toml"), text).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[test]
    fn every_scenario_can_be_played_on_one_cpu_and_simulated() {
        for (name, _) in SCENARIOS {
            let mut file = file(name);
            Plan::of(&file, None, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            file.duration_ns = ms(500);
            let runs = simulate(&file, "fifo", &Machine::cpus(2), 1, None).unwrap();
            assert!(!runs.is_empty(), "{name}");
        }
    }

    /// The simulator in place of the machine: what is the same agrees, what must disagree does.
    #[test]
    fn the_controls_can_be_told_from_what_is_the_same() {
        let runs = |name: &str, root: &str, slice: Option<&str>, first: u64| {
            let file = file(name);
            let machine = Machine::cpus(2);
            let all = (first..first + 6).map(|seed| simulate(&file, root, &machine, seed, slice));
            all.map(Result::unwrap).collect::<Vec<_>>()
        };
        for (name, cgroup, root, slice, figure) in [
            ("weights", "heavy", "vtime", None, Figure::Cpus),
            ("hogs", "hogs", "fifo", Some("5ms"), Figure::Switches),
        ] {
            let machine = of_cgroup(&runs(name, "fifo", None, 100), cgroup);
            let verdict = |root: &str, slice: Option<&str>| {
                let simulator = of_cgroup(&runs(name, root, slice, 1), cgroup);
                let cells = cells(&machine, &simulator);
                cells.iter().find(|cell| cell.figure == figure).unwrap().verdict()
            };
            assert_eq!(verdict("fifo", None), Verdict::Agrees, "{name}");
            assert_eq!(verdict(root, slice), Verdict::Disagrees, "{name}");
        }
    }
}
