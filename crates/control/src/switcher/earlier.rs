use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::{Output, ProcessId, Spawn};
use metasched_host::sched_ext::{SchedExt, State, Status};
use serde::{Deserialize, Serialize};

use crate::external::{Graces, POLL, stop_stranger};

/// A scheduler that was found in force, with what it takes to start it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Earlier {
    /// Its name in the kernel.
    pub(crate) ops: String,
    id: ProcessId,
    command: Vec<String>,
    folder: PathBuf,
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

    /// Stops it.
    pub(crate) fn stop(&self, root: &Path, sysfs: &SchedExt, graces: &Graces) -> Result<()> {
        stop_stranger(self.id, root, sysfs, graces)
    }

    /// Starts it again, to outlive us, and waits until it is in force. Its output goes
    /// to a file in `run_dir`.
    pub(crate) fn start(&self, root: &Path, sysfs: &SchedExt, run_dir: &Path) -> Result<()> {
        const TIMEOUT: Duration = Duration::from_secs(120);
        if self.id.is_alive(root) {
            // It was never stopped.
            return Ok(());
        }
        let log = run_dir.join("earlier.log");
        let attempt = || format!("put '{}' back", self.ops);
        let remedy = || format!("start it by hand: {}", self.command.join(" "));
        let mut child = Spawn::new(self.command.iter().cloned())
            .folder(&self.folder)
            .stdout(Output::Append(log.clone()))
            .stderr(Output::Append(log.clone()))
            .detached()
            .start()
            .map_err(|e| Error::new(e.kind, attempt(), e.cause).remedy(remedy()))?;
        let end = Instant::now() + TIMEOUT;
        loop {
            if sysfs.state()? == State::Enabled {
                return Ok(());
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
                return Err("it was not in force in time")
                    .attempt(Kind::Timeout, attempt)
                    .map_err(|e| e.remedy(remedy()));
            }
            std::thread::sleep(POLL * 5);
        }
    }
}
