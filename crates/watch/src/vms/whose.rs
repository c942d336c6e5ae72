//! Whose CPUs are meant.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metasched_abi::WEIGHT_DFL;
use metasched_base::{Error, Kind, Result};
use metasched_host::cgroup::Cgroup;

use super::machines::{Machine, allowed};
use super::observer::Observed;
use super::page::page_path;

/// A machine or a cgroup that is observed.
#[derive(Clone, Debug)]
pub enum Whose {
    /// A machine, for as long as its process lives.
    Machine(Machine),
    /// All threads in a cgroup and below it.
    Cgroup(Cgroup),
}

impl Whose {
    /// The cgroup that a user means.
    ///
    /// # Errors
    /// As [`Cgroup::find`].
    pub fn cgroup(root: &Path, path: &str) -> Result<Self> {
        Cgroup::find(root, path).map(Self::Cgroup)
    }

    /// As users know it.
    pub fn name(&self) -> String {
        match self {
            Self::Machine(machine) => machine.name.clone(),
            Self::Cgroup(cgroup) => cgroup.name(),
        }
    }

    /// Told apart from all others, also from a later one of the same name.
    pub fn key(&self) -> String {
        match self {
            Self::Machine(machine) => {
                format!("{} {} {}", machine.name, machine.id.pid, machine.id.start_ticks)
            }
            Self::Cgroup(cgroup) => format!("/{}", cgroup.name()),
        }
    }

    /// Where its page is by default. A '/' in the path of a cgroup is a ':' there.
    ///
    /// # Errors
    /// As [`page_path`].
    pub fn page(&self) -> Result<PathBuf> {
        match self {
            Self::Machine(machine) => page_path(&machine.name),
            Self::Cgroup(cgroup) => {
                page_path(&format!("cgroup:{}", cgroup.name().replace('/', ":")))
            }
        }
    }

    /// The user and the group that its page belongs to, and whether others may read it. Of a cgroup the programs of
    /// any user read it, and of a machine QEMU alone.
    pub fn owner(&self) -> ((u32, u32), bool) {
        match self {
            Self::Machine(machine) => (machine.owner, false),
            Self::Cgroup(cgroup) => {
                let data = std::fs::metadata(cgroup.path());
                (data.map_or((0, 0), |data| (data.uid(), data.gid())), true)
            }
        }
    }

    /// Where its threads are: the path of the cgroup below the mount point.
    fn place(&self) -> String {
        match self {
            Self::Machine(machine) => machine.cgroup.clone(),
            Self::Cgroup(cgroup) => cgroup.name(),
        }
    }

    /// What is to be observed of it now; none where it is gone. `machines` are those that there are.
    pub(super) fn observed(
        &self,
        root: &Path,
        machines: &BTreeMap<i32, Machine>,
    ) -> Option<Observed> {
        match self {
            Self::Machine(machine) => {
                let now = machines.get(&machine.id.pid).filter(|now| now.id == machine.id)?;
                Some(Observed {
                    threads: now.vcpus.values().copied().collect(),
                    cpus: now.cpus.clone(),
                    vcpus: now.vcpus.len() as u32,
                    cgroups: line(root, &now.cgroup),
                })
            }
            Self::Cgroup(cgroup) => {
                let tids = cgroup.path().is_dir().then(|| cgroup.tids().ok())??;
                // Those of one process mostly may use the same ones. A threaded cgroup does not tell of processes.
                let asked = cgroup.pids().unwrap_or_else(|_| tids.clone());
                let cpus = |tid: i32| allowed(root, tid, [tid.cast_unsigned()].iter());
                Some(Observed {
                    threads: tids.into_iter().map(i32::cast_unsigned).collect(),
                    cpus: asked.into_iter().flat_map(cpus).collect(),
                    vcpus: 0,
                    cgroups: line(root, &cgroup.name()),
                })
            }
        }
    }
}

