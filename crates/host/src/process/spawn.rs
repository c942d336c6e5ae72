use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::identity::ProcessId;
use super::priority::run_first;
use super::tail::Tail;
use super::wait::{Watched, wait};
use crate::cgroup::Cgroup;

/// How long the last words of a process that ended may take through the pipe.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long a child that is dropped may take to end after SIGKILL: it takes microseconds, and under
/// load a turn on a CPU.
const DROP_GRACE: Duration = Duration::from_secs(2);
/// How often is looked whether it has.
const DROP_POLL: Duration = Duration::from_millis(1);

/// Where one of the output streams of a child goes.
#[derive(Clone, Debug)]
pub enum Output {
    /// To the same place as ours.
    Inherit,
    /// Nowhere.
    Null,
    /// To a file, which is made anew.
    File(PathBuf),
    /// To a file, at its end.
    Append(PathBuf),
    /// To a file that is open.
    Open(Arc<File>),
    /// Kept in memory, the last so many bytes of it.
    Tail(usize),
    /// To a pipe, which the caller reads: [`Child::take_stderr`].
    Pipe,
}

/// What to start, and how.
#[derive(Clone, Debug)]
pub struct Spawn {
    command: Vec<String>,
    called: Option<String>,
    first: bool,
    folder: Option<PathBuf>,
    env: Vec<(String, String)>,
    cgroup: Option<PathBuf>,
    stdout: Output,
    stderr: Output,
    written_to: bool,
    kept: Vec<Arc<OwnedFd>>,
    detached: bool,
}

/// A running child, in a process group of its own. Dropping it kills the group, and waits for two
/// seconds at most until the child has ended.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    id: ProcessId,
    name: String,
    stdout: Option<Tail>,
    stderr: Option<Tail>,
    status: Option<ExitStatus>,
    detached: bool,
}

/// How a child is asked to stop: each signal with the time that it is given to
/// obey. SIGKILL always comes last, so that stopping cannot fail for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopPlan {
    /// The signals in turn.
    pub steps: Vec<(Signal, Duration)>,
}

impl StopPlan {
    /// Without being asked: SIGKILL at once.
    pub const KILL: Self = Self { steps: Vec::new() };
}

impl Default for StopPlan {
    /// SIGINT, which schedulers take as an orderly end; SIGTERM, because the
    /// background job of a shell ignores SIGINT; SIGKILL.
    fn default() -> Self {
        Self {
            steps: vec![
                (Signal::SIGINT, Duration::from_secs(3)),
                (Signal::SIGTERM, Duration::from_secs(2)),
            ],
        }
    }
}

/// How a child came to its end when it was asked to stop.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its exit status.
    pub status: ExitStatus,
    /// The signal that did it; `None` when it had already ended.
    pub signal: Option<Signal>,
    /// From the first signal to the end.
    pub took: Duration,
}

