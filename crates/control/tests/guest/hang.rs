//! A keeper that does not answer, through the command itself.

use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Kind, OURS_BESIDE_A_COMMAND};
use metasched_control::{RUN_DIR, lock_holder};
use metasched_host::process::ProcessId;
use nix::sys::signal::Signal;

use crate::machine::{TestMachine, processes, status};
use crate::support::{FEW, Run};

/// A client gives up within 5 s; its process takes a moment to start in an emulated guest.
const CLIENT_MOST: Duration = Duration::from_secs(8);

/// So many begin at the same time and still meet it.
const AT_A_TIME: usize = 4;

/// A signal ends it at once.
const SIGNAL_MOST: Duration = Duration::from_secs(2);

/// Starts a keeper; gives its process.
fn start(policy: &str) -> ProcessId {
    let (code, said) = Run::start(&["start", policy, FEW[0], FEW[1]]).finish();
    assert_eq!(code, Some(0), "{said}");
    lock_holder(Path::new(RUN_DIR)).unwrap().id
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn every_client_of_a_stopped_keeper_says_so_and_stop_ends_it() {
    let _machine = TestMachine::take();
    let keeper = start("vtime");
    assert!(keeper.signal(Signal::SIGSTOP));
    let timeout = i32::from(Kind::Timeout.exit_code());
    let clients: [&[&str]; 7] = [
        &["lane", "list", "--interval", "10ms"],
        &["lane", "explain"],
        &["lane", "assign", "/", "fifo"],
        &["lane", "unassign", "nobody"],
        &["lane", "set", "nobody", "--weight", "50"],
        &["switch", "fifo"],
        &["start", "fifo"],
    ];
    // Some at a time: each does nothing but wait.
    for clients in clients.chunks(AT_A_TIME) {
        let asked = Instant::now();
        let asking = clients.iter().map(|client| Run::start(client)).collect::<Vec<_>>();
        for (client, asks) in clients.iter().zip(asking) {
            let (code, said) = asks.finish();
            assert_eq!(code, Some(timeout), "{client:?}: {said}");
            assert!(said.contains("has not answered") && said.contains("metasched stop"), "{said}");
            assert!(asked.elapsed() < CLIENT_MOST, "{client:?}: {:?}", asked.elapsed());
        }
    }
    // Beside a command the status is not to be taken for the command's.
    let (code, said) = Run::start(&["exec", "--policy", "fifo", "--", "true"]).finish();
    assert_eq!(code, Some(i32::from(OURS_BESIDE_A_COMMAND)), "{said}");
    assert!(said.contains("has not answered"), "{said}");
    // What the kernel says is true all the same.
    let (code, said) = Run::start(&["--json", "status"]).finish();
    assert_eq!(code, Some(0), "{said}");
    let view: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(view["scheduler"], "metasched", "{said}");
    assert_eq!(view["keeper_error"]["kind"], "timeout", "{said}");

    let waits = Run::start(&["lane", "list"]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(waits.id().signal(Signal::SIGTERM), "it waits");
    let asked = Instant::now();
    let (code, said) = waits.finish();
    assert_eq!(code, Some(i32::from(Kind::Interrupted.exit_code())), "{said}");
    assert!(asked.elapsed() < SIGNAL_MOST, "{:?}", asked.elapsed());

    let (code, said) = Run::start(&["stop"]).finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("does not answer") && said.contains("'eevdf' is in force"), "{said}");
    assert!(status().is_default() && !keeper.is_alive(Path::new("/")));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn stop_ends_a_keeper_that_is_stopped_with_its_guard() {
    let _machine = TestMachine::take();
    let keeper = start("fifo");
    for guard in processes(|command| command == "metasched guard ") {
        assert!(ProcessId::of(Path::new("/"), guard.pid).unwrap().signal(Signal::SIGSTOP));
    }
    assert!(keeper.signal(Signal::SIGSTOP));
    let (code, said) = Run::start(&["stop"]).finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(status().is_default());
    assert!(processes(|command| command == "metasched guard ").is_empty());
    start("fifo");
    let (code, said) = Run::start(&["stop"]).finish();
    assert_eq!(code, Some(0), "{said}");
}
