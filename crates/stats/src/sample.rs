//! Figures of a plain sample.

use crate::interval::{CONFIDENCE, Interval};

/// The arithmetic mean; absent for an empty sample.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The geometric mean; absent for an empty sample or one that holds a value
/// that is not a positive number.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Option<Vec<f64>> =
        values.iter().map(|v| (v.is_finite() && *v > 0.0).then(|| v.ln())).collect();
    mean(&logs?).map(f64::exp)
}

/// The middle value, or the mean of the two middle ones; absent for an empty sample.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// The median with an interval that holds the true one with the usual confidence, or more:
/// two values of the sample, the ranks of which follow from how many there are, however they
/// are distributed. Absent where even the least and the largest are not wide enough, as with
/// fewer than six values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The chance that the true median lies below the value of that rank, or as far up.
    let (mut chance, mut outside, mut rank) = (2.0 * 0.5f64.powi(n as i32), 0.0, 0);
    while outside + chance <= 1.0 - CONFIDENCE && rank < n / 2 {
        outside += chance;
        rank += 1;
        chance *= (n + 1 - rank) as f64 / rank as f64;
    }
    let low = *sorted.get(rank.checked_sub(1)?)?;
    Some(Interval { estimate: median(values)?, low, high: sorted[n - rank], n })
}

/// The standard deviation of the population that the sample was drawn from
/// (divisor n - 1); absent for fewer than two values.
pub fn std_dev(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let m = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - m).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Standard deviation over mean, a plain number (0.05 is five percent); absent
/// for fewer than two values or a mean of zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let m = mean(values)?;
    let s = std_dev(values)?;
    (m != 0.0).then(|| s / m.abs())
}

/// The `q`-quantile (0 to 1) by nearest rank: the smallest value such that at
/// least a fraction `q` of the sample is no larger than it. It is always a value
/// that occurred, which matters for tail latencies: interpolating between the
/// two slowest of ten requests would report one that nobody saw.
///
/// Absent for an empty sample or a `q` outside 0..=1.
pub fn percentile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = nearest_rank(sorted.len() as u64, q);
    Some(sorted[(rank - 1) as usize])
}

/// The rank, from 1 to `n`, of the `q`-quantile among `n` values.
pub(crate) fn nearest_rank(n: u64, q: f64) -> u64 {
    // 0.99 * 100 is 99.00000000000001 in binary; without the correction the
    // 99th percentile of a hundred values would be the hundredth.
    const ROUNDING: f64 = 1e-9;
    let rank = (q * n as f64 * (1.0 - ROUNDING)).ceil() as u64;
    rank.clamp(1, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_sample_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_binomial_distribution() {
        let ranks = |n: u32| {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            median_interval(&values).map(|i| (i.low, i.high))
        };
        // From tables of the sign test.
        assert_eq!(ranks(5), None);
        assert_eq!(ranks(6), Some((1.0, 6.0)));
        assert_eq!(ranks(9), Some((2.0, 8.0)));
        assert_eq!(ranks(20), Some((6.0, 15.0)));
        assert_eq!(ranks(0), None);
    }

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (q, expected) in [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(percentile(&values, q), Some(expected), "q = {q}");
        }
        assert_eq!(percentile(&[1.0, 10.0], 0.5), Some(1.0));
        assert_eq!(percentile(&[1.0], 1.5), None);
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[1.0, f64::NAN]), None);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn the_coefficient_of_variation_does_not_depend_on_the_unit() {
        let us = [90.0, 100.0, 110.0];
        let ns = us.map(|v| v * 1000.0);
        let expected = 0.1;
        assert!((coefficient_of_variation(&us).unwrap() - expected).abs() < 1e-12);
        assert!((coefficient_of_variation(&ns).unwrap() - expected).abs() < 1e-12);
        assert_eq!(coefficient_of_variation(&[1.0]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
    }
}
