//! A guest that runs, from QEMU's start to its end.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ChildStderr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt, format_duration};
use metasched_host::process::{Child, Output, Spawn, StopPlan, allowed_cpus};
use nix::libc;
use nix::sys::signal::Signal;

use crate::console::Tail;
use crate::options::VmOptions;
use crate::pin::pin;
use crate::qemu::{self, Descriptors, GuestMachine, QEMU};
use crate::spec::{FromGuest, Size, ToGuest};
use crate::terminal::{self, Raw};

/// Booting takes 2 to 10 s; on a machine that is busy with other guests, more.
const BOOT_WITHIN: Duration = Duration::from_secs(180);
/// How long an interrupted command may take to end by itself: `metasched` puts the
/// scheduler back and ends what it measures.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(20);
/// How long the last bytes of output may take once the guest has sent them.
const OUTPUT_WITHIN: Duration = Duration::from_secs(30);
/// How long QEMU may take to end once it has closed the control port.
const QEMU_ENDS_WITHIN: Duration = Duration::from_secs(5);
/// How often signals and deadlines are looked at.
const POLL: Duration = Duration::from_millis(20);
const CHUNK_BYTES: usize = 64 * 1024;
/// A shell's exit status of a program that wrote to a closed pipe.
const STATUS_SIGPIPE: i32 = 128 + libc::SIGPIPE;

/// How a guest's command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The command's exit status; 128 and the signal's number where it was killed.
    pub status: i32,
    /// From the start of QEMU to the start of the command.
    pub boot: Duration,
    /// Why the command could not be started; its status is then 126 or 127, as a
    /// shell has it.
    pub not_started: Option<String>,
}

/// Where the command's streams come from and go to.
pub struct Streams {
    /// Its standard input; nothing where it is `None`.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Its standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Its standard error.
    pub stderr: Box<dyn Write + Send>,
}

impl Streams {
    /// Ours.
    pub fn inherit() -> Self {
        let input = may_read_stdin().then(|| Box::new(std::io::stdin()) as Box<dyn Read + Send>);
        Self {
            stdin: input,
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        }
    }
}

impl Streams {
    /// Nothing to read, and what is written is thrown away.
    pub fn nowhere() -> Self {
        Self { stdin: None, stdout: Box::new(std::io::sink()), stderr: Box::new(std::io::sink()) }
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("stdin", &self.stdin.is_some()).finish_non_exhaustive()
    }
}

/// A process in the background that reads from the terminal is stopped.
fn may_read_stdin() -> bool {
    match nix::unistd::tcgetpgrp(std::io::stdin()) {
        Ok(foreground) => foreground == nix::unistd::getpgrp(),
        Err(_) => true,
    }
}

/// What the threads tell the one that waits.
enum Event {
    /// The guest says something.
    Guest(FromGuest),
    /// The control port is closed: QEMU ended.
    Gone,
    /// The command's output cannot be passed on.
    Sink(std::io::Error),
}

/// How many bytes of a stream have been passed on.
type Count = Arc<AtomicU64>;

/// A guest that runs. It ends with this value, whatever it is doing.
pub(crate) struct Session {
    qemu: Child,
    started: Instant,
    timeout: Option<Duration>,
    pin: bool,
    terminal: bool,
    control: UnixStream,
    events: Receiver<Event>,
    tail: Arc<Mutex<Tail>>,
    complaints: Option<JoinHandle<String>>,
    console: Option<JoinHandle<()>>,
    stdin: UnixStream,
    stdout: UnixStream,
    stderr: UnixStream,
    send: Sender<Event>,
    boot: Option<Duration>,
    interrupted: Option<Instant>,
}

