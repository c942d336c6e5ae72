//! What a recommendation is worth, by seeds that it never saw.

use std::time::Instant;

use metasched_base::{Interrupt, Result};
use metasched_experiment::{
    Bed, CandidateRounds, Contender, Effort, Objective, Recommendation, Round, Rules, SeededBed,
    WHOLE, assess, settle,
};
use metasched_simbed::{Arrangement, ScenarioBed, Setup, Simulated, Tuning};
use metasched_stats::{Interval, paired_ratio};
use serde::Serialize;

/// The first seeds of those who find the best, and of those who judge.
const FINDING: u64 = 1_000_000;
const JUDGING: u64 = 2_000_000;
/// Runs of each contender while the best is found, and of the few that are left of them.
const FINDING_RUNS: u32 = 8;
const FINDING_MOST: u32 = 64;
/// Who is further than this from the best of the tuning is not looked at again.
const NEAR: f64 = 0.9;
/// Runs that judge.
const JUDGES: u32 = 64;
/// Runs that judge one way against another.
const JUDGES_OF_WAYS: u32 = 24;
/// All workloads are judged by what each application is for.
const OBJECTIVE: Objective = Objective::Parts;
/// Of the resampling behind intervals.
const BOOTSTRAP_SEED: u64 = 1;

/// A recommendation, judged.
#[derive(Serialize)]
pub struct Judged {
    /// The workload's name.
    pub workload: String,
    /// What was recommended: nothing, one scheduler, turns or lanes; and its name.
    pub kind: &'static str,
    pub recommended: String,
    /// What is best.
    pub best: String,
    /// The objective under the recommended one, over that under the best.
    pub of_the_best: Interval,
    /// The objective under the recommended one, over that under the default scheduler.
    pub recommended_over_default: f64,
    /// Runs that the tuning made, and seconds that it took here.
    pub runs: u64,
    pub seconds: f64,
}

/// The best of each way, by its objective over the default scheduler's.
pub struct Ways {
    pub single: f64,
    pub turns: Option<f64>,
    pub lanes: Option<f64>,
}

/// A contender with its rounds; the default scheduler is one without rounds of its own.
struct Known {
    contender: Option<Contender>,
    rounds: Vec<Round>,
}

impl Known {
    fn name(&self, default: &str) -> String {
        let name = |contender: &Contender| match contender {
            Contender::Scheduler { .. } => contender.to_string(),
            several => format!("{several} ({})", several.assignments()),
        };
        self.contender.as_ref().map_or_else(|| default.to_owned(), name)
    }

    /// The objective over the default scheduler's; of what serves fewer requests there is none.
    fn score(&self) -> Option<f64> {
        let Some(contender) = &self.contender else { return Some(1.0) };
        let rounds = CandidateRounds::new(contender.to_string(), self.rounds.clone());
        let assessment = assess(&[rounds], OBJECTIVE).pop()?;
        assessment.score.filter(|_| !assessment.serves_less)
    }
}

fn no_command(_: &Arrangement, _: Option<&str>, seed: u64) -> String {
    format!("seed {seed} of this bench")
}

/// Simulates the whole under these, with seeds from `first` on.
fn simulated(
    setup: &Setup,
    first: u64,
    contenders: &[Contender],
    runs: u32,
    most: u32,
    interrupt: &Interrupt,
) -> Result<Vec<Known>> {
    let rules = Rules::exactly(runs);
    let mut bed = SeededBed::new(Simulated::new(setup, &no_command, interrupt), first);
    bed.measure(&[WHOLE.to_owned()], contenders, &Effort { rules, budget: None })?;
    settle(&mut bed, WHOLE, runs, most, None)?;
    known(&mut bed)
}

/// What a bed knows of the whole.
fn known(bed: &mut ScenarioBed) -> Result<Vec<Known>> {
    let whole = bed.measured()?.whole.unwrap_or_default();
    let known = |(contender, rounds): (Contender, CandidateRounds)| Known {
        contender: Some(contender),
        rounds: rounds.rounds,
    };
    Ok(whole.contenders().map(known).collect())
}

/// Every contender that a tuning has measured of the whole.
fn tuned(
    setup: &Setup,
    tuning: &Tuning,
    interrupt: &Interrupt,
) -> Result<(Recommendation, Vec<Known>, u64)> {
    let mut bed = Simulated::new(setup, &no_command, interrupt).bed();
    let recommendation = match tuning.tune(&mut bed) {
        Ok(tuned) => tuned.recommendation,
        // Parts that all prefer the default scheduler have nothing to take turns for.
        Err(error) if error.kind == metasched_base::Kind::BadInput => {
            tuning.plan(&mut bed, true)?.recommendation.unwrap_or_default()
        }
        Err(error) => return Err(error),
    };
    Ok((recommendation, known(&mut bed)?, bed.made()))
}

