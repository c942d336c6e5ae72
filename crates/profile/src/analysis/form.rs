//! One form of the workload under single schedulers.

use std::collections::BTreeMap;

use metasched_base::Result;
use metasched_experiment::{CandidateRounds, Ratio, SEED, ratios};
use metasched_stats::{Interval, Log2Histogram, RunLengths, median, paired_estimate, paired_ratio};
use serde::Serialize;

use super::{Activity, Rounds};
use crate::{BASELINE, Failure, LoadFigures, Measurement, Query, RunKind, Series, Store, Subject};

/// A candidate on one form.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateFigures {
    /// The candidate's name, its options included.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its rounds beside the default scheduler.
    #[serde(skip)]
    pub rounds: CandidateRounds,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
}

/// The default scheduler's own figures: medians over its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Throughput, in units per second.
    pub throughput_per_s: f64,
    /// Mean latency, in microseconds.
    pub mean_us: f64,
    /// 99th percentile of latency, in microseconds.
    pub p99_us: f64,
    /// How many runs there are.
    pub runs: usize,
}

/// One form of the workload.
#[derive(Clone, Debug, Serialize)]
pub struct FormFigures {
    /// The form's name.
    pub form: String,
    /// What its throughput counts.
    pub unit: String,
    /// How long each load ran, in seconds.
    pub duration_s: f64,
    /// The default scheduler's own figures.
    pub baseline: Baseline,
    /// The candidates, in the order in which they were first measured.
    pub candidates: Vec<CandidateFigures>,
    /// Run-queue waits by scheduler, from traced runs.
    pub waits: Vec<(String, Log2Histogram)>,
    /// Likewise of the tool that loads the application.
    pub load_waits: Vec<(String, Log2Histogram)>,
    /// How long threads ran at a time, by scheduler, from traced runs.
    pub runs: Vec<(String, RunLengths)>,
    /// What its threads did under each scheduler, the default first.
    pub activity: Vec<Activity>,
    /// The default scheduler with metasched's own observation over without it:
    /// what the observation costs. Absent without control runs.
    pub observed_over_unobserved: Option<Interval>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

impl FormFigures {
    /// Reads the one of the form's series (they come newest first) in which most
    /// schedulers were measured; of equals the newest. A tuning with runs of another
    /// length is a series of its own, with one or two schedulers beside its
    /// strategies: it must not hide what a profile measured before it.
    pub(super) fn read<'a>(
        store: &Store,
        series: impl Iterator<Item = &'a Series>,
    ) -> Result<Option<Self>> {
        let mut fullest: Option<Self> = None;
        for s in series {
            let all = store.measurements(&Query::of_series(s.id))?;
            let Some(figures) = Self::of(s, &all, store.failures(s.id)?) else { continue };
            let most =
                fullest.as_ref().is_none_or(|f| figures.candidates.len() > f.candidates.len());
            if most {
                fullest = Some(figures);
            }
        }
        Ok(fullest)
    }

