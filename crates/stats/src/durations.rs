//! Histograms of durations that are fine enough to form ratios of their percentiles.

use std::collections::BTreeMap;

use crate::sample::nearest_rank;

/// Buckets for each power of two. A value that is read back is off by half a bucket, under
/// one percent, where [`crate::WaitHistogram`]'s quarters would hide a change of ten.
const STEPS: u64 = 64;

/// Counts of durations in nanoseconds. Only buckets that hold something take memory, of
/// which there can be no more than 3,776, however many durations there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    buckets: BTreeMap<u32, u64>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl DurationHistogram {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        *self.buckets.entry(bucket(ns)).or_default() += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many durations there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together, ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest, ns, absent where there was none.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The `q`-quantile by nearest rank, ns: off by 1/128 at most. Absent where nothing was
    /// counted or `q` is outside 0..=1.
    pub fn percentile_ns(&self, q: f64) -> Option<u64> {
        if self.count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = nearest_rank(self.count, q);
        let mut below = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, n)| {
            below += **n;
            below >= rank
        })?;
        let (from, width) = bounds(*bucket);
        Some((from + width / 2).min(self.max_ns))
    }
}

fn bucket(ns: u64) -> u32 {
    let octave = (ns | STEPS).ilog2() - STEPS.ilog2();
    octave * STEPS as u32 + (ns >> octave) as u32
}

/// The least value of a bucket, and how many values it holds.
fn bounds(bucket: u32) -> (u64, u64) {
    let octave = (bucket / STEPS as u32).saturating_sub(1);
    (u64::from(bucket - octave * STEPS as u32) << octave, 1 << octave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_its_bucket_and_no_bucket_is_wider_than_a_64th() {
        let some = (0..300).chain((8..64).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1]));
        for ns in some.chain([u64::MAX]) {
            let (from, width) = bounds(bucket(ns));
            assert!(from <= ns && ns - from < width, "{ns}: {from} and {width} more");
            assert!(width == 1 || width * STEPS <= from, "{ns}: {width}");
        }
        assert_eq!(bucket(u64::MAX), 3775);
    }

    #[test]
    fn percentiles_are_within_a_percent_of_the_exact_ones() {
        let mut histogram = DurationHistogram::default();
        let values: Vec<u64> = (1..=1000).map(|i| i * i * 37).collect();
        values.iter().for_each(|v| histogram.record(*v));
        for percent in [1, 10, 50, 90, 99, 100] {
            let exact = values[percent * 10 - 1] as f64;
            let found = histogram.percentile_ns(percent as f64 / 100.0).unwrap() as f64;
            assert!((found / exact - 1.0).abs() < 0.01, "p{percent}: {found}, not {exact}");
        }
        assert_eq!(histogram.max_ns(), values.last().copied());
        assert_eq!(DurationHistogram::default().percentile_ns(0.5), None);
        assert_eq!(DurationHistogram::default().max_ns(), None);
    }

    #[test]
    fn merging_is_counting_all_in_one() {
        let (mut a, mut b, mut all) = <(DurationHistogram, _, DurationHistogram)>::default();
        for ns in [5, 70, 1_000_000] {
            a.record(ns);
            all.record(ns);
        }
        for ns in [70, 3_000_000_000] {
            DurationHistogram::record(&mut b, ns);
            all.record(ns);
        }
        a.merge(&b);
        assert_eq!(a, all);
        assert_eq!((a.count(), a.sum_ns()), (5, 3_001_000_145));
    }
}
