//! The published strategies, in turns and as weights of lanes.

use std::time::Duration;

use metasched_base::{Result, parse_duration};
use metasched_experiment::Strategy;
use metasched_loader::DEFAULT_POLICY;
use metasched_simbed::{Arrangement, Setup, Simulated, Tuning, Ways};

use super::again;
use super::plan::PreferenceArgs;
use crate::commands::run::Mode;
use crate::context::Context;

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
pub fn arrangements(
    args: &StrategyArgs,
    setup: &Setup,
    context: &Context,
) -> Result<Vec<Arrangement>> {
    let again = again::one_of(&context.given);
    let mut scenario = Simulated::new(setup, &again, &context.interrupt).bed();
    let tuning = Tuning {
        strategies: &args.strategy,
        base_slices: &[args.base_slice],
        ..args.preference.tuning()
    };
    let plan = tuning.plan(&mut scenario, false)?;
    let has = |mode| args.mode.contains(&mode);
    let (turns, lanes) = (has(Mode::Turns), has(Mode::Lanes));
    let searches = tuning.searches(
        scenario.about(),
        &plan,
        Ways { turns, lanes, shortest_turn: Duration::ZERO },
    )?;
    searches.notes.iter().for_each(|note| eprintln!("{note}"));
    let base_ms = u64::try_from(args.base_slice.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut arrangements = vec![Arrangement::policy(DEFAULT_POLICY, &setup.settings)?];
    for contender in searches.contenders() {
        arrangements.push(Arrangement::of(&contender.with_base_slice(base_ms), &setup.settings)?);
    }
    Ok(arrangements)
}
