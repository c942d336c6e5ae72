//! Measurements side by side: what was measured in one round, by subject.

use std::collections::BTreeMap;

use metasched_experiment::Round;

use crate::measurement::round_number;
use crate::{LoadFigures, Measurement, RunKind};

/// The measured runs of a series, by round and subject.
#[derive(Debug, Default)]
pub(crate) struct Rounds(BTreeMap<(i64, u32), BTreeMap<String, LoadFigures>>);

impl Rounds {
    /// Sorts the measured runs among `measurements` into rounds; `key` names the
    /// subject, or leaves the run out.
    pub fn new(measurements: &[Measurement], key: impl Fn(&Measurement) -> Option<String>) -> Self {
        let mut rounds = Self::default();
        for m in measurements.iter().filter(|m| m.kind == RunKind::Measured) {
            if let Some(key) = key(m) {
                let round = rounds.0.entry((m.session, m.round)).or_default();
                round.insert(key, m.figures.clone());
            }
        }
        rounds
    }

    /// The rounds in which both were measured.
    pub fn pairs(&self, candidate: &str, default: &str) -> Vec<Round> {
        self.0
            .iter()
            .filter_map(|((session, number), round)| {
                let (candidate, default) = (round.get(candidate)?, round.get(default)?);
                let number = round_number(*session, *number);
                Some(Round { number, candidate: candidate.sample(), default: default.sample() })
            })
            .collect()
    }

    /// A figure of both, in the rounds in which both have it.
    pub fn figures(
        &self,
        candidate: &str,
        default: &str,
        figure: impl Fn(&LoadFigures) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let rounds = self.0.values();
        rounds
            .filter_map(|round| {
                Some((figure(round.get(candidate)?)?, figure(round.get(default)?)?))
            })
            .collect()
    }

    /// All runs of a subject, in the order of their rounds.
    pub fn of(&self, subject: &str) -> Vec<&LoadFigures> {
        self.0.values().filter_map(|round| round.get(subject)).collect()
    }
}
