//! Metaschedulers on the whole application.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::Result;
use metasched_control::Mechanism;
use metasched_profile::{BASELINE, Measurement, Query, RunKind, Series, Store, Subject, TurnShare};
use metasched_stats::{Interval, paired_ratio};
use metasched_strategy::CandidateRounds;
use serde::Serialize;

use super::form::{Ratio, ratios};
use super::{Rounds, SEED};

/// A metascheduler at one base timeslice.
#[derive(Clone, Debug, Serialize)]
pub struct StrategyFigures {
    /// The strategy's name.
    pub strategy: String,
    /// How turns were changed.
    pub mechanism: Mechanism,
    /// The base timeslice, in milliseconds.
    pub base_slice_ms: u64,
    /// The turns.
    pub turns: Vec<TurnShare>,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
    /// Throughput against each single scheduler that was measured in the same
    /// rounds, by its label.
    pub throughput_over_single: BTreeMap<String, Interval>,
}

/// Reads the newest of the series (they come newest first) in which
/// metaschedulers were measured.
pub(super) fn read<'a>(
    store: &Store,
    series: impl Iterator<Item = &'a &'a Series>,
) -> Result<Vec<StrategyFigures>> {
    for s in series {
        let figures = of(&store.measurements(&Query::of_series(s.id))?);
        if !figures.is_empty() {
            return Ok(figures);
        }
    }
    Ok(Vec::new())
}

fn of(all: &[Measurement]) -> Vec<StrategyFigures> {
    // The same strategy may have been measured with other turns before a later
    // plan preferred other schedulers: the last one counts.
    let newest: BTreeMap<String, &Subject> = all
        .iter()
        .filter(|m| m.kind == RunKind::Measured)
        .map(|m| (m.subject.to_string(), &m.subject))
        .collect();
    let rounds = Rounds::new(all, |m| {
        let label = m.subject.to_string();
        (newest.get(&label) == Some(&&m.subject)).then_some(label)
    });
    let mut strategies: Vec<(String, &Subject)> = newest
        .iter()
        .filter(|(_, s)| matches!(s, Subject::Strategy { .. }))
        .map(|(label, subject)| (label.clone(), *subject))
        .collect();
    strategies.sort_by_key(|(_, subject)| order(subject));
    let measured: Vec<CandidateRounds> = strategies
        .iter()
        .map(|(label, _)| CandidateRounds {
            name: label.clone(),
            rounds: rounds.pairs(label, BASELINE),
            switching: Duration::ZERO,
        })
        .collect();
    let singles: Vec<&String> = newest
        .iter()
        .filter(|(_, s)| matches!(s, Subject::Scheduler { .. }) && !s.is_baseline())
        .map(|(label, _)| label)
        .collect();
    strategies
        .iter()
        .zip(measured.iter().zip(ratios(&measured)))
        .filter(|(_, (rounds, _))| !rounds.rounds.is_empty())
        .filter_map(|((label, subject), (_, (throughput, p99)))| {
            let Subject::Strategy { strategy, mechanism, base_slice_ms, turns } = subject else {
                return None;
            };
            let throughput_over_single = singles
                .iter()
                .filter_map(|single| {
                    let pairs: Vec<(f64, f64)> = rounds
                        .pairs(label, single)
                        .iter()
                        .map(|r| (r.candidate.throughput_per_s, r.default.throughput_per_s))
                        .collect();
                    Some(((*single).clone(), paired_ratio(&pairs, SEED)?))
                })
                .collect();
            Some(StrategyFigures {
                strategy: strategy.clone(),
                mechanism: *mechanism,
                base_slice_ms: *base_slice_ms,
                turns: turns.clone(),
                throughput,
                p99,
                throughput_over_single,
            })
        })
        .collect()
}

/// Mechanism, then the paper's order of strategies, then the timeslice.
fn order(subject: &Subject) -> (bool, usize, u64) {
    let Subject::Strategy { strategy, mechanism, base_slice_ms, .. } = subject else {
        return (false, 0, 0);
    };
    let place = metasched_strategy::Strategy::ALL
        .iter()
        .position(|s| s.name() == strategy)
        .unwrap_or(usize::MAX);
    (*mechanism == Mechanism::Lane, place, *base_slice_ms)
}
