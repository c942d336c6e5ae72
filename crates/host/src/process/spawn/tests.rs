use super::*;
use std::os::unix::process::ExitStatusExt;

/// How often something is looked at that nobody tells of.
const POLL: Duration = Duration::from_millis(2);

/// Far longer than anything here takes; only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Spawn {
    Spawn::new(["sh", "-c", script]).stdout(Output::Tail(4096)).stderr(Output::Tail(4096))
}

/// Waits until the child has said a line, so that its traps are set.
fn wait_for_words(child: &Child) {
    let end = Instant::now() + PATIENCE;
    while child.stdout_tail().is_empty() {
        assert!(Instant::now() < end, "the child never said anything");
        std::thread::sleep(POLL);
    }
}

#[test]
fn the_exit_status_and_the_last_words_are_kept() {
    let mut child = shell("echo out; echo first >&2; echo last >&2; exit 3").start().unwrap();
    assert_eq!(child.wait(PATIENCE).unwrap().unwrap().code(), Some(3));
    assert_eq!(child.stdout_tail(), "out\n");
    assert_eq!(child.last_lines(1), "last");
}

#[test]
fn a_process_is_called_what_it_is_to_be_called() {
    let command = ["sh", "-c", "read -r name < /proc/self/cmdline; echo \"$name\"", "x"];
    let spawn = Spawn::new(command).stdout(Output::Tail(4096)).called("metasched");
    let mut child = spawn.start().unwrap();
    assert_eq!(child.wait(PATIENCE).unwrap().unwrap().code(), Some(0));
    assert!(child.stdout_tail().starts_with("metasched"), "{}", child.stdout_tail());
}

#[test]
fn a_backtrace_does_not_hide_the_error_before_it() {
    let words = r"Error: no ring buffer\n\nStack backtrace:\n   0: <unknown>\n   1: <unknown>\n";
    let mut child = shell(&format!("printf '{words}' >&2; exit 1")).start().unwrap();
    assert_eq!(child.wait(PATIENCE).unwrap().unwrap().code(), Some(1));
    assert_eq!(child.last_lines(2), "Error: no ring buffer");
}

#[test]
fn a_missing_program_is_bad_input_that_names_it() {
    let e = Spawn::new(["/no/such/program"]).start().unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.to_string().contains("/no/such/program"), "{e}");
}

#[test]
fn an_obedient_child_ends_at_the_first_signal() {
    let mut child =
        shell("trap 'exit 0' INT; echo ready; while :; do sleep 0.01; done").start().unwrap();
    wait_for_words(&child);
    let stopped = child.stop(&StopPlan::default()).unwrap();
    assert_eq!(stopped.signal, Some(Signal::SIGINT));
    assert_eq!(stopped.status.code(), Some(0));
}

#[test]
fn a_child_that_ignores_everything_is_killed_in_the_end() {
    let mut child =
        shell("trap '' INT TERM; echo ready; while :; do sleep 0.01; done").start().unwrap();
    wait_for_words(&child);
    let short = Duration::from_millis(50);
    let plan = StopPlan { steps: vec![(Signal::SIGINT, short), (Signal::SIGTERM, short)] };
    let stopped = child.stop(&plan).unwrap();
    assert_eq!(stopped.signal, Some(Signal::SIGKILL));
    assert_eq!(stopped.status.signal(), Some(Signal::SIGKILL as i32));
    assert!(stopped.took >= 2 * short);
}

#[test]
fn the_whole_process_group_dies_with_the_child() {
    let child = shell("sleep 1000 & echo $!; wait").start().unwrap();
    wait_for_words(&child);
    let pid: i32 = child.stdout_tail().trim().parse().unwrap();
    let grandchild = ProcessId::of(Path::new("/"), pid).unwrap();
    drop(child);
    let end = Instant::now() + PATIENCE;
    while grandchild.is_alive(Path::new("/")) {
        assert!(Instant::now() < end, "process {pid} outlived its group");
        std::thread::sleep(POLL);
    }
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let mut child =
        std::thread::spawn(|| shell("echo ready; sleep 1000").start().unwrap()).join().unwrap();
    wait_for_words(&child);
    // The kernel would have killed it at the end of that thread.
    assert_eq!(child.wait(Duration::from_millis(100)).unwrap(), None);
}

