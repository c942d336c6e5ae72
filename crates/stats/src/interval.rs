//! A figure and how far it can be trusted.

use serde::{Deserialize, Serialize};

/// The confidence of every interval that is not said to have another.
pub const CONFIDENCE: f64 = 0.95;

/// A figure with the interval that holds its true value with 95 % confidence
/// (or with the confidence that was asked for).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The best single guess.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// How many pairs it rests on.
    pub n: usize,
}

impl Interval {
    /// Whether the interval holds `value`.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Half the interval's length over the estimate: 0.02 reads "plus or minus 2 %".
    pub fn relative_half_width(&self) -> f64 {
        (self.high - self.low) / (2.0 * self.estimate)
    }

    /// The geometric mean of independent ratios; absent for none, or where one is not positive. Its
    /// logarithm is the mean of theirs, so that the variances of these add up: each bound is as far
    /// from the estimate as the root of the sum of their squared distances, over their number.
    pub fn geometric_mean(ratios: &[Interval]) -> Option<Self> {
        let positive = |r: &Interval| [r.low, r.estimate, r.high].iter().all(|v| *v > 0.0);
        if ratios.is_empty() || !ratios.iter().all(positive) {
            return None;
        }
        let n = ratios.len() as f64;
        let middle = ratios.iter().map(|r| r.estimate.ln()).sum::<f64>() / n;
        let away = |bound: fn(&Interval) -> f64| {
            let squared = |r: &Interval| (bound(r) / r.estimate).ln().powi(2);
            ratios.iter().map(squared).sum::<f64>().sqrt() / n
        };
        Some(Self {
            estimate: middle.exp(),
            low: (middle - away(|r| r.low)).exp(),
            high: (middle + away(|r| r.high)).exp(),
            n: ratios.iter().map(|r| r.n).min().unwrap_or(0),
        })
    }

    /// The interval of the inverse figure: one over this one.
    pub fn inverse(&self) -> Self {
        Self {
            estimate: 1.0 / self.estimate,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
            n: self.n,
        }
    }
}
