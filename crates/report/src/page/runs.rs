//! How long threads ran each time that they got a CPU, and whether they slept then.

use metasched_base::percent;
use metasched_profile::Analysis;
use metasched_stats::{Log2Histogram, RunLengths};

use super::html::{Table, time};
use super::schedulers::heading;
use super::svg::Svg;
use super::{figure, waits};

/// Runs shorter than this are counted apart: a twentieth of a slice of 20 ms, by which the published
/// priority scheduler tells who waits for devices.
const SHORT_NS: u64 = 1_000_000;

/// The histograms of each form under each scheduler; nothing where none was traced.
pub fn section(analysis: &Analysis) -> String {
    let mut charts = String::new();
    for form in analysis.forms.iter().filter(|form| !form.runs.is_empty()) {
        let title = format!("Time on a CPU, {}", heading(analysis, form));
        let description = format!(
            "For each scheduler, how the runs of {}'s threads spread over powers of two, by whether \
             the thread slept then or could have gone on; a line marks the 99th percentile. The \
             values are in the table behind it.",
            form.form
        );
        let histograms: Vec<(String, Log2Histogram)> =
            form.runs.iter().flat_map(|(label, runs)| by_end(label, runs)).collect();
        let svg = Svg::new(&format!("runs-{}", super::slug(&form.form)), &title, &description);
        if let Some(chart) = waits::chart(svg, &histograms) {
            charts += &figure(&chart, &title, &table(&title, &form.runs));
        }
    }
    if charts.is_empty() {
        return charts;
    }
    format!(
        "<section>\n<h2>Time on a CPU</h2>\n<p>How long threads ran each time that they got a CPU: \
         until they slept, or until they were stopped while they could have gone on, since their \
         slice was over or another thread came first. From the same traced runs.</p>\n<div \
         class=\"charts\">\n{charts}</div>\n</section>\n"
    )
}

fn by_end(label: &str, runs: &RunLengths) -> Vec<(String, Log2Histogram)> {
    [("slept", &runs.slept), ("stopped", &runs.stopped)]
        .into_iter()
        .filter(|(_, histogram)| histogram.count() > 0)
        .map(|(end, h)| (format!("{label}, {end}"), Log2Histogram::new(h.octaves())))
        .collect()
}

fn table(title: &str, all: &[(String, RunLengths)]) -> Table {
    let short = format!("shorter than {}", time(SHORT_NS as f64));
    let header = ["under", "runs", "ended in sleep", short.as_str(), "p50, slept", "p50, stopped"];
    let mut table = Table::new(title, header);
    for (label, runs) in all {
        let middle = |of: &metasched_stats::WaitHistogram| {
            of.percentile_ns(0.5).map_or("-".to_owned(), |ns| time(waits::round(ns as f64)))
        };
        table.row([
            label.clone(),
            runs.count().to_string(),
            runs.slept_share().map_or("-".to_owned(), percent),
            runs.shorter_than(SHORT_NS).map_or("-".to_owned(), percent),
            middle(&runs.slept),
            middle(&runs.stopped),
        ]);
    }
    table
}
