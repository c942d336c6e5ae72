//! Drops candidates from further measurement: those that are behind are dropped early, so
//! that the time goes to those that may be the best.
//!
//! It is a race (O. Maron and A. Moore, "Hoeffding races", 1994; M. Birattari and others, "A
//! racing algorithm for configuring metaheuristics", 2002): after some rounds each candidate
//! is held against the leader, by what both did in the same rounds, and leaves if it is surely
//! not the better one. "Surely" is a chance of [`ERROR`] for all candidates and all looks
//! together that one was dropped that is better than the leader by more than
//! [`WORTHWHILE_GAIN`]. What is nearer than that to the leader may be dropped: it would change
//! nothing that anybody would notice.

use metasched_stats::paired_tails;

use crate::SEED;
use crate::choose::{CandidateRounds, MIN_ROUNDS, WORTHWHILE_GAIN};
use crate::objective::{Objective, Round};

/// The chance of having dropped somebody wrongly, over the whole race.
pub const ERROR: f64 = 0.05;

/// The numbers of rounds after which somebody may be dropped: each is half as many again as the
/// one before, so that looking often does not use up the chance of an error.
const LOOKS: [usize; 5] = [MIN_ROUNDS, 5, 8, 12, 18];

/// A candidate that is out of the race.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Its place among the candidates.
    pub place: usize,
    /// The leader's place; absent where that is the default scheduler.
    pub leader: Option<usize>,
    /// The chance of such figures if it were better than the leader by [`WORTHWHILE_GAIN`].
    pub chance: f64,
}

/// Those of the candidates that need not be measured any further. The race is held again from
/// its start, so that it comes to the same whoever looks, and however often.
pub fn losers(candidates: &[CandidateRounds], objective: Objective) -> Vec<Dropped> {
    // Against any of the others, at any look.
    let surely = ERROR / (LOOKS.len() * candidates.len().max(1)) as f64;
    let mut dropped: Vec<Dropped> = Vec::new();
    for look in LOOKS {
        let runs = |at: &usize| {
            candidates[*at].rounds.len() >= look && dropped.iter().all(|d| d.place != *at)
        };
        let running: Vec<usize> = (0..candidates.len()).filter(runs).collect();
        let until_then = |at: &usize| CandidateRounds {
            rounds: candidates[*at].rounds[..look].to_vec(),
            ..candidates[*at].clone()
        };
        let racing: Vec<CandidateRounds> = running.iter().map(until_then).collect();
        let leader = leader(&racing, objective);
        let behind = |(at, candidate): (usize, &CandidateRounds)| {
            let pairs = pairs(candidate, leader.map(|leader| &racing[leader]), objective);
            let chance = paired_tails(&pairs, 1.0 + WORTHWHILE_GAIN, SEED)?.below;
            let lost = Some(at) != leader && pairs.len() >= MIN_ROUNDS && chance <= surely;
            let leader = leader.map(|leader| running[leader]);
            lost.then_some(Dropped { place: running[at], leader, chance })
        };
        let behind: Vec<Dropped> = racing.iter().enumerate().filter_map(behind).collect();
        dropped.extend(behind);
    }
    dropped
}

