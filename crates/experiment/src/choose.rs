//! Which scheduler a part prefers, and how sure that is.
//!
//! The default scheduler is preferred unless another is better beyond the noise.
//! Looking at seven candidates, the best of seven draws of noise looks good: the
//! p-values are therefore corrected for their number (Holm), so that the chance of
//! preferring anything over the default without cause stays at 5 % for the whole
//! choice. Among the candidates that are better, the one with the most effect is
//! preferred, after what is lost in switching to it.
//!
//! # A few rounds
//!
//! A real machine has time for three to five rounds of those that may be the best. By its own
//! rounds alone a candidate is then hardly ever better beyond such a correction: of four rounds,
//! and for eleven candidates, the difference must be 7.4 times its standard error. So below
//! [`FEW_ROUNDS`] it is held against the noise of all that were measured beside it, in the
//! rounds that they share ([`BlockNoise`]). Since one may be noisier than others, it must be
//! beyond the noise of its own rounds as well, uncorrected: that is the interval that is shown.

use std::cmp::Reverse;
use std::time::Duration;

use metasched_stats::{
    BlockNoise, CONFIDENCE, Interval, PairedRatio, holm, paired_estimate, paired_ratio_at,
    paired_tails,
};
use serde::{Deserialize, Serialize};

use crate::objective::{Objective, Round, Sample};
use crate::{SEED, switching_share};

/// A gain below which nobody would trouble to change the scheduler: what "no
/// scheduler is better by more than" speaks of.
pub const WORTHWHILE_GAIN: f64 = 0.02;

/// With fewer rounds nothing is called better or worse: where figures are small
/// counts, two rounds agree to the last digit too often, and look certain.
pub(crate) const MIN_ROUNDS: usize = 3;

/// From so many rounds on, a candidate's own say enough of its noise, and nothing is assumed of
/// how that is distributed.
const FEW_ROUNDS: usize = 6;

/// All that was measured of one candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateRounds {
    /// The candidate's name.
    pub name: String,
    /// Its version, where it has one.
    pub version: String,
    /// Its rounds.
    pub rounds: Vec<Round>,
    /// How long switching to it takes; zero where that is not known, or where it
    /// stays in force.
    pub switching: Duration,
}

impl CandidateRounds {
    /// Those of a candidate that stays in force: nothing is lost in switching.
    pub fn new(name: impl Into<String>, rounds: Vec<Round>) -> Self {
        Self { name: name.into(), rounds, ..Self::default() }
    }

    /// Its scores and those of the default scheduler, round by round.
    pub fn pairs(&self, objective: Objective) -> Vec<(f64, f64)> {
        self.rounds.iter().map(|round| objective.scores(round)).collect()
    }

    /// Its ratio to the default scheduler, more being better; absent where a run has no figure.
    pub fn estimate(&self, objective: Objective) -> Option<f64> {
        paired_estimate(&self.pairs(objective))
    }

    /// Whether fewer requests are served than under the default scheduler, beyond the noise and by
    /// more than [`WORTHWHILE_GAIN`] as the best guess. What is judged by its latency must not
    /// be slower for it. A loss that nobody would trouble about is none, however certain many
    /// rounds make it; nor is one of a few rounds in which more requests happened to arrive.
    pub(crate) fn serves_less(&self, objective: Objective) -> bool {
        let served = |s: &Sample| s.served_per_s;
        let pairs: Vec<(f64, f64)> =
            self.rounds.iter().map(|r| (served(&r.candidate), served(&r.default))).collect();
        // The interval takes ten thousand resamplings, the estimate none.
        objective.is_of_latency()
            && paired_estimate(&pairs).is_some_and(|ratio| ratio < 1.0 - WORTHWHILE_GAIN)
            && paired_ratio_at(&pairs, CONFIDENCE, SEED).is_some_and(|ratio| ratio.high < 1.0)
    }
}

/// What can be said of a candidate against the default scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, beyond the noise.
    Better,
    /// Worse, beyond the noise.
    Worse,
    /// The difference is no larger than the noise makes it.
    WithinNoise,
    /// Too few rounds, or a round without figures: there is no interval.
    #[default]
    TooFewRounds,
}

