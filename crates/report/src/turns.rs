//! Which schedulers take turns or run side by side, under a mechanism that cannot carry
//! all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_control::{Mechanism, SwitchRecord};
use metasched_profile::BASELINE;
use metasched_stats::median;
use metasched_strategy::{AppFigures, BenefitForm, Strategy, rounded, weights};
use serde::Serialize;

use crate::plan::{AppPlan, Estimate, Plan};

/// The schedulers of a cycle of turns, in the order of the parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cycle {
    /// The parts, each with its scheduler.
    pub turns: Vec<PartTurn>,
    /// What is not as the plan prefers it, and why.
    pub notes: Vec<String>,
}

/// A part's turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartTurn {
    /// The part's name.
    pub app: String,
    /// The scheduler's name.
    pub scheduler: String,
    /// The part's throughput under it, as a ratio to the default scheduler's.
    pub throughput: f64,
    /// The part's mean latency alone under the default scheduler, in microseconds.
    pub eevdf_latency_us: f64,
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
        part_ways(plan.apps.iter().filter(free), &mut turns, &possible, &mut notes);
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
            None => preferred(app, &possible, &mut notes)?,
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
fn ranked(app: &AppPlan) -> Vec<Estimate> {
    let mut all = app.by_estimate.clone();
    all.push(estimate(app, BASELINE));
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

fn preferred(
    app: &AppPlan,
    possible: &impl Fn(&str) -> bool,
    notes: &mut Vec<String>,
) -> Result<PartTurn> {
    if possible(&app.preferred) {
        return Ok(turn(app, &estimate(app, &app.preferred)));
    }
    let Some(best) = ranked(app).into_iter().find(|e| possible(&e.name)) else {
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
    turns: &mut [PartTurn],
    possible: &impl Fn(&str) -> bool,
    notes: &mut Vec<String>,
) {
    let common = turns[0].scheduler.clone();
    let least_loss = apps
        .filter_map(|app| {
            let other = ranked(app).into_iter().find(|e| possible(&e.name) && e.name != common)?;
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
    pub fn weights(&self, strategy: Strategy, benefit: BenefitForm) -> Result<Vec<f64>> {
        let figures: Vec<AppFigures> = self
            .turns
            .iter()
            .map(|t| AppFigures {
                name: t.app.clone(),
                eevdf_latency_us: t.eevdf_latency_us,
                best_ratio: t.throughput,
            })
            .collect();
        let exact = weights(strategy, &figures, benefit).map_err(|e| {
            Error::new(Kind::BadInput, "weigh the turns", e)
                .remedy("measure the workload afresh with `metasched profile`")
        })?;
        Ok(rounded(&exact))
    }

    /// How long the slowest of its changes takes by this mechanism: the median of
    /// what was recorded for that scheduler, else of all changes by the mechanism,
    /// else what was published or found out for it.
    pub fn switching(&self, mechanism: Mechanism, records: &[SwitchRecord]) -> Duration {
        /// A whole process swap in the paper.
        const PUBLISHED_SWAP: Duration = Duration::from_millis(133);
        /// The change itself and the interrupts that follow it. Nothing is under another
        /// scheduler meanwhile, so it takes no more than that from a turn.
        const LANE: Duration = Duration::from_micros(100);
        let took = |only: Option<&str>| {
            let of_mechanism = records.iter().filter(|r| r.mechanism == mechanism);
            let of_scheduler = of_mechanism.filter(|r| only.is_none_or(|name| r.to == name));
            let ns: Vec<f64> = of_scheduler.map(|r| r.total_ns as f64).collect();
            median(&ns).map(|ns| Duration::from_nanos(ns as u64))
        };
        let known = self.turns.iter().filter_map(|t| took(Some(&t.scheduler))).max();
        match mechanism {
            // The record ends with the write; what it interrupts is not in it.
            Mechanism::Lane => LANE,
            Mechanism::Swap => known.or_else(|| took(None)).unwrap_or(PUBLISHED_SWAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::full_store;
    use crate::{PlanOptions, analyse, plan};
    use metasched_strategy::Objective;

    fn planned() -> Plan {
        let folder = crate::fixture::folder();
        let store = full_store(&folder.path().join("store.db"), 8);
        let options = PlanOptions {
            objective: Objective::Throughput,
            benefit: BenefitForm::Relative,
            base_slice: Duration::from_millis(1800),
            count_switching: false,
        };
        plan(&analyse(&store, None, |_| None).unwrap(), options).unwrap()
    }

    fn schedulers(cycle: &Cycle) -> Vec<&str> {
        cycle.turns.iter().map(|t| t.scheduler.as_str()).collect()
    }

    fn policy(name: &str) -> bool {
        ["fifo", "vtime"].contains(&name)
    }

    #[test]
    fn turns_are_the_preferred_schedulers_where_the_mechanism_can_carry_them() {
        let plan = planned();
        let any = cycle(&plan, |_| true, &BTreeMap::new()).unwrap();
        let preferred: Vec<&str> = plan.apps.iter().map(|a| a.preferred.as_str()).collect();
        assert_eq!(schedulers(&any), preferred);
        assert_eq!(any.notes, Vec::<String>::new());
    }

    #[test]
    fn a_part_whose_scheduler_cannot_be_carried_takes_the_best_that_can() {
        let lanes = cycle(&planned(), policy, &BTreeMap::new()).unwrap();
        assert_eq!(schedulers(&lanes), ["fifo", "vtime"]);
        assert!(lanes.notes[0].contains("back prefers"), "{:?}", lanes.notes);
        let e = cycle(&planned(), |_| false, &BTreeMap::new()).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
    }

    #[test]
    fn parts_that_agree_are_set_apart_where_it_costs_least_and_it_is_said() {
        let mut plan = planned();
        plan.apps.iter_mut().for_each(|a| a.preferred = "fifo".into());
        let set_apart = cycle(&plan, policy, &BTreeMap::new()).unwrap();
        // The front end gains by fifo, the back end by vtime.
        assert_eq!(schedulers(&set_apart), ["fifo", "vtime"]);
        assert!(set_apart.notes[0].contains("all parts come to fifo"), "{:?}", set_apart.notes);
        let beside = side_by_side(&plan, policy, &BTreeMap::new()).unwrap();
        assert_eq!((schedulers(&beside), beside.notes.len()), (vec!["fifo", "fifo"], 0));
        let only = cycle(&plan, |name| name == "fifo", &BTreeMap::new()).unwrap();
        assert_eq!(schedulers(&only), ["fifo", "fifo"]);
        assert!(only.notes[0].contains("nothing is switched"), "{:?}", only.notes);
    }

    #[test]
    fn what_was_asked_for_is_done_and_a_part_that_is_none_is_refused() {
        let asked = BTreeMap::from([("back".to_owned(), "scx_bpfland".to_owned())]);
        let turns = cycle(&planned(), |_| true, &asked).unwrap();
        assert_eq!(schedulers(&turns)[1], "scx_bpfland");
        let asked = BTreeMap::from([("bakc".to_owned(), "fifo".to_owned())]);
        let e = cycle(&planned(), |_| true, &asked).unwrap_err();
        assert!(e.to_string().contains("front, back"), "{e}");
    }

    #[test]
    fn weights_come_in_hundredths_and_add_up_to_one() {
        let turns = cycle(&planned(), |_| true, &BTreeMap::new()).unwrap();
        for strategy in Strategy::ALL {
            let w = turns.weights(strategy, BenefitForm::Relative).unwrap();
            assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{w:?}");
            assert!(w.iter().all(|w| ((w * 100.0) - (w * 100.0).round()).abs() < 1e-9), "{w:?}");
        }
    }

    #[test]
    fn a_swap_takes_as_long_as_the_slowest_scheduler_of_the_cycle() {
        let record = |to: &str, total_ns| SwitchRecord {
            from: "eevdf".into(),
            to: to.into(),
            mechanism: Mechanism::Swap,
            stop_ns: None,
            start_ns: Some(total_ns),
            write_ns: None,
            total_ns,
        };
        let cycle = cycle(&planned(), policy, &BTreeMap::new()).unwrap();
        let records = [record("fifo", 50_000_000), record("vtime", 70_000_000)];
        assert_eq!(cycle.switching(Mechanism::Swap, &records), Duration::from_millis(70));
        let other = [record("scx_rusty", 900_000_000)];
        assert_eq!(cycle.switching(Mechanism::Swap, &other), Duration::from_millis(900));
        assert_eq!(cycle.switching(Mechanism::Swap, &[]), Duration::from_millis(133));
        assert!(cycle.switching(Mechanism::Lane, &records) < Duration::from_millis(10));
    }
}
