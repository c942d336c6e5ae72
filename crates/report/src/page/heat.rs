//! The heat map: every scheduler on every form at a glance. It is a table, so nothing more has to
//! stand behind it.

use metasched_experiment::{Plan, Ratio, Verdict};
use metasched_profile::{Analysis, FormFigures};

use super::html::{escape, factor, scroll};
use super::schedulers::{heading, verdict_text};

/// What the map is called. Short: it is as wide as the table, which scrolls on a phone.
const CAPTION: &str = "Factors against EEVDF";

/// From which factor on a cell has the next stronger colour. A scheduler's effect is a few
/// percent as a rule, and a service beside a hog may gain a factor of two.
const STEPS: [f64; 3] = [1.05, 1.15, 1.5];

/// A row for each scheduler, and for turns or lanes that are recommended; two columns for each form.
pub fn section(analysis: &Analysis, plan: &Plan) -> String {
    let forms: Vec<&FormFigures> =
        analysis.forms.iter().filter(|f| !f.candidates.is_empty()).collect();
    // In the order in which they were first measured.
    let mut schedulers: Vec<&str> = Vec::new();
    for candidate in forms.iter().flat_map(|f| &f.candidates) {
        if !schedulers.contains(&candidate.name.as_str()) {
            schedulers.push(&candidate.name);
        }
    }
    if schedulers.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<section>\n<h2>At a glance</h2>\n<p>Each cell is a factor against the kernel's default \
         scheduler (EEVDF), with its 95 % interval beneath: 1.10 is a tenth more than under \
         EEVDF. More throughput is better, and less latency.</p>\n{}{}<table \
         class=\"heat\"><caption>{CAPTION}</caption>\n",
        legend(),
        scroll(CAPTION)
    );
    out += "<thead><tr><th scope=\"col\" rowspan=\"2\">scheduler</th>";
    for form in &forms {
        let name = escape(&heading(analysis, form));
        out += &format!("<th scope=\"colgroup\" colspan=\"2\">{name}</th>");
    }
    out += "</tr>\n<tr>";
    out += &"<th scope=\"col\">throughput</th><th scope=\"col\">p99</th>".repeat(forms.len());
    out += "</tr></thead>\n<tbody>\n";
    let recommended = plan.recommendation.as_ref().and_then(|r| r.contender.as_ref());
    let is_recommended = |name: &str| recommended.is_some_and(|c| c.to_string() == name);
    for name in schedulers {
        let cells = forms.iter().flat_map(|form| {
            let found = form.candidates.iter().find(|c| c.name == name);
            [found.map(|c| c.throughput), found.map(|c| c.p99)]
        });
        out += &row(name, is_recommended(name), cells);
    }
    // Of turns and lanes there are many; the answer above is to be found here all the same.
    for s in analysis.strategies.iter().filter(|s| Some(&s.contender) == recommended) {
        let whole = analysis.composition.whole.as_deref();
        let cells = forms.iter().flat_map(|form| match whole == Some(form.form.as_str()) {
            true => [Some(s.throughput), Some(s.p99)],
            false => [None; 2],
        });
        out += &row(&s.contender.to_string(), true, cells);
    }
    out + "</tbody></table></div>\n</section>\n"
}

fn row(name: &str, recommended: bool, cells: impl Iterator<Item = Option<Ratio>>) -> String {
    let mark = if recommended { "<span>recommended</span>" } else { "" };
    let cells: String = cells.map(cell).collect();
    format!("<tr><th scope=\"row\">{}{mark}</th>{cells}</tr>\n", escape(name))
}

/// What the colours stand for, in words.
fn legend() -> String {
    let name = |step: usize| match STEPS.get(step) {
        Some(limit) => format!("≤\u{a0}{limit}"),
        None => format!(">\u{a0}{}", STEPS[STEPS.len() - 1]),
    };
    let swatches = |kind: &str| -> String {
        let swatch = |step| format!("<span class=\"{kind}{step}\">{}</span>", escape(&name(step)));
        (0..=STEPS.len()).map(swatch).collect()
    };
    format!(
        "<p class=\"legend\">better, by a factor {}</p>\n\
         <p class=\"legend\">worse, by a factor {}</p>\n\
         <p class=\"legend\"><span class=\"none\">grey</span> no difference shown, within the noise \
         of so many schedulers, or too few rounds</p>\n",
        swatches("better"),
        swatches("worse")
    )
}

/// A cell. Its colour says no more than its words.
fn cell(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else {
        return "<td class=\"none\">not measured</td>".to_owned();
    };
    // As the p99 of a job, which answers no requests.
    let Some(estimate) = ratio.estimate else {
        return "<td class=\"none\">no figure</td>".to_owned();
    };
    let interval = match ratio.interval {
        Some(i) => format!("{} to {}", factor(i.low), factor(i.high)),
        None => "one round".to_owned(),
    };
    let (class, verdict) = class_and_words(&ratio, estimate);
    format!(
        "<td class=\"{class}\"><b>{}</b><span>{interval}</span><span>{verdict}</span></td>",
        factor(estimate)
    )
}

fn class_and_words(ratio: &Ratio, estimate: f64) -> (String, &'static str) {
    let one_is_within = ratio.interval.is_none_or(|i| i.contains(1.0));
    let kind = match ratio.verdict {
        Verdict::TooFewRounds => return ("none".to_owned(), verdict_text(ratio.verdict)),
        _ if one_is_within => return ("none".to_owned(), "no difference shown"),
        // The interval is that of this scheduler alone; the verdict knows of the others.
        Verdict::WithinNoise => return ("none".to_owned(), verdict_text(ratio.verdict)),
        Verdict::Better => "better",
        Verdict::Worse => "worse",
    };
    let distance = estimate.max(estimate.recip());
    let step = STEPS.iter().filter(|limit| distance > **limit).count();
    (format!("{kind}{step}"), kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_stats::Interval;

    fn ratio(estimate: f64, low: f64, high: f64, verdict: Verdict) -> Ratio {
        let interval = Some(Interval { estimate, low, high, n: 6 });
        Ratio { estimate: Some(estimate), interval, verdict }
    }

    #[test]
    fn a_cell_has_the_ratio_its_interval_and_a_word_beside_its_colour() {
        let out = cell(Some(ratio(1.12, 1.08, 1.16, Verdict::Better)));
        let text =
            "<td class=\"better1\"><b>1.12</b><span>1.08 to 1.16</span><span>better</span></td>";
        assert_eq!(out, text);
        assert!(cell(Some(ratio(0.29, 0.2, 0.4, Verdict::Better))).contains("class=\"better3\""));
        assert!(cell(Some(ratio(0.97, 0.96, 0.98, Verdict::Worse))).contains("class=\"worse0\""));
    }

    #[test]
    fn a_cell_whose_interval_holds_one_has_no_colour_and_says_so() {
        for verdict in [Verdict::WithinNoise, Verdict::Better, Verdict::Worse] {
            let out = cell(Some(ratio(1.02, 0.98, 1.06, verdict)));
            assert!(out.contains("class=\"none\"") && out.contains("no difference shown"), "{out}");
        }
        let out = cell(Some(ratio(0.97, 0.95, 0.99, Verdict::WithinNoise)));
        assert!(out.contains("class=\"none\"") && out.contains("within the noise"), "{out}");
        let few = Ratio { estimate: Some(2.0), ..Ratio::default() };
        assert!(
            cell(Some(few)).contains("one round") && cell(Some(few)).contains("class=\"none\"")
        );
        assert!(cell(Some(Ratio::default())).contains("no figure"));
        assert!(cell(None).contains("not measured"));
    }
}
