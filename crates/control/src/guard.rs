//! What puts things right when metasched itself is killed.
//!
//! A small process of its own that reads registrations from a pipe. When the pipe
//! ends without a dismissal, metasched has died: the guard kills what was
//! registered, waits for the default scheduler, and starts the scheduler again that
//! ran before metasched came. A kill -9 at any moment thus leaves the default or the
//! earlier scheduler in force, and no process behind.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, ProcessId, StopPlan};
use metasched_host::sched_ext::SchedExt;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigHandler, Signal, signal};
use serde::{Deserialize, Serialize};

use crate::graces::Graces;
use crate::own::{own_program, spawn_own};
use crate::switcher::Earlier;

/// What the guard says on its standard error once it is on its post.
const READY: &str = "on guard";

/// How long the kernel may take to put the default scheduler in force after the
/// process that held another one was killed.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(20);

/// How long the guard may take to go when it is dismissed.
const DISMISSAL_PATIENCE: Duration = Duration::from_secs(1);

/// One line of the pipe.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
enum Message {
    Begin { root: PathBuf, run_dir: PathBuf },
    WatchCgroup { path: PathBuf },
    UnwatchCgroup { path: PathBuf },
    WatchPid { id: ProcessId },
    UnwatchPid { id: ProcessId },
    Earlier { earlier: Option<Earlier> },
    Dismiss,
}

/// Our side of the guard. Clones speak to the same guard.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Mutex<Post>>);

#[derive(Debug)]
struct Post {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts a guard: the process `command`, which must call [`guard_main`].
    ///
    /// `lock` is handed to it, so that the lock stays held until it has done its work;
    /// as nothing is ever printed by the guard, its standard output carries that.
    pub(crate) fn start(words: &[String], root: &Path, run_dir: &Path, lock: File) -> Result<Self> {
        let attempt = || format!("start the guard '{}'", words.join(" "));
        // What it does is little, and under load it would be waited for at each start.
        let spawn = spawn_own(words)
            .first()
            .written_to()
            .stdout(Output::Open(Arc::new(lock)))
            .stderr(Output::Pipe)
            .detached();
        let mut child = spawn.start().map_err(|error| Error { attempt: attempt(), ..error })?;
        let pipe = child.take_stdin();
        if let Some(pipe) = &pipe {
            // It reads all along, so a pipe that is full is one of a guard that is stopped.
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).attempt(Kind::Failed, attempt)?;
        }
        let mut said = String::new();
        if let Some(stderr) = child.take_stderr() {
            BufReader::new(stderr).read_line(&mut said).attempt(Kind::Failed, attempt)?;
        }
        if said.trim() != READY {
            let _ = child.stop(&StopPlan::KILL);
            return Err(Error::new(
                Kind::Failed,
                attempt(),
                format!("it said '{}' instead of '{READY}'", said.trim()),
            )
            .remedy("see whether the metasched binary beside this one is of the same build"));
        }
        let guard = Guard(Arc::new(Mutex::new(Post { child, pipe })));
        guard.say(&Message::Begin { root: root.to_owned(), run_dir: run_dir.to_owned() })?;
        Ok(guard)
    }

    /// The command that starts a guard.
    pub(crate) fn default_command() -> Result<Vec<String>> {
        Ok(vec![own_program()?.display().to_string(), "guard".to_owned()])
    }

    /// Registers a cgroup, by its folder: its processes are killed and it is removed.
    pub fn watch_cgroup(&self, path: &Path) -> Result<()> {
        self.say(&Message::WatchCgroup { path: path.to_owned() })
    }

    /// Takes a cgroup's registration back.
    pub fn unwatch_cgroup(&self, path: &Path) -> Result<()> {
        self.say(&Message::UnwatchCgroup { path: path.to_owned() })
    }

    /// Registers a process: it and the group that it leads are killed.
    pub fn watch_pid(&self, id: ProcessId) -> Result<()> {
        self.say(&Message::WatchPid { id })
    }

    /// Takes a process's registration back.
    pub fn unwatch_pid(&self, id: ProcessId) -> Result<()> {
        self.say(&Message::UnwatchPid { id })
    }

    /// Says which scheduler is to be started again; `None` when that has been done.
    pub(crate) fn set_earlier(&self, earlier: Option<Earlier>) -> Result<()> {
        self.say(&Message::Earlier { earlier })
    }

    /// Sends the guard away: all has been put right already.
    pub fn dismiss(&self) -> Result<()> {
        let said = self.say(&Message::Dismiss);
        let mut post = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        post.pipe = None;
        // It has nothing left to do. One that is stopped would be waited for for ever.
        if post.child.wait(DISMISSAL_PATIENCE)?.is_none() {
            post.child.stop(&StopPlan::KILL)?;
        }
        said
    }

    fn say(&self, message: &Message) -> Result<()> {
        let mut line = serde_json::to_string(message)
            .attempt(Kind::Failed, || "write a message to the guard".to_owned())?;
        line.push('\n');
        let mut post = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut post.pipe {
            Some(pipe) => pipe.write_all(line.as_bytes()).map_err(|e| {
                let remedy = match e.kind() {
                    ErrorKind::WouldBlock => "it is stopped: have it go on with kill -CONT",
                    _ => "it was killed; without it a crash could leave processes behind",
                };
                Error::new(Kind::Failed, "speak to the guard", e).remedy(remedy)
            }),
            None => Ok(()),
        }
    }
}

