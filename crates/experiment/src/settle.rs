//! Which of the best is the best: the better half goes on, and of these the better half.
//!
//! It is successive halving (Z. Karnin, T. Koren and O. Somekh, "Almost optimal exploration in
//! multi-armed bandits", 2013; K. Jamieson and A. Talwalkar, "Non-stochastic best arm
//! identification and hyperparameter optimization", 2016): what is near the best is known best.

use metasched_base::Result;

use crate::bed::{Bed, Effort};
use crate::choose::CandidateRounds;
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
/// Each stage costs about as much as the one before. What is left behind keeps its rounds, and is
/// chosen among the others by them.
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
        left = half(left.min(ranked.len()));
        let rules = Rules::exactly(rounds);
        bed.measure(&[whole.to_owned()], &ranked[..left], &Effort { rules, budget: None })?;
    }
    Ok(())
}

/// How many of so many go on.
fn half(of: usize) -> usize {
    of.div_ceil(2).max(FEW).min(of)
}

/// Whether so many `runs` are enough for each of the candidates in `wanting` to have `least` rounds,
/// in each of which the default scheduler is run too.
pub fn suffices(
    wanting: &[usize],
    candidates: &[CandidateRounds],
    least: u32,
    runs: usize,
) -> bool {
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    let missing = wanting.iter().map(|at| least.saturating_sub(candidates[*at].rounds.len()));
    let all = missing.clone().fold(0, usize::saturating_add);
    all.saturating_add(missing.max().unwrap_or(0)) <= runs
}

/// Those of the candidates in `wanting` that have the next round, where there is time for so many
/// `runs`, which do not [suffice](suffices) for all: at first each; then the better half, or half of
/// it again and so on, so that a few at the end have `least` rounds.
///
/// With so little time chance decides as well: of n candidates the best is left behind with a
/// chance of `3 log2(n) exp(-T / (8 H log2(n)))` at most, for T runs, where H is about how many
/// runs it takes to tell it from the others (Karnin, Koren and Somekh, theorem 4.1). Nothing is
/// claimed of who is left behind, and [`choose`](crate::choose()) counts them among those compared.
pub fn affordable(
    wanting: &[usize],
    candidates: &[CandidateRounds],
    objective: Objective,
    least: u32,
    runs: usize,
) -> Vec<usize> {
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    let rounds = |at: &usize| candidates[*at].rounds.len();
    let new: Vec<usize> = wanting.iter().copied().filter(|at| rounds(at) == 0).collect();
    if !new.is_empty() {
        return new;
    }
    let score = |at: &usize| match &candidates[*at] {
        candidate if candidate.serves_less(objective) => 0.0,
        candidate => candidate.estimate(objective).unwrap_or(0.0),
    };
    let mut scored: Vec<(usize, f64)> = wanting.iter().map(|at| (*at, score(at))).collect();
    // Who was left behind stays so, however well the first rounds went.
    scored.sort_by(|a, b| rounds(&b.0).cmp(&rounds(&a.0)).then(b.1.total_cmp(&a.1)));
    let mut ranked: Vec<usize> = scored.into_iter().map(|(at, _)| at).collect();
    loop {
        let left = half(ranked.len());
        if left == ranked.len() {
            return ranked;
        }
        ranked.truncate(left);
        let made = ranked.iter().map(rounds).min().unwrap_or(0);
        if runs_of_halving(left, least.saturating_sub(made)) <= runs {
            return ranked;
        }
    }
}

/// How many runs so many rounds are, if so many candidates have the first, half of them the second,
/// and so on.
fn runs_of_halving(of: usize, rounds: usize) -> usize {
    let mut left = of;
    (0..rounds).fold(0, |runs: usize, _| {
        let round = left + 1;
        left = half(left);
        runs.saturating_add(round)
    })
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

    /// Eleven candidates, the last of which is better than the default by a fifth, with noise of
    /// about a tenth; gives their rounds at the end.
    fn within(budget: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let mut candidates: Vec<CandidateRounds> =
            (0..11).map(|n| CandidateRounds::new(n.to_string(), Vec::new())).collect();
        let all: Vec<usize> = (0..11).collect();
        let mut runs = budget;
        for number in 0.. {
            let go_on = match suffices(&all, &candidates, 4, runs) {
                true => all.clone(),
                false => affordable(&all, &candidates, Objective::Throughput, 4, runs),
            };
            let Some(left) = runs.checked_sub(go_on.len() + 1) else { break };
            runs = left;
            for at in go_on {
                let noise = 0.9 + 0.2 * rng.random::<f64>();
                let better = if at == 10 { 1.2 } else { 1.0 };
                candidates[at].rounds.push(Round {
                    number,
                    candidate: Sample::new(better * noise, 1.0),
                    default: Sample::new(1.0, 1.0),
                });
            }
        }
        candidates.iter().map(|one| one.rounds.len()).collect()
    }

    #[test]
    fn with_time_for_all_all_go_on_and_with_little_a_few_have_rounds_enough() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(within(4 * 12, &mut rng), [4; 11]);
        let mut right = 0;
        for _ in 0..100 {
            // One of all, one of six, two of three.
            let rounds = within(12 + 7 + 2 * 4, &mut rng);
            let of = |n: usize| rounds.iter().filter(|rounds| **rounds == n).count();
            assert_eq!((of(1), of(2), of(4)), (5, 3, 3), "{rounds:?}");
            right += usize::from(rounds[10] == 4);
        }
        assert!(right >= 95, "the best was left behind in {} of 100", 100 - right);
    }

    #[test]
    fn who_was_never_measured_comes_first() {
        let round =
            Round { number: 0, candidate: Sample::new(2.0, 1.0), default: Sample::new(1.0, 1.0) };
        let of = |n| CandidateRounds::new("a", vec![round; n]);
        let candidates = [of(2), of(0), of(1), of(0), of(1)];
        let go_on = |wanting: &[usize], runs| {
            affordable(wanting, &candidates, Objective::Throughput, 4, runs)
        };
        assert_eq!(go_on(&[0, 1, 2, 3, 4], 5), [1, 3]);
        assert!(suffices(&[0, 1, 2, 3, 4], &candidates, 4, 20));
        assert!(!suffices(&[0, 1, 2, 3, 4], &candidates, 4, 19));
        assert_eq!(go_on(&[], 0), [0; 0]);
        // Also where not even a few can have as many.
        assert_eq!(go_on(&[0, 2, 4], 1).len(), 3);
    }
}
