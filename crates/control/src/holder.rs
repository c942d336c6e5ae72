use std::path::{Path, PathBuf};

use metasched_host::process::ProcessId;
use metasched_loader::holds_scheduler;
use serde::Serialize;

/// The process that holds the scheduler that is in force: when it ends, so does that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The process.
    pub id: ProcessId,
    /// Its command line.
    pub command: Vec<String>,
    /// Its working folder, for starting it again.
    pub folder: PathBuf,
    /// The systemd unit that it belongs to, if it does.
    pub unit: Option<String>,
    /// For how many seconds it has been running.
    pub age_s: Option<u64>,
}

/// Finds the process that holds a scheduler of the name `ops`: it has a BPF link of
/// type struct_ops open, whose map holds a scheduler. Where the kernel does not say what it holds,
/// its program must be named like the scheduler; where several have one, that one is taken which
/// is. `None` also when we may not look (it takes root).
pub fn holder(root: &Path, ops: &str) -> Option<Holder> {
    holder_by(root, ops, holds_scheduler)
}

/// The same, by what tells whether the map of an id holds a scheduler.
fn holder_by(
    root: &Path,
    ops: &str,
    holds_scheduler: impl Fn(u32) -> Option<bool>,
) -> Option<Holder> {
    let mut holders: Vec<(bool, Holder)> = std::fs::read_dir(root.join("proc"))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let links = struct_ops_links(root, pid);
            if links.is_empty() {
                return None;
            }
            let holder = describe(root, pid)?;
            let named = is_named_like(&holder.command, ops);
            let holds = |map: &Option<u32>| map.and_then(&holds_scheduler).unwrap_or(named);
            links.iter().any(holds).then_some((named, holder))
        })
        .collect();
    holders.sort_by_key(|(named, holder)| (!named, holder.id.pid));
    holders.into_iter().next().map(|(_, holder)| holder)
}

/// Whether the process has a BPF link of type struct_ops open.
pub(crate) fn holds_struct_ops(root: &Path, pid: i32) -> bool {
    !struct_ops_links(root, pid).is_empty()
}

/// The BPF links of type struct_ops that the process has open: the ids of their maps, where the
/// kernel tells those.
fn struct_ops_links(root: &Path, pid: i32) -> Vec<Option<u32>> {
    let folder = root.join(format!("proc/{pid}"));
    let entries = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        target.to_string_lossy().contains("bpf").then_some(())?;
        let text = std::fs::read_to_string(folder.join("fdinfo").join(entry.file_name())).ok()?;
        let field = |name: &str| Some(text.lines().find_map(|l| l.strip_prefix(name))?.trim());
        (field("link_type:")? == "struct_ops")
            .then(|| field("map_id:").and_then(|id| id.parse().ok()))
    });
    links.collect()
}

/// Whether a scheduler called `ops` in the kernel is plausibly that of the program
/// `command`: `scx_bpfland` calls itself `bpfland_1.1.4_x86_64_unknown_linux_gnu`.
pub(crate) fn is_named_like(command: &[String], ops: &str) -> bool {
    let letters = |text: &str| text.to_lowercase().replace('-', "_");
    let Some(program) = command.first().and_then(|path| Path::new(path).file_name()) else {
        return false;
    };
    let program = letters(&program.to_string_lossy());
    letters(ops).starts_with(program.trim_start_matches("scx_"))
}

fn describe(root: &Path, pid: i32) -> Option<Holder> {
    let folder = root.join(format!("proc/{pid}"));
    let id = ProcessId::of(root, pid)?;
    let bytes = std::fs::read(folder.join("cmdline")).ok()?;
    let mut command: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    command.pop();
    // How it was called may be relative to a folder or a PATH that we do not have;
    // the file itself is certain. An interpreter is not the program of a script,
    // and a deleted file cannot be started again, so there the words stay.
    if let (Some(word), Ok(exe)) = (command.first_mut(), std::fs::read_link(folder.join("exe")))
        && Path::new(word.as_str()).file_name() == exe.file_name()
    {
        *word = exe.display().to_string();
    }
    Some(Holder {
        id,
        command,
        folder: std::fs::read_link(folder.join("cwd")).unwrap_or_else(|_| PathBuf::from("/")),
        unit: unit(&std::fs::read_to_string(folder.join("cgroup")).unwrap_or_default()),
        age_s: age_s(root, &id),
    })
}

