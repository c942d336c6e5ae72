//! Times over many orders of magnitude: a median with its range, on a
//! logarithmic axis.

use super::html::time;
use super::scale::{Scale, decades};
use super::svg::{Anchor, Shape, Svg, WIDTH, shorten, text_width};

/// A time that was taken many times, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub label: String,
    /// The series, from 0: its colour and shape.
    pub series: usize,
    pub median_ns: f64,
    /// From the 5th to the 95th percentile, where it is known.
    pub range_ns: Option<(f64, f64)>,
    pub n: Option<usize>,
}

const ROW: f64 = 21.0;
const LABEL_CHARACTERS: usize = 26;
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond];

/// Draws the spans below each other; absent where there is none.
pub fn chart(mut svg: Svg, spans: &[Span]) -> Option<String> {
    let (low, high) = domain(spans)?;
    let gutter =
        spans.iter().map(|s| text_width(&shorten(&s.label, LABEL_CHARACTERS))).fold(40.0, f64::max)
            + 10.0;
    let x = Scale::logarithmic((low, high), (gutter, WIDTH - 66.0));
    let bottom = 8.0 + spans.len() as f64 * ROW;
    let mut last = f64::NEG_INFINITY;
    for ns in decades((low, high)) {
        let at = x.at(ns);
        svg.line((at, 4.0), (at, bottom), "grid");
        if at - last > 42.0 {
            svg.text((at, bottom + 15.0), Anchor::Middle, "tick", &time(ns));
            last = at;
        }
    }
    for (i, span) in spans.iter().enumerate() {
        let y = 8.0 + (i as f64 + 0.5) * ROW;
        let label = shorten(&span.label, LABEL_CHARACTERS);
        svg.text((gutter - 8.0, y + 4.0), Anchor::End, "label", &label);
        let class = span.series % SHAPES.len();
        if let Some((from, to)) = span.range_ns {
            svg.line((x.at(from), y), (x.at(to), y), &format!("bar s{class}"));
        }
        svg.point(SHAPES[class], (x.at(span.median_ns), y), &format!("mark s{class}"));
        svg.text((WIDTH - 2.0, y + 4.0), Anchor::End, "label", &time(span.median_ns));
    }
    svg.extend_to(bottom + 22.0);
    Some(svg.finish())
}

/// Whole decades around all times.
fn domain(spans: &[Span]) -> Option<(f64, f64)> {
    let times: Vec<f64> = spans
        .iter()
        .flat_map(|s| {
            [s.median_ns].into_iter().chain(s.range_ns.map(|r| r.0)).chain(s.range_ns.map(|r| r.1))
        })
        .filter(|t| *t > 0.0)
        .collect();
    let low = times.iter().copied().reduce(f64::min)?;
    let high = times.iter().copied().reduce(f64::max)?;
    let floor = 10f64.powf(low.log10().floor());
    Some((floor, 10f64.powf(high.log10().ceil()).max(floor * 10.0)))
}