/// A candidate against the default scheduler, by one objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// The candidate's name.
    pub name: String,
    /// The ratio to the default scheduler, without an interval where there are too
    /// few rounds for one. More is better, for latencies too (it is inverted).
    pub score: Option<f64>,
    /// The same with its 95 % interval, of this candidate by itself.
    pub interval: Option<Interval>,
    /// The chance of such a difference by noise alone, corrected for the number of
    /// candidates (Holm); of a few rounds see the head of this file.
    pub p_adjusted: Option<f64>,
    /// What that comes to.
    pub verdict: Verdict,
    /// Whether it serves fewer requests than the default scheduler, where latency is what
    /// counts: it is not preferred then, however short the latency.
    #[serde(default)]
    pub serves_less: bool,
}

/// How to choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChooseOptions {
    /// What the preferred scheduler is to be best at.
    pub objective: Objective,
    /// How long it would stay in force each time, for what switching costs; absent
    /// where it would stay for good.
    pub slice: Option<Duration>,
}

/// What came of the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A candidate is better than the default scheduler.
    Better,
    /// No candidate is better than the default scheduler beyond the noise.
    NoneBetter,
    /// A candidate is better, but switching to it takes as long as its turn.
    SwitchingTakesAll,
    /// A candidate has shorter latencies, but serves fewer requests.
    ServesLess,
    /// There are too few rounds to tell.
    #[default]
    TooFewRounds,
}

/// The preferred scheduler, and how sure that is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The preferred scheduler's name: the default's where none is better.
    pub preferred: String,
    /// What came of the choice.
    pub outcome: Outcome,
    /// By what was chosen.
    pub objective: Objective,
    /// Between 0 and 1. For a candidate: how sure it is that it is better than the
    /// default, corrected for the number of candidates. For the default: how sure
    /// it is that no candidate is better by more than [`WORTHWHILE_GAIN`].
    pub confidence: f64,
    /// The preferred scheduler's ratio to the default (more is better), with an
    /// interval that is wide enough to hold although the best of several was
    /// picked (Bonferroni). Absent where the default is preferred.
    pub ratio: Option<Interval>,
    /// How many candidates were compared with the default.
    pub compared: usize,
    /// All candidates, in the order given.
    pub candidates: Vec<Assessment>,
}

impl Choice {
    /// The choice in a sentence.
    pub fn sentence(&self) -> String {
        let name = &self.preferred;
        // Rounded down, so that nothing is ever said to be surer than it is.
        let sure = match self.confidence {
            c if c > 0.999 => "more than 99.9 %".to_owned(),
            c => format!("{:.0} %", (c * 100.0).floor()),
        };
        match (self.outcome, self.ratio) {
            (Outcome::Better, Some(ratio)) => {
                format!("{name}: {} ({sure} sure that it is better)", self.objective.phrase(ratio))
            }
            (Outcome::TooFewRounds, _) => format!("{name}: too few rounds to tell; profile longer"),
            (Outcome::ServesLess, _) => {
                format!("{name}: another has shorter latencies, but serves fewer requests")
            }
            (Outcome::SwitchingTakesAll, _) => format!(
                "{name}: another is better, but switching to it takes as long as its turn; \
                 take longer turns"
            ),
            _ => {
                let gain = format!("by more than {:.0} %", WORTHWHILE_GAIN * 100.0);
                let how_sure = match self.confidence < 0.5 {
                    true => format!("; one may be better {gain}: profile longer to tell"),
                    false => format!(" ({sure} sure that none is better {gain})"),
                };
                format!(
                    "{name}: no scheduler is better than the default beyond the noise{how_sure}"
                )
            }
        }
    }
}