impl Session {
    /// Starts QEMU and everything that listens to it.
    pub(crate) fn start(
        machine: &GuestMachine,
        options: &VmOptions,
        initramfs: &[u8],
    ) -> Result<Self> {
        let console_file = match &options.console {
            Some(path) => Some(
                File::create(path)
                    .attempt(Kind::BadInput, || format!("write {}", path.display()))?,
            ),
            None => None,
        };
        let attempt = || "write the guest's first file system".to_owned();
        // Without a name, so that nothing of it stays however we end.
        let mut first = tempfile::tempfile().attempt(Kind::Failed, attempt)?;
        first.write_all(initramfs).attempt(Kind::Failed, attempt)?;
        let pair = || {
            UnixStream::pair().attempt(Kind::Failed, || "make a socket for the guest".to_owned())
        };
        let (console, console_theirs) = pair()?;
        let (control, control_theirs) = pair()?;
        let (stdin, stdin_theirs) = pair()?;
        let (stdout, stdout_theirs) = pair()?;
        let (stderr, stderr_theirs) = pair()?;
        let fds = Descriptors {
            initramfs: first.as_raw_fd(),
            console: console_theirs.as_raw_fd(),
            control: control_theirs.as_raw_fd(),
            stdin: stdin_theirs.as_raw_fd(),
            stdout: stdout_theirs.as_raw_fd(),
            stderr: stderr_theirs.as_raw_fd(),
        };
        let sockets = [console_theirs, control_theirs, stdin_theirs, stdout_theirs, stderr_theirs];
        let theirs = sockets.into_iter().map(OwnedFd::from).chain([OwnedFd::from(first)]);
        let started = Instant::now();
        let mut qemu = spawn(machine, &fds, theirs)?;

        let tail = Arc::new(Mutex::new(Tail::default()));
        let (send, events) = channel();
        let complaints = watch_complaints(qemu.take_stderr(), send.clone());
        let console = watch_console(console, Arc::clone(&tail), console_file, options.show_console);
        let session = Self {
            qemu,
            started,
            timeout: options.timeout,
            pin: options.pin,
            terminal: options.terminal,
            control: control.try_clone().attempt(Kind::Failed, || "reach the guest".into())?,
            events,
            tail,
            complaints: Some(complaints),
            console: Some(console),
            stdin,
            stdout,
            stderr,
            send: send.clone(),
            boot: None,
            interrupted: None,
        };
        listen(control, send);
        Ok(session)
    }

    /// Waits until the guest is ready to start the command.
    pub(crate) fn boot(&mut self, interrupt: &Interrupt) -> Result<()> {
        loop {
            match self.next_event(interrupt)? {
                Some(Event::Guest(FromGuest::Ready)) => break,
                Some(Event::Guest(FromGuest::Failed { why, .. })) => {
                    return Err(self.guest_error("set the guest up", &why));
                }
                _ => {}
            }
        }
        self.boot = Some(self.started.elapsed());
        // All its CPUs are there by now.
        if self.pin {
            pin(self.qemu.pid().unsigned_abs(), &allowed_cpus()?)?;
        }
        Ok(())
    }

    /// Whether its kernel met a breakpoint where there is none. Under emulation in
    /// parallel a CPU may run the old code of a place that the kernel has just patched.
    pub(crate) fn met_a_stale_breakpoint(&mut self) -> bool {
        self.with_tail(|tail| tail.shows("Oops: int3"))
    }

    /// Starts the command, waits for its end, and ends QEMU.
    pub(crate) fn run(mut self, streams: Streams, interrupt: &Interrupt) -> Result<Outcome> {
        let attempt = || "reach the guest".to_owned();
        let (stdout, stderr) = (self.stdout.try_clone(), self.stderr.try_clone());
        let stdout = stdout.attempt(Kind::Failed, attempt)?;
        let stderr = stderr.attempt(Kind::Failed, attempt)?;
        let passed = [
            pass_on(stdout, streams.stdout, self.send.clone()),
            pass_on(stderr, streams.stderr, self.send.clone()),
        ];
        let mut size = None;
        self.resize(&mut size)?;
        // Until this ends, however it does.
        let _raw = self.terminal.then(Raw::enter).transpose()?;
        if self.say(&ToGuest::Start).is_err() {
            return Err(self.died());
        }
        self.feed_stdin(streams.stdin);
        loop {
            self.resize(&mut size)?;
            match self.next_event(interrupt)? {
                Some(Event::Guest(FromGuest::Ended { status, stdout_bytes, stderr_bytes })) => {
                    return self.ended(status, stdout_bytes + stderr_bytes, &passed);
                }
                Some(Event::Guest(FromGuest::Failed { why, status: Some(status) })) => {
                    return Ok(Outcome { not_started: Some(why), ..self.outcome(status) });
                }
                Some(Event::Sink(error)) => return self.sink_failed(error),
                _ => {}
            }
        }
    }

    /// Tells the guest of the size that the user's terminal has now, if that is not `told`.
    fn resize(&mut self, told: &mut Option<Size>) -> Result<()> {
        match self.terminal.then(terminal::size).flatten() {
            Some(now) if *told != Some(now) => {
                *told = Some(now);
                self.say(&ToGuest::Resize(now)).map_err(|_| self.died())
            }
            _ => Ok(()),
        }
    }

