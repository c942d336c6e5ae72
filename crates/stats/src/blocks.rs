//! What a few rounds of several candidates say together of the noise of one run.
//!
//! A round is a block: the baseline and each candidate run once in it, minutes apart on the
//! same boot. Four rounds tell little of the noise of one candidate, since they are four
//! figures; but the four rounds of three candidates and the baseline are sixteen. This is the
//! analysis of randomised complete blocks, with one error variance for all of a block
//! (R. A. Fisher, "The arrangement of field experiments", 1926), and the comparison of many
//! with one control (C. W. Dunnett, "A multiple comparison procedure for comparing several
//! treatments with a control", 1955). As for [`PairedRatio`](crate::PairedRatio), it is the
//! logarithms that are compared.
//!
//! It needs what [`PairedRatio`](crate::PairedRatio) does not: that the noise is nearly
//! lognormal, and about as large for all. A caller that cannot know this holds both
//! against a candidate.

use puruspe::{betai, invbetai};

use crate::interval::Interval;
use crate::ratio::{log, log_ratios};
use crate::{mean, paired_estimate};

/// The noise of one run, by some rounds of a baseline and of several candidates.
#[derive(Clone, Copy, Debug)]
pub struct BlockNoise {
    /// Of the logarithm of a figure, without what a round does to all of its runs.
    variance: f64,
    /// How many figures it rests on beyond those that the means take.
    degrees: f64,
}

impl BlockNoise {
    /// By the figures of each round, the baseline's and those of the candidates in the same
    /// order. Absent for less than two rounds or two candidates (there [`PairedRatio`] says
    /// all that is known), where rounds differ in length, where a figure is no positive number,
    /// and where the rounds agree to the last digit.
    ///
    /// [`PairedRatio`]: crate::PairedRatio
    pub fn new(rounds: &[Vec<f64>]) -> Option<Self> {
        let runs = rounds.first()?.len();
        if rounds.len() < 2 || runs < 3 || rounds.iter().any(|round| round.len() != runs) {
            return None;
        }
        let logs: Vec<Vec<f64>> =
            rounds.iter().map(|round| round.iter().map(log).collect()).collect::<Option<_>>()?;
        let of_run: Vec<f64> = (0..runs)
            .map(|at| mean(&logs.iter().map(|round| round[at]).collect::<Vec<_>>()))
            .collect::<Option<_>>()?;
        let of_all = mean(&of_run)?;
        let mut squares = 0.0;
        for round in &logs {
            let of_round = mean(round)?;
            let left = |(log, run): (&f64, &f64)| log - of_round - run + of_all;
            squares += round.iter().zip(&of_run).map(left).map(|left| left * left).sum::<f64>();
        }
        let degrees = ((rounds.len() - 1) * (runs - 1)) as f64;
        let variance = squares / degrees;
        // Equal figures can differ from their mean by a rounding error.
        (variance > 1e-24).then_some(Self { variance, degrees })
    }

    /// The chance (two-sided) of ratios at least this far from 1 if the candidate of these pairs
    /// (candidate, baseline) did not differ from the baseline. Absent where
    /// [`paired_estimate`] is.
    pub fn p_value(&self, pairs: &[(f64, f64)]) -> Option<f64> {
        let t = paired_estimate(pairs)?.ln() / self.error_of(pairs.len());
        // Student's t of so many degrees of freedom by the incomplete beta function (Abramowitz
        // and Stegun, 26.7.1).
        Some(betai(self.degrees / 2.0, 0.5, self.degrees / (self.degrees + t * t)))
    }