impl Spawn {
    /// Will start `command`, a program and its arguments, with output discarded.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            called: None,
            first: false,
            folder: None,
            env: Vec::new(),
            cgroup: None,
            stdout: Output::Null,
            stderr: Output::Null,
            written_to: false,
            kept: Vec::new(),
            detached: false,
        }
    }

    /// Called so in lists of processes, whatever the path of its program says.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.called = Some(name.into());
        self
    }

    /// Before all ordinary tasks from its first instruction on, where that is allowed: see
    /// [`run_first`]. What it starts itself does not inherit that.
    pub fn first(mut self) -> Self {
        self.first = true;
        self
    }

    /// In this folder.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// With one more variable in its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// In this cgroup from its first instruction on.
    pub fn cgroup(mut self, cgroup: &Cgroup) -> Self {
        self.cgroup = Some(cgroup.path().to_owned());
        self
    }

    /// With its standard output there.
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// With its standard error there.
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// With a pipe as its standard input, which the caller writes to: [`Child::take_stdin`].
    /// Else it reads nothing.
    pub fn written_to(mut self) -> Self {
        self.written_to = true;
        self
    }

    /// With one more open file, which has the number there that it has here.
    pub fn keep(mut self, file: OwnedFd) -> Self {
        self.kept.push(Arc::new(file));
        self
    }

    /// In a session of its own, to live on when we end, and when [`Child`] is dropped.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Starts it.
    ///
    /// Unless [`Spawn::detached`], the kernel kills it when our process ends in
    /// whatever way. The kernel ties that to the *thread* that forked, so all children
    /// are forked by one thread that lives as long as the process.
    pub fn start(&self) -> Result<Child> {
        let (reply, answer) = channel();
        spawner().send((self.clone(), reply)).ok().and_then(|()| answer.recv().ok()).unwrap_or_else(
            || Err(Error::new(Kind::Failed, self.attempt(), "the thread that forks has ended")),
        )
    }

    fn attempt(&self) -> String {
        format!("start '{}'", self.command.join(" "))
    }

    fn start_here(&self) -> Result<Child> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Error::new(Kind::BadInput, "start a process", "the command is empty"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(if self.written_to { Stdio::piped() } else { Stdio::null() });
        if let Some(name) = &self.called {
            command.arg0(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdout(stdio(&self.stdout)?).stderr(stdio(&self.stderr)?);
        let procs = match &self.cgroup {
            None => None,
            Some(path) => Some(
                OpenOptions::new()
                    .write(true)
                    .open(path.join("cgroup.procs"))
                    .attempt(Kind::Failed, || {
                        format!("{} in the cgroup '{}'", self.attempt(), path.display())
                    })?,
            ),
        };
        before_exec(&mut command, procs, self.kept.clone(), self.detached, self.first);
        let mut inner = command.spawn().map_err(|e| {
            let kind = match e.kind() {
                std::io::ErrorKind::NotFound => Kind::BadInput,
                std::io::ErrorKind::PermissionDenied => Kind::Denied,
                _ => Kind::Failed,
            };
            let missing = e.kind() == std::io::ErrorKind::NotFound;
            Error::new(kind, self.attempt(), e).remedy(if missing {
                format!("see whether '{program}' (and the folder it is to run in) is there")
            } else {
                String::new()
            })
        })?;
        let pid = inner.id().cast_signed();
        // Not yet reaped, so the number is still its own even if it has ended; then
        // only the number is known, and nothing will be sent to it any more.
        let id = ProcessId::of(Path::new("/"), pid).unwrap_or(ProcessId { pid, start_ticks: 0 });
        let stdout = match self.stdout {
            Output::Tail(limit) => inner.stdout.take().map(|pipe| Tail::follow(pipe, limit)),
            _ => None,
        };
        let stderr = match self.stderr {
            Output::Tail(limit) => inner.stderr.take().map(|pipe| Tail::follow(pipe, limit)),
            _ => None,
        };
        Ok(Child {
            id,
            name: program.clone(),
            stdout,
            stderr,
            inner,
            status: None,
            detached: self.detached,
        })
    }
}

impl Child {
    /// Its number.
    pub fn pid(&self) -> i32 {
        self.id.pid
    }

    /// Its number and start time.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// What it reads, where [`Spawn::written_to`] was asked for; the first time only.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.inner.stdin.take()
    }

    /// What it says on standard error, where [`Output::Pipe`] was asked for; the first time only.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.inner.stderr.take()
    }

    /// Its exit status, if it has ended.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self
                .inner
                .try_wait()
                .attempt(Kind::Failed, || format!("wait for '{}'", self.name))?;
        }
        Ok(self.status)
    }

    /// Waits for its end for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let status = self.poll()?;
        if status.is_some() || timeout.is_zero() {
            return Ok(status);
        }
        wait(&[&Watched::new(self.id.pid)?], timeout, &[])?;
        self.poll()
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: Signal) {
        // Reaped means that the number may be somebody else's. An error means that
        // nobody is left in the group, which is what signals are for.
        if self.status.is_none() {
            let _ = killpg(Pid::from_raw(self.id.pid), signal);
        }
    }

    /// Stops it by the plan, with SIGKILL at the end.
    pub fn stop(&mut self, plan: &StopPlan) -> Result<Stopped> {
        let began = Instant::now();
        if let Some(status) = self.poll()? {
            return Ok(Stopped { status, signal: None, took: Duration::ZERO });
        }
        // SIGKILL takes effect as soon as the kernel lets go of the process.
        const KILL_GRACE: Duration = Duration::from_secs(20);
        for (signal, grace) in plan.steps.iter().copied().chain([(Signal::SIGKILL, KILL_GRACE)]) {
            self.signal(signal);
            if let Some(status) = self.wait(grace)? {
                return Ok(Stopped { status, signal: Some(signal), took: began.elapsed() });
            }
        }
        Err(Error::new(
            Kind::Timeout,
            format!("stop '{}' (process {})", self.name, self.id.pid),
            "it survived SIGKILL",
        )
        .remedy(format!("it waits in the kernel: see /proc/{}/stack", self.id.pid)))
    }

    /// The end of its standard output, where [`Output::Tail`] was asked for.
    pub fn stdout_tail(&self) -> String {
        self.stdout.as_ref().map(|tail| tail.text(self.patience())).unwrap_or_default()
    }

    /// The end of its standard error, where [`Output::Tail`] was asked for.
    pub fn stderr_tail(&self) -> String {
        self.stderr.as_ref().map(|tail| tail.text(self.patience())).unwrap_or_default()
    }

    /// Its last lines, for an error message: of standard error, or if it wrote
    /// nothing there, of standard output. The backtrace that many a Rust program
    /// ends with tells a user nothing and is left out.
    pub fn last_lines(&self, lines: usize) -> String {
        let mut text = self.stderr_tail();
        if text.trim().is_empty() {
            text = self.stdout_tail();
        }
        let words = text.split_once("Stack backtrace:").map_or(&*text, |(words, _)| words);
        let all: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// While it runs there is no last word to wait for.
    fn patience(&self) -> Duration {
        if self.status.is_some() { LAST_WORDS } else { Duration::ZERO }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.detached || matches!(self.poll(), Ok(Some(_))) {
            return;
        }
        self.signal(Signal::SIGKILL);
        // One that the kernel does not let go of would have us hang as well. It is left to init,
        // which reaps it after our own end.
        let end = Instant::now() + DROP_GRACE;
        while matches!(self.poll(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(DROP_POLL);
        }
    }
}

type Order = (Spawn, Sender<Result<Child>>);

/// The way to the one thread that forks.
fn spawner() -> Sender<Order> {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    SPAWNER
        .get_or_init(|| {
            let (orders, inbox): (_, Receiver<Order>) = channel();
            std::thread::spawn(move || {
                for (spawn, reply) in inbox {
                    // The caller has gone: then the child goes as well, by its drop.
                    let _ = reply.send(spawn.start_here());
                }
            });
            orders
        })
        .clone()
}

fn stdio(output: &Output) -> Result<Stdio> {
    let open = |path: &Path, options: &mut OpenOptions| -> Result<Stdio> {
        let file: File = options
            .create(true)
            .open(path)
            .attempt(Kind::Failed, || format!("open '{}' for writing", path.display()))?;
        Ok(file.into())
    };
    match output {
        Output::Inherit => Ok(Stdio::inherit()),
        Output::Null => Ok(Stdio::null()),
        Output::Open(file) => {
            let again = || "have a process write to an open file".to_owned();
            Ok(file.try_clone().attempt(Kind::Failed, again)?.into())
        }
        Output::Tail(_) | Output::Pipe => Ok(Stdio::piped()),
        Output::File(path) => open(path, OpenOptions::new().write(true).truncate(true)),
        Output::Append(path) => open(path, OpenOptions::new().append(true)),
    }
}

/// Sets what the child does to itself between fork and exec.
fn before_exec(
    command: &mut Command,
    procs: Option<File>,
    kept: Vec<Arc<OwnedFd>>,
    detached: bool,
    first: bool,
) {
    let parent = nix::unistd::getpid();
    let prepare = move || -> std::io::Result<()> {
        if let Some(procs) = &procs {
            nix::unistd::write(procs, b"0")?;
        }
        for file in &kept {
            fcntl(file.as_ref(), FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        if first {
            // Without the privilege it is slower under load, and nothing else.
            let _ = run_first(1);
        }
        // We may have blocked or ignored signals; the child starts with a clean slate,
        // or it could not be stopped in an orderly way. SIGINT is the one that shells
        // ignore for background jobs.
        nix::sys::signal::SigSet::empty().thread_set_mask()?;
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE] {
            // SAFETY: sets the default action, which runs no code of ours.
            unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) }?;
        }
        if detached {
            nix::unistd::setsid()?;
            return Ok(());
        }
        nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // If the parent died before the line above, no signal will ever come.
        if nix::unistd::getppid() != parent {
            return Err(std::io::Error::from_raw_os_error(nix::libc::ECHILD));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; the
    // closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests;