    /// What happens next; nothing for a while is no event. It is an error if the guest dies or
    /// cannot be set up, its time is over, or it is to end.
    fn next_event(&mut self, interrupt: &Interrupt) -> Result<Option<Event>> {
        let event = match self.events.recv_timeout(POLL) {
            Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
            Ok(Event::Guest(FromGuest::Failed { why, status: None })) => {
                return Err(self.guest_error("set the guest up", &why));
            }
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
        };
        // What it says last counts, also when its time has just run out.
        if event.is_none() {
            self.check_time()?;
            self.check_interrupt(interrupt)?;
        }
        Ok(event)
    }

    fn outcome(&self, status: i32) -> Outcome {
        Outcome { status, boot: self.boot.unwrap_or_default(), not_started: None }
    }

    /// The command's output cannot be passed on.
    fn sink_failed(&self, error: std::io::Error) -> Result<Outcome> {
        match error.kind() {
            ErrorKind::BrokenPipe => Ok(self.outcome(STATUS_SIGPIPE)),
            _ => Err(Error::new(Kind::Failed, "pass the guest's output on", error)),
        }
    }

    /// Begins to send what is to be the command's standard input.
    fn feed_stdin(&mut self, input: Option<Box<dyn Read + Send>>) {
        let Some(mut input) = input else {
            let _ = self.stdin.shutdown(Shutdown::Write);
            return;
        };
        let Ok(mut port) = self.stdin.try_clone() else { return };
        // Never joined: a read from a terminal ends only when somebody types.
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut input, &mut port);
            let _ = port.shutdown(Shutdown::Write);
        });
    }

    /// The command ended: waits until all that it wrote, so many bytes, has been passed on.
    fn ended(&mut self, status: i32, bytes: u64, passed: &[Count]) -> Result<Outcome> {
        let end = Instant::now() + OUTPUT_WITHIN;
        loop {
            let passed: u64 = passed.iter().map(|count| count.load(Ordering::SeqCst)).sum();
            if passed >= bytes {
                return Ok(self.outcome(status));
            }
            if let Ok(Event::Sink(error)) = self.events.recv_timeout(Duration::from_millis(1)) {
                return self.sink_failed(error);
            }
            if Instant::now() > end {
                let why = format!("{} bytes of its output did not arrive", bytes - passed);
                return Err(self.guest_error("end the guest", &why));
            }
        }
    }

    /// QEMU ended before the command did.
    fn died(&mut self) -> Error {
        let status = match self.qemu.wait(QEMU_ENDS_WITHIN) {
            Ok(Some(status)) => status.to_string(),
            _ => "still running".to_owned(),
        };
        let panic = self.with_tail(|tail| tail.cause_of_death().map(str::to_owned));
        match panic {
            Some(panic) => self.guest_error("go on with the guest", &format!("it died: {panic}")),
            None if self.boot.is_none() => {
                self.guest_error("boot the guest", &format!("QEMU ended ({status})"))
            }
            None => self.guest_error(
                "go on with the guest",
                &format!("it ended before its command did (QEMU: {status})"),
            ),
        }
    }

    /// Reads the console's last lines once everything on it has been read.
    fn with_tail<T>(&mut self, read: impl FnOnce(&Tail) -> T) -> T {
        self.end_qemu();
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
        read(&self.tail.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// An error with all that is known: QEMU's own complaints and the console's last lines.
    fn guest_error(&mut self, attempt: &str, cause: &str) -> Error {
        self.error(Kind::Guest, attempt, cause)
    }

    fn error(&mut self, kind: Kind, attempt: &str, cause: &str) -> Error {
        let quote = self.with_tail(Tail::quote);
        let complaints = self.complaints.take().and_then(|c| c.join().ok()).unwrap_or_default();
        let mut text = cause.to_owned();
        for line in complaints.lines().filter(|l| !is_noise(l)) {
            text.push_str(&format!("\n  {line}"));
        }
        text.push('\n');
        text.push_str(&quote);
        Error::new(kind, attempt, text)
    }

    fn check_time(&mut self) -> Result<()> {
        let elapsed = self.started.elapsed();
        if let Some(timeout) = self.timeout.filter(|t| elapsed > *t) {
            let cause = format!("it took longer than {}", format_duration(timeout));
            let what =
                if self.boot.is_some() { "finish the guest's command" } else { "boot the guest" };
            return Err(self.error(Kind::Timeout, what, &cause));
        }
        if self.boot.is_none() && elapsed > BOOT_WITHIN {
            let cause =
                format!("its command did not start within {}", format_duration(BOOT_WITHIN));
            return Err(self.error(Kind::Timeout, "boot the guest", &cause));
        }
        Ok(())
    }

    fn say(&mut self, message: &ToGuest) -> Result<()> {
        let attempt = || "speak to the guest".to_owned();
        let mut line = serde_json::to_vec(message).attempt(Kind::Failed, attempt)?;
        line.push(b'\n');
        self.control.write_all(&line).attempt(Kind::Guest, attempt)
    }

    /// The first signal is handed on to the command, which may then end as it should;
    /// if it does not, the guest is ended. Before we have it started there is none.
    fn check_interrupt(&mut self, interrupt: &Interrupt) -> Result<()> {
        if !interrupt.is_raised() {
            return Ok(());
        }
        let stopped = || Error::new(Kind::Interrupted, "finish the guest's command", "interrupted");
        match self.interrupted {
            _ if self.boot.is_none() => Err(stopped()),
            None => {
                self.interrupted = Some(Instant::now());
                self.say(&ToGuest::Signal { number: Signal::SIGINT as i32 }).map_err(|_| stopped())
            }
            Some(since) if since.elapsed() > INTERRUPTED_WITHIN => Err(stopped()),
            Some(_) => Ok(()),
        }
    }

    fn end_qemu(&mut self) {
        let _ = self.qemu.stop(&StopPlan::KILL);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_qemu();
        // It writes the console's file, which should be whole when we return.
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
    }
}

/// Emulation lacks features of every named processor, and QEMU says so each time.
fn is_noise(line: &str) -> bool {
    line.contains("TCG doesn't support requested feature") || line.trim().is_empty()
}

/// Starts QEMU, in a process group of its own, so that Ctrl-C at the terminal
/// reaches us alone, and bound to die with us.
fn spawn(
    machine: &GuestMachine,
    fds: &Descriptors,
    theirs: impl Iterator<Item = OwnedFd>,
) -> Result<Child> {
    let command = [QEMU.to_owned()].into_iter().chain(qemu::arguments(machine, fds));
    let spawn = theirs.fold(Spawn::new(command).stderr(Output::Pipe), Spawn::keep);
    spawn.start().map_err(|error| {
        let missing = error.kind == Kind::BadInput;
        let error = Error { kind: Kind::Unsupported, attempt: format!("start {QEMU}"), ..error };
        if missing {
            return error.remedy("install it with `make deps` (the package qemu-system-x86)");
        }
        error
    })
}

/// Keeps what QEMU says. After an internal error of KVM it would wait for somebody
/// to look at the machine; for us it has ended.
fn watch_complaints(pipe: Option<ChildStderr>, events: Sender<Event>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
            let Ok(line) = line else { break };
            if line.contains("KVM internal error") {
                let _ = events.send(Event::Gone);
            }
            text.push_str(&line);
            text.push('\n');
        }
        text
    })
}

