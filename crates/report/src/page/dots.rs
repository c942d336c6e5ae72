//! Figure 1: every scheduler on every form, as a point with its interval.

use metasched_experiment::Verdict;

use super::html::percent;
use super::scale::{Scale, Side, percent_domain, ticks};
use super::svg::{Anchor, Shape, Svg, WIDTH, shorten, text_width};
use metasched_experiment::Ratio;

/// A scheduler in a group.
#[derive(Debug)]
pub struct Dot {
    pub label: String,
    pub ratio: Ratio,
}

/// The schedulers of one form.
#[derive(Debug)]
pub struct Group {
    pub heading: String,
    pub dots: Vec<Dot>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

const ROW: f64 = 21.0;
const HEADING: f64 = 27.0;
const LABEL_CHARACTERS: usize = 20;
/// The column at the right that holds the values as text.
const VALUES: f64 = 62.0;

/// The class of a point: filled and coloured beyond the noise, hollow within it.
pub fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "point good",
        Verdict::Worse => "point bad",
        Verdict::WithinNoise | Verdict::TooFewRounds => "point flat",
    }
}

/// Draws the groups below each other on one axis of changes in percent.
pub fn chart(mut svg: Svg, groups: &[Group], better: Better) -> String {
    let bounds: Vec<f64> =
        groups.iter().flat_map(|g| &g.dots).flat_map(|d| bounds(&d.ratio)).collect();
    let domain = percent_domain(&bounds);
    let labels = groups.iter().flat_map(|g| &g.dots);
    let gutter =
        labels.map(|d| text_width(&shorten(&d.label, LABEL_CHARACTERS))).fold(40.0, f64::max)
            + 12.0;
    let x = Scale::linear(domain, (gutter, WIDTH - VALUES - 8.0));
    let rows: usize = groups.iter().map(|g| g.dots.len()).sum();
    let bottom = 18.0 + groups.len() as f64 * HEADING + rows as f64 * ROW + 4.0;
    axis(&mut svg, &x, domain, bottom, better);
    let mut y = 18.0;
    for group in groups {
        svg.text((2.0, y + 18.0), Anchor::Start, "heading", &group.heading);
        y += HEADING;
        for dot in &group.dots {
            row(&mut svg, &x, dot, gutter, y + ROW / 2.0);
            y += ROW;
        }
    }
    svg.finish()
}

fn bounds(ratio: &Ratio) -> Vec<f64> {
    let change = |r: f64| (r - 1.0) * 100.0;
    match (ratio.interval, ratio.estimate) {
        (Some(i), _) => vec![change(i.low), change(i.high)],
        (None, Some(estimate)) => vec![change(estimate)],
        (None, None) => Vec::new(),
    }
}

fn axis(svg: &mut Svg, x: &Scale, domain: (f64, f64), bottom: f64, better: Better) {
    for tick in ticks(domain, 5) {
        let at = x.at(tick);
        svg.line((at, 18.0), (at, bottom), if tick == 0.0 { "zero" } else { "grid" });
        let text = if tick == 0.0 { "0".into() } else { format!("{tick:+}").replace('-', "−") };
        svg.text((at, bottom + 15.0), Anchor::Middle, "tick", &text);
    }
    svg.text((x.at(0.0), 12.0), Anchor::Middle, "tick", "EEVDF");
    let hint = match better {
        Better::More => "% against EEVDF; better is to the right →",
        Better::Less => "← better is to the left; % against EEVDF",
    };
    svg.text((WIDTH / 2.0, bottom + 32.0), Anchor::Middle, "tick", hint);
    svg.extend_to(bottom + 38.0);
}

fn row(svg: &mut Svg, x: &Scale, dot: &Dot, gutter: f64, y: f64) {
    let label = shorten(&dot.label, LABEL_CHARACTERS);
    svg.text((gutter - 10.0, y + 4.0), Anchor::End, "label", &label);
    let Some(estimate) = dot.ratio.estimate else {
        svg.text((WIDTH - 2.0, y + 4.0), Anchor::End, "label", "no figure");
        return;
    };
    let change = |r: f64| (r - 1.0) * 100.0;
    let class = class(dot.ratio.verdict);
    svg.text((WIDTH - 2.0, y + 4.0), Anchor::End, "label", &percent(estimate));
    let place = x.at(change(estimate));
    if let Some(i) = dot.ratio.interval {
        let whisker = class.replace("point", "whisker");
        svg.line((x.at(change(i.low)), y), (x.at(change(i.high)), y), &whisker);
    }
    if let Some(side) = x.beyond(change(estimate)) {
        svg.arrow((place, y), side == Side::Above, class);
        return;
    }
    svg.point(Shape::Circle, (place, y), class);
}
