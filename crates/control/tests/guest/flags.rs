//! Cgroups that are flagged latency-aware, on a kernel: all share a lane, whoever flags them, and what is below
//! goes along.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use metasched_control::{FLAG, LATENCY_AWARE, LATENCY_AWARE_POLICY};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Spawn};
use metasched_loader::LaneInfo;
use nix::sys::signal::Signal;

use crate::machine::status;
use crate::rules::{Scene, TOP, folder, kept, make, owner, time_until_on_lane};
use crate::support::{Run, eventually};

const ARGUMENTS: [&str; 4] = ["--default", "vtime", "--policies", "vtime,lags"];
const ALLOWED: &str = "attributes = true\n";

fn flag(name: &str, value: &str) {
    xattr::set(folder(name), FLAG, value.as_bytes()).unwrap();
}

fn is_flagged(name: &str) -> bool {
    owner(name).is_some_and(|app| app.name == LATENCY_AWARE)
}

/// What a command says that has to succeed.
fn said(arguments: &[&str]) -> String {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

fn explained(name: &str) -> String {
    said(&["lane", "explain", &format!("{TOP}/{name}")])
}

/// A shell that does this in a cgroup.
fn does(name: &str, script: &str) -> Child {
    let cgroup = Cgroup::open(&folder(name)).unwrap();
    Spawn::new(["sh", "-c", script]).cgroup(&cgroup).start().unwrap()
}

fn end(mut child: Child) {
    child.signal(Signal::SIGKILL);
    child.wait(Duration::from_secs(30)).unwrap().unwrap();
}

/// What tasks in a cgroup and below have had, in microseconds.
fn used_us(name: &str) -> u64 {
    let text = std::fs::read_to_string(folder(name).join("cpu.stat")).unwrap();
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    usage.unwrap().parse().unwrap()
}

fn lane_of_flagged() -> Option<LaneInfo> {
    kept().lanes.into_iter().find(|lane| lane.is_apps() && lane.policy == LATENCY_AWARE_POLICY)
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_flag_is_inherited_taken_back_below_and_outlives_the_keeper() {
    let mut scene = Scene::of(ALLOWED, &ARGUMENTS, &["a/in", "a/out/below", "b", "c"]);
    flag("a", "1");
    let soon = time_until_on_lane("a", LATENCY_AWARE);
    println!("on the lane {soon:?} after its attribute was set");
    flag("a/out", "0");
    let out = format!("{TOP}/a/out");
    eventually("what is below is out again", || kept().exempt.contains_key(&out));
    assert!(owner("a/in").is_none(), "it inherits");
    let hand = said(&["lane", "assign", &format!("{TOP}/b"), "--latency-aware"]);
    assert!(hand.contains("on a lane of 'lags'"), "{hand}");
    assert_eq!(owner("b").unwrap().number, owner("a").unwrap().number, "they share a lane");
    for (name, told) in [
        ("a/in", format!("a/in: latency-aware, by {FLAG} = \"1\" of '{TOP}/a' above it")),
        (
            "a/out/below",
            format!("below: not latency-aware, on the default lane ('vtime'), by {FLAG}"),
        ),
        ("b", "b: latency-aware, by hand".to_owned()),
    ] {
        let said = explained(name);
        assert!(said.contains(&told), "{said}");
    }
    // What runs there is where it says.
    let hog = does("a/out/below", "while :; do :; done");
    let beside = does("a/in", "while :; do :; done");
    eventually("both lanes run something", || {
        let ran = kept().lanes.into_iter().map(|lane| lane.runtime_ns);
        ran.filter(|ran| *ran > 200_000_000).count() == 2
    });
    end(beside);
    let (before, used) = (lane_of_flagged().unwrap().runtime_ns, used_us("a/out"));
    eventually("it runs on", || used_us("a/out") > used + 300_000);
    let flagged_ns = lane_of_flagged().unwrap().runtime_ns - before;
    assert!(flagged_ns < 50_000_000, "what was taken out ran on the flagged lane: {flagged_ns} ns");
    end(hog);

    flag("c", "maybe");
    scene.run.as_mut().unwrap().kill();
    eventually("the guard has put things right", || status().is_default());
    scene.again(&ARGUMENTS);
    eventually("flags are in force again", || {
        is_flagged("a") && !is_flagged("b") && kept().exempt.contains_key(&out)
    });
    for _ in 0..20 {
        make("gone");
        flag("gone", "1");
        std::fs::remove_dir(folder("gone")).unwrap();
    }
    xattr::remove(folder("a"), FLAG).unwrap();
    eventually("none is flagged any more", || {
        let status = kept();
        status.apps.is_empty() && status.exempt.is_empty()
    });
    let said = scene.end();
    assert_eq!(said.matches("'maybe' is neither yes nor no").count(), 1, "{said}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_thousand_flagged_at_once_share_one_lane_within_seconds() {
    const N: usize = 1_000;
    /// Of an emulated machine whose host is busy.
    const SOON: Duration = Duration::from_secs(20);
    let names: Vec<String> = (0..N).map(|n| format!("f{n}")).collect();
    let scene =
        Scene::of(ALLOWED, &ARGUMENTS, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let begin = Instant::now();
    names.iter().for_each(|name| flag(name, "1"));
    let flagged = begin.elapsed();
    eventually("all are on the lane", || kept().apps.iter().any(|app| app.cgroups.len() == N));
    let took = begin.elapsed();
    println!("{N} cgroups flagged in {flagged:?}, all on the lane after {took:?}");
    assert!(took < SOON, "{took:?}");
    let status = kept();
    assert_eq!((status.apps.len(), status.apps[0].name.as_str()), (1, LATENCY_AWARE));
    names.iter().for_each(|name| flag(name, "0"));
    eventually("none is flagged any more", || kept().apps.is_empty());
    println!("and none {:?} after they were flagged", begin.elapsed());
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn beside_a_flagged_hog_all_others_have_cpus() {
    let scene = Scene::of(ALLOWED, &ARGUMENTS, &["hog", "light", "other"]);
    flag("hog", "1");
    flag("light", "1");
    eventually("both are on the lane", || is_flagged("hog") && is_flagged("light"));
    let hog = "while :; do :; done & while :; do :; done & while :; do :; done";
    let light = "while :; do i=0; while [ $i -lt 200 ]; do i=$((i + 1)); done; sleep 0.02; done";
    let children =
        [("hog", hog), ("other", hog), ("light", light)].map(|(name, script)| does(name, script));
    std::thread::sleep(Duration::from_secs(1));
    let before = ["hog", "light", "other"].map(used_us);
    std::thread::sleep(Duration::from_secs(3));
    let after = ["hog", "light", "other"].map(used_us);
    let used: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    println!("of two CPUs over 3 s the hog, the light one and the other used {used:?} us");
    let shown = said(&["lane", "list"]);
    println!("{shown}");
    assert!(shown.contains(LATENCY_AWARE), "{shown}");
    assert!(used[0] > 1_000_000 && used[2] > 1_000_000 && used[1] > 20_000, "{used:?}");
    drop(children);
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn flags_count_only_where_the_file_allows_them() {
    let rules =
        format!("[latency-aware]\ncgroups = [\"{TOP}/pods\"]\noptions = {{ slice = \"3ms\" }}\n");
    let scene = Scene::of(&rules, &ARGUMENTS, &["pods/pod1", "mine"]);
    let shared = owner("pods").unwrap();
    assert_eq!((shared.name.as_str(), shared.lane.options["slice_ns"]), (LATENCY_AWARE, 3_000_000));
    flag("mine", "1");
    flag("pods/pod1", "0");
    // Longer than any look, and something new to compare rules with.
    make("new");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(owner("mine").is_none() && kept().exempt.is_empty());
    // One that is flagged by hand is on the lane that the file has made.
    said(&["lane", "assign", &format!("{TOP}/mine"), "--latency-aware"]);
    let names: BTreeSet<String> = owner("mine").unwrap().cgroups.into_keys().collect();
    assert_eq!(names, ["mine", "pods"].map(|name| format!("{TOP}/{name}")).into());
    let (code, refused) =
        Run::start(&["lane", "assign", &format!("{TOP}/mine"), "vtime", "--latency-aware"])
            .finish();
    assert!(code == Some(2) && refused.contains("cannot be used with"), "{refused}");
    said(&["lane", "unassign", &format!("{TOP}/mine")]);
    assert!(owner("mine").is_none() && owner("pods").is_some());
    scene.end();
}
