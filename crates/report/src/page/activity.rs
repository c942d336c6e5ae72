//! How much CPU time an application took under each scheduler, and how often its threads switched.

use std::iter::once;

use metasched_profile::{ACTIVITY_FIGURES, Activity, Analysis};

use super::html::Table;
use super::schedulers::{heading, interval_text};

/// The tables of each form; nothing where nobody looked.
pub fn section(analysis: &Analysis) -> String {
    let forms = analysis.forms.iter().filter(|form| form.activity.len() > 1);
    let tables: String =
        forms.map(|form| table(&heading(analysis, form), &form.activity).html()).collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<section>\n<h2>CPU time and switches</h2>\n<p>What the application's own threads did in \
         the measured runs, medians, and how often they left a CPU: since they went to sleep, or \
         since they were stopped while they could have gone on. The last column is both kinds \
         together, against EEVDF in the same rounds, with its 95 % interval.</p>\n{tables}</section>\n"
    )
}

fn table(heading: &str, activity: &[Activity]) -> Table {
    let figures = || ACTIVITY_FIGURES.iter();
    let titles = figures().map(|figure| figure.title.to_lowercase());
    let header = once("under".to_owned()).chain(titles).chain(once("switches".to_owned()));
    let mut table = Table::new(&format!("CPU time and switches, {heading}"), header);
    for one in activity {
        let switches = one.switches.map_or("-".to_owned(), interval_text);
        let cells = figures().map(|figure| figure.text(one));
        table.row(once(one.scheduler.clone()).chain(cells).chain(once(switches)));
    }
    table
}
