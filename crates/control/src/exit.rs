use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_loader::ExitRecord;
use serde::{Deserialize, Serialize};

/// Where the last exit is kept for `metasched status`, in the run folder.
const FILE: &str = "last-exit.json";

/// How a scheduler left the kernel on its own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerExit {
    /// The candidate that left.
    pub scheduler: String,
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// What sort of exit it was: the kernel's kind for our program, `process` for a
    /// scheduler whose process ended, `detached` for one that is no longer in force
    /// though its process runs.
    pub kind: String,
    /// Why, in one line.
    pub reason: String,
    /// What else is known: the kernel's message, or the process's last lines.
    pub message: String,
    /// The kernel's dump, where there is one.
    pub dump: String,
    /// Whether an operator took it out (SysRq-S), which is not to be fought.
    pub by_operator: bool,
}

impl SchedulerExit {
    pub(crate) fn new(scheduler: &str, kind: &str, reason: &str, message: &str) -> Self {
        let by_operator = [kind, reason, message]
            .iter()
            .any(|text| text.to_lowercase().replace(['-', '_'], "").contains("sysrq"));
        Self {
            scheduler: scheduler.to_owned(),
            at_unix_s: unix_now_s(),
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            dump: String::new(),
            by_operator,
        }
    }

    /// That of our own program, as the kernel recorded it.
    pub(crate) fn of_program(policy: &str, exit: ExitRecord) -> Self {
        Self {
            by_operator: exit.was_sysrq(),
            dump: exit.dump,
            ..Self::new(policy, exit.kind_name, &exit.reason, &exit.message)
        }
    }

    /// The failure that it is for a command that wanted the scheduler to stay.
    pub fn error(&self) -> Error {
        let message = self.message.trim();
        let cause = if message.is_empty() {
            format!("it left the kernel: {}", self.reason)
        } else {
            format!("it left the kernel: {}: {message}", self.reason)
        };
        Error::new(Kind::SchedulerExit, format!("keep '{}' in force", self.scheduler), cause)
            .remedy(if self.by_operator {
                "an operator took it out with SysRq-S; start it again when that is wanted"
            } else {
                "the default scheduler is in force; 'dmesg' and 'metasched status' tell more"
            })
    }

    /// Keeps the record in the run folder.
    pub fn save(&self, run_dir: &Path) -> Result<()> {
        let path = run_dir.join(FILE);
        let text = serde_json::to_string_pretty(self)
            .attempt(Kind::Failed, || "write an exit record as JSON".to_owned())?;
        std::fs::write(&path, text).attempt(Kind::Failed, || format!("write '{}'", path.display()))
    }

    /// The record that was kept last since boot, if there is one.
    pub fn last(run_dir: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(run_dir.join(FILE)).ok()?).ok()
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sysrq_is_told_from_a_fault() {
        let operator = SchedulerExit::new("a", "process", "it ended", "EXIT: disabled by sysrq-S");
        assert!(operator.by_operator);
        assert!(operator.error().remedy.contains("SysRq-S"));
        let kernel = SchedulerExit::new("a", "SCX_EXIT_SYSRQ", "disabled by operator", "");
        assert!(kernel.by_operator);
        let stall = SchedulerExit::new("a", "SCX_EXIT_ERROR_STALL", "runnable task stall", "x[7]");
        assert!(!stall.by_operator);
        assert_eq!(stall.error().kind, Kind::SchedulerExit);
    }

    #[test]
    fn a_record_is_read_as_it_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SchedulerExit::last(folder.path()), None);
        let exit = SchedulerExit::new("a", "process", "it ended", "last words");
        exit.save(folder.path()).unwrap();
        assert_eq!(SchedulerExit::last(folder.path()), Some(exit));
    }
}