/// What was registered.
#[derive(Debug, Default)]
struct Watch {
    root: PathBuf,
    run_dir: PathBuf,
    cgroups: BTreeSet<PathBuf>,
    pids: Vec<ProcessId>,
    earlier: Option<Earlier>,
}

impl Watch {
    /// Takes one message in; true when it is the dismissal.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Begin { root, run_dir } => (self.root, self.run_dir) = (root, run_dir),
            Message::WatchCgroup { path } => {
                self.cgroups.insert(path);
            }
            Message::UnwatchCgroup { path } => {
                self.cgroups.remove(&path);
            }
            Message::WatchPid { id } => self.pids.push(id),
            Message::UnwatchPid { id } => self.pids.retain(|watched| *watched != id),
            Message::Earlier { earlier } => self.earlier = earlier,
            Message::Dismiss => return true,
        }
        false
    }

    /// Puts things right. Whatever fails is logged and does not stop the rest.
    fn put_right(&self) {
        let mut log = Log(self.run_dir.join("guard.log"));
        log.say("metasched ended without a farewell");
        for id in &self.pids {
            if id.signal_group(Signal::SIGKILL) {
                log.say(&format!("killed process {}", id.pid));
            }
        }
        // Inner ones first, so that the outer ones are empty when their turn comes.
        for path in self.cgroups.iter().rev().filter(|path| path.exists()) {
            let done = Cgroup::open(path).and_then(|cgroup| {
                cgroup.kill()?;
                cgroup.remove()
            });
            match done {
                Ok(()) => log.say(&format!("killed and removed {}", path.display())),
                Err(e) => log.say(&e.to_string()),
            }
        }
        let sysfs = SchedExt::at(&self.root);
        let settled = sysfs.wait(
            "see the default scheduler in force",
            DEFAULT_PATIENCE,
            Duration::from_millis(20),
            |status| status.is_default(),
        );
        match (settled, &self.earlier) {
            (Err(e), _) => log.say(&e.to_string()),
            (Ok(_), None) => log.say("the default scheduler is in force"),
            (Ok(_), Some(earlier)) => {
                match earlier.start(&self.root, &sysfs, &self.run_dir, &Graces::default()) {
                    Ok(_) => log.say(&format!("'{}' is in force again", earlier.ops)),
                    Err(e) => log.say(&e.to_string()),
                }
            }
        }
    }
}

/// The life of the guard process: `metasched guard`, which nobody starts by hand.
pub fn guard_main() -> Result<()> {
    for ignored in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { signal(ignored, SigHandler::SigIgn) }
            .attempt(Kind::Failed, || format!("ignore {ignored}"))?;
    }
    // Whoever started us reads this one line and then no more, so nothing else may be
    // written there.
    let _ = writeln!(std::io::stderr(), "{READY}");
    let mut watch = Watch::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        // A line that was cut off by the death of its writer is one that never was.
        if let Ok(message) = serde_json::from_str(&line)
            && watch.take(message)
        {
            return Ok(());
        }
    }
    watch.put_right();
    Ok(())
}

/// The guard has no one to speak to; it keeps a log.
struct Log(PathBuf);

impl Log {
    fn say(&mut self, line: &str) {
        let _ = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0)
            .and_then(|mut file| writeln!(file, "{} {line}", crate::exit::unix_now_s()));
    }
}

#[cfg(test)]
mod tests;
