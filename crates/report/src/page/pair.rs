//! The section on a pair: what each of the two has while both run.

use metasched_experiment::Ratio;
use metasched_profile::{Analysis, SideFigures};

use super::dots::{self, Better, Dot, Group};
use super::figure;
use super::html::Table;
use super::schedulers::{ratio_text, verdict_text};
use super::svg::Svg;

/// Throughput and p99 of each of the two under each contender; nothing where it is no pair.
pub fn section(analysis: &Analysis) -> String {
    if analysis.sides.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section>\n<h2>Each of the two, while both run</h2>\n<p>What the load of each says while \
         the other runs beside it: under single schedulers, under turns, and on lanes side by \
         side. It is drawn as above, against EEVDF with both running too.</p>\n<div \
         class=\"charts\">\n",
    );
    out += &side_figure(analysis, "throughput", "Throughput", Better::More, |s| s.throughput);
    out += &side_figure(analysis, "p99", "99th percentile of latency", Better::Less, |s| s.p99);
    out + "</div>\n</section>\n"
}

fn side_figure(
    analysis: &Analysis,
    id: &str,
    title: &str,
    better: Better,
    of: impl Fn(&SideFigures) -> Ratio,
) -> String {
    let caption = format!("{title} of each while both run, against EEVDF");
    let mut table = Table::new(
        &format!("{caption}, with 95 % intervals"),
        ["of", "under", "change", "verdict", "rounds"],
    );
    let mut groups = Vec::new();
    for name in names(analysis) {
        let sides: Vec<&SideFigures> = analysis.sides.iter().filter(|s| s.name == name).collect();
        let dot = |s: &&SideFigures| Dot { label: s.subject.clone(), ratio: of(s) };
        groups.push(Group { heading: name.to_owned(), dots: sides.iter().map(dot).collect() });
        for s in sides {
            table.row([
                name.to_owned(),
                s.subject.clone(),
                ratio_text(&of(s)),
                verdict_text(of(s).verdict).to_owned(),
                s.rounds.to_string(),
            ]);
        }
    }
    let description = format!(
        "{title} of each of the two while both run, under each scheduler, turns and lanes, as a \
         percentage against EEVDF, with 95 % intervals. The values are in the table behind it."
    );
    let svg = Svg::new(&format!("pair-{id}"), title, &description);
    figure(&dots::chart(svg, &groups, better), &caption, &table)
}

/// The two, in the order in which the workload names them.
fn names(analysis: &Analysis) -> Vec<&str> {
    let mut names: Vec<&str> = analysis.sides.iter().map(|s| s.name.as_str()).collect();
    let place = |name: &str| analysis.composition.parts.iter().position(|part| part == name);
    names.sort_by(|a, b| place(a).cmp(&place(b)).then(a.cmp(b)));
    names.dedup();
    names
}
