//! What a start loads.

use std::path::Path;
use std::time::Duration;

use metasched_base::Kind;
use metasched_control::{RUN_DIR, lock_holder};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::Spawn;

use crate::machine::{TestMachine, status};
use crate::support::Run;

fn ok(arguments: &[&str]) -> String {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_policy_that_was_not_loaded_is_refused_with_how_to_load_it() {
    let _machine = TestMachine::take();
    let bad_input = Some(i32::from(Kind::BadInput.exit_code()));
    let (code, said) = Run::start(&["start", "vtime", "--policies", "lavd"]).finish();
    assert_eq!(code, bad_input, "{said}");
    ok(&["start", "vtime", "--policies", "vtime"]);
    let view: serde_json::Value = serde_json::from_str(&ok(&["--json", "status"])).unwrap();
    assert_eq!(view["keeper"]["policies"], serde_json::json!(["vtime"]));
    let cgroup = Cgroup::create("metasched-test/a").unwrap();
    for refused in [&["lane", "assign", "metasched-test/a", "fifo"][..], &["switch", "fifo"]] {
        let (code, said) = Run::start(refused).finish();
        assert_eq!(code, bad_input, "{said}");
        assert!(said.contains("metasched start vtime --policies vtime,fifo"), "{said}");
    }
    ok(&["lane", "assign", "metasched-test/a", "vtime"]);
    ok(&["lane", "unassign", "--all"]);
    ok(&["stop"]);
    ok(&["start", "vtime"]);
    ok(&["switch", "fifo"]);
    ok(&["stop"]);
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
    assert!(status().is_default());
}

/// How long the thread of a process that ran most ran, and how long it waited for a CPU.
fn ran_and_waited(pid: i32) -> (Duration, Duration) {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let figures = threads.map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap();
        let mut ns = text.split(' ').map(|ns| Duration::from_nanos(ns.parse().unwrap_or(0)));
        (ns.next().unwrap(), ns.next().unwrap())
    });
    figures.max().unwrap()
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_start_does_not_wait_for_its_turn_beside_hogs() {
    let _machine = TestMachine::take();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let hogs: Vec<_> = (0..2 * cpus)
        .map(|_| Spawn::new(["sh", "-c", "while :; do :; done"]).start().unwrap())
        .collect();
    ok(&["start", "fair"]);
    let keeper = lock_holder(Path::new(RUN_DIR)).unwrap().id;
    let (ran, waited) = ran_and_waited(keeper.pid);
    ok(&["stop"]);
    drop(hogs);
    // Two hogs a CPU: at their priority it would wait for twice as long as it runs.
    assert!(waited < ran / 2, "it ran for {ran:?} and waited for {waited:?}");
}
