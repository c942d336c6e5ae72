//! From times that were measured to a span that a scenario file can tell. The mean is kept:
//! a load that runs a tenth more than the recorded one answers another question.

use crate::fixed::{LN_2, bits_below_one};

/// The widest distribution that is written, in thousandths: of a wider one the mean of some
/// hundred draws is anything.
const SIGMA_MAX: u128 = 1_250;
/// Of such a one, the median in parts of the mean: e^(-sigma^2 / 2), in ten thousandths.
const MEDIAN_PART: u128 = 4_578;

/// Times as a span, as a scenario file has it.
pub(super) fn span(times: &[u64]) -> String {
    let mut times: Vec<u64> = times.to_vec();
    times.sort_unstable();
    if times.is_empty() {
        return duration(0);
    }
    let percentile = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let [low, median, high] = [10, 50, 90].map(percentile);
    let sum: u128 = times.iter().map(|ns| u128::from(*ns)).sum();
    let mean = (sum / times.len() as u128).max(1) as u64;
    let half = (high - low) / 2;
    // Closer together than a tenth: what differs is the measurement.
    if half <= mean / 20 {
        return duration(mean);
    }
    if mean <= median + median / 20 {
        let half = half.min(mean - 1);
        return format!("{}..{}", duration(mean - half), duration(mean + half));
    }
    // The mean of a log-normal distribution is its median times e^(sigma^2 / 2).
    let bits = bits_below_one(median.max(1)) - bits_below_one(mean);
    let ln = u128::from(bits) * LN_2;
    let sigma = ((2 * ln * 1_000_000) >> 64).isqrt();
    let (median, sigma) = match sigma {
        // Many next to nothing and a few long ones.
        wider if wider > SIGMA_MAX => (u128::from(mean) * MEDIAN_PART / 10_000, SIGMA_MAX),
        sigma => (u128::from(median), sigma),
    };
    let median = duration((median as u64).max(1));
    format!("lognormal({median}, {}.{:03})", sigma / 1_000, sigma % 1_000)
}

/// A span that is distributed as these times are, with that mean, ns.
pub(super) fn span_of_mean(times: &[u64], mean_ns: u64) -> String {
    let sum: u128 = times.iter().map(|ns| u128::from(*ns)).sum();
    if sum == 0 {
        return duration(mean_ns);
    }
    let wanted = u128::from(mean_ns) * times.len() as u128;
    let scaled: Vec<u64> = times.iter().map(|ns| (u128::from(*ns) * wanted / sum) as u64).collect();
    span(&scaled)
}

/// ns with a unit, with three digits or more.
pub(super) fn duration(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns}ns"),
        10_000..10_000_000 => format!("{}us", (ns + 500) / 1_000),
        _ => format!("{}us", (ns + 5_000) / 10_000 * 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::span::Span;

    #[test]
    fn spans_are_fitted_with_the_distribution_that_they_came_from() {
        for (from, wanted) in [
            (Span::Exactly(2_000_000), "2000us"),
            (Span::Between(1_000_000, 3_000_000), ".."),
            (Span::LogNormal { median_ns: 1_000_000, sigma_thousandths: 800 }, "lognormal("),
            (Span::Exponential(1_000_000), "lognormal("),
        ] {
            let mut random = Random::new(5);
            let times: Vec<u64> = (0..5_000).map(|_| from.draw(&mut random)).collect();
            let text = span(&times);
            assert!(text.contains(wanted), "{from:?}: {text}");
        }
    }

    #[test]
    fn the_mean_is_kept_however_wide_the_times_are_spread() {
        let mut random = Random::new(5);
        let wide = Span::LogNormal { median_ns: 1_000_000, sigma_thousandths: 2_500 };
        let times: Vec<u64> = (0..5_000).map(|_| wide.draw(&mut random)).collect();
        assert!(span(&times).ends_with(", 1.250)"), "{}", span(&times));
        assert_eq!(span_of_mean(&[5, 5, 5], 7_000), "7000ns");
        assert_eq!(span_of_mean(&[], 7_000), "7000ns");
        assert_eq!(span_of_mean(&[1_000, 2_000, 3_000], 20_000), "10us..30us");
    }

    #[test]
    fn no_times_are_no_time() {
        assert_eq!(span(&[]), "0ns");
    }
}
