//! `metasched vm`, with real guests: each test boots one. One program, so that they boot side by side.

mod nohz;
mod overhead;
#[path = "../schema/mod.rs"]
mod schema;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use metasched_base::{Interrupt, Kind, OURS_BESIDE_A_COMMAND};
use metasched_testbed::{Accel, Streams, Thread, Vm, VmOptions};

/// The exit status of what fails beside the command.
const OURS: i32 = OURS_BESIDE_A_COMMAND as i32;

/// A guest boots in 4 to 10 s, on a machine that is busy in half a minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// As many guests at a time as there are CPUs: one that boots keeps one busy, and more of them time
/// each other out.
pub(crate) struct Turn;

static GUESTS: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

impl Turn {
    pub(crate) fn wait() -> Self {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let guests = GUESTS.lock().unwrap();
        *ENDED.wait_while(guests, |guests| *guests >= most).unwrap() += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Nobody panics while it is held.
        *GUESTS.lock().unwrap() -= 1;
        ENDED.notify_one();
    }
}

fn vm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metasched"));
    command.arg("vm").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs to the end with `input` as standard input.
fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    // If the guest did not even boot, what it says is more to the point.
    if output.status.code() == Some(7) {
        writer.join().unwrap().unwrap();
    }
    output
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A guest that has said in a file of the shared folder that it runs.
fn started_guest(shared: &Path, options: &[&str], script: &str) -> Child {
    let child = vm()
        .args(options)
        .arg("--rw")
        .arg(shared)
        .args(["--env", &format!("SHARED={}", shared.display()), "--", "sh", "-c"])
        .arg(script)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the start of the guest", || shared.join("started").exists());
    child
}

/// QEMU processes that this process started.
fn qemu_below(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // PID (COMMAND) STATE PARENT ...
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).and_then(|p| p.parse().ok());
        if parent == Some(pid) && name.contains("(qemu-system") {
            found.push(child);
        }
    }
    found
}

/// Whether it still runs; a zombie that nobody reaps does not.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| !rest.starts_with('Z')))
        .unwrap_or(false)
}

#[test]
fn streams_exit_status_and_shared_files_come_out_and_nothing_else_does() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("made/by/us");
    let elsewhere = dir.path().join("elsewhere");
    let input: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    let script = "
        set -e
        cat > $SHARED/input
        echo written > $SHARED/file
        echo written > $ELSEWHERE
        cat $ELSEWHERE >&2
        cat $SHARED/input $SHARED/input $SHARED/input
        (sleep 1000; echo never) &
        exit 7";
    let output = run_with_input(
        vm().arg("--rw")
            .arg(&shared)
            .args(["--env", &format!("SHARED={}", shared.display())])
            .args(["--env", &format!("ELSEWHERE={}", elsewhere.display())])
            .args(["--", "sh", "-c", script]),
        &input,
    );
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert_eq!(stderr, "written\n");
    assert_eq!(output.stdout.len(), 3 * input.len());
    assert!(output.stdout.chunks(input.len()).all(|part| part == input), "bytes were mixed up");
    assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "written\n");
    assert!(!elsewhere.exists(), "a file outside the shared folder reached the host");
}

