//! What only a kernel with sched_ext can show, through the command itself. Each test
//! fails where there is no sched_ext: one that measured nothing must not pass.

#[path = "../../control/tests/guest/machine.rs"]
mod machine;
#[path = "../../cli/tests/schema/mod.rs"]
mod schema;
#[path = "guest/support.rs"]
mod support;

use std::path::Path;

use metasched_base::Kind;
use metasched_profile::{Measurement, RunKind, Store, Subject};
use nix::sys::signal::Signal;
use support::{Disk, Lab, eventually, fixture, machine, nothing_left, pingpong};

/// More rounds than any of these tests waits for.
const FOREVER: [&str; 6] =
    ["--min-rounds", "500", "--max-rounds", "500", "--schedulers", "fifo,vtime"];

fn code(kind: Kind) -> Option<i32> {
    Some(i32::from(kind.exit_code()))
}

fn of<'a>(runs: &'a [Measurement], kind: RunKind, name: &str) -> Vec<&'a Measurement> {
    runs.iter().filter(|run| run.kind == kind && run.subject.to_string() == name).collect()
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn every_scheduler_is_measured_with_what_the_cgroups_and_the_tracer_say() {
    let _machine = machine();
    let lab = Lab::new();
    let arguments =
        ["pair", "--schedulers", "fifo,vtime", "--min-rounds", "2", "--max-rounds", "2"];
    let ended = lab.profile(&pingpong(), &arguments).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(nothing_left());
    let summary = ended.json();
    schema::check("profile", &summary);
    let subjects = summary["forms"][0]["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), 2, "{ended}");
    for subject in subjects {
        assert_eq!(subject["pairs"], 2, "{ended}");
        assert!(subject["throughput"]["estimate"].as_f64().unwrap() > 0.0, "{ended}");
    }
    let runs = lab.measurements();
    for name in ["eevdf", "fifo", "vtime"] {
        let measured = of(&runs, RunKind::Measured, name);
        assert_eq!(measured.len(), 2, "{name}");
        for run in measured {
            let server = &run.parts["server"];
            // The server answers each line, so it blocks about once for each.
            assert!(server.nvcsw_per_s.unwrap() > 1.0, "{run:?}");
            assert!(server.wait_mean_us.unwrap() > 0.0, "{run:?}");
            assert!(server.cpu_s.unwrap() > 0.0 && run.parts["client"].cpu_s.unwrap() > 0.0);
            assert_eq!(
                run.figures.nvcsw_per_s, server.nvcsw_per_s,
                "the load is not the application"
            );
            assert_eq!(run.figures.wait_histogram, None);
        }
        let traced = of(&runs, RunKind::Traced, name);
        assert_eq!(traced.len(), 1, "{name}");
        let waits: u64 = traced[0].figures.wait_histogram.as_ref().unwrap().iter().sum();
        // One wait for each time that the server got a CPU, but for some at the edges.
        let slices = traced[0].parts["server"].timeslices.unwrap();
        assert!((slices / 2..=slices * 2).contains(&waits), "{waits} waits, {slices} slices");
    }
    let controls = of(&runs, RunKind::Control, "eevdf");
    assert_eq!(controls.len(), 2);
    assert!(controls.iter().all(|run| run.parts.is_empty() && run.figures.cpu_s.is_none()));
    let store = Store::open(lab.store()).unwrap();
    assert!(store.switches().unwrap().len() >= 4);
    assert!(store.environments().unwrap()[0].kernel.starts_with('7'));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn kill_9_leaves_nothing_running_keeps_what_was_finished_and_the_next_call_goes_on() {
    let _machine = machine();
    let lab = Lab::new();
    // Another test has the tracer, and what observation costs.
    let quick = ["--trace-runs", "0", "--control-runs", "0"];
    let mut run = lab.profile(&pingpong(), &[&["pair"], &FOREVER[..], &quick[..]].concat());
    run.wait_for(&lab, 4);
    run.signal(Signal::SIGKILL);
    assert_eq!(run.finish().code, None);
    eventually("the guard has put things right", nothing_left);
    let kept = lab.measurements();
    assert!(kept.len() >= 4);

    let rest = ["pair", "--schedulers", "fifo,vtime", "--min-rounds", "3", "--max-rounds", "3"];
    let ended = lab.profile(&pingpong(), &[&rest[..], &quick[..]].concat()).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let form = &ended.json()["forms"][0];
    assert!(form["pairs_before"].as_u64().unwrap() >= 1, "{ended}");
    for subject in form["subjects"].as_array().unwrap() {
        assert_eq!(subject["pairs"], 3, "{ended}");
    }
    let all = lab.measurements();
    assert_eq!(all[..kept.len()], kept, "what was finished is as it was");
    let sessions = Store::open(lab.store()).unwrap().sessions().unwrap();
    assert_eq!(sessions.len(), 2);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn ctrl_c_ends_it_in_an_orderly_way() {
    let _machine = machine();
    let lab = Lab::new();
    let mut run = lab.profile(&pingpong(), &[&["pair"], &FOREVER[..]].concat());
    run.wait_for(&lab, 2);
    run.signal(Signal::SIGINT);
    let ended = run.finish();
    assert_eq!(ended.code, code(Kind::Interrupted), "{ended}");
    assert!(nothing_left(), "at once, without the guard");
    assert!(ended.stderr.contains("the same command goes on"), "{ended}");
    assert!(lab.measurements().len() >= 2);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_candidate_that_exits_at_once_is_left_out_and_the_others_are_measured() {
    let _machine = machine();
    let lab = Lab::new();
    let bad = lab.write("scx_bad", "#!/bin/sh\necho 'what is -q?' >&2\nexit 2\n");
    let schedulers = format!("{bad},fifo");
    let arguments = [
        "pair",
        "--schedulers",
        &schedulers,
        "--min-rounds",
        "2",
        "--max-rounds",
        "2",
        "--trace-runs",
        "0",
        "--control-runs",
        "0",
    ];
    let ended = lab.profile(&pingpong(), &arguments).finish();
    assert_eq!(ended.code, code(Kind::SchedulerExit), "{ended}");
    assert!(nothing_left());
    assert!(ended.stderr.contains("what is -q?"), "{ended}");
    assert!(ended.stderr.contains("not measured any more"), "{ended}");
    assert_eq!(of(&lab.measurements(), RunKind::Measured, "fifo").len(), 2);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_candidate_that_is_thrown_out_in_the_middle_gives_no_figures() {
    let _machine = machine();
    let lab = Lab::new();
    // An operator's SysRq-S takes whatever is attached out of the kernel.
    let load = "if grep -q metasched /sys/kernel/sched_ext/root/ops 2>/dev/null; then \
                echo S >/proc/sysrq-trigger; fi; sleep 0.3";
    lab.write(
        "workload/manifest.toml",
        &format!(
            "schema = 1\nname = \"pingpong\"\nsummary = \"x\"\n[form.only]\nsummary = \"x\"\n\
             [form.only.load]\ncommand = [\"sh\", \"-c\", '''{load}''']\nreads = \"elapsed\"\n"
        ),
    );
    let workload = lab.folder.path().join("workload").display().to_string();
    let arguments = [
        "--schedulers",
        "fifo",
        "--min-rounds",
        "3",
        "--max-rounds",
        "3",
        "--control-runs",
        "0",
        "--trace-runs",
        "0",
    ];
    let ended = lab.profile(&workload, &arguments).finish();
    assert_eq!(ended.code, code(Kind::SchedulerExit), "{ended}");
    assert!(nothing_left());
    let runs = lab.measurements();
    assert!(of(&runs, RunKind::Measured, "fifo").is_empty(), "{ended}");
    assert!(!of(&runs, RunKind::Measured, "eevdf").is_empty(), "{ended}");
    let store = Store::open(lab.store()).unwrap();
    let failures = store.failures(runs[0].series).unwrap();
    assert_eq!(failures.len(), 2, "{ended}");
    assert!(matches!(&failures[0].subject, Subject::Scheduler { name, .. } if name == "fifo"));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_full_disk_ends_it_with_one_clear_error_and_keeps_what_was_finished() {
    let _machine = machine();
    let lab = Lab::new();
    let disk = Disk::mount(&lab, Some("size=1m"));
    let mut run = lab.profile(&pingpong(), &[&["pair"], &FOREVER[..]].concat());
    run.wait_for(&lab, 2);
    disk.fill();
    let ended = run.finish();
    let kept = lab.measurements();
    assert_eq!(ended.code, code(Kind::Failed), "{ended}");
    assert!(ended.stderr.contains("no space is left"), "{ended}");
    assert!(kept.len() >= 2, "{ended}");
    assert!(nothing_left());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_store_that_cannot_be_written_is_told_before_anything_runs() {
    let _machine = machine();
    let lab = Lab::new();
    let disk = Disk::mount(&lab, None);
    drop(Store::open(lab.store()).unwrap());
    disk.protect();
    let ended = lab.profile(&pingpong(), &["pair", "--schedulers", "fifo"]).finish();
    assert_eq!(ended.code, code(Kind::Denied), "{ended}");
    assert!(ended.stderr.contains("--store"), "{ended}");
    assert!(nothing_left());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_metascheduler_takes_its_turns_while_it_is_measured() {
    let _machine = machine();
    let lab = Lab::new();
    let plan = lab.write(
        "plan.json",
        r#"{"apps":[{"name":"a","preferred":"fifo","weights":{"delta":0.75}},
                    {"name":"b","preferred":"vtime","weights":{"delta":0.25}}]}"#,
    );
    let arguments = [
        "pair",
        "--strategy",
        "delta",
        "--base-slice",
        "100ms",
        "--plan",
        &plan,
        "--min-rounds",
        "2",
        "--max-rounds",
        "2",
        "--trace-runs",
        "0",
        "--control-runs",
        "0",
    ];
    let ended = lab.profile(&pingpong(), &arguments).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(nothing_left());
    let runs = lab.measurements();
    assert_eq!(of(&runs, RunKind::Measured, "delta 100ms lane").len(), 2, "{ended}");
    assert_eq!(of(&runs, RunKind::Measured, "eevdf").len(), 2, "{ended}");
    // A cycle of 200 ms has two changes; a run of a second has some ten.
    let store = Store::open(lab.store()).unwrap();
    let lanes = store.switches().unwrap().iter().filter(|(_, s)| s.write_ns.is_some()).count();
    assert!(lanes >= 8, "{lanes} changes of lane");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn parts_are_measured_side_by_side_each_on_its_lane() {
    let _machine = machine();
    let lab = Lab::new();
    let workload = fixture("beside");
    let once = ["--schedulers", "vtime", "--min-rounds", "1", "--max-rounds", "1"];
    let quick = ["--trace-runs", "0", "--control-runs", "0"];
    let profiled = lab.profile(&workload, &[&once[..], &quick[..]].concat()).finish();
    assert_eq!(profiled.code, Some(0), "{profiled}");
    let strategies = ["--mode", "lanes", "--lanes-by", "round-robin", "--lane-weights", "1:3"];
    let turns = ["--turn", "answers=vtime", "--turn", "computes=fifo", "--budget", "90s"];
    let ended = lab.tune(&workload, &[&strategies[..], &turns[..]].concat()).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(nothing_left());
    let runs = lab.measurements();
    let measured = of(&runs, RunKind::Measured, "round-robin lanes");
    assert!(!measured.is_empty(), "{ended}");
    let Subject::Lanes { default, lanes, .. } = &measured[0].subject else { panic!("{ended}") };
    assert_eq!(default.0, "fair");
    let placed: Vec<_> = lanes.iter().map(|l| (&*l.scheduler, &*l.cgroups[0])).collect();
    let expected = [("vtime", "metasched/beside/answers"), ("fifo", "metasched/beside/computes")];
    assert_eq!(placed, expected);
    let tuned = ended.json();
    schema::check("tune", &tuned);
    let row = &tuned["table"][0];
    assert_eq!(row["contender"]["type"], "lanes", "{ended}");
    assert!(tuned["recommendation"]["sentence"].is_string(), "{ended}");
    assert!(row["throughput"]["estimate"].as_f64().unwrap() > 0.0, "{ended}");
    println!("lanes over EEVDF: {}", row["throughput"]);
    // And by weights that no formula gave.
    let weighed = of(&runs, RunKind::Measured, "25:75 lanes");
    let [first, ..] = weighed.as_slice() else { panic!("{ended}") };
    let Subject::Lanes { lanes, .. } = &first.subject else { panic!("{ended}") };
    let weights: Vec<f64> = lanes.iter().map(|lane| lane.weight).collect();
    assert_eq!(weights, [0.25, 0.75]);
    let three = lab.tune(&workload, &[&strategies[..5], &["1:2:3"], &turns[..]].concat()).finish();
    assert_eq!(three.code, code(Kind::Usage), "{three}");
    assert!(three.to_string().contains("3 weights are given, and it has 2 parts"), "{three}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn options_of_a_policy_are_searched_one_after_the_other() {
    let _machine = machine();
    let lab = Lab::new();
    let options = ["--scheduler", "ioprio:threshold=9", "--coordinate"];
    let coordinates = ["slice=5ms:40ms,prio_slice=10ms", "--budget", "60s"];
    let workload = format!("{}:pair", pingpong());
    let ended = lab.tune(&workload, &[&options[..], &coordinates].concat()).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(nothing_left());
    let found = ended.json();
    schema::check("tune-coordinate", &found);
    let steps = found["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &found["policy"]), (2, &"ioprio".into()), "{ended}");
    // What stood still, and what was found of what did not.
    let scheduler = found["scheduler"].as_str().unwrap();
    assert!(scheduler.contains("threshold=9"), "{ended}");
    let runs = lab.measurements();
    for slice in ["5ms", "40ms"] {
        let name = format!("ioprio slice={slice} threshold=9");
        assert!(!of(&runs, RunKind::Measured, &name).is_empty(), "{name}: {ended}");
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn an_application_that_is_killed_is_told_with_its_name() {
    let _machine = machine();
    let lab = Lab::new();
    let mut run = lab.profile(&pingpong(), &[&["pair"], &FOREVER[..]].concat());
    run.wait_for(&lab, 1);
    // Until it happens under the default scheduler it is the candidate's failure, and
    // the application is started anew.
    let procs = Path::new("/sys/fs/cgroup/metasched/pingpong/server/cgroup.procs");
    eventually("the form is given up", || {
        let text = std::fs::read_to_string(procs).unwrap_or_default();
        for pid in text.lines().filter_map(|line| line.parse().ok()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
        }
        run.has_ended()
    });
    let ended = run.finish();
    assert!(ended.code != Some(0), "{ended}");
    // In the JSON or on standard error: it depends on what was in force when it happened.
    assert!(ended.to_string().contains("'server' ended by itself with SIGKILL"), "{ended}");
    assert!(nothing_left());
}
