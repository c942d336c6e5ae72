//! Which of the best is the best: the better half goes on with twice the rounds.

use metasched_base::Result;

use crate::bed::{Bed, Effort};
use crate::contender::Contender;
use crate::objective::Objective;
use crate::plan::Whole;
use crate::rounds::Rules;

/// With as few as this nothing is halved any more.
const FEW: usize = 3;

/// Measures the better half of a whole's contenders again, so that each has twice the rounds, and of
/// these the better half, until few are left or they have `most` rounds. `rounds` is how many all
/// of them have. Those that serve less than the default scheduler are not among the better ones.
///
/// It is successive halving (Z. Karnin, T. Koren and O. Somekh, "Almost optimal exploration in
/// multi-armed bandits", 2013; K. Jamieson and A. Talwalkar, "Non-stochastic best arm
/// identification and hyperparameter optimization", 2016): each stage costs about as much as the
/// one before, and what is near the best is known best. What is left behind keeps its rounds, and
/// is chosen among the others by them.
///
/// # Errors
/// As [`Bed::measure`].
pub fn settle(
    bed: &mut dyn Bed,
    whole: &str,
    rounds: u32,
    most: u32,
    objective: Option<Objective>,
) -> Result<()> {
    let mut rounds = rounds.max(1);
    let mut left = usize::MAX;
    while rounds < most && left > FEW {
        rounds = rounds.saturating_mul(2).min(most);
        let known = bed.measured()?.whole.unwrap_or_default();
        let ranked = ranked(&known, objective.unwrap_or(known.objective));
        left = left.min(ranked.len()).div_ceil(2).max(FEW).min(ranked.len());
        let rules = Rules::exactly(rounds);
        bed.measure(&[whole.to_owned()], &ranked[..left], &Effort { rules, budget: None })?;
    }
    Ok(())
}

/// What of a whole was measured and does not serve less, the best first.
fn ranked(whole: &Whole, objective: Objective) -> Vec<Contender> {
    let mut known: Vec<(f64, Contender)> = whole
        .contenders()
        .filter(|(_, rounds)| !rounds.serves_less(objective))
        .filter_map(|(contender, rounds)| Some((rounds.estimate(objective)?, contender)))
        .collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    known.into_iter().map(|(_, contender)| contender).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::CandidateRounds;
    use crate::objective::{Round, Sample};
    use crate::plan::Measured;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Sixteen schedulers, the n-th of which is better than the default by n percent, with noise
    /// of about a tenth.
    struct Noisy {
        rng: ChaCha8Rng,
        whole: Whole,
    }

    impl Bed for Noisy {
        fn measure(&mut self, _: &[String], under: &[Contender], effort: &Effort) -> Result<()> {
            for contender in under {
                let name = contender.to_string();
                let of_it = self.whole.candidates.iter_mut().find(|one| one.name == name);
                let rounds = &mut of_it.expect("one of the sixteen").rounds;
                while rounds.len() < effort.rules.max_rounds as usize {
                    let noise = 0.9 + 0.2 * self.rng.random::<f64>();
                    let better = 1.0 + name.parse::<f64>().expect("a number") / 100.0;
                    rounds.push(Round {
                        number: rounds.len() as u64,
                        candidate: Sample::new(better * noise, 1.0),
                        default: Sample::new(1.0, 1.0),
                    });
                }
            }
            Ok(())
        }

        fn measured(&mut self) -> Result<Measured> {
            Ok(Measured { whole: Some(self.whole.clone()), ..Measured::default() })
        }
    }

    #[test]
    fn the_best_have_most_rounds_and_the_cost_stays_that_of_a_few_rounds_of_all() {
        let mut right = 0;
        for seed in 0..50 {
            let candidates: Vec<CandidateRounds> =
                (0..16).map(|n| CandidateRounds::new(n.to_string(), Vec::new())).collect();
            let whole = Whole { candidates, ..Whole::default() };
            let mut bed = Noisy { rng: ChaCha8Rng::seed_from_u64(seed), whole };
            let all: Vec<Contender> =
                (0..16).map(|n: u32| Contender::scheduler(n.to_string())).collect();
            let rules = Rules { max_rounds: 6, ..Rules::default() };
            bed.measure(&[], &all, &Effort { rules, budget: None }).unwrap();
            settle(&mut bed, "all", 6, 48, None).unwrap();
            let rounds: Vec<usize> =
                bed.whole.candidates.iter().map(|one| one.rounds.len()).collect();
            // 8 go on to 12, 4 to 24 and 3 to 48, whichever are the best by then.
            assert!(rounds.iter().sum::<usize>() <= 16 * 6 + 8 * 12 + 4 * 24 + 3 * 48);
            assert_eq!(rounds.iter().filter(|rounds| **rounds == 48).count(), 3);
            let best = ranked(&bed.whole, Objective::Throughput)[0].to_string();
            right += usize::from(best.parse::<u32>().unwrap() >= 13);
        }
        // By six rounds of noise alone it would be about 38.
        assert!(right >= 45, "{right} of 50 are within 2 % of the best");
    }
}
