//! Metaschedulers on the whole application, by turns and by lanes.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::Result;
use metasched_control::Mechanism;
use metasched_profile::{BASELINE, Measurement, Query, RunKind, Series, Store, Subject, TurnShare};
use metasched_stats::{Interval, paired_ratio};
use metasched_strategy::{CandidateRounds, Round, Sample};
use serde::Serialize;

use super::form::{Ratio, ratios};
use super::{Rounds, SEED};

/// How the schedulers of a strategy share the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Mode {
    /// One after the other, each for the whole machine.
    Turns {
        /// How turns were changed.
        mechanism: Mechanism,
        /// The base timeslice, in milliseconds.
        base_slice_ms: u64,
    },
    /// All at the same time, each application on a lane of its own.
    Lanes,
}

/// A metascheduler, at one base timeslice where there are turns.
#[derive(Clone, Debug, Serialize)]
pub struct StrategyFigures {
    /// The strategy's name.
    pub strategy: String,
    /// How its schedulers share the machine.
    #[serde(flatten)]
    pub mode: Mode,
    /// The turns or lanes.
    pub turns: Vec<TurnShare>,
    /// The policy of everything that has no lane; absent for turns.
    pub default: Option<String>,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
    /// Against what else was measured in the same rounds, by its label: each single
    /// scheduler and, for lanes, the turns with the most throughput.
    pub over: BTreeMap<String, Over>,
}

/// Ratios to another subject, by runs of the same rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Over {
    /// Throughput: more is better.
    pub throughput: Interval,
    /// 99th percentile of latency: less is better; absent where a run had none.
    pub p99: Option<Interval>,
}

impl Mode {
    /// Of a subject that is no single scheduler.
    fn of(subject: &Subject) -> Option<(Self, &str, &[TurnShare])> {
        match subject {
            Subject::Scheduler { .. } => None,
            Subject::Strategy { strategy, mechanism, base_slice_ms, turns } => {
                let (mechanism, base_slice_ms) = (*mechanism, *base_slice_ms);
                Some((Self::Turns { mechanism, base_slice_ms }, strategy, turns))
            }
            Subject::Lanes { strategy, lanes, .. } => Some((Self::Lanes, strategy, lanes)),
        }
    }

    /// The base timeslice, where there is one.
    pub fn base_slice_ms(self) -> Option<u64> {
        match self {
            Self::Turns { base_slice_ms, .. } => Some(base_slice_ms),
            Self::Lanes => None,
        }
    }

    /// How turns were changed, where there are turns.
    pub fn mechanism(self) -> Option<Mechanism> {
        match self {
            Self::Turns { mechanism, .. } => Some(mechanism),
            Self::Lanes => None,
        }
    }

    /// Turns by swap, turns by lane, lanes; of each, by timeslice.
    fn order(self) -> (u8, u64) {
        match self {
            Self::Turns { mechanism: Mechanism::Swap, base_slice_ms } => (0, base_slice_ms),
            Self::Turns { mechanism: Mechanism::Lane, base_slice_ms } => (1, base_slice_ms),
            Self::Lanes => (2, 0),
        }
    }
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
        .filter(|(_, s)| Mode::of(s).is_some())
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
    let rated: Vec<(Ratio, Ratio)> = ratios(&measured);
    let singles: Vec<&String> = newest
        .iter()
        .filter(|(_, s)| matches!(s, Subject::Scheduler { .. }) && !s.is_baseline())
        .map(|(label, _)| label)
        .collect();
    let turns = strategies.iter().zip(&rated).filter_map(|((label, subject), (throughput, _))| {
        let taken = matches!(subject, Subject::Strategy { .. });
        Some((label, throughput.estimate.filter(|_| taken)?))
    });
    let best_turns = turns.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(label, _)| label);
    strategies
        .iter()
        .zip(measured.iter().zip(&rated))
        .filter(|(_, (rounds, _))| !rounds.rounds.is_empty())
        .filter_map(|((label, subject), (_, (throughput, p99)))| {
            let (mode, strategy, turns) = Mode::of(subject)?;
            let others = best_turns.filter(|_| mode == Mode::Lanes);
            let default = match subject {
                Subject::Lanes { default: (policy, _), .. } => Some(policy.clone()),
                _ => None,
            };
            Some(StrategyFigures {
                strategy: strategy.to_owned(),
                mode,
                turns: turns.to_vec(),
                default,
                throughput: *throughput,
                p99: *p99,
                over: singles
                    .iter()
                    .copied()
                    .chain(others)
                    .filter_map(|other| Some((other.clone(), over(&rounds.pairs(label, other))?)))
                    .collect(),
            })
        })
        .collect()
}

/// The ratios of pairs of runs; `None` where there are too few.
fn over(pairs: &[Round]) -> Option<Over> {
    let ratio = |of: fn(&Sample) -> f64| {
        let pairs: Vec<(f64, f64)> =
            pairs.iter().map(|r| (of(&r.candidate), of(&r.default))).collect();
        paired_ratio(&pairs, SEED)
    };
    Some(Over { throughput: ratio(|s| s.throughput_per_s)?, p99: ratio(|s| s.p99_us) })
}

/// How turns are changed or lanes, then the paper's order of strategies, then the
/// timeslice.
fn order(subject: &Subject) -> (u8, usize, u64) {
    let Some((mode, strategy, _)) = Mode::of(subject) else { return (0, 0, 0) };
    let place = metasched_strategy::Strategy::ALL
        .iter()
        .position(|s| s.name() == strategy)
        .unwrap_or(usize::MAX);
    let (kind, base_slice_ms) = mode.order();
    (kind, place, base_slice_ms)
}
