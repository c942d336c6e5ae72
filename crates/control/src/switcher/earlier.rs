use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, format_duration};
use metasched_host::process::{Output, ProcessId, Spawn};
use metasched_host::sched_ext::{SchedExt, State, Status};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::graces::{Graces, POLL, SYSRQ_REMEDY};
use crate::holder::is_named_like;

/// A scheduler that was found in force, with what it takes to start it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Earlier {
    /// Its name in the kernel.
    pub(crate) ops: String,
    id: ProcessId,
    command: Vec<String>,
    folder: PathBuf,
}

/// How a scheduler that was found came to be in force again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutBack {
    /// It was started.
    Started,
    /// It could not be stopped, and its process holds it still.
    NeverStopped,
}

impl Earlier {
    /// Finds the process behind the scheduler that is in force.
    pub(crate) fn find(root: &Path, status: &Status) -> Result<Self> {
        let ops = status.ops.clone().unwrap_or_default();
        let attempt = format!("take over from '{ops}'");
        // The kernel calls a scheduler enabled a moment before its process has the link
        // in hand.
        const PATIENCE: Duration = Duration::from_secs(1);
        let end = Instant::now() + PATIENCE;
        let mut found = crate::holder::holder(root, &ops);
        while found.is_none() && Instant::now() < end {
            std::thread::sleep(POLL * 10);
            found = crate::holder::holder(root, &ops);
        }
        let Some(holder) = found else {
            return Err(Error::new(Kind::Busy, attempt, "the process that holds it was not found")
                .remedy("stop it by the means that started it"));
        };
        if let Some(unit) = &holder.unit {
            // Stopped behind its back, systemd would start it again or call it failed;
            // and what we start again would not be the unit's.
            return Err(Error::new(Kind::Busy, attempt, format!("it belongs to '{unit}'"))
                .remedy(format!("stop it first, and start it afterwards: systemctl stop {unit}")));
        }
        Ok(Self { ops, id: holder.id, command: holder.command, folder: holder.folder })
    }

    /// Stops its process, which is not our child, and waits for the default scheduler.
    pub(crate) fn stop(&self, root: &Path, sysfs: &SchedExt, graces: &Graces) -> Result<()> {
        for (signal, grace) in [
            (Signal::SIGINT, graces.interrupt),
            (Signal::SIGTERM, graces.terminate),
            (Signal::SIGKILL, graces.kill),
        ] {
            self.id.signal(signal);
            let end = Instant::now() + grace;
            while Instant::now() < end {
                if !self.id.is_alive(root) && sysfs.status()?.is_default() {
                    return Ok(());
                }
                std::thread::sleep(POLL * 5);
            }
        }
        Err(Error::new(
            Kind::Timeout,
            format!("stop the process {}", self.id.pid),
            format!("the state is still '{}'", sysfs.state()?),
        )
        .remedy(SYSRQ_REMEDY))
    }

    /// Starts it again, to outlive us, and waits until it is in force. Its output goes
    /// to a file in `run_dir`.
    ///
    /// # Errors
    /// `Busy` while another scheduler is in force; `Timeout` where its own process does not end,
    /// or it is not in force in time; `SchedulerExit` if it ends.
    pub(crate) fn start(
        &self,
        root: &Path,
        sysfs: &SchedExt,
        run_dir: &Path,
        graces: &Graces,
    ) -> Result<PutBack> {
        let log = run_dir.join("earlier.log");
        let attempt = || format!("put '{}' back", self.ops);
        let remedy = || format!("start it by hand: {}", self.command.join(" "));
        let Some(before) = self.wait_for_its_place(root, sysfs, graces)? else {
            return Ok(PutBack::NeverStopped);
        };
        let mut child = Spawn::new(self.command.iter().cloned())
            .folder(&self.folder)
            .stdout(Output::Append(log.clone()))
            .stderr(Output::Append(log.clone()))
            .detached()
            .start()
            .map_err(|e| Error::new(e.kind, attempt(), e.cause).remedy(remedy()))?;
        let end = Instant::now() + graces.start;
        loop {
            let status = sysfs.status()?;
            if status.enable_seq != before.enable_seq && self.is_in_force(&status) {
                return Ok(PutBack::Started);
            }
            if let Some(status) = child.poll()? {
                return Err(Error::new(
                    Kind::SchedulerExit,
                    attempt(),
                    format!("it ended ({status}); '{}' has its words", log.display()),
                )
                .remedy(remedy()));
            }
            if Instant::now() >= end {
                // Two of them would be in each other's way when it is tried again.
                child.signal(Signal::SIGKILL);
                let cause = format!("it was not in force within {}", format_duration(graces.start));
                return Err(Error::new(Kind::Timeout, attempt(), cause).remedy(remedy()));
            }
            std::thread::sleep(POLL * 5);
        }
    }

    /// Waits until its process has ended and the default scheduler is in force, which is given;
    /// `None` if it was never stopped.
    ///
    /// A process lives for a moment after its scheduler was taken out, and the kernel may still
    /// be at work on the one that was in force last.
    fn wait_for_its_place(
        &self,
        root: &Path,
        sysfs: &SchedExt,
        graces: &Graces,
    ) -> Result<Option<Status>> {
        let end = Instant::now() + graces.kill;
        loop {
            let status = sysfs.status()?;
            let lives = self.id.is_alive(root);
            if lives && self.is_in_force(&status) {
                return Ok(None);
            }
            if !lives && status.is_default() {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                let attempt = format!("put '{}' back", self.ops);
                let by_hand = format!("start it by hand: {}", self.command.join(" "));
                if status.is_default() {
                    let cause = format!("its process {} has not ended yet", self.id.pid);
                    return Err(Error::new(Kind::Timeout, attempt, cause)
                        .remedy(format!("when it has, {by_hand}")));
                }
                let ops = status.ops.unwrap_or_default();
                let cause = format!("the scheduler '{ops}' is in force (state '{}')", status.state);
                return Err(Error::new(Kind::Busy, attempt, cause)
                    .remedy(format!("stop that, then {by_hand}")));
            }
            std::thread::sleep(POLL * 5);
        }
    }

    /// Whether it is what is in force. A newer version of the same program has another name.
    fn is_in_force(&self, status: &Status) -> bool {
        let ops = status.ops.as_deref().unwrap_or_default();
        status.state == State::Enabled && (ops == self.ops || is_named_like(&self.command, ops))
    }
}
