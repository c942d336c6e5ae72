//! What follows from the measurements: preferred schedulers, weights, time slices, and one
//! recommendation.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

use crate::choose::{CandidateRounds, Choice, ChooseOptions, Outcome, choose};
use crate::contender::Contender;
use crate::objective::{Objective, Round};
use crate::ratio::{Ratio, ratios};
use crate::recommend::{Recommendation, recommend};
use crate::{AppFigures, BenefitForm, Strategy, expected_ratio, timeslices, weights};

/// All that was measured of an application on a bed.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The application's name: a workload, or a scenario.
    pub application: String,
    /// The kernel; none where it is simulated.
    pub kernel: Option<String>,
    /// The machine.
    pub machine: String,
    /// The scheduler that all are compared with.
    pub default: String,
    /// What was measured for itself.
    pub parts: Vec<Part>,
    /// Whether the parts' figures are those that they had while the whole ran, each by its own
    /// load, and not alone.
    pub together: bool,
    /// Parts that were not measured.
    pub missing: Vec<String>,
    /// What the parts make up together; absent where there is one part, or it was not measured.
    pub whole: Option<Whole>,
    /// What is neither.
    pub others: Vec<Part>,
    /// How long switching to a scheduler takes, by its name.
    pub switching: BTreeMap<String, Duration>,
}

/// A part, alone, under single schedulers.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub objective: Objective,
    /// Its mean latency under the default scheduler, in microseconds; absent where it has none.
    pub latency_us: Option<f64>,
    /// What it was measured under.
    pub candidates: Vec<CandidateRounds>,
    /// The scheduler that it is to have, whatever was measured.
    pub asked: Option<String>,
}

/// The whole application.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub objective: Objective,
    /// Under single schedulers.
    pub candidates: Vec<CandidateRounds>,
    /// Under several that share the machine.
    pub metaschedulers: Vec<(Contender, Vec<Round>)>,
    /// Under single schedulers in the rounds of these, where those above are of rounds of their own.
    pub beside: Vec<CandidateRounds>,
}

impl Whole {
    /// All that it was measured under, with the rounds: single schedulers first.
    pub fn contenders(&self) -> impl Iterator<Item = (Contender, CandidateRounds)> {
        let singles = self.candidates.iter().map(|c| (Contender::scheduler(&c.name), c.clone()));
        let several = self.metaschedulers.iter().map(|(contender, rounds)| {
            (contender.clone(), CandidateRounds::new(contender.to_string(), rounds.clone()))
        });
        singles.chain(several)
    }
}

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// What a preferred scheduler is to be best at; if absent, each part is judged by what it
    /// is for.
    pub objective: Option<Objective>,
    /// How benefit enters the weights.
    pub benefit: BenefitForm,
    /// The base timeslice.
    pub base_slice: Duration,
    /// Whether what is lost in switching, at this base timeslice, counts in the
    /// choice; otherwise the schedulers alone are compared.
    pub count_switching: bool,
}

/// The base timeslice that was best in the paper on metaschedulers.
pub const PUBLISHED_BASE_SLICE: Duration = Duration::from_millis(1800);

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            objective: None,
            benefit: BenefitForm::default(),
            base_slice: PUBLISHED_BASE_SLICE,
            count_switching: false,
        }
    }
}

/// How sure a preference is, and of what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Confidence {
    /// Between 0 and 1.
    pub confidence: f64,
    /// Whether a scheduler is better than the default, or none is.
    pub outcome: Outcome,
    /// The choice in a sentence.
    pub sentence: String,
}

/// What is planned for one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppPlan {
    /// The part's name.
    pub name: String,
    /// The form that it was measured in.
    #[serde(default)]
    pub form: String,
    /// What it was judged by.
    #[serde(default)]
    pub objective: Objective,
    /// The preferred scheduler's name: the default's unless another is better.
    pub preferred: String,
    /// How sure that is.
    #[serde(flatten)]
    pub sure: Confidence,
    /// The candidate with the highest estimate, although it may be noise; absent if
    /// none has an estimate.
    #[serde(default)]
    pub best_estimate: Option<String>,
    /// The candidates that have an estimate, the best by the objective first.
    #[serde(default)]
    pub by_estimate: Vec<Estimate>,
    /// The part's mean latency alone under the default scheduler, in microseconds.
    #[serde(default)]
    pub eevdf_latency_us: Option<f64>,
    /// Its throughput under the preferred scheduler, as a ratio to the default.
    #[serde(default = "one")]
    pub best_ratio: f64,
    /// Its weight under each strategy.
    pub weights: BTreeMap<Strategy, f64>,
    /// The length of its turn under each strategy, in milliseconds.
    #[serde(default)]
    pub slices_ms: BTreeMap<Strategy, f64>,
}

fn one() -> f64 {
    1.0
}

/// A candidate's estimate, whether beyond the noise or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The candidate's name.
    pub name: String,
    /// Its ratio to the default scheduler by the objective; more is better.
    pub score: f64,
    /// Its throughput as a ratio to the default scheduler's.
    pub throughput: f64,
}

