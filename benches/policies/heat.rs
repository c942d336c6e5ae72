//! What the rounds come to: ratios with intervals, and which of them are beyond noise.

use std::collections::BTreeMap;

use comfy_table::Table;
use metasched_benches::rounds::Kept;
use metasched_benches::{show, table};
use metasched_stats::{Interval, PairedRatio, holm};
use serde::Serialize;

use crate::loads::{Figure, Load};

/// What is called noise: the chance that anything is called better or worse among all that are
/// looked at together, and is not.
const NOISE: f64 = 0.05;
/// From here on a difference is large.
const LARGE: f64 = 1.25;

/// A scheduler beside another, by one figure.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// How many times as good as the other: above 1 is better, whatever the figure's unit.
    pub ratio: Option<Interval>,
    /// Beyond noise, corrected for all that were looked at.
    pub verdict: Verdict,
    /// Why there is no ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// What may be said of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Beyond noise.
    Better,
    /// Beyond noise.
    Worse,
    /// Within what the rounds tell.
    Alike,
    /// One of both has no figure in some round, or there is one round only.
    NotMeasured,
}

/// One over another, by all figures.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler.
    pub name: String,
    /// The one that it is compared with.
    pub over: String,
    /// By the figures' names.
    pub cells: BTreeMap<&'static str, Cell>,
}

fn figures(loads: &[&Load]) -> Vec<(&'static str, Figure)> {
    loads.iter().flat_map(|load| load.figures.iter().map(|f| (load.name, *f))).collect()
}

/// Compares the first of each pair with the second; verdicts are corrected for all of them.
pub fn compare(rounds: &Kept, loads: &[&Load], pairs: &[(String, String)], seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut p_values = Vec::new();
    for (name, over) in pairs {
        let mut cells = BTreeMap::new();
        for (load, figure) in figures(loads) {
            let values = rounds.pairs(figure.name, name, over);
            let oriented: Vec<(f64, f64)> =
                values.into_iter().map(|(value, baseline)| figure.over(value, baseline)).collect();
            let ratio = PairedRatio::new(&oriented, seed);
            let why = || rounds.why_not(load, name).or_else(|| rounds.why_not(load, over));
            cells.insert(
                figure.name,
                Cell {
                    verdict: if ratio.is_some() { Verdict::Alike } else { Verdict::NotMeasured },
                    not_measured: if ratio.is_some() { None } else { why().map(str::to_owned) },
                    ratio: ratio.as_ref().and_then(|ratio| ratio.interval(1.0 - NOISE)),
                },
            );
            p_values.extend(ratio.map(|ratio| (rows.len(), figure.name, ratio.p_value())));
        }
        rows.push(Row { name: name.clone(), over: over.clone(), cells });
    }
    let corrected = holm(&p_values.iter().map(|(.., p)| *p).collect::<Vec<_>>());
    for ((row, figure, _), p) in p_values.into_iter().zip(corrected) {
        let Some(cell) = rows[row].cells.get_mut(figure) else { continue };
        let estimate = cell.ratio.map_or(1.0, |ratio| ratio.estimate);
        if p < NOISE {
            cell.verdict = if estimate > 1.0 { Verdict::Better } else { Verdict::Worse };
        }
    }
    rows
}

impl Cell {
    /// How warm it is: `++` and `+` are better, `--` and `-` worse beyond noise, the doubled ones by a
    /// quarter or more.
    fn mark(&self) -> &'static str {
        let estimate = self.ratio.map_or(1.0, |ratio| ratio.estimate);
        match self.verdict {
            Verdict::Better if estimate >= LARGE => " ++",
            Verdict::Better => " +",
            Verdict::Worse if estimate <= 1.0 / LARGE => " --",
            Verdict::Worse => " -",
            Verdict::Alike | Verdict::NotMeasured => "",
        }
    }
}

/// All rows, with nothing but the estimates and their marks: what is warm, and what is cold.
pub fn map(title: &str, rows: &[Row], loads: &[&Load]) -> Table {
    draw(title, rows, loads, |cell| match cell.ratio {
        Some(ratio) => format!("{:.2}{}", ratio.estimate, cell.mark()),
        None => "not measured".to_owned(),
    })
}

/// The same with intervals.
pub fn intervals(title: &str, rows: &[Row], loads: &[&Load]) -> Table {
    draw(title, rows, loads, |cell| format!("{}{}", show(cell.ratio), cell.mark()))
}

fn draw(title: &str, rows: &[Row], loads: &[&Load], cell: impl Fn(&Cell) -> String) -> Table {
    let figures = figures(loads);
    let mut titles = vec![title];
    titles.extend(figures.iter().map(|(_, figure)| figure.name));
    let mut shown = table(&titles);
    for row in rows {
        let mut cells = vec![format!("{} / {}", row.name, row.over)];
        cells.extend(figures.iter().map(|(_, figure)| cell(&row.cells[figure.name])));
        shown.add_row(cells);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::LOADS;
    use metasched_benches::rounds::{Measured, Setting};

    fn rounds(of: &[(&str, &[f64])]) -> Kept {
        let (program, kernel, options) = (String::new(), String::new(), String::new());
        let setting = Setting { program, kernel, cpus: 2, options };
        let mut rounds = Kept { setting, measured: Vec::new() };
        for (subject, values) in of {
            for (round, value) in (0..).zip(*values) {
                let values = BTreeMap::from([("pipe".to_owned(), *value)]);
                let subject = (*subject).to_owned();
                let failed = BTreeMap::new();
                rounds.measured.push(Measured { round, subject, values, failed });
            }
        }
        rounds
    }

    fn verdicts(of: &[(&str, &[f64])]) -> Vec<Verdict> {
        let rounds = rounds(of);
        let pipe: Vec<&Load> = LOADS.iter().filter(|load| load.name == "pipe").collect();
        let pairs: Vec<(String, String)> =
            of.iter().skip(1).map(|(name, _)| ((*name).into(), of[0].0.into())).collect();
        compare(&rounds, &pipe, &pairs, 1).iter().map(|row| row.cells["pipe"].verdict).collect()
    }

    #[test]
    fn only_what_is_beyond_noise_is_better_or_worse() {
        let said = verdicts(&[
            ("eevdf", &[2.0, 2.1, 1.9, 2.0, 2.05, 1.95]),
            ("faster", &[1.0, 1.06, 0.95, 1.01, 1.02, 0.97]),
            ("slower", &[3.0, 3.1, 2.9, 3.05, 3.0, 2.95]),
            ("alike", &[2.1, 1.95, 2.0, 1.9, 2.2, 2.0]),
            ("once", &[1.0]),
        ]);
        use Verdict::*;
        assert_eq!(said, [Better, Worse, Alike, NotMeasured]);
    }

    #[test]
    fn the_more_are_looked_at_the_less_is_beyond_noise() {
        let eevdf: (&str, &[f64]) = ("eevdf", &[2.0, 2.2, 1.9, 2.1]);
        let one: (&str, &[f64]) = ("one", &[1.9, 2.0, 1.84, 1.99]);
        assert_eq!(verdicts(&[eevdf, one]), [Verdict::Better]);
        let names: Vec<String> = (0..200).map(|i| format!("other {i}")).collect();
        let mut many = vec![eevdf, one];
        many.extend(names.iter().map(|name| (name.as_str(), [2.1, 2.1, 2.1, 2.0].as_slice())));
        assert_eq!(verdicts(&many)[0], Verdict::Alike);
    }
}
