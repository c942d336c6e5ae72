//! An external scheduler: a process that holds a scheduler while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, format_duration};
use metasched_host::process::{Child, Output, Spawn};
use metasched_host::sched_ext::{SchedExt, State, Status};
use nix::sys::signal::Signal;

use crate::candidate::Candidate;
use crate::exit::SchedulerExit;
use crate::graces::{Graces, POLL, SYSRQ_REMEDY};
use crate::guard::Guard;
use crate::holder::{holds_struct_ops, is_named_like};

/// How long it may take, after the kernel began to take a scheduler out, until it is known why.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

/// How much of what a scheduler prints is kept: a stall's dump is some tens of KiB,
/// and its last lines are what counts.
const TAIL_BYTES: usize = 32 * 1024;

/// How many of its last lines an error shows.
const LAST_LINES: usize = 8;

/// A running external scheduler.
#[derive(Debug)]
pub(crate) struct External {
    child: Child,
    name: String,
    /// By the kernel's counts: which start it is of all that there were, and of how many changes of
    /// CPUs it knew.
    enable_seq: u64,
    hotplug_seq: u64,
    /// Since when it is out though its process runs.
    out_since: Option<Instant>,
}

impl External {
    /// Starts the process and waits until its scheduler, and no other, is in force.
    pub(crate) fn start(
        candidate: &Candidate,
        root: &Path,
        sysfs: &SchedExt,
        graces: &Graces,
        guard: Option<&Guard>,
    ) -> Result<Self> {
        let before = sysfs.status()?;
        let child = Spawn::new(candidate.command.iter().cloned())
            .stdout(Output::Tail(TAIL_BYTES))
            .stderr(Output::Tail(TAIL_BYTES))
            .start()?;
        if let Some(guard) = guard {
            guard.watch_pid(child.id())?;
        }
        let mut external = Self {
            child,
            name: candidate.name.clone(),
            enable_seq: before.enable_seq,
            hotplug_seq: before.hotplug_seq,
            out_since: None,
        };
        match external.wait_until_in_force(candidate, root, sysfs, graces, &before) {
            Ok(()) => Ok(external),
            Err(error) => {
                // What it said is in the error; what remains is to leave nothing behind.
                if let Err(e) = external.stop(sysfs, graces, guard) {
                    return Err(error.and(&e));
                }
                Err(error)
            }
        }
    }