/// Compares every candidate with the default scheduler by `objective`.
pub fn assess(candidates: &[CandidateRounds], objective: Objective) -> Vec<Assessment> {
    let ratios: Vec<Option<PairedRatio>> =
        candidates.iter().map(|c| PairedRatio::new(&c.pairs(objective), SEED)).collect();
    // Of whom there are too few rounds, they may be too few since the first looked bad: they count
    // among those of which the best was picked.
    let p_value = |(candidate, ratio): (&CandidateRounds, &Option<PairedRatio>)| {
        let noise = noise_beside(candidate, candidates, objective);
        let beside = noise.and_then(|noise| noise.p_value(&candidate.pairs(objective)));
        beside.or_else(|| ratio.as_ref().map(PairedRatio::p_value)).unwrap_or(1.0)
    };
    let adjusted = holm(&candidates.iter().zip(&ratios).map(p_value).collect::<Vec<_>>());
    candidates
        .iter()
        .zip(ratios)
        .zip(adjusted)
        .map(|((candidate, ratio), adjusted)| {
            let p_adjusted = ratio.as_ref().map(|r| adjusted.max(r.p_value()));
            let interval = ratio.and_then(|r| r.interval(CONFIDENCE));
            let verdict = match (interval, p_adjusted) {
                (Some(i), _) if i.n < MIN_ROUNDS => Verdict::TooFewRounds,
                (Some(i), Some(p)) if p < 1.0 - CONFIDENCE => {
                    if i.estimate > 1.0 {
                        Verdict::Better
                    } else {
                        Verdict::Worse
                    }
                }
                (Some(_), Some(_)) => Verdict::WithinNoise,
                _ => Verdict::TooFewRounds,
            };
            let score = candidate.estimate(objective);
            let serves_less = candidate.serves_less(objective);
            let name = candidate.name.clone();
            Assessment { name, score, interval, p_adjusted, verdict, serves_less }
        })
        .collect()
}

/// Chooses the preferred scheduler among `default` and the candidates; see the
/// head of this file for the rule.
pub fn choose(default: &str, candidates: &[CandidateRounds], options: ChooseOptions) -> Choice {
    choose_simplest(default, candidates, |_| 0, options).0
}

/// As [`choose`], but of those that are about as good as the best, within
/// [`WORTHWHILE_GAIN`], the least complex is preferred; `complexity` tells that of the
/// candidate at a place. Gives the place of the preferred one as well.
pub(crate) fn choose_simplest(
    default: &str,
    candidates: &[CandidateRounds],
    complexity: impl Fn(usize) -> u8,
    options: ChooseOptions,
) -> (Choice, Option<usize>) {
    let assessments = assess(candidates, options.objective);
    let compared = assessments.iter().filter(|a| a.verdict != Verdict::TooFewRounds).count();
    let better = || assessments.iter().filter(|a| a.verdict == Verdict::Better);
    let gains: Vec<(usize, f64)> = candidates
        .iter()
        .zip(&assessments)
        .enumerate()
        .filter(|(_, (_, a))| a.verdict == Verdict::Better && !a.serves_less)
        .map(|(at, (c, a))| (at, effective_gain(c, a, options.slice)))
        .filter(|(_, gain)| *gain > 0.0)
        .collect();
    let most = gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    let best = gains
        .iter()
        .filter(|(_, gain)| (1.0 + gain) * (1.0 + WORTHWHILE_GAIN) >= 1.0 + most)
        .min_by(|a, b| complexity(a.0).cmp(&complexity(b.0)).then(b.1.total_cmp(&a.1)))
        .map(|(at, _)| *at);
    let choice = Choice {
        preferred: default.to_owned(),
        outcome: Outcome::NoneBetter,
        objective: options.objective,
        confidence: 0.0,
        ratio: None,
        compared,
        candidates: Vec::new(),
    };
    let choice = match best {
        Some(at) => {
            let (candidate, assessment) = (&candidates[at], &assessments[at]);
            Choice {
                preferred: candidate.name.clone(),
                outcome: Outcome::Better,
                confidence: 1.0 - assessment.p_adjusted.unwrap_or(1.0),
                ratio: corrected_interval(candidates, at, assessment, options.objective),
                ..choice
            }
        }
        None if better().any(|a| !a.serves_less) => {
            Choice { outcome: Outcome::SwitchingTakesAll, ..choice }
        }
        None if better().any(|a| a.serves_less) => {
            Choice { outcome: Outcome::ServesLess, ..choice }
        }
        None if compared == 0 => Choice { outcome: Outcome::TooFewRounds, ..choice },
        None => Choice { confidence: none_is_worthwhile(candidates, options), ..choice },
    };
    (Choice { candidates: assessments, ..choice }, best)
}

