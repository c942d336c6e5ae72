//! The guest's first process: sets the system up, runs the command, passes its
//! streams on and says how it ended.
//!
//! It hands every byte that it reads to the host and counts them; the host ends
//! QEMU when it has that many. So nothing is lost between a write in the guest
//! and the end of the machine, and nobody has to wait for an orderly shutdown.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt, passed_on};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc::{self, winsize};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios::{ControlFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::spec::{FromGuest, SERIAL, SERIAL_PORTS, SPEC_PATH, Share, Size, Spec, ToGuest, port};

/// How long the ports may take to appear: they are announced one by one.
const PORTS_WITHIN: Duration = Duration::from_secs(30);
/// How long the processes that the command left behind may take to die.
const LEFTOVERS_WITHIN: Duration = Duration::from_secs(10);
/// How often something without an event is looked at.
const POLL: Duration = Duration::from_millis(5);
/// As much as a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// Runs as the guest's first process; never returns. If it fails before it can
/// say so to the host, the kernel panics and the console shows why.
pub fn main() -> ! {
    let mut control = match basics().and_then(|()| open_port(port::CONTROL)) {
        Ok(control) => control,
        Err(error) => {
            eprintln!("testbed: {error}");
            std::process::exit(1)
        }
    };
    let end = run(&control).unwrap_or_else(|error| FromGuest::Failed {
        why: error.to_string(),
        status: matches!(error.kind, Kind::NoSuchCommand | Kind::NotExecutable)
            .then(|| i32::from(error.kind.exit_code())),
    });
    if let Err(error) = say(&mut control, &end) {
        eprintln!("testbed: {error}");
    }
    // The host ends the machine now.
    loop {
        std::thread::park();
    }
}

/// What has to be there to reach the host.
fn basics() -> Result<()> {
    if std::process::id() != 1 {
        return Err(Error::new(Kind::Usage, "set a guest up", "this is not its first process"));
    }
    mount_at("proc", "proc", "/proc", "")?;
    mount_at("sysfs", "sysfs", "/sys", "")?;
    mount_at("devtmpfs", "devtmpfs", "/dev", "mode=755")
}

fn mount_at(what: &str, kind: &str, at: &str, data: &str) -> Result<()> {
    fs::create_dir_all(at).attempt(Kind::Failed, || format!("make {at}"))?;
    mount(Some(what), at, Some(kind), MsFlags::empty(), Some(data))
        .attempt(Kind::Failed, || format!("mount {kind} at {at}"))
}

/// The file systems that a command expects, beyond [`basics`].
fn mount_all(spec: &Spec) -> Result<()> {
    mount_at("devpts", "devpts", "/dev/pts", "mode=620,ptmxmode=666")?;
    mount_at("shm", "tmpfs", "/dev/shm", "mode=1777")?;
    mount_at("cgroup2", "cgroup2", "/sys/fs/cgroup", "")?;
    // These a kernel may lack; the command then finds out itself.
    for (kind, at) in [
        ("bpf", "/sys/fs/bpf"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
        ("securityfs", "/sys/kernel/security"),
    ] {
        if let Err(error) = mount_at(kind, kind, at, "") {
            eprintln!("testbed: {error}");
        }
    }
    // Not the kernel's own; a shell opens a process substitution through the first.
    for (name, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, name)
            .attempt(Kind::Failed, || format!("make {name}"))?;
    }
    let _ = fs::create_dir_all("/run/lock");
    for share in &spec.shares {
        mount_share(share)?;
    }
    Ok(())
}

/// `cache=readahead`: what is read is kept while a file is open, what is written
/// goes to the host at once. So a measurement that was stored is on the host even
/// if the machine is killed at that moment.
fn mount_share(share: &Share) -> Result<()> {
    mount_at(
        &share.tag,
        "9p",
        &share.path,
        "trans=virtio,version=9p2000.L,cache=readahead,msize=512000",
    )
}

