//! The figures as tables, and their place in a page of the documentation.

use crate::measure::Speed;
use crate::{Curve, Figures};
use comfy_table::Table;
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_benches::table;
use metasched_report::{Curve as Picture, CurveLine, curve as curve_picture};
use std::path::Path;

/// Between these two lines of a page stands what the bench wrote.
const BEGIN: &str = "<!-- make bench-sim writes from here -->";
const END: &str = "<!-- to here -->";

/// A figure with three digits that count.
fn three(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn with_interval(speed: &Speed) -> String {
    match speed.interval {
        Some(i) => format!("{} [{}-{}]", three(i.estimate), three(i.low), three(i.high)),
        None => three(speed.speed),
    }
}

fn speeds(figures: &Figures) -> Table {
    let mut shown = table(&[
        "8 CPUs, one thread",
        "load",
        "times real time",
        "by CPU time",
        "events per simulated s",
        "ns per event",
    ]);
    for (load, by_subject) in &figures.speeds {
        for (subject, speed) in by_subject {
            shown.add_row([
                subject.clone(),
                load.clone(),
                with_interval(speed),
                three(speed.speed_cpu),
                format!("{:.0}", speed.events_per_simulated_s),
                format!("{:.0}", speed.ns_per_event),
            ]);
        }
    }
    shown
}

fn curve(curve: &[Curve]) -> Table {
    let mut subjects: Vec<&str> = curve.iter().map(|point| point.subject.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    let mut titles = vec!["CPUs".to_owned()];
    for subject in &subjects {
        titles.push(format!("{subject}: times real time"));
        titles.push("events per s".to_owned());
        titles.push("ns per event".to_owned());
    }
    let mut shown = table(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    let mut sizes: Vec<usize> = curve.iter().map(|point| point.cpus).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for cpus in sizes {
        let mut row = vec![cpus.to_string()];
        for subject in &subjects {
            let found = curve.iter().find(|p| p.cpus == cpus && p.subject == *subject);
            row.extend(match found.map(|point| &point.speed) {
                Some(speed) => [
                    three(speed.speed),
                    three(speed.events_per_s),
                    format!("{:.0}", speed.ns_per_event),
                ],
                None => ["not measured"; 3].map(str::to_owned),
            });
        }
        shown.add_row(row);
    }
    shown
}

/// Everything, in Markdown.
pub fn markdown(figures: &Figures) -> String {
    let mut text = format!("{}.\n", figures.host);
    if !figures.speeds.is_empty() {
        text += &format!("\n{}\n", speeds(figures));
    }
    if !figures.curve.is_empty() {
        text += &format!("\n{}\n", curve(&figures.curve));
    }
    if let Some(big) = &figures.big {
        text += &format!(
            "\nThe big case, {} CPUs, {} tasks, {} cgroups and {} lanes: {} times real time, {} \
             events in {:.1} s of wall time ({:.0} ns of CPU time each), at most {:.0} MiB.\n",
            big.cpus,
            big.tasks,
            big.cgroups,
            big.lanes,
            three(big.speed),
            big.events,
            big.wall_s,
            big.ns_per_event,
            big.peak_mib,
        );
    }
    if let Some(seeds) = &figures.seeds {
        text += &format!(
            "\nSeeds in parallel: {} runs of the contended load under vtime take {:.2} s on one \
             thread and {:.2} s on {}: {} and {} times real time.\n",
            seeds.runs,
            seeds.alone_s,
            seeds.parallel_s,
            seeds.threads,
            three(seeds.speed_alone),
            three(seeds.speed_parallel),
        );
    }
    text
}

/// The curve as a picture: what an event takes, over the size of the machine.
fn picture(figures: &Figures) -> String {
    let mut lines: Vec<CurveLine> = Vec::new();
    for Curve { subject, cpus, speed } in &figures.curve {
        let at = lines.iter().position(|line| line.label == *subject).unwrap_or_else(|| {
            lines.push(CurveLine { label: subject.clone(), points: Vec::new() });
            lines.len() - 1
        });
        lines[at].points.push((*cpus as f64, speed.ns_per_event));
    }
    curve_picture(&Picture {
        title: "What an event of the simulator takes".to_owned(),
        about: format!("the contended load; {}", figures.host),
        axes: ("CPUs of the machine that is simulated".to_owned(), "CPU time, ns".to_owned()),
        lines,
    })
}

/// Writes the figures into a page, between two lines that it has, and the curve beside it, with
/// the page's name and the ending `svg`.
///
/// # Errors
/// When the page cannot be read or written, or lacks those lines.
pub fn write(path: &Path, figures: &Figures) -> Result<()> {
    let attempt = || format!("write the figures into {}", path.display());
    let text = std::fs::read_to_string(path).attempt(Kind::BadInput, attempt)?;
    let page = fill(&text, &markdown(figures)).ok_or_else(|| {
        Error::new(Kind::BadInput, attempt(), "it does not say where")
            .remedy(format!("give it the lines '{BEGIN}' and '{END}'"))
    })?;
    std::fs::write(path, page).attempt(Kind::Failed, attempt)?;
    let beside = path.with_extension("svg");
    std::fs::write(&beside, picture(figures))
        .attempt(Kind::Failed, || format!("draw the curve in {}", beside.display()))
}

fn fill(page: &str, figures: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{figures}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_between_their_lines_and_replace_earlier_ones() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let filled = fill(&page, "new").unwrap();
        assert_eq!(filled, format!("above\n{BEGIN}\n\nnew\n{END}\nbelow\n"));
        assert_eq!(fill(&filled, "new").unwrap(), filled);
        assert_eq!(fill("no place", "new"), None);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [1.234, 12.34, 123.4, 1_234_567.0].map(three),
            ["1.23", "12.3", "123", "1.23 M"]
        );
    }
}
