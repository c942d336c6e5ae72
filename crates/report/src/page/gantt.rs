//! The task on each CPU over time: a picture in a file of its own.

use metasched_base::brief_time;

use super::scale::{Scale, ticks};
use super::svg::{Anchor, Svg, shorten, text_width};

/// A span of time on a row, ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Where it begins.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
    /// To which series it belongs: its place among [`Gantt::series`].
    pub series: usize,
    /// What stands in it, where there is room, and beside the pointer.
    pub label: String,
}

/// A row: a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// What it is called.
    pub label: String,
    /// What it ran; no two overlap.
    pub bars: Vec<Bar>,
    /// When it had nothing to do although somebody waited, from and to, ns.
    pub wasted: Vec<(u64, u64)>,
}

/// Everything that is in the picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gantt {
    /// What stands above it.
    pub title: String,
    /// A line below that.
    pub about: String,
    /// The window, ns.
    pub window_ns: (u64, u64),
    /// What the colours mean, the most important first.
    pub series: Vec<String>,
    /// The rows from the top down.
    pub lanes: Vec<Lane>,
}

const WIDTH: f64 = 1200.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Colours that can be told from each other; the rest share one.
const COLOURS: usize = 7;
/// What is narrower is not drawn: a mark of one pixel for each microsecond that an
/// interrupt takes would make a sound machine look wasteful.
const LEAST_WASTE: f64 = 0.6;

/// Draws it, as an SVG file that needs nothing else. It follows from the argument alone.
pub fn gantt(gantt: &Gantt) -> String {
    let description = format!(
        "{} CPUs over {}; {}",
        gantt.lanes.len(),
        brief_time((gantt.window_ns.1 - gantt.window_ns.0) as f64),
        gantt.about
    );
    let mut svg = Svg::new("gantt", &gantt.title, &description).wide(WIDTH);
    svg.hatching("wasted");
    // Rows are lower where there are many of them.
    let (row, gap) = if gantt.lanes.len() > 32 { (9.0, 1.0) } else { (20.0, 4.0) };
    let widest = gantt.lanes.iter().map(|l| text_width(&l.label)).fold(30.0, f64::max);
    let left = 12.0 + widest + 8.0;
    let bottom_of = |top: f64| top + gantt.lanes.len() as f64 * (row + gap);
    let top = 62.0 + legend_rows(gantt) as f64 * 20.0;
    let bottom = bottom_of(top);
    svg.rect((0.0, 0.0), (WIDTH, bottom + 44.0), "page");
    svg.text((12.0, 24.0), Anchor::Start, "heading", &gantt.title);
    svg.text((12.0, 43.0), Anchor::Start, "muted", &gantt.about);
    legend(&mut svg, gantt);
    let (from, to) = (gantt.window_ns.0 as f64, gantt.window_ns.1 as f64);
    let x = Scale::linear((from, to), (left, RIGHT));
    for (i, lane) in gantt.lanes.iter().enumerate() {
        let y = top + i as f64 * (row + gap);
        svg.rect((left, y), (RIGHT - left, row), "row");
        // Where rows are low only some labels have room.
        if row > 12.0 || i % 2 == 0 {
            let middle = y + row / 2.0 + 4.0;
            svg.text((left - 8.0, middle), Anchor::End, "tick", &lane.label);
        }
        draw_row(&mut svg, gantt, lane, &x, (y, row));
    }
    axis(&mut svg, (from, to), &x, (top, bottom));
    if row > 12.0 {
        for (i, lane) in gantt.lanes.iter().enumerate() {
            label_bars(&mut svg, lane, &x, top + i as f64 * (row + gap) + row / 2.0 + 4.0);
        }
    }
    svg.extend_to(bottom + 44.0);
    svg.finish_alone(include_str!("gantt.css"))
}

fn class(series: usize) -> String {
    if series < COLOURS { format!("c{series}") } else { "others".to_owned() }
}

fn draw_row(svg: &mut Svg, gantt: &Gantt, lane: &Lane, x: &Scale, (y, height): (f64, f64)) {
    let place = |from: u64, to: u64| (x.at(from as f64), x.at(to as f64));
    for bar in &lane.bars {
        let (a, b) = place(bar.from_ns, bar.to_ns);
        let series = gantt.series.get(bar.series).map_or("", String::as_str);
        let told = format!(
            "{} ({series}): {} from {}",
            bar.label,
            brief_time((bar.to_ns - bar.from_ns) as f64),
            brief_time(bar.from_ns as f64)
        );
        let class = format!("bar {}", class(bar.series));
        svg.told_rect((a, y), ((b - a).max(0.4), height), &class, &told);
    }
    for (from, to) in &lane.wasted {
        let (a, b) = place(*from, *to);
        if b - a >= LEAST_WASTE {
            let told = format!(
                "idle beside work: {} from {}",
                brief_time((to - from) as f64),
                brief_time(*from as f64)
            );
            svg.told_rect((a, y), (b - a, height), "wasted", &told);
        }
    }
}

