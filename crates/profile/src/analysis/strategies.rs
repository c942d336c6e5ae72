//! Metaschedulers on the whole application, by turns and by lanes.

use std::collections::BTreeMap;

use metasched_base::Result;
use metasched_experiment::{
    CandidateRounds, Contender, Over, Ratio, Share, Strategy, over, ratios,
};
use serde::Serialize;

use super::Rounds;
use crate::{BASELINE, Measurement, Query, RunKind, Series, Store, Subject, TurnShare};

/// A metascheduler, at one base timeslice where there are turns.
#[derive(Clone, Debug, Serialize)]
pub struct StrategyFigures {
    /// What was in force.
    pub contender: Contender,
    /// Its rounds beside the default scheduler.
    #[serde(skip)]
    pub rounds: CandidateRounds,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
    /// Against what else was measured in the same rounds, by its label: each single
    /// scheduler and, for lanes, the turns with the most throughput.
    pub over: BTreeMap<String, Over>,
}

/// What the subject is, but for versions and cgroups; absent for a strategy that there is not.
fn contender(subject: &Subject) -> Option<Contender> {
    let shares = |turns: &[TurnShare]| {
        let of = |turn: &TurnShare| Share {
            parts: Share::parts_of(&turn.app),
            scheduler: turn.scheduler.clone(),
            weight: turn.weight,
        };
        turns.iter().map(of).collect()
    };
    let strategy = |name: &str| name.parse::<Strategy>().ok();
    Some(match subject {
        Subject::Scheduler { .. } => Contender::scheduler(subject.to_string()),
        Subject::Strategy { strategy: name, mechanism, base_slice_ms, turns } => Contender::Turns {
            strategy: strategy(name)?,
            mechanism: mechanism.to_string(),
            base_slice_ms: *base_slice_ms,
            turns: shares(turns),
        },
        Subject::Lanes { strategy: name, default: (default, _), lanes } => Contender::Lanes {
            strategy: match name {
                Some(name) => Some(strategy(name)?),
                None => None,
            },
            default: default.clone(),
            lanes: shares(lanes),
        },
    })
}

/// Reads the newest of the series (they come newest first) in which
/// metaschedulers were measured, with the single schedulers of their rounds.
pub(super) fn read<'a>(
    store: &Store,
    series: impl Iterator<Item = &'a &'a Series>,
) -> Result<(Vec<StrategyFigures>, Vec<CandidateRounds>)> {
    for s in series {
        let (figures, singles) = of(&store.measurements(&Query::of_series(s.id))?);
        if !figures.is_empty() {
            return Ok((figures, singles));
        }
    }
    Ok(Default::default())
}

fn of(all: &[Measurement]) -> (Vec<StrategyFigures>, Vec<CandidateRounds>) {
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
    let mut singles: Vec<CandidateRounds> = Vec::new();
    let mut strategies: Vec<(Contender, CandidateRounds)> = Vec::new();
    for (label, subject) in newest.iter().filter(|(_, subject)| !subject.is_baseline()) {
        let measured = CandidateRounds::new(label, rounds.pairs(label, BASELINE));
        match contender(subject) {
            Some(Contender::Scheduler { .. }) => singles.push(measured),
            Some(contender) if !measured.rounds.is_empty() => {
                strategies.push((contender, measured));
            }
            _ => {}
        }
    }
    strategies.sort_by_key(|(contender, _)| order(contender));
    let measured: Vec<CandidateRounds> = strategies.iter().map(|(_, m)| m.clone()).collect();
    let rated: Vec<(Ratio, Ratio)> = ratios(&measured);
    let turns =
        strategies.iter().zip(&rated).filter_map(|((contender, rounds), (throughput, _))| {
            contender.mechanism()?;
            Some((rounds, throughput.estimate?))
        });
    let best_turns = turns.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rounds, _)| rounds.clone());
    let strategies = strategies
        .into_iter()
        .zip(rated)
        .map(|((contender, rounds), (throughput, p99))| {
            let turns = best_turns.iter().filter(|_| contender.mechanism().is_none());
            let over = singles
                .iter()
                .chain(turns)
                .filter_map(|other| Some((other.name.clone(), over(&rounds, other)?)))
                .collect();
            StrategyFigures { contender, rounds, throughput, p99, over }
        })
        .collect();
    (strategies, singles)
}

/// Turns by swap, turns by lane, lanes; then the paper's order of strategies, then the
/// timeslice.
fn order(contender: &Contender) -> (u8, Option<Strategy>, Option<u64>) {
    let way = match contender.mechanism() {
        Some("swap") => 0,
        Some(_) => 1,
        None => 2,
    };
    (way, contender.strategy(), contender.base_slice_ms())
}