/// Puts the kernel's modules and configuration where the tools look for them.
fn place_kernel_files(spec: &Spec) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")
        .attempt(Kind::Failed, || "read the kernel's release".into())?;
    let release = release.trim();
    let modules = format!("/lib/modules/{release}");
    if let Some(theirs) = spec.modules.as_deref().filter(|theirs| *theirs != modules) {
        fs::create_dir_all(&modules).attempt(Kind::Failed, || format!("make {modules}"))?;
        let bind =
            mount(Some(theirs), modules.as_str(), None::<&str>, MsFlags::MS_BIND, None::<&str>);
        bind.attempt(Kind::Failed, || format!("show the modules at {modules}"))?;
    }
    if let Some(config) = &spec.config {
        let path = format!("/boot/config-{release}");
        if !Path::new(&path).exists() {
            let _ = fs::create_dir_all("/boot");
            std::os::unix::fs::symlink(config, &path)
                .attempt(Kind::Failed, || format!("show the configuration at {path}"))?;
        }
    }
    Ok(())
}

/// Opens the port of that name, for reading and writing, once it is there and
/// the host's end is open: before that a read would see the end of the stream.
fn open_port(name: &str) -> Result<File> {
    let attempt = || format!("open the port {name}");
    if std::env::var_os(SERIAL).is_some() {
        return open_line(name).attempt(Kind::Failed, attempt);
    }
    let end = Instant::now() + PORTS_WITHIN;
    let mut file = None;
    loop {
        if file.is_none() {
            file = find_port(name)
                .map(|path| OpenOptions::new().read(true).write(true).open(path))
                .transpose()
                .attempt(Kind::Failed, attempt)?;
        }
        if let Some(port) = file.take() {
            let mut fds = [PollFd::new(port.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::ZERO).attempt(Kind::Failed, attempt)?;
            let hung_up = fds[0].revents().is_some_and(|r| r.contains(PollFlags::POLLHUP));
            if !hung_up {
                return Ok(port);
            }
            file = Some(port);
        }
        if Instant::now() > end {
            return Err(Error::new(Kind::Failed, attempt(), "it did not appear"));
        }
        std::thread::sleep(POLL);
    }
}

/// The serial line that stands for a port; where there is none, nothing comes and nothing goes.
fn open_line(name: &str) -> std::io::Result<File> {
    let Some(number) = SERIAL_PORTS.iter().position(|port| *port == name) else {
        return OpenOptions::new().read(true).write(true).open("/dev/null");
    };
    let path = format!("/dev/ttyS{}", number + 1);
    let mut options = OpenOptions::new();
    let line = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(path)?;
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    settings.control_flags |= ControlFlags::CLOCAL | ControlFlags::CREAD;
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    Ok(line)
}

fn find_port(name: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().find_map(|entry| {
        let text = fs::read_to_string(entry.path().join("name")).ok()?;
        let device = Path::new("/dev").join(entry.file_name());
        (text.trim() == name && device.exists()).then_some(device)
    })
}

fn say(control: &mut File, message: &FromGuest) -> Result<()> {
    let attempt = || "tell the host".to_owned();
    let mut line = serde_json::to_vec(message).attempt(Kind::Failed, attempt)?;
    line.push(b'\n');
    control.write_all(&line).attempt(Kind::Failed, attempt)
}

/// Runs the command to its end and gives the message that says how it ended.
fn run(control: &File) -> Result<FromGuest> {
    let text = fs::read_to_string(SPEC_PATH).attempt(Kind::Failed, || "read the orders".into())?;
    let spec: Spec =
        serde_json::from_str(&text).attempt(Kind::Failed, || "read the orders".into())?;
    mount_all(&spec)?;
    place_kernel_files(&spec)?;
    nix::unistd::sethostname(&spec.hostname)
        .attempt(Kind::Failed, || "set the guest's name".into())?;

    let stdin = open_port(port::STDIN)?;
    let stdout = open_port(port::STDOUT)?;
    let stderr = open_port(port::STDERR)?;
    let mut command = command(&spec)?;
    let ours = if spec.terminal { own_terminal(&mut command)? } else { pipes(&mut command)? };
    let terminal = spec.terminal.then(|| ours.input.try_clone()).transpose();
    let terminal = terminal.attempt(Kind::Failed, || "open the terminal again".into())?;
    let mut control =
        control.try_clone().attempt(Kind::Failed, || "open the control port again".into())?;
    say(&mut control, &FromGuest::Ready)?;
    let mut orders = orders(control);
    let started = orders.by_ref().any(|order| match order {
        ToGuest::Start => true,
        other => {
            obey_one(&other, None, terminal.as_ref());
            false
        }
    });
    if !started {
        return Err(Error::new(Kind::Failed, "wait for the host", "it went away"));
    }
    let child = command.spawn().map_err(|cause| {
        Error::new(Kind::of_command(&cause), format!("run '{}'", spec.command[0]), cause)
    })?;
    // It holds the command's ends of the pipes, which must close when the command ends.
    drop(command);
    let child = Pid::from_raw(child.id() as i32);

    let out = relay(ours.output, stdout);
    let err = relay(ours.errors, stderr);
    // Nobody receives its count, so the pipe closes at the end of the input.
    drop(relay(stdin, ours.input));
    std::thread::spawn(move || {
        orders.for_each(|order| obey_one(&order, Some(child), terminal.as_ref()));
    });

    let status = reap_until(child)?;
    end_leftovers();
    // Every writer is gone, so the relays come to the end of their pipes; unless a
    // process is stuck in the kernel, in which case what it holds is not waited for.
    let count = |relay: Receiver<(u64, File)>| {
        let (count, port) = relay.recv_timeout(LEFTOVERS_WITHIN).ok()?;
        // The port stays open while the machine runs: closing it would throw away
        // what QEMU has not taken yet.
        std::mem::forget(port);
        Some(count)
    };
    let (stdout_bytes, stderr_bytes) = (count(out).unwrap_or(0), count(err).unwrap_or(0));
    nix::unistd::sync();
    let status = i32::from(passed_on(status));
    Ok(FromGuest::Ended { status, stdout_bytes, stderr_bytes })
}

/// Our ends of the command's streams.
struct Ends {
    input: File,
    output: File,
    errors: File,
}

fn pipes(command: &mut Command) -> Result<Ends> {
    let pipe = || std::io::pipe().attempt(Kind::Failed, || "make a pipe".into());
    let ((in_read, in_write), (out_read, out_write), (err_read, err_write)) =
        (pipe()?, pipe()?, pipe()?);
    command.stdin(in_read).stdout(out_write).stderr(err_write);
    Ok(Ends {
        input: File::from(OwnedFd::from(in_write)),
        output: File::from(OwnedFd::from(out_read)),
        errors: File::from(OwnedFd::from(err_read)),
    })
}

/// A terminal for the command alone, which controls its session.
fn own_terminal(command: &mut Command) -> Result<Ends> {
    let attempt = || "make a terminal".to_owned();
    let pty = nix::pty::openpty(None, None).attempt(Kind::Failed, attempt)?;
    let theirs = || pty.slave.try_clone().attempt(Kind::Failed, attempt);
    command.stdin(theirs()?).stdout(theirs()?).stderr(theirs()?);
    // SAFETY: an ioctl is safe between fork and exec. The session is there: its closure came first.
    unsafe {
        command.pre_exec(|| {
            Errno::result(libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0))?;
            Ok(())
        });
    }
    let input = File::from(pty.master);
    let output = input.try_clone().attempt(Kind::Failed, attempt)?;
    // All that it writes comes out of the terminal.
    let errors = File::open("/dev/null").attempt(Kind::Failed, attempt)?;
    Ok(Ends { input, output, errors })
}

