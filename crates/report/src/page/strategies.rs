//! The section on metaschedulers: Figure 2.

use metasched_control::Mechanism;
use metasched_experiment::{Contender, Ratio, Strategy, Verdict};

use super::dots::{self, Better, Dot, Group};
use super::html::{Table, escape};
use super::lines::{self, Line, Panel, Reference};
use super::schedulers::{interval_text, ratio_text, verdict_text};
use super::svg::Svg;
use super::{absent, figure};
use metasched_profile::{Analysis, CandidateFigures, StrategyFigures};

/// The mechanism as the page calls it.
pub fn mechanism_text(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Swap => "process swap",
        Mechanism::Lane => "lane",
    }
}

/// The same of a name that stands in the store.
fn by(contender: &Contender) -> &'static str {
    let mechanism = contender.mechanism().and_then(|name| name.parse().ok());
    mechanism.map_or("lanes side by side", mechanism_text)
}

/// How a strategy's schedulers share the machine, in a few words.
fn way_text(contender: &Contender) -> String {
    match contender.base_slice_ms() {
        Some(ms) => {
            format!("taking turns by {} at a base timeslice of {ms} ms", by(contender))
        }
        None => "side by side on lanes".to_owned(),
    }
}

/// The metascheduler with the highest throughput.
pub fn best(analysis: &Analysis) -> Option<&StrategyFigures> {
    analysis
        .strategies
        .iter()
        .filter_map(|s| Some((s, s.throughput.estimate?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(s, _)| s)
}

/// The best metascheduler in a sentence of HTML.
pub fn best_sentence(analysis: &Analysis) -> Option<String> {
    let s = best(analysis)?;
    let verdict = match s.throughput.verdict {
        Verdict::Better => "better than EEVDF beyond the noise",
        Verdict::Worse => "worse than EEVDF beyond the noise",
        Verdict::WithinNoise => "no different from EEVDF beyond the noise",
        Verdict::TooFewRounds => "with too few rounds to tell it from EEVDF",
    };
    let mut text = format!(
        "Of all metaschedulers <b>{}</b>, {}, gave the most throughput: {}, {verdict}; p99 \
         latency {}.",
        s.contender.by(),
        way_text(&s.contender),
        escape(&ratio_text(&s.throughput)),
        escape(&ratio_text(&s.p99)),
    );
    for (other, over) in &s.over {
        let change = interval_text(over.throughput);
        text += &format!(" Against {}, in the same rounds: {change}.", escape(other));
    }
    Some(text)
}

/// Strategies over base timeslices, by both mechanisms.
pub fn section(analysis: &Analysis) -> String {
    let mut out =
        String::from("<section>\n<h2>Metaschedulers: turns, and lanes side by side</h2>\n");
    if analysis.strategies.is_empty() {
        return out + &absent("Metaschedulers", "metasched tune") + "</section>\n";
    }
    out += "<p>A metascheduler puts each part's preferred scheduler in force in turns. The base \
            timeslice sets how long: with n parts, a cycle lasts n base timeslices, and the \
            strategy's weights say how it is shared. By process swap one scheduler is stopped \
            and the next started; by lane a running program changes its policy. Side by side \
            there are no turns: each part is on a lane of its policy, all at the same time, \
            with the strategy's weight as its share.</p>\n";
    out += &format!("<p>{}</p>\n", best_sentence(analysis).unwrap_or_default());
    out += "<div class=\"charts\">\n";
    let single = best_single(analysis, |c| c.throughput, true);
    out += &line_figure(analysis, "throughput", "Throughput", |s| s.throughput, single.as_ref());
    let single = best_single(analysis, |c| c.p99, false);
    out += &line_figure(analysis, "p99", "99th percentile of latency", |s| s.p99, single.as_ref());
    out += &lanes_figure(analysis, "throughput", "Throughput", Better::More, |s| s.throughput);
    out += &lanes_figure(analysis, "p99", "99th percentile of latency", Better::Less, |s| s.p99);
    out += "</div>\n";
    out + &turns(analysis) + "</section>\n"
}

/// Those that take turns, or those that do not: lanes side by side.
fn strategies(analysis: &Analysis, turns: bool) -> impl Iterator<Item = &StrategyFigures> {
    analysis.strategies.iter().filter(move |s| s.contender.base_slice_ms().is_some() == turns)
}

/// The single scheduler that did best on the whole, to compare with.
fn best_single(
    analysis: &Analysis,
    of: impl Fn(&CandidateFigures) -> Ratio,
    more: bool,
) -> Option<Reference> {
    let candidates = analysis.whole()?.candidates.iter();
    let rated = candidates.filter_map(|c| Some((c, of(c).estimate?)));
    let best = rated.max_by(|a, b| if more { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) });
    best.map(|(c, ratio)| Reference { label: c.name.clone(), ratio })
}

/// Turns over base timeslices; nothing where there are none.
fn line_figure(
    analysis: &Analysis,
    id: &str,
    title: &str,
    of: impl Fn(&StrategyFigures) -> Ratio,
    reference: Option<&Reference>,
) -> String {
    let mut panels = Vec::new();
    for mechanism in [Mechanism::Swap, Mechanism::Lane] {
        let mut lines = Vec::new();
        for (series, strategy) in Strategy::ALL.iter().enumerate() {
            let points: Vec<(f64, Ratio)> = strategies(analysis, true)
                .filter(|s| s.contender.mechanism() == Some(mechanism.to_string().as_str()))
                .filter(|s| s.contender.strategy() == Some(*strategy))
                .filter_map(|s| Some((s.contender.base_slice_ms()? as f64, of(s))))
                .collect();
            if !points.is_empty() {
                lines.push(Line { label: strategy.name().to_owned(), series, points });
            }
        }
        if !lines.is_empty() {
            panels.push(Panel { heading: format!("by {}", mechanism_text(mechanism)), lines });
        }
    }
    if panels.is_empty() {
        return String::new();
    }
    let description = format!(
        "{title} of the whole application under each metascheduler, over the base timeslice, as \
         a percentage against EEVDF with 95 % intervals. The values are in the table behind it."
    );
    let svg = Svg::new(&format!("strategies-{id}"), title, &description);
    let chart = lines::chart(svg, &panels, reference);
    let caption = format!("{title} of the whole by turns, against EEVDF");
    figure(&chart, &caption, &table(strategies(analysis, true), &caption, of))
}

/// Lanes side by side, which have no timeslice; nothing where there are none.
fn lanes_figure(
    analysis: &Analysis,
    id: &str,
    title: &str,
    better: Better,
    of: impl Fn(&StrategyFigures) -> Ratio,
) -> String {
    let dot = |s: &StrategyFigures| Dot { label: s.contender.by(), ratio: of(s) };
    let dots: Vec<Dot> = strategies(analysis, false).map(dot).collect();
    if dots.is_empty() {
        return String::new();
    }
    let caption = format!("{title} of the whole on lanes, against EEVDF");
    let description = format!(
        "{caption}, for each strategy as a percentage with its 95 % interval. The values are in \
         the table behind it."
    );
    let svg = Svg::new(&format!("lanes-{id}"), &caption, &description);
    let chart = dots::chart(svg, &[Group { heading: "lanes".to_owned(), dots }], better);
    figure(&chart, &caption, &table(strategies(analysis, false), &caption, of))
}

fn table<'a>(
    strategies: impl Iterator<Item = &'a StrategyFigures>,
    caption: &str,
    of: impl Fn(&StrategyFigures) -> Ratio,
) -> Table {
    let mut table = Table::new(
        &format!("{caption}, with 95 % intervals"),
        ["strategy", "by", "base timeslice", "change", "verdict", "rounds"],
    );
    for s in strategies {
        let ratio = of(s);
        table.row([
            s.contender.by(),
            by(&s.contender).to_owned(),
            s.contender.base_slice_ms().map_or("none".to_owned(), |ms| format!("{ms} ms")),
            ratio_text(&ratio),
            verdict_text(ratio.verdict).to_owned(),
            s.rounds.rounds.len().to_string(),
        ]);
    }
    table
}

/// The application of each turn or lane, its scheduler and its weight.
fn turns(analysis: &Analysis) -> String {
    let mut table =
        Table::new("The turns and lanes", ["strategy", "by", "part, scheduler, weight"])
            .wrap_last();
    let mut seen = Vec::new();
    for s in &analysis.strategies {
        let shares = s.contender.shares().iter();
        let turns: Vec<String> =
            shares.map(|t| format!("{}: {} {:.2}", t.name(), t.scheduler, t.weight)).collect();
        let row = [s.contender.by(), by(&s.contender).to_owned(), turns.join(", ")];
        if !seen.contains(&row) {
            table.row(row.clone());
            seen.push(row);
        }
    }
    table.details("The turns and lanes")
}
