use super::*;
use crate::fake::{FakeMachine, eventually};
use metasched_host::process::{Output, ProcessId, Spawn};
use metasched_loader::ExitRecord;
use nix::sys::signal::Signal;
use std::path::Path;

fn log(machine: &FakeMachine) -> Vec<String> {
    machine.program.lock().unwrap().log.clone()
}

fn switcher(machine: &FakeMachine) -> Switcher {
    Switcher::new(machine.options()).unwrap()
}

#[test]
fn an_external_scheduler_is_started_and_stopped_with_its_times() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
    let a = machine.good("scx_a");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&a).unwrap();
    let record = switcher.switch_to(&a).unwrap();
    assert!(!record.is_change());
    assert_eq!(record.total_ns, 0);
}

#[test]
fn a_candidate_that_exits_at_once_is_reported_with_its_last_words() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
    let foreign = machine.good("scx_foreign");
    let slow = machine.scheduler("scx_slow", "", &format!("exec {}", foreign.command[0]));
    let mut switcher = switcher(&machine);
    let e = switcher.switch_to(&slow).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'foreign_1.0'"), "{e}");
}

#[test]
fn after_a_failed_start_it_is_told_what_the_kernel_says_is_in_force() {
    let machine = FakeMachine::new();
    let folder = machine.root.path().join("sys/kernel/sched_ext");
    std::fs::create_dir_all(folder.join("root")).unwrap();
    // Somebody else's comes while it ends.
    let comes = format!(
        "cd {}; echo foreign_1.0 > root/ops; echo 1 > enable_seq; echo enabled > state; exit 1",
        folder.display()
    );
    let bad = machine.scheduler("scx_bad", "", &comes);
    let e = switcher(&machine).switch_to(&bad).unwrap_err();
    assert!(e.cause.contains("'foreign_1.0' is in force"), "{e}");
    assert!(!e.cause.contains("EEVDF") && !e.cause.contains("cannot stop"), "{e}");
}

#[test]
fn a_failed_start_goes_back_to_the_last_good_scheduler() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
    let bad = machine.scheduler("scx_bad", "", "exit 1");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    machine.program.lock().unwrap().failing_loads = 9;
    let e = switcher.switch_to(&bad).unwrap_err();
    assert!(e.cause.contains("'fifo' could not be put back either"), "{e}");
    assert_eq!((machine.state().as_str(), switcher.current()), ("disabled", "eevdf"));
    // Attempts are counted, not endless: the first load and one for each pause.
    assert_eq!(log(&machine), ["load fifo", "unload", "load fifo", "load fifo"]);
}

#[test]
fn a_scheduler_that_ignores_sigint_and_sigterm_is_stopped_all_the_same() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
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

/// Regression: what took longer than its process had for its end was taken to have left.
#[test]
fn one_that_starts_anew_since_a_cpu_went_has_the_time_of_a_start() {
    let machine = FakeMachine::new();
    let seconds = GOODBYE.as_secs() + 1;
    let anew = format!(
        "off; sleep {seconds}; put $S/root/ops a_1.0; put $S/enable_seq 2; put $S/state enabled"
    );
    let trap = format!(
        "trap 'off; exit 0' INT\ntrap 'put $S/hotplug_seq 1; {anew}' USR1\ntrap '{anew}' USR2"
    );
    let a = machine.scheduler("scx_a", &trap, "");
    let mut switcher = switcher(&machine);
    let taken_out_by = |signal| {
        let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
        ProcessId::of(Path::new("/"), pid.trim().parse().unwrap()).unwrap().signal(signal);
        eventually("it is out", || machine.state() == "disabled");
    };
    switcher.switch_to(&a).unwrap();
    taken_out_by(Signal::SIGUSR1);
    eventually("it is in force anew", || {
        switcher.check_alive().unwrap();
        machine.state() == "enabled"
    });
    switcher.check_alive().unwrap();
    switcher.restore().unwrap();

    // No CPU has gone.
    switcher.switch_to(&a).unwrap();
    taken_out_by(Signal::SIGUSR2);
    assert_eq!(switcher.check_alive().unwrap_err().kind, Kind::SchedulerExit);
    assert_eq!(switcher.last_exit().unwrap().kind, "detached");
}

