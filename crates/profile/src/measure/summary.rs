//! What a call to measure came to.

use metasched_base::{Error, Result};
use metasched_experiment::{Need, Objective, SEED, losers, need};
use metasched_stats::{Interval, paired_ratio};
use serde::Serialize;

use super::{Bench, Measured};
use crate::Subject;
use crate::analysis::{SideFigures, sides};
use crate::store::Query;

/// What was measured, this time and before.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The workload's name.
    pub workload: String,
    /// The session; absent when nothing had to be measured.
    pub session: Option<i64>,
    /// The seed of the random order.
    pub seed: u64,
    /// The forms, in the order of the manifest.
    pub forms: Vec<FormSummary>,
    /// Runs that failed in this call.
    pub failures: Vec<FailureSummary>,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailureSummary {
    /// What it was measured under.
    pub subject: String,
    /// Whether it was not measured any more after that.
    pub dropped: bool,
    /// Why.
    pub error: Error,
}

/// What is known of a form.
#[derive(Clone, Debug, Serialize)]
pub struct FormSummary {
    /// Its name.
    pub form: String,
    /// Its series in the store.
    pub series: i64,
    /// What its throughput counts.
    pub unit: String,
    /// Pairs that the store held before this call, over all subjects.
    pub pairs_before: usize,
    /// Under each subject but the default scheduler.
    pub subjects: Vec<SubjectSummary>,
    /// Of a pair that runs at once: each of the two, under each subject.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sides: Vec<SideFigures>,
    /// Throughput with metasched's observation over that without, under the default
    /// scheduler: what the observation costs.
    pub observation: Option<Interval>,
    /// What ended it early.
    pub error: Option<Error>,
}

/// What is known of a form under a subject.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectSummary {
    /// The subject as text.
    pub name: String,
    /// The subject.
    pub subject: Subject,
    /// Throughput over that under the default scheduler; absent below two pairs.
    pub throughput: Option<Interval>,
    /// Likewise the 99th percentile of the latency.
    pub p99: Option<Interval>,
    /// Pairs in the store.
    pub pairs: usize,
    /// Of one that is not the best: the chance of such figures if it were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// Whether that is enough.
    pub outcome: Outcome,
}

/// Whether a subject was measured enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The interval is narrow enough.
    Precise,
    /// All rounds were made; the interval stayed wide.
    Exhausted,
    /// It is surely not the best, and was not measured any further.
    Behind,
    /// The budget was spent first.
    OutOfTime,
    /// Its runs failed.
    Dropped,
}

impl Summary {
    /// The error that the exit status should tell, if something was left out.
    pub fn error(&self) -> Option<&Error> {
        let forms = self.forms.iter().filter_map(|form| form.error.as_ref());
        forms.chain(self.failures.iter().filter(|f| f.dropped).map(|f| &f.error)).next()
    }

    /// The exit status: 0, or that of what was left out.
    pub fn exit_code(&self) -> u8 {
        self.error().map_or(0, |error| error.kind.exit_code())
    }
}

pub(super) fn summary(bench: &Bench, forms: Vec<Measured>) -> Result<Summary> {
    let forms = forms.into_iter().map(|form| form_summary(bench, form)).collect::<Result<_>>()?;
    Ok(Summary {
        workload: bench.request.workload.manifest.name.clone(),
        session: bench.session,
        seed: bench.request.options.seed,
        forms,
        failures: bench
            .failures
            .iter()
            .map(|(subject, error)| FailureSummary {
                subject: subject.to_string(),
                dropped: bench.is_dropped(subject),
                error: error.clone(),
            })
            .collect(),
    })
}

fn form_summary(bench: &Bench, measured: Measured) -> Result<FormSummary> {
    let query = Query::of_series(measured.series);
    let form = bench.request.workload.manifest.form(&measured.form)?;
    let state = bench.state(form, measured.series)?;
    let lost = losers(&state.rounds[1..], form.objective());
    let subjects = bench.subjects[1..]
        .iter()
        .zip(&state.rounds[1..])
        .enumerate()
        .map(|(at, (subject, rounds))| {
            let throughput = rounds.pairs(Objective::Throughput);
            let chance = lost.iter().find(|lost| lost.place == at).map(|lost| lost.chance);
            let need = match bench.request.options.rules.drop_losers && chance.is_some() {
                true => Need::Behind,
                false => need(&rounds.pairs(form.objective()), &bench.request.options.rules),
            };
            let outcome = match need {
                _ if bench.is_dropped(subject) => Outcome::Dropped,
                Need::Precise => Outcome::Precise,
                Need::Exhausted => Outcome::Exhausted,
                Need::Behind => Outcome::Behind,
                Need::Rounds(_) => Outcome::OutOfTime,
            };
            SubjectSummary {
                name: subject.to_string(),
                subject: subject.clone(),
                p99: interval(&rounds.pairs(Objective::P99)).map(|score| score.inverse()),
                pairs: throughput.len(),
                throughput: interval(&throughput),
                chance: chance.filter(|_| outcome == Outcome::Behind),
                outcome,
            }
        })
        .collect();
    let controls: Vec<(f64, f64)> = bench
        .store
        .controls(&query)?
        .into_iter()
        .map(|(control, measured)| (measured.throughput_per_s, control.throughput_per_s))
        .collect();
    let mut sides = sides(&bench.store.measurements(&query)?);
    sides.retain(|side| bench.subjects.iter().any(|s| s.to_string() == side.subject));
    Ok(FormSummary {
        sides,
        form: measured.form,
        series: measured.series,
        unit: form.unit.clone(),
        pairs_before: measured.before,
        subjects,
        observation: interval(&controls),
        error: measured.error,
    })
}

impl Outcome {
    /// For tables.
    pub fn describe(self) -> &'static str {
        match self {
            Outcome::Precise => "precise",
            Outcome::Exhausted => "all rounds made",
            Outcome::Behind => "not the best",
            Outcome::OutOfTime => "out of time",
            Outcome::Dropped => "failed",
        }
    }
}

fn interval(pairs: &[(f64, f64)]) -> Option<Interval> {
    paired_ratio(pairs, SEED)
}
