//! Random runs with faults: a fixed set of seeds, and every case that broke once.

use metasched_sim::fuzz::{Case, generate, scenario};
use metasched_sim::{Failure, seeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a minute is enough for on two CPUs; `make fuzz-sim` runs as many as one likes.
const SEEDS: u64 = 300;

/// Runs every case, as many at a time as there are CPUs; the first failure by seed.
fn first_failure(cases: impl Iterator<Item = Case> + Send) -> Option<Failure> {
    let (cases, failures) = (Mutex::new(cases), Mutex::new(Vec::new()));
    let work = || {
        while failures.lock().unwrap().is_empty() {
            let Some(case) = cases.lock().unwrap().next() else { break };
            if let Err(failure) = scenario(&case).run() {
                failures.lock().unwrap().push((case.seed, failure));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner().unwrap().into_iter().min_by_key(|(seed, _)| *seed).map(|(_, f)| f)
}

#[test]
fn level_1_keeps_its_promises_whatever_happens() {
    if let Some(failure) = first_failure(seeds(SEEDS).map(generate)) {
        panic!("{failure}");
    }
}

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds");
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