#[test]
fn a_sysrq_by_an_operator_is_reported_as_such() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
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
fn why_our_program_was_ended_is_known_also_while_the_kernel_takes_it_out() {
    let machine = FakeMachine::new();
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    machine.set_state("disabling");
    {
        let mut program = machine.program.lock().unwrap();
        program.looks_in_vain = 3;
        program.exit = Some(ExitRecord {
            kind: 1026,
            kind_name: "stalled task",
            reason: "runnable task stall".to_owned(),
            message: "sysrqd[7] failed to run for 10.2s".to_owned(),
            dump: String::new(),
        });
    }
    let e = switcher.check_alive().unwrap_err();
    assert!(e.cause.contains("runnable task stall"), "{e}");
    // What tasks are called says nothing of an operator.
    assert!(!switcher.last_exit().unwrap().by_operator);
}

#[test]
fn between_policies_a_lane_is_replaced_unless_a_swap_is_asked_for() {
    let machine = FakeMachine::new();
    let (fifo, vtime) = (FakeMachine::policy("fifo"), FakeMachine::policy("vtime"));
    let mut switcher = switcher(&machine);
    // Before that the program is loaded.
    let record = switcher.switch_by(&fifo, Mechanism::Lane).unwrap();
    assert_eq!((record.mechanism, record.write_ns), (Mechanism::Swap, None));
    assert!(record.start_ns.is_some() && !record.replaced_a_lane());
    let record = switcher.switch_to(&vtime).unwrap();
    assert_eq!((record.mechanism, record.write_ns), (Mechanism::Lane, Some(7)));
    assert!(record.replaced_a_lane());
    assert!(record.stop_ns.is_none() && record.start_ns.is_none());
    let record = switcher.switch_by(&fifo, Mechanism::Swap).unwrap();
    assert!(record.stop_ns.is_some() && record.start_ns.is_some() && record.write_ns.is_none());
    assert_eq!(log(&machine), ["load fifo", "replace vtime", "unload", "load fifo"]);
}

#[test]
fn a_lane_cannot_carry_a_scheduler_of_somebody_elses() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    drop(switcher);
    assert_eq!(machine.state(), "disabled");
    assert_eq!(log(&machine), ["load fifo", "unload"]);
    // The lock is free again.
    self::switcher(&machine);
}

#[test]
fn a_second_switcher_is_told_who_owns_the_scheduler() {
    let machine = FakeMachine::new();
    let _first = switcher(&machine);
    let e = Switcher::new(machine.options()).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'metasched test'"), "{e}");
}

/// A scheduler that was found, as the switcher knows it; its process has ended unless it is given.
fn found(candidate: &Candidate, process: Option<ProcessId>) -> Earlier {
    let id = process.unwrap_or(ProcessId { pid: i32::MAX, start_ticks: 1 });
    serde_json::from_value(serde_json::json!({
        "ops": format!("{}_1.0", candidate.name.trim_start_matches("scx_")),
        "id": id,
        "command": candidate.command,
        "folder": "/",
    }))
    .unwrap()
}

impl Switcher {
    /// As if a scheduler had been found in force and stopped.
    pub(crate) fn pretend_to_have_found(&mut self, candidate: &Candidate) {
        let earlier = found(candidate, None);
        self.guard.set_earlier(Some(earlier.clone())).unwrap();
        self.earlier = Some(earlier);
    }
}

/// Ends what was put back, which outlives us.
fn end_holder(machine: &FakeMachine) {
    let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
    let id = ProcessId::of(Path::new("/"), pid.trim().parse().unwrap()).unwrap();
    assert!(id.signal(Signal::SIGKILL));
}

#[test]
fn a_sysrq_by_an_operator_is_not_answered_by_starting_what_was_found() {
    let machine = FakeMachine::new();
    let earlier = machine.good("scx_earlier");
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    switcher.pretend_to_have_found(&earlier);
    machine.set_state("disabling");
    {
        let mut program = machine.program.lock().unwrap();
        program.looks_in_vain = 3;
        program.exit = Some(ExitRecord {
            kind: 67,
            kind_name: "SysRq-S",
            reason: "disabled by sysrq-S".to_owned(),
            message: String::new(),
            dump: String::new(),
        });
    }
    assert!(switcher.check_alive().unwrap_err().remedy.contains("SysRq-S"));
    drop(switcher);
    eventually("the guard has gone", || crate::lock::lock_holder(&machine.run_dir()).is_none());
    assert_eq!(machine.state(), "disabled");
    assert!(!machine.run_dir().join("earlier.log").exists());
}

