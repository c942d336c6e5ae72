//! Lanes whose policies did not dispatch: put into words, and into the kernel's log.

use std::io::Write;
use std::path::Path;

use metasched_loader::Quarantine;

use crate::assignments::App;

/// Cgroups that a line names at most.
const NAMED: usize = 3;

/// What happened, and what can be done about it, in one line.
pub fn describe(quarantine: &Quarantine, app: Option<&App>) -> String {
    let Quarantine { policy, unserved_ns, nr_queued, rescues, .. } = quarantine;
    let who = app.map_or_else(|| format!("application {}", quarantine.app), cgroups);
    let now = match app {
        Some(app) if !app.quarantined => "which has another lane by now",
        _ => "which is on the default lane until it is assigned again, to another policy",
    };
    format!(
        "quarantine: the policy '{policy}' left {nr_queued} queued tasks for {} ms, of which \
         {rescues} could have run; it is not asked any more for {who}, {now}",
        unserved_ns / 1_000_000
    )
}

/// The cgroups of an application, the first few by name.
fn cgroups(app: &App) -> String {
    let names: Vec<String> =
        app.cgroups.keys().take(NAMED).map(|name| format!("'{name}'")).collect();
    match app.cgroups.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Says a line on standard error, which is the keeper's log or its journal, and in the
/// kernel's log: there people look when a machine is slow, and nobody reads the other one
/// who has not been told to.
pub(crate) fn say(root: &Path, line: &str) {
    eprintln!("metasched: {line}");
    // In one write: each is a record. A container may have none; then that was all.
    if let Ok(mut log) = std::fs::OpenOptions::new().write(true).open(root.join("dev/kmsg")) {
        let _ = log.write_all(format!("<4>metasched: {line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignments::Member;
    use crate::rules::Why;
    use metasched_loader::LaneSpec;

    #[test]
    fn a_line_names_who_is_concerned_and_says_what_became_of_them() {
        let quarantine = Quarantine {
            app: 4,
            policy: "lazy".to_owned(),
            at_ns: 1,
            unserved_ns: 1_000_000_000,
            nr_queued: 3,
            rescues: 29,
        };
        let line = describe(&quarantine, None);
        assert!(line.contains("application 4") && line.contains("1000 ms"), "{line}");
        let mut app = App {
            number: 4,
            name: "front".to_owned(),
            lane: LaneSpec::of("lazy"),
            why: Why::Hand,
            share: None,
            cgroups: ["a", "b", "c", "d", "e"]
                .map(|path| (path.to_owned(), Member { id: 1, rule: None }))
                .into(),
            replaced: 0,
            quarantined: true,
        };
        let line = describe(&quarantine, Some(&app));
        assert!(line.contains("'a', 'b', 'c' and 2 more, which is on the default lane"), "{line}");
        app.quarantined = false;
        assert!(describe(&quarantine, Some(&app)).contains("another lane by now"));
    }
}