/// The noise of one run, by which a candidate of a few rounds is judged: that of all that were
/// measured beside it; it is one of `all` itself. Absent where its rounds are enough, or nobody
/// shares them.
fn noise_beside(
    candidate: &CandidateRounds,
    all: &[CandidateRounds],
    objective: Objective,
) -> Option<BlockNoise> {
    if !(MIN_ROUNDS..FEW_ROUNDS).contains(&candidate.rounds.len()) {
        return None;
    }
    let in_round = |c: &CandidateRounds, number: u64| {
        let round = c.rounds.iter().find(|round| round.number == number)?;
        Some(objective.score(round.candidate))
    };
    let shared = |c: &CandidateRounds| {
        candidate.rounds.iter().filter(|round| in_round(c, round.number).is_some()).count()
    };
    let mut beside: Vec<(usize, &CandidateRounds)> = all
        .iter()
        .filter(|c| !std::ptr::eq(*c, candidate))
        .filter(|c| c.estimate(objective).is_some())
        .map(|c| (shared(c), c))
        .filter(|(shared, _)| *shared >= MIN_ROUNDS)
        .collect();
    beside.sort_by_key(|(shared, _)| Reverse(*shared));
    let blocks = |others: usize| -> Vec<Vec<f64>> {
        let figures = |round: &Round| -> Option<Vec<f64>> {
            let own = [objective.score(round.default), objective.score(round.candidate)];
            let others = beside[..others].iter().map(|(_, c)| in_round(c, round.number));
            own.into_iter().map(Some).chain(others).collect()
        };
        candidate.rounds.iter().filter_map(figures).collect()
    };
    // The more there are, the fewer are the rounds that all of them share: as many as tell most.
    let most = (1..=beside.len()).map(blocks).max_by_key(|blocks| {
        blocks.len().saturating_sub(1) * blocks.first().map_or(0, Vec::len).saturating_sub(1)
    })?;
    BlockNoise::new(&most)
}

/// The ratio of the candidate at a place with an interval that holds although the best of them
/// all was picked (Bonferroni); of a few rounds it holds the one that is its own as well.
fn corrected_interval(
    candidates: &[CandidateRounds],
    at: usize,
    assessment: &Assessment,
    objective: Objective,
) -> Option<Interval> {
    let confidence = 1.0 - (1.0 - CONFIDENCE) / candidates.len() as f64;
    let pairs = candidates[at].pairs(objective);
    let Some(noise) = noise_beside(&candidates[at], candidates, objective) else {
        return paired_ratio_at(&pairs, confidence, SEED);
    };
    let (all, own) = (noise.interval(&pairs, confidence)?, assessment.interval?);
    Some(Interval { low: all.low.min(own.low), high: all.high.max(own.high), ..all })
}

/// The gain over the default that is left after switching.
fn effective_gain(
    candidate: &CandidateRounds,
    assessment: &Assessment,
    slice: Option<Duration>,
) -> f64 {
    let gain = assessment.score.map_or(0.0, |score| score - 1.0);
    let lost = slice.map_or(0.0, |slice| switching_share(candidate.switching, slice));
    gain * (1.0 - lost)
}

