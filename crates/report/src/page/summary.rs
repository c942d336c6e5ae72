//! What it comes to, in plain words.

use metasched_experiment::{Confidence, Outcome, Plan, Strategy};
use metasched_profile::BASELINE;

use super::html::{Table, escape, typeset};
use super::strategies;
use metasched_profile::Analysis;

/// Which scheduler each part prefers, how sure that is, and what turns gave.
pub fn section(analysis: &Analysis, plan: &Plan) -> String {
    let mut out = String::from("<section class=\"summary\">\n<h2>In short</h2>\n<ul>\n");
    for app in &plan.apps {
        out += &preference(&app.name, &app.preferred, &app.sure, app.best_estimate.as_deref());
    }
    if let Some(whole) = &plan.whole {
        let name = format!("{} (the whole, under one scheduler)", whole.form);
        let best = whole.best_estimate.as_deref();
        out += &preference(&name, &whole.preferred, &whole.sure, best);
    }
    match strategies::best_sentence(analysis) {
        Some(sentence) => out += &format!("<li>{sentence}</li>\n"),
        None => out += "<li>Taking turns between the preferred schedulers: not measured.</li>\n",
    }
    out += &format!(
        "</ul>\n<p class=\"muted\">Preferred by {}. Every figure is a ratio to the kernel's \
         default scheduler (EEVDF), measured in the same round of the same boot, with a 95 % \
         interval; those in this list are wide enough to hold although the best of several was \
         picked.</p>\n",
        escape(&objectives(plan))
    );
    out += &weights(plan).details("The weights of the turns");
    out + "</section>\n"
}

/// What each part was judged by.
fn objectives(plan: &Plan) -> String {
    match &plan.objective {
        Some(objective) => objective.clone(),
        None => {
            let of = plan.apps.iter().map(|app| format!("{} ({})", app.objective, app.name));
            of.collect::<Vec<_>>().join(", ")
        }
    }
}

fn preference(name: &str, preferred: &str, sure: &Confidence, best: Option<&str>) -> String {
    let sentence = sure.sentence.strip_prefix(&format!("{preferred}: ")).unwrap_or(&sure.sentence);
    let mut text = format!(
        "<li><b>{}</b> prefers <b>{}</b>: {}",
        escape(name),
        if preferred == BASELINE { "the default (EEVDF)".into() } else { escape(preferred) },
        escape(&typeset(sentence))
    );
    if let (Outcome::NoneBetter, Some(best)) = (sure.outcome, best) {
        text += &format!("; the highest estimate is that of {}", escape(best));
    }
    text + ".</li>\n"
}

fn weights(plan: &Plan) -> Table {
    let caption = format!(
        "Weight and turn of each part's preferred scheduler at a base timeslice of {} ms",
        plan.base_slice_ms
    );
    let mut header = vec!["strategy".to_owned()];
    header.extend(plan.apps.iter().map(|a| format!("{} ({})", a.name, a.preferred)));
    let mut table = Table::new(&caption, header);
    for strategy in Strategy::ALL {
        let mut row = vec![strategy.to_string()];
        row.extend(plan.apps.iter().map(|a| {
            let weight = a.weights.get(&strategy).copied().unwrap_or(0.0);
            let slice_ms = a.slices_ms.get(&strategy).copied().unwrap_or(0.0);
            format!("{weight:.3}, {slice_ms:.0} ms")
        }));
        table.row(row);
    }
    table
}
