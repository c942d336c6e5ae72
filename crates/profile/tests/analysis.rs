//! What a store says, from a made-up one.

#[path = "support/made_up.rs"]
mod made_up;

use made_up::{Noise, PAIR, Writer, declared, full_store, pair_store, profile_only, scheduler};
use metasched_base::Kind;
use metasched_control::Mechanism;
use metasched_experiment::{Contender, PlanOptions, Strategy, Verdict, over};
use metasched_profile::{RunKind, Store, analyse, planned};

fn temporary() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = made_up::folder();
    let path = folder.path().join("store.db");
    (folder, path)
}

#[test]
fn an_empty_store_says_to_profile_first() {
    let (_folder, path) = temporary();
    let store = Store::open(&path).unwrap();
    let e = analyse(&store, None, declared).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.to_string().contains("run `metasched profile` first"), "{e}");
}

#[test]
fn an_unknown_workload_is_told_which_there_are() {
    let (_folder, path) = temporary();
    let store = full_store(&path, 2);
    let e = analyse(&store, Some("qq"), declared).unwrap_err();
    assert!(e.to_string().contains("'qq'") && e.to_string().contains("only those of qa"), "{e}");
}

#[test]
fn effects_come_out_as_they_were_put_in() {
    let (_folder, path) = temporary();
    let analysis = analyse(&full_store(&path, 8), None, declared).unwrap();
    let names: Vec<&str> = analysis.forms.iter().map(|f| f.form.as_str()).collect();
    assert_eq!(names, ["front", "back", "full"]);
    for (form, name, throughput, p99) in made_up::EFFECTS {
        let form = analysis.form(form).unwrap();
        let c = form.candidates.iter().find(|c| c.name == name).unwrap();
        let (t, p) = (c.throughput.estimate.unwrap(), c.p99.estimate.unwrap());
        assert!((t / throughput - 1.0).abs() < 0.03, "{} {name}: {t}", form.form);
        assert!((p / p99 - 1.0).abs() < 0.06, "{} {name}: {p}", form.form);
    }
    let front = analysis.form("front").unwrap();
    let verdict = |name: &str| {
        let c = front.candidates.iter().find(|c| c.name == name).unwrap();
        (c.throughput.verdict, c.p99.verdict)
    };
    assert_eq!(verdict("fifo"), (Verdict::Better, Verdict::Better));
    assert_eq!(verdict("scx_rustland"), (Verdict::Worse, Verdict::Worse));
}

#[test]
fn each_of_a_pair_is_judged_under_each_scheduler_turns_and_lanes() {
    let (_folder, path) = temporary();
    let analysis = analyse(&pair_store(&path, 8), Some(PAIR), declared).unwrap();
    let all: Vec<(&str, &str)> =
        analysis.sides.iter().map(|s| (s.subject.as_str(), s.name.as_str())).collect();
    let subjects = ["delta-benefit lanes", "fifo", "round-robin 1800ms lane", "scx_bpfland"];
    let both = |subject| ["job", "service"].map(|name| (subject, name));
    assert_eq!(all, subjects.map(both).concat());
    let side = |name: &str| {
        analysis.sides.iter().find(|s| s.subject == "scx_bpfland" && s.name == name).unwrap()
    };
    let (service, job) = (side("service"), side("job"));
    assert_eq!(
        (service.throughput.verdict, service.p99.verdict),
        (Verdict::Better, Verdict::Better)
    );
    assert!((service.p99.estimate.unwrap() / 0.42 - 1.0).abs() < 0.06, "{service:?}");
    assert_eq!(job.throughput.verdict, Verdict::Worse);
    assert_eq!((job.p99.estimate, job.rounds), (None, 8), "its load gives no latencies");
}

#[test]
fn each_of_a_pair_prefers_what_it_had_while_both_ran() {
    let (_folder, path) = temporary();
    let analysis = analyse(&pair_store(&path, 8), Some(PAIR), declared).unwrap();
    let measured = analysis.measured();
    assert!(measured.together && measured.missing.is_empty());
    let names: Vec<&str> = measured.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["service", "job"]);
    let candidates: Vec<&str> =
        measured.parts[1].candidates.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(candidates, ["fifo", "scx_bpfland"], "what has lanes or turns is nobody's alone");
    let others: Vec<&str> = measured.others.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(others, ["service, alone", "job, alone"]);
    let plan = planned(&analysis, PlanOptions::default()).unwrap();
    let preferred: Vec<&str> = plan.apps.iter().map(|app| app.preferred.as_str()).collect();
    assert_eq!(preferred, ["scx_bpfland", "eevdf"], "{plan:#?}");
    // Regression: a mean latency was that of the part alone, and of a part that was not measured
    // alone there was none.
    let mut both_only = analysis;
    both_only.forms.retain(|form| form.form == "both");
    let latencies: Vec<Option<f64>> =
        both_only.measured().parts.iter().map(|part| part.latency_us).collect();
    assert_eq!(latencies, [Some(1000.0), None], "the job's load says none");
    // Not a pair: each part by what it had alone.
    let single = analyse(&full_store(&path, 4), Some("qa"), declared).unwrap();
    assert!(!single.measured().together);
}

