//! Two recordings of waits held against each other.
//!
//! A recording is cut into pieces of some length, each with its histogram. The pieces of one
//! recording differ by what the machine did meanwhile, so they say how far its figures can be
//! trusted: both recordings are made up anew of pieces drawn with replacement (B. Efron,
//! "Bootstrap methods: another look at the jackknife", 1979), and the interval holds the middle
//! of what comes out. Waits follow each other closely, so that drawing single ones would claim too
//! much; what lasts for longer than a piece is not accounted for.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::interval::{CONFIDENCE, Interval};
use crate::sample::percentile;
use crate::waits::WaitHistogram;

/// How often recordings are made up anew.
const RESAMPLES: usize = 1000;

/// Fewer pieces say nothing of what differs between them.
pub const PIECES_LEAST: usize = 5;

/// All waits of a recording.
pub fn whole<'a>(pieces: impl IntoIterator<Item = &'a WaitHistogram>) -> WaitHistogram {
    let mut all = WaitHistogram::default();
    pieces.into_iter().for_each(|piece| all.merge(piece));
    all
}

/// How many times as large a figure is in the second recording as in the first, with its 95 %
/// interval: for each of `figures`. None where the figure is absent or zero in one of them; the
/// interval is none where one has fewer than [`PIECES_LEAST`] pieces, or where the figure is absent
/// or zero in one of a hundred that are made up anew.
pub fn compare_waits(
    first: &[WaitHistogram],
    second: &[WaitHistogram],
    figures: &[fn(&WaitHistogram) -> Option<f64>],
    seed: u64,
) -> Vec<Option<(f64, Option<Interval>)>> {
    let ratios = |first: &WaitHistogram, second: &WaitHistogram| -> Vec<Option<f64>> {
        let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
        let ratio = |of: &fn(&WaitHistogram) -> Option<f64>| {
            Some(positive(of(second))? / positive(of(first))?)
        };
        figures.iter().map(ratio).collect()
    };
    let estimates = ratios(&whole(first), &whole(second));
    let mut drawn = vec![Vec::new(); figures.len()];
    if first.len().min(second.len()) >= PIECES_LEAST {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..RESAMPLES {
            let (a, b) = (anew(first, &mut rng), anew(second, &mut rng));
            for (all, ratio) in drawn.iter_mut().zip(ratios(&a, &b)) {
                all.extend(ratio);
            }
        }
    }
    let interval = |estimate: f64, drawn: &[f64]| {
        let enough = drawn.len() * 100 >= RESAMPLES * 99;
        let outside = (1.0 - CONFIDENCE) / 2.0;
        let bound = |q| percentile(drawn, q).filter(|_| enough);
        let (low, high) = (bound(outside)?, bound(1.0 - outside)?);
        // The middle of what was drawn may lie beside the estimate, as with a longest wait.
        let (low, high) = (low.min(estimate), high.max(estimate));
        Some(Interval { estimate, low, high, n: first.len().min(second.len()) })
    };
    estimates
        .into_iter()
        .zip(&drawn)
        .map(|(estimate, drawn)| estimate.map(|e| (e, interval(e, drawn))))
        .collect()
}

/// As many pieces, drawn with replacement.
fn anew(pieces: &[WaitHistogram], rng: &mut ChaCha8Rng) -> WaitHistogram {
    whole((0..pieces.len()).map(|_| &pieces[rng.random_range(0..pieces.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::tests::normal;

    /// Pieces whose waits are about so long, each piece by a tenth longer or shorter.
    fn recording(mean_ns: f64, pieces: usize, rng: &mut ChaCha8Rng) -> Vec<WaitHistogram> {
        let piece = |rng: &mut ChaCha8Rng| {
            let level = mean_ns * (0.1 * normal(rng)).exp();
            let mut waits = WaitHistogram::default();
            for _ in 0..200 {
                waits.add((level * normal(rng).exp()) as u64);
            }
            waits
        };
        (0..pieces).map(|_| piece(rng)).collect()
    }

    fn median(waits: &WaitHistogram) -> Option<f64> {
        waits.percentile_ns(0.5).map(|ns| ns as f64)
    }

    #[test]
    fn an_interval_holds_the_true_ratio_about_as_often_as_it_claims() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        const EXPERIMENTS: u64 = 120;
        let mut held = 0;
        for seed in 0..EXPERIMENTS {
            let first = recording(50_000.0, 20, &mut rng);
            let second = recording(60_000.0, 20, &mut rng);
            let found = compare_waits(&first, &second, &[median], seed);
            let (_, interval) = found[0].unwrap();
            held += u64::from(interval.unwrap().contains(1.2));
        }
        // Of 114 that it claims; the bootstrap of 20 pieces claims a little much.
        assert!((102..=120).contains(&held), "{held} of {EXPERIMENTS}");
    }

    #[test]
    fn few_pieces_and_figures_that_are_absent_have_no_interval() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let long = recording(1000.0, 8, &mut rng);
        let short = &long[..PIECES_LEAST - 1];
        let none = vec![WaitHistogram::default(); 8];
        assert!(matches!(compare_waits(&long, short, &[median], 1)[0], Some((_, None))));
        assert_eq!(compare_waits(&long, &none, &[median], 1), [None]);
        let same = compare_waits(&long, &long, &[median, |_| None], 1);
        assert!(same[0].unwrap().1.unwrap().contains(1.0) && same[1].is_none(), "{same:?}");
    }
}
