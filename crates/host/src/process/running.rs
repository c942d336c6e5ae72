use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cgroup::of_process;
use crate::{below, read_trimmed};

/// Where commands run whose names are wanted: the names by the cgroup, as its path below
/// the mount point. A command's name is what the kernel calls it, of which it keeps 15
/// letters, and the last part of how it was called.
pub fn cgroups_of_commands(
    root: &Path,
    wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entries = std::fs::read_dir(below(root, "/proc")).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|name| name.parse::<u32>().is_ok()) else { continue };
        let meant = [read_trimmed(root, &format!("/proc/{pid}/comm")), called(root, pid)];
        for name in meant.into_iter().flatten().filter(|name| wanted(name)) {
            // A process that ended meanwhile is nowhere.
            if let Some(cgroup) = of_process(root, pid) {
                found.entry(cgroup).or_default().insert(name);
            }
        }
    }
    found
}

/// The last part of how the process was called; `None` for a thread of the kernel.
fn called(root: &Path, pid: &str) -> Option<String> {
    let line = read_trimmed(root, &format!("/proc/{pid}/cmdline"))?;
    let program = line.split('\0').next().filter(|program| !program.is_empty())?;
    Some(program.rsplit('/').next().unwrap_or(program).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(root: &Path, pid: u32, comm: &str, cmdline: &str, cgroup: &str) {
        let folder = below(root, &format!("/proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in [("comm", comm), ("cmdline", cmdline), ("cgroup", cgroup)] {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }

    #[test]
    fn a_command_is_known_by_either_of_its_names_and_found_where_it_runs() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 10, "mongod\n", "/usr/bin/mongod\0-f\0", "1:x:/y\n0::/a/db\n");
        process(root.path(), 11, "a-very-long-nam\n", "/opt/a-very-long-name\0", "0::/b\n");
        process(root.path(), 12, "postgres\n", "postgres: writer\0", "0::/c (deleted)\n");
        process(root.path(), 13, "kworker\n", "", "0::/\n");
        let found = |names: &[&str]| {
            let found = cgroups_of_commands(root.path(), |name| names.contains(&name));
            found.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(found(&["mongod", "a-very-long-name"]), ["a/db", "b"]);
        assert!(found(&["postgres", "kworker"]).is_empty(), "removed, and the root");
    }
}