#[test]
fn the_guest_has_the_topology_that_was_asked_for_and_sched_ext() {
    let _turn = Turn::wait();
    let script = "
        echo cpus $(nproc)
        lscpu -p=CPU,CORE,SOCKET,NODE | grep -v '#'
        echo llc $(cat /sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list)
        cat /sys/kernel/sched_ext/state
        test -r /boot/config-$(uname -r) && echo config
        mountpoint -q /sys/fs/bpf && echo bpf
        grep -qw cpu /sys/fs/cgroup/cgroup.controllers && echo cgroup
        echo descriptors | cat /dev/fd/0
        kill -9 $$";
    let output = vm()
        .args(["--topology", "sockets=2,cores=1,threads=2,nodes=2", "--llc", "per-core"])
        .args(["--memory", "1G", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let expected = "cpus 4\n0,0,0,0\n1,0,0,0\n2,1,1,1\n3,1,1,1\nllc 0-1\n\
                    disabled\nconfig\nbpf\ncgroup\ndescriptors\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn the_clock_of_a_guest_that_booted_on_a_busy_host_is_the_hosts() {
    let _turn = Turn::wait();
    let seconds = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let busy = std::thread::available_parallelism().map_or(1, usize::from);
    // They end by themselves if this does not.
    let hog = |_| Command::new("sh").args(["-c", "ulimit -t 20; while :; do :; done"]).spawn();
    let hogs: Vec<Child> = (0..2 * busy).map(hog).collect::<Result<_, _>>().unwrap();
    let output = vm()
        .args(["--memory", "1G", "--", "sh", "-c", "dmesg | grep tsc: >&2; date +%s.%N"])
        .output()
        .unwrap();
    let host = seconds();
    for mut hog in hogs {
        let _ = hog.kill();
        hog.wait().unwrap();
    }
    let guest: f64 = text(&output.stdout).trim().parse().unwrap();
    // It starts with the host's second, and it takes a moment to end.
    assert!((guest - host).abs() < 5.0, "{guest} {host} {}", text(&output.stderr));
}

/// A terminal of `rows` lines, as `metasched vm` may have it: what a user types goes to the first.
fn terminal(rows: u16) -> nix::pty::OpenptyResult {
    let size = nix::pty::Winsize { ws_row: rows, ws_col: 97, ws_xpixel: 0, ws_ypixel: 0 };
    nix::pty::openpty(&size, None).unwrap()
}

#[test]
fn without_a_command_it_is_a_shell_on_a_terminal_of_the_same_size_that_is_left_as_it_was() {
    let _turn = Turn::wait();
    let pty = terminal(31);
    let lines = || {
        let flags = nix::sys::termios::tcgetattr(&pty.slave).unwrap().local_flags;
        flags.contains(nix::sys::termios::LocalFlags::ICANON)
    };
    assert!(lines());
    let mut guest = vm()
        .env("SHELL", "/bin/sh")
        .env("PS1", "ready> ")
        .stdin(pty.slave.try_clone().unwrap())
        .stdout(pty.slave.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut user = fs::File::from(pty.master);
    let shown = std::sync::Arc::new(Mutex::new(String::new()));
    let (mut reads, seen) = (user.try_clone().unwrap(), shown.clone());
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = std::io::Read::read(&mut reads, &mut buffer) {
            seen.lock().unwrap().push_str(&text(&buffer[..n]));
        }
    });
    let shows = |what: &str| wait_for(what, || shown.lock().unwrap().contains(what));
    let mut types = |line: &str| user.write_all(line.as_bytes()).unwrap();
    wait_for("raw mode", || !lines());
    types("stty size; tty\r");
    shows("31 97");
    shows("/dev/pts/");
    let size = nix::libc::winsize { ws_row: 43, ws_col: 97, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel reads a winsize, which lives as long as the call.
    let status = unsafe {
        let terminal = std::os::fd::AsRawFd::as_raw_fd(&pty.slave);
        nix::libc::ioctl(terminal, nix::libc::TIOCSWINSZ, &raw const size)
    };
    assert_eq!(status, 0);
    types("while [ \"$(stty size)\" != '43 97' ]; do sleep 0.1; done; echo now $((40 + 3))\r");
    shows("now 43");
    // Ctrl-C is a key of the guest's terminal, and ends what runs there.
    types("sleep 1000\r");
    std::thread::sleep(Duration::from_secs(1));
    types("\x03");
    types("echo still $((1 + 1)); exit 3\r");
    shows("still 2");
    assert_eq!(guest.wait().unwrap().code(), Some(3));
    assert!(lines(), "the terminal is left raw");
}

#[test]
fn a_panic_ends_the_command_with_the_consoles_last_lines() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let console = dir.path().join("console");
    let output = vm()
        .arg("--console")
        .arg(&console)
        .args(["--", "sh", "-c", "echo before; sleep 1; echo c > /proc/sysrq-trigger; sleep 1000"])
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(OURS), "{stderr}");
    assert!(stderr.contains("it died: "), "{stderr}");
    assert!(stderr.contains("Kernel panic - not syncing: sysrq triggered crash"), "{stderr}");
    assert!(stderr.contains("the console's last lines:"), "{stderr}");
    assert_eq!(text(&output.stdout), "before\n");
    assert!(fs::read_to_string(&console).unwrap().contains("sysrq triggered crash"));
}