/// How sure it is that no candidate is better by more than [`WORTHWHILE_GAIN`].
/// All of them must be below it, so the least sure of them decides, and no
/// correction for their number is due (R. L. Berger, "Multiparameter hypothesis
/// testing and acceptance sampling", 1982: the intersection-union test).
fn none_is_worthwhile(candidates: &[CandidateRounds], options: ChooseOptions) -> f64 {
    let worst = candidates
        .iter()
        .filter_map(|c| {
            let pairs = c.pairs(options.objective);
            if pairs.len() < MIN_ROUNDS {
                return None;
            }
            paired_tails(&pairs, 1.0 + WORTHWHILE_GAIN, SEED).map(|t| t.below)
        })
        .fold(0.0, f64::max);
    1.0 - worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const OPTIONS: ChooseOptions = ChooseOptions { objective: Objective::Throughput, slice: None };

    fn noise(rng: &mut ChaCha8Rng) -> f64 {
        // The sum of twelve uniform numbers is nearly normal with deviation 1.
        let normal: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        (0.02 * normal).exp()
    }

    /// `rounds` rounds of a candidate whose throughput is `ratio` times the
    /// default's and whose p99 is `p99` times it, under 2 % of noise.
    fn candidate(
        name: &str,
        ratio: f64,
        p99: f64,
        rounds: usize,
        rng: &mut ChaCha8Rng,
    ) -> CandidateRounds {
        let rounds = (0..rounds as u64)
            .map(|number| Round {
                number,
                candidate: Sample::new(500.0 * ratio * noise(rng), 9e3 * p99 * noise(rng)),
                default: Sample::new(500.0 * noise(rng), 9e3 * noise(rng)),
            })
            .collect();
        CandidateRounds::new(name, rounds)
    }

    #[test]
    fn a_clearly_better_scheduler_is_preferred_and_the_worse_named_so() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let c = [
            candidate("fifo", 1.15, 0.9, 6, &mut rng),
            candidate("vtime", 1.0, 1.0, 6, &mut rng),
            candidate("scx_rustland", 0.7, 2.0, 6, &mut rng),
        ];
        let choice = choose("eevdf", &c, OPTIONS);
        assert_eq!((choice.preferred.as_str(), choice.outcome), ("fifo", Outcome::Better));
        assert!(choice.confidence > 0.95, "{}", choice.sentence());
        let verdicts: Vec<Verdict> = choice.candidates.iter().map(|a| a.verdict).collect();
        assert_eq!(verdicts, [Verdict::Better, Verdict::WithinNoise, Verdict::Worse]);
        let (wide, alone) = (choice.ratio.unwrap(), choice.candidates[0].interval.unwrap());
        assert!(wide.low < alone.low && wide.high > alone.high, "corrected for three candidates");
        assert!(choice.sentence().starts_with("fifo: throughput +1"), "{}", choice.sentence());
    }

    #[test]
    fn noise_among_seven_equal_schedulers_rarely_looks_like_a_preference() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        const EXPERIMENTS: usize = 100;
        let fooled = (0..EXPERIMENTS)
            .filter(|_| {
                let c: Vec<_> =
                    (0..7).map(|i| candidate(&i.to_string(), 1.0, 1.0, 5, &mut rng)).collect();
                choose("eevdf", &c, OPTIONS).outcome != Outcome::NoneBetter
            })
            .count();
        // 2.5 are expected at most; without the correction it would be about 15.
        assert!(fooled <= 7, "{fooled} of {EXPERIMENTS}");
    }

    /// Eleven candidates as a small budget leaves them: one round each, and four of the three
    /// that looked best in it. The noise of the first is so many times that of others.
    fn eleven_of_which_three_go_on(
        best: f64,
        noisier: i32,
        rng: &mut ChaCha8Rng,
    ) -> Vec<CandidateRounds> {
        let defaults: Vec<Sample> = (0..4).map(|_| Sample::new(noise(rng), f64::NAN)).collect();
        let mut all: Vec<CandidateRounds> = (0..11)
            .map(|place| {
                let (ratio, power) = if place == 0 { (best, noisier) } else { (1.0, 1) };
                let round = |(number, default): (usize, &Sample)| Round {
                    number: number as u64,
                    candidate: Sample::new(ratio * noise(rng).powi(power), f64::NAN),
                    default: *default,
                };
                let rounds = defaults.iter().enumerate().map(round).collect();
                CandidateRounds::new(place.to_string(), rounds)
            })
            .collect();
        let first = |c: &CandidateRounds| c.rounds[0].candidate.throughput_per_s;
        let mut ranked: Vec<f64> = all.iter().map(first).collect();
        ranked.sort_by(|a, b| b.total_cmp(a));
        for candidate in &mut all {
            if first(candidate) < ranked[2] {
                candidate.rounds.truncate(1);
            }
        }
        all
    }

    #[test]
    fn of_eleven_candidates_and_four_rounds_of_three_the_best_is_preferred() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let (mut found, mut alone) = (0, 0);
        for _ in 0..100 {
            let c = eleven_of_which_three_go_on(1.1, 1, &mut rng);
            let choice = choose("eevdf", &c, OPTIONS);
            found += usize::from(choice.preferred == "0");
            if let Some(ratio) = choice.ratio {
                let own = choice.candidates[0].interval.unwrap();
                assert!(ratio.low <= own.low && own.high <= ratio.high, "{ratio:?} {own:?}");
                // What is said to be better is so by the interval that is shown.
                assert!(own.low > 1.0, "{own:?}");
            }
            let p = paired_ratio_at(&c[0].pairs(Objective::Throughput), 1.0 - 0.05 / 11.0, SEED);
            alone += usize::from(p.is_some_and(|interval| interval.low > 1.0));
        }
        assert!(found >= 85 && alone <= 60, "{found}, by its own rounds alone {alone}");
    }

    #[test]
    fn what_was_measured_in_other_rounds_changes_nothing_but_the_number_of_candidates() {
        let mut rng = ChaCha8Rng::seed_from_u64(13);
        let mut found = 0;
        for _ in 0..100 {
            let mut c = eleven_of_which_three_go_on(1.12, 1, &mut rng);
            // Turns and lanes, in a later session.
            for place in 0..5 {
                let mut later = candidate(&format!("lanes {place}"), 1.0, 1.0, 3, &mut rng);
                later.rounds.iter_mut().for_each(|round| round.number += 100);
                c.insert(place, later);
            }
            found += usize::from(choose("eevdf", &c, OPTIONS).preferred == "0");
        }
        assert!(found >= 85, "{found}");
    }

    #[test]
    fn of_eleven_equal_candidates_and_four_rounds_of_three_rarely_one_is_preferred() {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        // With one that is four times as noisy as the others, and so most often looks best.
        for noisier in [1, 4] {
            let fooled = (0..200)
                .filter(|_| {
                    let c = eleven_of_which_three_go_on(1.0, noisier, &mut rng);
                    choose("eevdf", &c, OPTIONS).outcome == Outcome::Better
                })
                .count();
            // 5 % are promised; so many in 200 are 2.5 standard errors more.
            assert!(fooled <= 17, "{fooled} of 200, the first {noisier} times as noisy");
        }
    }

    #[test]
    fn the_default_is_preferred_with_more_confidence_the_more_rounds_there_are() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut at = |rounds| {
            let c = [candidate("fifo", 0.99, 1.0, rounds, &mut rng)];
            let choice = choose("eevdf", &c, OPTIONS);
            assert_eq!(choice.preferred, "eevdf");
            assert!(choice.sentence().contains("no scheduler is better"), "{}", choice.sentence());
            choice.confidence
        };
        let (few, many) = (at(3), at(30));
        assert!(few < many && many > 0.99, "{few} {many}");
    }

    #[test]
    fn where_the_rounds_contradict_each_other_it_says_that_one_may_be_better() {
        let sentence_for = |ratios: [f64; 3]| {
            let round = |(number, ratio): (usize, f64)| Round {
                number: number as u64,
                candidate: Sample::new(ratio, f64::NAN),
                default: Sample::new(1.0, f64::NAN),
            };
            let rounds = ratios.into_iter().enumerate().map(round).collect();
            choose("eevdf", &[CandidateRounds::new("fifo", rounds)], OPTIONS).sentence()
        };
        let may_be = sentence_for([0.9, 1.3, 1.05]);
        assert!(may_be.ends_with("; one may be better by more than 2 %: profile longer to tell"));
        let none = sentence_for([0.985, 1.005, 0.995]);
        assert!(none.ends_with(" sure that none is better by more than 2 %)"), "{none}");
    }

    #[test]
    fn one_round_is_too_few_to_prefer_anything() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let choice = choose("eevdf", &[candidate("fifo", 2.0, 0.5, 1, &mut rng)], OPTIONS);
        assert_eq!((choice.preferred.as_str(), choice.outcome), ("eevdf", Outcome::TooFewRounds));
        assert_eq!(choice.candidates[0].verdict, Verdict::TooFewRounds);
        assert!(choice.candidates[0].score.is_some(), "the estimate is still shown");
        assert_eq!(choose("eevdf", &[], OPTIONS).outcome, Outcome::TooFewRounds);
    }

    #[test]
    fn two_rounds_that_agree_exactly_are_no_proof() {
        let sample = |throughput_per_s| Sample::new(throughput_per_s, 1.0);
        let round = Round { number: 0, candidate: sample(2.0), default: sample(12.0) };
        let of = |rounds| CandidateRounds::new("fifo", vec![round; rounds]);
        assert_eq!(assess(&[of(2)], Objective::Throughput)[0].verdict, Verdict::TooFewRounds);
        assert_eq!(assess(&[of(3)], Objective::Throughput)[0].verdict, Verdict::Worse);
    }

    #[test]
    fn the_objective_decides_between_throughput_and_tail_latency() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let c =
            [candidate("busy", 1.2, 1.5, 8, &mut rng), candidate("calm", 0.95, 0.6, 8, &mut rng)];
        let preferred = |objective: &str| {
            let objective = objective.parse().unwrap();
            choose("eevdf", &c, ChooseOptions { objective, ..OPTIONS }).preferred
        };
        assert_eq!(preferred("throughput"), "busy");
        assert_eq!(preferred("p99"), "calm");
        assert_eq!(preferred("mix:1"), "busy");
        assert_eq!(preferred("mix:0"), "calm");
    }

    #[test]
    fn of_shorter_latencies_a_loss_of_requests_that_is_worth_a_change_is_not_the_price() {
        let served_by = |shares: [f64; 2]| {
            let round = |number: u64| Round {
                number,
                candidate: Sample {
                    served_per_s: 1000.0 * shares[number as usize % 2],
                    ..Sample::new(900.0, 4e3)
                },
                default: Sample { served_per_s: 1000.0, ..Sample::new(900.0, 9e3) },
            };
            let c = [CandidateRounds::new("calm", (0..8).map(round).collect())];
            let objective = Objective::Service;
            choose("eevdf", &c, ChooseOptions { objective, ..OPTIONS }).outcome
        };
        let served = |share| served_by([share, share]);
        assert_eq!(served(1.0), Outcome::Better);
        // Each round says so, to the last digit.
        assert_eq!(served(0.985), Outcome::Better);
        assert_eq!(served(0.975), Outcome::ServesLess);
        // As much in the mean, and it may be chance.
        assert_eq!(served_by([0.93, 1.022]), Outcome::Better);
    }

    #[test]
    fn a_scheduler_that_takes_long_to_switch_to_loses_to_one_that_is_nearly_as_good() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let mut slow = candidate("scx_slow", 1.2, 1.0, 8, &mut rng);
        slow.switching = Duration::from_millis(1000);
        let quick = candidate("quick", 1.15, 1.0, 8, &mut rng);
        let c = [slow, quick];
        let preferred = |slice_ms: Option<u64>| {
            let slice = slice_ms.map(Duration::from_millis);
            choose("eevdf", &c, ChooseOptions { slice, ..OPTIONS }).preferred
        };
        assert_eq!(preferred(None), "scx_slow");
        assert_eq!(preferred(Some(60_000)), "scx_slow");
        assert_eq!(preferred(Some(1800)), "quick");
        let slice = Some(Duration::from_millis(900));
        let choice = choose("eevdf", &c[..1], ChooseOptions { slice, ..OPTIONS });
        assert_eq!(
            (choice.preferred.as_str(), choice.outcome),
            ("eevdf", Outcome::SwitchingTakesAll)
        );
        assert!(choice.sentence().contains("longer turns"), "{}", choice.sentence());
    }

    #[test]
    fn a_round_without_figures_takes_its_candidate_out_and_no_other() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut broken = candidate("broken", 1.5, 1.0, 6, &mut rng);
        broken.rounds[2].candidate.throughput_per_s = 0.0;
        let c = [broken, candidate("fifo", 1.1, 1.0, 6, &mut rng)];
        let choice = choose("eevdf", &c, OPTIONS);
        assert_eq!(choice.candidates[0].verdict, Verdict::TooFewRounds);
        assert_eq!((choice.preferred.as_str(), choice.compared), ("fifo", 1));
    }
}
