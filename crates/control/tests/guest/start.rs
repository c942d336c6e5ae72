//! What a start takes, and what it loads.

use std::time::{Duration, Instant};

use metasched_base::Kind;
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Spawn};

use crate::machine::{Machine, status};
use crate::support::Run;

/// A start beside hogs takes at most so many times what it takes alone: the keeper, its guard
/// and the load go before ordinary tasks, and what is left waits for turns, such as the
/// command itself and threads of the kernel. It was 7 to 20 times.
const BESIDE_HOGS_MOST: f64 = 3.0;

/// Of so many starts the median is taken.
const STARTS: usize = 3;

fn ok(arguments: &[&str]) -> String {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

/// The median of what starts take.
fn starts() -> Duration {
    let mut took: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            ok(&["start", "vtime"]);
            let took = began.elapsed();
            ok(&["stop"]);
            took
        })
        .collect();
    took.sort();
    took[STARTS / 2]
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_start_beside_hogs_takes_little_longer_than_alone() {
    let _machine = Machine::take();
    let alone = starts();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let hog = || Spawn::new(["sh", "-c", "while :; do :; done"]).start().unwrap();
    let hogs: Vec<Child> = (0..2 * cpus).map(|_| hog()).collect();
    let beside = starts();
    drop(hogs);
    println!("a start takes {alone:?} alone, {beside:?} beside two hogs a CPU");
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    assert!(ratio < BESIDE_HOGS_MOST, "{ratio}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_policy_that_was_not_loaded_is_refused_with_how_to_load_it() {
    let _machine = Machine::take();
    let bad_input = Some(i32::from(Kind::BadInput.exit_code()));
    let (code, said) = Run::start(&["start", "vtime", "--policies", "lavd"]).finish();
    assert_eq!(code, bad_input, "{said}");
    ok(&["start", "vtime", "--policies", "vtime"]);
    let view: serde_json::Value = serde_json::from_str(&ok(&["--json", "status"])).unwrap();
    assert_eq!(view["keeper"]["policies"], serde_json::json!(["vtime"]));
    let cgroup = Cgroup::create("metasched-test/a").unwrap();
    for refused in [&["assign", "metasched-test/a", "fifo"][..], &["switch", "fifo"]] {
        let (code, said) = Run::start(refused).finish();
        assert_eq!(code, bad_input, "{said}");
        assert!(said.contains("metasched start vtime --policies vtime,fifo"), "{said}");
    }
    ok(&["assign", "metasched-test/a", "vtime"]);
    ok(&["unassign", "--all"]);
    ok(&["stop"]);
    ok(&["start", "vtime"]);
    ok(&["switch", "fifo"]);
    ok(&["stop"]);
    cgroup.remove().unwrap();
    Cgroup::open(std::path::Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
    assert!(status().is_default());
}
