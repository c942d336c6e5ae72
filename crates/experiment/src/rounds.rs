//! When a contender has been measured often enough.

use metasched_stats::{Interval, paired_ratio};

use crate::SEED;

/// When a contender has been measured often enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Never before this many pairs, however narrow the interval: with fewer, it is
    /// narrow by luck too often.
    pub min_rounds: u32,
    /// Always after this many.
    pub max_rounds: u32,
    /// Or when the ratio's 95 % interval reaches no further than this to either side, as a
    /// share of the ratio: 0.05 is plus or minus 5 %.
    pub precision: f64,
    /// Whether those that are surely not the best are dropped early ([`crate::losers`]).
    pub drop_losers: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { min_rounds: 4, max_rounds: 12, precision: 0.05, drop_losers: true }
    }
}

impl Rules {
    /// So many rounds of each, whatever they show: they are compared with each other.
    pub fn exactly(rounds: u32) -> Self {
        Self { min_rounds: rounds, max_rounds: rounds, drop_losers: false, ..Self::default() }
    }
}

/// What a contender still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The interval is narrow enough.
    Precise,
    /// It is not, but all rounds have been made.
    Exhausted,
    /// It is surely not the best ([`crate::losers`]).
    Behind,
    /// About this many more rounds.
    Rounds(u32),
}

/// What a contender with these pairs (its figure, the default scheduler's) needs.
///
/// Stopping as soon as the interval is narrow makes it a little too narrow on
/// average; [`Rules::min_rounds`] keeps that small.
pub fn need(pairs: &[(f64, f64)], rules: &Rules) -> Need {
    let n = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
    let most = rules.max_rounds.max(rules.min_rounds);
    if n < rules.min_rounds {
        return Need::Rounds(rules.min_rounds - n);
    }
    let width = interval(pairs).map(|interval| interval.relative_half_width());
    match width {
        Some(width) if width <= rules.precision => Need::Precise,
        _ if n >= most => Need::Exhausted,
        // Without an interval (one pair only) nothing can be foretold.
        None => Need::Rounds(1),
        Some(width) => {
            // An interval narrows with the square root of the number of pairs.
            let wanted = f64::from(n) * (width / rules.precision).powi(2);
            let wanted = if wanted < f64::from(most) { wanted.ceil() as u32 } else { most };
            Need::Rounds(wanted.max(n + 1) - n)
        }
    }
}

/// The ratio of pairs with its interval, the same for the same pairs.
fn interval(pairs: &[(f64, f64)]) -> Option<Interval> {
    paired_ratio(pairs, SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<(f64, f64)> {
        ratios.iter().map(|ratio| (100.0 * ratio, 100.0)).collect()
    }

    const RULES: Rules =
        Rules { min_rounds: 4, max_rounds: 12, precision: 0.05, drop_losers: true };

    #[test]
    fn the_least_number_of_rounds_is_always_made() {
        assert_eq!(need(&[], &RULES), Need::Rounds(4));
        assert_eq!(need(&pairs(&[1.1, 1.1, 1.1]), &RULES), Need::Rounds(1));
    }

    #[test]
    fn a_narrow_interval_ends_it_and_a_wide_one_does_not() {
        assert_eq!(need(&pairs(&[1.10, 1.11, 1.09, 1.10]), &RULES), Need::Precise);
        let Need::Rounds(more) = need(&pairs(&[0.8, 1.3, 1.0, 1.1]), &RULES) else {
            panic!("an interval of tens of percent is not narrow")
        };
        assert!((1..=8).contains(&more), "{more}");
    }

    #[test]
    fn rounds_end_even_if_the_interval_stays_wide() {
        let wide: Vec<f64> = (0..12).map(|i| if i % 2 == 0 { 0.5 } else { 2.0 }).collect();
        assert_eq!(need(&pairs(&wide), &RULES), Need::Exhausted);
        assert_ne!(need(&pairs(&wide[..11]), &RULES), Need::Exhausted);
    }
}
