//! Other programs here that load schedulers: they would put theirs back, or take ours away.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::{below, read_trimmed};

/// How a rival is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RivalState {
    /// A manager of schedulers runs: it answers the end of one by starting another.
    ManagerRunning,
    /// A scheduler runs that somebody started.
    SchedulerRunning,
    /// A service is enabled: it will start a scheduler at the next boot.
    Enabled,
}

/// Another program that loads schedulers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rival {
    /// How it is known.
    pub state: RivalState,
    /// The process's or the service's name.
    pub name: String,
    /// The process; None for a service that is only enabled.
    pub pid: Option<u32>,
    /// The systemd unit that it belongs to, where it does.
    pub unit: Option<String>,
}

/// Processes that manage schedulers: scx_loader is the daemon of the scx project.
const MANAGERS: &[&str] = &["scx_loader", "scx_manager"];
/// The services that the scx project and distributions install.
const SERVICES: &[&str] = &["scx.service", "scx_loader.service"];
/// How the binaries of external schedulers are named.
const SCHEDULER_PREFIX: &str = "scx_";

/// Finds rivals among processes and enabled services.
pub fn rivals(root: &Path) -> Vec<Rival> {
    let mut found: Vec<Rival> = processes(root).chain(enabled(root)).collect();
    found.sort();
    found
}

fn processes(root: &Path) -> impl Iterator<Item = Rival> {
    let root = root.to_path_buf();
    let entries = std::fs::read_dir(below(&root, "/proc")).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = read_trimmed(&root, &format!("/proc/{pid}/comm"))?;
        let state = if MANAGERS.contains(&name.as_str()) {
            RivalState::ManagerRunning
        } else if name.starts_with(SCHEDULER_PREFIX) {
            RivalState::SchedulerRunning
        } else {
            return None;
        };
        let unit =
            read_trimmed(&root, &format!("/proc/{pid}/cgroup")).and_then(|text| unit_of(&text));
        Some(Rival { state, name, pid: Some(pid), unit })
    })
}

/// The unit in the paths of /proc/PID/cgroup: the last component that ends in `.service`.
fn unit_of(cgroups: &str) -> Option<String> {
    let path = cgroups.lines().find(|line| line.contains(".service"))?.rsplit_once(':')?.1;
    path.rsplit('/').find(|part| part.ends_with(".service")).map(str::to_string)
}

fn enabled(root: &Path) -> impl Iterator<Item = Rival> {
    let wants =
        std::fs::read_dir(below(root, "/etc/systemd/system")).into_iter().flatten().flatten();
    let names: BTreeSet<&str> = wants
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".wants"))
        .flat_map(|entry| {
            // A link to a unit that is not installed still counts: it names the intent.
            let folder = entry.path();
            SERVICES
                .iter()
                .copied()
                .filter(move |name| folder.join(name).symlink_metadata().is_ok())
        })
        .collect();
    names.into_iter().map(|name| Rival {
        state: RivalState::Enabled,
        name: name.to_string(),
        pid: None,
        unit: Some(name.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = below(root, path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_machine_without_rivals_has_none() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "/proc/1/comm", "systemd\n");
        write(root.path(), "/proc/meminfo", "MemTotal: 1 kB\n");
        assert_eq!(rivals(root.path()), []);
    }

    #[test]
    fn managers_schedulers_and_enabled_services_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "/proc/10/comm", "scx_loader\n");
        write(root.path(), "/proc/10/cgroup", "0::/system.slice/scx_loader.service\n");
        write(root.path(), "/proc/20/comm", "scx_bpfland\n");
        write(root.path(), "/proc/20/cgroup", "0::/user.slice/session-1.scope\n");
        write(root.path(), "/etc/systemd/system/multi-user.target.wants/scx.service", "");
        let rival = |state, name: &str, pid, unit: Option<&str>| Rival {
            state,
            name: name.into(),
            pid,
            unit: unit.map(str::to_string),
        };
        assert_eq!(
            rivals(root.path()),
            [
                rival(
                    RivalState::ManagerRunning,
                    "scx_loader",
                    Some(10),
                    Some("scx_loader.service")
                ),
                rival(RivalState::SchedulerRunning, "scx_bpfland", Some(20), None),
                rival(RivalState::Enabled, "scx.service", None, Some("scx.service")),
            ]
        );
    }
}
