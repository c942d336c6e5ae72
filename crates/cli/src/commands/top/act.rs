//! Changes that somebody asks for at the screen, and how they are taken back.

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, KeeperStatus, Order};
use metasched_control::{App, CandidateEnv, Why, resolve_in};
use metasched_loader::LaneSpec;

use crate::commands::keeper::{START_ONE_WITH_LANES, ask_keeper, kept_status, no_answer};
use crate::context::Context;

/// A change of a lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Another policy for these cgroups' lane; without cgroups for the default lane.
    Policy { cgroups: Vec<String>, policy: String },
    /// Another weight for these cgroups' lane.
    Weight { cgroups: Vec<String>, weight: u32 },
    /// Such a lane for these cgroups, as they had before.
    Lane { cgroups: Vec<String>, lane: LaneSpec },
}

/// Has the keeper carry it out; gives what was done, and what takes it back. The error is a sentence.
pub fn carry_out(change: &Change, context: &Context) -> Result<(String, Change), String> {
    try_to(change, context).map_err(|error| error.to_string())
}

fn try_to(change: &Change, context: &Context) -> Result<(String, Change)> {
    let attempt = "change a lane";
    let status = kept_status(context, attempt)?;
    let ask = |order: &Order| ask_keeper(context, attempt, order, START_ONE_WITH_LANES);
    match change {
        Change::Policy { cgroups, policy } if cgroups.is_empty() => {
            let before = status.scheduler.name.clone();
            let order = Order::Switch {
                candidate: resolve_in(&CandidateEnv::system(), policy)?,
                mechanism: None,
            };
            match ask(&order)? {
                Answer::Switched(_) => {
                    let back = Change::Policy { cgroups: Vec::new(), policy: before };
                    Ok((format!("the default lane is of '{policy}'"), back))
                }
                other => Err(no_answer(&other)),
            }
        }
        Change::Policy { cgroups, policy } => {
            let app = app_of(&status, cgroups)?;
            let lane = LaneSpec { weight: app.lane.weight, ..LaneSpec::of(policy) };
            assign(cgroups, &lane, &ask)?;
            let said = format!("'{}' is on a lane of '{policy}'", app.name);
            Ok((said, back(cgroups, app)))
        }
        Change::Weight { cgroups, weight } => {
            let app = app_of(&status, cgroups)?;
            let lane = LaneSpec { weight: Some(*weight), ..app.lane.clone() };
            assign(cgroups, &lane, &ask)?;
            let said = format!("the weight of '{}' is {weight}", app.name);
            Ok((said, back(cgroups, app)))
        }
        Change::Lane { cgroups, lane } => {
            let app = app_of(&status, cgroups)?;
            assign(cgroups, lane, &ask)?;
            let said = format!("'{}' is on a lane of '{}'", app.name, lane.policy);
            Ok((said, back(cgroups, app)))
        }
    }
}

fn back(cgroups: &[String], app: &App) -> Change {
    Change::Lane { cgroups: cgroups.to_vec(), lane: app.lane.clone() }
}

/// Each of the cgroups on such a lane.
fn assign(
    cgroups: &[String],
    lane: &LaneSpec,
    ask: &impl Fn(&Order) -> Result<Answer>,
) -> Result<()> {
    lane.check()?;
    for path in cgroups {
        // An absolute name: one that is a single word is not to be searched for.
        let cgroup = format!("/{path}/");
        match ask(&Order::Assign { cgroup, lane: lane.clone(), brief: false })? {
            Answer::Assigned(_) => {}
            other => return Err(no_answer(&other)),
        }
    }
    Ok(())
}

/// The application of these cgroups, if a user put them on its lane: what rules say a hand does
/// not change behind their back.
fn app_of<'a>(status: &'a KeeperStatus, cgroups: &[String]) -> Result<&'a App> {
    let app = status.apps.iter().find(|app| cgroups.iter().any(|c| app.cgroups.contains_key(c)));
    match app {
        Some(app) if app.why == Why::Hand => Ok(app),
        Some(app) => Err(Error::new(
            Kind::BadInput,
            format!("change the lane of '{}'", app.name),
            "it follows from rules",
        )
        .remedy("change the file of rules: metasched rules FILE")),
        None => Err(Error::new(Kind::BadInput, "change a lane", "it is gone")
            .remedy("look at what there is now")),
    }
}