#[test]
fn a_guest_that_hangs_ends_when_its_time_is_over() {
    let turn = Turn::wait();
    let begin = Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let script = "echo '<0>a sign of life' > /dev/kmsg; echo yes > $SHARED/started; sleep 1000";
    let guest = started_guest(dir.path(), &["--timeout", "45s"], script);
    // It does nothing from now on.
    drop(turn);
    let output = guest.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(OURS), "{stderr}");
    assert!(stderr.contains("it took longer than 45s"), "{stderr}");
    assert!(stderr.contains("a sign of life"), "{stderr}");
    assert!(begin.elapsed() < Duration::from_secs(75), "{:?}", begin.elapsed());
}

#[test]
fn killing_metasched_leaves_no_qemu() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let mut guest = started_guest(dir.path(), &[], "echo yes > $SHARED/started; sleep 1000");
    let qemu = qemu_below(guest.id());
    assert_eq!(qemu.len(), 1);
    // SIGKILL: it cannot do anything about it any more.
    guest.kill().unwrap();
    guest.wait().unwrap();
    wait_for("the end of QEMU", || !runs(qemu[0]));
}

#[test]
fn an_interrupt_reaches_the_command_which_ends_as_it_likes() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo yes > $SHARED/stopped; exit 5' INT
        echo yes > $SHARED/started
        while :; do sleep 0.2; done";
    let guest = started_guest(dir.path(), &[], script);
    let qemu = qemu_below(guest.id());
    assert_eq!(qemu.len(), 1);
    let pid = nix::unistd::Pid::from_raw(guest.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = guest.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(dir.path().join("stopped").exists());
    wait_for("the end of QEMU", || !runs(qemu[0]));
}

#[test]
fn with_isolated_cpus_no_scheduler_loads_and_the_user_is_told_why() {
    let _turn = Turn::wait();
    let output = vm()
        .args(["--append", "isolcpus=1", "--", env!("CARGO_BIN_EXE_metasched"), "start", "fifo"])
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("CPUs 1 are isolated (isolcpus=)"), "{stderr}");
}

/// A first process that fails as the emulator does where it finds the file `fails`, after it
/// has run the shell command `first`.
fn failing_agent(dir: &Path, first: &str) -> VmOptions {
    let (agent, console) = (dir.join("agent"), dir.join("console"));
    fs::write(dir.join("fails"), "").unwrap();
    let script = format!(
        "#!/bin/sh\nfails={}/fails\n\
         [ ! -e $fails ] || {{ echo 'Oops: int3: 0000 [#1]'; {first}; exit 1; }}\nexec {} \"$@\"\n",
        dir.display(),
        env!("CARGO_BIN_EXE_metasched")
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    VmOptions {
        agent: Some(agent),
        console: Some(console),
        thread: Thread::Multi,
        accel: Accel::Tcg,
        shares: vec![dir.join("shared")],
        ..VmOptions::default()
    }
}

#[test]
fn a_guest_that_the_emulator_kills_while_it_boots_is_booted_again_and_its_command_runs_once() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    // The first guest lives until its failure is seen: the second boot empties the console. It
    // cannot look for that itself: what it has found in its root it finds there again.
    let options = failing_agent(dir.path(), "sleep 3");
    let command = ["sh", "-c", &format!("echo ran >> {}/shared/runs", dir.path().display())];
    let command = command.map(str::to_owned);
    let (fails, console) = (dir.path().join("fails"), dir.path().join("console"));
    let mender = std::thread::spawn(move || {
        let shows = |path: &Path| fs::read_to_string(path).is_ok_and(|t| t.contains("int3"));
        wait_for("the failure of the first guest", || shows(&console));
        fs::remove_file(fails).unwrap();
    });
    let vm = Vm::new(options).unwrap();
    let outcome = vm.run(&command, Streams::nowhere(), &Interrupt::default());
    mender.join().unwrap();
    assert_eq!(outcome.unwrap().status, 0);
    assert_eq!(fs::read_to_string(dir.path().join("shared/runs")).unwrap(), "ran\n");
}

