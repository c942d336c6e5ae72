//! The two of a pair, while both run.

use std::collections::BTreeMap;

use metasched_experiment::{CandidateRounds, Ratio, Round, Sample, ratios};
use metasched_stats::median;
use serde::Serialize;

use crate::measurement::round_number;
use crate::{Measurement, RunKind, Subject};

/// One of a pair, while both run under a subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideFigures {
    /// The subject as text: a scheduler, turns or lanes.
    pub subject: String,
    /// Which of the two.
    pub name: String,
    /// Its throughput against that under the default scheduler.
    pub throughput: Ratio,
    /// Likewise the 99th percentile of its latency.
    pub p99: Ratio,
    /// In so many rounds.
    pub rounds: usize,
    /// These.
    #[serde(skip)]
    pub candidate: CandidateRounds,
}

/// The mean latency of each of the two under the default scheduler, in us, the median of rounds; those
/// are left out whose loads say none.
pub(crate) fn side_latencies_us(all: &[Measurement]) -> BTreeMap<String, f64> {
    let mut rounds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for m in all.iter().filter(|m| m.kind == RunKind::Measured && m.subject.is_baseline()) {
        for (name, part) in &m.parts {
            let said = part.load.as_ref().map(|load| load.mean_us).filter(|us| *us > 0.0);
            rounds.entry(name.clone()).or_default().extend(said);
        }
    }
    rounds.into_iter().filter_map(|(name, us)| Some((name, median(&us)?))).collect()
}

/// Each of the two under each subject, by what their own loads said; those of a subject that was
/// measured in several versions by the one that was measured last. Nothing where it is no pair.
pub(crate) fn sides(all: &[Measurement]) -> Vec<SideFigures> {
    let measured = || all.iter().filter(|m| m.kind == RunKind::Measured);
    let newest: BTreeMap<String, &Subject> =
        measured().map(|m| (m.subject.to_string(), &m.subject)).collect();
    let number = |m: &Measurement| round_number(m.session, m.round);
    let loads = |m: &Measurement| -> BTreeMap<String, Sample> {
        let load = |(name, part): (&String, &crate::PartFigures)| {
            Some((name.clone(), part.load.as_ref()?.sample()))
        };
        m.parts.iter().filter_map(load).collect()
    };
    let defaults: BTreeMap<u64, BTreeMap<String, Sample>> =
        measured().filter(|m| m.subject.is_baseline()).map(|m| (number(m), loads(m))).collect();
    // By side, then by subject: the subjects of one side are compared with each other.
    let mut rounds: BTreeMap<String, BTreeMap<String, Vec<Round>>> = BTreeMap::new();
    for m in measured().filter(|m| !m.subject.is_baseline()) {
        let (label, number) = (m.subject.to_string(), number(m));
        let Some(beside) = defaults.get(&number).filter(|_| newest[&label] == &m.subject) else {
            continue;
        };
        for (name, candidate) in loads(m) {
            if let Some(default) = beside.get(&name).copied() {
                let of_side = rounds.entry(name).or_default();
                let of_subject = of_side.entry(label.clone()).or_default();
                of_subject.push(Round { number, candidate, default });
            }
        }
    }
    let mut figures = Vec::new();
    for (name, subjects) in rounds {
        let of_side: Vec<CandidateRounds> = subjects
            .into_iter()
            .map(|(subject, rounds)| CandidateRounds::new(subject, rounds))
            .collect();
        let ratios = ratios(&of_side);
        for (candidate, (throughput, p99)) in of_side.into_iter().zip(ratios) {
            let (subject, rounds) = (candidate.name.clone(), candidate.rounds.len());
            let name = name.clone();
            figures.push(SideFigures { subject, name, throughput, p99, rounds, candidate });
        }
    }
    figures.sort_by(|a, b| (&a.subject, &a.name).cmp(&(&b.subject, &b.name)));
    figures
}