/// Tunes a workload, and judges what is recommended.
///
/// # Errors
/// When a run fails.
pub fn judge(setup: &Setup, tuning: &Tuning, interrupt: &Interrupt) -> Result<Judged> {
    let began = Instant::now();
    let (recommendation, known, runs) = tuned(setup, tuning, interrupt)?;
    let seconds = began.elapsed().as_secs_f64();
    let most = known.iter().filter_map(Known::score).fold(1.0, f64::max);
    let near = known.into_iter().filter(|k| k.score().is_some_and(|score| score > NEAR * most));
    let contenders: Vec<Contender> = near.filter_map(|known| known.contender).collect();
    let found = simulated(setup, FINDING, &contenders, FINDING_RUNS, FINDING_MOST, interrupt)?;
    let none = Known { contender: None, rounds: Vec::new() };
    let best = found
        .into_iter()
        .filter_map(|known| Some((known.score()?, known)))
        .filter(|(score, _)| *score > 1.0)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(none, |(_, known)| known);
    let of_both: Vec<Contender> =
        [&best.contender, &recommendation.contender].into_iter().flatten().cloned().collect();
    let default = Simulated::new(setup, &no_command, interrupt).bed().about().default.clone();
    let mut judged = Vec::new();
    if !of_both.is_empty() {
        judged = simulated(setup, JUDGING, &of_both, JUDGES, JUDGES, interrupt)?;
    }
    let scores = |wanted: &Option<Contender>| -> Vec<f64> {
        let known = judged.iter().find(|known| known.contender == *wanted);
        let any = known.or(judged.first());
        any.map_or_else(Vec::new, |any| {
            let side =
                |round: &Round| if known.is_some() { round.candidate } else { round.default };
            any.rounds.iter().map(|round| OBJECTIVE.score(side(round))).collect()
        })
    };
    let ratio = |a: &Option<Contender>, b: &Option<Contender>| {
        let pairs: Vec<(f64, f64)> = scores(a).into_iter().zip(scores(b)).collect();
        let same = Interval { estimate: 1.0, low: 1.0, high: 1.0, n: JUDGES as usize };
        if a == b { Some(same) } else { paired_ratio(&pairs, BOOTSTRAP_SEED) }
    };
    let wanted = recommendation.contender;
    let unknown = Interval { estimate: f64::NAN, low: f64::NAN, high: f64::NAN, n: 0 };
    let kind = match &wanted {
        None => "nothing",
        Some(Contender::Scheduler { .. }) => "one scheduler",
        Some(Contender::Turns { .. }) => "turns",
        Some(Contender::Lanes { .. }) => "lanes",
    };
    Ok(Judged {
        workload: setup.file.name.clone(),
        kind,
        of_the_best: ratio(&wanted, &best.contender).unwrap_or(unknown),
        recommended_over_default: ratio(&wanted, &None).unwrap_or(unknown).estimate,
        recommended: Known { contender: wanted, rounds: Vec::new() }.name(&default),
        best: best.name(&default),
        runs,
        seconds,
    })
}

/// Tunes a workload, and gives the best of each way by seeds that the tuning never saw.
///
/// # Errors
/// When a run fails.
pub fn ways(setup: &Setup, tuning: &Tuning, interrupt: &Interrupt) -> Result<Ways> {
    let (_, known, _) = tuned(setup, tuning, interrupt)?;
    let best = |is: &dyn Fn(&Contender) -> bool| {
        let own = known.iter().filter(|k| k.contender.as_ref().is_some_and(is));
        own.filter_map(|k| Some((k.score()?, k.contender.clone()?)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, contender)| contender)
    };
    let single = best(&|c| matches!(c, Contender::Scheduler { .. }));
    let turns = best(&|c| matches!(c, Contender::Turns { .. }));
    let lanes = best(&|c| matches!(c, Contender::Lanes { .. }));
    let all: Vec<Contender> = [&single, &turns, &lanes].into_iter().flatten().cloned().collect();
    let judged = match all.as_slice() {
        [] => Vec::new(),
        all => simulated(setup, JUDGING, all, JUDGES_OF_WAYS, JUDGES_OF_WAYS, interrupt)?,
    };
    let score = |wanted: &Option<Contender>| {
        let known = judged.iter().find(|known| known.contender == *wanted && wanted.is_some())?;
        let rounds = CandidateRounds::new("", known.rounds.clone());
        rounds.estimate(OBJECTIVE)
    };
    // The default scheduler is a single one, too.
    let single = score(&single).unwrap_or(1.0).max(1.0);
    Ok(Ways { single, turns: score(&turns), lanes: score(&lanes) })
}
