//! The page: one HTML file that needs nothing else.

mod activity;
mod answer;
mod bench;
mod curve;
mod dots;
mod gantt;
mod heat;
mod html;
mod lines;
mod machine;
mod pair;
mod runs;
mod scale;
mod schedulers;
mod spans;
mod strategies;
mod summary;
mod svg;
mod switching;
#[cfg(test)]
mod tests;
mod waits;

pub use bench::{Bench, Figure};
pub use curve::{Curve, CurveLine, curve};
pub use gantt::{Bar, Gantt, Lane, gantt};

use html::{Table, escape};
use metasched_experiment::Plan;
use metasched_profile::Analysis;

/// Writes the page. It depends on its arguments alone: the same store gives the
/// same page, to the byte.
pub fn page(analysis: &Analysis, plan: &Plan, benches: &[Bench]) -> String {
    let question = escape(&answer::question(&analysis.workload));
    // To the minute is enough: 2026-11-21T10:47:42.774Z.
    let last = analysis.sessions.last().map_or("", |s| &s.started_at);
    let last = last.get(..16).map_or(last.to_owned(), |t| t.replace('T', " ") + " UTC");
    let mut body = format!(
        "<header>\n<h1>{question}</h1>\n{}<p class=\"muted\">Measured by metasched {} on kernel \
         {}; last session began {}</p>\n</header>\n<main>\n",
        answer::answer(plan),
        escape(&analysis.environment.metasched),
        escape(&analysis.environment.kernel),
        escape(&last),
    );
    body += &heat::section(analysis, plan);
    body += &summary::section(analysis, plan);
    body += &schedulers::ratios(analysis);
    body += &pair::section(analysis);
    body += &strategies::section(analysis);
    body += &schedulers::wait_histograms(analysis);
    body += &runs::section(analysis);
    body += &activity::section(analysis);
    body += &switching::section(&analysis.switches, benches);
    body += &machine::facts(analysis);
    body += &machine::repeat(analysis);
    body += "</main>\n";
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{question}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        include_str!("style.css")
    )
}

/// A chart with its caption, and the table of what it shows behind it; `chart` is a finished
/// SVG element.
fn figure(chart: &str, caption: &str, table: &Table) -> String {
    format!(
        "<figure>\n<figcaption>{}</figcaption>\n{chart}{}</figure>\n",
        escape(caption),
        table.details("The figures as a table")
    )
}

/// What stands where there are no data.
fn absent(what: &str, command: &str) -> String {
    format!(
        "<p class=\"absent\">{}: not measured. <code>{}</code> measures it.</p>\n",
        escape(what),
        escape(command)
    )
}

/// A name as part of an id: letters, digits and hyphens.
fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
