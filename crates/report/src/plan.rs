//! What follows from the measurements: preferred schedulers, weights, time slices.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_control::SwitchRecord;
use metasched_profile::BASELINE;
use metasched_stats::{Interval, median};
use metasched_strategy::{
    AppFigures, BenefitForm, CandidateRounds, Choice, ChooseOptions, Objective, Outcome, Verdict,
    all_weights, choose, expected_ratio, timeslices,
};
use serde::Serialize;

use crate::analysis::{Analysis, FormFigures, Ratio, SEED};

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// What a preferred scheduler is to be best at.
    pub objective: Objective,
    /// How benefit enters the weights.
    pub benefit: BenefitForm,
    /// The base timeslice.
    pub base_slice: Duration,
    /// Whether what is lost in switching, at this base timeslice, counts in the
    /// choice; otherwise the schedulers alone are compared.
    pub count_switching: bool,
}

/// How sure a preference is, and of what.
#[derive(Clone, Debug, Serialize)]
pub struct Confidence {
    /// Between 0 and 1.
    pub confidence: f64,
    /// Whether a scheduler is better than the default, or none is.
    pub outcome: Outcome,
    /// The choice in a sentence.
    pub sentence: String,
}

/// What is planned for one part.
#[derive(Clone, Debug, Serialize)]
pub struct AppPlan {
    /// The part's name.
    pub name: String,
    /// The form that it was measured in.
    pub form: String,
    /// The preferred scheduler's name: the default's unless another is better.
    pub preferred: String,
    /// How sure that is.
    #[serde(flatten)]
    pub sure: Confidence,
    /// The candidate with the highest estimate, although it may be noise; absent if
    /// none has an estimate.
    pub best_estimate: Option<String>,
    /// The candidates that have an estimate, the best by the objective first.
    pub by_estimate: Vec<Estimate>,
    /// The part's mean latency alone under the default scheduler, in microseconds.
    pub eevdf_latency_us: f64,
    /// Its throughput under the preferred scheduler, as a ratio to the default.
    pub best_ratio: f64,
    /// Its weight under each strategy.
    pub weights: BTreeMap<&'static str, f64>,
    /// The length of its turn under each strategy, in milliseconds.
    pub slices_ms: BTreeMap<&'static str, f64>,
}

/// A candidate's estimate, whether beyond the noise or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The candidate's name.
    pub name: String,
    /// Its ratio to the default scheduler by the objective; more is better.
    pub score: f64,
    /// Its throughput as a ratio to the default scheduler's.
    pub throughput: f64,
}

/// A candidate on a form.
#[derive(Clone, Debug, Serialize)]
pub struct TableRow {
    /// The form.
    pub form: String,
    /// The candidate, with its options.
    pub candidate: String,
    /// Its version.
    pub version: String,
    /// How many rounds there are.
    pub rounds: usize,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
}

/// The throughput of the whole to expect of a strategy, if turns only add up.
#[derive(Clone, Debug, Serialize)]
pub struct ExpectedRatio {
    /// The strategy's name.
    pub strategy: &'static str,
    /// The ratio to the default scheduler.
    pub ratio: f64,
}

/// Preferred schedulers, how sure they are, weights and time slices.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The workload's name.
    pub workload: String,
    /// The kernel that it was measured on.
    pub kernel: String,
    /// The fingerprint of the machine that it was measured on.
    pub machine: String,
    /// What the preferred schedulers are best at.
    pub objective: String,
    /// How benefit entered the weights.
    pub benefit_form: BenefitForm,
    /// The base timeslice, in milliseconds.
    pub base_slice_ms: f64,
    /// The parts.
    pub apps: Vec<AppPlan>,
    /// The single scheduler that the whole prefers; absent without a whole.
    pub whole: Option<WholePlan>,
    /// All candidates on all forms.
    pub table: Vec<TableRow>,
    /// What to expect of each strategy; empty where the whole was not measured
    /// under every preferred scheduler.
    pub expected: Vec<ExpectedRatio>,
}

/// The single scheduler that the whole application prefers.
#[derive(Clone, Debug, Serialize)]
pub struct WholePlan {
    /// The form.
    pub form: String,
    /// The preferred scheduler's name.
    pub preferred: String,
    /// How sure that is.
    #[serde(flatten)]
    pub sure: Confidence,
    /// The candidate with the highest estimate, although it may be noise.
    pub best_estimate: Option<String>,
}

