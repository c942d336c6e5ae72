//! What a fleet came to: how long calls took by the number of machines, and how many keep a latency.

use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

use super::Fleet;
use crate::calls::Calls;
use crate::comparison::version;

/// All machines together, for a number of them, a scheduler and a seed.
pub(super) struct Cell {
    pub key: (u64, usize, u64),
    pub calls: Calls,
}

/// Everything that is printed of a fleet.
#[derive(Debug, Serialize)]
pub struct FleetReport {
    /// The version of the simulator.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// What it is, in its own words; may be empty.
    pub about: String,
    /// Each machine, in words.
    pub machine: String,
    /// How many functions there are.
    pub functions: usize,
    /// What they use of CPUs in the mean if no call waits, by their samples.
    pub wanted_cpus: f64,
    /// What they ask for.
    pub requested_cpus: f64,
    /// So many machines it takes where nobody shares what a function asks for.
    pub dedicated_machines: u64,
    /// Who places.
    pub placer: String,
    /// How long a run was.
    pub duration_ns: u64,
    /// How much of that does not count.
    pub warm_up_ns: u64,
    /// The seed of each run.
    pub seeds: Vec<u64>,
    /// So many machines under the first scheduler are what all is compared with.
    pub baseline_machines: u64,
    /// By how much a percentile may be higher and still count as kept.
    pub tolerance: f64,
    /// By the number of machines and the scheduler.
    pub entries: Vec<FleetEntry>,
    /// How many machines each scheduler takes.
    pub verdicts: Vec<Verdict>,
    /// The command that gives the same again.
    pub replay: String,
}

/// A percentile: the median over the seeds, and what it is in times of the baseline's.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// ns.
    pub ns: f64,
    /// Over the baseline's machines and scheduler, with its 95 % interval; none with one seed.
    pub over_baseline: Option<Interval>,
    /// Over the first scheduler on as many machines.
    pub over_first: Option<Interval>,
}

/// So many machines under a scheduler, the medians over the seeds.
#[derive(Debug, Serialize)]
pub struct FleetEntry {
    /// How many machines.
    pub machines: u64,
    /// The scheduler.
    pub scheduler: String,
    /// Half of the calls took no longer.
    pub p50: Placed,
    /// 95 % of them.
    pub p95: Placed,
    /// 99 % of them.
    pub p99: Placed,
    /// Calls that were answered within a second, a second.
    pub timely_per_s: f64,
    /// All that were answered, a second.
    pub answered_per_s: f64,
    /// CPUs that ran calls.
    pub effective_cpus: f64,
    /// CPUs that were busy: those, and what the kernel took for itself.
    pub perceived_cpus: f64,
    /// Of all CPUs, those that were busy.
    pub utilisation: f64,
    /// Context switches a second, of each machine.
    pub switches_per_s: f64,
}

/// How many machines a scheduler takes.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// The scheduler.
    pub scheduler: String,
    /// The fewest that keep the median and the 95th percentile of the baseline, as all numbers above it
    /// do; none where not even the most do.
    pub machines: Option<u64>,
}

/// The report.
pub(super) fn report(fleet: &Fleet, cells: &[Cell], again: String) -> FleetReport {
    let Fleet { setup, spec, .. } = fleet;
    let seeds: Vec<u64> = (setup.first_seed..setup.first_seed + fleet.runs).collect();
    let of = |nodes: u64, scheduler: usize| -> Vec<&Calls> {
        let found = cells.iter().filter(|cell| (cell.key.0, cell.key.1) == (nodes, scheduler));
        found.map(|cell| &cell.calls).collect()
    };
    let baseline = of(spec.baseline, 0);
    let mut entries = Vec::new();
    for nodes in spec.machines.clone() {
        for (scheduler, name) in spec.schedulers.iter().enumerate() {
            let (calls, first) = (of(nodes, scheduler), of(nodes, 0));
            entries.push(entry(fleet, nodes, name, &calls, &baseline, &first));
        }
    }
    let verdicts = spec.schedulers.iter().map(|name| verdict(name, &entries, fleet.tolerance));
    let thousandths = |sum: u64| sum as f64 / 1_000.0;
    let functions = &setup.file.functions;
    let requested: u64 = functions.iter().map(|function| function.request).sum();
    FleetReport {
        version: version(),
        scenario: setup.file.name.clone(),
        about: setup.file.about.clone(),
        machine: setup.machine_text(),
        functions: functions.len(),
        wanted_cpus: thousandths(functions.iter().map(|function| function.uses).sum()),
        requested_cpus: thousandths(requested),
        dedicated_machines: requested.div_ceil(1_000 * setup.spec.cpus as u64),
        placer: spec.placer.name().to_owned(),
        duration_ns: setup.file.duration_ns,
        warm_up_ns: setup.file.warm_up_ns,
        seeds,
        baseline_machines: spec.baseline,
        tolerance: fleet.tolerance,
        verdicts: verdicts.collect(),
        entries,
        replay: again,
    }
}

fn entry(
    fleet: &Fleet,
    nodes: u64,
    name: &str,
    calls: &[&Calls],
    baseline: &[&Calls],
    first: &[&Calls],
) -> FleetEntry {
    let seconds = fleet.window_s();
    let middle = |figure: &dyn Fn(&Calls) -> f64| {
        let figures: Vec<f64> = calls.iter().map(|calls| figure(calls)).collect();
        median(&figures).unwrap_or(0.0)
    };
    let placed = |quantile: f64| {
        let of = |calls: &Calls| calls.percentile_ns(quantile);
        let over = |others: &[&Calls]| {
            let pairs = calls.iter().zip(others).map(|(one, other)| (of(one), of(other)));
            paired_ratio(&pairs.collect::<Vec<_>>(), fleet.setup.first_seed)
        };
        Placed { ns: middle(&of), over_baseline: over(baseline), over_first: over(first) }
    };
    let cpus = (nodes * fleet.setup.spec.cpus as u64) as f64;
    let busy = |calls: &Calls| calls.busy_ns() as f64 / 1e9 / seconds;
    FleetEntry {
        machines: nodes,
        scheduler: name.to_owned(),
        p50: placed(0.5),
        p95: placed(0.95),
        p99: placed(0.99),
        timely_per_s: middle(&|calls| calls.timely as f64 / seconds),
        answered_per_s: middle(&|calls| calls.responses.count() as f64 / seconds),
        effective_cpus: middle(&|calls| calls.ran_ns as f64 / 1e9 / seconds),
        perceived_cpus: middle(&busy),
        utilisation: middle(&busy) / cpus,
        switches_per_s: middle(&|calls| calls.switches as f64 / seconds / nodes as f64),
    }
}

/// From the most machines down, as long as both percentiles are kept.
fn verdict(name: &str, entries: &[FleetEntry], tolerance: f64) -> Verdict {
    let kept = |placed: &Placed| {
        placed.over_baseline.as_ref().is_some_and(|ratio| ratio.estimate <= 1.0 + tolerance)
    };
    let of = entries.iter().filter(|entry| entry.scheduler == name).rev();
    let keep = of.take_while(|entry| kept(&entry.p50) && kept(&entry.p95));
    Verdict { scheduler: name.to_owned(), machines: keep.last().map(|entry| entry.machines) }
}
