//! The two of a pair, while both run.

use std::collections::BTreeMap;

use metasched_experiment::{Objective, SEED, Sample};
use metasched_stats::{Interval, paired_ratio};
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
    /// Its throughput over that under the default scheduler; absent below two rounds.
    pub throughput: Option<Interval>,
    /// Likewise the 99th percentile of its latency.
    pub p99: Option<Interval>,
    /// In so many rounds.
    pub rounds: usize,
}

/// Each of the two under each subject, by what their own loads said; those of a subject that was
/// measured in several versions by the one that was measured last. Nothing where it is no pair.
pub(crate) fn sides(all: &[Measurement]) -> Vec<SideFigures> {
    let measured = || all.iter().filter(|m| m.kind == RunKind::Measured);
    let newest: BTreeMap<String, &Subject> =
        measured().map(|m| (m.subject.to_string(), &m.subject)).collect();
    let round = |m: &Measurement| round_number(m.session, m.round);
    let loads = |m: &Measurement| -> BTreeMap<String, Sample> {
        let load = |(name, part): (&String, &crate::PartFigures)| {
            Some((name.clone(), part.load.as_ref()?.sample()))
        };
        m.parts.iter().filter_map(load).collect()
    };
    let default: BTreeMap<u64, BTreeMap<String, Sample>> =
        measured().filter(|m| m.subject.is_baseline()).map(|m| (round(m), loads(m))).collect();
    let mut pairs: BTreeMap<(String, String), Vec<(Sample, Sample)>> = BTreeMap::new();
    for m in measured().filter(|m| !m.subject.is_baseline()) {
        let label = m.subject.to_string();
        let Some(beside) = default.get(&round(m)).filter(|_| newest[&label] == &m.subject) else {
            continue;
        };
        for (name, sample) in loads(m) {
            if let Some(base) = beside.get(&name) {
                pairs.entry((label.clone(), name)).or_default().push((sample, *base));
            }
        }
    }
    let figures = |((subject, name), pairs): ((String, String), Vec<(Sample, Sample)>)| {
        let ratio = |by: Objective| {
            let scores = |(it, base): &(Sample, Sample)| (by.score(*it), by.score(*base));
            paired_ratio(&pairs.iter().map(scores).collect::<Vec<_>>(), SEED)
        };
        SideFigures {
            subject,
            name,
            throughput: ratio(Objective::Throughput),
            p99: ratio(Objective::P99).map(|score| score.inverse()),
            rounds: pairs.len(),
        }
    };
    pairs.into_iter().map(figures).collect()
}
