//! Figure 2: each strategy over the base timeslice.

use super::scale::{Scale, percent_domain, ticks};
use super::svg::{Anchor, Shape, Svg, WIDTH, shorten};
use metasched_experiment::Ratio;

/// A strategy: its points by base timeslice.
#[derive(Debug)]
pub struct Line {
    pub label: String,
    /// Which of the series it is, from 0: its colour and shape.
    pub series: usize,
    pub points: Vec<(f64, Ratio)>,
}

/// The strategies under one mechanism.
#[derive(Debug)]
pub struct Panel {
    pub heading: String,
    pub lines: Vec<Line>,
}

/// A line across to compare with.
#[derive(Debug)]
pub struct Reference {
    pub label: String,
    pub ratio: f64,
}

const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond];
const LEFT: f64 = 38.0;
const RIGHT: f64 = WIDTH - 8.0;
const PLOT_HEIGHT: f64 = 150.0;

/// Draws the panels below each other, with the same axes.
pub fn chart(mut svg: Svg, panels: &[Panel], reference: Option<&Reference>) -> String {
    let points = || panels.iter().flat_map(|p| &p.lines).flat_map(|l| &l.points);
    let mut bounds: Vec<f64> = points()
        .filter_map(|(_, r)| r.interval.map(|i| [i.low, i.high]).or(r.estimate.map(|e| [e, e])))
        .flatten()
        .collect();
    bounds.extend(reference.map(|r| r.ratio));
    let bounds: Vec<f64> = bounds.iter().map(|b| (b - 1.0) * 100.0).collect();
    let domain = percent_domain(&bounds);
    let mut slices: Vec<f64> = points().map(|(slice, _)| *slice).collect();
    slices.sort_by(f64::total_cmp);
    slices.dedup();
    let mut y = legend(&mut svg, panels, reference);
    for panel in panels {
        svg.text((2.0, y + 16.0), Anchor::Start, "heading", &panel.heading);
        y += 26.0;
        let x = x_scale(&slices);
        let up = Scale::linear(domain, (y + PLOT_HEIGHT, y));
        axes(&mut svg, &x, &up, domain, &slices, y);
        if let Some(reference) = reference {
            let at = up.at((reference.ratio - 1.0) * 100.0);
            svg.line((LEFT, at), (RIGHT, at), "reference");
        }
        let many = panel.lines.len();
        for (i, line) in panel.lines.iter().enumerate() {
            // Side by side, so that intervals at the same timeslice can be told apart.
            let aside = (i as f64 - (many as f64 - 1.0) / 2.0) * 6.0;
            draw(&mut svg, line, &x, &up, aside);
        }
        y += PLOT_HEIGHT + 36.0;
    }
    svg.text((WIDTH / 2.0, y), Anchor::Middle, "tick", "base timeslice in ms; y: % against EEVDF");
    svg.extend_to(y + 6.0);
    svg.finish()
}

fn x_scale(slices: &[f64]) -> Scale {
    let (first, last) = (slices.first().copied(), slices.last().copied());
    let (low, high) = (first.unwrap_or(1.0).max(1e-3), last.unwrap_or(10.0));
    // A single timeslice stands in the middle.
    let (low, high) = if high <= low { (low / 2.0, high * 2.0) } else { (low, high) };
    Scale::logarithmic((low, high), (LEFT + 18.0, RIGHT - 18.0))
}

/// Draws the legend in two columns; gives the height that it takes.
fn legend(svg: &mut Svg, panels: &[Panel], reference: Option<&Reference>) -> f64 {
    let mut entries: Vec<(usize, &str)> = panels
        .iter()
        .flat_map(|p| &p.lines)
        .map(|line| (line.series, line.label.as_str()))
        .collect();
    entries.sort_unstable();
    entries.dedup();
    for (i, (series, label)) in entries.iter().enumerate() {
        let (x, y) = (16.0 + (i % 2) as f64 * 190.0, 12.0 + (i / 2) as f64 * 20.0);
        svg.line((x - 10.0, y), (x + 10.0, y), &format!("series s{}", series % SHAPES.len()));
        let shape = SHAPES[series % SHAPES.len()];
        svg.point(shape, (x, y), &format!("mark s{}", series % SHAPES.len()));
        svg.text((x + 17.0, y + 4.0), Anchor::Start, "label", label);
    }
    let mut height = entries.len().div_ceil(2) as f64 * 20.0 + 6.0;
    if let Some(reference) = reference {
        let y = height + 6.0;
        svg.line((6.0, y), (26.0, y), "reference");
        let label = shorten(&format!("best single scheduler: {}", reference.label), 52);
        svg.text((33.0, y + 4.0), Anchor::Start, "label", &label);
        height += 20.0;
    }
    height
}

fn axes(svg: &mut Svg, x: &Scale, up: &Scale, domain: (f64, f64), slices: &[f64], top: f64) {
    for tick in ticks(domain, 5) {
        let at = up.at(tick);
        svg.line((LEFT, at), (RIGHT, at), if tick == 0.0 { "zero" } else { "grid" });
        let text = if tick == 0.0 { "0".into() } else { format!("{tick:+}").replace('-', "−") };
        svg.text((LEFT - 6.0, at + 4.0), Anchor::End, "tick", &text);
    }
    let bottom = top + PLOT_HEIGHT;
    let mut last = f64::NEG_INFINITY;
    for slice in slices {
        let at = x.at(*slice);
        svg.line((at, bottom), (at, bottom + 4.0), "zero");
        // Where labels would touch, the later one is left out.
        if at - last > 36.0 {
            svg.text((at, bottom + 17.0), Anchor::Middle, "tick", &format!("{slice}"));
            last = at;
        }
    }
}

fn draw(svg: &mut Svg, line: &Line, x: &Scale, up: &Scale, aside: f64) {
    let class = line.series % SHAPES.len();
    let change = |r: f64| (r - 1.0) * 100.0;
    let place = |slice: f64, ratio: f64| (x.at(slice) + aside, up.at(change(ratio)));
    let measured: Vec<(f64, f64, Ratio)> =
        line.points.iter().filter_map(|(s, r)| Some((*s, r.estimate?, *r))).collect();
    let path: Vec<(f64, f64)> = measured.iter().map(|(s, e, _)| place(*s, *e)).collect();
    svg.polyline(&path, &format!("series s{class}"));
    for (slice, estimate, ratio) in measured {
        if let Some(i) = ratio.interval {
            svg.line(place(slice, i.low), place(slice, i.high), &format!("bar s{class}"));
        }
        svg.point(SHAPES[class], place(slice, estimate), &format!("mark s{class}"));
    }
}
