//! `metasched sim`, as a user calls it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A machine with more work than CPUs, in two cgroups.
const SCENARIO: &str = r#"
name = "small"
about = "sleepers beside hogs"
duration = "300ms"
warm_up = "50ms"

[machine]
cpus = 2

[[task]]
name = "web"
count = 4
cgroup = "web"
steps = ["run 200us..1ms", "sleep 1ms..4ms"]

[[task]]
name = "batch"
count = 3
cgroup = "batch"
steps = ["run 1s"]
"#;

/// A folder with the scenario, which calls are made in.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("small.toml"), SCENARIO).unwrap();
        Place { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sim(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_metasched"))
            .arg("sim")
            .args(args)
            .current_dir(&self.folder)
            .output()
            .unwrap()
    }

    /// What it prints, if it succeeds.
    fn text(&self, args: &[&str]) -> String {
        let output = self.sim(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.text(&args)).unwrap()
    }

    /// The exit status and what is said, of a call that fails.
    fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.sim(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said)
    }
}

/// The names of those that a report compares.
fn contenders(report: &serde_json::Value) -> Vec<&str> {
    let all = report["contenders"].as_array().unwrap();
    all.iter().map(|contender| contender["name"].as_str().unwrap()).collect()
}

/// A cgroup's figures under the first of them.
fn group<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let groups = report["contenders"][0]["groups"].as_array().unwrap();
    groups.iter().find(|group| group["cgroup"] == name).unwrap()
}

#[test]
fn help_says_what_can_be_asked_for() {
    let help = Place::new().text(&["--help"]);
    for option in ["--policy", "--lanes", "--compare", "--until-narrow", "--trace", "--gantt"] {
        assert!(help.contains(option), "{option}");
    }
}

