use super::*;
use crate::fake::{Machine, eventually};
use metasched_host::process::{Output, ProcessId, Spawn};
use metasched_loader::ExitRecord;
use nix::sys::signal::Signal;
use std::path::Path;

fn log(machine: &Machine) -> Vec<String> {
    machine.program.lock().unwrap().log.clone()
}

fn switcher(machine: &Machine) -> Switcher {
    Switcher::new(machine.options()).unwrap()
}

#[test]
fn an_external_scheduler_is_started_and_stopped_with_its_times() {
    let machine = Machine::new();
    let (a, b) = (machine.good("scx_a"), machine.good("scx_b"));
    let mut switcher = switcher(&machine);
    let first = switcher.switch_to(&a).unwrap();
    assert_eq!((first.from.as_str(), first.to.as_str()), ("eevdf", "scx_a"));
    assert!(first.stop_ns.is_none() && first.start_ns.is_some());
    let second = switcher.switch_to(&b).unwrap();
    let (stop, start) = (second.stop_ns.unwrap(), second.start_ns.unwrap());
    assert!(second.total_ns >= stop + start, "{second:?}");
    assert_eq!(machine.state(), "enabled");
    let third = switcher.switch_to(&Candidate::eevdf("")).unwrap();
    assert!(third.stop_ns.is_some() && third.start_ns.is_none());
    assert_eq!((machine.state().as_str(), switcher.current()), ("disabled", "eevdf"));
}

#[test]
fn what_is_in_force_already_is_not_changed() {
    let machine = Machine::new();
    let a = machine.good("scx_a");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&a).unwrap();
    let record = switcher.switch_to(&a).unwrap();
    assert!(!record.is_change());
    assert_eq!(record.total_ns, 0);
}

#[test]
fn a_candidate_that_exits_at_once_is_reported_with_its_last_words() {
    let machine = Machine::new();
    let bad = machine.scheduler("scx_bad", "", "echo 'no such option: -q' >&2; exit 2");
    let mut switcher = switcher(&machine);
    let began = Instant::now();
    let e = switcher.switch_to(&bad).unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert!(e.cause.contains("no such option: -q"), "{e}");
    assert!(e.cause.contains("EEVDF is in force"), "{e}");
    assert!(began.elapsed() < crate::fake::PATIENCE, "its end was not noticed by itself");
    assert_eq!((machine.state().as_str(), switcher.current()), ("disabled", "eevdf"));
}

#[test]
fn a_scheduler_that_is_another_ones_is_not_taken_for_the_candidates() {
    let machine = Machine::new();
    let foreign = machine.good("scx_foreign");
    let slow = machine.scheduler("scx_slow", "", &format!("exec {}", foreign.command[0]));
    let mut switcher = switcher(&machine);
    let e = switcher.switch_to(&slow).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'foreign_1.0'"), "{e}");
}

#[test]
fn a_failed_start_goes_back_to_the_last_good_scheduler() {
    let machine = Machine::new();
    let (good, bad) = (machine.good("scx_good"), machine.scheduler("scx_bad", "", "exit 1"));
    let mut switcher = switcher(&machine);
    switcher.switch_to(&good).unwrap();
    let e = switcher.switch_to(&bad).unwrap_err();
    assert!(e.cause.contains("'scx_good' is in force again"), "{e}");
    assert_eq!((machine.state().as_str(), switcher.current()), ("enabled", "scx_good"));
    switcher.check_alive().unwrap();
}

#[test]
fn when_the_last_good_scheduler_fails_too_the_default_one_is_in_force() {
    let machine = Machine::new();
    let bad = machine.scheduler("scx_bad", "", "exit 1");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&Machine::policy("fifo")).unwrap();
    machine.program.lock().unwrap().failing_loads = 9;
    let e = switcher.switch_to(&bad).unwrap_err();
    assert!(e.cause.contains("'fifo' could not be put back either"), "{e}");
    assert_eq!((machine.state().as_str(), switcher.current()), ("disabled", "eevdf"));
    // Attempts are counted, not endless: the first load and one for each pause.
    assert_eq!(log(&machine), ["load fifo", "unload", "load fifo", "load fifo"]);
}

#[test]
fn a_scheduler_that_ignores_sigint_and_sigterm_is_stopped_all_the_same() {
    let machine = Machine::new();
    let deaf = machine.scheduler("scx_deaf", "trap '' INT TERM", "");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&deaf).unwrap();
    let record = switcher.switch_to(&Candidate::eevdf("")).unwrap();
    // Both graces were given before SIGKILL.
    assert!(record.stop_ns.unwrap() >= 600_000_000, "{record:?}");
    assert_eq!(machine.state(), "disabled");
}

#[test]
fn a_killed_candidate_is_reported_once_and_not_started_again() {
    let machine = Machine::new();
    let a = machine.good("scx_a");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&a).unwrap();
    let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
    let id = ProcessId::of(Path::new("/"), pid.trim().parse().unwrap()).unwrap();
    assert!(id.signal(Signal::SIGKILL));
    let mut error = None;
    eventually("the kill is noticed", || {
        error = switcher.check_alive().err();
        error.is_some()
    });
    let error = error.unwrap();
    assert_eq!(error.kind, Kind::SchedulerExit);
    assert!(error.cause.contains("signal: 9"), "{error}");
    assert_eq!((machine.state().as_str(), switcher.current()), ("disabled", "eevdf"));
    switcher.check_alive().unwrap();
    let kept = SchedulerExit::last(&machine.run_dir()).unwrap();
    assert_eq!(kept.scheduler, "scx_a");
    assert!(!kept.by_operator);
}

