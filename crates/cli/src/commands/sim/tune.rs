//! `metasched sim tune`: the best way to run the preferred policies together.

use std::time::Duration;

use metasched_base::{Result, parse_duration};
use metasched_simbed::{Simulated, Tuning};

use super::again;
use super::bed::BedArgs;
use super::plan::PreferenceArgs;
use super::replay::on_this_machine;
use crate::commands::strategies::SearchedArgs;
use crate::commands::tune::text;
use crate::context::Context;

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
    /// Run it with real threads on this machine, as 'metasched sim replay' does, instead of
    /// simulating it
    #[arg(long)]
    replay: bool,
    #[command(flatten)]
    searched: SearchedArgs,
    /// The base timeslices to simulate, with commas between them, instead of a search
    #[arg(long = "base-slice", value_name = "TIME,...", value_delimiter = ',', value_parser = parse_duration)]
    base_slices: Vec<Duration>,
    /// How many runs of each point
    #[arg(long, value_name = "N", default_value_t = Tuning::default().runs, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    runs: u32,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let setup = args.bed.setup()?;
    let tuning = Tuning {
        strategies: &args.searched.strategies,
        base_slices: &args.base_slices,
        runs: args.runs,
        ..args.preference.tuning()
    };
    let mut tuned = if args.replay {
        on_this_machine(&args.bed, "metasched sim tune", context, |bed| tuning.tune(bed))?
    } else {
        let again = again::one_of(&context.given);
        tuning.tune(&mut Simulated::new(&setup, &again, &context.interrupt).bed())?
    };
    tuned.again = Some(again::all(&context.given, setup.first_seed));
    context.print(&tuned, text)?;
    Ok(0)
}