/// The number that a child says after these words.
fn number_after(child: &Child, words: &str) -> i32 {
    let end = Instant::now() + PATIENCE;
    loop {
        let said = child.stdout_tail();
        if let Some((_, rest)) = said.split_once(words)
            && let Some((number, _)) = rest.split_once('\n')
        {
            return number.trim().parse().unwrap();
        }
        assert!(Instant::now() < end, "the child said only: {said}");
        std::thread::sleep(POLL);
    }
}

#[test]
fn a_child_that_does_not_end_when_it_is_killed_is_not_waited_for_without_end() {
    use nix::libc::{PTRACE_SEIZE, ptrace};
    // The test runs itself as the parent, and traces the child: until the tracer has seen it
    // end, nobody else does, as if the kernel did not let go of it.
    const PARENT: &str = "METASCHED_TEST_PARENT";
    if std::env::var_os(PARENT).is_some() {
        let child = Spawn::new(["sleep", "1000"]).start().unwrap();
        println!("child {}", child.pid());
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.pid())).unwrap();
            !status.contains("TracerPid:\t0\n")
        };
        while !traced() {
            std::thread::sleep(POLL);
        }
        drop(child);
        println!("dropped 0");
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let name = "process::spawn::tests::\
                a_child_that_does_not_end_when_it_is_killed_is_not_waited_for_without_end";
    let mut parent = Spawn::new([exe.to_str().unwrap(), "--exact", name, "--nocapture"])
        .env(PARENT, "1")
        .stdout(Output::Tail(4096))
        .start()
        .unwrap();
    let pid = number_after(&parent, "child ");
    let none = std::ptr::null_mut::<nix::libc::c_void>();
    // SAFETY: it passes no pointers.
    assert_eq!(unsafe { ptrace(PTRACE_SEIZE, pid, none, none) }, 0, "{pid} cannot be traced");
    number_after(&parent, "dropped ");
    assert_eq!(parent.wait(PATIENCE).unwrap().unwrap().code(), Some(0));
    nix::sys::wait::waitpid(Pid::from_raw(pid), None).unwrap();
}

#[test]
fn a_child_dies_with_a_parent_that_is_killed() {
    // The test runs itself as the parent that is killed.
    const VICTIM: &str = "METASCHED_TEST_VICTIM";
    if std::env::var_os(VICTIM).is_some() {
        let mut child = Spawn::new(["sleep", "1000"]).start().unwrap();
        println!("child {}", child.pid());
        child.wait(PATIENCE * 10).unwrap();
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let name = "process::spawn::tests::a_child_dies_with_a_parent_that_is_killed";
    let mut parent = Spawn::new([exe.to_str().unwrap(), "--exact", name, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Output::Tail(4096))
        .start()
        .unwrap();
    let pid = number_after(&parent, "child ");
    let end = Instant::now() + PATIENCE;
    let orphan = ProcessId::of(Path::new("/"), pid).unwrap();
    // Only the parent is hit, not its group: nothing but the kernel ends the child.
    assert!(parent.id().signal(Signal::SIGKILL));
    parent.wait(PATIENCE).unwrap().unwrap();
    while orphan.is_alive(Path::new("/")) {
        assert!(Instant::now() < end, "process {pid} outlived its parent");
        std::thread::sleep(POLL);
    }
}

#[test]
fn a_child_is_in_its_cgroup_before_it_runs() {
    // A plain file stands for cgroup.procs: what is written there is what the kernel gets.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cgroup.procs"), "").unwrap();
    let cgroup = Cgroup::open(folder.path()).unwrap();
    let script = format!("cat {}/cgroup.procs", folder.path().display());
    let mut child = shell(&script).cgroup(&cgroup).start().unwrap();
    child.wait(PATIENCE).unwrap().unwrap();
    assert_eq!(child.stdout_tail(), "0");
}

#[test]
fn a_detached_child_lives_on_when_it_is_dropped() {
    let child = Spawn::new(["sleep", "1000"]).detached().start().unwrap();
    let id = child.id();
    drop(child);
    assert!(id.is_alive(Path::new("/")));
    assert!(id.signal_group(Signal::SIGKILL));
}
