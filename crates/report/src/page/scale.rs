//! From values to places on a chart, and where the marks of an axis go.

/// A linear or logarithmic scale.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    domain: (f64, f64),
    range: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    pub fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { domain, range, logarithmic: false }
    }

    /// A logarithmic scale; the domain's bounds are positive.
    pub fn logarithmic(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { domain, range, logarithmic: true }
    }

    /// The place of a value; values outside the domain get its nearest end.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let share = if self.logarithmic {
            (value.max(low) / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// Whether the value lies outside the domain, and on which side.
    pub fn beyond(&self, value: f64) -> Option<Side> {
        match value {
            v if v < self.domain.0 => Some(Side::Below),
            v if v > self.domain.1 => Some(Side::Above),
            _ => None,
        }
    }
}

/// A side of a scale's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Below,
    Above,
}

/// Round values across the domain, at most `most` of them.
pub fn ticks((low, high): (f64, f64), most: usize) -> Vec<f64> {
    let rough = (high - low) / most.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![low];
    }
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * magnitude)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * magnitude);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Powers of ten within the domain.
pub fn decades((low, high): (f64, f64)) -> Vec<f64> {
    let first = (low.log10() - 1e-9).ceil() as i32;
    let last = (high.log10() + 1e-9).floor() as i32;
    (first..=last).map(|e| 10f64.powi(e)).collect()
}

/// The domain of an axis of changes in percent: from `low` to `high` with 0 in it,
/// but no further than three times the median distance of `spread` reaches, so
/// that one scheduler that is far off does not press all others together.
pub fn percent_domain(bounds: &[f64]) -> (f64, f64) {
    /// An axis shorter than this would blow noise up.
    const LEAST: f64 = 4.0;
    let distances: Vec<f64> = bounds.iter().map(|b| b.abs()).collect();
    let limit = metasched_stats::median(&distances).map_or(LEAST, |m| (3.0 * m).max(LEAST));
    let low = bounds.iter().copied().fold(0.0, f64::min).max(-limit);
    let high = bounds.iter().copied().fold(0.0, f64::max).min(limit);
    // Room for the points at the ends, and for 0 where all lie on one side.
    let room = ((high - low) * 0.06).max(LEAST / 4.0);
    (low - room, high + room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_values_and_keep_within_the_range() {
        let s = Scale::linear((-10.0, 10.0), (100.0, 300.0));
        assert_eq!((s.at(-10.0), s.at(0.0), s.at(10.0)), (100.0, 200.0, 300.0));
        assert_eq!((s.at(99.0), s.at(f64::NAN)), (300.0, 100.0));
        assert_eq!((s.beyond(99.0), s.beyond(-11.0)), (Some(Side::Above), Some(Side::Below)));
        let l = Scale::logarithmic((1.0, 100.0), (0.0, 200.0));
        assert!((l.at(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(l.at(0.0), 0.0);
    }

    #[test]
    fn ticks_are_round_and_not_too_many() {
        assert_eq!(ticks((-8.0, 9.0), 5), [-5.0, 0.0, 5.0]);
        for (low, high) in [(-0.5, 0.5), (0.0, 1.0), (-37.0, 190.0), (-4.0, 11.0)] {
            let t = ticks((low, high), 6);
            assert!((2..=7).contains(&t.len()), "{t:?}");
            assert!(t.iter().all(|v| (low..=high).contains(v)), "{t:?}");
        }
        assert_eq!(ticks((1.0, 1.0), 5), [1.0]);
        assert_eq!(decades((1e3, 1e6)), [1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn one_far_value_does_not_press_the_others_together() {
        let (low, high) = percent_domain(&[-2.0, 3.0, 1.0, 4.0, -1.0, 180.0]);
        assert!(high < 20.0 && low < -2.0, "{low} {high}");
        assert!(percent_domain(&[]).0 < 0.0);
    }
}