/// A cgroup and those above it, from below the root down, with their weights.
fn line(root: &Path, name: &str) -> Vec<(String, u32)> {
    let mut path = String::new();
    let parts = name.split('/').filter(|part| !part.is_empty());
    let level = parts.map(|part| {
        path = format!("{path}/{part}");
        let cgroup = Cgroup::find(root, &path).ok();
        // Without the controller the kernel weighs none of its own.
        let weight = cgroup.and_then(|cgroup| cgroup.cpu_weight()).unwrap_or(WEIGHT_DFL);
        (part.to_owned(), weight)
    });
    level.collect()
}

/// Nobody is asked for twice: a thread counts for one machine or cgroup only.
///
/// # Errors
/// `BadInput` where a cgroup holds another one, or a machine, that is asked for too.
pub fn are_apart(whose: &[Whose]) -> Result<()> {
    let cgroups = whose.iter().filter(|one| matches!(one, Whose::Cgroup(_)));
    for outer in cgroups {
        let path = Path::new("/").join(outer.place());
        let holds = |inner: &&Whose| {
            inner.key() != outer.key() && Path::new("/").join(inner.place()).starts_with(&path)
        };
        if let Some(inner) = whose.iter().find(holds) {
            let attempt = format!("serve '{}' and '{}'", outer.name(), inner.name());
            return Err(Error::new(Kind::BadInput, attempt, "the first one holds the second one")
                .remedy("serve one of them"));
        }
    }
    Ok(())
}

