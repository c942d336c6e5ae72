//! `metasched lane list`.

mod limits;
mod waits;

use std::path::Path;
use std::time::Duration;

use metasched_base::{Figure, Kind, document, parse_duration};
use metasched_control::describe_quarantine;
use metasched_control::keeper::KeeperStatus;
use metasched_host::process::Prompt;
use metasched_loader::{LaneInfo, LaneState, Quarantine};
use metasched_watch::{LANE_FIGURES, LaneRow, lane_rows};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::commands::keeper::kept_status;
use crate::commands::table::{Column, Fit, clear_screen, fitted, terminal_width};
use crate::context::{self, Context};
use limits::LimitsView;
use waits::Waits;

/// Of an application's cgroups the text shows as many; JSON has all.
const CGROUPS_SHOWN: usize = 3;

/// Shows the lanes: what is assigned, the shares that they should have and had, how long
/// tasks wait for a CPU, what is queued.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Over how long a time shares and waits are measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Show it again after each interval until Ctrl-C; with --json as JSON lines
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Serialize)]
struct View {
    lanes: Vec<Row>,
    /// Lanes whose policies did not dispatch and were not asked any more.
    quarantines: Vec<Quarantine>,
    /// What they mean, a sentence for each.
    #[serde(skip)]
    told: Vec<String>,
    limits: LimitsView,
}

/// One lane over the time that was looked at.
#[derive(Debug)]
struct Row {
    row: LaneRow,
    /// How long its tasks waited for a CPU; `None` where the kernel does not tell.
    waits: Option<Waits>,
}

/// The lane as the kernel program has it, its figures, and who is on it.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            name: &'a Option<String>,
            cgroups: &'a [String],
            waits: &'a Option<Waits>,
            #[serde(flatten)]
            lane: Map<String, Value>,
        }
        let LaneRow { name, cgroups, lane, .. } = &self.row;
        let known = serde_json::to_value(lane).map_err(serde::ser::Error::custom)?;
        let mut lane = known.as_object().cloned().unwrap_or_default();
        lane.remove("waits");
        lane.extend(document(LANE_FIGURES, &self.row));
        Shown { name, cgroups, waits: &self.waits, lane }.serialize(serializer)
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> metasched_base::Result<u8> {
    let _prompt = Prompt::new();
    match show(args, context) {
        // That is how watching is meant to end.
        Err(error) if args.watch && error.kind == Kind::Interrupted => Ok(0),
        shown => shown.map(|()| 0),
    }
}

fn show(args: &Args, context: &Context) -> metasched_base::Result<()> {
    let attempt = "show the lanes";
    let mut before = kept_status(context, attempt)?;
    loop {
        context.interrupt.sleep(args.interval);
        context.interrupt.check(attempt)?;
        let after = kept_status(context, attempt)?;
        let view = compare(&before, &after);
        if !args.watch {
            return context.print(&view, |view| text(view, terminal_width()));
        }
        if context.json {
            context::json_line(&view)?;
        } else {
            context.print(&view, |view| {
                format!("{}{}", clear_screen(), text(view, terminal_width()))
            })?;
        }
        before = after;
    }
}

/// What happened between two looks.
fn compare(before: &KeeperStatus, after: &KeeperStatus) -> View {
    let app_numbered = |number: u32| after.apps.iter().find(|app| app.number == number);
    let row = |row: LaneRow| Row { waits: Waits::of(row.earlier.as_ref(), &row.lane), row };
    View {
        lanes: lane_rows(before, after).into_iter().map(row).collect(),
        quarantines: after.quarantines.clone(),
        told: after
            .quarantines
            .iter()
            .map(|q| describe_quarantine(q, app_numbered(q.app)))
            .collect(),
        limits: LimitsView::new(Path::new("/"), &after.limits),
    }
}

/// What may become of a figure's column where there is no room.
fn fit(figure: &Figure<LaneRow>) -> Fit {
    match figure.name {
        "nr_queued" => Fit::Out(4),
        "kicks" => Fit::Out(2),
        "longest_unserved_ns" => Fit::Out(1),
        "replaced" => Fit::Out(0),
        _ => Fit::Whole,
    }
}

