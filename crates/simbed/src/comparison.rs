//! Contenders over seeds: figures of each, and ratios to the first.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result};
use metasched_experiment::{Counts, Work, per_second};
use metasched_stats::{DurationHistogram, Interval, mean, paired_estimate, paired_ratio};
use serde::Serialize;

use crate::arrangement::Arrangement;
use crate::report::{Entry, GroupEntry, Report, Spread};
use crate::runs::{Group, Run};
use crate::setup::Setup;

/// More cgroups than this are left out of tables.
const ROWS: usize = 16;
/// Of the resampling behind the intervals; any will do, but always the same.
const BOOTSTRAP_SEED: u64 = 1;
/// Ratios are kept to this part: what differs below it may differ with the C library that
/// logarithms come from.
const ROUNDING: f64 = 1e6;

/// All runs of all contenders.
pub struct Comparison<'a> {
    setup: &'a Setup,
    arrangements: &'a [Arrangement],
    /// By seed, then by arrangement.
    rounds: Vec<Vec<Run>>,
    precision: Option<f64>,
}

/// What contenders are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Work per second.
    Throughput,
    /// The 99th percentile of waits for a CPU.
    WaitP99,
    /// The 99th percentile of responses.
    ResponseP99,
}

/// A ratio to the first contender.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// The ratio itself.
    pub estimate: f64,
    /// Over the seeds, where there are several and a table shows it.
    pub interval: Option<Interval>,
}

impl Metric {
    const ALL: [Metric; 3] = [Metric::Throughput, Metric::WaitP99, Metric::ResponseP99];

    fn of(self, group: &Group, work: Work, run: &Run) -> Option<f64> {
        let p99 = |of: &DurationHistogram| of.percentile_ns(0.99).map(|ns| ns as f64);
        match self {
            Metric::Throughput => Some(per_second(work.amount(group.counts()), run.window_ns)),
            Metric::WaitP99 => p99(&group.figures.waits),
            Metric::ResponseP99 => p99(&group.responses),
        }
    }
}

/// The version of the simulator, with a hash of what decides what a run does.
pub fn version() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), env!("SIM_SOURCES"))
}

/// A figure as it is printed and decided by.
pub fn rounded(value: f64) -> f64 {
    (value * ROUNDING).round() / ROUNDING
}

/// A cgroup's name in tables.
pub fn name(path: &str) -> &str {
    if path.is_empty() { "(root)" } else { path }
}

fn rounded_interval(interval: Interval) -> Interval {
    let Interval { estimate, low, high, n } = interval;
    Interval { estimate: rounded(estimate), low: rounded(low), high: rounded(high), n }
}

impl<'a> Comparison<'a> {
    /// Of these runs, by seed and then by contender.
    pub fn new(setup: &'a Setup, arrangements: &'a [Arrangement], rounds: Vec<Vec<Run>>) -> Self {
        Comparison { setup, arrangements, rounds, precision: None }
    }

    /// Says how narrow the intervals were to be.
    pub fn wanted(self, precision: f64) -> Self {
        Comparison { precision: Some(precision), ..self }
    }

    /// The seed of the first round.
    pub fn first_seed(&self) -> u64 {
        self.rounds[0][0].seed
    }