/// The command with its folder and environment, in a session of its own so that
/// signals reach all of it.
fn command(spec: &Spec) -> Result<Command> {
    std::env::set_current_dir(&spec.cwd)
        .attempt(Kind::Failed, || format!("enter the folder {}", spec.cwd))?;
    let path = spec.env.get("PATH").cloned().unwrap_or_default();
    let program = find_program(&spec.command[0], &path);
    let mut command = Command::new(program);
    command.arg0(&spec.command[0]).args(&spec.command[1..]).env_clear().envs(&spec.env);
    let (soft, hard) = spec.open_files;
    // SAFETY: setsid and setrlimit are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, soft, hard)?;
            Ok(())
        });
    }
    Ok(command)
}

/// The first executable of that name in `path`, as a shell would find it; the
/// name itself where there is none, so that starting it gives the usual error.
pub(crate) fn find_program(name: &str, path: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    if name.contains('/') {
        return PathBuf::from(name);
    }
    std::env::split_paths(path)
        .map(|dir| dir.join(name))
        .find(|p| p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
        .unwrap_or_else(|| PathBuf::from(name))
}

/// Copies `from` to `to` until its end, in a thread; the channel then tells how
/// many bytes it was, and gives `to` back. What can no longer be delivered is read all the same, so
/// that the writer does not block for ever.
fn relay(mut from: File, mut to: File) -> Receiver<(u64, File)> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut delivered = 0;
        let mut broken = false;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) if broken => {}
                Ok(n) => match to.write_all(&buffer[..n]) {
                    Ok(()) => delivered += n as u64,
                    Err(_) => broken = true,
                },
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // What it was written to goes with the message: whether it may be closed now
        // is for the receiver to say.
        let _ = send.send((delivered, to));
    });
    receive
}