fn watch_console(
    mut port: UnixStream,
    tail: Arc<Mutex<Tail>>,
    mut file: Option<File>,
    show: bool,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(n @ 1..) = port.read(&mut buffer) {
            tail.lock().unwrap_or_else(|e| e.into_inner()).push(&buffer[..n]);
            if let Some(file) = &mut file {
                let _ = file.write_all(&buffer[..n]);
            }
            if show {
                let _ = std::io::stderr().write_all(&buffer[..n]);
            }
        }
    })
}

fn listen(control: UnixStream, events: Sender<Event>) {
    std::thread::spawn(move || {
        for line in BufReader::new(control).lines() {
            let Ok(line) = line else { break };
            // A line that is no message cannot come from our side of the port.
            if let Ok(message) = serde_json::from_str(&line) {
                let _ = events.send(Event::Guest(message));
            }
        }
        let _ = events.send(Event::Gone);
    });
}

/// Copies a stream of the command to where it is to go, as it comes.
fn pass_on(mut port: UnixStream, mut sink: Box<dyn Write + Send>, events: Sender<Event>) -> Count {
    let count = Count::default();
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(n @ 1..) = port.read(&mut buffer) {
            if let Err(error) = sink.write_all(&buffer[..n]).and_then(|()| sink.flush()) {
                let _ = events.send(Event::Sink(error));
                return;
            }
            counted.fetch_add(n as u64, Ordering::SeqCst);
        }
    });
    count
}
