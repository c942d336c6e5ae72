//! Histograms with a bucket for each power of two, as BPF programs keep them.

use serde::{Deserialize, Serialize};

/// Counts of durations: bucket `i` counts those in `[2^i, 2^(i+1))` ns, bucket 0
/// those of 0 ns too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log2Histogram {
    /// The counts, by power of two.
    pub buckets: Vec<u64>,
}

impl Log2Histogram {
    /// A histogram of these counts.
    pub fn new(buckets: impl Into<Vec<u64>>) -> Self {
        Self { buckets: buckets.into() }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// The `q`-quantile in nanoseconds, absent where nothing was counted or `q`
    /// is outside 0..=1.
    ///
    /// Only the bucket is known. Inside it the durations are taken as spread
    /// evenly on the logarithmic scale, so the value is off by less than a
    /// factor of two, and quantiles of one histogram never cross.
    pub fn percentile_ns(&self, q: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let wanted = q * count as f64;
        let mut below = 0.0;
        let mut last = None;
        for (i, &n) in self.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            let n = n as f64;
            if below + n >= wanted {
                return Some((i as f64 + (wanted - below) / n).exp2());
            }
            below += n;
            last = Some((i as f64 + 1.0).exp2());
        }
        last
    }

    /// The first and the last bucket that hold something.
    pub fn range(&self) -> Option<(usize, usize)> {
        let first = self.buckets.iter().position(|n| *n > 0)?;
        let last = self.buckets.iter().rposition(|n| *n > 0)?;
        Some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_lies_in_the_bucket_that_holds_its_rank() {
        let mut buckets = vec![0; 21];
        buckets[10] = 90;
        buckets[20] = 10;
        let h = Log2Histogram::new(buckets);
        let p50 = h.percentile_ns(0.5).unwrap();
        let p99 = h.percentile_ns(0.99).unwrap();
        assert!((1024.0..2048.0).contains(&p50), "{p50}");
        assert!((1_048_576.0..2_097_152.0).contains(&p99), "{p99}");
        assert_eq!(h.percentile_ns(1.0), Some(2_097_152.0));
    }

    #[test]
    fn percentiles_never_cross() {
        let h = Log2Histogram::new([3, 0, 5, 1, 0, 9, 2]);
        let values: Vec<f64> =
            (0..=100).map(|q| h.percentile_ns(f64::from(q) / 100.0).unwrap()).collect();
        assert!(values.windows(2).all(|w| w[0] <= w[1]), "{values:?}");
    }

    #[test]
    fn merging_histograms_of_different_length_adds_every_bucket() {
        let mut short = Log2Histogram::new([1, 2]);
        short.merge(&Log2Histogram::new([1, 1, 4]));
        assert_eq!(short.buckets, [2, 3, 4]);
        assert_eq!(short.range(), Some((0, 2)));
    }
}