/// Plans from what was measured.
///
/// # Errors
///
/// [`Kind::BadInput`] if a part was not measured, or a figure that a weight needs
/// is not a positive number.
pub fn plan(analysis: &Analysis, options: PlanOptions) -> Result<Plan> {
    let switching = switching_times(&analysis.switches);
    let mut apps = Vec::new();
    for part in &analysis.composition.parts {
        let form = analysis.form(part).ok_or_else(|| {
            Error::new(
                Kind::BadInput,
                format!("plan for '{}'", analysis.workload),
                format!("its part '{part}' was not measured on this machine and kernel"),
            )
            .remedy("run `metasched profile` for all of its forms first")
        })?;
        apps.push(app(form, &switching, options));
    }
    let slices = assign_weights(&mut apps, options, &analysis.workload)?;
    let whole = analysis.whole().map(|form| {
        // A single scheduler stays in force: switching to it costs nothing.
        let choice = choice(form, &BTreeMap::new(), None, options.objective);
        WholePlan {
            form: form.form.clone(),
            best_estimate: by_estimate(form, &choice).into_iter().next().map(|e| e.name),
            preferred: choice.preferred.clone(),
            sure: confidence(&choice),
        }
    });
    Ok(Plan {
        workload: analysis.workload.clone(),
        kernel: analysis.environment.kernel.clone(),
        machine: analysis.environment.machine.clone(),
        objective: options.objective.to_string(),
        benefit_form: options.benefit,
        base_slice_ms: options.base_slice.as_secs_f64() * 1e3,
        expected: expected(analysis, &apps, &slices, &switching),
        apps,
        whole,
        table: analysis.forms.iter().flat_map(rows).collect(),
    })
}

/// The median time that switching to each candidate took, by the mechanism that
/// takes least.
fn switching_times(records: &[SwitchRecord]) -> BTreeMap<String, Duration> {
    let mut times: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    for r in records {
        let lane = r.write_ns.is_some();
        times.entry((&r.to, lane)).or_default().push(r.total_ns as f64);
    }
    let mut least: BTreeMap<String, Duration> = BTreeMap::new();
    for ((to, _), ns) in times {
        let Some(ns) = median(&ns) else { continue };
        let time = Duration::from_nanos(ns as u64);
        least.entry(to.to_owned()).and_modify(|t| *t = time.min(*t)).or_insert(time);
    }
    least
}

fn choice(
    form: &FormFigures,
    switching: &BTreeMap<String, Duration>,
    slice: Option<Duration>,
    objective: Objective,
) -> Choice {
    let candidates: Vec<CandidateRounds> = form
        .candidates
        .iter()
        .map(|c| CandidateRounds {
            switching: switching.get(&c.name).copied().unwrap_or_default(),
            ..c.rounds.clone()
        })
        .collect();
    choose(BASELINE, &candidates, ChooseOptions { objective, slice, seed: SEED })
}

fn confidence(choice: &Choice) -> Confidence {
    Confidence {
        confidence: choice.confidence,
        outcome: choice.outcome,
        sentence: choice.sentence(),
    }
}

/// The candidates that have an estimate, the highest first.
fn by_estimate(form: &FormFigures, choice: &Choice) -> Vec<Estimate> {
    let estimate = |a: &metasched_strategy::Assessment| {
        let candidate = form.candidates.iter().find(|c| c.name == a.name)?;
        Some(Estimate {
            name: candidate.name.clone(),
            score: a.score?,
            throughput: candidate.throughput.estimate?,
        })
    };
    let mut estimates: Vec<Estimate> = choice.candidates.iter().filter_map(estimate).collect();
    estimates.sort_by(|a, b| b.score.total_cmp(&a.score));
    estimates
}

fn app(
    form: &FormFigures,
    switching: &BTreeMap<String, Duration>,
    options: PlanOptions,
) -> AppPlan {
    let slice = options.count_switching.then_some(options.base_slice);
    let choice = choice(form, switching, slice, options.objective);
    let by_estimate = by_estimate(form, &choice);
    AppPlan {
        name: form.form.clone(),
        form: form.form.clone(),
        preferred: choice.preferred.clone(),
        sure: confidence(&choice),
        best_estimate: by_estimate.first().map(|e| e.name.clone()),
        by_estimate,
        eevdf_latency_us: form.baseline.mean_us,
        best_ratio: form
            .candidates
            .iter()
            .find(|c| c.name == choice.preferred)
            .and_then(|c| c.throughput.estimate)
            .unwrap_or(1.0),
        weights: BTreeMap::new(),
        slices_ms: BTreeMap::new(),
    }
}