/// A candidate on a form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableRow {
    /// The form.
    pub form: String,
    /// The candidate, with its options.
    pub candidate: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// How many rounds there are.
    pub rounds: usize,
    /// Throughput against the default scheduler.
    #[serde(default)]
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    #[serde(default)]
    pub p99: Ratio,
}

/// The throughput of the whole to expect of a strategy, if turns only add up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExpectedRatio {
    /// The strategy.
    pub strategy: Strategy,
    /// The ratio to the default scheduler.
    pub ratio: f64,
}

/// Preferred schedulers, how sure they are, weights, time slices, and what to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// The workload's name, or the scenario's.
    pub workload: String,
    /// The kernel that it was measured on; absent where that was simulated.
    pub kernel: Option<String>,
    /// The machine that it was measured on: its fingerprint, or what was simulated.
    pub machine: String,
    /// The scheduler that all are compared with.
    pub default: String,
    /// What the preferred schedulers are best at; absent where each part was judged by what it
    /// is for.
    pub objective: Option<String>,
    /// How benefit entered the weights.
    pub benefit_form: BenefitForm,
    /// The base timeslice, in milliseconds.
    pub base_slice_ms: f64,
    /// The parts.
    pub apps: Vec<AppPlan>,
    /// Whether these were measured while all of them ran, and not each alone.
    pub together: bool,
    /// The single scheduler that the whole prefers; absent without a whole.
    pub whole: Option<WholePlan>,
    /// All candidates on all forms.
    pub table: Vec<TableRow>,
    /// What to expect of each strategy; empty where the whole was not measured
    /// under every preferred scheduler.
    pub expected: Vec<ExpectedRatio>,
    /// Strategies that say nothing here, and why.
    pub notes: Vec<String>,
    /// What to do; absent in the plan of an earlier version.
    pub recommendation: Option<Recommendation>,
    /// The command that gives the same plan again, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

/// The single scheduler that the whole application prefers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WholePlan {
    /// The form.
    pub form: String,
    /// What it was judged by.
    #[serde(default)]
    pub objective: Objective,
    /// The preferred scheduler's name.
    pub preferred: String,
    /// How sure that is.
    #[serde(flatten)]
    pub sure: Confidence,
    /// The candidate with the highest estimate, although it may be noise.
    #[serde(default)]
    pub best_estimate: Option<String>,
}

/// Plans from what was measured.
///
/// # Errors
///
/// [`Kind::BadInput`] if a part was not.
pub fn plan(measured: &Measured, options: PlanOptions) -> Result<Plan> {
    let missing = match measured.missing.first() {
        Some(part) => Some(format!("its part '{part}' was not measured here")),
        None => measured.parts.is_empty().then(|| "none of its parts was measured".to_owned()),
    };
    if let Some(missing) = missing {
        let attempt = format!("plan for '{}'", measured.application);
        return Err(Error::new(Kind::BadInput, attempt, missing)
            .remedy("run `metasched profile` for all of its forms first"));
    }
    let mut apps: Vec<AppPlan> =
        measured.parts.iter().map(|part| app(part, measured, options)).collect();
    let (slices, notes) = assign_weights(&mut apps, options);
    let whole = measured.whole.as_ref().map(|whole| {
        // A single scheduler stays in force: switching to it costs nothing.
        let objective = options.objective.unwrap_or(whole.objective);
        let choice =
            choose(&measured.default, &whole.candidates, ChooseOptions { objective, slice: None });
        WholePlan {
            form: whole.name.clone(),
            objective,
            best_estimate: by_estimate(&whole.candidates, &choice).first().map(|e| e.name.clone()),
            preferred: choice.preferred.clone(),
            sure: confidence(&choice),
        }
    });
    let mut table: Vec<TableRow> =
        measured.parts.iter().flat_map(|part| rows(&part.name, &part.candidates)).collect();
    table.extend(measured.whole.iter().flat_map(|whole| rows(&whole.name, &whole.candidates)));
    table.extend(measured.others.iter().flat_map(|other| rows(&other.name, &other.candidates)));
    Ok(Plan {
        workload: measured.application.clone(),
        kernel: measured.kernel.clone(),
        machine: measured.machine.clone(),
        default: measured.default.clone(),
        objective: options.objective.map(|objective| objective.to_string()),
        benefit_form: options.benefit,
        base_slice_ms: options.base_slice.as_secs_f64() * 1e3,
        expected: expected(measured, &apps, &slices),
        recommendation: Some(recommend(measured, &apps, options)),
        apps,
        together: measured.together,
        whole,
        table,
        notes,
        again: None,
    })
}

pub(crate) fn confidence(choice: &Choice) -> Confidence {
    Confidence {
        confidence: choice.confidence,
        outcome: choice.outcome,
        sentence: choice.sentence(),
    }
}

