//! `metasched sim tune`: the best way to run the preferred policies together.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_experiment::timeslice::{Allotment, MIN_TURN_BY_LANE};
use metasched_experiment::{Bed as _, Lanes, Mechanism, Plan, SearchOptions, Searches, Strategy};
use metasched_loader::{DEFAULT_POLICY, EEVDF};
use metasched_simbed::{ScenarioBed, Setup, WHOLE};

use super::again;
use super::bed::BedArgs;
use super::plan::{PreferenceArgs, again_of, measure, planned};
use crate::commands::strategies::SearchedArgs;
use crate::commands::tune::text;
use crate::context::Context;

/// Base timeslices of the first look at a strategy.
const GRID: usize = 6;
/// Base timeslices around its best.
const REFINEMENTS: usize = 2;

/// Searches the best base timeslice of each strategy, compares with lanes side by side, and
/// says what to do.
///
/// Each cgroup has the policy that the scenario says, or prefers. A coarse grid comes first,
/// then a closer look around the best; every point has the same seeds as the default scheduler.
/// What is best is the geometric mean over the cgroups, each by what it is for.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bed: BedArgs,
    #[command(flatten)]
    preference: PreferenceArgs,
    #[command(flatten)]
    searched: SearchedArgs,
    /// The base timeslices to simulate, with commas between them, instead of a search
    #[arg(long = "base-slice", value_name = "TIME,...", value_delimiter = ',', value_parser = parse_duration)]
    base_slices: Vec<Duration>,
    /// How many runs of each point
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    runs: u64,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let setup = args.bed.setup()?;
    let again = again_of(context);
    let mut scenario = ScenarioBed::new(&setup, &again, &context.interrupt);
    measure(&mut scenario, &args.preference, true)?;
    if scenario.parts().len() < 2 {
        let attempt = format!("tune '{}'", setup.file.name);
        let cause = "it has one cgroup, so there is nothing to take turns for";
        return Err(Error::new(Kind::BadInput, attempt, cause)
            .remedy("compare policies for it: metasched sim plan"));
    }
    let plan = planned(&scenario.measured()?, &args.preference, &scenario)?;
    let searches = searches(args, &setup, &plan)?;
    let rounds = usize::try_from(args.runs).unwrap_or(usize::MAX);
    let allotment = match args.base_slices.len() {
        0 => Allotment { grid: GRID, refinements: REFINEMENTS, rounds },
        given => Allotment { grid: given, refinements: 0, rounds },
    };
    let objective = args.preference.choice.objective;
    searches.run(&mut scenario, WHOLE, &[], allotment, None, objective)?;
    let measured = scenario.measured()?;
    let mut plan = planned(&measured, &args.preference, &scenario)?;
    plan.again = Some(again::all(&context.given, setup.first_seed));
    context.print(&searches.result(&measured, plan, None), text)?;
    Ok(0)
}

fn searches(args: &Args, setup: &Setup, plan: &Plan) -> Result<Searches> {
    // The fair class takes no turns and has no lanes.
    let policy = |name: &str| name != EEVDF;
    let at_once = |_: &[&str]| Duration::ZERO;
    let mechanism = Mechanism {
        name: "lane",
        shortest_turn: MIN_TURN_BY_LANE,
        carries: &policy,
        switching: &at_once,
    };
    let strategies: &[Strategy] = &args.searched.strategies;
    let lanes = Lanes { by: strategies, default: DEFAULT_POLICY, carries: &policy };
    let asked: BTreeMap<String, String> =
        setup.file.lanes.iter().map(|lane| (lane.cgroup.clone(), lane.policy.clone())).collect();
    Searches::new(
        plan,
        &SearchOptions {
            strategies,
            mechanisms: &[mechanism],
            lanes: Some(lanes),
            base_slices: &args.base_slices,
            asked: &asked,
            benefit: args.preference.choice.benefit_form,
            measurement: setup.measurement(),
        },
    )
}
