//! What only a kernel with sched_ext can show, through the command itself where a
//! user would use that. Each test fails where there is no sched_ext: one that
//! measured nothing must not pass.

#[path = "guest/exact.rs"]
mod exact;
#[path = "guest/flags.rs"]
mod flags;
#[path = "guest/hang.rs"]
mod hang;
#[path = "guest/kvm.rs"]
mod kvm;
#[path = "guest/latency.rs"]
mod latency;
#[path = "guest/machine.rs"]
mod machine;
#[path = "guest/page.rs"]
mod page;
#[path = "guest/published.rs"]
mod published;
#[path = "guest/rules.rs"]
mod rules;
#[path = "../../cli/tests/schema/mod.rs"]
mod schema;
#[path = "guest/start.rs"]
mod start;
#[path = "guest/support.rs"]
mod support;
#[path = "guest/top.rs"]
mod top;
#[path = "guest/vms.rs"]
mod vms;

use std::path::Path;
use std::time::Duration;

use metasched_base::{Kind, OURS_BESIDE_A_COMMAND};
use metasched_control::{Candidate, EEVDF, Switcher};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Output, ProcessId, Spawn};
use metasched_loader::{LoadOptions, Program};
use nix::sys::signal::Signal;

use machine::{TestMachine, processes, status};
use support::{
    FEW, PUBLISHED, Run, candidate, eventually, few, in_force, published, script, table,
};

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_lane_is_replaced_without_leaving_sched_ext() {
    let _machine = TestMachine::take();
    let mut switcher = Switcher::new(few("guest test")).unwrap();
    switcher.switch_to(&candidate("fifo")).unwrap();
    let loaded = status().enable_seq;
    for name in ["vtime", "fifo", "vtime"] {
        let record = switcher.switch_to(&candidate(name)).unwrap();
        assert!(record.write_ns.is_some() && record.stop_ns.is_none(), "{record:?}");
        assert_eq!(switcher.program().unwrap().root_policy(), name);
    }
    assert_eq!(status().enable_seq, loaded, "the program was loaded once");
    drop(switcher);
    assert!(status().is_default());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_candidate_that_exits_at_once_leaves_the_one_before_in_force() {
    let _machine = TestMachine::take();
    let folder = tempfile::tempdir().unwrap();
    let command = vec![script(folder.path(), "scx_bad", "echo 'what is -q?' >&2; exit 2")];
    let bad = Candidate::external("scx_bad", command);
    let mut switcher = Switcher::new(few("guest test")).unwrap();
    switcher.switch_to(&candidate("fifo")).unwrap();
    let e = switcher.switch_to(&bad).unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert!(e.cause.contains("what is -q?") && e.cause.contains("'fifo' is in force again"), "{e}");
    assert_eq!(status().ops.as_deref(), Some("metasched"));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_run_that_is_killed_at_any_moment_leaves_the_default_scheduler_and_no_process() {
    let _machine = TestMachine::take();
    let turns = [PUBLISHED, "fifo", "vtime"].map(|name| format!("{name}={name}"));
    let mut arguments = vec!["run", "--mechanism", "swap", "--base-slice", "300ms"];
    arguments.extend(FEW);
    for turn in &turns {
        arguments.extend(["--turn", turn]);
    }
    // From before the first scheduler is in force to the middle of a change.
    for after_ms in [50, 400, 1500, 2600, 4700] {
        let mut run = Run::start(&arguments);
        std::thread::sleep(Duration::from_millis(after_ms));
        run.kill();
        eventually("the lock is free", || {
            metasched_control::lock_holder(Path::new(metasched_control::RUN_DIR)).is_none()
        });
        eventually("the default scheduler is in force", || status().is_default());
        // One that is killed while the kernel checks its program ends when that is done.
        eventually(&format!("no process is left of the one killed after {after_ms} ms"), || {
            let ours =
                |command: &str| command.contains("scx_") || command.contains("metasched guard");
            processes(ours).is_empty()
        });
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_run_puts_back_what_it_found_even_when_it_is_killed() {
    let _machine = TestMachine::take();
    let mut found = Spawn::new(published().command).stdout(Output::Null).start().unwrap();
    let (ops, before) = in_force();

    let refused = Run::start(&["run", "--turn", "a=fifo", "--for", "1s"]).finish();
    assert_eq!(refused.0, Some(i32::from(Kind::Busy.exit_code())), "{}", refused.1);
    assert_eq!(found.poll().unwrap(), None, "it must be left alone");

    // Ours and what was found, each enabled once.
    let arguments = ["run", "--take-over", "--policies", "fifo", "--turn", "a=fifo", "--for", "2s"];
    let (code, said) = Run::start(&arguments).finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(in_force(), (ops.clone(), before + 2), "{said}");

    let mut run = Run::start(&["run", "--take-over", "--policies", "fifo", "--turn", "a=fifo"]);
    eventually("ours is in force", || status().enable_seq == before + 3);
    run.kill();
    eventually("another one is in force", || status().enable_seq == before + 4);
    assert_eq!(in_force(), (ops, before + 4));
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_run_of_lanes_takes_next_to_nothing_for_itself() {
    let _machine = TestMachine::take();
    // The aim is 0.01. In an emulated guest it was 0.008 on a host with seven ready threads for its
    // two CPUs. A guest books the time that its host runs others to whoever was running there,
    // hence six times that.
    const CPU_SHARE_MAX: f64 = 0.05;
    const MEMORY_KIB_MAX: i64 = 40 * 1024;
    let arguments = [
        "--json",
        "run",
        FEW[0],
        FEW[1],
        "--base-slice",
        "1800ms",
        "--for",
        "35s",
        "--turn",
        "a=fifo",
        "--turn",
        "b=vtime",
    ];
    let (code, said) = Run::start(&arguments).finish();
    assert_eq!(code, Some(0), "{said}");
    let last = said.lines().rfind(|line| line.starts_with('{')).unwrap();
    println!("{last}");
    let summary: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(summary["mechanism"], "lane");
    assert_eq!(summary["in_force"], EEVDF);
    // The load takes some of that, on a slow host 15 s.
    assert!(summary["summary"]["switches"].as_u64().unwrap() >= 6, "{summary}");
    assert!(summary["own_use"]["cpu_share"].as_f64().unwrap() < CPU_SHARE_MAX, "{summary}");
    assert!(summary["own_use"]["max_rss_kib"].as_i64().unwrap() < MEMORY_KIB_MAX, "{summary}");
    assert!(status().is_default());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_scheduler_is_started_shown_switched_and_stopped() {
    let _machine = TestMachine::take();
    let command = |arguments: &[&str]| Run::start(arguments).finish();
    let (code, said) = command(&["start", "fifo"]);
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = command(&["--json", "status"]);
    let view: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(view["scheduler"], "fifo", "{said}");
    assert_eq!(view["holder"]["id"]["pid"], view["keeper"]["pid"], "{said}");
    assert_eq!(view["keeper"]["lanes"][0]["policy"], "fifo", "{said}");
    // 'ps' said "exe" of the keeper and of its guard, and "/proc/self/exe keep fifo".
    for called in ["metasched keep fifo ", "metasched guard "] {
        let found = processes(|command| command == called);
        assert!(
            matches!(found.as_slice(), [one] if one.comm == "metasched"),
            "{called}: {found:?}"
        );
    }
    assert!(view["holder"]["command"][0].as_str().unwrap().ends_with("/metasched"), "{said}");
    let (code, said) = command(&["start", "vtime"]);
    assert_eq!(code, Some(i32::from(Kind::Busy.exit_code())), "{said}");
    assert!(said.contains("metasched switch vtime"), "{said}");
    for scheduler in ["fifo", "vtime"] {
        let (code, said) = command(&["switch", scheduler]);
        assert_eq!(code, Some(0), "{said}");
        let (_, said) = command(&["--json", "status"]);
        let view: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(view["scheduler"], scheduler, "{said}");
    }
    let (code, said) = command(&["stop"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(status().is_default());
    let (code, said) = command(&["stop"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing to stop"), "{said}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn cgroups_are_assigned_shown_and_unassigned() {
    let _machine = TestMachine::take();
    let command = |arguments: &[&str]| Run::start(arguments).finish();
    let ok = |arguments: &[&str]| {
        let (code, said) = command(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    let bad_input = Some(i32::from(Kind::BadInput.exit_code()));
    let (code, said) = command(&["lane", "assign", "metasched-test/a", "fifo"]);
    assert_eq!(code, Some(i32::from(Kind::Failed.exit_code())), "{said}");
    assert!(said.contains("metasched start"), "{said}");

    let cgroup = Cgroup::create("metasched-test/a").unwrap();
    let mut hog = Spawn::new(["sh", "-c", "while :; do :; done"]).cgroup(&cgroup).start().unwrap();
    ok(&["start", "vtime", "--policies", "fifo"]);
    ok(&["lane", "assign", "metasched-test/a", "fifo", "--weight", "300", "--set", "slice=5ms"]);
    let view: serde_json::Value =
        serde_json::from_str(&ok(&["--json", "lane", "list", "--interval", "2s"])).unwrap();
    let lanes = view["lanes"].as_array().unwrap();
    let own = lanes.iter().find(|l| l["cgroups"][0] == "metasched-test/a").unwrap();
    assert_eq!((&own["policy"], &own["weight"]), (&"fifo".into(), &300.into()), "{own}");
    assert!(own["share_got"].as_f64().unwrap() > 0.3, "{own}");

    let watch = Run::start(&["--json", "lane", "list", "--watch", "--interval", "1s"]);
    std::thread::sleep(Duration::from_secs(4));
    assert!(watch.id().signal(Signal::SIGINT), "it goes on until it is stopped");
    let (code, said) = watch.finish();
    assert_eq!(code, Some(0), "{said}");
    let is_view = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(said.lines().count() >= 2 && said.lines().all(is_view), "{said}");

    ok(&["lane", "set", "metasched-test/a", "--weight", "50"]);
    // What would take the lanes out is refused, and so is what cannot be.
    let (code, said) = command(&["switch", "eevdf"]);
    assert_eq!(code, Some(i32::from(Kind::Busy.exit_code())), "{said}");
    for wrong in [["nowhere", "fifo"], ["metasched-test/a", "lavd"], ["/", "fifo"]] {
        let (code, said) = command(&["lane", "assign", wrong[0], wrong[1]]);
        assert_eq!(code, bad_input, "{said}");
    }
    // A command in a cgroup of its own keeps its exit status, and its cgroup goes with it.
    let (code, said) =
        command(&["exec", "--policy", "fifo", "--", "sh", "-c", "cat /proc/self/cgroup; exit 7"]);
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("/metasched/run/sh-"), "{said}");
    for (wrong, status) in [("no-such-command", 127), ("/etc/passwd", 126)] {
        let (code, said) = command(&["exec", "--policy", "fifo", "--", wrong]);
        assert_eq!(code, Some(status), "{said}");
    }
    let (code, said) = command(&["exec", "--policy", "lavd", "--", "true"]);
    assert_eq!(code, Some(i32::from(OURS_BESIDE_A_COMMAND)), "{said}");
    let runs = Path::new("/sys/fs/cgroup/metasched/run");
    eventually("its cgroup is gone", || {
        let mut entries = std::fs::read_dir(runs).unwrap().flatten();
        !entries.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    });
    // A cgroup that is removed takes its lane along.
    hog.signal(Signal::SIGKILL);
    hog.wait(Duration::from_secs(30)).unwrap().unwrap();
    cgroup.remove().unwrap();
    eventually("one lane is left", || {
        let view: serde_json::Value =
            serde_json::from_str(&ok(&["--json", "lane", "list", "--interval", "10ms"])).unwrap();
        view["lanes"].as_array().unwrap().len() == 1
    });
    assert!(ok(&["lane", "unassign", "--all"]).contains("no cgroup is assigned"));
    ok(&["stop"]);
    assert!(status().is_default());
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn an_operators_sysrq_ends_the_keeper_and_is_not_fought() {
    let _machine = TestMachine::take();
    let (code, said) = Run::start(&["start", "fifo"]).finish();
    assert_eq!(code, Some(0), "{said}");
    std::fs::write("/proc/sysrq-trigger", "S").unwrap();
    eventually("the scheduler is out", || status().is_default());
    eventually("the keeper has ended", || {
        metasched_control::lock_holder(Path::new(metasched_control::RUN_DIR)).is_none()
    });
    let (_, said) = Run::start(&["--json", "status"]).finish();
    let view: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(view["last_exit"]["by_operator"], true, "{said}");
    std::thread::sleep(Duration::from_secs(2));
    assert!(status().is_default());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_process_starts_in_its_cgroup_and_dies_with_it() {
    let _machine = TestMachine::take();
    let cgroup = Cgroup::create("metasched-test/inner/one").unwrap();
    let mut child = Spawn::new(["sh", "-c", "cat /proc/self/cgroup; sleep 1000 & sleep 1000"])
        .cgroup(&cgroup)
        .stdout(Output::Tail(4096))
        .start()
        .unwrap();
    eventually("it has spoken", || !child.stdout_tail().is_empty());
    assert!(child.stdout_tail().contains("/metasched-test/inner/one"), "{}", child.stdout_tail());
    assert!(cgroup.pids().unwrap().contains(&child.pid()));
    assert!(cgroup.threads().unwrap().total().run_ns > 0);
    assert!(cgroup.cpu_stat().unwrap().usage_usec > 0);
    let control = std::fs::read_to_string("/sys/fs/cgroup/metasched-test/cgroup.subtree_control");
    assert!(control.unwrap().contains("cpu"));
    cgroup.kill().unwrap();
    assert!(child.wait(Duration::from_secs(30)).unwrap().is_some());
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
    assert!(!cgroup.path().exists());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn the_guard_kills_what_was_registered_when_its_metasched_is_killed() {
    let _machine = TestMachine::take();
    // The test runs itself as the metasched that is killed.
    const VICTIM: &str = "METASCHED_TEST_VICTIM";
    if std::env::var_os(VICTIM).is_some() {
        let mut switcher = Switcher::new(few("guest test victim")).unwrap();
        let cgroup = Cgroup::create("metasched-victim/load").unwrap();
        switcher.guard().watch_cgroup(cgroup.path()).unwrap();
        switcher.switch_to(&candidate("vtime")).unwrap();
        let load = Spawn::new(["sleep", "1000"]).cgroup(&cgroup).detached().start().unwrap();
        println!("load {}", load.pid());
        std::thread::sleep(Duration::from_secs(1000));
    }
    let exe = std::env::current_exe().unwrap();
    let name = "the_guard_kills_what_was_registered_when_its_metasched_is_killed";
    let mut victim =
        Spawn::new([exe.to_str().unwrap(), "--exact", name, "--ignored", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Output::Tail(4096))
            .stderr(Output::Tail(4096))
            .start()
            .unwrap();
    let mut load = None;
    eventually("the victim's load runs", || {
        load = victim
            .stdout_tail()
            .lines()
            .find_map(|line| line.split("load ").nth(1)?.parse::<i32>().ok());
        load.is_some()
    });
    let load = ProcessId::of(Path::new("/"), load.unwrap()).unwrap();
    assert!(victim.id().signal(Signal::SIGKILL));
    victim.wait(Duration::from_secs(30)).unwrap().unwrap();
    eventually("the load is dead", || !load.is_alive(Path::new("/")));
    eventually("its cgroup is gone", || {
        !Path::new("/sys/fs/cgroup/metasched-victim/load").exists()
    });
    eventually("the default scheduler is in force", || status().is_default());
}

/// The argument by which this test program is made to play a scheduler. To the test
/// harness it means nothing: no test has such a name.
const PLAY: &str = "--skip=play-a-scheduler";

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_process_that_holds_the_link_is_an_external_scheduler_whatever_its_name() {
    if std::env::args().any(|argument| argument == PLAY) {
        let interrupt = metasched_base::Interrupt::listen().unwrap();
        let policies = vec!["fifo".to_owned()];
        let options = LoadOptions { policies, ..LoadOptions::policy("fifo") };
        let program = Program::load(&options).unwrap();
        while !interrupt.is_raised() && program.exited().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(program);
        std::process::exit(0);
    }
    let _machine = TestMachine::take();
    let folder = tempfile::tempdir().unwrap();
    let mut switcher = Switcher::new(few("guest test")).unwrap();
    let record = switcher.switch_to(&support::player(folder.path())).unwrap();
    assert!(record.start_ns.is_some());
    assert_eq!(status().ops.as_deref(), Some("metasched"));
    switcher.check_alive().unwrap();
    assert!(switcher.program().is_none(), "it is not ours");
    switcher.restore().unwrap();
    assert!(status().is_default());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn the_list_begins_with_the_default_scheduler_and_has_our_policies() {
    let _machine = TestMachine::take();
    let names: Vec<String> = table().into_iter().map(|c| c.name).collect();
    assert_eq!(&names[..3], ["eevdf", "fifo", "vtime"]);
}