#[test]
fn a_guest_that_dies_at_each_boot_ends_with_an_error() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let vm = Vm::new(failing_agent(dir.path(), ":")).unwrap();
    let outcome = vm.run(&["true".to_owned()], Streams::nowhere(), &Interrupt::default());
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, Kind::Guest);
    assert!(error.cause.contains("Attempted to kill init"), "{}", error.cause);
}

#[test]
fn an_interrupt_while_the_guest_boots_ends_it_without_a_command() {
    let _turn = Turn::wait();
    let dir = tempfile::tempdir().unwrap();
    let mut guest = vm()
        .arg("--rw")
        .arg(dir.path())
        .args(["--", "touch"])
        .arg(dir.path().join("started"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut qemu = Vec::new();
    wait_for("the start of QEMU", || {
        qemu = qemu_below(guest.id());
        !qemu.is_empty()
    });
    let pid = nix::unistd::Pid::from_raw(guest.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(guest.wait().unwrap().code(), Some(130));
    assert!(!runs(qemu[0]) && !dir.path().join("started").exists());
}

#[test]
fn removing_takes_away_what_was_written_unless_it_is_in_use() {
    let _turn = Turn::wait();
    // Without the sources, whose removal has the package lists fetched anew, and without the kernels
    // that are kept for guests: an emulated one takes a minute to remove their modules.
    let script = "
        mount -t tmpfs none /var/cache
        rm -f /etc/apt/sources.list.d/metasched.sources /etc/apt/preferences.d/metasched.pref
        unset METASCHED_CACHE_ROOT
        export SUDO_USER=user SUDO_UID=1000
        echo user:x:1000:1000::/home/user:/bin/sh >> /etc/passwd
        there='/run/metasched /sys/fs/cgroup/metasched /var/cache/metasched /var/lib/metasched
            /home/user/.cache/metasched /etc/apt/preferences.d/metasched.pref'
        for place in $there; do mkdir -p $place/a; done
        touch /run/metasched/lock
        flock /run/metasched/lock scripts/remove-deps.sh --yes
        echo status $?
        ls -d $there >/dev/null && echo all there
        scripts/remove-deps.sh --yes >&2
        echo status $?
        ls -d $there";
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = vm().current_dir(workspace).args(["--", "sh", "-c", script]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), "status 5\nall there\nstatus 0\n", "{stderr}");
    assert!(stderr.contains("a metasched is at work"), "{stderr}");
}

#[test]
fn what_the_guest_cannot_be_is_said_before_it_boots() {
    let case = |args: &[&str], message: &str| {
        let output = vm().args(args).args(["--", "true"]).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(OURS), "{stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    };
    case(&["--cpus", "3", "--topology", "cores=4"], "makes 4 CPUs, and 3 were asked for");
    case(&["--topology", "cores"], "'cores' has no '='");
    case(&["--kernel", "/nonexistent"], "No such file");
    case(&["--env", "novalue"], "it is not NAME=VALUE");
}

#[test]
fn a_command_that_is_not_there_or_no_program_ends_as_in_a_shell() {
    let _turn = Turn::wait();
    for (command, status) in [("no-such-command", 127), ("/etc/passwd", 126)] {
        let output = vm().args(["--", command]).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert!(text(&output.stderr).contains(&format!("cannot run '{command}'")));
    }
}
