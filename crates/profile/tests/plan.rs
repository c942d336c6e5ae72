//! Plans of a made-up store: what each part prefers, who takes turns, and what to do.

#[path = "support/made_up.rs"]
mod made_up;

use std::collections::BTreeMap;
use std::time::Duration;

use made_up::{declared, full_store, key, profile_only};
use metasched_base::Kind;
use metasched_experiment::{
    BenefitForm, Contender, Cycle, Lanes, Mechanism, Objective, Outcome, PartWeights, Plan,
    PlanOptions, SearchOptions, Searches, Strategy, cycle, plan, side_by_side,
};
use metasched_profile::{BASELINE, Query, Store, analyse};
use serde_json::Value;

fn options() -> PlanOptions {
    PlanOptions { objective: Some(Objective::Throughput), ..PlanOptions::default() }
}

fn planned_by(rounds: u32, options: PlanOptions) -> Plan {
    let folder = made_up::folder();
    let store = full_store(&folder.path().join("store.db"), rounds);
    plan(&analyse(&store, None, declared).unwrap().measured(), options).unwrap()
}

fn planned(rounds: u32) -> Plan {
    planned_by(rounds, options())
}

/// Every number in the document, with its path.
fn numbers(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(n) => found.push((path.to_owned(), n.as_f64().unwrap())),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| numbers(v, &format!("{path}[{i}]"), found));
        }
        Value::Object(items) => {
            items.iter().for_each(|(k, v)| numbers(v, &format!("{path}.{k}"), found));
        }
        _ => {}
    }
}

#[test]
fn each_part_prefers_the_scheduler_that_was_made_best_for_it() {
    let plan = planned(8);
    let preferred: Vec<_> =
        plan.apps.iter().map(|a| (a.name.as_str(), a.preferred.as_str())).collect();
    assert_eq!(preferred[0], ("front", "fifo"));
    assert!(plan.apps[0].sure.confidence > 0.95);
    assert_eq!(plan.apps[1].best_estimate.as_deref(), Some("scx_rusty"));
    let whole = plan.whole.unwrap();
    assert_eq!((whole.form.as_str(), plan.table.len()), ("full", 15));
}

#[test]
fn the_plan_has_the_shape_that_run_reads() {
    let plan = serde_json::to_value(planned(4)).unwrap();
    assert_eq!(plan["workload"], "qa");
    let app = &plan["apps"][0];
    assert_eq!((&app["name"], &app["form"]), (&"front".into(), &"front".into()));
    assert!(app["preferred"].is_string() && app["confidence"].is_number());
    for strategy in ["round-robin", "delta", "benefit", "delta-benefit"] {
        let sum: f64 = (0..2).map(|i| plan["apps"][i]["weights"][strategy].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{strategy}: {sum}");
        let cycle: f64 =
            (0..2).map(|i| plan["apps"][i]["slices_ms"][strategy].as_f64().unwrap()).sum();
        assert!((cycle - 3600.0).abs() < 1e-3, "{strategy}: {cycle}");
    }
    assert_eq!(plan["table"].as_array().unwrap().len(), 15);
}

#[test]
fn every_number_is_finite_however_few_rounds_there_are() {
    for rounds in [1, 2, 3] {
        let value = serde_json::to_value(planned(rounds)).unwrap();
        let mut found = Vec::new();
        numbers(&value, "plan", &mut found);
        assert!(found.len() > 60, "{} numbers", found.len());
        for (path, number) in found {
            // JSON has no infinity, so a value that is none becomes null, and
            // is caught here only as a number that is missing or absurd.
            assert!(number.is_finite() && number.abs() < 1e12, "{path}: {number}");
        }
        for app in value["apps"].as_array().unwrap() {
            for field in ["confidence", "eevdf_latency_us", "best_ratio"] {
                assert!(app[field].is_number(), "{field} with {rounds} rounds");
            }
        }
    }
}

#[test]
fn one_round_prefers_the_default_and_says_that_it_is_too_few() {
    let plan = planned(1);
    for app in &plan.apps {
        assert_eq!((app.preferred.as_str(), app.sure.outcome), (BASELINE, Outcome::TooFewRounds));
        assert!(app.sure.sentence.contains("too few rounds"), "{}", app.sure.sentence);
    }
}

#[test]
fn a_scheduler_that_takes_longer_to_start_than_its_turn_is_left_out_where_that_counts() {
    let folder = made_up::folder();
    let store = full_store(&folder.path().join("store.db"), 12);
    let analysis = analyse(&store, None, declared).unwrap();
    let back = |count_switching| {
        let plan =
            plan(&analysis.measured(), PlanOptions { count_switching, ..options() }).unwrap();
        plan.apps[1].preferred.clone()
    };
    // The made-up scx_rusty takes three seconds to switch to.
    assert_eq!(back(false), "scx_rusty");
    assert_ne!(back(true), "scx_rusty");
}

#[test]
fn a_part_that_was_not_measured_is_named_with_the_remedy() {
    let folder = made_up::folder();
    let mut store = Store::open(folder.path().join("store.db")).unwrap();
    profile_only(&mut store, 3);
    let back = store.series_id(&key("back")).unwrap();
    store.supersede(back).unwrap();
    assert!(store.measurements(&Query::of_series(back)).unwrap().is_empty());
    let e = plan(&analyse(&store, None, declared).unwrap().measured(), options()).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.to_string().contains("'back'") && e.to_string().contains("profile"), "{e}");
}

