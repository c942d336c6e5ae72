//! What `metasched latency` shows, beside what others see.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use metasched_base::Kind;
use metasched_host::cgroup::Cgroup;
use serde_json::Value;

use crate::machine::TestMachine;
use crate::schema;
use crate::support::{Beside, FEW, PUBLISHED, Run, published};

/// A shell that computes, and those of them that keep both CPUs of the guest busy.
fn hogs() -> Vec<Beside> {
    (0..3).map(|_| Beside::start("sh", &["-c", "while :; do :; done"])).collect()
}

/// What it prints as JSON, which is held to the recorded schema of this name.
pub fn document(schema: &str, arguments: &[&str]) -> Value {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    // Progress comes before it.
    let document = serde_json::from_str(&said[said.find('{').expect("a document")..]).unwrap();
    schema::check(schema, &document);
    document
}

/// The part of the waits that were shorter than so many us, if those of a bar, from half of its upper
/// bound to that, lie in it evenly.
fn below(bars: &[(u64, u64)], us: f64) -> f64 {
    let all: u64 = bars.iter().map(|(_, count)| count).sum();
    let part = |to: u64| {
        let from = if to > 2 { to as f64 / 2.0 } else { 0.0 };
        ((us - from) / (to as f64 - from)).clamp(0.0, 1.0)
    };
    bars.iter().map(|(to, count)| part(*to) * *count as f64).sum::<f64>() / all as f64
}

#[test]
fn a_part_of_a_bar_is_below_what_lies_in_it() {
    let bars = [(2, 10), (4, 0), (8, 30)];
    for (us, part) in [(0.0, 0.0), (1.0, 0.125), (4.0, 0.25), (6.0, 0.625), (9.0, 1.0)] {
        assert_eq!(below(&bars, us), part, "{us}");
    }
}

/// The upper bounds and the counts of runqlat's bars: `[1024 -> 2047] : 79 |***`.
fn of_runqlat(text: &str) -> Vec<(u64, u64)> {
    text.lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(" -> ")?;
            let (last, rest) = rest.split_once(':')?;
            let count = rest.split_whitespace().next()?.parse().ok()?;
            Some((last.trim().parse::<u64>().ok()? + 1, count))
        })
        .collect()
}

/// At each wake-up, and when a task gets its CPU, one of two tracers is called first: a wait is
/// longer for one than for the other by what they take themselves, in an emulated guest up to this.
const APART_US: f64 = 40.0;