    fn wait_until_in_force(
        &mut self,
        candidate: &Candidate,
        root: &Path,
        sysfs: &SchedExt,
        graces: &Graces,
        before: &Status,
    ) -> Result<()> {
        let attempt = || format!("start '{}'", candidate.name);
        let end = Instant::now() + graces.start;
        let mut nameless_since = None;
        let told = |child: &Child| match child.last_lines(LAST_LINES) {
            lines if lines.is_empty() => "it said nothing".to_owned(),
            lines => format!("its last words were:\n{lines}"),
        };
        loop {
            if sysfs.state()? == State::Enabled {
                let status = sysfs.status()?;
                let ops = status.ops.clone().unwrap_or_default();
                if status.state == State::Enabled && status.enable_seq != before.enable_seq {
                    if is_named_like(&candidate.command, &ops)
                        || holds_struct_ops(root, self.child.pid())
                    {
                        self.is_in_force(&status);
                        return Ok(());
                    }
                    // The kernel enables a scheduler before its process gets the link.
                    if nameless_since.get_or_insert_with(Instant::now).elapsed() >= graces.link {
                        return Err(Error::new(
                            Kind::Busy,
                            attempt(),
                            format!("another scheduler, '{ops}', was put in force meanwhile"),
                        )
                        .remedy("find out who started it ('metasched status') and stop that"));
                    }
                }
            }
            if let Some(status) = self.child.poll()? {
                return Err(Error::new(
                    Kind::SchedulerExit,
                    attempt(),
                    format!("it ended before it was in force ({status}); {}", told(&self.child)),
                )
                .remedy(format!("try it alone to see more: {}", candidate.command.join(" "))));
            }
            if Instant::now() >= end {
                return Err(Error::new(
                    Kind::Timeout,
                    attempt(),
                    format!(
                        "it was not in force within {} (state '{}'); {}",
                        format_duration(graces.start),
                        sysfs.state()?,
                        told(&self.child)
                    ),
                ));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The kernel says that it is in force.
    fn is_in_force(&mut self, status: &Status) {
        self.out_since = None;
        if status.enable_seq != self.enable_seq {
            (self.enable_seq, self.hotplug_seq) = (status.enable_seq, status.hotplug_seq);
        }
    }

    /// Whether it is out since a CPU went or came, and has the time yet that a start may take. The
    /// kernel takes out who has no callback for that, and asks its process to start it anew.
    fn starts_anew(&mut self, status: &Status, graces: &Graces) -> bool {
        let since = *self.out_since.get_or_insert_with(Instant::now);
        status.hotplug_seq != self.hotplug_seq && since.elapsed() < graces.start
    }

    /// How it left, if it has. A process that starts its scheduler anew has not.
    pub(crate) fn exited(
        &mut self,
        sysfs: &SchedExt,
        graces: &Graces,
    ) -> Result<Option<SchedulerExit>> {
        // Between the kernel taking a scheduler out and its process ending there is
        // some clean-up of its own; its last words say why it was taken out.
        let end = Instant::now() + GOODBYE;
        while self.child.poll()?.is_none() {
            let status = sysfs.status()?;
            if status.state == State::Enabled {
                self.is_in_force(&status);
                return Ok(None);
            }
            if self.starts_anew(&status, graces) {
                return Ok(None);
            }
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(POLL * 5);
        }
        let (kind, reason) = match self.child.poll()? {
            Some(status) => ("process", format!("its process ended ({status})")),
            None => ("detached", "it was taken out though its process runs".to_owned()),
        };
        let words = self.child.last_lines(LAST_LINES);
        Ok(Some(SchedulerExit::new(&self.name, kind, &reason, &words)))
    }

    /// Whether its scheduler is out, where its process ended at `ended` if it has.
    ///
    /// Another one that was put in force since is none of its. But for a moment after its end
    /// that may be its own: it may have started it anew.
    fn has_left(&self, sysfs: &SchedExt, ended: Option<Instant>) -> Result<bool> {
        match sysfs.state()? {
            State::Disabled | State::Absent => Ok(true),
            State::Enabled if ended.is_some_and(|at| at.elapsed() >= GOODBYE) => {
                Ok(sysfs.status()?.enable_seq != self.enable_seq)
            }
            _ => Ok(false),
        }
    }

    /// Stops it: SIGINT, SIGTERM, SIGKILL, each with its grace. Gives the time from
    /// the request until its scheduler was out.
    pub(crate) fn stop(
        &mut self,
        sysfs: &SchedExt,
        graces: &Graces,
        guard: Option<&Guard>,
    ) -> Result<Duration> {
        let began = Instant::now();
        let mut left_after = None;
        let steps = [
            (Signal::SIGINT, graces.interrupt),
            (Signal::SIGTERM, graces.terminate),
            (Signal::SIGKILL, graces.kill),
        ];
        let mut ended = self.child.poll()?.map(|_| began);
        for (signal, grace) in steps {
            if ended.is_none() {
                self.child.signal(signal);
            }
            let end = Instant::now() + grace;
            while ended.is_none() || left_after.is_none() {
                // When the process is gone no harder signal helps: the kernel is at work.
                let now = Instant::now();
                if now >= if ended.is_some() { began + graces.kill } else { end } {
                    break;
                }
                std::thread::sleep(POLL);
                if left_after.is_none() && self.has_left(sysfs, ended)? {
                    left_after = Some(began.elapsed());
                }
                if ended.is_none() {
                    ended = self.child.poll()?.map(|_| Instant::now());
                }
            }
        }
        if let (Some(guard), Some(_)) = (guard, ended) {
            guard.unwatch_pid(self.child.id())?;
        }
        match left_after {
            Some(after) if ended.is_some() => Ok(after),
            _ => Err(Error::new(
                Kind::Timeout,
                format!("stop '{}'", self.name),
                if ended.is_some() {
                    format!("its process has ended, but the state is '{}'", sysfs.state()?)
                } else {
                    format!("its process {} survived SIGKILL", self.child.pid())
                },
            )
            .remedy(SYSRQ_REMEDY)),
        }
    }
}
