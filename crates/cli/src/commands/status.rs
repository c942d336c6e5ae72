//! `metasched status`.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration};
use metasched_control::keeper::{Answer, KeeperStatus, Order, ask, scheduler_name};
use metasched_control::{Holder, LockHolder, RUN_DIR, SchedulerExit, holder, lock_holder};
use metasched_host::process::Prompt;
use metasched_host::sched_ext::{SchedExt, State, Status};
use metasched_loader::LaneState;
use serde::Serialize;

use crate::context::Context;

/// Shows what schedules this machine now, from /sys/kernel/sched_ext.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Everything that is known; `sched_ext` alone is the truth, the rest explains it.
#[derive(Debug, Serialize)]
struct View {
    /// What is in force, as metasched names it.
    scheduler: String,
    sched_ext: Status,
    /// The process that holds it.
    holder: Option<Holder>,
    /// The metasched that is in charge of changes.
    in_charge: Option<LockHolder>,
    keeper: Option<KeeperStatus>,
    /// Why the keeper does not say what it holds, where it should.
    keeper_error: Option<Error>,
    last_exit: Option<SchedulerExit>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let (root, run_dir) = (Path::new("/"), Path::new(RUN_DIR));
    let sched_ext = SchedExt::at(root).status()?;
    let (keeper, keeper_error) = match ask(run_dir, &Order::Status, &context.interrupt) {
        Ok(Some(Answer::Status(status))) => (Some(*status), None),
        Err(error) if error.kind == Kind::Interrupted => return Err(error),
        // Without root the socket is closed to us; what sysfs says is still true.
        Err(error) if error.kind != Kind::Denied => (None, Some(error)),
        _ => (None, None),
    };
    let ops = sched_ext.ops.clone();
    let view = View {
        scheduler: scheduler_name(&sched_ext, keeper.as_ref()),
        holder: ops.as_deref().and_then(|ops| holder(root, ops)),
        in_charge: lock_holder(run_dir),
        keeper,
        keeper_error,
        last_exit: SchedulerExit::last(run_dir),
        sched_ext,
    };
    context.print(&view, text)?;
    Ok(0)
}

fn text(view: &View) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<11}{value}");
    };
    let status = &view.sched_ext;
    line("scheduler", &view.scheduler);
    if status.state == State::Absent {
        line("sched_ext", "this kernel has none; 'metasched doctor' tells more");
    } else {
        let extent = if status.switch_all { "all ordinary tasks" } else { "tasks that ask for it" };
        let extent = if status.is_default() { String::new() } else { format!(", {extent}") };
        line("state", &format!("{}{extent}", status.state));
    }
    if let Some(ops) = &status.ops {
        line("in kernel", ops);
    }
    if let Some(h) = &view.holder {
        let age = h.age_s.map_or_else(String::new, |s| format!(", for {}", seconds(s)));
        line("held by", &format!("process {}{age}: {}", h.id.pid, h.command.join(" ")));
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let since = |then: u64| seconds(now.saturating_sub(then));
    if let Some(owner) = &view.in_charge {
        line(
            "in charge",
            &format!(
                "{} (process {}), for {}",
                owner.command,
                owner.id.pid,
                since(owner.since_unix_s)
            ),
        );
    }
    if let Some(error) = &view.keeper_error {
        line("keeper", &format!("{}; {}", error.cause, error.remedy));
    }
    if let Some(keeper) = &view.keeper {
        line("since", &format!("{} ago", since(keeper.since_unix_s)));
        if let Some(earlier) = &keeper.earlier {
            line("will put", &format!("'{earlier}' back at the end"));
        }
        if !keeper.policies.is_empty() {
            line("policies", &format!("{} are loaded", keeper.policies.join(", ")));
        }
        let assigned: usize = keeper.apps.iter().map(|app| app.cgroups.len()).sum();
        let live = keeper.lanes.iter().filter(|lane| lane.state != LaneState::Retired).count();
        if live > 0 {
            line("lanes", &format!("{live}, {assigned} cgroups assigned ('metasched lane list')"));
        }
    }
    for app in view.keeper.iter().flat_map(|k| &k.apps).filter(|app| app.quarantined) {
        let names: Vec<&str> = app.cgroups.keys().map(String::as_str).collect();
        line(
            "quarantine",
            &format!(
                "the policy '{}' did not dispatch: on the default lane are {}",
                app.lane.policy,
                names.join(", ")
            ),
        );
    }
    for (event, count) in status.events.iter().filter(|(_, count)| **count != 0) {
        line("event", &format!("{event} {count}"));
    }
    if let Some(exit) = &view.last_exit {
        line(
            "last exit",
            &format!("'{}', {} ago: {}", exit.scheduler, since(exit.at_unix_s), exit.reason),
        );
        for words in exit.message.lines() {
            line("", words);
        }
    }
    out
}

fn seconds(s: u64) -> String {
    format_duration(Duration::from_secs(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, ops: Option<&str>) -> Status {
        Status {
            state,
            ops: ops.map(str::to_owned),
            enable_seq: 1,
            nr_rejected: 0,
            switch_all: true,
            hotplug_seq: 0,
            events: [("SCX_EV_REENQ".to_owned(), 3), ("SCX_EV_NONE".to_owned(), 0)].into(),
        }
    }

    #[test]
    fn only_events_that_happened_are_shown() {
        let view = View {
            scheduler: "rusty_1".to_owned(),
            sched_ext: status(State::Enabled, Some("rusty_1")),
            holder: None,
            in_charge: None,
            keeper: None,
            keeper_error: None,
            last_exit: None,
        };
        let text = text(&view);
        assert!(text.contains("SCX_EV_REENQ 3") && !text.contains("SCX_EV_NONE"), "{text}");
        assert!(text.starts_with("scheduler  rusty_1\n"), "{text}");
    }
}
