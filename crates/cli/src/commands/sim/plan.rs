//! `metasched sim plan`: what to do with a scenario, by simulating each of its cgroups alone
//! and all of them together.

use metasched_base::{Error, Kind, Result};
use metasched_experiment::{
    Bed as _, Contender, Effort, Measured, Plan, PlanOptions, Rules, plan as plan_of,
};
use metasched_sim::metasched::POLICIES;
use metasched_simbed::{Arrangement, ScenarioBed, Setup, WHOLE};

use super::again;
use super::bed::BedArgs;
use crate::commands::plan::{ChoiceArgs, PUBLISHED_BASE_SLICE, text};
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
}

/// How preferences are found; shared with whatever needs them.
#[derive(Clone, Debug, clap::Args)]
pub struct PreferenceArgs {
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// How many runs of each cgroup under each policy, at most; those that are surely not the
    /// best have fewer
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub plan_runs: u32,
}

impl PreferenceArgs {
    fn options(&self) -> PlanOptions {
        self.choice.options(PUBLISHED_BASE_SLICE, false)
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let setup = args.bed.setup()?;
    let again = again_of(context);
    let mut scenario = ScenarioBed::new(&setup, &again, &context.interrupt);
    measure(&mut scenario, &args.preference, true)?;
    let mut plan = planned(&scenario.measured()?, &args.preference, &scenario)?;
    plan.again = Some(again::all(&context.given, setup.first_seed));
    context.print(&plan, text)?;
    Ok(0)
}

/// Says the command of a run again.
pub fn again_of(context: &Context) -> impl Fn(&Arrangement, Option<&str>, u64) -> String {
    |arrangement, only, seed| again::one(&context.given, arrangement, only, seed)
}

/// Simulates each cgroup alone under every policy, and all of them together if `whole`.
///
/// # Errors
/// When there is nothing to prefer, or a run fails.
pub fn measure(bed: &mut ScenarioBed, preference: &PreferenceArgs, whole: bool) -> Result<()> {
    let default = bed.default_name();
    let policies = POLICIES.iter().filter(|policy| **policy != default);
    let contenders: Vec<Contender> = policies.map(|policy| Contender::scheduler(*policy)).collect();
    let mut subjects = bed.parts();
    if subjects.is_empty() {
        let attempt = format!("find out what parts of '{}' prefer", bed.name());
        let cause = "all its tasks are in the root cgroup";
        return Err(Error::new(Kind::BadInput, attempt, cause)
            .remedy("give its tasks a cgroup; or compare policies for all of them: --compare"));
    }
    if whole && bed.cgroups() > 1 {
        subjects.push(WHOLE.to_owned());
    }
    bed.measure(
        &subjects,
        &contenders,
        &Effort { rules: rules(preference.plan_runs), budget: None },
    )
}

/// In the simulator a run costs little, and noise is small.
pub fn rules(runs: u32) -> Rules {
    Rules { min_rounds: runs.min(4), max_rounds: runs, precision: 0.005, drop_losers: true }
}

/// The plan of what was simulated, with the command that simulates what it recommends.
///
/// # Errors
/// When nothing was.
pub fn planned(
    measured: &Measured,
    preference: &PreferenceArgs,
    bed: &ScenarioBed,
) -> Result<Plan> {
    let mut plan = plan_of(measured, preference.options())?;
    if let Some(recommended) = &mut plan.recommendation
        && let Some(contender) = &recommended.contender
    {
        recommended.command = bed.command(contender)?;
    }
    Ok(plan)
}

/// The plan of a scenario, from its cgroups alone.
///
/// # Errors
/// As [`measure`].
pub fn plan(setup: &Setup, preference: &PreferenceArgs, context: &Context) -> Result<Plan> {
    let again = again_of(context);
    let mut scenario = ScenarioBed::new(setup, &again, &context.interrupt);
    measure(&mut scenario, preference, false)?;
    planned(&scenario.measured()?, preference, &scenario)
}
