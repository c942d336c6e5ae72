//! Spans of time, and how they are distributed. Everything is drawn with whole numbers, so
//! that a seed gives the same spans on every machine.

use crate::fixed::{LN_2, LOG2_E, bits_below_one, times_power_of_two};
use crate::random::Random;

/// No span that is drawn is longer: a heavy tail has no end of its own, and time has.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Shapes are given in thousandths.
const THOUSAND: u32 = 1_000;

/// A span of time in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Always the same.
    Exactly(u64),
    /// Uniform between both, both included.
    Between(u64, u64),
    /// Exponential, of that mean: gaps between events that know nothing of each other.
    Exponential(u64),
    /// Log-normal: half are below `median_ns`, and the logarithm's standard deviation is
    /// `sigma_thousandths`.
    LogNormal {
        /// The median.
        median_ns: u64,
        /// The standard deviation of the natural logarithm, in thousandths.
        sigma_thousandths: u32,
    },
    /// Pareto: one in 2^`shape` is above twice the least, and so on; the smaller the shape,
    /// the heavier the tail.
    Pareto {
        /// The least.
        least_ns: u64,
        /// The shape, in thousandths; not 0.
        shape_thousandths: u32,
    },
}

impl Span {
    /// A span that is as long as one of so many equal parts of this one, at least 1.
    pub fn divided_by(self, parts: u64) -> Self {
        let parts = parts.max(1);
        match self {
            Span::Exactly(ns) => Span::Exactly(ns / parts),
            Span::Between(low, high) => Span::Between(low / parts, high / parts),
            Span::Exponential(mean) => Span::Exponential(mean / parts),
            Span::LogNormal { median_ns, sigma_thousandths } => {
                Span::LogNormal { median_ns: median_ns / parts, sigma_thousandths }
            }
            Span::Pareto { least_ns, shape_thousandths } => {
                Span::Pareto { least_ns: least_ns / parts, shape_thousandths }
            }
        }
    }

    /// Its mean, ns, within a thousandth or so; of a Pareto distribution without one, the longest span.
    pub fn mean_ns(self) -> u64 {
        match self {
            Span::Exactly(ns) | Span::Exponential(ns) => ns,
            Span::Between(low, high) => low + (high - low) / 2,
            // exp(sigma^2 / 2) times the median.
            Span::LogNormal { median_ns, sigma_thousandths } => {
                let square = i128::from(sigma_thousandths) * i128::from(sigma_thousandths);
                let exponent = square * LOG2_E / 2 / i128::from(THOUSAND * THOUSAND);
                let bounded = exponent.min(i64::MAX.into()) as i64;
                times_power_of_two(median_ns, bounded, LONGEST_NS)
            }
            Span::Pareto { shape_thousandths, .. } if shape_thousandths <= THOUSAND => LONGEST_NS,
            Span::Pareto { least_ns, shape_thousandths } => {
                let shape = u128::from(shape_thousandths);
                let mean = u128::from(least_ns) * shape / (shape - u128::from(THOUSAND));
                mean.min(LONGEST_NS.into()) as u64
            }
        }
    }

    /// One span. At most an hour, unless it is exact or between two that are longer.
    pub fn draw(self, random: &mut Random) -> u64 {
        match self {
            Span::Exactly(ns) => ns,
            Span::Between(low, high) => random.within(low, high),
            Span::Exponential(mean) => {
                let product =
                    u128::from(mean.min(LONGEST_NS)) * u128::from(surprise(random)) * LN_2;
                (product >> 64).min(LONGEST_NS.into()) as u64
            }
            Span::LogNormal { median_ns, sigma_thousandths } => {
                let sigmas = i128::from(normal(random)) * i128::from(sigma_thousandths);
                let exponent = (sigmas * LOG2_E / i128::from(THOUSAND)) >> 32;
                let bounded = exponent.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                times_power_of_two(median_ns, bounded, LONGEST_NS)
            }
            Span::Pareto { least_ns, shape_thousandths } => {
                let exponent = u128::from(surprise(random)) * u128::from(THOUSAND)
                    / u128::from(shape_thousandths);
                let bounded = exponent.min(i64::MAX as u128) as i64;
                times_power_of_two(least_ns, bounded, LONGEST_NS)
            }
        }
    }
}

/// Milliseconds in ns.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// Microseconds in ns.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// A span that is always the same.
pub const fn exactly(ns: u64) -> Span {
    Span::Exactly(ns)
}

/// A span that is drawn anew each time.
pub const fn between(low_ns: u64, high_ns: u64) -> Span {
    Span::Between(low_ns, high_ns)
}

/// -log2 of a number that is uniform in (0, 1), in units of 2^-32.
fn surprise(random: &mut Random) -> u64 {
    bits_below_one(random.bits().max(1))
}