fn schedulers(cycle: &Cycle) -> Vec<&str> {
    cycle.turns.iter().map(|t| t.scheduler.as_str()).collect()
}

fn policy(name: &str) -> bool {
    ["fifo", "vtime"].contains(&name)
}

#[test]
fn turns_are_the_preferred_schedulers_where_the_mechanism_can_carry_them() {
    let plan = planned(8);
    let any = cycle(&plan, |_| true, &BTreeMap::new()).unwrap();
    let preferred: Vec<&str> = plan.apps.iter().map(|a| a.preferred.as_str()).collect();
    assert_eq!(schedulers(&any), preferred);
    assert_eq!(any.notes, Vec::<String>::new());
}

#[test]
fn a_part_whose_scheduler_cannot_be_carried_takes_the_best_that_can() {
    let lanes = cycle(&planned(8), policy, &BTreeMap::new()).unwrap();
    assert_eq!(schedulers(&lanes), ["fifo", "vtime"]);
    assert!(lanes.notes[0].contains("back prefers"), "{:?}", lanes.notes);
    let e = cycle(&planned(8), |_| false, &BTreeMap::new()).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
}

#[test]
fn parts_that_agree_are_set_apart_where_it_costs_least_and_it_is_said() {
    let mut plan = planned(8);
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
    let turns = cycle(&planned(8), |_| true, &asked).unwrap();
    assert_eq!(schedulers(&turns)[1], "scx_bpfland");
    let asked = BTreeMap::from([("bakc".to_owned(), "fifo".to_owned())]);
    let e = cycle(&planned(8), |_| true, &asked).unwrap_err();
    assert!(e.to_string().contains("front, back"), "{e}");
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    for rounds in [1, 6] {
        let written = serde_json::to_value(planned(rounds)).unwrap();
        let read: Plan = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), written, "{rounds} rounds");
    }
}

#[test]
fn a_plan_of_an_earlier_version_is_still_read() {
    // As version 0.1.0 wrote it, but for most of its rows.
    let text = r#"{"workload":"qa","kernel":"7.3.4","machine":"0123","objective":"throughput",
        "benefit_form":"relative","base_slice_ms":1800.0,"apps":[{"name":"front","form":"front",
        "preferred":"fifo","confidence":0.99,"outcome":"better","sentence":"fifo: it is",
        "best_estimate":"fifo","by_estimate":[{"name":"fifo","score":1.1,"throughput":1.1}],
        "eevdf_latency_us":1234.5,"best_ratio":1.1,"weights":{"round-robin":1.0,"delta":1.0},
        "slices_ms":{"round-robin":1800.0}}],"whole":null,"table":[{"form":"front",
        "candidate":"fifo","version":"1","rounds":6,"throughput":{"estimate":1.1,"interval":
        {"estimate":1.1,"low":1.05,"high":1.15,"n":6},"verdict":"better"},"p99":{"estimate":null,
        "interval":null,"verdict":"too_few_rounds"}}],"expected":[]}"#;
    let plan: Plan = serde_json::from_str(text).unwrap();
    assert_eq!(plan.apps[0].weights[&Strategy::Delta], 1.0);
    assert_eq!(plan.table[0].throughput.interval.unwrap().n, 6);
    assert!(plan.recommendation.is_none());
}

#[test]
fn what_is_recommended_is_what_the_whole_did_best_under_beyond_the_noise() {
    // Made up: lanes give 8 to 11 % more than EEVDF, turns 5, the best single scheduler 2.4.
    let recommended = planned(8).recommendation.unwrap();
    let Some(Contender::Lanes { strategy, lanes, .. }) = recommended.contender else {
        panic!("{:?}", recommended.contender)
    };
    assert_eq!((strategy, lanes.len()), (Some(Strategy::DeltaBenefit), 2));
    assert!(recommended.sure.confidence > 0.95, "{}", recommended.sure.sentence);
    assert_eq!(recommended.not_measured, Vec::<String>::new());
}

#[test]
fn with_single_schedulers_alone_the_recommendation_says_what_was_not_measured() {
    let folder = made_up::folder();
    let mut store = Store::open(folder.path().join("store.db")).unwrap();
    profile_only(&mut store, 8);
    let measured = analyse(&store, None, declared).unwrap().measured();
    let recommended = plan(&measured, options()).unwrap().recommendation.unwrap();
    assert_eq!(recommended.contender, Some(Contender::scheduler("scx_bpfland")));
    assert_eq!(recommended.not_measured, ["turns", "lanes side by side"]);
}