    /// Refuses lanes of cgroups that have no task: a slip of the pen would pass as a result.
    pub fn check_lanes(&self) -> Result<()> {
        for (at, arrangement) in self.arrangements.iter().enumerate() {
            let groups = &self.rounds[0][at].groups;
            let lies_in = |path: &str, cgroup: &str| {
                path.strip_prefix(cgroup)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let empty = arrangement
                .cgroups()
                .into_iter()
                .find(|c| !groups.iter().any(|g| lies_in(&g.path, c)));
            if let Some(cgroup) = empty {
                let known: Vec<&str> = groups.iter().map(|g| name(&g.path)).collect();
                return Err(Error::new(
                    Kind::BadInput,
                    format!("simulate a lane of the cgroup '{cgroup}'"),
                    format!("no task of '{}' is in it", self.setup.file.name),
                )
                .remedy(format!("its tasks are in {}", known.join(", "))));
            }
        }
        Ok(())
    }

    /// The cgroups that tables show, those that use most under the first contender: nobody
    /// reads thousands of rows, and intervals take milliseconds each.
    fn largest(&self) -> Vec<&str> {
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for group in self.rounds.iter().flat_map(|round| &round[0].groups) {
            *used.entry(&group.path).or_default() += group.figures.cpu_ns;
        }
        let mut paths = self.paths().into_iter().flatten().collect::<Vec<_>>();
        paths.sort_by_key(|path| std::cmp::Reverse(used.get(path).copied().unwrap_or(0)));
        paths.truncate(ROWS);
        paths
    }

    /// How wide the widest interval of a ratio that is shown is, to either side, as a part of the ratio;
    /// absent where there is none.
    pub fn widest(&self) -> Option<f64> {
        let largest = self.largest();
        let shown = largest.iter().map(|path| Some(*path)).chain([None]);
        let ratios = shown.flat_map(|path| {
            (1..self.arrangements.len()).flat_map(move |at| self.ratios(at, path, true))
        });
        let widths = ratios.filter_map(|(_, ratio)| ratio.interval);
        widths.map(|interval| rounded(interval.relative_half_width())).reduce(f64::max)
    }

    /// Every cgroup, by the first run; `None` is all of them together.
    fn paths(&self) -> Vec<Option<&str>> {
        let groups = &self.rounds[0][0].groups;
        let named = groups.iter().map(|group| Some(group.path.as_str()));
        // One cgroup is the same as all.
        named.filter(|_| groups.len() > 1).chain([None]).collect()
    }

    fn group<'r>(&self, run: &'r Run, path: Option<&str>) -> Option<&'r Group> {
        match path {
            None => Some(&run.all),
            Some(path) => run.group(path),
        }
    }

    /// What the work of a cgroup is counted in: the same for all contenders, or it could
    /// not be compared.
    fn work(&self, path: Option<&str>) -> Work {
        let runs: Vec<Counts> = self
            .rounds
            .iter()
            .flatten()
            .map(|run| self.group(run, path).map(Group::counts).unwrap_or_default())
            .collect();
        Work::of(runs.iter().copied())
    }

    fn ratios(&self, contender: usize, path: Option<&str>, shown: bool) -> BTreeMap<Metric, Ratio> {
        let work = self.work(path);
        let ratio = |metric: Metric| {
            let value = |run| metric.of(self.group(run, path)?, work, run);
            let pairs: Option<Vec<(f64, f64)>> = self
                .rounds
                .iter()
                .map(|round| Some((value(&round[contender])?, value(&round[0])?)))
                .collect();
            let pairs = pairs?;
            let estimate = rounded(paired_estimate(&pairs)?);
            let interval = if shown { paired_ratio(&pairs, BOOTSTRAP_SEED) } else { None };
            let interval = interval.map(rounded_interval);
            Some((metric, Ratio { estimate, interval }))
        };
        Metric::ALL.into_iter().filter_map(ratio).collect()
    }

    /// Everything that is printed; `replay` is the command that gives it again.
    pub fn report(&self, replay: String) -> Report {
        Report {
            version: version(),
            scenario: self.setup.file.name.clone(),
            about: self.setup.file.about.clone(),
            machine: self.setup.machine_text(),
            duration_ns: self.setup.file.duration_ns,
            warm_up_ns: self.setup.file.warm_up_ns,
            seeds: self.rounds.iter().map(|round| round[0].seed).collect(),
            contenders: (0..self.arrangements.len()).map(|at| self.entry(at)).collect(),
            precision: self.precision,
            widest: self.widest(),
            replay,
        }
    }

    fn entry(&self, contender: usize) -> Entry {
        let runs: Vec<&Run> = self.rounds.iter().map(|round| &round[contender]).collect();
        let largest = self.largest();
        let capacity: u64 = runs.iter().map(|run| run.capacity_ns).sum();
        let part = |of: fn(&Run) -> u64| {
            let sum: u64 = runs.iter().map(|run| of(run)).sum();
            rounded(sum as f64 / capacity.max(1) as f64)
        };
        Entry {
            name: self.arrangements[contender].name.clone(),
            groups: self
                .paths()
                .into_iter()
                .map(|path| self.group_entry(contender, path, &runs, &largest))
                .collect(),
            utilisation: part(|run| run.all.figures.cpu_ns),
            idle_beside_work: Some(part(|run| run.idle_beside_work_ns)),
            events: Some(runs.iter().map(|run| run.events).sum()),
        }
    }

    fn group_entry(
        &self,
        contender: usize,
        path: Option<&str>,
        runs: &[&Run],
        largest: &[&str],
    ) -> GroupEntry {
        let shown = path.is_none_or(|path| largest.contains(&path));
        let work = self.work(path);
        let pairs: Vec<(&Run, &Group)> =
            runs.iter().filter_map(|run| Some((*run, self.group(run, path)?))).collect();
        let rate = |of: &dyn Fn(&Group) -> f64| {
            let rates: Vec<f64> =
                pairs.iter().map(|(run, group)| per_second(of(group), run.window_ns)).collect();
            rounded(mean(&rates).unwrap_or(0.0))
        };
        let used: u64 = runs.iter().map(|run| run.all.figures.cpu_ns).sum();
        let own: u64 = pairs.iter().map(|(_, group)| group.figures.cpu_ns).sum();
        let spread = |of: fn(&Group) -> &DurationHistogram| {
            let mut all = DurationHistogram::default();
            pairs.iter().for_each(|(_, group)| all.merge(of(group)));
            Spread::of(&all)
        };
        GroupEntry {
            cgroup: path.map_or("all", name).to_owned(),
            shown,
            tasks: pairs.iter().map(|(_, group)| group.figures.tasks).max().unwrap_or(0),
            work,
            throughput_per_s: rate(&|group| work.amount(group.counts())),
            cpus: rate(&|group| group.figures.cpu_ns as f64 / 1e9),
            share: rounded(own as f64 / used.max(1) as f64),
            wait: Some(spread(|group| &group.figures.waits)),
            throttled_ns: {
                let all: u64 = pairs.iter().map(|(_, group)| group.figures.throttled_ns).sum();
                Some(all / pairs.len().max(1) as u64)
            },
            response: Some(spread(|group| &group.responses)).filter(|spread| spread.count > 0),
            voluntary_per_s: rate(&|group| group.figures.voluntary as f64),
            involuntary_per_s: rate(&|group| group.figures.involuntary as f64),
            migrations_per_s: Some(rate(&|group| group.figures.migrations as f64)),
            across_llcs_per_s: Some(rate(&|group| group.figures.across_llcs as f64)),
            across_nodes_per_s: Some(rate(&|group| group.figures.across_nodes as f64)),
            ratios: match contender {
                0 => BTreeMap::new(),
                other => self.ratios(other, path, shown),
            },
        }
    }
}
