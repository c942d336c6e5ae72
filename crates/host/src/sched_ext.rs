//! What `/sys/kernel/sched_ext` says: the only truth about which scheduler runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use serde::Serialize;

/// Reader of the sched_ext folder of one system.
#[derive(Clone, Debug)]
pub struct SchedExt {
    folder: PathBuf,
}

/// How far the scheduler of the root is enabled, as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The kernel has no sched_ext.
    Absent,
    /// Nothing is loaded: the default scheduler is in force.
    Disabled,
    /// A scheduler is being put in force.
    Enabling,
    /// A scheduler is in force.
    Enabled,
    /// A scheduler is being taken out.
    Disabling,
    /// A word that this version does not know.
    Other(String),
}

impl State {
    fn parse(word: &str) -> Self {
        match word {
            "disabled" => State::Disabled,
            "enabling" => State::Enabling,
            "enabled" => State::Enabled,
            "disabling" => State::Disabling,
            other => State::Other(other.to_owned()),
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Absent => "absent",
            State::Disabled => "disabled",
            State::Enabling => "enabling",
            State::Enabled => "enabled",
            State::Disabling => "disabling",
            State::Other(word) => word,
        })
    }
}

/// Everything that sysfs says about sched_ext at one moment.
///
/// The files are read one after the other, so a change that falls in between
/// shows in some of them only. `enable_seq` is read first and last, and the
/// reading repeated when it moved, so that `ops` belongs to `enable_seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// How far the scheduler of the root is enabled.
    pub state: State,
    /// Its name, as it calls itself; absent when none is loaded.
    pub ops: Option<String>,
    /// How many schedulers were ever enabled since boot.
    pub enable_seq: u64,
    /// How many tasks a scheduler refused to take.
    pub nr_rejected: u64,
    /// Whether all ordinary tasks are under the scheduler, not only those that ask.
    pub switch_all: bool,
    /// How many times a CPU went on or off line.
    pub hotplug_seq: u64,
    /// The kernel's own counters of what went wrong or was unusual (`SCX_EV_*`).
    pub events: BTreeMap<String, i64>,
}

impl Status {
    /// Whether nothing is in force but the default scheduler.
    pub fn is_default(&self) -> bool {
        matches!(self.state, State::Absent | State::Disabled)
    }
}

impl SchedExt {
    /// The reader for the system whose root directory is `root` (`/`, or a test's own tree).
    pub fn at(root: &Path) -> Self {
        Self { folder: root.join("sys/kernel/sched_ext") }
    }

    /// The folder that is read.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads everything.
    pub fn status(&self) -> Result<Status> {
        // Each pass reads a dozen small files; a change takes milliseconds. So three
        // passes that all met a change mean a storm of them, and the last is as good
        // as any.
        const PASSES: u32 = 3;
        let mut status = self.read_once()?;
        for _ in 1..PASSES {
            if self.number("enable_seq")? == status.enable_seq {
                break;
            }
            status = self.read_once()?;
        }
        Ok(status)
    }

    fn read_once(&self) -> Result<Status> {
        let enable_seq = self.number("enable_seq")?;
        Ok(Status {
            state: self.state()?,
            ops: self.text("root/ops")?.filter(|name| !name.is_empty()),
            enable_seq,
            nr_rejected: self.number("nr_rejected")?,
            switch_all: self.number("switch_all")? != 0,
            hotplug_seq: self.number("hotplug_seq")?,
            events: self.events()?,
        })
    }

    /// Reads the state alone: one file, for loops that wait.
    pub fn state(&self) -> Result<State> {
        Ok(self.text("state")?.map_or(State::Absent, |word| State::parse(&word)))
    }

    /// Waits until `holds` is true of the status, and gives that status.
    ///
    /// Every `poll` it reads the state and the sequence number, and the rest only
    /// when one of these moved or `RECHECK` has passed, because the waiting itself
    /// costs CPU time that is taken from what is being measured. `what` completes
    /// the sentence "cannot WHAT: not within 5s" of the error of kind
    /// [`Kind::Timeout`].
    pub fn wait(
        &self,
        what: &str,
        timeout: Duration,
        poll: Duration,
        holds: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        const RECHECK: Duration = Duration::from_millis(50);
        let end = Instant::now() + timeout;
        let mut seen = None;
        let mut checked = Instant::now();
        loop {
            let now = Instant::now();
            let quick = (self.state()?, self.number("enable_seq")?);
            if seen.as_ref() != Some(&quick) || now - checked >= RECHECK || now >= end {
                let status = self.status()?;
                if holds(&status) {
                    return Ok(status);
                }
                if now >= end {
                    let ops = status.ops.as_deref().unwrap_or("none");
                    return Err(Error::new(
                        Kind::Timeout,
                        what,
                        format!(
                            "it did not happen within {} (state '{}', scheduler '{ops}')",
                            metasched_base::format_duration(timeout),
                            status.state,
                        ),
                    ));
                }
                seen = Some(quick);
                checked = now;
            }
            std::thread::sleep(poll.min(end.saturating_duration_since(now)));
        }
    }

