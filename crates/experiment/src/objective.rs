//! What is measured of a run, and what a scheduler is to be best at.

use std::fmt;
use std::str::FromStr;

use metasched_stats::{Interval, geometric_mean};
use serde::{Deserialize, Serialize};

use crate::StrategyError;

/// What the preferred scheduler is to be best at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Most throughput, as in the paper: what a batch job is judged by.
    #[default]
    Throughput,
    /// Lowest 99th percentile of latency.
    P99,
    /// Lowest 99th percentile of latency, among schedulers under which no fewer requests are
    /// served, or fewer by at most [`WORTHWHILE_GAIN`](crate::WORTHWHILE_GAIN): what answers
    /// requests is judged by that.
    Service,
    /// Throughput and latency: the throughput's ratio to the power of the weight, times the
    /// inverse of the latency's to the power of the rest.
    Mix {
        /// The weight of throughput, between 0 and 1.
        throughput_weight: f64,
    },
    /// Least waiting for a CPU for the same work.
    Wait,
    /// Of a whole: each part by what it is for ([`Sample::of_parts`]).
    Parts,
}

impl Objective {
    /// What something is judged by if nobody says it: its latency if it answers requests.
    pub fn by_default(answers_requests: bool) -> Self {
        if answers_requests { Objective::Service } else { Objective::Throughput }
    }

    /// How good a run was: only the ratio of two means something, and more is better. Not a
    /// positive number where the run has no such figure.
    pub fn score(self, sample: Sample) -> f64 {
        match self {
            Objective::Throughput => sample.throughput_per_s,
            Objective::P99 | Objective::Service => sample.p99_us.recip(),
            Objective::Mix { throughput_weight: w } => {
                sample.throughput_per_s.powf(w) * sample.p99_us.powf(w - 1.0)
            }
            Objective::Wait => sample.wait_us.recip(),
            Objective::Parts => sample.merit,
        }
    }

    /// A pair's scores as (candidate, default).
    pub(crate) fn scores(self, round: &Round) -> (f64, f64) {
        (self.score(round.candidate), self.score(round.default))
    }

    /// Whether a candidate that serves fewer requests is none, however short its latencies.
    pub(crate) fn is_of_latency(self) -> bool {
        matches!(self, Objective::Service | Objective::Parts)
    }

    /// A ratio of scores in words: `throughput +5.0 % (+3.1 to +6.9)`.
    pub(crate) fn phrase(self, score: Interval) -> String {
        let (what, ratio) = match self {
            Objective::Throughput => ("throughput", score),
            Objective::P99 | Objective::Service => ("p99 latency", score.inverse()),
            Objective::Mix { .. } => ("throughput and p99 latency together", score),
            Objective::Wait => ("wait for a CPU", score.inverse()),
            Objective::Parts => ("the parts together, each by what it is for,", score),
        };
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        format!(
            "{what} {:+.1} % ({:+.1} to {:+.1})",
            percent(ratio.estimate),
            percent(ratio.low),
            percent(ratio.high)
        )
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objective::Throughput => f.pad("throughput"),
            Objective::P99 => f.pad("p99"),
            Objective::Service => f.pad("service"),
            Objective::Wait => f.pad("wait"),
            Objective::Parts => f.pad("parts"),
            Objective::Mix { throughput_weight } => write!(f, "mix:{throughput_weight}"),
        }
    }
}

impl FromStr for Objective {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || StrategyError::UnknownName {
            what: "objective",
            given: text.to_owned(),
            known: [
                "throughput",
                "p99",
                "service",
                "wait",
                "mix:W with W between 0 (p99 alone) and 1",
            ]
            .map(String::from)
            .to_vec(),
        };
        match text {
            "throughput" => Ok(Objective::Throughput),
            "p99" => Ok(Objective::P99),
            "service" => Ok(Objective::Service),
            "wait" => Ok(Objective::Wait),
            _ => {
                let weight = text.strip_prefix("mix:").ok_or_else(unknown)?;
                let throughput_weight: f64 = weight.parse().map_err(|_| unknown())?;
                if !(0.0..=1.0).contains(&throughput_weight) {
                    return Err(unknown());
                }
                Ok(Objective::Mix { throughput_weight })
            }
        }
    }
}

/// The figures of one run that a choice looks at. A figure that the run does not have is not
/// a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Throughput, in units per second.
    pub throughput_per_s: f64,
    /// 99th percentile of latency, in microseconds.
    pub p99_us: f64,
    /// Requests that were served in a second; the throughput, of what is one part.
    pub served_per_s: f64,
    /// How long threads waited for a CPU for each unit of throughput, in microseconds.
    pub wait_us: f64,
    /// How good it was for each part by what that is for ([`Sample::of_parts`]); of a whole only.
    pub merit: f64,
}

impl Sample {
    /// Of what is one part.
    pub fn new(throughput_per_s: f64, p99_us: f64) -> Self {
        let (wait_us, merit) = (f64::NAN, f64::NAN);
        Self { throughput_per_s, p99_us, served_per_s: throughput_per_s, wait_us, merit }
    }

    /// Of a whole, by the figures of its parts and what each is for: the geometric means of
    /// their throughputs, of the latencies of the services among them, of what those serve, and
    /// of their scores. Where nothing is a service, all count as if they were.
    pub fn of_parts(parts: &[(Objective, Sample)]) -> Self {
        let mean = |of: &dyn Fn(&(Objective, Sample)) -> Option<f64>| {
            let values: Vec<f64> = parts.iter().filter_map(of).collect();
            geometric_mean(&values).unwrap_or(f64::NAN)
        };
        let any = parts.iter().any(|(objective, _)| *objective != Objective::Throughput);
        let serves = |objective: &Objective| !any || *objective != Objective::Throughput;
        Self {
            throughput_per_s: mean(&|(_, s)| Some(s.throughput_per_s)),
            p99_us: mean(&|(objective, s)| serves(objective).then_some(s.p99_us)),
            served_per_s: mean(&|(objective, s)| serves(objective).then_some(s.throughput_per_s)),
            wait_us: mean(&|(_, s)| Some(s.wait_us)),
            merit: mean(&|(objective, s)| Some(objective.score(*s))),
        }
    }
}

/// A candidate and the default scheduler, measured side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Which one: what has the same number was measured side by side.
    pub number: u64,
    /// Under the candidate.
    pub candidate: Sample,
    /// Under the default scheduler.
    pub default: Sample,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_as_they_are_written() {
        for text in ["throughput", "p99", "service", "wait", "mix:0.25"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        for wrong in ["", "parts", "mix:", "mix:1.5", "P99"] {
            let e = wrong.parse::<Objective>().unwrap_err();
            assert!(e.to_string().contains("mix:W"), "{wrong}: {e}");
        }
    }

    #[test]
    fn a_whole_is_as_good_as_the_geometric_mean_of_its_parts_by_what_each_is_for() {
        let web = (Objective::Service, Sample::new(100.0, 50.0));
        let batch = (Objective::Throughput, Sample::new(8.0, f64::NAN));
        let whole = Sample::of_parts(&[web, batch]);
        assert!((whole.merit - (8.0_f64 / 50.0).sqrt()).abs() < 1e-12);
        assert!((whole.p99_us - 50.0).abs() < 1e-9, "the batch has none");
        assert!((whole.served_per_s - 100.0).abs() < 1e-9, "the batch serves nobody");
        assert!((whole.throughput_per_s - 800.0_f64.sqrt()).abs() < 1e-9);
        assert!(Sample::of_parts(&[(Objective::P99, batch.1), web]).merit.is_nan());
    }
}