#[test]
fn a_sysrq_by_an_operator_is_reported_as_such() {
    let machine = Machine::new();
    let polite =
        machine.scheduler("scx_a", "trap 'off; echo EXIT: disabled by sysrq-S; exit 0' USR1", "");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&polite).unwrap();
    let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
    let id = ProcessId::of(Path::new("/"), pid.trim().parse().unwrap()).unwrap();
    assert!(id.signal(Signal::SIGUSR1));
    let mut error = None;
    eventually("the exit is noticed", || {
        error = switcher.check_alive().err();
        error.is_some()
    });
    assert!(error.unwrap().remedy.contains("SysRq-S"));
    assert!(switcher.last_exit().unwrap().by_operator);
}

#[test]
fn an_exit_of_our_program_carries_the_kernels_record() {
    let machine = Machine::new();
    let mut switcher = switcher(&machine);
    switcher.switch_to(&Machine::policy("fifo")).unwrap();
    machine.program.lock().unwrap().exit = Some(ExitRecord {
        kind: 1026,
        kind_name: "stalled task",
        reason: "runnable task stall".to_owned(),
        message: "sleep[7] failed to run for 10.2s".to_owned(),
        dump: "the dump".to_owned(),
    });
    let e = switcher.check_alive().unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert!(e.cause.contains("runnable task stall: sleep[7] failed to run"), "{e}");
    assert_eq!(switcher.last_exit().unwrap().dump, "the dump");
    assert_eq!(machine.state(), "disabled");
}

#[test]
fn between_policies_a_lane_is_replaced_unless_a_swap_is_asked_for() {
    let machine = Machine::new();
    let (fifo, vtime) = (Machine::policy("fifo"), Machine::policy("vtime"));
    let mut switcher = switcher(&machine);
    switcher.switch_to(&fifo).unwrap();
    let record = switcher.switch_to(&vtime).unwrap();
    assert_eq!((record.mechanism, record.write_ns), (Mechanism::Lane, Some(7)));
    assert!(record.stop_ns.is_none() && record.start_ns.is_none());
    let record = switcher.switch_by(&fifo, Mechanism::Swap).unwrap();
    assert!(record.stop_ns.is_some() && record.start_ns.is_some() && record.write_ns.is_none());
    assert_eq!(log(&machine), ["load fifo", "replace vtime", "unload", "load fifo"]);
}

#[test]
fn a_lane_cannot_carry_a_scheduler_of_somebody_elses() {
    let machine = Machine::new();
    let a = machine.good("scx_a");
    let e = switcher(&machine).switch_by(&a, Mechanism::Lane).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.remedy.contains("swap"), "{e}");
}

#[test]
fn a_kernel_without_sched_ext_is_refused_with_the_way_to_the_testbed() {
    let root = tempfile::tempdir().unwrap();
    let mut options = SwitcherOptions::new("metasched test");
    options.root = root.path().to_owned();
    options.run_dir = root.path().join("run");
    let e = Switcher::new(options).unwrap_err();
    assert_eq!(e.kind, Kind::Unsupported);
    assert!(e.remedy.contains("metasched vm"), "{e}");
}

#[test]
fn somebody_elses_scheduler_is_a_reason_to_refuse() {
    let machine = Machine::new();
    let foreign = machine.good("scx_foreign");
    let mut process = Spawn::new(foreign.command).stdout(Output::Tail(99)).start().unwrap();
    eventually("the foreign scheduler is in force", || machine.state() == "enabled");
    let e = Switcher::new(machine.options()).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'foreign_1.0'"), "{e}");
    assert_eq!(process.poll().unwrap(), None, "it must be left alone");
    // Taking over needs the process that holds it, which a script does not show.
    let e = Switcher::new(machine.options().take_over(true)).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert_eq!(machine.state(), "enabled");
}

#[test]
fn a_scheduler_that_appears_beside_us_is_noticed() {
    let machine = Machine::new();
    let mut switcher = switcher(&machine);
    let foreign = machine.good("scx_foreign");
    let process = Spawn::new(foreign.command).stdout(Output::Tail(99)).start().unwrap();
    eventually("the foreign scheduler is in force", || machine.state() == "enabled");
    assert_eq!(switcher.switch_to(&machine.good("scx_a")).unwrap_err().kind, Kind::Busy);
    assert_eq!(switcher.check_alive().unwrap_err().kind, Kind::Busy);
    drop(process);
    eventually("it is gone", || machine.state() == "disabled");
    switcher.check_alive().unwrap();
}

#[test]
fn everything_is_put_back_when_the_switcher_is_dropped() {
    let machine = Machine::new();
    let mut switcher = switcher(&machine);
    switcher.switch_to(&Machine::policy("fifo")).unwrap();
    drop(switcher);
    assert_eq!(machine.state(), "disabled");
    assert_eq!(log(&machine), ["load fifo", "unload"]);
    // The lock is free again.
    self::switcher(&machine);
}

#[test]
fn a_second_switcher_is_told_who_owns_the_scheduler() {
    let machine = Machine::new();
    let _first = switcher(&machine);
    let e = Switcher::new(machine.options()).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'metasched test'"), "{e}");
}