/// The turns' lengths, by strategy, in the order of the parts.
type Slices = Vec<(&'static str, Vec<Duration>)>;

fn assign_weights(apps: &mut [AppPlan], options: PlanOptions, workload: &str) -> Result<Slices> {
    let figures: Vec<AppFigures> = apps
        .iter()
        .map(|a| AppFigures {
            name: a.name.clone(),
            eevdf_latency_us: a.eevdf_latency_us,
            best_ratio: a.best_ratio,
        })
        .collect();
    let weights = all_weights(&figures, options.benefit).map_err(|e| {
        Error::new(Kind::BadInput, format!("weigh the parts of '{workload}'"), e)
            .remedy("measure it afresh with `metasched profile`")
    })?;
    let mut slices = Vec::new();
    for (strategy, weights) in weights {
        let turns = timeslices(options.base_slice, &weights);
        for ((app, weight), turn) in apps.iter_mut().zip(&weights).zip(&turns) {
            app.weights.insert(strategy.name(), *weight);
            app.slices_ms.insert(strategy.name(), turn.as_secs_f64() * 1e3);
        }
        slices.push((strategy.name(), turns));
    }
    Ok(slices)
}

fn expected(
    analysis: &Analysis,
    apps: &[AppPlan],
    slices: &Slices,
    switching: &BTreeMap<String, Duration>,
) -> Vec<ExpectedRatio> {
    let Some(whole) = analysis.whole() else { return Vec::new() };
    let ratio = |name: &str| match name {
        BASELINE => Some(1.0),
        _ => whole.candidates.iter().find(|c| c.name == name)?.throughput.estimate,
    };
    slices
        .iter()
        .filter_map(|(strategy, turns)| {
            let turns: Option<Vec<_>> = apps
                .iter()
                .zip(turns)
                .map(|(app, slice)| {
                    let switch = switching.get(&app.preferred).copied().unwrap_or_default();
                    Some((ratio(&app.preferred)?, *slice, switch))
                })
                .collect();
            Some(ExpectedRatio { strategy, ratio: expected_ratio(&turns?)? })
        })
        .collect()
}

fn rows(form: &FormFigures) -> Vec<TableRow> {
    form.candidates
        .iter()
        .map(|c| TableRow {
            form: form.form.clone(),
            candidate: c.name.clone(),
            version: c.version.clone(),
            rounds: c.rounds.rounds.len(),
            throughput: c.throughput,
            p99: c.p99,
        })
        .collect()
}

impl Ratio {
    /// `+3.1 % (+1.0 to +5.2) better`; nothing after it where it is within the noise.
    pub fn text(&self) -> String {
        let mark = match self.verdict {
            Verdict::Better => " better",
            Verdict::Worse => " worse",
            Verdict::WithinNoise | Verdict::TooFewRounds => "",
        };
        match (self.interval, self.estimate) {
            (Some(Interval { estimate, low, high, .. }), _) => {
                format!("{} % ({} to {}){mark}", change(estimate), change(low), change(high))
            }
            (None, Some(estimate)) => format!("{} % (one round)", change(estimate)),
            (None, None) => "not measured".to_owned(),
        }
    }
}

/// A ratio as a change in percent. Bounds of two or three noisy rounds run to
/// astronomical figures, which say no more than that they are large.
fn change(ratio: f64) -> String {
    const LARGE: f64 = 1000.0;
    let percent = (ratio - 1.0) * 100.0;
    if percent > LARGE { format!("over +{LARGE:.0}") } else { format!("{percent:+.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Composition, analyse};
    use crate::fixture::{full_store, key, profile_only};
    use metasched_profile::{Query, Store};
    use serde_json::Value;

    const OPTIONS: PlanOptions = PlanOptions {
        objective: Objective::Throughput,
        benefit: BenefitForm::Relative,
        base_slice: Duration::from_millis(1800),
        count_switching: false,
    };

    fn declared(_: &str) -> Option<Composition> {
        Some(Composition { parts: vec!["front".into(), "back".into()], whole: Some("full".into()) })
    }

    fn planned(rounds: u32) -> Plan {
        let folder = crate::fixture::folder();
        let store = full_store(&folder.path().join("store.db"), rounds);
        plan(&analyse(&store, None, declared).unwrap(), OPTIONS).unwrap()
    }

    /// Every number in the document, with its path.
    fn numbers(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
        match value {
            Value::Number(n) => found.push((path.to_owned(), n.as_f64().unwrap())),
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, v)| numbers(v, &format!("{path}[{i}]"), found));
            }
            Value::Object(items) => {
                items.iter().for_each(|(k, v)| numbers(v, &format!("{path}.{k}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn each_part_prefers_the_scheduler_that_was_made_best_for_it() {
        let plan = planned(8);
        let preferred: Vec<_> =
            plan.apps.iter().map(|a| (a.name.as_str(), a.preferred.as_str())).collect();
        assert_eq!(preferred[0], ("front", "fifo"));
        assert!(plan.apps[0].sure.confidence > 0.95);
        assert_eq!(plan.apps[1].best_estimate.as_deref(), Some("scx_rusty"));
        let whole = plan.whole.unwrap();
        assert_eq!((whole.form.as_str(), plan.table.len()), ("full", 15));
    }

    #[test]
    fn the_plan_has_the_shape_that_run_reads() {
        let plan = serde_json::to_value(planned(4)).unwrap();
        assert_eq!(plan["workload"], "qa");
        let app = &plan["apps"][0];
        assert_eq!((&app["name"], &app["form"]), (&"front".into(), &"front".into()));
        assert!(app["preferred"].is_string() && app["confidence"].is_number());
        for strategy in ["round-robin", "delta", "benefit", "delta-benefit"] {
            let sum: f64 =
                (0..2).map(|i| plan["apps"][i]["weights"][strategy].as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{strategy}: {sum}");
            let cycle: f64 =
                (0..2).map(|i| plan["apps"][i]["slices_ms"][strategy].as_f64().unwrap()).sum();
            assert!((cycle - 3600.0).abs() < 1e-3, "{strategy}: {cycle}");
        }
        assert_eq!(plan["table"].as_array().unwrap().len(), 15);
    }

    #[test]
    fn every_number_is_finite_however_few_rounds_there_are() {
        for rounds in [1, 2, 3] {
            let value = serde_json::to_value(planned(rounds)).unwrap();
            let mut found = Vec::new();
            numbers(&value, "plan", &mut found);
            assert!(found.len() > 60, "{} numbers", found.len());
            for (path, number) in found {
                // JSON has no infinity, so a value that is none becomes null, and
                // is caught here only as a number that is missing or absurd.
                assert!(number.is_finite() && number.abs() < 1e12, "{path}: {number}");
            }
            for app in value["apps"].as_array().unwrap() {
                for field in ["confidence", "eevdf_latency_us", "best_ratio"] {
                    assert!(app[field].is_number(), "{field} with {rounds} rounds");
                }
            }
        }
    }

    #[test]
    fn one_round_prefers_the_default_and_says_that_it_is_too_few() {
        let plan = planned(1);
        for app in &plan.apps {
            assert_eq!(
                (app.preferred.as_str(), app.sure.outcome),
                (BASELINE, Outcome::TooFewRounds)
            );
            assert!(app.sure.sentence.contains("too few rounds"), "{}", app.sure.sentence);
        }
    }

    #[test]
    fn a_scheduler_that_takes_longer_to_start_than_its_turn_is_left_out_where_that_counts() {
        let folder = crate::fixture::folder();
        let store = full_store(&folder.path().join("store.db"), 12);
        let analysis = analyse(&store, None, declared).unwrap();
        let back = |count_switching| {
            let plan = plan(&analysis, PlanOptions { count_switching, ..OPTIONS }).unwrap();
            plan.apps[1].preferred.clone()
        };
        // The made-up scx_rusty takes three seconds to switch to.
        assert_eq!(back(false), "scx_rusty");
        assert_ne!(back(true), "scx_rusty");
    }

    #[test]
    fn a_part_that_was_not_measured_is_named_with_the_remedy() {
        let folder = crate::fixture::folder();
        let mut store = Store::open(folder.path().join("store.db")).unwrap();
        profile_only(&mut store, 3);
        let back = store.series_id(&key("back")).unwrap();
        store.supersede(back).unwrap();
        assert!(store.measurements(&Query::of_series(back)).unwrap().is_empty());
        let e = plan(&analyse(&store, None, declared).unwrap(), OPTIONS).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert!(e.to_string().contains("'back'") && e.to_string().contains("profile"), "{e}");
    }

    #[test]
    fn the_time_that_switching_takes_is_that_of_the_quicker_mechanism() {
        let record = |write_ns: Option<u64>, total_ns| SwitchRecord {
            from: "eevdf".into(),
            to: "fifo".into(),
            mechanism: metasched_control::Mechanism::Swap,
            stop_ns: None,
            start_ns: None,
            write_ns,
            total_ns,
        };
        let times = switching_times(&[
            record(None, 900_000_000),
            record(Some(40_000), 60_000),
            record(Some(40_000), 80_000),
            record(Some(40_000), 70_000),
        ]);
        assert_eq!(times["fifo"], Duration::from_nanos(70_000));
    }
}
