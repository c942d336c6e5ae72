use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use metasched_loader::{LaneSpec, Quarantine};

use super::*;
use crate::fake::{FakeMachine, PATIENCE, eventually};
use crate::rules::RuleApp;

/// A keeper of `candidate` in a thread of its own.
fn keeper(
    machine: &FakeMachine,
    candidate: &Candidate,
    interrupt: &Interrupt,
) -> std::thread::JoinHandle<Result<()>> {
    let switcher = Switcher::new(machine.options()).unwrap();
    let keeper = Keeper::start(switcher, candidate, &machine.run_dir()).unwrap();
    let interrupt = interrupt.clone();
    std::thread::spawn(move || keeper.run(&interrupt, None))
}

fn status(machine: &FakeMachine) -> KeeperStatus {
    match ask(&machine.run_dir(), &Order::Status, &Interrupt::default()).unwrap() {
        Some(Answer::Status(status)) => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_keeper_tells_switches_and_stops_as_ordered() {
    let machine = FakeMachine::new();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    assert_eq!(status(&machine).scheduler.name, "fifo");
    let order = Order::Switch { candidate: machine.good("scx_a"), mechanism: None };
    let Some(Answer::Switched(record)) =
        ask(&machine.run_dir(), &order, &Interrupt::default()).unwrap()
    else {
        panic!("no record of the switch");
    };
    assert_eq!((record.from.as_str(), record.to.as_str()), ("fifo", "scx_a"));
    assert_eq!(status(&machine).scheduler.name, "scx_a");
    let answer = ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    assert!(matches!(answer, Some(Answer::Stopped { back: None })), "{answer:?}");
    keeper.join().unwrap().unwrap();
    assert_eq!(machine.state(), "disabled");
    assert!(ask(&machine.run_dir(), &Order::Status, &Interrupt::default()).unwrap().is_none());
}

#[test]
fn a_failure_keeps_its_kind_and_remedy_through_the_socket() {
    let machine = FakeMachine::new();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let bad = machine.scheduler("scx_bad", "", "echo sorry >&2; exit 1");
    let order = Order::Switch { candidate: bad, mechanism: None };
    let e = ask(&machine.run_dir(), &order, &Interrupt::default()).unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert!(e.cause.contains("sorry") && e.cause.contains("'fifo' is in force again"), "{e}");
    assert_eq!(status(&machine).scheduler.name, "fifo");
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_client_that_talks_nonsense_or_nothing_does_no_harm() {
    let machine = FakeMachine::new();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let silent = UnixStream::connect(machine.run_dir().join(SOCKET)).unwrap();
    let mut nonsense = UnixStream::connect(machine.run_dir().join(SOCKET)).unwrap();
    nonsense.write_all(b"please\n").unwrap();
    let mut said = String::new();
    nonsense.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(&nonsense).read_line(&mut said).unwrap();
    assert!(said.contains("\"failed\""), "{said}");
    assert_eq!(status(&machine).scheduler.name, "fifo");
    drop(silent);
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_keeper_ends_when_its_scheduler_does() {
    let machine = FakeMachine::new();
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
    let machine = FakeMachine::new();
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
        Keeper::start(switcher, &FakeMachine::policy("vtime"), &machine.run_dir()).unwrap();
    keeper.follow(follower).unwrap();
    let keeper = std::thread::spawn(move || keeper.run(&Interrupt::default(), None));
    assert_eq!(status(&machine).without_lane[0].name, "x");
    // A look does not find it: it is told.
    machine.make_cgroups(&["a/[b]"]);
    eventually("it is on its lane", || !status(&machine).apps.is_empty());
    let status = status(&machine);
    assert!(status.apps[0].cgroups.contains_key("a/[b]") && status.without_lane.is_empty());
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn what_goes_wrong_at_a_look_is_told_and_does_not_end_the_keeper() {
    let machine = FakeMachine::new();
    machine.make_cgroups(&["a"]);
    let log = machine.root.path().join("dev/kmsg");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "").unwrap();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let order = Order::Assign { cgroup: "a".to_owned(), lane: LaneSpec::of("fifo"), brief: false };
    ask(&machine.run_dir(), &order, &Interrupt::default()).unwrap();
    machine.program.lock().unwrap().failing_unassigns = 1;
    std::fs::remove_dir_all(machine.root.path().join("sys/fs/cgroup/a")).unwrap();
    eventually("it is forgotten at a later look", || status(&machine).apps.is_empty());
    let told = std::fs::read_to_string(log).unwrap();
    assert!(told.contains("told to fail") && told.lines().count() == 1, "{told}");
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn cgroups_of_commands_that_have_ended_are_removed_whoever_was_the_keeper() {
    let machine = FakeMachine::new();
    machine.make_cgroups(&["metasched"]);
    let runs = machine.root.path().join("sys/fs/cgroup").join(crate::BRIEF_CGROUPS);
    // A folder with something in it stands for a cgroup with somebody in it.
    std::fs::create_dir_all(runs.join("ended-1")).unwrap();
    std::fs::create_dir_all(runs.join("runs-2/somebody")).unwrap();
    // Whatever is in force, and with nothing assigned.
    let keeper = keeper(&machine, &machine.good("scx_a"), &Interrupt::default());
    eventually("that of the one that has ended is gone", || !runs.join("ended-1").exists());
    assert!(runs.join("runs-2").exists());
    std::fs::remove_dir(runs.join("runs-2/somebody")).unwrap();
    eventually("that of the other one is gone", || !runs.join("runs-2").exists());
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_signal_ends_a_keeper_in_an_orderly_way() {
    let machine = FakeMachine::new();
    let interrupt = Interrupt::default();
    let keeper = keeper(&machine, &machine.good("scx_a"), &interrupt);
    interrupt.raise();
    keeper.join().unwrap().unwrap();
    eventually("the default scheduler is back", || machine.state() == "disabled");
}

#[test]
fn a_quarantine_is_told_unasked_and_the_application_is_known_to_have_no_lane() {
    let machine = FakeMachine::new();
    for (file, text) in [("sys/fs/cgroup/a/cgroup.controllers", "cpu\n"), ("dev/kmsg", "")] {
        let path = machine.root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let order = Order::Assign { cgroup: "a".to_owned(), lane: LaneSpec::of("fifo"), brief: false };
    ask(&machine.run_dir(), &order, &Interrupt::default()).unwrap();
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
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

/// Within this every client has its answer or a clear error.
const CLIENT_MOST: Duration = Duration::from_secs(5);

/// A place where a keeper would be, that lets clients in and does not hear them.
fn deaf(folder: &tempfile::TempDir) -> std::os::unix::net::UnixListener {
    std::os::unix::net::UnixListener::bind(folder.path().join(SOCKET)).unwrap()
}

#[test]
fn a_client_of_a_keeper_that_is_stopped_gets_an_error_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let _deaf = deaf(&folder);
    let ask_it = || {
        let asked = Instant::now();
        let e = ask(folder.path(), &Order::Status, &Interrupt::default()).unwrap_err();
        assert_eq!(e.kind, Kind::Timeout);
        assert!(e.remedy.contains("metasched stop"), "{e}");
        assert!(asked.elapsed() < CLIENT_MOST, "{:?}", asked.elapsed());
    };
    ask_it();
    // The queue before it gets full, and who comes then is not even let in.
    let mut queue = Vec::new();
    loop {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
        let flags = SockFlag::SOCK_NONBLOCK;
        let client = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        let address = UnixAddr::new(&folder.path().join(SOCKET)).unwrap();
        if connect(std::os::fd::AsRawFd::as_raw_fd(&client), &address).is_err() {
            break;
        }
        queue.push(client);
    }
    ask_it();
}

#[test]
fn a_signal_ends_a_client_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let _deaf = deaf(&folder);
    let interrupt = Interrupt::default();
    let raiser = interrupt.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        raiser.raise();
    });
    let asked = Instant::now();
    let e = ask(folder.path(), &Order::Stop, &interrupt).unwrap_err();
    assert_eq!(e.kind, Kind::Interrupted);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    thread.join().unwrap();
}

#[test]
fn a_keeper_that_dies_in_mid_answer_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let dying = deaf(&folder);
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = dying.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
        stream.write_all(br#"{"answer":"sta"#).unwrap();
    });
    let e = ask(folder.path(), &Order::Status, &Interrupt::default()).unwrap_err();
    assert!(e.cause.contains("ended without an answer") && e.remedy.contains("status"), "{e}");
    thread.join().unwrap();
}

#[test]
fn clients_that_say_nothing_or_half_an_order_hold_up_nobody() {
    let machine = FakeMachine::new();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let connect = || UnixStream::connect(machine.run_dir().join(SOCKET)).unwrap();
    let silent: Vec<UnixStream> = (0..3).map(|_| connect()).collect();
    let mut half = connect();
    half.write_all(br#"{"order":"sta"#).unwrap();
    // Each of them was waited for, two seconds long.
    let asked = Instant::now();
    status(&machine);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    // What comes in two parts is one order.
    half.write_all(b"tus\"}\n").unwrap();
    let mut said = String::new();
    half.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(&half).read_line(&mut said).unwrap();
    assert!(said.contains(r#""answer":"status""#), "{said}");
    drop(silent);
    ask(&machine.run_dir(), &Order::Stop, &Interrupt::default()).unwrap();
    keeper.join().unwrap().unwrap();
}

#[test]
fn an_order_that_takes_long_is_no_hang() {
    // Longer than a keeper may be silent.
    const LONG: Duration = Duration::from_secs(6);
    let machine = FakeMachine::new();
    let keeper = keeper(&machine, &FakeMachine::policy("fifo"), &Interrupt::default());
    let slow = machine.scheduler(
        "scx_slow",
        "trap 'off; exit 0' INT TERM",
        &format!("sleep {}", LONG.as_secs()),
    );
    let run_dir = machine.run_dir();
    let switch = std::thread::spawn(move || {
        let order = Order::Switch { candidate: slow, mechanism: None };
        ask(&run_dir, &order, &Interrupt::default())
    });
    std::thread::sleep(Duration::from_millis(500));
    let asked = Instant::now();
    let e = ask(&machine.run_dir(), &Order::Status, &Interrupt::default()).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("switch to 'scx_slow'"), "{e}");
    assert!(asked.elapsed() < CLIENT_MOST, "{:?}", asked.elapsed());
    // Who wants the keeper to end waits for its turn, and does not kill it at its work.
    let interrupt = Interrupt::default();
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let root = machine.root.path();
    let back = stop(root, &machine.run_dir(), &interrupt, &mut note).unwrap();
    assert_eq!((back.as_deref(), notes.len()), (Some("eevdf"), 0), "{notes:?}");
    let answer = switch.join().unwrap().unwrap();
    assert!(matches!(answer, Some(Answer::Switched(_))), "{answer:?}");
    keeper.join().unwrap().unwrap();
}

#[test]
fn a_keeper_that_is_busy_with_its_end_is_no_hang_and_not_gone() {
    // Longer than a keeper may be silent.
    const LONG: Duration = Duration::from_secs(6);
    let machine = FakeMachine::new();
    // It lets go of its scheduler when it is told to, and ends late.
    let clings = machine.scheduler("scx_a", "trap off USR1; trap '' INT; trap 'exit 0' TERM", "");
    let earlier = machine.scheduler(
        "scx_earlier",
        "trap 'off; exit 0' INT TERM",
        &format!("sleep {}", LONG.as_secs()),
    );
    let mut options = machine.options();
    options.graces.interrupt = LONG;
    let mut switcher = Switcher::new(options).unwrap();
    switcher.pretend_to_have_found(&earlier);
    let keeper = Keeper::start(switcher, &clings, &machine.run_dir()).unwrap();
    let keeper = std::thread::spawn(move || keeper.run(&Interrupt::default(), None));
    let holder = || {
        let pid = std::fs::read_to_string(machine.root.path().join("holder")).unwrap();
        nix::unistd::Pid::from_raw(pid.trim().parse().unwrap())
    };
    use nix::sys::signal::{Signal, kill};
    kill(holder(), Signal::SIGUSR1).unwrap();
    eventually("it is detached", || machine.state() == "disabled");
    let mut busy = None;
    eventually("the keeper has seen it", || {
        busy = ask(&machine.run_dir(), &Order::Status, &Interrupt::default()).err();
        busy.is_some()
    });
    let busy = busy.unwrap();
    assert_eq!(busy.kind, Kind::Busy, "{busy}");
    assert!(busy.cause.contains("look after what is in force"), "{busy}");
    // Who wants it to end finds it there, and waits for it.
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let root = machine.root.path();
    let back = stop(root, &machine.run_dir(), &Interrupt::default(), &mut note).unwrap();
    assert_eq!((back.as_deref(), notes.len()), (Some("earlier_1.0"), 0), "{notes:?}");
    assert_eq!(keeper.join().unwrap().unwrap_err().kind, Kind::SchedulerExit);
    kill(holder(), Signal::SIGKILL).unwrap();
}

#[test]
fn stop_tells_what_the_kernel_says_is_in_force() {
    let machine = FakeMachine::new();
    std::fs::create_dir_all(machine.run_dir()).unwrap();
    let process = metasched_host::process::Spawn::new(machine.good("scx_other").command).start();
    eventually("another scheduler is in force", || machine.state() == "enabled");
    // A keeper that says what it believes, and ends.
    let believes = std::os::unix::net::UnixListener::bind(machine.run_dir().join(SOCKET)).unwrap();
    let thread = std::thread::spawn(move || {
        for back in ["null", r#""other_1.0""#] {
            let (mut stream, _) = believes.accept().unwrap();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            writeln!(stream, r#"{{"answer":"stopped","back":{back}}}"#).unwrap();
        }
    });
    let root = machine.root.path();
    let stop = || stop(root, &machine.run_dir(), &Interrupt::default(), &mut |_| ());
    let e = stop().unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.cause.contains("'other_1.0' is in force"), "{e}");
    assert_eq!(stop().unwrap().as_deref(), Some("other_1.0"));
    thread.join().unwrap();
    drop(process);
}

/// What a keeper in a process of its own is to do, in its environment.
const PART: &str = "METASCHED_TEST_KEEPER";

/// The part of a keeper that is killed: `listens` is one that works, `hangs` serves nobody.
fn be_a_keeper(part: &str) {
    let (how, root) = part.split_once(' ').unwrap();
    let machine = FakeMachine::new();
    let mut options = machine.options();
    (options.root, options.run_dir) = (root.into(), Path::new(root).join("run"));
    let mine = Path::new(root).join("scx_mine").display().to_string();
    let kind = CandidateKind::External;
    let mine = Candidate { kind, command: vec![mine], ..FakeMachine::policy("scx_mine") };
    let interrupt = Interrupt::listen().unwrap();
    let run_dir = options.run_dir.clone();
    let keeper = Keeper::start(Switcher::new(options).unwrap(), &mine, &run_dir).unwrap();
    println!("in force");
    match how {
        "listens" => keeper.run(&interrupt, None).unwrap(),
        _ => std::thread::sleep(PATIENCE * 10),
    }
    std::process::exit(0);
}

/// Has a keeper in a process of its own stopped, `with_guard` or without, and ended.
fn ends_a_keeper(test: &str, how: &str, with_guard: bool) {
    use metasched_host::process::{Output, Spawn};
    use nix::sys::signal::Signal;
    if let Ok(part) = std::env::var(PART) {
        return be_a_keeper(&part);
    }
    let machine = FakeMachine::new();
    let root = machine.root.path();
    machine.good("scx_mine");
    let exe = std::env::current_exe().unwrap();
    let test = format!("keeper::tests::{test}");
    let mut process = Spawn::new([exe.to_str().unwrap(), "--exact", &test, "--nocapture"])
        .env(PART, format!("{how} {}", root.display()))
        .stdout(Output::Tail(4096))
        .stderr(Output::Tail(4096))
        .start()
        .unwrap();
    eventually("it is in force", || {
        assert!(process.poll().unwrap().is_none(), "{}", process.last_lines(9));
        process.stdout_tail().contains("in force")
    });
    if with_guard {
        let children = process.id().children(Path::new("/"));
        assert!(!children.is_empty());
        children.iter().for_each(|child| assert!(child.signal(Signal::SIGSTOP)));
    }
    if how == "listens" {
        assert!(process.id().signal(Signal::SIGSTOP));
    }
    // Its parent must reap it, or it would look alive: ours does at each look.
    let id = process.id();
    let reaper = std::thread::spawn(move || process.wait(PATIENCE).unwrap());
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let back = stop(root, &machine.run_dir(), &Interrupt::default(), &mut note).unwrap();
    assert_eq!(back.as_deref(), Some("eevdf"));
    assert_eq!(machine.state(), "disabled");
    assert!(notes[0].contains(&format!("process {}", id.pid)), "{notes:?}");
    assert!(!id.is_alive(Path::new("/")));
    assert!(reaper.join().unwrap().is_some());
}

#[test]
fn stop_ends_a_keeper_that_is_stopped() {
    ends_a_keeper("stop_ends_a_keeper_that_is_stopped", "listens", false);
}

#[test]
fn stop_ends_a_keeper_that_is_stopped_with_its_guard() {
    ends_a_keeper("stop_ends_a_keeper_that_is_stopped_with_its_guard", "listens", true);
}

#[test]
fn stop_ends_a_keeper_that_hangs() {
    ends_a_keeper("stop_ends_a_keeper_that_hangs", "hangs", false);
}

#[test]
fn the_socket_is_never_open_to_others() {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(SOCKET);
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let looker = std::thread::spawn({
        let (path, done) = (path.clone(), std::sync::Arc::clone(&done));
        move || {
            let (mut seen, mut open) = (0_u32, 0_u32);
            while !done.load(Ordering::SeqCst) {
                if let Ok(found) = std::fs::metadata(&path) {
                    seen += 1;
                    open += u32::from(found.permissions().mode() & 0o077 != 0);
                }
            }
            (seen, open)
        }
    });
    for _ in 0..500 {
        drop(Door::open(&path).unwrap());
    }
    let _door = Door::open(&path).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    done.store(true, Ordering::SeqCst);
    let (seen, open) = looker.join().unwrap();
    assert!(seen > 0 && open == 0, "seen {seen} times, open to others {open} times");
    let entries = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(entries, 1, "nothing is left but the socket");
}

/// A client of this door that has given an order.
fn caller(path: &Path) -> UnixStream {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"please\n").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What it is told next.
fn told(client: &UnixStream) -> String {
    let mut said = String::new();
    BufReader::new(client).read_line(&mut said).unwrap();
    said
}

#[test]
fn clients_that_have_gone_while_the_keeper_is_at_work_hold_up_nobody() {
    // More than a pair of sockets takes of single bytes.
    const GONE: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(SOCKET);
    let door = Door::open(&path).unwrap();
    let _at_work = door.at_work("switch", PATIENCE * 10);
    for _ in 0..GONE {
        // It is told by the end of the connection if there are too many at once.
        drop(caller(&path));
    }
    let mut last = caller(&path);
    eventually("they are forgotten, and who comes is told of the work", || {
        let said = told(&last);
        if said.contains("\"working\"") {
            return true;
        }
        last = caller(&path);
        false
    });
    let mut served = 0;
    eventually("the last one is called", || {
        let calls = std::iter::from_fn(|| door.next()).count();
        served += calls;
        calls > 0
    });
    assert!(served < GONE, "{served}");
    drop(door);
}

#[test]
fn when_too_many_wait_the_next_one_is_told_so_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(SOCKET);
    let door = Door::open(&path).unwrap();
    let _at_work = door.at_work("switch", PATIENCE * 10);
    let waiting: Vec<UnixStream> = (0..door::WAITING_MOST).map(|_| caller(&path)).collect();
    for client in &waiting {
        assert!(told(client).contains("\"working\""));
    }
    let refused = told(&caller(&path));
    assert!(refused.contains("others wait for it already"), "{refused}");
    // Those who wait are called in their turn.
    assert_eq!(std::iter::from_fn(|| door.next()).count(), waiting.len());
}