fn text(view: &View, width: Option<usize>) -> String {
    // Waits stand after what tasks wait for: the queue.
    let place = LANE_FIGURES.iter().position(|figure| figure.name == "kicks");
    let (before, after) = LANE_FIGURES.split_at(place.unwrap_or(LANE_FIGURES.len()));
    let column = |figure: &Figure<LaneRow>| (figure.title, fit(figure));
    let mut columns: Vec<Column> = vec![("APP", Fit::Names), ("POLICY", Fit::Whole)];
    columns.extend(before.iter().map(column));
    columns.extend([("WAIT P50", Fit::Out(5)), ("P99", Fit::Whole), ("LONGEST", Fit::Out(3))]);
    columns.extend(after.iter().map(column));
    columns.extend([("STATE", Fit::Whole), ("CGROUPS", Fit::Names)]);
    let cells = |Row { row, waits }: &Row| {
        let name = match &row.name {
            Some(name) => name.as_str(),
            None if row.lane.is_root() => "(everything else)",
            None => "(none any more)",
        };
        let mut cells = vec![name.to_owned(), row.lane.policy.clone()];
        cells.extend(before.iter().map(|figure| figure.text(row)));
        cells.extend(Waits::cells(waits.as_ref()));
        cells.extend(after.iter().map(|figure| figure.text(row)));
        cells.extend([state(&row.lane).to_owned(), some(&row.cgroups)]);
        cells
    };
    let mut out = fitted(&columns, &view.lanes.iter().map(cells).collect::<Vec<_>>(), width);
    out.extend(Waits::notes(view.lanes.iter().map(|row| row.waits.as_ref())));
    out.extend(view.limits.text(width));
    out.extend(view.told.iter().cloned());
    out.join("\n")
}

/// The first of a list, and how many more there are.
fn some(cgroups: &[String]) -> String {
    let shown =
        cgroups.iter().take(CGROUPS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    match cgroups.len().saturating_sub(CGROUPS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn state(lane: &LaneInfo) -> &'static str {
    match lane.state {
        _ if lane.quarantined => "quarantine",
        LaneState::Free => "free",
        LaneState::InForce => "in force",
        LaneState::Draining => "draining",
        LaneState::Retired => "retired",
        LaneState::Resting => "resting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::{App, Candidate, Member, Why};
    use metasched_loader::LaneSpec;

    pub(super) fn lane(app: u32, weight: u32, runtime_ns: u64) -> LaneInfo {
        LaneInfo {
            index: app,
            policy: "fifo".to_owned(),
            generation: u64::from(app) + 1,
            state: LaneState::InForce,
            app,
            weight,
            weight_now: weight,
            nr_queued: 0,
            runtime_ns,
            kicks: 0,
            longest_unserved_ns: 0,
            waits: None,
            quarantined: false,
            in_force_ns: 1,
            first_run_ns: None,
            counters: Default::default(),
        }
    }

    fn status(lanes: Vec<LaneInfo>) -> KeeperStatus {
        KeeperStatus {
            pid: 1,
            scheduler: Candidate::eevdf(""),
            since_unix_s: 0,
            earlier: None,
            lanes,
            apps: vec![App {
                number: 1,
                name: "front".to_owned(),
                lane: LaneSpec::of("fifo"),
                why: Why::Hand,
                share: None,
                replaced: 3,
                quarantined: false,
                cgroups: ["a/b", "c", "d", "e"]
                    .map(|path| (path.to_owned(), Member { id: 7, rule: None }))
                    .into(),
            }],
            without_lane: Vec::new(),
            exempt: Default::default(),
            quarantines: Vec::new(),
            policies: Vec::new(),
            limits: Default::default(),
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_lane_and_fits() {
        let before = status(vec![lane(0, 100, 500), lane(1, 300, 100), lane(2, 100, 9)]);
        let after = status(vec![lane(0, 100, 600), lane(1, 300, 400), lane(2, 100, 9)]);
        let view = compare(&before, &after);
        let text = text(&view, None);
        assert!(text.contains("(everything else)") && text.contains("75.0 %"), "{text}");
        assert!(text.contains("a/b c d and 1 more"), "{text}");
        assert_eq!(view.lanes[1].row.cgroups.len(), 4);
        let document = serde_json::to_value(&view).unwrap();
        let front = &document["lanes"][1];
        let has = |key: &str| front.get(key).cloned().unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(
            (has("name"), has("share_got"), has("weight")),
            ("front".into(), 0.75.into(), 300.into())
        );
        assert!(has("waits").is_null() && has("policy") == "fifo" && has("replaced") == 3);
        // What follows the table is prose.
        for line in super::text(&view, Some(80)).lines().take(1 + view.lanes.len()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
