//! The simulator's side, beside the machine's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use metasched_base::{Error, Kind, Result};
use metasched_benches::agreement::{Cell, Figure, Figures, Verdict, cells};
use metasched_benches::machine_side::{MachineSide, Pair};
use metasched_replay::Calibration;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_sim::figures::RunFigures;
use metasched_sim::metasched::set_option;
use metasched_sim::{Scenario, ms, options, policy};
use metasched_stats::DurationHistogram;
use serde::Serialize;

use crate::show::show_all;
use crate::{EEVDF, SCHEDULERS, file_of, responses};

/// A task may wait so long in the simulator: as long as the kernel lets it, ns.
const WATCHDOG_NS: u64 = ms(30_000);
/// So many of the cells have to agree.
const DEMANDED: f64 = 0.8;

/// A cgroup's cells.
#[derive(Serialize)]
pub struct Row {
    pub scenario: String,
    pub scheduler: String,
    pub cgroup: String,
    pub cells: Vec<Cell>,
}

/// A comparison that must fail.
#[derive(Serialize)]
pub struct Control {
    pub what: &'static str,
    /// The figure that tells.
    pub cell: Option<Cell>,
    disagrees: bool,
}

#[derive(Clone, Copy, Default, Serialize)]
pub struct Tally {
    pub agree: u64,
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

    pub fn cells(&self) -> u64 {
        self.agree + self.disagree + self.not_measured
    }
}

#[derive(Serialize)]
pub struct Outcome {
    /// Whether enough agrees, and both controls disagree.
    pub calibrated: bool,
    all: Tally,
    by_figure: BTreeMap<Figure, Tally>,
    controls: Vec<Control>,
    /// By scheduler.
    machines: BTreeMap<String, Calibration>,
    rows: Vec<Row>,
    rounds: u64,
    seed: u64,
}

/// Simulates a scenario once, with its lanes; `slice_ns` is the root lane's, if it is not to be
/// the policy's default.
fn simulate(
    file: &ScenarioFile,
    root: &str,
    spec: &MachineSpec,
    seed: u64,
    slice: Option<&str>,
) -> Result<BTreeMap<String, Figures>> {
    let machine = spec.machine()?;
    // What still waits at the end the machine's tracer has not seen either.
    let figures = RunFigures::new(machine.clone(), file.warm_up_ns).waits_that_ended();
    let figures = Rc::new(RefCell::new(figures));
    let under = match root {
        EEVDF => Scenario::eevdf(file.name.clone()),
        root => policy(file.name.clone(), root),
    };
    let bounded = under.waits_at_most(WATCHDOG_NS).idle_at_most(WATCHDOG_NS);
    let mut scenario = bounded
        .with_file(file)
        .with_kernel_threads(spec)
        .with_lanes(&file.lanes)
        .machine(machine.clone())
        .seed(seed)
        .run_for(file.duration_ns)
        .read_by(&figures);
    if let Some(slice) = slice {
        let (option, value) = options::option(root, "slice", slice)?;
        scenario = scenario.at(0, move |kernel| set_option(kernel, 0, option, value));
    }
    let outcome = scenario.run().map_err(|failure| {
        Error::new(Kind::Simulation, format!("simulate '{}'", file.name), failure)
    })?;
    let figures = figures.borrow();
    let seconds = figures.window_ns() as f64 / 1e9;
    let of_group = |path: &str, group: &metasched_sim::figures::GroupFigures| {
        let wait = |q| group.waits.percentile_ns(q).map(|ns| ns as f64 / 1e3);
        let mut all = DurationHistogram::default();
        let each_ns = outcome.work_in(path).flat_map(|(each_ns, _)| each_ns);
        each_ns.for_each(|ns| all.record(*ns));
        let mut figures = Figures::from([
            (Figure::Cpus, Some(group.cpu_ns as f64 / 1e9 / seconds)),
            (Figure::WaitP50, wait(0.5)),
            (Figure::WaitP99, wait(0.99)),
            (Figure::Switches, Some(group.switches() as f64 / seconds)),
            (Figure::Migrations, Some(group.migrations as f64 / seconds)),
        ]);
        figures.extend(responses(&all));
        figures
    };
    Ok(figures.groups().map(|(path, group)| (path.to_owned(), of_group(path, group))).collect())
}