    /// The ratio of these pairs with the interval of this confidence, between 0 and 1. Absent
    /// where [`paired_estimate`] is, and for any other confidence.
    pub fn interval(&self, pairs: &[(f64, f64)], confidence: f64) -> Option<Interval> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let mean = mean(&log_ratios(pairs)?)?;
        let share = invbetai(1.0 - confidence, self.degrees / 2.0, 0.5);
        let t = (self.degrees * (1.0 - share) / share).sqrt();
        let half = t * self.error_of(pairs.len());
        let [estimate, low, high] = [mean, mean - half, mean + half].map(f64::exp);
        Some(Interval { estimate, low, high, n: pairs.len() })
    }

    /// The standard error of the mean of so many differences, each of two runs.
    fn error_of(&self, pairs: usize) -> f64 {
        (2.0 * self.variance / pairs as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PairedRatio;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use crate::ratio::tests::normal;

    /// So many rounds of a baseline and of three candidates, the first of them with this ratio; a
    /// round is by a fifth better or worse than another.
    fn rounds(n: usize, ratio: f64, sigma: f64, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let round = |_| {
            let round = (0.2 * normal(rng)).exp();
            let run = |mean: f64| mean * round * (sigma * normal(rng)).exp();
            [1.0, ratio, 0.9, 1.1].map(run).to_vec()
        };
        (0..n).map(round).collect()
    }

    fn pairs_of_the_first(rounds: &[Vec<f64>]) -> Vec<(f64, f64)> {
        rounds.iter().map(|round| (round[1], round[0])).collect()
    }

    #[test]
    fn the_variance_is_that_of_the_worked_example() {
        // Logarithms 0, 1, 3 and 1, 4, 2: of rounds 4/3 and 7/3, of runs 1/2, 5/2, 5/2, of all
        // 11/6; what is left is 0, -1, 1 and 0, 1, -1, of two degrees of freedom.
        let of = |logs: [f64; 3]| logs.map(f64::exp).to_vec();
        let noise = BlockNoise::new(&[of([0.0, 1.0, 3.0]), of([1.0, 4.0, 2.0])]).unwrap();
        assert!((noise.variance - 2.0).abs() < 1e-12, "{}", noise.variance);
        // Two pairs with the mean 2 and the error sqrt(2); of Student's t with two degrees
        // the tail above x is (1 - x / sqrt(2 + x^2)) / 2.
        let pairs = [(1f64.exp(), 1.0), (3f64.exp(), 1.0)];
        let p = noise.p_value(&pairs).unwrap();
        assert!((p - (1.0 - 2f64.sqrt() / 2.0)).abs() < 1e-9, "{p}");
        // At the confidence of 1 - p the interval touches 1.
        let interval = noise.interval(&pairs, 1.0 - p).unwrap();
        assert!((interval.low - 1.0).abs() < 1e-6 && interval.n == 2, "{interval:?}");
        assert!((interval.estimate - 2f64.exp()).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn an_interval_covers_what_it_claims_and_is_shorter_than_that_of_one_candidate() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        const EXPERIMENTS: u64 = 400;
        // As is corrected for eleven candidates.
        let confidence = 1.0 - 0.05 / 11.0;
        let (mut held, mut held_loosely, mut shorter) = (0, 0, 0);
        for seed in 0..EXPERIMENTS {
            let rounds = rounds(4, 1.3, 0.05, &mut rng);
            let pairs = pairs_of_the_first(&rounds);
            let noise = BlockNoise::new(&rounds).unwrap();
            let interval = noise.interval(&pairs, confidence).unwrap();
            let alone = PairedRatio::new(&pairs, seed).unwrap().interval(confidence).unwrap();
            held += u64::from(interval.contains(1.3));
            held_loosely += u64::from(noise.interval(&pairs, 0.8).unwrap().contains(1.3));
            shorter += u64::from(interval.high / interval.low < alone.high / alone.low);
        }
        // Three standard errors of each share.
        assert!(held >= 393, "{held} of {EXPERIMENTS}, expected about 398");
        assert!((296..=344).contains(&held_loosely), "{held_loosely}, expected about 320");
        assert!(shorter >= 320, "{shorter} of {EXPERIMENTS}");
    }

    #[test]
    fn without_a_difference_small_p_values_are_as_rare_as_they_should_be() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let small = (0..600)
            .filter(|_| {
                let rounds = rounds(3, 1.0, 0.03, &mut rng);
                let noise = BlockNoise::new(&rounds).unwrap();
                noise.p_value(&pairs_of_the_first(&rounds)).unwrap() < 0.05
            })
            .count();
        assert!((14..=46).contains(&small), "{small} of 600, expected about 30");
    }

    #[test]
    fn what_says_nothing_of_the_noise_is_none() {
        let round = |last: f64| vec![1.0, 2.0, last];
        assert!(BlockNoise::new(&[]).is_none());
        assert!(BlockNoise::new(&[round(3.0)]).is_none());
        assert!(BlockNoise::new(&[vec![1.0, 2.0], vec![1.0, 2.1]]).is_none());
        assert!(BlockNoise::new(&[round(3.0), vec![1.0, 2.0]]).is_none());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(BlockNoise::new(&[round(3.0), round(bad)]).is_none(), "{bad}");
        }
        assert!(BlockNoise::new(&[round(3.0), round(3.0), round(3.0)]).is_none());
        let noise = BlockNoise::new(&[round(3.0), round(3.1)]).unwrap();
        assert_eq!(noise.p_value(&[]), None);
        assert_eq!(noise.interval(&[(1.0, 1.0)], 1.0), None);
    }
}