/// A standard normal number in units of 2^-32, by Marsaglia's polar method, which needs no
/// trigonometry.
fn normal(random: &mut Random) -> i64 {
    const UNIT: i128 = 1 << 31;
    loop {
        let mut side = || i128::from(random.bits() >> 32) - UNIT;
        let (u, v) = (side(), side());
        let square = u * u + v * v;
        // Outside the circle; or so near its centre that the quotient would overflow, which
        // happens once in a million times.
        if !((UNIT * UNIT) >> 20..UNIT * UNIT).contains(&square) {
            continue;
        }
        let square = square as u128;
        let minus_two_ln = (2 * LN_2 * u128::from(bits_below_one((square << 2) as u64))) >> 32;
        let root = (((minus_two_ln << 62) / square) << 32).isqrt();
        return ((u * root as i128) >> 31) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 20_000;

    fn drawn(span: Span) -> Vec<u64> {
        let mut random = Random::new(7);
        let mut spans: Vec<u64> = (0..DRAWS).map(|_| span.draw(&mut random)).collect();
        spans.sort_unstable();
        spans
    }

    /// Within a twentieth: five times the standard error of what is compared here, or more.
    fn near(got: u64, wanted: f64, what: &str) {
        assert!((got as f64 / wanted - 1.0).abs() < 0.05, "{what}: {got}, not {wanted}");
    }

    fn mean(spans: &[u64]) -> u64 {
        spans.iter().sum::<u64>() / spans.len() as u64
    }

    #[test]
    fn exponential_spans_have_their_mean_and_median() {
        let spans = drawn(Span::Exponential(3_000_000));
        near(mean(&spans), 3e6, "mean");
        near(spans[DRAWS / 2], 3e6 * 2f64.ln(), "median");
        near(spans[DRAWS * 99 / 100], 3e6 * 100f64.ln(), "99th percentile");
    }

    #[test]
    fn log_normal_spans_have_their_median_and_tails() {
        let spans = drawn(Span::LogNormal { median_ns: 2_000_000, sigma_thousandths: 500 });
        near(spans[DRAWS / 2], 2e6, "median");
        // One standard deviation of a normal distribution to either side.
        near(spans[DRAWS * 84_134 / 100_000], 2e6 * 0.5f64.exp(), "84th percentile");
        near(spans[DRAWS * 15_866 / 100_000], 2e6 * (-0.5f64).exp(), "16th percentile");
        near(mean(&spans), 2e6 * 0.125f64.exp(), "mean");
    }

    #[test]
    fn pareto_spans_have_their_least_and_their_tail() {
        let spans = drawn(Span::Pareto { least_ns: 1_000_000, shape_thousandths: 1_500 });
        assert!(spans[0] >= 1_000_000);
        near(spans[DRAWS / 2], 1e6 * 2f64.powf(1.0 / 1.5), "median");
        near(spans[DRAWS * 9 / 10], 1e6 * 10f64.powf(1.0 / 1.5), "90th percentile");
        let heavy = drawn(Span::Pareto { least_ns: 1_000_000, shape_thousandths: 1 });
        assert_eq!(heavy[DRAWS - 1], LONGEST_NS);
    }

    #[test]
    fn the_mean_of_a_span_is_that_of_what_is_drawn_and_of_its_parts_together() {
        for span in [
            Span::Exactly(3_000_000),
            Span::Between(1_000_000, 4_000_000),
            Span::Exponential(3_000_000),
            Span::LogNormal { median_ns: 2_000_000, sigma_thousandths: 500 },
            Span::Pareto { least_ns: 1_000_000, shape_thousandths: 3_000 },
        ] {
            near(mean(&drawn(span)), span.mean_ns() as f64, &format!("{span:?}"));
            let parts = 4 * mean(&drawn(span.divided_by(4)));
            near(parts, span.mean_ns() as f64, &format!("{span:?} in four"));
        }
        assert_eq!(Span::Pareto { least_ns: 1, shape_thousandths: 900 }.mean_ns(), LONGEST_NS);
    }

    #[test]
    fn a_seed_always_gives_the_same_spans() {
        // Literals: a machine that draws anything else replays no recorded seed.
        let mut random = Random::new(1);
        let drawn = [
            Span::Exactly(5),
            Span::Between(1, 100),
            Span::Exponential(1_000_000),
            Span::LogNormal { median_ns: 1_000_000, sigma_thousandths: 1_000 },
            Span::Pareto { least_ns: 1_000_000, shape_thousandths: 2_000 },
        ]
        .map(|span| span.draw(&mut random));
        assert_eq!(drawn, [5, 2, 2_520_943, 1_599_742, 1_877_489]);
    }
}
