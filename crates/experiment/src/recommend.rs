//! What to do with an application: nothing, one scheduler, turns or lanes.

use std::collections::BTreeMap;

use metasched_stats::Interval;
use serde::{Deserialize, Serialize};

use crate::choose::{CandidateRounds, ChooseOptions, Outcome, Verdict, choose_simplest};
use crate::contender::Contender;
use crate::objective::Objective;
use crate::plan::{AppPlan, Confidence, Measured, PlanOptions, Whole, confidence};

/// What the evidence puts first, beyond the noise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recommendation {
    /// What is to be in force; absent where that is the default scheduler.
    pub contender: Option<Contender>,
    /// By what it was judged.
    pub objective: Objective,
    /// How sure that is.
    #[serde(flatten)]
    pub sure: Confidence,
    /// Its ratio to the default scheduler by the objective, more being better, with an
    /// interval that is wide enough for the best of several.
    pub ratio: Option<Interval>,
    /// What was not measured and might be better.
    pub not_measured: Vec<String>,
    /// The cgroups of each part that is to have a lane, where they are known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cgroups: BTreeMap<String, Vec<String>>,
    /// The command that carries it out; empty where there is nothing to do.
    pub command: String,
}

/// Recommends by what the whole did, since that is what runs; by its part where there is but
/// one. Parts whose preferences differ say nothing of what they do together.
pub(crate) fn recommend(
    measured: &Measured,
    apps: &[AppPlan],
    options: PlanOptions,
) -> Recommendation {
    match (&measured.whole, apps) {
        (Some(whole), _) if !whole.candidates.is_empty() || !whole.metaschedulers.is_empty() => {
            by_whole(whole, &measured.default, options)
        }
        (_, [app]) => by_part(app, &measured.default),
        (_, apps) => by_parts(apps, &measured.default),
    }
}

fn by_whole(whole: &Whole, default: &str, options: PlanOptions) -> Recommendation {
    let objective = options.objective.unwrap_or(whole.objective);
    let (contenders, rounds): (Vec<Contender>, Vec<CandidateRounds>) = whole.contenders().unzip();
    let (choice, place) = choose_simplest(
        default,
        &rounds,
        |at| contenders[at].complexity(),
        ChooseOptions { objective, slice: None },
    );
    let mut not_measured = Vec::new();
    let has = |turns: bool| {
        whole.metaschedulers.iter().any(|(c, _)| c.base_slice_ms().is_some() == turns)
    };
    for (turns, what) in [(true, "turns"), (false, "lanes side by side")] {
        if !has(turns) {
            not_measured.push(what.to_owned());
        }
    }
    let few = choice.candidates.iter().filter(|a| a.verdict == Verdict::TooFewRounds);
    not_measured.extend(few.map(|a| format!("{} (too few rounds)", a.name)));
    Recommendation {
        contender: place.map(|at| contenders[at].clone()),
        objective,
        sure: confidence(&choice),
        ratio: choice.ratio,
        not_measured,
        ..Recommendation::default()
    }
}

/// What one part alone prefers is what to do.
fn by_part(app: &AppPlan, default: &str) -> Recommendation {
    Recommendation {
        contender: (app.preferred != default).then(|| Contender::scheduler(&app.preferred)),
        objective: app.objective,
        sure: app.sure.clone(),
        ..Recommendation::default()
    }
}

fn by_parts(apps: &[AppPlan], default: &str) -> Recommendation {
    let first = &apps[0].preferred;
    let agree = apps.iter().all(|app| app.preferred == *first);
    let (sentence, contender) = match agree {
        true if first == default => (format!("{default}: no part prefers another"), None),
        true => {
            (format!("{first}: each part prefers it, alone"), Some(Contender::scheduler(first)))
        }
        false => {
            let said = "the parts prefer different schedulers, and together they were not measured";
            (format!("{default}: {said}"), None)
        }
    };
    let least = apps.iter().map(|app| app.sure.confidence).fold(1.0, f64::min);
    let outcome = match (agree, &contender) {
        (false, _) => Outcome::TooFewRounds,
        (true, Some(_)) => Outcome::Better,
        (true, None) => Outcome::NoneBetter,
    };
    Recommendation {
        contender,
        sure: Confidence { confidence: if agree { least } else { 0.0 }, outcome, sentence },
        not_measured: vec!["the whole application".to_owned()],
        objective: Objective::Parts,
        ..Recommendation::default()
    }
}
