//! A scheduler that is not ours: changed to and from, and what becomes of it otherwise.

use std::path::Path;

use metasched_base::Kind;
use metasched_control::{EEVDF, Mechanism, RUN_DIR, Switcher, lock_holder, resolve};
use metasched_host::process::ProcessId;
use metasched_host::sched_ext::State;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::machine::{TestMachine, processes, status};
use crate::support::{PUBLISHED, Run, candidate, eventually, few, published};

/// Its process, and there is one only.
fn process() -> ProcessId {
    let found = running();
    assert_eq!(found.len(), 1, "processes of {PUBLISHED}");
    found[0]
}

fn running() -> Vec<ProcessId> {
    let all = processes(|command| command.contains(PUBLISHED)).into_iter();
    let its = all.filter(|process| process.comm == PUBLISHED);
    its.filter_map(|process| ProcessId::of(Path::new("/"), process.pid)).collect()
}

/// The name that the kernel has for what is in force.
fn ops() -> Option<String> {
    let now = status();
    (now.state == State::Enabled).then(|| now.ops.unwrap_or_default())
}

#[track_caller]
fn assert_in_force(name: &str) {
    let expected = match name {
        EEVDF => None,
        PUBLISHED => Some("simple"),
        _ => Some("metasched"),
    };
    assert_eq!(ops().as_deref(), expected, "{name}");
    assert_eq!(running().len(), usize::from(name == PUBLISHED), "processes of it under {name}");
}

