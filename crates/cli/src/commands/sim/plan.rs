//! `metasched sim plan`: which policy each cgroup prefers, by simulating it alone.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets;
use metasched_base::{Error, Kind, Result};
use metasched_sim::metasched::POLICIES;
use metasched_stats::paired_estimate;
use metasched_strategy::{
    AppFigures, BenefitForm, CandidateRounds, Choice, ChooseOptions, Objective, Round, Sample,
    Strategy, choose, weights,
};
use serde::Serialize;

use super::bed::{Bed, BedArgs};
use super::compare::{Comparison, rounded, version};
use super::contender::Contender;
use super::replay;
use super::runs::{Group, Run, Runner, Seeds};
use crate::commands::run::DEFAULT_POLICY;
use crate::context::Context;

/// Says which policy each cgroup of a scenario prefers, and the weights that follow.
///
/// Simulates the tasks of each cgroup alone under every policy, with several seeds, and
/// chooses as 'metasched plan' does: the default policy, unless another one is better
/// beyond the noise.
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
    /// What the preferred policy is best at: throughput, p99, or mix:W with W, from 0 to 1,
    /// the weight of throughput
    #[arg(long, default_value = "throughput")]
    pub objective: Objective,
    /// What "benefit" is in the weights: relative (throughput against the default policy) or
    /// gain (what exceeds it)
    #[arg(long, default_value = "relative", value_name = "FORM")]
    pub benefit_form: BenefitForm,
    /// How many runs of each cgroup alone under each policy
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    pub plan_runs: u64,
}

/// A strategy's weights of the cgroups.
pub struct Weighed {
    pub strategy: Strategy,
    /// Strategies that come to the same.
    pub same: Vec<Strategy>,
    pub weights: Vec<f64>,
}

impl Weighed {
    /// All that come to this, by name.
    pub fn name(&self) -> String {
        let names = [self.strategy].into_iter().chain(self.same.iter().copied());
        names.map(Strategy::name).collect::<Vec<_>>().join(" = ")
    }
}

impl Plan {
    /// The strategies that differ here, each with its weights and with those that weigh the
    /// cgroups as it does.
    ///
    /// # Errors
    /// When one says nothing of them.
    pub fn distinct(&self, strategies: &[Strategy]) -> Result<Vec<Weighed>> {
        let mut distinct: Vec<Weighed> = Vec::new();
        for strategy in strategies {
            let weights = self.weights(*strategy)?;
            match distinct.iter_mut().find(|weighed| weighed.weights == weights) {
                Some(same) => same.same.push(*strategy),
                None => distinct.push(Weighed { strategy: *strategy, same: Vec::new(), weights }),
            }
        }
        Ok(distinct)
    }

    /// The cgroups' weights by a strategy.
    ///
    /// # Errors
    /// When it says nothing of them.
    pub fn weights(&self, strategy: Strategy) -> Result<Vec<f64>> {
        let weights = self.apps.iter().map(|app| app.weights.get(strategy.name()).copied());
        weights.collect::<Option<Vec<f64>>>().ok_or_else(|| {
            let said = self.notes.iter().find(|note| note.starts_with(&format!("{strategy} ")));
            let cause = said.map_or("it has no weights", String::as_str);
            Error::new(Kind::BadInput, format!("weigh the cgroups by '{strategy}'"), cause)
                .remedy("round-robin needs no figures")
        })
    }
}

/// What was found out.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub version: String,
    pub scenario: String,
    pub machine: String,
    /// The policy that the others are compared with.
    pub default: String,
    pub objective: String,
    pub seeds: Vec<u64>,
    pub apps: Vec<App>,
    /// Strategies that say nothing here, and why.
    pub notes: Vec<String>,
    pub replay: String,
}

/// A cgroup.
#[derive(Debug, Serialize)]
pub struct App {
    pub cgroup: String,
    pub preferred: String,
    /// The choice in words.
    pub sentence: String,
    /// Of a request, or of a burst, alone under the default policy.
    pub latency_us: f64,
    /// Under the preferred policy, to that under the default one.
    pub throughput_ratio: f64,
    pub weights: BTreeMap<&'static str, f64>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let bed = args.bed.bed()?;
    let again = |seed| {
        let more = preference_words(&args.preference);
        replay::words(&["plan"], &args.bed, seed, &more)
    };
    let plan = plan(&bed, &args.bed, &args.preference, &again, context)?;
    context.print(&plan, text)?;
    Ok(0)
}

