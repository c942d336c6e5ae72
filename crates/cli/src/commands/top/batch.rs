//! Looks as text, one after the other, or as JSON lines.

use metasched_base::{Result, document};
use metasched_watch::{Look, Looks, ROW_FIGURES, Row};
use serde_json::{Value, json};

use super::Args;
use crate::commands::table::{Column, Fit, fitted, terminal_width};
use crate::context::{self, Context};

/// Without a screen and without a number of looks, there is one.
const LOOKS: u64 = 1;

/// Prints so many looks.
pub fn run(args: &Args, looks: &mut Looks, context: &Context) -> Result<()> {
    let endless = context.json && args.count.is_none();
    let mut left = args.count.unwrap_or(LOOKS);
    while endless || left > 0 {
        if !context.interrupt.sleep(args.interval) {
            // That is how JSON lines are meant to end.
            return if endless { Ok(()) } else { context.interrupt.check("looking") };
        }
        let look = looks.look()?;
        match context.json {
            true => context::json_line(&of(&look))?,
            false => context.print(&of(&look), |_| text(&look))?,
        }
        left = left.saturating_sub(1);
    }
    Ok(())
}

/// A look as a document.
fn of(look: &Look) -> Value {
    let row = |row: &Row| {
        let mut document = document(ROW_FIGURES, row);
        let counters: serde_json::Map<String, Value> =
            row.counters.iter().map(|(name, _, count)| (name.clone(), json!(count))).collect();
        for (name, value) in [
            ("name", json!(row.name)),
            ("policy", json!(row.policy)),
            ("cgroups", json!(row.cgroups)),
            ("counters", Value::Object(counters)),
        ] {
            document.insert(name.to_owned(), value);
        }
        Value::Object(document)
    };
    json!({
        "scheduler": look.scheduler,
        "rows_are": if look.lanes { "lanes" } else { "cgroups" },
        "length_ns": look.length_ns,
        "wakeups_per_s": look.wakeups_per_s,
        "switches_per_s": look.switches_per_s,
        "waits": look.waits.as_ref().map(|w| document(metasched_stats::WaitHistogram::FIGURES, w)),
        "overhead": look.overhead,
        "rows": look.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn text(look: &Look) -> String {
    let mut columns: Vec<Column> =
        vec![(if look.lanes { "APP" } else { "CGROUP" }, Fit::Names), ("POLICY", Fit::Whole)];
    columns.extend(ROW_FIGURES.iter().map(|figure| (figure.title, Fit::Out(1))));
    let cells = |row: &Row| {
        let mut cells = vec![row.name.clone(), row.policy.clone().unwrap_or_else(|| "-".into())];
        cells.extend(ROW_FIGURES.iter().map(|figure| figure.text(row)));
        cells
    };
    let rows: Vec<Vec<String>> = look.rows.iter().map(cells).collect();
    let mut out = format!("{}\n{}\n", super::draw::headline(look), super::draw::waits_line(look));
    out += &fitted(&columns, &rows, terminal_width()).join("\n");
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::super::draw::tests::look;
    use super::*;

    #[test]
    fn a_look_is_a_table_and_a_document_of_the_same_figures() {
        let look = look();
        let text = text(&look);
        assert!(
            text.contains("front") && text.contains("vtime") && text.contains("75.0 %"),
            "{text}"
        );
        let document = of(&look);
        assert_eq!(document["rows"][1]["name"], "front");
        assert_eq!(document["rows"][1]["got"], 0.75);
        for figure in ROW_FIGURES {
            assert!(document["rows"][0].get(figure.name).is_some(), "{}", figure.name);
        }
    }
}
