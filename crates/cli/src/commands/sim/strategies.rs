//! The published strategies, in turns and as weights of lanes.

use std::time::Duration;

use metasched_base::{Result, format_duration, parse_duration};
use metasched_strategy::{Strategy, lane_weights, timeslices};

use super::bed::{BedArgs, ns};
use super::contender::{Contender, LaneArg, TurnArg};
use super::plan::{Plan, PreferenceArgs, Weighed};
use crate::commands::run::{DEFAULT_POLICY, Mode};

/// Which strategies, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct StrategyArgs {
    /// Compares metaschedulers with the default policy: round-robin, delta, benefit,
    /// delta-benefit. Each cgroup has the policy that the scenario says, or that it prefers
    /// when it is simulated alone
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub strategy: Vec<Strategy>,
    /// With --strategy: turns (one policy after the other, the whole machine) and lanes (all at
    /// the same time, each cgroup on its own)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "turns,lanes")]
    pub mode: Vec<Mode>,
    /// With turns: the base timeslice. 'metasched sim tune' finds the best one
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration)]
    pub base_slice: Duration,
    #[command(flatten)]
    pub preference: PreferenceArgs,
}

/// The default policy, and each strategy in each mode.
///
/// # Errors
/// When a strategy cannot be carried out with these figures.
pub fn contenders(args: &StrategyArgs, bed: &BedArgs, plan: &Plan) -> Result<Vec<Contender>> {
    let mut contenders = vec![Contender::policy(DEFAULT_POLICY, &bed.settings)?];
    for weighed in plan.distinct(&args.strategy)? {
        for mode in &args.mode {
            contenders.push(match mode {
                Mode::Turns => in_turns(&weighed, plan, args.base_slice, bed)?,
                Mode::Lanes => as_lanes(&weighed, plan, bed)?,
            });
        }
    }
    Ok(contenders)
}

/// The preferred policies, one after the other.
///
/// # Errors
/// When a turn would be too short.
pub fn in_turns(
    weighed: &Weighed,
    plan: &Plan,
    base: Duration,
    bed: &BedArgs,
) -> Result<Contender> {
    let turns = plan.apps.iter().zip(timeslices(base, &weighed.weights));
    // A cgroup without weight has no turn.
    let turns = turns.filter(|(_, length)| !length.is_zero());
    let turns = turns.map(|(app, length)| TurnArg::new(&app.preferred, ns(length))).collect();
    let name = format!("{}, turns of {}", weighed.name(), format_duration(base));
    Ok(Contender::turns(turns, &bed.settings)?.called(name))
}

/// The preferred policies side by side.
///
/// # Errors
/// When there is no such policy.
pub fn as_lanes(weighed: &Weighed, plan: &Plan, bed: &BedArgs) -> Result<Contender> {
    let lanes = plan.apps.iter().zip(lane_weights(&weighed.weights)).map(|(app, weight)| LaneArg {
        cgroup: app.cgroup.clone(),
        policy: app.preferred.clone(),
        weight,
    });
    let name = format!("{}, lanes", weighed.name());
    Ok(Contender::lanes(lanes.collect(), DEFAULT_POLICY, &bed.settings)?.called(name))
}