/// What of the preferences is not as it is by default.
pub fn preference_words(args: &PreferenceArgs) -> Vec<String> {
    let mut words = Vec::new();
    let given = [
        ("--objective", args.objective.to_string(), "throughput"),
        ("--benefit-form", args.benefit_form.to_string(), "relative"),
        ("--plan-runs", args.plan_runs.to_string(), "6"),
    ];
    for (option, value, default) in given {
        if value != default {
            words.extend([option.to_owned(), value]);
        }
    }
    words
}

/// Finds out what each cgroup prefers. Where the scenario says a cgroup's policy, it is
/// that one.
///
/// # Errors
/// When there is nothing to prefer, or a run fails.
pub fn plan(
    bed: &Bed,
    args: &BedArgs,
    preference: &PreferenceArgs,
    again: &dyn Fn(u64) -> String,
    context: &Context,
) -> Result<Plan> {
    let first = args.first_seed(bed);
    let others = POLICIES.iter().filter(|policy| **policy != DEFAULT_POLICY);
    let contenders = std::iter::once(&DEFAULT_POLICY)
        .chain(others)
        .map(|name| Contender::policy(name, &args.settings))
        .collect::<Result<Vec<_>>>()?;
    let cgroups = cgroups(bed, &contenders[0])?;
    let mut found = Vec::new();
    for cgroup in &cgroups {
        let repeat = |contender: Option<&Contender>, seed| {
            let more = contender.map(|c| c.arguments.clone()).unwrap_or_default();
            let only = vec!["--only".to_owned(), cgroup.clone()];
            replay::words(&[], args, seed, &[more, only].concat())
        };
        let runner =
            Runner { bed, contenders: &contenders, only: Some(cgroup), replay: &repeat, context };
        let comparison = runner.run(Seeds::Fixed { first, runs: preference.plan_runs })?;
        found.push(preferred(cgroup, bed, &contenders, &comparison, preference));
    }
    let figures: Vec<AppFigures> = found.iter().map(|(_, figures)| figures.clone()).collect();
    let mut plan = Plan {
        version: version(),
        scenario: bed.file.name.clone(),
        machine: bed.machine_text(),
        default: DEFAULT_POLICY.to_owned(),
        objective: preference.objective.to_string(),
        seeds: (first..first + preference.plan_runs).collect(),
        apps: found.into_iter().map(|(app, _)| app).collect(),
        notes: Vec::new(),
        replay: again(first),
    };
    for strategy in Strategy::ALL {
        match weights(strategy, &figures, preference.benefit_form) {
            Ok(weights) => {
                for (app, weight) in plan.apps.iter_mut().zip(weights) {
                    app.weights.insert(strategy.name(), rounded(weight));
                }
            }
            Err(error) => {
                let restless = plan.apps.iter().find(|app| app.latency_us.is_nan());
                let why = restless.map_or(error.to_string(), |app| {
                    format!("tasks of '{}' never sleep, and so have no latency", app.cgroup)
                });
                plan.notes.push(format!("{strategy} says nothing here: {why}"));
            }
        }
    }
    Ok(plan)
}

/// The cgroups that can have lanes.
fn cgroups(bed: &Bed, any: &Contender) -> Result<Vec<String>> {
    let cgroups: Vec<String> = any
        .scenario(bed, 0)
        .cgroups()
        .into_iter()
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    if cgroups.is_empty() {
        let attempt = format!("find out what parts of '{}' prefer", bed.file.name);
        let cause = "all its tasks are in the root cgroup";
        return Err(Error::new(Kind::BadInput, attempt, cause)
            .remedy("give its tasks a cgroup; or compare policies for all of them: --compare"));
    }
    Ok(cgroups)
}

