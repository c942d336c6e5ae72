//! Ratios of paired measurements, and how far they can be trusted.
//!
//! A pair is a candidate and the baseline measured in the same round, minutes
//! apart on the same boot, so that what drifts with the machine cancels out. The
//! figure is the geometric mean of the pairs' ratios: the mean of their
//! logarithms, under which "twice as fast" and "half as fast" weigh the same.
//!
//! # The interval
//!
//! Rounds are expensive, so there are few pairs: often four to eight. There the
//! usual bootstraps mislead. The percentile and BCa bootstraps can say nothing
//! outside the range of the sample and cover far less than they claim; the
//! studentised bootstrap covers, but resamples that draw nearly the same pair
//! every time make its intervals very long. We use the studentised bootstrap with
//! weights from a Beta(1/2, 3/2) distribution in place of resampled pairs (A. B.
//! Owen, "Better bootstrap t confidence intervals for the mean", 2025,
//! arXiv:2508.10083): the weights have the mean-to-deviation ratio and skewness
//! of the multinomial ones, so it is second-order accurate as they are, and being
//! continuous they never degenerate. On lognormal noise it covers within a
//! percent or two of what it claims from two pairs on, and its intervals are only
//! a few percent longer than Student's t, which needs the normality that this
//! does not assume (the tests below measure both).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::interval::{CONFIDENCE, Interval};

/// How many times the pairs are weighted anew. The bounds of a 95 % interval then
/// rest on 250 draws each, and those of one corrected for ten candidates on 25.
const REPLICATES: usize = 10_000;

/// The geometric mean of `candidate / baseline` over the pairs, without an interval.
///
/// Absent where there is no pair, or where one of them holds a value that is not
/// a positive number: leaving out just the pairs that failed would flatter the
/// candidate that fails most.
pub fn paired_estimate(pairs: &[(f64, f64)]) -> Option<f64> {
    let logs = log_ratios(pairs)?;
    crate::mean(&logs).map(f64::exp)
}

/// The ratio `candidate / baseline` with its 95 % interval; see the [module](self)
/// for the method. Absent where [`paired_estimate`] is, and for a single pair.
pub fn paired_ratio(pairs: &[(f64, f64)], seed: u64) -> Option<Interval> {
    paired_ratio_at(pairs, CONFIDENCE, seed)
}

/// As [`paired_ratio`], with a confidence (between 0 and 1) of the caller's.
pub fn paired_ratio_at(pairs: &[(f64, f64)], confidence: f64, seed: u64) -> Option<Interval> {
    PairedRatio::new(pairs, seed)?.interval(confidence)
}

/// How much of the ratio's distribution lies on either side of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tails {
    /// The chance of ratios at least this large if the true one were the value:
    /// small means that the candidate is above it.
    pub above: f64,
    /// The chance of ratios at least this small if the true one were the value:
    /// small means that the candidate is below it.
    pub below: f64,
}

/// The two one-sided p-values of the pairs against a true ratio of `null`. They
/// are never below half of one over the number of replicates. Absent where the
/// interval is.
pub fn paired_tails(pairs: &[(f64, f64)], null: f64, seed: u64) -> Option<Tails> {
    PairedRatio::new(pairs, seed)?.tails(null)
}

/// The chance (two-sided) of ratios at least this far from 1 if candidate and
/// baseline did not differ: one minus the confidence at which the interval of
/// [`paired_ratio_at`] would just touch 1.
pub fn paired_p_value(pairs: &[(f64, f64)], seed: u64) -> Option<f64> {
    PairedRatio::new(pairs, seed).map(|ratio| ratio.p_value())
}