    /// The trimmed text of a file; `None` when it is not there.
    fn text(&self, name: &str) -> Result<Option<String>> {
        let path = self.folder.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            // `root` comes and goes; ENODEV is what an open file of a removed one gives.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) if e.raw_os_error() == Some(nix::libc::ENODEV) => Ok(None),
            Err(e) => Err(e).attempt(Kind::Failed, || format!("read '{}'", path.display())),
        }
    }

    fn number(&self, name: &str) -> Result<u64> {
        match self.text(name)? {
            None => Ok(0),
            Some(text) => text.parse().attempt(Kind::Failed, || {
                format!("read '{text}' in '{}' as a number", self.folder.join(name).display())
            }),
        }
    }

    fn events(&self) -> Result<BTreeMap<String, i64>> {
        let text = self.text("root/events")?.unwrap_or_default();
        Ok(text
            .lines()
            .filter_map(|line| {
                let (name, value) = line.split_once(char::is_whitespace)?;
                Some((name.to_owned(), value.trim().parse().ok()?))
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files below `/sys/kernel/sched_ext`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join("sys/kernel/sched_ext").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_kernel_without_sched_ext_is_absent_and_not_an_error() {
        let root = tree(&[]);
        let status = SchedExt::at(root.path()).status().unwrap();
        assert_eq!(status.state, State::Absent);
        assert_eq!(status.ops, None);
        assert!(status.is_default());
    }

    #[test]
    fn an_enabled_scheduler_is_read_with_its_name_and_events() {
        let root = tree(&[
            ("state", "enabled\n"),
            ("enable_seq", "7\n"),
            ("nr_rejected", "2\n"),
            ("switch_all", "1\n"),
            ("hotplug_seq", "4\n"),
            ("root/ops", "bpfland_1.1.4_x86_64_unknown_linux_gnu\n"),
            ("root/events", "SCX_EV_SELECT_CPU_FALLBACK 12\nSCX_EV_BYPASS_DURATION 345\n"),
        ]);
        let status = SchedExt::at(root.path()).status().unwrap();
        assert_eq!(status.state, State::Enabled);
        assert_eq!(status.ops.as_deref(), Some("bpfland_1.1.4_x86_64_unknown_linux_gnu"));
        assert_eq!((status.enable_seq, status.nr_rejected, status.hotplug_seq), (7, 2, 4));
        assert!(status.switch_all);
        assert_eq!(status.events["SCX_EV_BYPASS_DURATION"], 345);
        assert!(!status.is_default());
    }

    #[test]
    fn a_number_that_is_none_is_an_error_that_names_the_file() {
        let root = tree(&[("state", "disabled\n"), ("enable_seq", "many\n")]);
        let e = SchedExt::at(root.path()).status().unwrap_err();
        assert!(e.to_string().contains("enable_seq"), "{e}");
    }

    #[test]
    fn waiting_ends_as_soon_as_the_state_is_there() {
        let root = tree(&[("state", "enabling\n"), ("root/ops", "simple\n")]);
        let reader = SchedExt::at(root.path());
        let path = reader.folder().join("state");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            std::fs::write(path, "enabled\n").unwrap();
        });
        let status = reader
            .wait("see it enabled", Duration::from_secs(20), Duration::from_millis(1), |s| {
                s.state == State::Enabled
            })
            .unwrap();
        writer.join().unwrap();
        assert_eq!(status.ops.as_deref(), Some("simple"));
    }

    #[test]
    fn waiting_in_vain_is_a_timeout_that_says_what_is_there_instead() {
        let root = tree(&[("state", "enabled\n"), ("root/ops", "rusty_1\n")]);
        let e = SchedExt::at(root.path())
            .wait("stop 'rusty'", Duration::from_millis(20), Duration::from_millis(1), |s| {
                s.is_default()
            })
            .unwrap_err();
        assert_eq!(e.kind, Kind::Timeout);
        assert!(e.to_string().contains("state 'enabled', scheduler 'rusty_1'"), "{e}");
    }
}