/// The candidate with the best estimate; none where that is the default scheduler's.
fn leader(candidates: &[CandidateRounds], objective: Objective) -> Option<usize> {
    let estimates = candidates.iter().enumerate().filter_map(|(at, candidate)| {
        let score = candidate.estimate(objective)?;
        (score > 1.0 && !candidate.serves_less(objective)).then_some((at, score))
    });
    estimates.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// The scores of a candidate and of another one, or of the default scheduler, in the rounds
/// that both were in.
pub(crate) fn pairs(
    candidate: &CandidateRounds,
    other: Option<&CandidateRounds>,
    objective: Objective,
) -> Vec<(f64, f64)> {
    let Some(other) = other else { return candidate.pairs(objective) };
    let beside = |round: &Round| {
        let of_other = other.rounds.iter().find(|r| r.number == round.number)?;
        Some((objective.score(round.candidate), objective.score(of_other.candidate)))
    };
    candidate.rounds.iter().filter_map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Sample;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const NOISE: f64 = 0.03;

    fn noisy(value: f64, rng: &mut ChaCha8Rng) -> Sample {
        let normal: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        Sample::new(value * (NOISE * normal).exp(), f64::NAN)
    }

    /// A race of candidates with these true throughputs, the default's being 1: who was
    /// dropped, and how many runs were made of them all.
    fn race(throughputs: &[f64], most_rounds: u64, rng: &mut ChaCha8Rng) -> (Vec<usize>, usize) {
        let mut candidates: Vec<CandidateRounds> =
            throughputs.iter().map(|t| CandidateRounds::new(t.to_string(), Vec::new())).collect();
        let mut running: Vec<usize> = (0..throughputs.len()).collect();
        let (mut out, mut runs): (Vec<usize>, usize) = (Vec::new(), 0);
        for number in 0..most_rounds {
            let default = noisy(1.0, rng);
            for at in &running {
                let candidate = noisy(throughputs[*at], rng);
                candidates[*at].rounds.push(Round { number, candidate, default });
                runs += 1;
            }
            out = losers(&candidates, Objective::Throughput).iter().map(|d| d.place).collect();
            running.retain(|at| !out.contains(at));
        }
        (out, runs)
    }

    #[test]
    fn those_far_behind_leave_early_and_the_best_stays() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let throughputs = [1.1, 0.7, 0.75, 0.8, 0.6, 0.5, 0.9, 0.7, 0.8, 1.0, 0.85, 1.08];
        let (out, runs) = race(&throughputs, 12, &mut rng);
        assert!(!out.contains(&0), "the best was dropped: {out:?}");
        assert!(out.len() >= 8, "{out:?}");
        assert!(runs * 2 < throughputs.len() * 12, "{runs} runs of {}", throughputs.len() * 12);
    }

    #[test]
    fn the_best_is_dropped_more_rarely_than_is_said() {
        const RACES: usize = 100;
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        // The hardest case that counts: all others are worse by just what is worth while.
        let throughputs = [1.0 + WORTHWHILE_GAIN, 1.0, 1.0, 1.0, 1.0, 1.0];
        // A race comes to the same however often one looks: once, with all rounds.
        let wrong = |_: &usize| {
            let mut all = throughputs.map(|t| CandidateRounds::new(t.to_string(), Vec::new()));
            for number in 0..8 {
                let default = noisy(1.0, &mut rng);
                for (candidate, throughput) in all.iter_mut().zip(throughputs) {
                    let candidate_ran = noisy(throughput, &mut rng);
                    candidate.rounds.push(Round { number, candidate: candidate_ran, default });
                }
            }
            losers(&all, Objective::Throughput).iter().any(|dropped| dropped.place == 0)
        };
        let wrong = (0..RACES).filter(wrong).count();
        assert!(wrong as f64 <= ERROR * RACES as f64, "{wrong} of {RACES}");
    }

    #[test]
    fn nobody_leaves_between_looks_or_before_the_first() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        assert_eq!(race(&[1.0, 0.5], MIN_ROUNDS as u64 - 1, &mut rng).0, [0; 0]);
        let round = |number| Round {
            number,
            candidate: Sample::new(0.5 + 0.001 * number as f64, f64::NAN),
            default: Sample::new(1.0, f64::NAN),
        };
        let of = |rounds| [CandidateRounds::new("slow", (0..rounds).map(round).collect())];
        let out = |rounds| losers(&of(rounds), Objective::Throughput);
        assert!(out(MIN_ROUNDS as u64 - 1).is_empty());
        let first: Vec<_> = (MIN_ROUNDS as u64..8).map(out).collect();
        assert!(first.iter().all(|out| out.len() <= 1));
        let at = first.iter().position(|out| !out.is_empty()).expect("half as fast is behind");
        assert!(LOOKS.contains(&(at + MIN_ROUNDS)), "between looks: {at}");
        assert!(first[at..].iter().all(|out| *out == first[at]), "it stays out");
    }
}