#[test]
fn what_cannot_be_put_back_at_once_is_tried_again_and_by_the_guard_at_last() {
    let machine = FakeMachine::new();
    // It ends at its first two starts.
    let tries = machine.root.path().join("tries");
    let fails = format!("echo >> {0}; [ $(wc -l < {0}) -gt 2 ] || exit 1", tries.display());
    let earlier = machine.scheduler("scx_earlier", "trap 'off; exit 0' INT TERM", &fails);
    let mut switcher = switcher(&machine);
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    switcher.pretend_to_have_found(&earlier);
    let e = switcher.restore().unwrap_err();
    assert!(e.attempt.contains("put 'earlier_1.0' back"), "{e}");
    assert_eq!(switcher.earlier(), Some("earlier_1.0"));
    drop(switcher);
    eventually("the guard has put it back", || machine.state() == "enabled");
    assert_eq!(std::fs::read_to_string(tries).unwrap().lines().count(), 3);
    end_holder(&machine);
}

#[test]
fn when_a_stop_has_failed_the_guard_sees_to_it() {
    let machine = FakeMachine::new();
    let mut options = machine.options();
    options.graces.kill = Duration::from_millis(50);
    let mut switcher = Switcher::new(options).unwrap();
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    machine.program.lock().unwrap().stays = true;
    assert_eq!(switcher.restore().unwrap_err().kind, Kind::Timeout);
    let e = switcher.restore().unwrap_err();
    assert!(e.cause.contains("'enabled'") && e.remedy.contains("SysRq-S"), "{e}");
    drop(switcher);
    crate::fake::disable(machine.root.path());
    let log = machine.run_dir().join("guard.log");
    eventually("the guard has seen it go", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("default scheduler is in force"))
    });
}

#[test]
fn a_stop_that_came_late_is_settled_by_what_the_kernel_says() {
    let machine = FakeMachine::new();
    let mut options = machine.options();
    options.graces.kill = Duration::from_millis(50);
    let mut switcher = Switcher::new(options).unwrap();
    switcher.switch_to(&FakeMachine::policy("fifo")).unwrap();
    machine.program.lock().unwrap().stays = true;
    switcher.restore().unwrap_err();
    crate::fake::disable(machine.root.path());
    switcher.restore().unwrap();
    drop(switcher);
    assert!(!machine.run_dir().join("guard.log").exists());
}

#[test]
fn what_was_found_is_not_back_while_another_scheduler_is_in_force() {
    let machine = FakeMachine::new();
    let (earlier, foreign) = (machine.good("scx_earlier"), machine.good("scx_foreign"));
    let _process = Spawn::new(foreign.command).start().unwrap();
    eventually("the foreign scheduler is in force", || machine.state() == "enabled");
    let options = machine.options();
    let graces = Graces { kill: Duration::from_millis(50), ..options.graces };
    let sysfs = SchedExt::at(&options.root);
    let start = |graces: &Graces| {
        found(&earlier, None).start(&options.root, &sysfs, &options.run_dir, graces)
    };
    let e = start(&graces).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'foreign_1.0'") && e.remedy.contains("scx_earlier"), "{e}");
}

#[test]
fn one_that_is_taken_out_and_about_to_end_is_waited_for_and_started() {
    let machine = FakeMachine::new();
    let earlier = machine.good("scx_earlier");
    let options = machine.options();
    std::fs::create_dir_all(&options.run_dir).unwrap();
    // It has let go of its scheduler, and is not quite done.
    let ends = machine.root.path().join("ends");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", ends.display());
    let mut process = Spawn::new(["sh", "-c", &wait]).start().unwrap();
    let sysfs = SchedExt::at(&options.root);
    let found = found(&earlier, Some(process.id()));
    let graces = Graces { kill: Duration::from_millis(50), ..options.graces.clone() };
    let start = |graces: &Graces| found.start(&options.root, &sysfs, &options.run_dir, graces);
    let e = start(&graces).unwrap_err();
    assert!(e.cause.contains("has not ended yet"), "{e}");
    std::fs::write(ends, "").unwrap();
    process.wait(crate::fake::PATIENCE).unwrap().unwrap();
    assert_eq!(start(&options.graces).unwrap(), PutBack::Started);
    assert_eq!(machine.state(), "enabled");
    end_holder(&machine);
}
