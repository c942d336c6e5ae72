use super::*;
use crate::fake::{Machine, PATIENCE, eventually};

/// A keeper of `candidate` in a thread of its own.
fn keeper(
    machine: &Machine,
    candidate: &Candidate,
    interrupt: &Interrupt,
) -> std::thread::JoinHandle<Result<()>> {
    let switcher = Switcher::new(machine.options()).unwrap();
    let keeper = Keeper::start(switcher, candidate, &machine.run_dir()).unwrap();
    let interrupt = interrupt.clone();
    std::thread::spawn(move || keeper.run(&interrupt, None))
}

fn status(machine: &Machine) -> KeeperStatus {
    match ask(&machine.run_dir(), &Order::Status).unwrap() {
        Some(Answer::Status(status)) => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_keeper_tells_switches_and_stops_as_ordered() {
    let machine = Machine::new();
    let keeper = keeper(&machine, &Machine::policy("fifo"), &Interrupt::default());
    assert_eq!(status(&machine).scheduler.name, "fifo");
    let order = Order::Switch { candidate: machine.good("scx_a"), mechanism: None };
    let Some(Answer::Switched(record)) = ask(&machine.run_dir(), &order).unwrap() else {
        panic!("no record of the switch");
    };
    assert_eq!((record.from.as_str(), record.to.as_str()), ("fifo", "scx_a"));
    assert_eq!(status(&machine).scheduler.name, "scx_a");
    let answer = ask(&machine.run_dir(), &Order::Stop).unwrap();
    assert!(matches!(answer, Some(Answer::Stopped { back: None })), "{answer:?}");
    keeper.join().unwrap().unwrap();
    assert_eq!(machine.state(), "disabled");
    assert!(ask(&machine.run_dir(), &Order::Status).unwrap().is_none());
}

#[test]
fn a_failure_keeps_its_kind_and_remedy_through_the_socket() {
    let machine = Machine::new();
    let keeper = keeper(&machine, &Machine::policy("fifo"), &Interrupt::default());
    let bad = machine.scheduler("scx_bad", "", "echo sorry >&2; exit 1");
    let order = Order::Switch { candidate: bad, mechanism: None };
    let e = ask(&machine.run_dir(), &order).unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert!(e.cause.contains("sorry") && e.cause.contains("'fifo' is in force again"), "{e}");
    assert_eq!(status(&machine).scheduler.name, "fifo");
    ask(&machine.run_dir(), &Order::Stop).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_client_that_talks_nonsense_or_nothing_does_no_harm() {
    let machine = Machine::new();
    let keeper = keeper(&machine, &Machine::policy("fifo"), &Interrupt::default());
    let silent = UnixStream::connect(machine.run_dir().join(SOCKET)).unwrap();
    let mut nonsense = UnixStream::connect(machine.run_dir().join(SOCKET)).unwrap();
    nonsense.write_all(b"please\n").unwrap();
    let mut said = String::new();
    nonsense.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(&nonsense).read_line(&mut said).unwrap();
    assert!(said.contains("\"failed\""), "{said}");
    assert_eq!(status(&machine).scheduler.name, "fifo");
    drop(silent);
    ask(&machine.run_dir(), &Order::Stop).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_keeper_ends_when_its_scheduler_does() {
    let machine = Machine::new();
    let keeper = keeper(&machine, &machine.good("scx_a"), &Interrupt::default());
    let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(keeper.join().unwrap().unwrap_err().kind, Kind::SchedulerExit);
    assert!(crate::SchedulerExit::last(&machine.run_dir()).is_some());
    assert_eq!(machine.state(), "disabled");
}

#[test]
fn a_keeper_that_follows_rules_is_told_of_a_cgroup_that_is_made() {
    let machine = Machine::new();
    machine.make_cgroups(&["a"]);
    let app = RuleApp {
        name: "x".to_owned(),
        lane: Some(LaneSpec::of("fifo")),
        why: Why::CommandLine,
        share: None,
        patterns: vec![crate::Pattern::exactly("a/[b]")],
    };
    let rules = crate::Rules::new(vec![app], false).unwrap();
    let follower = Follower::new(machine.root.path(), rules, |text| panic!("{text}")).unwrap();
    let switcher = Switcher::new(machine.options()).unwrap();
    let mut keeper =
        Keeper::start(switcher, &Machine::policy("vtime"), &machine.run_dir()).unwrap();
    keeper.follow(follower).unwrap();
    let keeper = std::thread::spawn(move || keeper.run(&Interrupt::default(), None));
    assert_eq!(status(&machine).without_lane[0].name, "x");
    // A look does not find it: it is told.
    machine.make_cgroups(&["a/[b]"]);
    eventually("it is on its lane", || !status(&machine).apps.is_empty());
    let status = status(&machine);
    assert!(status.apps[0].cgroups.contains_key("a/[b]") && status.without_lane.is_empty());
    ask(&machine.run_dir(), &Order::Stop).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_signal_ends_a_keeper_in_an_orderly_way() {
    let machine = Machine::new();
    let interrupt = Interrupt::default();
    let keeper = keeper(&machine, &machine.good("scx_a"), &interrupt);
    interrupt.raise();
    keeper.join().unwrap().unwrap();
    eventually("the default scheduler is back", || machine.state() == "disabled");
}

#[test]
fn a_quarantine_is_told_unasked_and_the_application_is_known_to_have_no_lane() {
    let machine = Machine::new();
    for (file, text) in [("sys/fs/cgroup/a/cgroup.controllers", "cpu\n"), ("dev/kmsg", "")] {
        let path = machine.root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let keeper = keeper(&machine, &Machine::policy("fifo"), &Interrupt::default());
    let order = Order::Assign { cgroup: "a".to_owned(), lane: LaneSpec::of("fifo"), brief: false };
    ask(&machine.run_dir(), &order).unwrap();
    assert!(!status(&machine).apps[0].quarantined);
    machine.program.lock().unwrap().quarantines.push(Quarantine {
        app: 1,
        policy: "fifo".to_owned(),
        at_ns: 1,
        unserved_ns: 1_000_000_000,
        nr_queued: 3,
        rescues: 29,
    });
    let told = || std::fs::read_to_string(machine.root.path().join("dev/kmsg")).unwrap();
    eventually("a line in the kernel's log", || told().ends_with('\n'));
    assert!(told().starts_with("<4>metasched: quarantine: the policy 'fifo'"), "{}", told());
    assert!(told().contains("for 'a', which is on the default lane"), "{}", told());
    assert!(status(&machine).apps[0].quarantined);
    ask(&machine.run_dir(), &Order::Stop).unwrap();
    keeper.join().unwrap().unwrap();
}
