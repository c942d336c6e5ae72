//! `metasched lane list`.

mod limits;
mod waits;

use std::path::Path;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use metasched_base::{Result, parse_duration};
use metasched_control::describe_quarantine;
use metasched_control::keeper::KeeperStatus;
use metasched_host::process::Prompt;
use metasched_loader::{LaneInfo, LaneState, Quarantine};
use serde::Serialize;

use crate::commands::keeper::kept_status;
use crate::context::Context;
use limits::LimitsView;
use waits::Waits;

/// Of an application's cgroups the text shows as many; JSON has all.
const CGROUPS_SHOWN: usize = 3;

/// Shows the lanes: what is assigned, the shares that they should have and had, how long
/// tasks wait for a CPU, what is queued.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Over how long a time shares and waits are measured
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    duration: Duration,
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
    let attempt = "show the lanes";
    let before = kept_status(context, attempt)?;
    context.interrupt.sleep(args.duration);
    context.interrupt.check(attempt)?;
    let view = compare(&before, &kept_status(context, attempt)?);
    context.print(&view, text)?;
    Ok(0)
}

/// What happened between two looks.
fn compare(before: &KeeperStatus, after: &KeeperStatus) -> View {
    let earlier = |lane: &LaneInfo| before.lanes.iter().find(|l| l.generation == lane.generation);
    let ran =
        |lane: &LaneInfo| lane.runtime_ns.saturating_sub(earlier(lane).map_or(0, |l| l.runtime_ns));
    let live = |lane: &&LaneInfo| lane.state == LaneState::InForce;
    let has_work = |lane: &LaneInfo| ran(lane) > 0 || lane.nr_queued > 0;
    let weight = |lane: &LaneInfo| f64::from(lane.weight_now);
    let weights: f64 = after.lanes.iter().filter(live).filter(|l| has_work(l)).map(weight).sum();
    let total: u64 = after.lanes.iter().map(ran).sum();
    let app_numbered = |number: u32| after.apps.iter().find(|app| app.number == number);
    let rows = after.lanes.iter().map(|lane| {
        let app = app_numbered(lane.app).filter(|_| lane.is_apps());
        Row {
            name: app.map(|app| app.name.clone()),
            cgroups: app.map_or_else(Vec::new, |app| app.cgroups.keys().cloned().collect()),
            replaced: app.map(|app| app.replaced),
            share_wanted: (live(&lane) && has_work(lane) && weights > 0.0)
                .then(|| weight(lane) / weights),
            share_got: (total > 0).then(|| ran(lane) as f64 / total as f64),
            waits: Waits::of(earlier(lane), lane),
            lane: LaneInfo { waits: None, ..lane.clone() },
        }
    });
    View {
        lanes: rows.collect(),
        quarantines: after.quarantines.clone(),
        told: after
            .quarantines
            .iter()
            .map(|q| describe_quarantine(q, app_numbered(q.app)))
            .collect(),
        limits: LimitsView::new(Path::new("/"), &after.limits),
    }
}

fn text(view: &View) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header([
        "APP", "POLICY", "WEIGHT", "WANTED", "GOT", "QUEUED", "WAIT P50", "P99", "LONGEST",
        "PREEMPTS", "UNSERVED", "REPLACED", "STATE", "CGROUPS",
    ]);
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), metasched_base::percent);
    for row in &view.lanes {
        let lane = &row.lane;
        let name = match &row.name {
            Some(name) => name.as_str(),
            None if lane.is_root() => "(everything else)",
            None => "(none any more)",
        };
        let [p50, p99, longest] = Waits::cells(row.waits.as_ref());
        table.add_row([
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
        ]);
    }
    let mut out: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    out.extend(Waits::notes(view.lanes.iter().map(|row| row.waits.as_ref())));
    out.extend(view.limits.text());
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
    fn shares_are_of_what_ran_between_the_looks() {
        let before = status(vec![lane(0, 100, 500), lane(1, 300, 100), lane(2, 100, 9)]);
        let after = status(vec![lane(0, 100, 600), lane(1, 300, 400), lane(2, 100, 9)]);
        let view = compare(&before, &after);
        let shares: Vec<_> = view.lanes.iter().map(|r| (r.share_wanted, r.share_got)).collect();
        assert_eq!(shares, [(Some(0.25), Some(0.25)), (Some(0.75), Some(0.75)), (None, Some(0.0))]);
        let text = text(&view);
        assert!(text.contains("(everything else)") && text.contains("front"), "{text}");
        assert!(text.contains("a/b c d and 1 more"), "{text}");
        assert_eq!(view.lanes[1].cgroups.len(), 4);
    }

    #[test]
    fn a_lane_that_is_alone_is_not_measured() {
        let view = compare(&status(vec![lane(0, 100, 0)]), &status(vec![lane(0, 100, 0)]));
        assert_eq!(view.lanes[0].share_got, None);
    }
}