/// What the host says, as it comes.
fn orders(control: File) -> impl Iterator<Item = ToGuest> {
    BufReader::new(control).lines().map_while(Result::ok).filter_map(|line| {
        serde_json::from_str(&line)
            .inspect_err(|error| eprintln!("testbed: the host says '{line}': {error}"))
            .ok()
    })
}

/// Carries out what the host says, of the command if it runs and of the terminal if it has one.
fn obey_one(order: &ToGuest, child: Option<Pid>, terminal: Option<&File>) {
    match (order, child, terminal) {
        (ToGuest::Signal { number }, Some(child), _) => {
            let _ = Signal::try_from(*number).map(|signal| killpg(child, signal));
        }
        (ToGuest::Resize(Size { rows, columns }), _, Some(terminal)) => {
            let size = winsize { ws_row: *rows, ws_col: *columns, ws_xpixel: 0, ws_ypixel: 0 };
            // SAFETY: the kernel reads a winsize, which lives as long as the call.
            unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
        _ => {}
    }
}

/// Reaps whatever ends until the command itself does.
fn reap_until(child: Pid) -> Result<ExitStatus> {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                return Ok(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::new(Kind::Failed, "wait for the command", error)),
        }
    }
}

/// Kills everything that the command left behind and reaps it.
fn end_leftovers() {
    let end = Instant::now() + LEFTOVERS_WITHIN;
    // From the first process, -1 is every process but itself.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while Instant::now() < end {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => std::thread::sleep(POLL),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_counts_what_it_delivered() {
        let (read, write) = std::io::pipe().unwrap();
        let target = tempfile::tempfile().unwrap();
        let counts = relay(File::from(OwnedFd::from(read)), target.try_clone().unwrap());
        let mut write = File::from(OwnedFd::from(write));
        write.write_all(&vec![b'x'; 200_000]).unwrap();
        drop(write);
        assert_eq!(counts.recv().unwrap().0, 200_000);
        assert_eq!(target.metadata().unwrap().len(), 200_000);
    }

    #[test]
    fn a_relay_whose_count_nobody_wants_closes_what_it_wrote_to() {
        let (read, write) = std::io::pipe().unwrap();
        let (mut end, to) = std::io::pipe().unwrap();
        drop(relay(File::from(OwnedFd::from(read)), File::from(OwnedFd::from(to))));
        drop(write);
        assert_eq!(end.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert_eq!(find_program("sh", "/nowhere:/bin"), Path::new("/bin/sh"));
        assert_eq!(find_program("./x", "/bin"), Path::new("./x"));
        assert_eq!(find_program("no-such-program", "/bin"), Path::new("no-such-program"));
    }
}