/// Holm's step-down correction: the p-values that may be held against the usual
/// 5 % although several were looked at. The chance that any true "no difference"
/// falls below is then still 5 % at most, whatever depends on what (S. Holm, "A
/// simple sequentially rejective multiple test procedure", 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (done, index) in order.into_iter().enumerate() {
        let still_open = (p_values.len() - done) as f64;
        largest = largest.max((p_values[index] * still_open).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// The logarithms of the ratios; absent where one of the values is not a positive number.
pub(crate) fn log_ratios(pairs: &[(f64, f64)]) -> Option<Vec<f64>> {
    pairs.iter().map(|(candidate, baseline)| Some(log(candidate)? - log(baseline)?)).collect()
}

/// The logarithm of a figure; absent where that is not a positive number.
pub(crate) fn log(figure: &f64) -> Option<f64> {
    (figure.is_finite() && *figure > 0.0).then(|| figure.ln())
}

/// The ratio over the pairs with its bootstrap distribution, drawn once for
/// everything that is asked of it; see the [module](self) for the method.
#[derive(Clone, Debug)]
pub struct PairedRatio {
    n: usize,
    mean: f64,
    deviation: f64,
    /// `(weighted mean - mean) / weighted deviation`, sorted.
    replicates: Vec<f64>,
}

impl PairedRatio {
    /// Resamples the pairs (candidate, baseline). Absent where [`paired_estimate`]
    /// is, and for a single pair.
    pub fn new(pairs: &[(f64, f64)], seed: u64) -> Option<Self> {
        let logs = log_ratios(pairs)?;
        if logs.len() < 2 {
            return None;
        }
        let (mean, deviation) = weighted_moments(&logs, &vec![1.0; logs.len()]);
        if deviation == 0.0 {
            return Some(Self { n: logs.len(), mean, deviation, replicates: vec![0.0] });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut weights = vec![0.0; logs.len()];
        let mut replicates = Vec::with_capacity(REPLICATES);
        while replicates.len() < REPLICATES {
            weights.fill_with(|| beta_half_three_halves(&mut rng));
            let (m, s) = weighted_moments(&logs, &weights);
            // Weights can all but vanish for every pair except one; what then
            // remains of the deviation is rounding.
            if s > deviation * 1e-9 {
                replicates.push((m - mean) / s);
            }
        }
        replicates.sort_unstable_by(f64::total_cmp);
        Some(Self { n: logs.len(), mean, deviation, replicates })
    }

    /// The ratio with the interval of this confidence, between 0 and 1; absent for
    /// any other.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let tail = (1.0 - confidence) / 2.0;
        let bound = |q: f64| (self.mean - self.quantile(q) * self.deviation).exp();
        Some(Interval {
            estimate: self.mean.exp(),
            low: bound(1.0 - tail),
            high: bound(tail),
            n: self.n,
        })
    }

    /// As [`paired_tails`].
    pub fn tails(&self, null: f64) -> Option<Tails> {
        if !(null.is_finite() && null > 0.0) {
            return None;
        }
        let n = self.replicates.len() as f64;
        let distance = self.mean - null.ln();
        if self.deviation == 0.0 {
            // Pairs that agree to the last digit leave no doubt but that of so few draws.
            let least = 0.5 / REPLICATES as f64;
            return Some(match distance.total_cmp(&0.0) {
                _ if distance.abs() < 1e-12 => Tails { above: 0.5, below: 0.5 },
                std::cmp::Ordering::Greater => Tails { above: least, below: 1.0 - least },
                _ => Tails { above: 1.0 - least, below: least },
            });
        }
        let observed = distance / self.deviation;
        let smaller = self.replicates.partition_point(|t| *t < observed) as f64;
        Some(Tails { above: (n - smaller + 0.5) / (n + 1.0), below: (smaller + 0.5) / (n + 1.0) })
    }

    /// As [`paired_p_value`].
    pub fn p_value(&self) -> f64 {
        // Against 1, which is a valid ratio to test, there always are tails.
        self.tails(1.0).map_or(1.0, |t| (2.0 * t.above.min(t.below)).min(1.0))
    }

    fn quantile(&self, q: f64) -> f64 {
        let last = self.replicates.len() - 1;
        self.replicates[((q * last as f64).round() as usize).min(last)]
    }
}

/// The mean and the standard deviation under weights that need not add up to one.
fn weighted_moments(values: &[f64], weights: &[f64]) -> (f64, f64) {
    let total: f64 = weights.iter().sum();
    let mean = values.iter().zip(weights).map(|(v, w)| v * w).sum::<f64>() / total;
    let variance = values.iter().zip(weights).map(|(v, w)| w * (v - mean).powi(2)).sum::<f64>();
    // Equal values can differ from their own mean by a rounding error.
    let rounding = 1e-14 * (1.0 + mean.abs());
    let deviation = (variance / total).sqrt();
    (mean, if deviation < rounding { 0.0 } else { deviation })
}

/// A draw from Beta(1/2, 3/2): the squared abscissa of a point that is uniform on
/// the unit disc. (The abscissa has the density of a semicircle, so its square
/// has the density `v^(-1/2) (1 - v)^(1/2)`.)
fn beta_half_three_halves(rng: &mut ChaCha8Rng) -> f64 {
    let radius_squared: f64 = rng.random();
    let turn: f64 = rng.random();
    radius_squared * (std::f64::consts::TAU * turn).cos().powi(2)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A normal deviate (Box and Muller).
    pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
        let u: f64 = 1.0 - rng.random::<f64>();
        let v: f64 = rng.random();
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Pairs whose ratio is `ratio` times lognormal noise, on a baseline that drifts.
    fn noisy(ratio: f64, sigma: f64, n: usize, rng: &mut ChaCha8Rng) -> Vec<(f64, f64)> {
        (0..n)
            .map(|round| {
                let baseline = 1000.0 * (1.0 + round as f64) * (sigma * normal(rng)).exp();
                let candidate = baseline * ratio * (sigma * normal(rng)).exp();
                (candidate, baseline)
            })
            .collect()
    }

    /// The share of `reps` simulated experiments whose interval holds the truth.
    fn coverage(n: usize, confidence: f64, reps: u64) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
        let held = (0..reps)
            .filter(|rep| {
                let pairs = noisy(1.05, 0.03, n, &mut rng);
                paired_ratio_at(&pairs, confidence, *rep).unwrap().contains(1.05)
            })
            .count();
        held as f64 / reps as f64
    }

    #[test]
    fn a_95_percent_interval_covers_about_95_percent_from_two_pairs_on() {
        // Three standard errors of the simulated share, for 400 experiments.
        const NOISE: f64 = 0.033;
        for n in [2, 3, 5, 12] {
            let c = coverage(n, 0.95, 400);
            assert!((c - 0.95).abs() <= NOISE, "{n} pairs: {c}");
        }
    }

    #[test]
    fn an_interval_for_one_of_seven_candidates_covers_what_it_claims() {
        let c = coverage(5, 1.0 - 0.05 / 7.0, 400);
        assert!(c >= 0.98, "{c}");
    }

    #[test]
    fn an_interval_is_little_longer_than_students_under_normal_noise() {
        // Student's t for five pairs and 95 %: 2.776, from any table.
        const T_FOUR: f64 = 2.776;
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let ratios: Vec<f64> = (0..200)
            .map(|seed| {
                let pairs = noisy(1.0, 0.03, 5, &mut rng);
                let logs = log_ratios(&pairs).unwrap();
                let student = 2.0 * T_FOUR * crate::std_dev(&logs).unwrap() / 5f64.sqrt();
                let interval = paired_ratio(&pairs, seed).unwrap();
                (interval.high.ln() - interval.low.ln()) / student
            })
            .collect();
        let median = crate::median(&ratios).unwrap();
        assert!((0.95..1.15).contains(&median), "{median}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_nearly_the_same() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let pairs = noisy(1.1, 0.02, 6, &mut rng);
        let a = paired_ratio(&pairs, 1).unwrap();
        assert_eq!(Some(a), paired_ratio(&pairs, 1));
        let b = paired_ratio(&pairs, 2).unwrap();
        assert_eq!(a.estimate, b.estimate);
        assert!((a.low - b.low).abs() < 0.01 && (a.high - b.high).abs() < 0.01, "{a:?} {b:?}");
    }

    #[test]
    fn swapping_candidate_and_baseline_inverts_the_interval() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let pairs = noisy(1.2, 0.05, 7, &mut rng);
        let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let a = paired_ratio(&pairs, 1).unwrap();
        let b = paired_ratio(&swapped, 1).unwrap().inverse();
        assert!((a.estimate - b.estimate).abs() < 1e-9);
        assert!((a.low - b.low).abs() < 0.01 && (a.high - b.high).abs() < 0.01, "{a:?} {b:?}");
    }

    #[test]
    fn a_drift_that_both_of_a_pair_share_does_not_widen_the_interval() {
        let pairs: Vec<_> = [1.0, 10.0, 100.0, 1000.0].map(|b| (b * 1.02, b)).to_vec();
        let i = paired_ratio(&pairs, 1).unwrap();
        assert!((i.low - 1.02).abs() < 1e-9 && (i.high - 1.02).abs() < 1e-9, "{i:?}");
    }

    #[test]
    fn a_figure_that_is_not_a_positive_number_gives_no_ratio() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let pairs = [(1.0, 1.0), (1.1, 1.0), (bad, 1.0)];
            assert_eq!(paired_ratio(&pairs, 1), None, "{bad}");
            assert_eq!(paired_estimate(&pairs), None, "{bad}");
        }
        assert_eq!(paired_ratio(&[(1.0, 1.0)], 1), None);
        assert_eq!(paired_estimate(&[(3.0, 2.0)]).map(|r| (r * 1e9).round()), Some(1.5e9));
        assert_eq!(paired_estimate(&[]), None);
    }

    #[test]
    fn the_p_value_falls_below_five_percent_just_where_the_interval_leaves_one() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for seed in 0..100 {
            let pairs = noisy(1.02, 0.02, 5, &mut rng);
            let outside = !paired_ratio(&pairs, seed).unwrap().contains(1.0);
            let p = paired_p_value(&pairs, seed).unwrap();
            // A thousandth either way, for the rounding of the quantiles.
            assert!(!outside || p < 0.051, "{p}");
            assert!(outside || p > 0.049, "{p}");
        }
    }

    #[test]
    fn without_a_difference_small_p_values_are_as_rare_as_they_should_be() {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        let small = (0..600)
            .filter(|seed| paired_p_value(&noisy(1.0, 0.03, 5, &mut rng), *seed).unwrap() < 0.05)
            .count();
        assert!((12..=48).contains(&small), "{small} of 600, expected about 30");
    }

    #[test]
    fn the_tails_add_up_and_move_with_the_value_that_is_tested() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let pairs = noisy(1.1, 0.02, 6, &mut rng);
        let at = |null: f64| paired_tails(&pairs, null, 1).unwrap();
        assert!(at(1.0).above < 0.01 && at(1.3).below < 0.01);
        assert!(at(1.0).above < at(1.05).above && at(1.05).above < at(1.15).above);
        assert!((at(1.05).above + at(1.05).below - 1.0).abs() < 1e-3);
        assert_eq!(paired_tails(&pairs, 0.0, 1), None);
    }

    #[test]
    fn pairs_that_agree_exactly_are_on_one_side_or_on_neither() {
        let same = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)];
        assert_eq!(paired_p_value(&same, 1), Some(1.0));
        let double = same.map(|(a, b)| (2.0 * a, b));
        assert!(paired_p_value(&double, 1).unwrap() < 0.001);
    }

    #[test]
    fn holms_correction_is_that_of_the_worked_example() {
        // 0.01 * 4, 0.02 * 3, max(0.03 * 2, 0.06), max(0.04, 0.06).
        let adjusted = holm(&[0.04, 0.01, 0.03, 0.02]);
        for (a, e) in adjusted.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((a - e).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.7, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
