//! Run-queue waits: a histogram for each scheduler, below each other on one axis.

use metasched_stats::Log2Histogram;

use super::html::{Table, time};
use super::scale::{Scale, decades};
use super::svg::{Anchor, Svg, WIDTH, shorten};

const PANEL: f64 = 62.0;
const BARS: f64 = 34.0;
const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 8.0;

/// Draws the histograms; absent where none holds anything.
pub fn chart(mut svg: Svg, waits: &[(String, Log2Histogram)]) -> Option<String> {
    let ranges: Vec<(usize, usize)> = waits.iter().filter_map(|(_, h)| h.range()).collect();
    let first = ranges.iter().map(|r| r.0).min()?;
    let last = ranges.iter().map(|r| r.1).max()?;
    let x = Scale::linear((first as f64, last as f64 + 1.0), (LEFT, RIGHT));
    let bottom = 4.0 + waits.len() as f64 * PANEL;
    let edges = ((first as f64).exp2(), (last as f64 + 1.0).exp2());
    for ns in decades(edges) {
        let at = x.at(ns.log2());
        svg.line((at, 4.0), (at, bottom), "grid");
        svg.text((at.clamp(20.0, WIDTH - 24.0), bottom + 15.0), Anchor::Middle, "tick", &time(ns));
    }
    for (i, (label, histogram)) in waits.iter().enumerate() {
        panel(&mut svg, &x, 4.0 + i as f64 * PANEL, label, histogram);
    }
    let hint = "time from runnable to running; heights: share of the waits";
    svg.text((WIDTH / 2.0, bottom + 32.0), Anchor::Middle, "tick", hint);
    svg.extend_to(bottom + 38.0);
    Some(svg.finish())
}

/// What the histograms show: percentiles, and the share of each bucket, under each scheduler.
pub fn table(title: &str, waits: &[(String, Log2Histogram)]) -> Table {
    let mut header = vec!["time from runnable to running".to_owned()];
    header.extend(waits.iter().map(|(label, _)| label.clone()));
    let caption = format!("{title}; a bucket spans a factor of two, so figures are that coarse");
    let mut table = Table::new(&caption, header);
    let mut add = |name: &str, of: &dyn Fn(&Log2Histogram) -> String| {
        let cells = waits.iter().map(|(_, histogram)| of(histogram));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    add("number of waits", &|h| h.count().to_string());
    for (name, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        add(name, &|h| h.percentile_ns(quantile).map_or("-".to_owned(), |ns| time(round(ns))));
    }
    let ranges = || waits.iter().filter_map(|(_, h)| h.range());
    let first = ranges().map(|r| r.0).min().unwrap_or(0);
    let last = ranges().map(|r| r.1).max().unwrap_or(0);
    for bucket in first..=last {
        let edge = |at: usize| time(round((at as f64).exp2()));
        add(&format!("{} to {}", edge(bucket), edge(bucket + 1)), &|h| {
            let count = h.buckets.get(bucket).copied().unwrap_or(0);
            format!("{:.2}\u{a0}%", count as f64 / h.count().max(1) as f64 * 100.0)
        });
    }
    table
}

fn panel(svg: &mut Svg, x: &Scale, top: f64, label: &str, histogram: &Log2Histogram) {
    svg.text((LEFT, top + 15.0), Anchor::Start, "label strong", &shorten(label, 22));
    let quantile = |q: f64| histogram.percentile_ns(q);
    if let (Some(p50), Some(p99)) = (quantile(0.5), quantile(0.99)) {
        let text = format!("p50 {} · p99 {}", time(round(p50)), time(round(p99)));
        svg.text((RIGHT, top + 15.0), Anchor::End, "label", &text);
        let at = x.at(p99.log2());
        svg.line((at, top + 20.0), (at, top + 20.0 + BARS), "mark99");
    }
    let base = top + 20.0 + BARS;
    svg.line((LEFT, base), (RIGHT, base), "zero");
    let tallest = histogram.buckets.iter().copied().max().unwrap_or(0).max(1) as f64;
    for (i, count) in histogram.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
        let (from, to) = (x.at(i as f64), x.at(i as f64 + 1.0));
        // Even a single wait is seen.
        let height = (*count as f64 / tallest * BARS).max(0.7);
        svg.rect((from + 0.7, base - height), ((to - from - 1.4).max(0.5), height), "bars");
    }
}

/// Two digits: more would claim what a bucket of a factor of two does not tell.
pub fn round(ns: f64) -> f64 {
    if ns <= 0.0 {
        return 0.0;
    }
    let magnitude = 10f64.powf(ns.log10().floor() - 1.0);
    (ns / magnitude).round() * magnitude
}