/// Names in the bars that have room for them.
fn label_bars(svg: &mut Svg, lane: &Lane, x: &Scale, y: f64) {
    for bar in &lane.bars {
        let (a, b) = (x.at(bar.from_ns as f64), x.at(bar.to_ns as f64));
        if text_width(&bar.label) + 6.0 < b - a {
            svg.text(((a + b) / 2.0, y), Anchor::Middle, "inside", &bar.label);
        }
    }
}

const WASTED: &str = "idle while a task waits that could run there";
const LEGEND_CHARACTERS: usize = 28;

/// The entries of the legend: class and text.
fn entries(gantt: &Gantt) -> Vec<(String, String)> {
    let named = gantt.series.iter().take(COLOURS).enumerate();
    let mut entries: Vec<_> =
        named.map(|(i, name)| (class(i), shorten(name, LEGEND_CHARACTERS))).collect();
    if gantt.series.len() > COLOURS {
        entries.push((class(COLOURS), format!("{} others", gantt.series.len() - COLOURS)));
    }
    entries.push(("wasted".to_owned(), WASTED.to_owned()));
    entries
}

/// Where each entry of the legend goes: its line and its place in it.
fn places(gantt: &Gantt) -> Vec<(usize, f64)> {
    let (mut line, mut x) = (0, 12.0);
    let mut places = Vec::new();
    for (_, text) in entries(gantt) {
        let width = 20.0 + text_width(&text) + 18.0;
        if x + width > RIGHT && x > 12.0 {
            (line, x) = (line + 1, 12.0);
        }
        places.push((line, x));
        x += width;
    }
    places
}

fn legend_rows(gantt: &Gantt) -> usize {
    places(gantt).last().map_or(0, |(line, _)| line + 1)
}

fn legend(svg: &mut Svg, gantt: &Gantt) {
    for ((class, text), (line, x)) in entries(gantt).iter().zip(places(gantt)) {
        let y = 52.0 + line as f64 * 20.0;
        svg.rect((x, y), (14.0, 12.0), class);
        svg.text((x + 20.0, y + 10.5), Anchor::Start, "tick", text);
    }
}

/// The lines of the axis go over the bars, which would cover them, and under their names.
fn axis(svg: &mut Svg, (from, to): (f64, f64), x: &Scale, (top, bottom): (f64, f64)) {
    let (unit, name) = match to - from {
        span if span < 2e4 => (1.0, "ns"),
        span if span < 2e7 => (1e3, "us"),
        span if span < 2e10 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    for tick in ticks((from / unit, to / unit), 10) {
        let at = x.at(tick * unit);
        // Products like 3 * 0.1 fall a hair beside the number that they are.
        let tick = (tick * 1e3).round() / 1e3;
        svg.line((at, top), (at, bottom + 4.0), "grid");
        svg.text((at, bottom + 18.0), Anchor::Middle, "tick", &format!("{tick}"));
    }
    let caption = format!("time since the start, {name}");
    svg.text((RIGHT, bottom + 36.0), Anchor::End, "tick", &caption);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(series: usize) -> Gantt {
        let bar = |from_ns, to_ns, series, label: &str| Bar {
            from_ns,
            to_ns,
            series,
            label: label.to_owned(),
        };
        Gantt {
            title: "a <title>".to_owned(),
            about: "vtime, seed 1".to_owned(),
            window_ns: (1_000_000_000, 1_050_000_000),
            series: (0..series).map(|i| format!("group {i}")).collect(),
            lanes: vec![
                Lane {
                    label: "CPU 0".to_owned(),
                    bars: vec![
                        bar(1_000_000_000, 1_020_000_000, 0, "long"),
                        bar(1_020_000_000, 1_020_001_000, 9, "short"),
                    ],
                    wasted: vec![(1_030_000_000, 1_040_000_000), (1_041_000_000, 1_041_000_500)],
                },
                Lane { label: "CPU 1".to_owned(), ..Lane::default() },
            ],
        }
    }

    #[test]
    fn a_picture_is_a_file_that_needs_nothing_else() {
        let out = gantt(&example(2));
        assert!(out.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{out}");
        assert!(out.contains("<style>") && !out.contains("href"), "{out}");
        assert!(out.contains("a &lt;title&gt;"), "{out}");
        assert!(out.contains("time since the start, ms"), "{out}");
    }

    #[test]
    fn what_has_no_room_for_its_label_says_it_to_the_pointer_only() {
        let out = gantt(&example(2));
        assert!(out.contains(">long</text>") && !out.contains(">short</text>"), "{out}");
        assert!(out.contains("<title>short (): 1 us from 1.02 s</title>"), "{out}");
    }

    #[test]
    fn idle_time_beside_work_is_hatched_where_it_can_be_seen() {
        let out = gantt(&example(2));
        let marks = out.matches("class=\"wasted\"><title>").count();
        assert_eq!(marks, 1, "half a microsecond is no pixel: {out}");
        assert!(out.contains(WASTED), "{out}");
    }

    #[test]
    fn groups_beyond_the_colours_share_one() {
        assert!(!gantt(&example(7)).contains("others</text>"));
        assert!(gantt(&example(10)).contains(">3 others</text>"));
    }
}