#[test]
fn each_part_is_judged_by_what_it_is_for_unless_something_else_is_asked_for() {
    let by_default = planned_by(8, PlanOptions { objective: None, ..options() });
    let judged: Vec<Objective> = by_default.apps.iter().map(|app| app.objective).collect();
    assert_eq!(judged, [Objective::Service; 2], "both answer requests");
    // Made up: vtime cuts the back end's p99 by 20 %, scx_rusty gives it most throughput.
    assert_eq!(by_default.apps[1].preferred, "vtime");
    assert_eq!(planned(8).apps[1].preferred, "scx_rusty");
}

fn searches(plan: &Plan, asked: &BTreeMap<String, String>) -> Searches {
    searches_of(plan, asked, false)
}

fn searches_of(plan: &Plan, asked: &BTreeMap<String, String>, apart: bool) -> Searches {
    searches_with(plan, asked, apart, &[])
}

fn searches_with(
    plan: &Plan,
    asked: &BTreeMap<String, String>,
    apart: bool,
    weights: &[PartWeights],
) -> Searches {
    let policy = |name: &str| policy(name);
    let mechanism = Mechanism {
        name: "lane",
        shortest_turn: Duration::from_millis(1),
        carries: &policy,
        switching: &|_: &[&str]| Duration::ZERO,
    };
    let options = SearchOptions {
        strategies: &Strategy::ALL,
        mechanisms: &[mechanism],
        lanes: Some(Lanes {
            by: &Strategy::ALL,
            weights,
            default: "vtime",
            carries: &policy,
            apart,
        }),
        base_slices: &[],
        asked,
        benefit: BenefitForm::Relative,
        measurement: Duration::from_secs(20),
    };
    Searches::new(plan, &options).unwrap()
}

#[test]
fn parts_that_have_the_same_policy_share_a_lane_which_weighs_what_they_weigh_together() {
    let mut plan = planned(8);
    let third = plan.apps[0].clone();
    plan.apps.push(metasched_experiment::AppPlan { name: "batch".into(), ..third });
    let searches = searches(&plan, &BTreeMap::new());
    let lanes = searches.contenders().find_map(|contender| match contender {
        Contender::Lanes { strategy: Some(Strategy::RoundRobin), lanes, .. } => Some(lanes),
        _ => None,
    });
    let [shared, alone] = lanes.expect("lanes by round-robin").as_slice() else {
        panic!("{lanes:?}")
    };
    assert_eq!((shared.name().as_str(), shared.scheduler.as_str()), ("front+batch", "fifo"));
    assert!((shared.weight - 0.67).abs() < 0.011 && (alone.weight - 0.33).abs() < 0.011);
}

#[test]
fn parts_that_are_to_be_apart_have_a_lane_each_even_of_the_same_policy() {
    let asked = ["front", "back"].map(|part| (part.to_owned(), "fifo".to_owned())).into();
    let searches = searches_of(&planned(8), &asked, true);
    let lanes = searches.contenders().find(|c| matches!(c, Contender::Lanes { .. })).unwrap();
    let shares = lanes.shares().iter().map(|s| (s.name(), s.scheduler.clone()));
    let shares: Vec<(String, String)> = shares.collect();
    assert_eq!(shares, [("front".into(), "fifo".into()), ("back".into(), "fifo".into())]);
}

#[test]
fn weights_by_no_formula_are_measured_beside_those_of_the_strategies_and_told_by_themselves() {
    let weights: Vec<PartWeights> = ["1:2", "1:1"].map(|text| text.parse().unwrap()).into();
    let searches = searches_with(&planned(8), &BTreeMap::new(), true, &weights);
    let lanes = searches.contenders().filter(|c| matches!(c, Contender::Lanes { .. }));
    let further: Vec<&Contender> = lanes.filter(|lanes| lanes.strategy().is_none()).collect();
    let [third] = further.as_slice() else { panic!("{further:?}") };
    assert_eq!(third.to_string(), "33:67, lanes side by side");
    let shares: Vec<f64> = third.shares().iter().map(|share| share.weight).collect();
    assert_eq!(shares, [0.33, 0.67]);
    let same = "side by side: 50:50 weighs the parts as round-robin does, and is not measured";
    assert!(searches.notes.iter().any(|note| note == same), "{:?}", searches.notes);
}

#[test]
fn weights_come_in_hundredths_and_add_up_to_one() {
    for contender in searches(&planned(8), &BTreeMap::new()).contenders() {
        let weights: Vec<f64> = contender.shares().iter().map(|share| share.weight).collect();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{weights:?}");
        let whole = |w: &f64| ((w * 100.0) - (w * 100.0).round()).abs() < 1e-9;
        assert!(weights.iter().all(whole), "{weights:?}");
    }
}

#[test]
fn lanes_of_one_policy_for_all_parts_are_left_out_and_it_is_said() {
    let asked = ["front", "back"].map(|part| (part.to_owned(), "fifo".to_owned())).into();
    let searches = searches(&planned(8), &asked);
    assert_eq!(searches.count().1, 0);
    assert!(searches.notes[0].contains("one scheduler for all"), "{:?}", searches.notes);
}
