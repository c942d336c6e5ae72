//! Which schedulers take turns or run side by side, under a mechanism that cannot carry
//! all of them.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result};

use crate::contender::Share;
use crate::plan::{AppPlan, Estimate, Plan};
use crate::{AppFigures, BenefitForm, Strategy, rounded, weights};

/// The schedulers of a cycle of turns, in the order of the parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// The parts, each with its scheduler.
    pub turns: Vec<PartTurn>,
    /// What is not as the plan prefers it, and why.
    pub notes: Vec<String>,
}

/// A part's turn.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTurn {
    /// The part's name.
    pub app: String,
    /// The scheduler's name.
    pub scheduler: String,
    /// The part's throughput under it, as a ratio to the default scheduler's.
    pub throughput: f64,
    /// The part's mean latency alone under the default scheduler, in microseconds.
    pub eevdf_latency_us: Option<f64>,
}

/// Decides whose turn has which scheduler: the one that was `asked` for, else the
/// preferred one if the mechanism can carry it (`possible`), else the one with the
/// best estimate that it can carry, be it within the noise, as the paper took it.
///
/// Turns between a scheduler and itself are none. Where all parts come to the same
/// one, the part that loses least by it takes its next best; the notes say so.
///
/// # Errors
///
/// [`Kind::BadInput`] if a part has no candidate that the mechanism can carry, or
/// something was asked for a part that there is not.
pub fn cycle(
    plan: &Plan,
    possible: impl Fn(&str) -> bool,
    asked: &BTreeMap<String, String>,
) -> Result<Cycle> {
    let Cycle { mut turns, mut notes } = side_by_side(plan, &possible, asked)?;
    if turns.len() > 1 && turns.iter().all(|t| t.scheduler == turns[0].scheduler) {
        let free = |app: &&AppPlan| !asked.contains_key(&app.name);
        part_ways(plan.apps.iter().filter(free), &plan.default, &mut turns, &possible, &mut notes);
    }
    Ok(Cycle { turns, notes })
}

/// As [`cycle`], for parts that run side by side: they may well have the same scheduler,
/// each on a lane of its own.
///
/// # Errors
///
/// As there.
pub fn side_by_side(
    plan: &Plan,
    possible: impl Fn(&str) -> bool,
    asked: &BTreeMap<String, String>,
) -> Result<Cycle> {
    if let Some(unknown) = asked.keys().find(|a| plan.apps.iter().all(|app| app.name != **a)) {
        let parts: Vec<&str> = plan.apps.iter().map(|a| a.name.as_str()).collect();
        return Err(Error::new(
            Kind::BadInput,
            format!("choose a scheduler for '{unknown}'"),
            format!("'{}' has no such part", plan.workload),
        )
        .remedy(format!("its parts are {}", parts.join(", "))));
    }
    let mut notes = Vec::new();
    let mut turns = Vec::new();
    for app in &plan.apps {
        turns.push(match asked.get(&app.name) {
            Some(name) => turn(app, &estimate(app, name)),
            None => preferred(app, &plan.default, &possible, &mut notes)?,
        });
    }
    Ok(Cycle { turns, notes })
}

fn turn(app: &AppPlan, of: &Estimate) -> PartTurn {
    PartTurn {
        app: app.name.clone(),
        scheduler: of.name.clone(),
        throughput: of.throughput,
        eevdf_latency_us: app.eevdf_latency_us,
    }
}

/// What is known of a scheduler on a part; one that was never measured there counts
/// like the default, which always is.
fn estimate(app: &AppPlan, name: &str) -> Estimate {
    let known = app.by_estimate.iter().find(|e| e.name == name).cloned();
    known.unwrap_or_else(|| Estimate { name: name.to_owned(), score: 1.0, throughput: 1.0 })
}