/// The candidates that have an estimate, the highest first.
fn by_estimate(candidates: &[CandidateRounds], choice: &Choice) -> Vec<Estimate> {
    let estimate = |(candidate, a): (&CandidateRounds, &crate::Assessment)| {
        Some(Estimate {
            name: candidate.name.clone(),
            score: a.score?,
            throughput: candidate.estimate(Objective::Throughput)?,
        })
    };
    let mut estimates: Vec<Estimate> =
        candidates.iter().zip(&choice.candidates).filter_map(estimate).collect();
    estimates.sort_by(|a, b| b.score.total_cmp(&a.score));
    estimates
}

fn app(part: &Part, measured: &Measured, options: PlanOptions) -> AppPlan {
    let objective = options.objective.unwrap_or(part.objective);
    let slice = options.count_switching.then_some(options.base_slice);
    let took = |name: &str| measured.switching.get(name).copied().unwrap_or_default();
    let candidates: Vec<CandidateRounds> = part
        .candidates
        .iter()
        .map(|c| CandidateRounds { switching: took(&c.name), ..c.clone() })
        .collect();
    let choice = choose(&measured.default, &candidates, ChooseOptions { objective, slice });
    let by_estimate = by_estimate(&candidates, &choice);
    let (preferred, mut sure) = (choice.preferred.clone(), confidence(&choice));
    let preferred = part.asked.clone().unwrap_or(preferred);
    if part.asked.is_some() {
        sure.sentence = format!("{preferred}: it was asked for");
    }
    AppPlan {
        name: part.name.clone(),
        form: part.name.clone(),
        objective,
        sure,
        best_estimate: by_estimate.first().map(|e| e.name.clone()),
        eevdf_latency_us: part.latency_us,
        best_ratio: by_estimate
            .iter()
            .find(|estimate| estimate.name == preferred)
            .map_or(1.0, |estimate| estimate.throughput),
        by_estimate,
        preferred,
        weights: BTreeMap::new(),
        slices_ms: BTreeMap::new(),
    }
}

/// The turns' lengths, by strategy, in the order of the parts.
type Slices = Vec<(Strategy, Vec<Duration>)>;

/// Weighs the parts by each strategy; gives what those say nothing about, in words.
fn assign_weights(apps: &mut [AppPlan], options: PlanOptions) -> (Slices, Vec<String>) {
    let figures: Vec<AppFigures> = apps.iter().map(AppFigures::from).collect();
    let (mut slices, mut notes) = (Vec::new(), Vec::new());
    for strategy in Strategy::ALL {
        let weights = match weights(strategy, &figures, options.benefit) {
            Ok(weights) => weights,
            Err(error) => {
                let without = apps.iter().find(|app| app.eevdf_latency_us.is_none());
                let why = without.map_or(error.to_string(), |app| {
                    format!(
                        "'{}' has no latency: it answered nothing, and no task of it slept",
                        app.name
                    )
                });
                notes.push(format!("{strategy} says nothing here: {why}"));
                continue;
            }
        };
        let turns = timeslices(options.base_slice, &weights);
        for ((app, weight), turn) in apps.iter_mut().zip(&weights).zip(&turns) {
            app.weights.insert(strategy, *weight);
            app.slices_ms.insert(strategy, turn.as_secs_f64() * 1e3);
        }
        slices.push((strategy, turns));
    }
    (slices, notes)
}

impl From<&AppPlan> for AppFigures {
    fn from(app: &AppPlan) -> Self {
        AppFigures {
            name: app.name.clone(),
            eevdf_latency_us: app.eevdf_latency_us.unwrap_or(f64::NAN),
            best_ratio: app.best_ratio,
        }
    }
}

fn expected(measured: &Measured, apps: &[AppPlan], slices: &Slices) -> Vec<ExpectedRatio> {
    let Some(whole) = &measured.whole else { return Vec::new() };
    let ratio = |name: &str| match name == measured.default {
        true => Some(1.0),
        false => {
            let candidate = whole.candidates.iter().find(|c| c.name == name)?;
            candidate.estimate(Objective::Throughput)
        }
    };
    slices
        .iter()
        .filter_map(|(strategy, turns)| {
            let turns: Option<Vec<_>> = apps
                .iter()
                .zip(turns)
                .map(|(app, slice)| {
                    let switch = measured.switching.get(&app.preferred);
                    Some((ratio(&app.preferred)?, *slice, switch.copied().unwrap_or_default()))
                })
                .collect();
            Some(ExpectedRatio { strategy: *strategy, ratio: expected_ratio(&turns?)? })
        })
        .collect()
}

fn rows(form: &str, candidates: &[CandidateRounds]) -> Vec<TableRow> {
    candidates
        .iter()
        .zip(ratios(candidates))
        .map(|(c, (throughput, p99))| TableRow {
            form: form.to_owned(),
            candidate: c.name.clone(),
            version: c.version.clone(),
            rounds: c.rounds.len(),
            throughput,
            p99,
        })
        .collect()
}
