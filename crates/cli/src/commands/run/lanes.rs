//! `metasched run --mode lanes`: every application under the scheduler that it prefers, at
//! the same time.

use std::str::FromStr;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::Keeper;
use metasched_control::{Candidate, CandidateKind, Switcher, SwitcherOptions, resolve};
use metasched_loader::LaneSpec;
use metasched_strategy::lane_weights;
use serde::Serialize;

use super::turns::Plan;
use crate::commands::lane::pair;
use crate::context::Context;

/// One `--cgroup APP=CGROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppCgroup {
    app: String,
    cgroup: String,
}

impl FromStr for AppCgroup {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (app, cgroup) = pair(text, "APP=CGROUP, such as front=qa-front.service")?;
        Ok(Self { app, cgroup })
    }
}

/// Where one application goes, and why.
#[derive(Debug, PartialEq, Serialize)]
struct Placed {
    app: String,
    /// What it prefers.
    preferred: String,
    /// Its share by the strategy, of 1.
    share: f64,
    /// The weight of its lane; `None` where it stays on the default lane.
    weight: Option<u32>,
    cgroups: Vec<String>,
}

/// Puts every application of the plan on a lane and holds that until stopped.
pub(super) fn run(
    plan: &Plan,
    cgroups: &[AppCgroup],
    default: &str,
    table: &[Candidate],
    options: SwitcherOptions,
    duration: Option<Duration>,
    context: &Context,
) -> Result<u8> {
    let placed = place(plan, cgroups, table)?;
    let default = resolve(table, default)?;
    if default.kind != CandidateKind::Policy {
        return Err(Error::new(
            Kind::BadInput,
            format!("use '{}' as the default lane's policy", default.name),
            "lanes are in our own program",
        )
        .remedy("choose a policy of ours: metasched list"));
    }
    let run_dir = options.run_dir.clone();
    let mut keeper = Keeper::start(Switcher::new(options)?, &default, &run_dir)?;
    for app in placed.iter().filter(|app| app.weight.is_some()) {
        let lane = LaneSpec { weight: app.weight, ..LaneSpec::of(&app.preferred) };
        keeper.assign(&app.cgroups, &lane)?;
    }
    context.print(&placed, |placed| text(placed, &default.name))?;
    let until = duration.map(|duration| Instant::now() + duration);
    keeper.run(&context.interrupt, until)?;
    // Without --for a signal is how it is meant to end.
    let cut_short = context.interrupt.is_raised() && duration.is_some();
    Ok(if cut_short { Kind::Interrupted.exit_code() } else { 0 })
}

/// Who goes where, by the plan.
fn place(plan: &Plan, cgroups: &[AppCgroup], table: &[Candidate]) -> Result<Vec<Placed>> {
    if let Some(stray) = cgroups.iter().find(|c| !plan.rows().any(|(app, ..)| app == c.app)) {
        let known: Vec<&str> = plan.rows().map(|(app, ..)| app).collect();
        return Err(Error::new(
            Kind::Usage,
            format!("use '--cgroup {}={}'", stray.app, stray.cgroup),
            "the plan has no such application",
        )
        .remedy(format!("it has {}", known.join(", "))));
    }
    let shares: Vec<f64> = plan.rows().map(|(_, _, share)| share).collect();
    plan.rows()
        .zip(lane_weights(&shares))
        .map(|((app, scheduler, share), weight)| {
            let attempt = || format!("put '{app}' on a lane");
            let candidate = resolve(table, scheduler)?;
            if candidate.kind == CandidateKind::External {
                return Err(Error::new(
                    Kind::BadInput,
                    attempt(),
                    format!("it prefers '{}', which is no policy of ours", candidate.name),
                )
                .remedy("have the schedulers take turns: --mode turns; or name another: --turn"));
            }
            let own: Vec<String> =
                cgroups.iter().filter(|c| c.app == app).map(|c| c.cgroup.clone()).collect();
            // EEVDF cannot be a lane; who prefers it is told to be on the default one.
            let lane = candidate.kind == CandidateKind::Policy;
            if lane && own.is_empty() {
                return Err(Error::new(Kind::Usage, attempt(), "its cgroup is not known")
                    .remedy(format!("name it: --cgroup {app}=CGROUP")));
            }
            Ok(Placed {
                app: app.to_owned(),
                preferred: candidate.name,
                share,
                weight: lane.then_some(weight),
                cgroups: own,
            })
        })
        .collect()
}

/// A line for each application: where it is, and why.
fn text(placed: &[Placed], default: &str) -> String {
    let mut lines: Vec<String> = placed
        .iter()
        .map(|app| match app.weight {
            Some(weight) => format!(
                "{}: on a lane of '{}', which it prefers, weight {weight} ({:.0} % of the shares); {}",
                app.app,
                app.preferred,
                app.share * 100.0,
                app.cgroups.join(" ")
            ),
            None => format!(
                "{}: on the default lane ('{default}'), since it prefers '{}', which is no lane",
                app.app, app.preferred
            ),
        })
        .collect();
    lines.push(format!("everything else: on the default lane ('{default}')"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::EEVDF;

    fn policy(name: &str, kind: CandidateKind) -> Candidate {
        Candidate { name: name.to_owned(), kind, ..Candidate::eevdf("") }
    }

    fn table() -> Vec<Candidate> {
        vec![
            Candidate::eevdf(""),
            policy("fifo", CandidateKind::Policy),
            policy("vtime", CandidateKind::Policy),
            policy("scx_x", CandidateKind::External),
        ]
    }

    fn plan(turns: &[&str]) -> Plan {
        let turns: Vec<_> = turns.iter().map(|turn| turn.parse().unwrap()).collect();
        let source = super::super::Source::default();
        Plan::read(None, &source, &turns, metasched_strategy::Strategy::Delta).unwrap()
    }

    fn cgroups(named: &[&str]) -> Vec<AppCgroup> {
        named.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn shares_become_weights_around_a_hundred() {
        let placed = place(
            &plan(&["front=fifo:0.8", "back=vtime:0.2"]),
            &cgroups(&["front=a", "back=b", "back=c"]),
            &table(),
        )
        .unwrap();
        assert_eq!((placed[0].weight, placed[1].weight), (Some(160), Some(40)));
        assert_eq!(placed[1].cgroups, ["b", "c"]);
        let text = text(&placed, "vtime");
        assert!(text.contains("weight 160 (80 % of the shares); a"), "{text}");
    }

    #[test]
    fn who_prefers_the_default_scheduler_is_on_the_default_lane() {
        let plan = plan(&[&format!("front={EEVDF}"), "back=vtime"]);
        let placed = place(&plan, &cgroups(&["back=b"]), &table()).unwrap();
        assert_eq!(placed[0].weight, None);
        assert!(text(&placed, "vtime").contains("which is no lane"));
    }

    #[test]
    fn what_cannot_be_placed_is_told_with_what_to_do() {
        let e = place(&plan(&["front=scx_x"]), &[], &table()).unwrap_err();
        assert!(e.to_string().contains("--mode turns"), "{e}");
        let e = place(&plan(&["front=fifo"]), &[], &table()).unwrap_err();
        assert!(e.to_string().contains("--cgroup front=CGROUP"), "{e}");
        let e = place(&plan(&["front=fifo"]), &cgroups(&["back=b"]), &table()).unwrap_err();
        assert!(e.to_string().contains("it has front"), "{e}");
        assert!("front".parse::<AppCgroup>().is_err());
    }
}