/// The figures of one cgroup in every run.
fn of_cgroup(runs: &[BTreeMap<String, Figures>], cgroup: &str) -> Vec<Figures> {
    runs.iter().map(|run| run.get(cgroup).cloned().unwrap_or_default()).collect()
}

/// The simulator's side, beside the machine's.
pub fn compare(files: &[(&str, ScenarioFile)], side: &MachineSide) -> Result<Outcome> {
    let MachineSide { rounds, seed, .. } = *side;
    let known = |pair: &&Pair| files.iter().any(|(name, _)| *name == pair.scenario);
    let simulated = |pair: &Pair, root: &str, slice: Option<&str>| {
        let measured = side.machines.get(&pair.scheduler).ok_or_else(|| {
            let attempt = format!("model the machine under '{}'", pair.scheduler);
            Error::new(Kind::BadInput, attempt, "it was not measured")
        })?;
        let (machine, file) = (measured.spec()?, file_of(files, &pair.scenario)?);
        let runs: Result<Vec<_>> =
            (seed..seed + rounds).map(|seed| simulate(file, root, &machine, seed, slice)).collect();
        runs
    };
    let mut rows = Vec::new();
    for pair in side.pairs.iter().filter(known) {
        let policy = SCHEDULERS.iter().find(|(name, _)| *name == pair.scheduler);
        let runs = simulated(pair, policy.map_or("", |(_, policy)| policy), None)?;
        let cgroups = pair.runs.first().into_iter().flat_map(BTreeMap::keys);
        rows.extend(cgroups.map(|cgroup| Row {
            scenario: pair.scenario.clone(),
            scheduler: pair.scheduler.clone(),
            cgroup: cgroup.clone(),
            cells: cells(&of_cgroup(&pair.runs, cgroup), &of_cgroup(&runs, cgroup)),
        }));
    }
    let under_fifo = |scenario: &str| {
        let mut pairs = side.pairs.iter().filter(known);
        pairs.find(|pair| pair.scheduler == "fifo" && pair.scenario == scenario)
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
        let cell = under_fifo(scenario)
            .map(|pair| -> Result<Option<Cell>> {
                let runs = simulated(pair, root, slice)?;
                let cells = cells(&of_cgroup(&pair.runs, cgroup), &of_cgroup(&runs, cgroup));
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
        machines: side.machines.clone(),
        rows,
        rounds,
        seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCENARIOS;
    use metasched_replay::Replayable;
    use std::path::Path;

    fn file(name: &str) -> ScenarioFile {
        let (_, text) = SCENARIOS.iter().find(|(known, _)| *known == name).unwrap();
        ScenarioFile::parse(Path::new("s.toml"), text).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn two_cpus() -> MachineSpec {
        MachineSpec { cpus: 2, ..MachineSpec::default() }
    }

    #[test]
    fn every_scenario_can_be_replayed_on_one_cpu_and_simulated() {
        for (name, _) in SCENARIOS {
            let mut file = file(name);
            Replayable::of(&file, None, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            file.duration_ns = ms(500);
            let runs = simulate(&file, "fifo", &two_cpus(), 1, None).unwrap();
            assert!(!runs.is_empty(), "{name}");
        }
    }

    /// The simulator in place of the machine: what is the same agrees, what must disagree does.
    #[test]
    fn the_controls_can_be_told_from_what_is_the_same() {
        let runs = |name: &str, root: &str, slice: Option<&str>, first: u64| {
            let file = file(name);
            let machine = two_cpus();
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
