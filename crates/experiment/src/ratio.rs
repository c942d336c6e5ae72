//! Figures against the default scheduler's, as tables show them.

use metasched_stats::Interval;
use serde::{Deserialize, Serialize};

use crate::{CandidateRounds, Objective, Verdict, assess};

/// A figure against the default scheduler's: 1.05 is five percent more of it,
/// which is better for throughput and worse for latency; the verdict knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratio {
    /// The best guess; absent if a run gave no positive figure.
    pub estimate: Option<f64>,
    /// With its 95 % interval; absent with fewer than two rounds.
    pub interval: Option<Interval>,
    /// Better, worse or neither beyond the noise, corrected for the number of
    /// candidates.
    pub verdict: Verdict,
}

/// The ratios of candidates by throughput and by 99th percentile of latency.
pub fn ratios(candidates: &[CandidateRounds]) -> Vec<(Ratio, Ratio)> {
    let throughput = assess(candidates, Objective::Throughput).into_iter();
    let p99 = assess(candidates, Objective::P99).into_iter();
    let ratio = |a: crate::Assessment| Ratio {
        estimate: a.score,
        interval: a.interval,
        verdict: a.verdict,
    };
    // The score is inverted for latency, so that more is better.
    throughput.zip(p99).map(|(t, p)| (ratio(t), ratio(p).inverse())).collect()
}

impl Ratio {
    /// The ratio of the inverse figure, with the same verdict.
    fn inverse(self) -> Self {
        Self {
            estimate: self.estimate.map(f64::recip),
            interval: self.interval.map(|i| i.inverse()),
            verdict: self.verdict,
        }
    }

    /// `+3.1 % (+1.0 to +5.2) better`; nothing after it where it is within the noise.
    pub fn text(&self) -> String {
        let mark = match self.verdict {
            Verdict::Better => " better",
            Verdict::Worse => " worse",
            Verdict::WithinNoise | Verdict::TooFewRounds => "",
        };
        match (self.interval, self.estimate) {
            (Some(interval), _) => format!("{}{mark}", change(interval)),
            (None, Some(estimate)) => format!("{} % (one round)", percent(estimate)),
            (None, None) => "not measured".to_owned(),
        }
    }
}

/// A ratio with its interval as a change: `+3.1 % (+1.0 to +5.2)`.
pub fn change(ratio: Interval) -> String {
    let Interval { estimate, low, high, .. } = ratio;
    format!("{} % ({} to {})", percent(estimate), percent(low), percent(high))
}

/// A ratio as a change in percent. Bounds of two or three noisy rounds run to
/// astronomical figures, which say no more than that they are large.
fn percent(ratio: f64) -> String {
    const LARGE: f64 = 1000.0;
    let percent = (ratio - 1.0) * 100.0;
    if percent > LARGE { format!("over +{LARGE:.0}") } else { format!("{percent:+.1}") }
}