    fn of(series: &Series, all: &[Measurement], failures: Vec<Failure>) -> Option<Self> {
        let subjects = newest_versions(all);
        let rounds = Rounds::new(all, |m| {
            let label = m.subject.to_string();
            (subjects.get(&label) == Some(&&m.subject)).then_some(label)
        });
        let baseline = baseline(&rounds)?;
        let mut named: Vec<(String, &Subject)> = Vec::new();
        for m in all {
            let label = m.subject.to_string();
            let known = named.iter().any(|(l, _)| *l == label);
            if let Some(subject) = subjects.get(&label).filter(|s| !s.is_baseline() && !known) {
                named.push((label, subject));
            }
        }
        let measured: Vec<CandidateRounds> = named
            .iter()
            .map(|(label, _)| CandidateRounds::new(label, rounds.pairs(label, BASELINE)))
            .collect();
        let candidates = named
            .iter()
            .zip(measured.iter().zip(ratios(&measured)))
            .filter(|(_, (rounds, _))| !rounds.rounds.is_empty())
            .filter_map(|((name, subject), (rounds, (throughput, p99)))| {
                let Subject::Scheduler { version, .. } = subject else { return None };
                Some(CandidateFigures {
                    name: name.clone(),
                    version: version.clone(),
                    rounds: rounds.clone(),
                    throughput,
                    p99,
                })
            })
            .collect();
        let waits = |of: fn(&LoadFigures) -> Option<Log2Histogram>| {
            traced(all, &subjects, of, Log2Histogram::merge, Log2Histogram::count)
        };
        Some(Self {
            form: series.key.form.clone(),
            unit: series.key.unit.clone(),
            duration_s: series.key.duration_s,
            baseline,
            candidates,
            waits: waits(|figures| figures.wait_histogram.clone().map(Log2Histogram::new)),
            load_waits: waits(|figures| {
                figures.load_wait_histogram.clone().map(Log2Histogram::new)
            }),
            activity: Activity::of(&rounds, named.iter().map(|(label, _)| label.as_str())),
            runs: traced(all, &subjects, |f| f.runs.clone(), RunLengths::merge, RunLengths::count),
            observed_over_unobserved: observation_cost(all),
            failures,
        })
    }
}

/// Single schedulers by label, each in the version that was measured last.
fn newest_versions(all: &[Measurement]) -> BTreeMap<String, &Subject> {
    all.iter()
        .filter(|m| m.kind == RunKind::Measured)
        .filter(|m| matches!(m.subject, Subject::Scheduler { .. }))
        .map(|m| (m.subject.to_string(), &m.subject))
        .collect()
}

fn baseline(rounds: &Rounds) -> Option<Baseline> {
    let runs = rounds.of(BASELINE);
    let middle = |figure: fn(&LoadFigures) -> f64| {
        median(&runs.iter().map(|f| figure(f)).collect::<Vec<_>>())
    };
    Some(Baseline {
        throughput_per_s: middle(|f| f.throughput_per_s)?,
        mean_us: middle(|f| f.mean_us)?,
        p99_us: middle(|f| f.p99_us)?,
        runs: runs.len(),
    })
}

/// What the traced runs of each of these subjects have of a kind, added up; the default's first.
fn traced<T>(
    all: &[Measurement],
    subjects: &BTreeMap<String, &Subject>,
    of: fn(&LoadFigures) -> Option<T>,
    merge: fn(&mut T, &T),
    count: fn(&T) -> u64,
) -> Vec<(String, T)> {
    let mut sums: Vec<(String, T)> = Vec::new();
    for m in all.iter().filter(|m| m.kind == RunKind::Traced) {
        let label = m.subject.to_string();
        let Some(found) = of(&m.figures) else { continue };
        if subjects.get(&label) != Some(&&m.subject) {
            continue;
        }
        match sums.iter_mut().find(|(l, _)| *l == label) {
            Some((_, sum)) => merge(sum, &found),
            None => sums.push((label, found)),
        }
    }
    sums.retain(|(_, sum)| count(sum) > 0);
    // The rest as they came.
    sums.sort_by_key(|(label, _)| label != BASELINE);
    sums
}

/// Control runs share a round with an observed run of the default scheduler.
fn observation_cost(all: &[Measurement]) -> Option<Interval> {
    let pairs: Vec<(f64, f64)> = all
        .iter()
        .filter(|m| m.kind == RunKind::Control)
        .filter_map(|control| {
            let observed = all.iter().find(|m| {
                m.kind == RunKind::Measured
                    && m.subject.is_baseline()
                    && (m.session, m.round) == (control.session, control.round)
            })?;
            Some((observed.figures.throughput_per_s, control.figures.throughput_per_s))
        })
        .collect();
    paired_estimate(&pairs)?;
    paired_ratio(&pairs, SEED)
}
