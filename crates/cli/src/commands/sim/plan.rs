//! `metasched sim plan`: what to do with a scenario, by simulating each of its cgroups alone
//! and all of them together.

use metasched_base::{Error, Kind, Result};
use metasched_experiment::{
    Bed as _, Contender, Effort, Measured, Plan, PlanOptions, Rules, plan as plan_of,
};
use metasched_sim::metasched::POLICIES;

use super::again;
use super::bed::{Bed, BedArgs};
use super::experiment::{ScenarioBed, WHOLE};
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

    /// What of the preferences is not as it is by default, as options.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(objective) = self.choice.objective {
            words.extend(["--objective".to_owned(), objective.to_string()]);
        }
        let given = [
            ("--benefit-form", self.choice.benefit_form.to_string(), "relative"),
            ("--plan-runs", self.plan_runs.to_string(), "6"),
        ];
        for (option, value, default) in given {
            if value != default {
                words.extend([option.to_owned(), value]);
            }
        }
        words
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let bed = args.bed.bed()?;
    let mut scenario = ScenarioBed::new(&bed, &args.bed, context)?;
    measure(&mut scenario, &args.preference, true)?;
    let mut plan = planned(&scenario.measured()?, &args.preference, &scenario)?;
    let words = args.preference.words();
    plan.again = Some(again::words(&["plan"], &args.bed, scenario.first_seed(), &words));
    context.print(&plan, text)?;
    Ok(0)
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
pub fn plan(
    bed: &Bed,
    args: &BedArgs,
    preference: &PreferenceArgs,
    context: &Context,
) -> Result<Plan> {
    let mut scenario = ScenarioBed::new(bed, args, context)?;
    measure(&mut scenario, preference, false)?;
    planned(&scenario.measured()?, preference, &scenario)
}
