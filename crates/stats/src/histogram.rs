//! Latency histograms: recording, merging, percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::sample::nearest_rank;

/// The percentiles that every table shows, in the unit of what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many values there are.
    pub count: u64,
    /// Their arithmetic mean.
    pub mean: f64,
    /// Half of the values are no larger.
    pub p50: f64,
    /// 95 % of the values are no larger.
    pub p95: f64,
    /// 99 % of the values are no larger.
    pub p99: f64,
    /// 99.9 % of the values are no larger.
    pub p999: f64,
    /// The largest value.
    pub max: f64,
}

/// A histogram of latencies in microseconds that keeps three significant digits
/// over the whole range of values (High Dynamic Range histogram, Gil Tene), so
/// that histograms of several runs or processes add up without loss: percentiles
/// of a merged histogram are true percentiles, averages of percentiles are not.
///
/// A value that is read back is the largest that its bucket can hold, but never
/// larger than the largest that was recorded, which is kept exactly.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    max_us: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// Three significant digits: an error of at most 0.1 %, far below the noise
    /// of any run.
    const SIGNIFICANT_DIGITS: u8 = 3;

    /// 2^36 us is 19 hours. What takes longer is counted as that long; the bound
    /// keeps a histogram at about 200 KB however wrong a load tool's figures are.
    const MAX_US: u64 = 1 << 36;

    /// An empty histogram.
    pub fn new() -> Self {
        match Histogram::new_with_bounds(1, Self::MAX_US, Self::SIGNIFICANT_DIGITS) {
            Ok(buckets) => Self { buckets, max_us: 0 },
            Err(_) => unreachable!("the bounds and the precision are constants within range"),
        }
    }

    /// A histogram of `[value_us, count]` pairs, in any order.
    pub fn from_counts(counts: &[(u64, u64)]) -> Self {
        let mut histogram = Self::new();
        for &(value_us, count) in counts {
            histogram.add(value_us, count);
        }
        histogram
    }

    /// Counts one latency.
    pub fn record(&mut self, value_us: u64) {
        self.add(value_us, 1);
    }

    fn add(&mut self, value_us: u64, count: u64) {
        if count > 0 {
            let value_us = value_us.min(Self::MAX_US);
            self.buckets.saturating_record_n(value_us, count);
            self.max_us = self.max_us.max(value_us);
        }
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (value_us, count) in other.counts() {
            self.add(value_us, count);
        }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The `[value_us, count]` pairs that hold something, in ascending order.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.buckets.iter_recorded();
        recorded.map(|v| (v.value_iterated_to().min(self.max_us), v.count_at_value())).collect()
    }

    /// The usual percentiles, in microseconds; absent where nothing was counted.
    pub fn percentiles(&self) -> Option<Percentiles> {
        if self.buckets.is_empty() {
            return None;
        }
        let at = |q: f64| self.buckets.value_at_quantile(q).min(self.max_us) as f64;
        Some(Percentiles {
            count: self.buckets.len(),
            mean: self.buckets.mean().min(self.max_us as f64),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max_us as f64,
        })
    }
}

/// The `q`-quantile by nearest rank of values that come with counts, in any
/// order; absent where the counts add up to nothing or `q` is outside 0..=1.
pub fn weighted_percentile(counts: &[(u64, u64)], q: f64) -> Option<u64> {
    let total: u64 = counts.iter().map(|&(_, count)| count).sum();
    if total == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    let rank = nearest_rank(total, q);
    let mut seen = 0;
    sorted.iter().find_map(|&(value, count)| {
        seen += count;
        (seen >= rank).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= b * 0.001
    }

    #[test]
    fn percentiles_of_a_merged_histogram_are_those_of_all_values_together() {
        let mut fast = LatencyHistogram::new();
        let mut slow = LatencyHistogram::new();
        (0..990).for_each(|_| fast.record(100));
        (0..10).for_each(|i| slow.record(1_000_000 + i));
        fast.merge(&slow);
        let p = fast.percentiles().unwrap();
        assert_eq!(p.count, 1000);
        assert!(close(p.p50, 100.0) && close(p.p99, 100.0), "{p:?}");
        assert!(close(p.p999, 1_000_000.0) && close(p.max, 1_000_009.0), "{p:?}");
    }

    #[test]
    fn counts_survive_the_way_out_and_in_again() {
        let mut histogram = LatencyHistogram::new();
        for value in [1, 2, 2, 5_000, LatencyHistogram::MAX_US] {
            histogram.record(value);
        }
        let again = LatencyHistogram::from_counts(&histogram.counts());
        assert_eq!(again.counts(), histogram.counts());
        assert_eq!(again.count(), 5);
    }

    #[test]
    fn no_percentile_is_above_the_largest_value() {
        // Regression: the bucket of 448 657 reaches to 448 767, which then stood as
        // the p99.9 above the maximum.
        let mut histogram = LatencyHistogram::new();
        [1, 20_000, 448_657].iter().for_each(|v| histogram.record(*v));
        let p = histogram.percentiles().unwrap();
        assert_eq!((p.p999, p.max), (448_657.0, 448_657.0));
        assert_eq!(histogram.counts().last(), Some(&(448_657, 1)));
        assert_eq!(LatencyHistogram::from_counts(&histogram.counts()).percentiles(), Some(p));
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        assert_eq!(LatencyHistogram::new().percentiles(), None);
        assert_eq!(weighted_percentile(&[(5, 0)], 0.5), None);
    }

    #[test]
    fn weighted_percentiles_agree_with_the_values_written_out() {
        let counts = [(30, 1), (10, 7), (20, 2)];
        let all: Vec<f64> = [10.0; 7].into_iter().chain([20.0; 2]).chain([30.0]).collect();
        for q in [0.0, 0.1, 0.5, 0.7, 0.71, 0.9, 0.91, 1.0] {
            assert_eq!(
                weighted_percentile(&counts, q).map(|v| v as f64),
                crate::percentile(&all, q),
                "q = {q}"
            );
        }
    }
}