fn preferred(
    cgroup: &str,
    bed: &Bed,
    contenders: &[Contender],
    comparison: &Comparison,
    preference: &PreferenceArgs,
) -> (App, AppFigures) {
    let work = comparison.work(None);
    let sample = |run: &Run| Sample {
        throughput_per_s: work.per_second(&run.all, run),
        p99_us: tail_us(&run.all),
    };
    let rounds_of = |at: usize| CandidateRounds {
        name: contenders[at].name.clone(),
        rounds: comparison
            .rounds()
            .iter()
            .map(|round| Round { candidate: sample(&round[at]), default: sample(&round[0]) })
            .collect(),
        switching: std::time::Duration::ZERO,
    };
    let candidates: Vec<CandidateRounds> = (1..contenders.len()).map(rounds_of).collect();
    let options = ChooseOptions { objective: preference.objective, slice: None, seed: 1 };
    let choice: Choice = choose(&contenders[0].name, &candidates, options);
    let said = bed.file.lanes.iter().find(|lane| lane.cgroup == cgroup);
    let (name, sentence) = match said {
        Some(lane) => (lane.policy.clone(), format!("{}: the scenario says so", lane.policy)),
        None => (choice.preferred.clone(), choice.sentence()),
    };
    let at = contenders.iter().position(|c| c.name == name).unwrap_or(0);
    let pairs: Vec<(f64, f64)> = rounds_of(at)
        .rounds
        .iter()
        .map(|r| (r.candidate.throughput_per_s, r.default.throughput_per_s))
        .collect();
    let throughput_ratio = rounded(paired_estimate(&pairs).unwrap_or(f64::NAN));
    let default_runs = comparison.rounds().iter().map(|round| &round[0].all);
    let latency_us = rounded(latency_us(default_runs));
    let figures = AppFigures {
        name: cgroup.to_owned(),
        eevdf_latency_us: latency_us,
        best_ratio: throughput_ratio,
    };
    let (cgroup, preferred, weights) = (cgroup.to_owned(), name, BTreeMap::new());
    (App { cgroup, preferred, sentence, latency_us, throughput_ratio, weights }, figures)
}

/// The 99th percentile of responses, where there are any, else of waits, us.
fn tail_us(group: &Group) -> f64 {
    let of = if group.responses.count() > 0 { &group.responses } else { &group.figures.waits };
    of.percentile_ns(0.99).map_or(f64::NAN, |ns| ns as f64 / 1e3)
}

/// The mean time of a response; where there are none, that from a wake-up to the sleep
/// after it. Not a number where tasks never sleep.
fn latency_us<'a>(groups: impl Iterator<Item = &'a Group>) -> f64 {
    let (mut ns, mut count) = (0, 0);
    for group in groups {
        if group.responses.count() > 0 {
            ns += group.responses.sum_ns();
            count += group.responses.count();
        } else {
            ns += group.figures.waits.sum_ns() + group.figures.cpu_ns;
            count += group.figures.bursts;
        }
    }
    if count == 0 { f64::NAN } else { ns as f64 / count as f64 / 1e3 }
}

fn text(plan: &Plan) -> String {
    let mut out = format!(
        "metasched {}, simulated\n{}; {}; seeds {} to {}\n\npreferred by {}, each alone, against {}:\n",
        plan.version,
        plan.scenario,
        plan.machine,
        plan.seeds.first().copied().unwrap_or(0),
        plan.seeds.last().copied().unwrap_or(0),
        plan.objective,
        plan.default
    );
    let width = plan.apps.iter().map(|app| app.cgroup.len()).max().unwrap_or(0);
    for app in &plan.apps {
        let _ = writeln!(out, "  {:width$}  {}", app.cgroup, app.sentence);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    let cgroups = plan.apps.iter().map(|app| format!("{} ({})", app.cgroup, app.preferred));
    table.set_header(std::iter::once("strategy".to_owned()).chain(cgroups));
    for strategy in Strategy::ALL.map(Strategy::name) {
        if plan.apps.iter().all(|app| app.weights.contains_key(strategy)) {
            let weights = plan.apps.iter().map(|app| format!("{:.3}", app.weights[strategy]));
            table.add_row(std::iter::once(strategy.to_owned()).chain(weights));
        }
    }
    let _ = writeln!(out, "\nweights:\n{}", table.trim_fmt());
    for note in &plan.notes {
        let _ = writeln!(out, "{note}");
    }
    let _ = writeln!(out, "\nagain: {}", plan.replay);
    out
}
