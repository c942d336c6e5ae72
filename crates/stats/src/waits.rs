//! Histograms of run-queue waits with four buckets for each power of two, as our BPF
//! programs keep them.

use metasched_abi::{WAIT_BUCKETS as BUCKETS, WAIT_STEPS as STEPS};
use serde::{Deserialize, Serialize};

/// Counts of waits; durations in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitHistogram {
    /// How many waits there were in each of the [`WaitHistogram::bounds_ns`].
    pub buckets: Vec<u64>,
    /// The sum of them all.
    pub sum_ns: u64,
    /// No wait was longer.
    pub max_ns: u64,
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum_ns: 0, max_ns: 0 }
    }
}

/// What a BPF program keeps for one CPU.
impl From<&metasched_abi::WaitHistogram> for WaitHistogram {
    fn from(kept: &metasched_abi::WaitHistogram) -> Self {
        Self { buckets: kept.buckets.to_vec(), sum_ns: kept.sum_ns, max_ns: kept.max_ns }
    }
}

impl WaitHistogram {
    /// The waits that a bucket counts: from the first bound on, below the second. The last
    /// bucket has all that are longer as well.
    pub fn bounds_ns(bucket: usize) -> (u64, u64) {
        if bucket < STEPS {
            return (bucket as u64, bucket as u64 + 1);
        }
        let width = 1 << (bucket / STEPS - 1);
        let first = (STEPS + bucket % STEPS) as u64 * width;
        (first, first + width)
    }

    /// How many waits there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their mean, absent where there was none.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count())
    }

    /// The `q`-quantile, absent where there was no wait or `q` is outside 0..=1.
    ///
    /// Only its bucket is known, whose middle this is: off by an eighth at most.
    pub fn percentile_ns(&self, q: f64) -> Option<u64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        let bucket = self.buckets.iter().position(|n| {
            below += n;
            below >= rank
        })?;
        let (from, to) = Self::bounds_ns(bucket);
        Some((from + (to - from) / 2).min(self.max_ns))
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// What was counted after `earlier`, which is the same histogram some time ago. Its
    /// longest wait is known by its bucket only, so `max_ns` is up to a quarter too high.
    pub fn since(&self, earlier: &Self) -> Self {
        let then = earlier.buckets.iter().chain(std::iter::repeat(&0));
        let buckets: Vec<u64> =
            self.buckets.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect();
        let last = buckets.iter().rposition(|n| *n > 0);
        Self {
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: match last {
                None => 0,
                // A new record is known as it is.
                Some(_) if self.max_ns > earlier.max_ns => self.max_ns,
                Some(last) => Self::bounds_ns(last).1.min(self.max_ns),
            },
            buckets,
        }
    }

    /// The counts by powers of two: element i those of 2^i up to 2^(i+1) ns, and element 0
    /// those of 0 ns too.
    pub fn octaves(&self) -> Vec<u64> {
        let mut octaves = vec![0; u64::BITS as usize];
        for (bucket, count) in self.buckets.iter().enumerate() {
            octaves[Self::bounds_ns(bucket).0.max(1).ilog2() as usize] += count;
        }
        octaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As wait_bucket() of bpf/wait_histogram.bpf.h; the simulator's tests compare that
    /// one with the bounds.
    fn of(waits: &[u64]) -> WaitHistogram {
        let mut h = WaitHistogram::default();
        for wait in waits {
            let bucket = (0..BUCKETS).rfind(|b| WaitHistogram::bounds_ns(*b).0 <= *wait).unwrap();
            h.buckets[bucket] += 1;
            h.sum_ns += wait;
            h.max_ns = h.max_ns.max(*wait);
        }
        h
    }

    #[test]
    fn buckets_lie_side_by_side_and_none_is_wider_than_a_quarter() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (from, to) = WaitHistogram::bounds_ns(bucket);
            assert_eq!(from, next, "bucket {bucket}");
            assert!(to > from && (to - from) * 4 <= from.max(4), "bucket {bucket}: {from} to {to}");
            next = to;
        }
        assert_eq!(next, 1 << 36);
    }

    #[test]
    fn percentiles_are_off_by_an_eighth_at_most() {
        let waits: Vec<u64> = (1..=1000).map(|i| i * i * 37).collect();
        let h = of(&waits);
        assert_eq!(h.count(), 1000);
        for percent in [1, 10, 50, 90, 99, 100] {
            let exact = waits[percent * 10 - 1] as f64;
            let found = h.percentile_ns(percent as f64 / 100.0).unwrap() as f64;
            assert!((found / exact - 1.0).abs() <= 0.125, "p{percent}: {found}, not {exact}");
        }
        assert_eq!(h.percentile_ns(1.5), None);
        assert_eq!(WaitHistogram::default().percentile_ns(0.5), None);
        assert_eq!(WaitHistogram::default().mean_ns(), None);
    }

    #[test]
    fn what_came_since_is_the_difference_and_the_longest_is_known_by_its_bucket() {
        let before = of(&[100, 9_000_000]);
        let mut after = before.clone();
        after.merge(&of(&[100, 1000]));
        let since = after.since(&before);
        assert_eq!((since.count(), since.sum_ns), (2, 1100));
        assert!((1000..=1250).contains(&since.max_ns), "{since:?}");
        after.merge(&of(&[10_000_000]));
        assert_eq!(after.since(&before).max_ns, 10_000_000);
        assert_eq!(after.since(&after.clone()).max_ns, 0);
    }

    #[test]
    fn four_buckets_make_a_power_of_two() {
        let octaves = of(&[0, 1, 2, 3, 4, 7, 1024, 2047, 2048]).octaves();
        assert_eq!(octaves[..3], [2, 2, 2]);
        assert_eq!(octaves[10..12], [2, 1]);
        assert_eq!(octaves.len(), 64);
    }

    #[test]
    fn what_a_program_keeps_are_its_buckets_the_sum_and_the_longest() {
        let mut kept =
            metasched_abi::WaitHistogram { sum_ns: 50, max_ns: 13, ..Default::default() };
        kept.buckets[10] = 4;
        let h = WaitHistogram::from(&kept);
        assert_eq!((h.buckets[10], h.sum_ns, h.max_ns), (4, 50, 13));
        assert_eq!(h.buckets.len(), BUCKETS);
    }
}