#[test]
fn a_tuning_in_the_same_series_hides_no_scheduler() {
    let (_folder, path) = temporary();
    let analysis = analyse(&full_store(&path, 3), None, declared).unwrap();
    assert_eq!(analysis.whole().unwrap().candidates.len(), 5);
    assert_eq!(analysis.strategies.len(), 4 * 2 * 4 + 4);
    let last = analysis.strategies.last().unwrap();
    assert!(matches!(last.contender, Contender::Lanes { .. }), "{:?}", last.contender);
    assert_eq!(last.contender.strategy(), Some(Strategy::DeltaBenefit));
    let single = &last.over["scx_bpfland"].throughput;
    assert_eq!(single.n, 3, "only rounds that hold both are compared");
    let turns = &last.over["delta-benefit 1800ms lane"];
    assert!(turns.throughput.estimate > 1.0 && turns.p99.unwrap().estimate < 1.0, "{turns:?}");
    assert_eq!(last.over.len(), 2, "the single scheduler, and the best of the turns");
}

#[test]
fn waits_come_from_traced_runs_with_the_default_first() {
    let (_folder, path) = temporary();
    let analysis = analyse(&full_store(&path, 2), None, declared).unwrap();
    let waits = &analysis.whole().unwrap().waits;
    assert_eq!((waits[0].0.as_str(), waits.len()), ("eevdf", 6));
}

#[test]
fn control_runs_show_what_observing_costs() {
    let (_folder, path) = temporary();
    let analysis = analyse(&full_store(&path, 8), None, declared).unwrap();
    let cost = analysis.form("back").unwrap().observed_over_unobserved.unwrap();
    assert!(cost.contains(1.0 / 1.002), "{cost:?}");
    assert_eq!(cost.n, 8);
}

#[test]
fn a_round_without_the_default_scheduler_counts_for_nothing() {
    let (_folder, path) = temporary();
    let mut store = Store::open(&path).unwrap();
    profile_only(&mut store, 3);
    let session = store.begin_session("boot", 1, "metasched profile").unwrap();
    let mut writer = Writer { store: &mut store, session, noise: Noise::new(1), duration_s: 20.0 };
    writer.run("front", 1, &scheduler("fifo"), RunKind::Measured, 9.0, 1.0);
    let analysis = analyse(&store, None, declared).unwrap();
    let fifo = &analysis.form("front").unwrap().candidates[0];
    assert_eq!((fifo.name.as_str(), fifo.rounds.rounds.len()), ("fifo", 3));
}

#[test]
fn a_tuning_with_runs_of_another_length_hides_no_scheduler_either() {
    // Regression: its series is newer and holds the best single scheduler, which
    // then stood for all that was ever measured of the form.
    let (_folder, path) = temporary();
    let mut store = Store::open(&path).unwrap();
    profile_only(&mut store, 3);
    let session = store.begin_session("boot", 1, "metasched tune --duration 40s").unwrap();
    let mut writer = Writer { store: &mut store, session, noise: Noise::new(1), duration_s: 40.0 };
    let turns = made_up::strategy("delta", Mechanism::Lane, 900);
    for round in 1..=3 {
        for subject in [&scheduler("eevdf"), &scheduler("fifo"), &turns] {
            writer.run("full", round, subject, RunKind::Measured, 1.0, 1.0);
        }
    }
    let analysis = analyse(&store, None, declared).unwrap();
    let whole = analysis.whole().unwrap();
    assert_eq!((whole.candidates.len(), whole.duration_s), (5, 20.0));
    assert!(!whole.waits.is_empty());
    assert_eq!(analysis.strategies.len(), 1, "and the strategies come from the tuning");
    // Regression: the single scheduler beside them was looked for among rounds of the other length,
    // so that nothing was compared with it.
    let beside = analysis.measured().whole.unwrap().beside;
    let fifo = beside.iter().find(|single| single.name == "fifo").unwrap();
    let turns = over(&analysis.strategies[0].rounds, fifo).unwrap();
    assert_eq!(turns.throughput.n, 3);
}