/// The systemd service in whose cgroup a process is, from its `/proc/PID/cgroup`.
fn unit(cgroup: &str) -> Option<String> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let last = path.rsplit('/').next()?;
    last.ends_with(".service").then(|| last.to_owned())
}

fn age_s(root: &Path, id: &ProcessId) -> Option<u64> {
    // USER_HZ, the unit of /proc, is 100 on every architecture that has sched_ext.
    const TICKS_PER_S: u64 = 100;
    let uptime = std::fs::read_to_string(root.join("proc/uptime")).ok()?;
    let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Some((uptime_s as u64).saturating_sub(id.start_ticks / TICKS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with one process that has one open file, with this `fdinfo`.
    fn process(root: &Path, pid: i32, command: &str, link: &str, fdinfo: &str) {
        let folder = root.join(format!("proc/{pid}"));
        for name in ["fd", "fdinfo"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let stat = format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 2000 1 1\n");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), command.replace(' ', "\0") + "\0").unwrap();
        std::fs::write(folder.join("cgroup"), "0::/system.slice/scx.service\n").unwrap();
        std::os::unix::fs::symlink(link, folder.join("fd/3")).unwrap();
        std::fs::write(folder.join("fdinfo/3"), fdinfo).unwrap();
        std::fs::write(root.join("proc/uptime"), "50.00 10.00\n").unwrap();
    }

    const LINK: &str = "pos:\t0\nlink_type:\tstruct_ops\nlink_id:\t4\n";

    #[test]
    fn the_holder_is_the_process_with_the_struct_ops_link() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 5, "perf top", "anon_inode:bpf_link", "link_type:\tperf_event\n");
        process(root.path(), 6, "/usr/bin/scx_rusty -k 2", "anon_inode:bpf_link", LINK);
        let found = holder(root.path(), "rusty_1.0.9_x86_64").unwrap();
        assert_eq!(found.id.pid, 6);
        assert_eq!(found.command, ["/usr/bin/scx_rusty", "-k", "2"]);
        assert_eq!(found.unit.as_deref(), Some("scx.service"));
        assert_eq!(found.age_s, Some(30));
    }

    #[test]
    fn among_several_holders_the_name_decides() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 5, "tcp_congestion", "anon_inode:bpf_link", LINK);
        process(root.path(), 6, "./scx_simple", "anon_inode:bpf_link", LINK);
        assert_eq!(holder(root.path(), "simple").unwrap().id.pid, 6);
        assert_eq!(holder(tempfile::tempdir().unwrap().path(), "simple"), None);
    }

    #[test]
    fn who_holds_something_else_is_not_taken_for_the_holder() {
        let root = tempfile::tempdir().unwrap();
        let link = |map: u32| format!("{LINK}map_id:\t{map}\n");
        process(root.path(), 5, "tcp_thing", "anon_inode:bpf_link", &link(1));
        let holds = |map| Some(map == 2);
        assert_eq!(holder_by(root.path(), "simple", holds), None);
        // Where the kernel does not say, its name has to.
        assert_eq!(holder_by(root.path(), "simple", |_| None), None);
        assert_eq!(holder_by(root.path(), "tcp_thing", |_| None).unwrap().id.pid, 5);
        // Where it does, no name is needed.
        process(root.path(), 6, "runner", "anon_inode:bpf_link", &link(2));
        assert_eq!(holder_by(root.path(), "simple", holds).unwrap().id.pid, 6);
    }

    #[test]
    fn a_program_and_its_scheduler_share_a_name() {
        let command = |name: &str| vec![format!("/x/{name}"), "-f".to_owned()];
        assert!(is_named_like(&command("scx_bpfland"), "bpfland_1.1.4_x86_64_unknown_linux_gnu"));
        assert!(is_named_like(&command("metasched"), "metasched"));
        assert!(!is_named_like(&command("scx_rusty"), "bpfland_1.1.4"));
    }
}
