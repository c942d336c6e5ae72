//! The section on what a change of scheduler takes.

use std::collections::BTreeMap;

use metasched_control::SwitchRecord;
use metasched_stats::percentile;

use super::bench::Bench;
use super::html::{Table, number, time};
use super::spans::{self, Span};
use super::svg::Svg;
use super::{absent, figure};

/// The series of process swaps, and that of lanes.
const SWAP: usize = 0;
const LANE: usize = 1;

/// Times of changes of scheduler by mechanism.
pub fn section(records: &[SwitchRecord], benches: &[Bench]) -> String {
    let mut out = String::from("<section>\n<h2>What switching takes</h2>\n");
    let mut spans = from_records(records);
    for bench in benches {
        spans.extend(bench.spans());
    }
    let description = "Times of starting, stopping and swapping scheduler processes, and of \
                       replacing a lane, on a logarithmic axis, with ranges from the 5th to the \
                       95th percentile where known.";
    let svg = Svg::new("switching", "Time to change the scheduler", description);
    match spans::chart(svg, &spans) {
        None => {
            out += &absent("Switching", "make bench-switch, then metasched report --bench FILE")
        }
        Some(chart) => {
            out += "<p>By process swap the old scheduler's process is stopped and the new one's \
                    started, and in between every task is under EEVDF. By lane the running \
                    program's policy is replaced. Points are medians, lines reach from the 5th to the \
                    95th percentile of three times or more; every mark on the axis is ten \
                    times the one before.</p>\n";
            out += &figure(&chart, "Circles: process swap. Squares: lane.", &table(&spans));
        }
    }
    for bench in benches {
        out += &bench_table(bench);
    }
    out + "</section>\n"
}

/// The times in the records, by what was done and to which scheduler.
fn from_records(records: &[SwitchRecord]) -> Vec<Span> {
    // Keyed so that the rows come in order: series, what, scheduler.
    let mut times: BTreeMap<(usize, u8, String), Vec<f64>> = BTreeMap::new();
    let mut add = |series, order, label: String, ns: Option<u64>| {
        if let Some(ns) = ns {
            times.entry((series, order, label)).or_default().push(ns as f64);
        }
    };
    for r in records {
        if r.replaced_a_lane() {
            add(LANE, 0, "replace a lane".into(), Some(r.total_ns));
            add(LANE, 1, "  the write itself".into(), r.write_ns);
            continue;
        }
        add(SWAP, 0, format!("start {}", r.to), r.start_ns);
        // What was stopped is what was in force before.
        add(SWAP, 1, format!("stop {}", r.from), r.stop_ns);
        if r.start_ns.is_some() && r.stop_ns.is_some() {
            add(SWAP, 2, format!("swap to {}", r.to), Some(r.total_ns));
        }
    }
    times
        .into_iter()
        .filter_map(|((series, _, label), ns)| {
            let range = percentile(&ns, 0.05).zip(percentile(&ns, 0.95));
            Some(Span {
                label: label.trim().to_owned(),
                series,
                median_ns: percentile(&ns, 0.5)?,
                range_ns: range.filter(|_| ns.len() > 2),
                n: Some(ns.len()),
            })
        })
        .collect()
}

fn table(spans: &[Span]) -> Table {
    let mut table = Table::new("Times of switching", ["what", "median", "5 % to 95 %", "times"]);
    for s in spans {
        table.row([
            s.label.clone(),
            time(s.median_ns),
            s.range_ns.map_or("-".into(), |(low, high)| format!("{} to {}", time(low), time(high))),
            s.n.map_or("-".into(), |n| n.to_string()),
        ]);
    }
    table
}

fn bench_table(bench: &Bench) -> String {
    let caption = format!("All figures of the benchmark '{}'", bench.name);
    let mut table = Table::new(&caption, ["figure", "value", "range"]);
    for f in &bench.figures {
        let range = f.range.map(|(low, high)| format!("{} to {}", number(low), number(high)));
        table.row([f.path.clone(), number(f.value), range.unwrap_or_default()]);
    }
    table.html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::Mechanism;

    fn record(from: &str, to: &str, stop_ns: Option<u64>, start_ns: Option<u64>) -> SwitchRecord {
        SwitchRecord {
            from: from.into(),
            to: to.into(),
            mechanism: Mechanism::Swap,
            stop_ns,
            start_ns,
            write_ns: None,
            total_ns: stop_ns.unwrap_or(0) + start_ns.unwrap_or(0),
        }
    }

    #[test]
    fn a_load_of_our_program_is_no_replaced_lane_whatever_an_earlier_version_called_it() {
        let loaded = record("eevdf", "fifo", None, Some(100));
        let spans = from_records(&[SwitchRecord { mechanism: Mechanism::Lane, ..loaded }]);
        let labels: Vec<&str> = spans.iter().map(|span| span.label.as_str()).collect();
        assert_eq!(labels, ["start fifo"]);
    }

    #[test]
    fn a_stop_counts_for_what_was_stopped_and_only_a_whole_swap_as_one() {
        let spans = from_records(&[
            record("eevdf", "scx_a", None, Some(100)),
            record("scx_a", "scx_b", Some(10), Some(200)),
        ]);
        let found: Vec<(&str, f64)> =
            spans.iter().map(|s| (s.label.as_str(), s.median_ns)).collect();
        assert_eq!(
            found,
            [
                ("start scx_a", 100.0),
                ("start scx_b", 200.0),
                ("stop scx_a", 10.0),
                ("swap to scx_b", 210.0)
            ]
        );
    }

    #[test]
    fn without_records_and_benchmarks_it_says_not_measured() {
        assert!(section(&[], &[]).contains("not measured"));
    }
}