/// What a command says that ends well.
#[track_caller]
fn ok(arguments: &[&str]) -> String {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

fn view() -> Value {
    serde_json::from_str(&ok(&["--json", "status"])).unwrap()
}

fn keeper_is_gone() {
    eventually("the keeper has ended", || lock_holder(Path::new(RUN_DIR)).is_none());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn it_is_swapped_in_and_out_beside_ours_and_the_default_one() {
    let _machine = TestMachine::take();
    let mut switcher = Switcher::new(few("guest test")).unwrap();
    let (simple, fifo, vtime) = (published(), candidate("fifo"), candidate("vtime"));
    let mut loads = status().enable_seq;
    for (to, stops) in [
        (&simple, false),
        (&fifo, true),
        (&vtime, true),
        (&simple, true),
        (&candidate(EEVDF), true),
    ] {
        let record = switcher.switch_by(to, Mechanism::Swap).unwrap();
        println!("{record:?}");
        let starts = to.name != EEVDF;
        assert_eq!((record.stop_ns.is_some(), record.start_ns.is_some()), (stops, starts));
        loads += u64::from(starts);
        assert_eq!(status().enable_seq, loads, "{record:?}");
        assert_in_force(&to.name);
        switcher.check_alive().unwrap();
    }
    // With options it is another candidate.
    let options = resolve(&[simple], &format!("{PUBLISHED}:-f")).unwrap();
    let record = switcher.switch_to(&options).unwrap();
    assert_eq!(record.to, "scx_simple -f");
    let of_it = processes(|command| command.ends_with("/scx_simple -f "));
    assert_eq!(of_it.len(), 1, "{of_it:?}");
    drop(switcher);
    assert_in_force(EEVDF);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_keeper_changes_to_it_and_ends_when_it_is_killed() {
    let _machine = TestMachine::take();
    assert!(ok(&["list"]).contains(PUBLISHED));
    ok(&["start", PUBLISHED, "--policies", "fifo"]);
    assert_in_force(PUBLISHED);
    ok(&["switch", "fifo"]);
    assert_in_force("fifo");
    ok(&["switch", PUBLISHED]);
    assert_in_force(PUBLISHED);
    let shown = view();
    assert_eq!(shown["scheduler"], PUBLISHED, "{shown}");
    assert_eq!(shown["holder"]["id"]["pid"], process().pid, "{shown}");

    assert!(process().signal(Signal::SIGKILL));
    keeper_is_gone();
    assert_in_force(EEVDF);
    let last = view()["last_exit"].take();
    assert_eq!((&last["scheduler"], &last["kind"]), (&PUBLISHED.into(), &"process".into()));
    assert!(last["reason"].as_str().unwrap().contains("signal"), "{last}");
    assert_eq!(last["by_operator"], false, "{last}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn it_is_killed_where_it_does_not_stop() {
    let _machine = TestMachine::take();
    ok(&["start", PUBLISHED, "--policies", "fifo"]);
    // The kernel's part of it goes on.
    assert!(process().signal(Signal::SIGSTOP));
    assert_eq!(view()["scheduler"], PUBLISHED);
    ok(&["switch", "fifo"]);
    assert_in_force("fifo");
    ok(&["switch", PUBLISHED]);
    assert!(process().signal(Signal::SIGSTOP));
    ok(&["stop"]);
    assert_in_force(EEVDF);
    keeper_is_gone();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn an_operators_sysrq_ends_it_and_its_own_words_say_so() {
    let _machine = TestMachine::take();
    ok(&["start", PUBLISHED, "--policies", "fifo"]);
    std::fs::write("/proc/sysrq-trigger", "S").unwrap();
    keeper_is_gone();
    let last = view()["last_exit"].take();
    assert_eq!(last["scheduler"], PUBLISHED, "{last}");
    assert_eq!(last["by_operator"], true, "{last}");
    assert_in_force(EEVDF);
}

/// Where a CPU goes or comes the kernel takes out who has no callback for that, and asks it to start
/// anew.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn one_that_starts_anew_as_a_cpu_goes_has_not_left() {
    const CPU: &str = "/sys/devices/system/cpu/cpu1/online";
    /// What a test changes is changed back, also when it fails.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = std::fs::write(CPU, "1");
        }
    }
    let _machine = TestMachine::take();
    ok(&["start", PUBLISHED, "--policies", "fifo"]);
    let (began, id) = (status().enable_seq, process());
    let _back = Back;
    for (n, online) in [(1, "0"), (2, "1")] {
        std::fs::write(CPU, online).unwrap();
        eventually("it is in force anew", || {
            status().enable_seq == began + n && ops().as_deref() == Some("simple")
        });
        // Its keeper looks at it.
        assert_eq!(view()["scheduler"], PUBLISHED);
    }
    assert_eq!(process(), id);
    ok(&["stop"]);
    assert_in_force(EEVDF);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn turns_by_swap_go_to_it_and_back() {
    let _machine = TestMachine::take();
    let run = ["--json", "run", "--mechanism", "swap", "--base-slice", "1s", "--policies", "fifo"];
    let turns = ["--turn", "a=scx_simple", "--turn", "b=fifo", "--turn", "c=eevdf"];
    let before = status().enable_seq;
    let run = Run::start(&[&run[..], &turns].concat());
    // A cycle and the beginning of the next.
    eventually("it has its second turn", || {
        status().enable_seq == before + 3 && ops().as_deref() == Some("simple")
    });
    let said = run.interrupt();
    let last = said.lines().rfind(|line| line.starts_with('{')).unwrap();
    let told: Value = serde_json::from_str(last).unwrap();
    println!("{told}");
    assert_eq!((&told["mechanism"], &told["in_force"]), (&"swap".into(), &EEVDF.into()));
    let summary = &told["summary"];
    assert_eq!((&summary["turns"], &summary["switches"]), (&4.into(), &3.into()), "{summary}");
    for scheduler in [PUBLISHED, "fifo", EEVDF] {
        let ns = summary["in_force_ns"][scheduler].as_u64().unwrap_or_default();
        assert!(ns >= 1_000_000_000, "{scheduler}: {summary}");
    }
    assert_in_force(EEVDF);
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn one_that_is_killed_in_its_turn_ends_the_run() {
    let _machine = TestMachine::take();
    let run = ["run", "--mechanism", "swap", "--base-slice", "60s", "--policies", "fifo"];
    let turns = ["--turn", "a=scx_simple", "--turn", "b=fifo"];
    let run = Run::start(&[&run[..], &turns].concat());
    eventually("it is in force", || ops().as_deref() == Some("simple"));
    assert!(process().signal(Signal::SIGKILL));
    let (code, said) = run.finish();
    assert_eq!(code, Some(i32::from(Kind::SchedulerExit.exit_code())), "{said}");
    assert!(said.contains(PUBLISHED) && said.contains("'eevdf' is in force now"), "{said}");
    assert_in_force(EEVDF);
}
