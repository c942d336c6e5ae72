//! Histograms of run-queue waits with four buckets for each power of two, as our BPF
//! programs keep them.

use metasched_abi::{WAIT_BUCKETS as BUCKETS, WAIT_STEPS as STEPS};
use metasched_base::{Figure, Unit};
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

/// How long tasks ran each time that they got a CPU, in histograms as of waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLengths {
    /// Runs at whose end the task slept.
    pub slept: WaitHistogram,
    /// Those at whose end it could have gone on: its slice was over, or it was preempted.
    pub stopped: WaitHistogram,
}

impl RunLengths {
    /// How many runs there were.
    pub fn count(&self) -> u64 {
        self.slept.count() + self.stopped.count()
    }

    /// The part of the runs at whose end the task slept; absent where there was none.
    pub fn slept_share(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.slept.count() as f64 / self.count() as f64)
    }

    /// The part of the runs that were shorter than that; absent where there was none. Within a
    /// bucket runs are taken as spread evenly.
    pub fn shorter_than(&self, ns: u64) -> Option<f64> {
        let below = self.slept.below(ns) + self.stopped.below(ns);
        (self.count() > 0).then(|| below / self.count() as f64)
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.slept.merge(&other.slept);
        self.stopped.merge(&other.stopped);
    }
}

/// What a BPF program keeps for one CPU.
impl From<&metasched_abi::WaitHistogram> for WaitHistogram {
    fn from(kept: &metasched_abi::WaitHistogram) -> Self {
        Self { buckets: kept.buckets.to_vec(), sum_ns: kept.sum_ns, max_ns: kept.max_ns }
    }
}

/// A percentile of the waits.
macro_rules! percentile {
    ($name:literal, $title:literal, $q:literal) => {
        Figure {
            name: $name,
            title: $title,
            unit: Unit::Nanoseconds,
            help: concat!("this part of the waits for a CPU were no longer: ", stringify!($q)),
            of: |waits| waits.percentile_ns($q).map(|ns| ns as f64),
        }
    };
}

impl WaitHistogram {
    /// What is told of waits, in tables and documents.
    pub const FIGURES: &[Figure<Self>] = &[
        Figure {
            name: "count",
            title: "WAITS",
            unit: Unit::Count,
            help: "how often a task waited for a CPU",
            of: |waits| Some(waits.count() as f64),
        },
        Figure {
            name: "sum_ns",
            title: "ALL",
            unit: Unit::Nanoseconds,
            help: "how long all waits were together",
            of: |waits| Some(waits.sum_ns as f64),
        },
        Figure {
            name: "mean_ns",
            title: "MEAN",
            unit: Unit::Nanoseconds,
            help: "the mean wait for a CPU",
            of: |waits| waits.mean_ns().map(|ns| ns as f64),
        },
        percentile!("p50_ns", "P50", 0.5),
        percentile!("p90_ns", "P90", 0.9),
        percentile!("p99_ns", "P99", 0.99),
        percentile!("p999_ns", "P99.9", 0.999),
        Figure {
            name: "max_ns",
            title: "LONGEST",
            unit: Unit::Nanoseconds,
            help: "the longest wait for a CPU",
            of: |waits| (waits.count() > 0).then_some(waits.max_ns as f64),
        },
    ];

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

    /// Counts a wait, where a BPF program would: see wait_bucket() of bpf/wait_histogram.bpf.h.
    pub fn add(&mut self, wait_ns: u64) {
        let bucket = match wait_ns {
            few if few < STEPS as u64 => few as usize,
            many => {
                let log2 = many.ilog2() as usize;
                (log2 - 1) * STEPS + (many >> (log2 - 2)) as usize % STEPS
            }
        };
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.sum_ns += wait_ns;
        self.max_ns = self.max_ns.max(wait_ns);
    }

    /// About how many were shorter than that.
    fn below(&self, ns: u64) -> f64 {
        let part = |(bucket, count): (usize, &u64)| {
            let (from, to) = Self::bounds_ns(bucket);
            let within = ns.clamp(from, to) - from;
            *count as f64 * within as f64 / (to - from) as f64
        };
        self.buckets.iter().enumerate().map(part).sum()
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
    /// Only its bucket is known, in which the waits are taken as spread evenly: off by a
    /// quarter at most. So ratios of quantiles have no steps.
    pub fn percentile_ns(&self, q: f64) -> Option<u64> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        let (bucket, count) = self.buckets.iter().enumerate().find(|(_, n)| {
            below += **n;
            below >= rank
        })?;
        let (from, to) = Self::bounds_ns(bucket);
        // The first of n stands in the middle of the first of n parts.
        let place = (rank - (below - count)) as f64 - 0.5;
        let within = (to - from) as f64 * place / *count as f64;
        Some((from + within as u64).min(self.max_ns))
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

    fn of(waits: &[u64]) -> WaitHistogram {
        let mut h = WaitHistogram::default();
        waits.iter().for_each(|wait| h.add(*wait));
        h
    }

    /// The simulator's tests compare those of the BPF programs with the bounds.
    #[test]
    fn a_wait_is_counted_in_the_bucket_that_has_it() {
        for wait in (0..5000).chain([1 << 20, (1 << 36) - 1, 1 << 36, u64::MAX >> 1]) {
            let bucket = of(&[wait]).buckets.iter().position(|n| *n == 1).unwrap();
            let (from, to) = WaitHistogram::bounds_ns(bucket);
            let last = bucket == BUCKETS - 1;
            assert!(from <= wait && (wait < to || last), "{wait} in {bucket}: {from} to {to}");
        }
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
    fn percentiles_are_off_by_a_quarter_at_most_and_by_less_where_waits_are_spread() {
        let waits: Vec<u64> = (1..=1000).map(|i| i * i * 37).collect();
        let h = of(&waits);
        assert_eq!(h.count(), 1000);
        for percent in [1, 10, 50, 90, 99, 100] {
            let exact = waits[percent * 10 - 1] as f64;
            let found = h.percentile_ns(percent as f64 / 100.0).unwrap() as f64;
            assert!((found / exact - 1.0).abs() <= 0.05, "p{percent}: {found}, not {exact}");
        }
        // All at one end of their bucket, 1000 of 896 to 1024.
        let found = of(&[1000; 50]).percentile_ns(0.01).unwrap();
        assert!((896..1000).contains(&found), "{found}");
        assert_eq!(of(&[1000; 50]).percentile_ns(1.0), Some(1000));
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