#[test]
fn a_run_shows_every_cgroup_and_the_command_that_repeats_it() {
    let place = Place::new();
    let text = place.text(&["small.toml", "--policy", "fifo", "--set", "slice=5ms"]);
    for said in ["web", "batch", "all", "2 CPUs", "seed 1", "under fifo", "bursts/s"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let again = text.lines().last().unwrap().strip_prefix("again: metasched sim ").unwrap();
    assert_eq!(text, place.text(&again.split(' ').collect::<Vec<_>>()));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let place = Place::new();
    let out = |seed| place.text(&["small.toml", "--json", "--seed", seed]);
    assert_eq!(out("3"), out("3"));
    assert_ne!(out("3"), out("4"));
}

#[test]
fn figures_agree_with_what_the_scenario_says() {
    let report = Place::new().json(&["small.toml", "--policy", "vtime"]);
    let entry = &report["contenders"][0];
    assert!(entry["utilisation"].as_f64().unwrap() > 0.99, "{entry}");
    let of = |name| group(&report, name);
    assert_eq!(of("web")["tasks"], 4);
    assert_eq!(of("all")["tasks"], 7);
    let share = |name| of(name)["share"].as_f64().unwrap();
    assert!((share("web") + share("batch") - 1.0).abs() < 1e-5);
    // Four tasks, each at most once in 1.2 ms.
    let bursts = of("web")["throughput_per_s"].as_f64().unwrap();
    assert!((100.0..4.0 / 0.0012).contains(&bursts), "{bursts}");
    let wait = &of("web")["wait"];
    let at = |p: &str| wait[p].as_u64().unwrap();
    assert!(at("p50_ns") <= at("p99_ns") && at("p99_ns") <= at("max_ns"), "{wait}");
}

#[test]
fn a_comparison_has_a_row_for_each_policy_and_ratios_to_the_first() {
    let place = Place::new();
    let text = place.text(&["small.toml", "--compare=fifo,vtime"]);
    assert!(text.contains("against fifo") && text.contains(" %"), "{text}");
    assert!(!text.contains(" to +"), "one run has no interval: {text}");
    let report = place.json(&["small.toml", "--compare=fifo,vtime", "--runs", "3"]);
    assert_eq!(report["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(contenders(&report), ["fifo", "vtime"]);
    let ratio = &report["contenders"][1]["groups"][1]["ratios"]["wait_p99"];
    assert_eq!(ratio["interval"]["n"], 3, "{report:#}");
    assert!(report["contenders"][0]["groups"][0]["ratios"].as_object().unwrap().is_empty());
}

#[test]
fn without_a_name_every_policy_is_compared_with_the_kernels_own() {
    let report = Place::new().json(&["--compare", "--smt", "small.toml"]);
    let policies = metasched_loader::policies();
    let all: Vec<&str> =
        std::iter::once("eevdf").chain(policies.iter().map(|policy| policy.name)).collect();
    assert_eq!(contenders(&report), all);
}

#[test]
fn repeating_until_narrow_ends_and_says_how_narrow() {
    let place = Place::new();
    let common = ["small.toml", "--compare=fifo,vtime", "--until-narrow", "--precision"];
    let with = |more: &[&'static str]| [&common[..], more].concat();
    let coarse = place.json(&with(&["90%", "--max-runs", "50"]));
    let runs = coarse["seeds"].as_array().unwrap().len();
    assert!(runs < 50 && coarse["widest"].as_f64().unwrap() <= 0.9, "{coarse:#}");
    let fine = place.text(&with(&["0.01%", "--max-runs", "6"]));
    assert!(fine.contains("6 runs") && fine.contains("not as narrow"), "{fine}");
}

#[test]
fn lanes_get_cpu_time_by_their_weights() {
    let scenario = SCENARIO.replace(", \"sleep 1ms..4ms\"", "");
    let place = Place::new();
    std::fs::write(place.path("hogs.toml"), scenario).unwrap();
    let report =
        place.json(&["hogs.toml", "--duration", "2s", "--lanes", "web=fifo:300,batch=vtime:100"]);
    let web = group(&report, "web");
    assert!((web["share"].as_f64().unwrap() - 0.75).abs() < 0.03, "{web}");
}

#[test]
fn cgroups_with_weights_are_compared_with_the_default_scheduler() {
    let place = Place::new();
    let hogs = SCENARIO.replace(", \"sleep 1ms..4ms\"", "");
    let weighed = format!("{hogs}\n[cgroups]\nweb = {{ weight = 300 }}\n");
    std::fs::write(place.path("weighed.toml"), weighed).unwrap();
    let args = ["weighed.toml", "--duration", "2s", "--compare=eevdf,fifo"];
    let report = place.json(&args);
    assert_eq!(contenders(&report), ["eevdf", "fifo"]);
    let share = group(&report, "web")["share"].as_f64().unwrap();
    assert!((share - 0.75).abs() < 0.05, "{share}");
}

#[test]
fn work_is_called_what_it_is() {
    let place = Place::new();
    let with = |steps: &str| SCENARIO.replace("\"run 1s\"", steps);
    for (file, steps, unit) in [
        ("done.toml", "\"run 5ms\", \"done 3\"", "units/s"),
        ("both.toml", "\"begin\", \"run 5ms\", \"end\", \"done\"", "units/s"),
        ("answered.toml", "\"begin\", \"run 5ms\", \"end\"", "requests/s"),
    ] {
        std::fs::write(place.path(file), with(steps)).unwrap();
        let text = place.text(&[file, "--policy", "fifo"]);
        let batch = text.lines().find(|line| line.starts_with(" batch")).unwrap();
        assert!(batch.contains(unit), "{file}: {text}");
    }
}

#[test]
fn who_is_throttled_does_not_wait_and_is_shown_to_be_throttled() {
    let place = Place::new();
    let limited = format!("{SCENARIO}\n[cgroups]\nbatch = {{ quota = \"20ms/100ms\" }}\n");
    std::fs::write(place.path("limited.toml"), limited).unwrap();
    for policy in ["vtime", "eevdf"] {
        let args = ["limited.toml", "--policy", policy, "--duration", "2s"];
        let report = place.json(&args);
        let batch = group(&report, "batch");
        let cpus = batch["cpus"].as_f64().unwrap();
        assert!((cpus - 0.2).abs() < 0.02, "{policy}: {batch}");
        // Three tasks for most of two seconds.
        assert!(batch["throttled_ns"].as_u64().unwrap() > 4_000_000_000, "{policy}: {batch}");
        assert!(batch["wait"]["max_ns"].as_u64().unwrap() < 50_000_000, "{policy}: {batch}");
        let idle = report["contenders"][0]["idle_beside_work"].as_f64().unwrap();
        assert!(idle < 0.05, "{policy}: {idle}");
        assert!(place.text(&args).contains("throttled"), "{policy}");
    }
}

#[test]
fn what_is_wrong_is_refused_with_what_would_be_right() {
    let place = Place::new();
    for (args, status, said) in [
        (vec!["none.toml"], 3, "none.toml"),
        (vec!["small.toml", "--policy", "vtiem"], 3, "did you mean 'vtime'"),
        (vec!["small.toml", "--set", "quantum=1"], 3, "slice_ns"),
        (vec!["small.toml", "--set", "slice=1h"], 3, "out of range"),
        (vec!["small.toml", "--lanes", "wbe=fifo"], 3, "batch, web"),
        (vec!["small.toml", "--lanes", "web"], 2, "CGROUP=POLICY"),
        (vec!["small.toml", "--compare=fifo,fifo"], 2, "twice"),
        (vec!["small.toml", "--compare=fifo,lanes"], 3, "says no lanes"),
        (vec!["small.toml", "--warmup", "1s"], 3, "--duration"),
        (vec!["small.toml", "--from", "1ms"], 2, "--gantt"),
        (vec!["small.toml", "--gantt", "a.svg", "--from", "2s"], 2, "300ms"),
        (vec!["small.toml", "--gantt", "a.svg", "--to", "1ns", "--warmup", "9ms"], 2, "warm-up"),
        (vec!["small.toml", "--policy", "fifo", "--compare"], 2, "cannot be used with"),
        (vec!["small.toml", "--cpus", "0"], 3, "no CPUs"),
        (vec!["small.toml", "--compare", "fifo"], 2, "--compare[=<POLICY,...>]"),
        (vec!["small.toml", "--until-narrow", "--precision", "0.05"], 2, "write it like 5%"),
        (vec!["small.toml", "--cpus", "6", "--llcs", "4"], 3, "a multiple of 4 CPUs"),
        (vec!["small.toml", "--lanes", "web=eevdf"], 4, "no lanes"),
        (vec!["small.toml", "--policy", "eevdf", "--set", "slice=5ms"], 2, "no options"),
        (vec!["small.toml", "--only", "wbe"], 3, "batch, web"),
    ] {
        let (code, stderr) = place.refused(&args);
        assert_eq!(code, status, "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
}

#[test]
fn a_trace_is_the_same_each_time_and_its_window_is_smaller() {
    let place = Place::new();
    let bytes = |file: &str, more: &[&str]| {
        place.text(&[&["small.toml", "--trace", file], more].concat());
        std::fs::read(place.path(file)).unwrap()
    };
    let whole = bytes("a.pftrace", &[]);
    assert!(whole.len() > 10_000 && whole == bytes("b.pftrace", &[]));
    let window = bytes("c.pftrace", &["--from", "100ms", "--to", "120ms"]);
    assert!(window.len() < whole.len() / 5);
}

#[test]
fn a_picture_is_drawn_or_refused_with_a_window_that_can_be_drawn() {
    let place = Place::new();
    let drawn = ["small.toml", "--gantt", "a.svg", "--trace", "a.pftrace", "--to", "150ms"];
    let drawn = place.sim(&drawn);
    let said = String::from_utf8_lossy(&drawn.stderr);
    assert!(drawn.status.success(), "{said}");
    assert!(said.contains("picture 'a.svg'") && said.contains("trace 'a.pftrace'"), "{said}");
    let svg = std::fs::read_to_string(place.path("a.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns") && svg.contains("CPU 1") && svg.contains("web 2"));

    let long = ["small.toml", "--duration", "20s", "--gantt", "b.svg"];
    let (code, said) = place.refused(&long);
    assert_eq!(code, 3, "{said}");
    let window = said.trim_end().rsplit_once("--from ").expect("a remedy").1;
    let window: Vec<&str> = window.split(' ').collect();
    place.text(&[&long[..], &["--from"], &window].concat());
    assert!(place.path("b.svg").exists());
}

/// Every cgroup has tasks that sleep, and more work than CPUs.
fn two_services() -> Place {
    let place = Place::new();
    let scenario = SCENARIO.replace("\"run 1s\"", "\"run 5ms..20ms\", \"sleep 1ms\"");
    std::fs::write(place.path("two.toml"), scenario).unwrap();
    place
}

/// Of three tasks that run for a slice at a time and one that sleeps mostly, on one CPU.
const BESIDE_HOGS: &str = r#"
name = "beside"
about = "a service beside hogs"
duration = "2s"
warm_up = "100ms"

[machine]
cpus = 1

[[task]]
name = "web"
cgroup = "web"
steps = ["run 500us..1ms", "sleep 8ms..10ms"]

[[task]]
name = "batch"
count = 3
cgroup = "batch"
steps = ["run 1s"]
"#;

/// Regression: without its half rustland was first in, first out, and nobody was told.
#[test]
fn a_policy_that_decides_in_user_space_does_so_in_every_kind_of_run() {
    const FIFO_NS: u64 = 5_000_000;
    let place = Place::new();
    std::fs::write(place.path("beside.toml"), BESIDE_HOGS).unwrap();
    let p50_ns = |contender: &serde_json::Value| {
        let groups = contender["groups"].as_array().unwrap();
        let web = groups.iter().find(|group| group["cgroup"] == "web").unwrap();
        web["wait"]["p50_ns"].as_u64().unwrap_or_else(|| panic!("{web:#}"))
    };
    let alone = place.json(&["beside.toml", "--policy", "rustland"]);
    let compared = place.json(&["beside.toml", "--compare=fifo,rustland"]);
    let lanes = place.json(&["beside.toml", "--lanes", "web+batch=rustland"]);
    let runs = [&alone["contenders"][0], &compared["contenders"][1], &lanes["contenders"][0]];
    for run in runs {
        assert!(p50_ns(run) < FIFO_NS / 10, "{run:#}");
    }
    assert!(p50_ns(&compared["contenders"][0]) > FIFO_NS, "{compared:#}");
    let plan = place.json(&["plan", "beside.toml", "--plan-runs", "3"]);
    let p99 = |candidate: &str| {
        let mut rows = plan["table"].as_array().unwrap().iter();
        let row = rows.find(|row| row["candidate"] == candidate && row["form"] == "all").unwrap();
        row["p99"]["estimate"].as_f64().unwrap()
    };
    assert!(p99("rustland") < p99("fifo") / 2.0, "{plan:#}");
}

#[test]
fn a_plan_says_what_each_cgroup_prefers_and_weighs_them() {
    let place = two_services();
    let plan = place.json(&["plan", "two.toml", "--plan-runs", "3"]);
    let apps = plan["apps"].as_array().unwrap();
    let names: Vec<&str> = apps.iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["batch", "web"]);
    let objectives: Vec<&str> = apps.iter().map(|a| a["objective"].as_str().unwrap()).collect();
    assert_eq!(objectives, ["throughput", "throughput"], "nobody answers requests");
    for strategy in ["round-robin", "delta", "benefit", "delta-benefit"] {
        let sum: f64 = apps.iter().map(|a| a["weights"][strategy].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{strategy}: {sum}");
    }
    let delta = |app: &serde_json::Value| app["weights"]["delta"].as_f64().unwrap();
    assert!(delta(&apps[0]) > 0.6, "the slower one gets more: {plan:#}");
    let text = place.text(&["plan", "small.toml", "--plan-runs", "3"]);
    assert!(
        text.contains("'batch' has no latency: it answered nothing, and no task of it slept"),
        "{text}"
    );
    assert!(text.contains("recommended: ") && text.contains("not measured: turns"), "{text}");
}

#[test]
fn a_cgroup_is_judged_by_what_the_scenario_says_that_it_is_for() {
    let place = two_services();
    let said = std::fs::read_to_string(place.path("two.toml")).unwrap();
    let said = format!("{said}\n[cgroups.web]\nobjective = \"p99\"\n");
    std::fs::write(place.path("said.toml"), &said).unwrap();
    let plan = place.json(&["plan", "said.toml", "--plan-runs", "3"]);
    assert_eq!(plan["apps"][1]["objective"], "p99");
    assert_eq!(plan["recommendation"]["objective"], "parts");
    std::fs::write(place.path("wrong.toml"), said.replace("\"p99\"", "\"speed\"")).unwrap();
    let (code, why) = place.refused(&["plan", "wrong.toml"]);
    assert!(code == 3 && why.contains("wrong.toml:") && why.contains("mix:W"), "{why}");
}

#[test]
fn tasks_of_the_root_count_in_what_is_recommended() {
    // Regression: the plan was of the one cgroup alone.
    let place = Place::new();
    let some = SCENARIO.replace("cgroup = \"batch\"\n", "");
    std::fs::write(place.path("some.toml"), some).unwrap();
    let plan = place.json(&["plan", "some.toml", "--plan-runs", "3"]);
    assert_eq!(plan["apps"].as_array().unwrap().len(), 1);
    assert_eq!(plan["whole"]["form"], "all");
    assert_eq!(plan["recommendation"]["objective"], "parts");
}

#[test]
fn a_scenario_without_cgroups_has_nothing_to_plan() {
    let place = Place::new();
    let flat = SCENARIO.replace("cgroup = \"web\"\n", "").replace("cgroup = \"batch\"\n", "");
    std::fs::write(place.path("flat.toml"), flat).unwrap();
    let (code, said) = place.refused(&["plan", "flat.toml"]);
    assert!(code == 3 && said.contains("root cgroup"), "{said}");
}

#[test]
fn strategies_are_compared_in_turns_and_as_lanes() {
    let place = two_services();
    let report = place.json(&["two.toml", "--strategy", "round-robin,delta", "--plan-runs", "3"]);
    let wanted = ["fair", "round-robin, turns of 10 ms by lane", "delta, turns of 10 ms by lane"];
    let lanes = ["round-robin, lanes side by side", "delta, lanes side by side"];
    let found = contenders(&report);
    assert!(wanted.iter().all(|name| found.contains(name)), "{found:?}");
    // Both may prefer the same policy: then there is nothing to put side by side.
    let others = found.iter().filter(|name| !wanted.contains(name));
    assert!(others.clone().all(|name| lanes.contains(name)), "{found:?}");
    let (code, said) = place.refused(&["small.toml", "--strategy", "delta", "--plan-runs", "3"]);
    assert!(code == 3 && said.contains("--strategy round-robin needs no figures"), "{said}");
}

#[test]
fn turns_are_taken_as_they_are_written() {
    let place = Place::new();
    let run = |turns| place.json(&["small.toml", "--turns", turns]);
    let alone = place.json(&["small.toml", "--policy", "vtime"]);
    let wait = |report: &serde_json::Value| {
        report["contenders"][0]["groups"][1]["wait"]["p99_ns"].as_u64().unwrap()
    };
    assert_ne!(wait(&run("vtime=3ms,fifo=1ms")), wait(&alone));
    let (code, said) = place.refused(&["small.toml", "--turns", "vtime=1ns"]);
    assert_eq!(code, 3, "{said}");
    let (code, said) = place.refused(&["small.toml", "--turns", "vtime=1ms", "--set", "slice=5ms"]);
    assert!(code == 2 && said.contains("defaults"), "{said}");
}

#[test]
fn tuning_ends_with_a_command_that_can_be_run() {
    let place = two_services();
    let common = ["tune", "two.toml", "--strategy", "round-robin", "--plan-runs", "3"];
    let tuned = place.json(&[&common[..], &["--runs", "2"]].concat());
    let table = tuned["table"].as_array().unwrap();
    let measured = |row: &serde_json::Value| !row["throughput"]["interval"].is_null();
    assert!(table.len() > 5 && table.iter().all(measured), "{tuned:#}");
    assert_eq!(tuned["base_slices"].as_array().unwrap().len(), 1, "{tuned:#}");
    let recommended = &tuned["recommendation"];
    assert!(recommended["sentence"].is_string() && tuned["again"].is_string(), "{tuned:#}");
    if recommended["contender"].is_null() {
        assert_eq!(recommended["command"], "");
        return;
    }
    let words: Vec<&str> = recommended["command"].as_str().unwrap().split(' ').skip(2).collect();
    place.text(&words);
}

#[test]
fn a_run_that_fails_ends_with_status_10_and_the_command_that_fails_again() {
    let place = Place::new();
    let crowd = SCENARIO.replace("count = 3", "count = 40").replace("cpus = 2", "cpus = 1");
    std::fs::write(place.path("crowd.toml"), crowd).unwrap();
    let args = ["crowd.toml", "--duration", "35s", "--set", "slice=1s", "--compare=fifo"];
    let (code, said) = place.refused(&args);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("waiting_bounded") && said.contains("under fifo with seed 1"), "{said}");
    let again = said.trim_end().rsplit_once("metasched sim ").unwrap().1;
    assert_eq!(place.refused(&again.split(' ').collect::<Vec<_>>()), (10, said.clone()));
}

#[test]
fn a_scenario_is_replayed_with_real_threads_and_told_in_the_same_figures() {
    let place = Place::new();
    let args = ["replay", "small.toml", "--duration", "200ms", "--warmup", "20ms"];
    let report = place.json(&args);
    let groups = report["replayed"]["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["cgroup"].as_str().unwrap()).collect();
    assert_eq!(names, ["batch", "web", "all"]);
    assert!(groups.iter().all(|group| group["cpus"].as_f64().unwrap() > 0.0), "{groups:?}");
    // Either waits were traced, or it is said why not.
    let traced = !groups[0]["wait"].is_null();
    assert_ne!(traced, report["no_waits"].is_string(), "{report}");
    assert!(report["replayed"]["idle_beside_work"].is_null(), "{report}");
    let text = place.text(&args);
    assert!(text.contains("replayed on this machine") && text.contains("not measured"), "{text}");
}

#[test]
fn what_cannot_be_replayed_is_refused_by_its_name() {
    let place = Place::new();
    let kthread = SCENARIO.replace("name = \"web\"", "name = \"web\"\nkthread = true");
    std::fs::write(place.path("kthread.toml"), kthread).unwrap();
    let (status, said) = place.refused(&["replay", "kthread.toml"]);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains("'web' is a kernel thread; leave kthread out"), "{said}");
}

#[test]
fn a_machine_that_was_calibrated_is_one_that_scenarios_run_on() {
    let place = Place::new();
    let text = place.text(&["calibrate", "--out", "here.toml"]);
    assert_eq!(text, std::fs::read_to_string(place.path("here.toml")).unwrap());
    let simulated = place.text(&["small.toml", "--machine", "here.toml", "--policy", "fifo"]);
    assert!(simulated.contains("--machine here.toml"), "{simulated}");
}

#[test]
fn the_policies_that_are_compared_may_be_named() {
    let place = Place::new();
    let plan =
        place.json(&["plan", "small.toml", "--schedulers", "vtime,fifo", "--plan-runs", "3"]);
    for row in plan["table"].as_array().unwrap() {
        let name = row["candidate"].as_str().unwrap();
        assert!(["vtime", "fifo"].contains(&name), "{row:#}");
    }
    let (status, said) = place.refused(&["plan", "small.toml", "--schedulers", "vtme"]);
    assert!(status == 3 && said.contains("'vtme'") && said.contains("vtime"), "{status} {said}");
    let (status, said) = place.refused(&["tune", "small.toml", "--schedulers", "eevdf"]);
    assert!(status == 3 && said.contains("no other is named"), "{status} {said}");
}

/// Real threads in the place of the model, under real schedulers. Of one cgroup: each run of the
/// default scheduler costs a load of the program.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_scenario_is_planned_with_real_threads_and_the_default_scheduler_is_back() {
    let place = Place::new();
    let (one, _) = SCENARIO.split_once("[[task]]\nname = \"batch\"").unwrap();
    std::fs::write(place.path("one.toml"), one).unwrap();
    // What a killed replay leaves. No process can have this id.
    let left = std::path::Path::new("/sys/fs/cgroup/metasched/replay-4194305");
    std::fs::create_dir_all(left.join("below")).unwrap();
    let quick = ["--schedulers", "vtime", "--duration", "200ms", "--plan-runs", "3"];
    let plan = place.json(&[&["plan", "one.toml", "--replay"], &quick[..]].concat());
    assert!(plan["machine"].as_str().unwrap().starts_with("this machine"), "{plan:#}");
    let rows = plan["table"].as_array().unwrap();
    assert!(rows.len() == 1 && rows[0]["candidate"] == "vtime", "{plan:#}");
    assert_eq!(rows[0]["rounds"], 3, "{plan:#}");
    assert!(rows[0]["throughput"]["estimate"].as_f64().unwrap() > 0.0, "{plan:#}");
    assert!(plan["recommendation"]["sentence"].is_string(), "{plan:#}");
    let state = std::fs::read_to_string("/sys/kernel/sched_ext/state").unwrap();
    assert_eq!(state.trim(), "disabled");
    assert!(!left.exists(), "the next replay removes it");
}
