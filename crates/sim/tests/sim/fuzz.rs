//! Random runs with faults: a fixed set of seeds about everything, more about one thing each, one
//! more reassignment at every possible point, and every case that broke once.

use metasched_sim::fuzz::{
    Act, Case, Theme, events_before_calm, everywhere, generate, generate_about, reassignments,
    scenario,
};
use metasched_sim::{Failure, seeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// With those of single themes what a minute is enough for on two CPUs. They are the same in every run,
/// so they tell what a change has broken; `make fuzz-sim` looks for more with as many as one likes.
const SEEDS: u64 = 30;
/// Of each theme that has a test.
const SEEDS_OF_THEME: u64 = 12;

/// Runs every case, as many at a time as there are CPUs; the failure that came first among
/// them. A case that fails is kept in a file, from which it can be replayed.
fn first_failure(cases: impl Iterator<Item = Case> + Send) -> Option<Failure> {
    let (cases, failures) = (Mutex::new(cases.enumerate()), Mutex::new(Vec::new()));
    let test = std::thread::current().name().unwrap_or("fuzz").replace("::", "-");
    let work = || {
        while failures.lock().unwrap().is_empty() {
            let Some((place, case)) = cases.lock().unwrap().next() else { break };
            let file = format!("{}/{test}-{place}.json", env!("CARGO_TARGET_TMPDIR"));
            let replay = format!("make fuzz-sim ARGS=\"--replay {file}\"");
            if let Err(failure) = scenario(&case).replayed_by(replay).run() {
                fs::write(file, serde_json::to_string_pretty(&case).unwrap()).unwrap();
                failures.lock().unwrap().push((place, failure));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner().unwrap().into_iter().min_by_key(|(place, _)| *place).map(|(_, f)| f)
}

fn all_pass(cases: impl Iterator<Item = Case> + Send) {
    if let Some(failure) = first_failure(cases) {
        panic!("{failure}");
    }
}

#[test]
fn level_1_keeps_its_promises_whatever_happens() {
    all_pass(seeds(SEEDS).map(generate));
}

fn about(theme: Theme) {
    all_pass(seeds(SEEDS_OF_THEME).map(|seed| generate_about(theme, seed)));
}

#[test]
fn the_least_quotas_hold_and_park_nobody_for_long() {
    about(Theme::Quotas);
}

#[test]
fn limits_may_change_at_any_moment() {
    about(Theme::Changes);
}

#[test]
fn the_root_lane_may_be_replaced_at_any_moment() {
    about(Theme::Root);
}

#[test]
fn lanes_may_come_go_and_change_at_any_moment() {
    about(Theme::Lanes);
}

#[test]
fn turns_may_begin_and_end_at_any_moment() {
    about(Theme::Turns);
}

#[test]
fn cpus_may_go_and_come_at_any_moment() {
    about(Theme::Hotplug);
}

#[test]
fn programs_may_go_and_come_at_any_moment() {
    about(Theme::Programs);
}

/// Two applications with lanes beside the root's on two CPUs: hogs, a service, what comes and
/// goes, a pinned task and a kernel thread.
fn small() -> Case {
    serde_json::from_str(include_str!("../small.json")).unwrap()
}

#[test]
fn a_reassignment_may_come_right_after_any_event() {
    let case = small();
    let events = events_before_calm(&case).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(events > 100, "{events} events are too few to tell anything");
    let mut acts = reassignments(&case);
    assert_eq!(acts.len(), 6);
    acts.push(Act::CpuOff { cpu: 1 });
    all_pass(everywhere(&case, acts, events));
}

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_broke_once_does_not_break_again() {
    let files = kept();
    assert!(!files.is_empty());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let case: Case =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(!case.broke.is_empty(), "{file}: say in 'broke' what broke");
        let replay = format!("make fuzz-sim ARGS=\"--replay crates/sim/tests/seeds/{file}\"");
        scenario(&case).replayed_by(replay).pass();
    }
}
