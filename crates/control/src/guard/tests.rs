use std::time::Instant;

use super::*;
use crate::fake::{FakeMachine, eventually};
use crate::switcher::Switcher;
use metasched_host::process::{Output, Spawn};

/// Not a test unless asked: the process that other tests use as their guard.
#[test]
fn stands_guard_when_asked_to() {
    if std::env::var_os("METASCHED_TEST_GUARD").is_some() {
        guard_main().unwrap();
        std::process::exit(0);
    }
    let mut watch = Watch::default();
    assert!(watch.take(serde_json::from_str(r#"{"say":"dismiss"}"#).unwrap()));
}

/// Runs this test binary again, as a metasched that can be killed.
fn victim(test: &str, machine: &FakeMachine) -> metasched_host::process::Child {
    let exe = std::env::current_exe().unwrap();
    Spawn::new([exe.to_str().unwrap(), "--exact", test, "--nocapture"])
        .env("METASCHED_TEST_VICTIM", machine.root.path().display().to_string())
        .stdout(Output::Tail(4096))
        .stderr(Output::Tail(4096))
        .start()
        .unwrap()
}

/// The part of the victim: puts `scx_mine` in force on the machine in this folder,
/// then waits to be killed.
fn be_the_victim(root: &Path) {
    let machine = FakeMachine::new();
    let mut options = machine.options();
    options.root = root.to_owned();
    options.run_dir = root.join("run");
    let mut mine = Candidate::eevdf("");
    mine.name = "scx_mine".to_owned();
    mine.kind = CandidateKind::External;
    mine.command = vec![root.join("scx_mine").display().to_string()];
    let mut switcher = Switcher::new(options.take_over(true)).unwrap();
    switcher.switch_to(&mine).unwrap();
    println!("in force");
    std::thread::sleep(crate::fake::PATIENCE * 10);
}

use crate::candidate::{Candidate, CandidateKind};

fn holder_pid(machine: &FakeMachine) -> Option<i32> {
    std::fs::read_to_string(machine.root.path().join("holder")).ok()?.trim().parse().ok()
}

#[test]
fn a_killed_metasched_leaves_the_default_scheduler_and_no_process() {
    if let Some(root) = std::env::var_os("METASCHED_TEST_VICTIM") {
        return be_the_victim(Path::new(&root));
    }
    let machine = FakeMachine::new();
    // One that clings to life: nothing but SIGKILL ends it.
    machine.scheduler("scx_mine", "trap '' INT TERM", "");
    let mut victim = victim(
        "guard::tests::a_killed_metasched_leaves_the_default_scheduler_and_no_process",
        &machine,
    );
    eventually("the victim's scheduler is in force", || {
        victim.stdout_tail().contains("in force") && machine.state() == "enabled"
    });
    let scheduler = ProcessId::of(Path::new("/"), holder_pid(&machine).unwrap()).unwrap();
    assert!(victim.id().signal(Signal::SIGKILL));
    victim.wait(crate::fake::PATIENCE).unwrap().unwrap();
    eventually("the guard has let go of the lock", || {
        crate::lock::lock_holder(&machine.run_dir()).is_none()
    });
    assert_eq!(machine.state(), "disabled");
    assert!(!scheduler.is_alive(Path::new("/")));
    let log = std::fs::read_to_string(machine.run_dir().join("guard.log")).unwrap();
    assert!(log.contains("the default scheduler is in force"), "{log}");
}

#[test]
fn a_guard_that_is_dismissed_touches_nothing() {
    let machine = FakeMachine::new();
    let good = machine.good("scx_good");
    let mut switcher = Switcher::new(machine.options()).unwrap();
    switcher.switch_to(&good).unwrap();
    drop(switcher);
    assert_eq!(machine.state(), "disabled");
    assert!(!machine.run_dir().join("guard.log").exists());
}

#[test]
fn an_earlier_scheduler_is_started_again_and_outlives_the_guard() {
    let machine = FakeMachine::new();
    let earlier = machine.good("scx_earlier");
    let watch = Watch {
        root: machine.root.path().to_owned(),
        run_dir: machine.root.path().to_owned(),
        earlier: Some(
            serde_json::from_value(serde_json::json!({
                "ops": "earlier_1.0",
                "id": { "pid": i32::MAX, "start_ticks": 1 },
                "command": earlier.command,
                "folder": "/",
            }))
            .unwrap(),
        ),
        ..Watch::default()
    };
    watch.put_right();
    assert_eq!(machine.state(), "enabled");
    let holder = ProcessId::of(Path::new("/"), holder_pid(&machine).unwrap()).unwrap();
    assert!(holder.signal_group(Signal::SIGKILL));
}

#[test]
fn a_guard_that_is_not_one_is_found_out_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let lock = File::create(folder.path().join("lock")).unwrap();
    let command = ["sh", "-c", "echo usage >&2"].map(str::to_owned);
    let e = Guard::start(&command, folder.path(), folder.path(), lock).unwrap_err();
    assert!(e.to_string().contains("it said 'usage'"), "{e}");
}

#[test]
fn a_guard_that_is_stopped_is_not_waited_for() {
    let machine = FakeMachine::new();
    let switcher = Switcher::new(machine.options()).unwrap();
    let guard = switcher.guard();
    let pid = guard.0.lock().unwrap().child.pid();
    assert!(ProcessId::of(Path::new("/"), pid).unwrap().signal(Signal::SIGSTOP));
    let began = Instant::now();
    drop(switcher);
    assert!(began.elapsed() < crate::fake::PATIENCE, "{:?}", began.elapsed());
    assert_eq!(ProcessId::of(Path::new("/"), pid), None);
    // Nor does its pipe hold us up when it is full.
    let switcher = Switcher::new(machine.options()).unwrap();
    let guard = switcher.guard();
    let pid = guard.0.lock().unwrap().child.pid();
    assert!(ProcessId::of(Path::new("/"), pid).unwrap().signal(Signal::SIGSTOP));
    let said = (0..10_000).map(|_| guard.unwatch_cgroup(Path::new("/nowhere")));
    let e = said.filter_map(Result::err).next().expect("a pipe gets full");
    assert!(e.remedy.contains("kill -CONT"), "{e}");
}
