//! How something grows with size: lines over two logarithmic axes, a picture in a file of its
//! own. What grows in proportion is a straight line there, and what does not grow a level one.

use super::scale::{Scale, decades};
use super::svg::{Anchor, Shape, Svg, text_width};

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurveLine {
    /// What it is of.
    pub label: String,
    /// Size and value, by ascending sizes; all positive.
    pub points: Vec<(f64, f64)>,
}

/// Everything that is in the picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What stands above it.
    pub title: String,
    /// A line below that.
    pub about: String,
    /// What the sizes are, and what the values.
    pub axes: (String, String),
    /// The lines.
    pub lines: Vec<CurveLine>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 392.0;
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond];

/// Draws it, as an SVG file that needs nothing else. It follows from the argument alone.
pub fn curve(curve: &Curve) -> String {
    let mut svg = Svg::new("curve", &curve.title, &curve.about).wide(WIDTH);
    svg.rect((0.0, 0.0), (WIDTH, BOTTOM + 48.0), "page");
    svg.text((12.0, 24.0), Anchor::Start, "heading", &curve.title);
    svg.text((12.0, 43.0), Anchor::Start, "muted", &curve.about);
    let points = || curve.lines.iter().flat_map(|line| &line.points);
    let sizes = bounds(points().map(|(size, _)| *size));
    let (low, high) = bounds(points().map(|(_, value)| *value));
    // Whole decades, so that slopes of several pictures can be compared.
    let values = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
    let x = Scale::logarithmic(sizes, (LEFT, RIGHT));
    let y = Scale::logarithmic(values, (BOTTOM, TOP));
    axes(&mut svg, curve, &x, &y, values);
    let mut legend = LEFT;
    for (i, line) in curve.lines.iter().enumerate() {
        let shape = SHAPES[i % SHAPES.len()];
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|(size, value)| (x.at(*size), y.at(*value))).collect();
        svg.polyline(&places, &format!("line l{i}"));
        places.iter().for_each(|place| svg.point(shape, *place, &format!("c{i}")));
        svg.point(shape, (legend, 64.0), &format!("c{i}"));
        svg.text((legend + 12.0, 68.0), Anchor::Start, "tick", &line.label);
        legend += 12.0 + text_width(&line.label) + 24.0;
    }
    svg.extend_to(BOTTOM + 48.0);
    svg.finish_alone(concat!(include_str!("gantt.css"), include_str!("curve.css")))
}

/// The least and the greatest, and not the same one twice.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
    match high {
        0.0 => (1.0, 10.0),
        high if high > low => (low, high),
        high => (high / 2.0, high * 2.0),
    }
}

fn axes(svg: &mut Svg, curve: &Curve, x: &Scale, y: &Scale, values: (f64, f64)) {
    for decade in decades(values) {
        for tick in [1.0, 2.0, 5.0].map(|part| part * decade) {
            if tick > values.1 {
                continue;
            }
            let at = y.at(tick);
            svg.line((LEFT, at), (RIGHT, at), "grid");
            svg.text((LEFT - 10.0, at + 4.0), Anchor::End, "tick", &format!("{tick}"));
        }
    }
    let mut sizes: Vec<f64> =
        curve.lines.iter().flat_map(|line| &line.points).map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        let at = x.at(size);
        svg.line((at, TOP), (at, BOTTOM + 4.0), "grid");
        svg.text((at, BOTTOM + 18.0), Anchor::Middle, "tick", &format!("{size}"));
    }
    svg.text((RIGHT, BOTTOM + 36.0), Anchor::End, "tick", &curve.axes.0);
    svg.text((12.0, TOP - 10.0), Anchor::Start, "tick", &curve.axes.1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: Vec<CurveLine>) -> String {
        let axes = ("CPUs".to_owned(), "ns".to_owned());
        curve(&Curve { title: "a <title>".into(), about: "on a day".into(), axes, lines })
    }

    #[test]
    fn what_grows_in_proportion_is_a_straight_line() {
        let points = [2.0, 8.0, 32.0, 128.0].map(|size| (size, 10.0 * size)).to_vec();
        let svg = of(vec![CurveLine { label: "linear".into(), points }]);
        let list = svg.split_once("<polyline points=\"").unwrap().1.split_once('"').unwrap().0;
        let places: Vec<(f64, f64)> = list
            .split(' ')
            .map(|place| place.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        for three in places.windows(3) {
            let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
            assert!((slope(three[0], three[1]) - slope(three[1], three[2])).abs() < 1e-3);
        }
        assert!(svg.contains("a &lt;title&gt;") && svg.contains(">linear</text>"));
        assert!(svg.contains(">128</text>") && svg.contains(">CPUs</text>"));
    }

    #[test]
    fn a_picture_without_points_or_with_one_has_axes_still() {
        for points in [vec![], vec![(4.0, 100.0)]] {
            let svg = of(vec![CurveLine { label: "few".into(), points }]);
            assert!(svg.starts_with("<svg xmlns") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
