//! `metasched lane list`.

mod limits;
mod waits;

use std::path::Path;
use std::time::Duration;

use metasched_base::{Kind, Result, parse_duration};
use metasched_control::describe_quarantine;
use metasched_control::keeper::KeeperStatus;
use metasched_host::process::Prompt;
use metasched_loader::{LaneInfo, LaneState, Quarantine};
use metasched_watch::{LaneRow, lane_rows};
use serde::Serialize;

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
#[derive(Debug, Serialize)]
struct Row {
    /// The application whose lane it is; none for the default lane.
    name: Option<String>,
    /// The cgroups that are on it; none for the default lane.
    cgroups: Vec<String>,
    /// What it weighs in the hierarchy of cgroups, over that of all lanes that had work.
    share_wanted: Option<f64>,
    /// Its CPU time over that of all lanes; `None` where nothing was measured, as with
    /// a lane that is alone.
    share_got: Option<f64>,
    /// How long its tasks waited for a CPU; `None` where the kernel does not tell.
    waits: Option<Waits>,
    /// How often the application has got another lane in place of the one it had; `None`
    /// where it is no application's lane.
    replaced: Option<u64>,
    #[serde(flatten)]
    lane: LaneInfo,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    match show(args, context) {
        // That is how watching is meant to end.
        Err(error) if args.watch && error.kind == Kind::Interrupted => Ok(0),
        shown => shown.map(|()| 0),
    }
}

fn show(args: &Args, context: &Context) -> Result<()> {
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
    let row = |row: LaneRow| {
        let LaneRow { name, cgroups, share_wanted, share_got, replaced, lane, earlier } = row;
        let waits = Waits::of(earlier.as_ref(), &lane);
        let lane = LaneInfo { waits: None, ..lane };
        Row { name, cgroups, share_wanted, share_got, waits, replaced, lane }
    };
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

fn text(view: &View, width: Option<usize>) -> String {
    const COLUMNS: &[Column] = &[
        ("APP", Fit::Names),
        ("POLICY", Fit::Whole),
        ("WEIGHT", Fit::Whole),
        ("WANTED", Fit::Whole),
        ("GOT", Fit::Whole),
        ("QUEUED", Fit::Out(4)),
        ("WAIT P50", Fit::Out(5)),
        ("P99", Fit::Whole),
        ("LONGEST", Fit::Out(3)),
        ("PREEMPTS", Fit::Out(2)),
        ("UNSERVED", Fit::Out(1)),
        ("REPLACED", Fit::Out(0)),
        ("STATE", Fit::Whole),
        ("CGROUPS", Fit::Names),
    ];
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), metasched_base::percent);
    let cells = |row: &Row| {
        let lane = &row.lane;
        let name = match &row.name {
            Some(name) => name.as_str(),
            None if lane.is_root() => "(everything else)",
            None => "(none any more)",
        };
        let [p50, p99, longest] = Waits::cells(row.waits.as_ref());
        vec![
            name.to_owned(),
            lane.policy.clone(),
            lane.weight.to_string(),
            percent(row.share_wanted),
            percent(row.share_got),
            lane.nr_queued.to_string(),
            p50,
            p99,
            longest,
            lane.kicks.to_string(),
            format!("{} ms", lane.longest_unserved_ns / 1_000_000),
            row.replaced.map_or("-".to_owned(), |times| times.to_string()),
            state(lane).to_owned(),
            some(&row.cgroups),
        ]
    };
    let mut out = fitted(COLUMNS, &view.lanes.iter().map(cells).collect::<Vec<_>>(), width);
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
        assert_eq!(view.lanes[1].cgroups.len(), 4);
        // What follows the table is prose.
        for line in super::text(&view, Some(80)).lines().take(1 + view.lanes.len()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