/// The machine that a user means by its name or the number of its process.
///
/// # Errors
/// `BadInput` where there is none, or more than one.
pub fn machine_of(machines: &BTreeMap<i32, Machine>, said: &str) -> Result<Machine> {
    const LISTED: usize = 8;
    let attempt = || format!("find the virtual machine '{said}'");
    let by_pid = said.parse().ok().and_then(|pid: i32| machines.get(&pid));
    let named: Vec<&Machine> = machines.values().filter(|machine| machine.name == said).collect();
    match (&named[..], by_pid) {
        (&[only], _) | (&[], Some(only)) => return Ok(only.clone()),
        (&[], None) => {}
        (many, _) => {
            let pids: Vec<String> = many.iter().map(|m| m.id.pid.to_string()).collect();
            let cause = format!("{} machines have that name", many.len());
            return Err(Error::new(Kind::BadInput, attempt(), cause)
                .remedy(format!("say which by its process: {}", pids.join(", "))));
        }
    }
    let names: BTreeSet<&str> = machines.values().map(|machine| machine.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().take(LISTED).collect();
    let remedy = match names.is_empty() {
        true => "none runs here: without KVM, QEMU's are found that were started with \
                 -name NAME,debug-threads=on"
            .to_owned(),
        false => format!("there are: {}", names.join(", ")),
    };
    Err(Error::new(Kind::BadInput, attempt(), "there is none of that name").remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::super::machines::tests::{process, write};
    use super::super::machines::{RecognisedBy, Scanner};
    use super::*;
    use metasched_host::process::ProcessId;

    fn machine(name: &str) -> Machine {
        Machine {
            name: name.to_owned(),
            id: ProcessId { pid: 10, start_ticks: 99 },
            owner: (0, 0),
            vcpus: BTreeMap::new(),
            recognised_by: RecognisedBy::Kvm,
            cgroup: String::new(),
            cpus: BTreeSet::new(),
        }
    }

    fn machines(root: &Path) -> BTreeMap<i32, Machine> {
        Scanner::new(root).scan()
    }

    #[test]
    fn a_machine_is_meant_by_its_name_or_its_process() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (pid, name) in [(10, "web"), (20, "db"), (30, "twin"), (40, "twin"), (50, "10")] {
            let cmdline = format!("qemu\0-name\0{name}\0");
            process(root, pid, &cmdline, &[(pid as u32 + 1, "CPU 0/KVM")]);
        }
        let machines = machines(root);
        let pid = |said: &str| machine_of(&machines, said).map(|machine| machine.id.pid);
        assert_eq!(pid("web").unwrap(), 10);
        assert_eq!(pid("40").unwrap(), 40);
        // A name comes first: it is what people gave.
        assert_eq!(pid("10").unwrap(), 50);
        for (said, words) in [
            ("twin", "2 machines have that name; say which by its process: 30, 40"),
            ("none", "there is none of that name; there are: 10, db, twin, web"),
        ] {
            let error = pid(said).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains(words), "{error}");
        }
        let none = machine_of(&BTreeMap::new(), "web").unwrap_err();
        assert!(none.to_string().contains("debug-threads=on"), "{none}");
    }

    #[test]
    fn a_machine_that_is_gone_is_not_observed_nor_is_a_later_one_of_its_name() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        process(root, 10, "qemu\0-name\0web\0", &[(11, "CPU 0/KVM"), (12, "CPU 1/KVM")]);
        let found = machines(root);
        let web = Whose::Machine(found[&10].clone());
        let observed = web.observed(root, &found).unwrap();
        assert_eq!((observed.vcpus, observed.threads), (2, [11, 12].into()));
        // Neither has the cpu controller.
        let cgroups = [("machine.slice".to_owned(), 100), ("a.scope".to_owned(), 100)];
        assert_eq!(observed.cgroups, cgroups);
        assert_eq!(web.page().unwrap(), Path::new("/dev/shm/metasched-paravirt-web"));
        let stat = std::fs::read_to_string(root.join("proc/10/stat")).unwrap();
        write(root, "proc/10/stat", &stat.replace(" 99 ", " 100 "));
        assert_eq!(web.observed(root, &machines(root)), None);
        assert_eq!(web.observed(root, &BTreeMap::new()), None);
    }

    #[test]
    fn of_a_cgroup_all_threads_of_its_processes_are_observed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (cgroup, pid) in [("a", 10), ("a/b", 20), ("c", 30)] {
            write(root, &format!("sys/fs/cgroup/{cgroup}/cgroup.procs"), &format!("{pid}\n"));
            let threads = format!("{pid}\n{}\n", pid + 1);
            write(root, &format!("sys/fs/cgroup/{cgroup}/cgroup.threads"), &threads);
            write(root, &format!("sys/fs/cgroup/{cgroup}/cgroup.controllers"), "cpu\n");
        }
        for pid in [10, 20, 30] {
            process(root, pid, "sh\0", &[(pid as u32, "sh"), (pid as u32 + 1, "worker")]);
        }
        let whose = Whose::cgroup(root, "/a/b/").unwrap();
        assert_eq!(whose.page().unwrap(), Path::new("/dev/shm/metasched-paravirt-cgroup:a:b"));
        let observed = Whose::cgroup(root, "/a/").unwrap().observed(root, &BTreeMap::new());
        let wanted = Observed {
            threads: [10, 11, 20, 21].into(),
            cpus: [0, 1, 3].into(),
            vcpus: 0,
            cgroups: vec![("a".to_owned(), 100)],
        };
        assert_eq!(observed, Some(wanted));
        write(root, "sys/fs/cgroup/a/cpu.weight", "300\n");
        write(root, "sys/fs/cgroup/a/b/cpu.weight", "0\n");
        let cgroups = whose.observed(root, &BTreeMap::new()).unwrap().cgroups;
        // As of one with cpu.idle.
        assert_eq!(cgroups, [("a".to_owned(), 300), ("b".to_owned(), 1)]);
        let cgroups = |paths: &[&str]| -> Vec<Whose> {
            paths.iter().map(|path| Whose::cgroup(root, path).unwrap()).collect()
        };
        are_apart(&cgroups(&["a/b", "c", "c"])).unwrap();
        let error = are_apart(&cgroups(&["a/b", "c", "a"])).unwrap_err();
        assert!(error.to_string().contains("serve 'a' and 'a/b': the first one holds"), "{error}");
        let web = Machine { cgroup: "c/scope".into(), ..machine("web") };
        are_apart(&[&cgroups(&["a"])[..], &[Whose::Machine(web.clone())]].concat()).unwrap();
        let error = are_apart(&[&cgroups(&["c"])[..], &[Whose::Machine(web)]].concat());
        assert!(error.unwrap_err().to_string().contains("'c' and 'web'"));
        std::fs::remove_dir_all(root.join("sys/fs/cgroup/a/b")).unwrap();
        assert_eq!(whose.observed(root, &BTreeMap::new()), None);
        let outside = Whose::cgroup(root, "../..").unwrap_err();
        assert!(outside.to_string().contains("it leaves the hierarchy"), "{outside}");
    }
}