/// All that a part could run under, the best estimate first.
fn ranked(app: &AppPlan, default: &str) -> Vec<Estimate> {
    let mut all = app.by_estimate.clone();
    all.push(estimate(app, default));
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

fn preferred(
    app: &AppPlan,
    default: &str,
    possible: &impl Fn(&str) -> bool,
    notes: &mut Vec<String>,
) -> Result<PartTurn> {
    if possible(&app.preferred) {
        return Ok(turn(app, &estimate(app, &app.preferred)));
    }
    let Some(best) = ranked(app, default).into_iter().find(|e| possible(&e.name)) else {
        return Err(Error::new(
            Kind::BadInput,
            format!("give '{}' a turn", app.name),
            "it was measured under no scheduler that this mechanism can carry",
        )
        .remedy("use --mechanism swap, or profile it under fifo and vtime"));
    };
    notes.push(format!(
        "{} prefers {}, which this mechanism cannot carry; it takes {}",
        app.name, app.preferred, best.name
    ));
    Ok(turn(app, &best))
}

/// Gives one part its next best, so that there is something to switch between.
fn part_ways<'a>(
    apps: impl Iterator<Item = &'a AppPlan>,
    default: &str,
    turns: &mut [PartTurn],
    possible: &impl Fn(&str) -> bool,
    notes: &mut Vec<String>,
) {
    let common = turns[0].scheduler.clone();
    let least_loss = apps
        .filter_map(|app| {
            let other =
                ranked(app, default).into_iter().find(|e| possible(&e.name) && e.name != common)?;
            let loss = estimate(app, &common).score / other.score;
            Some((app, other, loss))
        })
        .min_by(|a, b| a.2.total_cmp(&b.2));
    match least_loss {
        Some((app, other, _)) => {
            notes.push(format!(
                "all parts come to {common}; {} takes {}, its next best, so that there are turns",
                app.name, other.name
            ));
            if let Some(place) = turns.iter_mut().find(|t| t.app == app.name) {
                *place = turn(app, &other);
            }
        }
        None => notes.push(format!("all parts come to {common}: nothing is switched")),
    }
}

impl Cycle {
    /// The weights of the turns under a strategy, in hundredths: finer than that no
    /// measurement supports them, and coarse weights stay the same while more
    /// rounds come in, so that measurements of a strategy add up.
    ///
    /// # Errors
    ///
    /// [`Kind::BadInput`] if a figure that the weights need is not a positive number.
    pub(crate) fn weights(&self, strategy: Strategy, benefit: BenefitForm) -> Result<Vec<f64>> {
        let figures: Vec<AppFigures> = self
            .turns
            .iter()
            .map(|t| AppFigures {
                name: t.app.clone(),
                eevdf_latency_us: t.eevdf_latency_us.unwrap_or(f64::NAN),
                best_ratio: t.throughput,
            })
            .collect();
        let exact = weights(strategy, &figures, benefit).map_err(|e| {
            Error::new(Kind::BadInput, "weigh the turns", e)
                .remedy("measure the workload afresh with `metasched profile`")
        })?;
        Ok(rounded(&exact))
    }

    /// The turns, one for each part, by these weights.
    pub(crate) fn turns(&self, weights: &[f64]) -> Vec<Share> {
        let of = |(turn, weight): (&PartTurn, &f64)| Share {
            parts: vec![turn.app.clone()],
            scheduler: turn.scheduler.clone(),
            weight: *weight,
        };
        self.turns.iter().zip(weights).map(of).collect()
    }

    /// The lanes: parts that have the same policy share one, which weighs what they weigh
    /// together. What is not told apart pays for nobody's being told apart.
    pub(crate) fn lanes(&self, weights: &[f64]) -> Vec<Share> {
        let mut lanes: Vec<Share> = Vec::new();
        for turn in self.turns(weights) {
            match lanes.iter_mut().find(|lane| lane.scheduler == turn.scheduler) {
                Some(lane) => {
                    lane.parts.extend(turn.parts);
                    lane.weight += turn.weight;
                }
                None => lanes.push(turn),
            }
        }
        lanes
    }
}
