//! The tables.

use std::collections::BTreeMap;

use metasched_benches::agreement::{Cell, Figure, Side, Verdict};
use metasched_benches::table;

use crate::compare::{Control, Row, Tally};

/// Prints all cells, how many agree, and the controls.
pub fn show_all(rows: &[Row], by_figure: &BTreeMap<Figure, Tally>, controls: &[Control]) {
    let mut shown =
        table(&["scenario", "under", "cgroup", "figure", "machine", "simulator", "ratio", ""]);
    for row in rows {
        for cell in &row.cells {
            shown.add_row([
                row.scenario.clone(),
                row.scheduler.clone(),
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
