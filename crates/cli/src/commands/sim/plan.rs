//! `metasched sim plan`: what to do with a scenario, by simulating each of its cgroups alone
//! and all of them together.

use metasched_base::Result;
use metasched_simbed::{Simulated, Tuning};

use super::again;
use super::bed::BedArgs;
use super::replay::on_this_machine;
use crate::commands::plan::{ChoiceArgs, text};
use crate::context::Context;

/// Says which policy each cgroup of a scenario prefers, and what to do with all of them.
///
/// Simulates the tasks of each cgroup alone, and all together, under every policy, with several
/// seeds, and chooses as 'metasched plan' does: the default scheduler, unless something else is
/// better beyond the noise. 'metasched sim tune' simulates turns and lanes as well.
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
}

/// How preferences are found; shared with whatever needs them.
#[derive(Clone, Debug, clap::Args)]
pub struct PreferenceArgs {
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The policies to compare with the default scheduler, with commas between them, instead of
    /// all
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub schedulers: Vec<String>,
    /// How many runs of each cgroup under each policy, at most; those that are surely not the
    /// best have fewer
    #[arg(long, value_name = "N", default_value_t = Tuning::default().plan_runs, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub plan_runs: u32,
}

impl PreferenceArgs {
    /// How to plan; nothing is searched.
    pub fn tuning(&self) -> Tuning<'_> {
        Tuning {
            options: self.choice.options(),
            policies: &self.schedulers,
            plan_runs: self.plan_runs,
            ..Tuning::default()
        }
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let setup = args.bed.setup()?;
    let tuning = args.preference.tuning();
    let mut plan = if args.replay {
        let by = "metasched sim plan";
        on_this_machine(&args.bed, by, context, |bed| tuning.plan(bed, true))?
    } else {
        let again = again::one_of(&context.given);
        tuning.plan(&mut Simulated::new(&setup, &again, &context.interrupt).bed(), true)?
    };
    plan.again = Some(again::all(&context.given, setup.first_seed));
    context.print(&plan, text)?;
    Ok(0)
}