/// Under the default scheduler, one of somebody else's, and lanes of ours. Both look at the same
/// threads at about the same time; the bounds of bars differ by 2.4 %, as a unit is 1,024 ns for us.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn waits_are_those_that_runqlat_sees_under_any_scheduler() {
    const SECONDS: &str = "5";
    let _machine = TestMachine::take();
    let _hogs = hogs();
    // Its threads sleep and run for a moment, and some wait for hogs.
    let watched = Beside::start("cyclictest", &["-q", "--policy=other", "-t8", "-i1500"]);
    let pid = watched.pid().to_string();
    for scheduler in ["eevdf", PUBLISHED, "vtime"] {
        if scheduler != "eevdf" {
            let start = ["start", scheduler];
            let few: &[&str] = if scheduler == "vtime" {
                &FEW
            } else {
                published();
                &[]
            };
            let (code, said) = Run::start(&[&start, few].concat()).finish();
            assert_eq!(code, Some(0), "{said}");
        }
        let runqlat = Command::new("runqlat")
            .args(["-p", &pid, SECONDS, "1"])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("'runqlat', which deps.sh installs: {e}"));
        let length = format!("{SECONDS}s");
        let ours = document("latency", &["latency", "--for", &length, "--pid", &pid, "--json"]);
        let theirs = runqlat.wait_with_output().unwrap();
        let theirs = of_runqlat(&String::from_utf8_lossy(&theirs.stdout));
        if scheduler != "eevdf" {
            assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
        }
        assert!(ours["scheduler"].as_str().unwrap().starts_with(scheduler), "{ours:#}");
        assert_eq!(ours["scheduler_later"], Value::Null);
        assert!(ours["overhead"]["runs"].as_u64().unwrap() > 1000, "{ours:#}");
        let bars = ours["subjects"][0]["histogram"].as_array().unwrap();
        let number = |bar: &Value, key: &str| bar[key].as_u64().unwrap();
        let ours: Vec<(u64, u64)> =
            bars.iter().map(|bar| (number(bar, "to_us"), number(bar, "count"))).collect();
        println!("{scheduler}: {ours:?} by us, {theirs:?} by runqlat");
        let count = |bars: &[(u64, u64)]| bars.iter().map(|(_, count)| count).sum::<u64>() as f64;
        let ratio = count(&ours) / count(&theirs);
        assert!(count(&theirs) > 1000.0 && (0.7..1.4).contains(&ratio), "{scheduler}: {ratio}");
        for edge in (2..20).map(|power| f64::from(1 << power)) {
            let by_us = [edge - APART_US, edge, edge + APART_US].map(|us| below(&ours, us));
            let by_them = below(&theirs, edge);
            let near = by_us[0] - 0.1..by_us[2] + 0.1;
            assert!(
                near.contains(&by_them),
                "{scheduler}: below {edge} us {by_us:.3?}, {by_them:.3}"
            );
        }
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_process_is_followed_with_all_that_it_forks_and_who_ran_instead() {
    let _machine = TestMachine::take();
    // By a name that nobody else has.
    let _hogs: Vec<Beside> = (0..3).map(|_| Beside::start("yes", &[])).collect();
    let script = "while :; do sleep 0.01; /bin/true; done";
    let watched = Beside::start("sh", &["-c", script]);
    let shell = watched.pid().to_string();
    let (code, said) = Run::start(&[&["start", "vtime"], &FEW[..]].concat()).finish();
    assert_eq!(code, Some(0), "{said}");
    let view = document(
        "latency-follow",
        &["latency", "--for", "3s", "--pid", &shell, "--children", "--json"],
    );
    assert_eq!(view["scheduler"], "vtime");
    let processes = view["processes"].as_array().unwrap();
    // One that was there when it began has no parent here.
    let forked = |name: &str| -> Vec<&Value> {
        let those = |process: &&Value| process["name"] == name && !process["parent"].is_null();
        processes.iter().filter(those).collect()
    };
    let own = |process: &&Value| process["pid"] == watched.pid();
    let parent = processes.iter().find(own).expect("the shell");
    let children = forked("sleep");
    assert!(children.len() > 1 && forked("true").len() > 1, "{view:#}");
    assert!(children.iter().all(|child| child["parent"] == parent["pid"]), "{view:#}");
    assert!(children.iter().all(|child| child["ran_ns"].as_u64().unwrap() > 0), "{view:#}");
    let others = || processes.iter().flat_map(|process| process["instead"].as_array().unwrap());
    let hogs_ran_ns: u64 = others()
        .filter(|other| other["name"] == "yes")
        .map(|other| other["wait_ns"].as_u64().unwrap())
        .sum();
    assert!(hogs_ran_ns > 0, "{view:#}");
    let number = |value: &Value| value.as_u64().unwrap();
    let waits: u64 = others().map(|other| number(&other["waits"])).sum();
    let runs: u64 = processes.iter().map(|process| number(&process["runs"])).sum();
    // They are read one after the other, and it goes on meanwhile.
    assert!(waits > 10 && runs + runs / 10 >= waits, "{runs} runs, {waits} waits: {view:#}");
    assert_eq!(view["missed"], 0);
    assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_lane_has_its_own_waits_and_two_recordings_are_compared() {
    let _machine = TestMachine::take();
    let hogs = hogs();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let cgroup = Cgroup::create("metasched-test/watched").unwrap();
    cgroup.add(hogs[0].pid()).unwrap();
    for arguments in [
        &["start", "vtime", FEW[0], FEW[1]][..],
        &["lane", "assign", "metasched-test/watched", "fifo"],
    ] {
        let (code, said) = Run::start(arguments).finish();
        assert_eq!(code, Some(0), "{said}");
    }
    std::thread::sleep(Duration::from_secs(1));
    let both = ["--lane", "metasched-test/watched", "--cgroup", "metasched-test/watched"];
    let record = |out: &str| {
        let rest = ["--for", "3s", "--interval", "500ms", "--out", out, "--json"];
        document("latency", &[&["latency"], &both[..], &rest].concat())
    };
    let first = record(&file("first"));
    let figures = |at: usize| first["subjects"][at]["figures"].clone();
    // In the order of the options: cgroups before lanes. The lane's books and the tracer see the same.
    let (traced, lane) = (figures(0), figures(1));
    let number = |figures: &Value, key: &str| figures[key].as_u64().unwrap() as f64;
    println!("{traced} by the tracer, {lane} by the lane");
    assert!(number(&lane, "count") > 5.0, "{first:#}");
    let ratio = number(&lane, "mean_ns") / number(&traced, "mean_ns");
    assert!((0.7..1.4).contains(&ratio), "{ratio}: {traced}, {lane}");
    // Nobody is in its way any more.
    drop(hogs);
    let alone = hogs_in(&cgroup);
    record(&file("second"));
    let view =
        document("latency-diff", &["latency", "diff", &file("first"), &file("second"), "--json"]);
    let subject = &view["subjects"][0];
    assert_eq!(subject["figures"][0]["name"], "per_s");
    assert!(subject["figures"][0]["values"][0].is_number(), "{view:#}");
    drop(alone);
    // Bad input: nothing is recorded, and what is wrong is said.
    for (arguments, words) in [
        (&["latency", "--lane", "none"][..], "there is none"),
        (&["latency", "--cgroup", "no/such"], "there is none"),
        (&["latency", "--pid", "4194304"], "there is none"),
        (&["latency", "diff", "/dev/null", "/dev/null"], "read the recording"),
    ] {
        let (code, said) = Run::start(arguments).finish();
        assert_eq!(code, Some(i32::from(Kind::BadInput.exit_code())), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
    cgroup.kill().unwrap();
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

/// One hog in the cgroup.
fn hogs_in(cgroup: &Cgroup) -> Beside {
    let hog = Beside::start("sh", &["-c", "while :; do :; done"]);
    cgroup.add(hog.pid()).unwrap();
    hog
}
