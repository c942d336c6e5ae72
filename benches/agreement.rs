//! Whether a model and what it models agree: a tolerance for each figure, and what is too
//! little to be compared.

use std::collections::BTreeMap;

use metasched_stats::{median, median_interval};
use serde::{Deserialize, Serialize};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// CPUs in use in the mean.
    Cpus,
    /// Waits for a CPU, us: the median.
    WaitP50,
    /// The same: the 99th percentile.
    WaitP99,
    /// Context switches per second, of both kinds.
    Switches,
    /// Changes of CPU per second.
    Migrations,
    /// From a request's arrival to its answer, us: the median. Only of who answers any.
    ResponseP50,
    /// The same: the 99th percentile.
    ResponseP99,
}

impl Figure {
    /// All of them, in the order of the table.
    pub const ALL: [Figure; 7] = [
        Self::Cpus,
        Self::WaitP50,
        Self::WaitP99,
        Self::Switches,
        Self::Migrations,
        Self::ResponseP50,
        Self::ResponseP99,
    ];

    /// Its name in the table, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs in use",
            Self::WaitP50 => "wait p50, us",
            Self::WaitP99 => "wait p99, us",
            Self::Switches => "switches/s",
            Self::Migrations => "migrations/s",
            Self::ResponseP50 => "response p50, us",
            Self::ResponseP99 => "response p99, us",
        }
    }

    /// Both agree if their ratio is no farther from 1 than this, either way.
    pub fn tolerance(self) -> f64 {
        match self {
            Self::Cpus => 1.02,
            Self::WaitP50 | Self::WaitP99 | Self::ResponseP50 | Self::ResponseP99 => 1.5,
            Self::Switches | Self::Migrations => 1.2,
        }
    }

    /// Both agree if they differ by no more than this, which is of no interest: a thousandth
    /// of a CPU and a half; ten us, in which an emulated machine takes an interrupt; and as
    /// many events as a run has by chance.
    pub fn trifle(self) -> f64 {
        match self {
            Self::Cpus => 0.0015,
            Self::WaitP50 | Self::WaitP99 | Self::ResponseP50 | Self::ResponseP99 => 10.0,
            Self::Switches | Self::Migrations => 4.0,
        }
    }
}

/// The figures of a cgroup in one run; none where it was not measured. What it cannot have,
/// such as response times without requests, is not among them.
pub type Figures = BTreeMap<Figure, Option<f64>>;

/// A figure over several runs of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The median of the runs.
    pub median: f64,
    /// The interval that holds the true median with 95 % confidence; none for few runs.
    pub interval: Option<(f64, f64)>,
}

impl Side {
    /// Of these runs; none if one of them has no such figure, or there is none.
    pub fn of(runs: &[Option<f64>]) -> Option<Side> {
        let values: Option<Vec<f64>> = runs.iter().copied().collect();
        let values = values?;
        let interval = median_interval(&values).map(|interval| (interval.low, interval.high));
        Some(Side { median: median(&values)?, interval })
    }
}

/// One figure of one cgroup, on both sides.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// What.
    pub figure: Figure,
    /// On the machine.
    pub machine: Option<Side>,
    /// In the simulator.
    pub simulator: Option<Side>,
}

/// What becomes of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Outside of it.
    Disagrees,
    /// One side has no such figure.
    NotMeasured,
}

impl Cell {
    /// The simulator's median over the machine's; none where that is not to be had.
    pub fn ratio(&self) -> Option<f64> {
        let (machine, simulator) = (self.machine?.median, self.simulator?.median);
        (machine > 0.0).then(|| simulator / machine)
    }

    /// Whether both sides agree.
    pub fn verdict(&self) -> Verdict {
        let (Some(machine), Some(simulator)) = (self.machine, self.simulator) else {
            return Verdict::NotMeasured;
        };
        let tolerance = self.figure.tolerance();
        let near = |ratio: f64| (1.0 / tolerance..=tolerance).contains(&ratio);
        let trifle = (machine.median - simulator.median).abs() <= self.figure.trifle();
        if trifle || self.ratio().is_some_and(near) { Verdict::Agrees } else { Verdict::Disagrees }
    }
}

/// The cells of a cgroup, from the figures of runs on both sides: one for each figure that any
/// of them has.
pub fn cells(machine: &[Figures], simulator: &[Figures]) -> Vec<Cell> {
    let side = |runs: &[Figures], figure: Figure| {
        let of: Vec<Option<f64>> =
            runs.iter().map(|run| run.get(&figure).copied().flatten()).collect();
        Side::of(&of)
    };
    let has = |figure: &Figure| machine.iter().chain(simulator).any(|run| run.contains_key(figure));
    Figure::ALL
        .into_iter()
        .filter(has)
        .map(|figure| Cell {
            figure,
            machine: side(machine, figure),
            simulator: side(simulator, figure),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: &[(Figure, &[f64])]) -> Vec<Figures> {
        let count = of[0].1.len();
        (0..count)
            .map(|run| of.iter().map(|(figure, values)| (*figure, Some(values[run]))).collect())
            .collect()
    }

    fn verdict(figure: Figure, machine: &[f64], simulator: &[f64]) -> Verdict {
        let cells = cells(&runs(&[(figure, machine)]), &runs(&[(figure, simulator)]));
        cells.iter().find(|cell| cell.figure == figure).unwrap().verdict()
    }

    #[test]
    fn figures_agree_within_their_tolerances_and_not_beyond() {
        for (figure, far, near) in [
            (Figure::Cpus, 1.03, 1.015),
            (Figure::WaitP50, 1.6, 1.4),
            (Figure::WaitP99, 1.6, 1.4),
            (Figure::Switches, 1.25, 1.15),
            (Figure::Migrations, 1.25, 1.15),
        ] {
            let machine = [1_000.0, 1_000.0, 5_000.0];
            for (by, wanted) in [(near, Verdict::Agrees), (far, Verdict::Disagrees)] {
                for by in [by, 1.0 / by] {
                    let simulator = machine.map(|value| value * by);
                    assert_eq!(verdict(figure, &machine, &simulator), wanted, "{figure:?} {by}");
                }
            }
        }
    }

    #[test]
    fn trifles_agree_however_far_apart_they_are() {
        assert_eq!(verdict(Figure::WaitP50, &[2.0], &[9.0]), Verdict::Agrees);
        assert_eq!(verdict(Figure::Migrations, &[0.0], &[3.0]), Verdict::Agrees);
        assert_eq!(verdict(Figure::Migrations, &[0.0], &[30.0]), Verdict::Disagrees);
    }

    #[test]
    fn one_run_in_ten_that_is_off_decides_nothing_and_is_in_no_interval() {
        let mut machine = [100.0; 10];
        machine[3] = 900.0;
        assert_eq!(verdict(Figure::Switches, &machine, &[100.0; 10]), Verdict::Agrees);
        let side = Side::of(&machine.map(Some)).unwrap();
        assert_eq!((side.median, side.interval), (100.0, Some((100.0, 100.0))));
    }

    #[test]
    fn what_one_run_lacks_was_not_measured() {
        let machine = runs(&[(Figure::WaitP99, &[50.0, 60.0])]);
        let mut simulator = machine.clone();
        simulator[1].insert(Figure::WaitP99, None);
        let cells = cells(&machine, &simulator);
        // What neither side has is no cell.
        assert_eq!(cells.len(), 1, "{cells:?}");
        assert_eq!(cells[0].verdict(), Verdict::NotMeasured);
    }
}
