//! Whose waits are asked for.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::KeeperStatus;
use metasched_host::cgroup::Cgroup;
use metasched_host::process::ProcessId;
use metasched_loader::{LaneInfo, Waiters};
use serde::{Deserialize, Serialize};

/// What users call the lane of everything that has none of its own.
pub const DEFAULT_LANE: &str = "default";

/// Whose waits are asked for, as users say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Whom {
    /// Everybody's.
    System,
    /// What is in this cgroup or below it.
    Cgroup(String),
    /// The threads of this process.
    Process(u32),
    /// Threads that are called so, and those of processes that are called so.
    Comm(String),
    /// The tasks of an application's lane, or of the [`DEFAULT_LANE`].
    Lane(String),
}

impl std::fmt::Display for Whom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System => f.write_str("the whole system"),
            Self::Cgroup(name) => write!(f, "the cgroup '{name}'"),
            Self::Process(pid) => write!(f, "the process {pid}"),
            Self::Comm(name) => write!(f, "threads named '{name}'"),
            Self::Lane(name) => write!(f, "the lane of '{name}'"),
        }
    }
}

impl Whom {
    /// Whom the tracer has to look at; none for a lane, whose waits level 1 counts itself.
    ///
    /// # Errors
    /// `BadInput` where there is no such cgroup or process.
    pub(crate) fn waiters(&self, root: &Path) -> Result<Option<Waiters>> {
        Ok(Some(match self {
            Self::System => Waiters::System,
            Self::Cgroup(name) => Waiters::Cgroup(Cgroup::find(root, name)?.id()?),
            Self::Process(pid) => Waiters::Process(process(root, *pid)?),
            Self::Comm(name) => Waiters::Name(name.clone()),
            Self::Lane(_) => return Ok(None),
        }))
    }
}

/// The number of a process that there is.
///
/// # Errors
/// `BadInput` where there is none, or it is that of another process's thread.
pub(crate) fn process(root: &Path, pid: u32) -> Result<u32> {
    let attempt = || format!("look at the process {pid}");
    let there = i32::try_from(pid).ok().and_then(|pid| ProcessId::of(root, pid));
    if there.is_none() {
        return Err(Error::new(Kind::BadInput, attempt(), "there is none of that number")
            .remedy("'ps' and 'pgrep' show what there is"));
    }
    let status = std::fs::read_to_string(root.join(format!("proc/{pid}/status")));
    let group = status.ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok())
    });
    match group {
        Some(group) if group != pid => {
            Err(Error::new(Kind::BadInput, attempt(), format!("it is a thread of {group}"))
                .remedy(format!("name the process: --pid {group}")))
        }
        _ => Ok(pid),
    }
}

/// The lane in force of an application, or the default one.
///
/// # Errors
/// `BadInput` where there is no such application.
pub(crate) fn lane<'a>(keeper: &'a KeeperStatus, name: &str) -> Result<&'a LaneInfo> {
    let of_app =
        keeper.apps.iter().find(|app| app.name == name).and_then(|app| {
            keeper.lanes.iter().find(|lane| lane.is_apps() && lane.app == app.number)
        });
    let default = || keeper.lanes.iter().find(|lane| lane.is_root() && name == DEFAULT_LANE);
    of_app.or_else(default).ok_or_else(|| {
        let mut known: Vec<&str> = keeper.apps.iter().map(|app| app.name.as_str()).collect();
        known.push(DEFAULT_LANE);
        Error::new(Kind::BadInput, format!("look at the lane of '{name}'"), "there is none")
            .remedy(metasched_base::meant(name, &known, "there are lanes of"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_process_must_be_there_and_be_one() {
        let stat = "7 (a b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n";
        let root = root(&[
            ("proc/7/stat", stat),
            ("proc/7/status", "Name:\ta b\nTgid:\t7\n"),
            ("proc/8/stat", &stat.replace("7 (", "8 (")),
            ("proc/8/status", "Tgid:\t7\n"),
        ]);
        let look = |pid| Whom::Process(pid).waiters(root.path());
        assert_eq!(look(7).unwrap(), Some(Waiters::Process(7)));
        let error = look(8).unwrap_err();
        assert!(error.to_string().contains("a thread of 7; name the process: --pid 7"), "{error}");
        for pid in [9, u32::MAX] {
            assert_eq!(look(pid).unwrap_err().kind, Kind::BadInput);
        }
    }

    #[test]
    fn whom_is_written_as_kind_and_name() {
        let text = serde_json::to_string(&[Whom::System, Whom::Comm("wrk".into())]).unwrap();
        assert_eq!(text, r#"[{"kind":"system"},{"kind":"comm","name":"wrk"}]"#);
    }
}
