//! Virtual machines, as KVM tells of them and /proc shows them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metasched_base::parse_cpu_list;
use metasched_host::cgroup::of_process;
use metasched_host::process::ProcessId;
use metasched_loader::VcpuThread;

use super::kvm::Kvm;

/// The CPUs that a machine may use are read again after so many scans: of a hundred machines they are
/// thousands of files.
const SCANS_PER_AFFINITY: u32 = 8;

/// By what a machine was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecognisedBy {
    /// By KVM's own structures. A thread that KVM has not told of yet is known by its name.
    Kvm,
    /// By the names of its threads alone.
    Names,
}

impl fmt::Display for RecognisedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kvm => "kvm",
            Self::Names => "names",
        })
    }
}

/// A virtual machine: a process with threads that run virtual CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// By QEMU's `-name`; its process's number where it has none.
    pub name: String,
    /// Its process.
    pub id: ProcessId,
    /// The user and the group that the process runs as.
    pub owner: (u32, u32),
    /// The threads of its virtual CPUs, by the CPUs' numbers: KVM's `vcpu_id`, or the number in the name.
    pub vcpus: BTreeMap<u32, u32>,
    /// By what it was recognised.
    pub recognised_by: RecognisedBy,
    /// The path of its process's cgroup below the mount point; the root's is empty.
    pub cgroup: String,
    /// The CPUs that at least one of its virtual CPUs may use, those off line too.
    pub cpus: BTreeSet<u32>,
}

/// Finds the machines that there are, again and again.
pub struct Scanner {
    root: PathBuf,
    kvm: Kvm,
    /// The machines of the last scan, and of the virtual CPUs of each those that KVM has told of.
    machines: HashMap<i32, (Machine, BTreeMap<u32, u32>)>,
    /// How many threads each process had, and whether its threads' names have to be read again.
    known: HashMap<i32, (u64, bool)>,
    scans: u32,
}

impl Scanner {
    /// Of the system below `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            kvm: Kvm::default(),
            machines: HashMap::new(),
            known: HashMap::new(),
            scans: 0,
        }
    }

    /// The machines that run now, by the numbers of their processes.
    ///
    /// It asks KVM, and looks at each process's number of threads. Names of threads are read of a process where that
    /// has changed since the scan before, and once more then: a thread gets its name a moment after it begins.
    pub fn scan(&mut self) -> BTreeMap<i32, Machine> {
        let in_kvm = self.kvm.threads(&self.root);
        self.scan_beside(&in_kvm)
    }

    /// The same where these threads are inside of KVM.
    fn scan_beside(&mut self, in_kvm: &[VcpuThread]) -> BTreeMap<i32, Machine> {
        let mut found: HashMap<i32, BTreeMap<u32, u32>> = HashMap::new();
        for thread in in_kvm {
            let vcpus = found.entry(thread.pid).or_default();
            vcpus.insert(thread.vcpu_id, thread.tid.cast_unsigned());
        }
        self.scans = self.scans.wrapping_add(1);
        let machines = |of: &HashMap<i32, (Machine, BTreeMap<u32, u32>)>| {
            of.iter().map(|(pid, (machine, _))| (*pid, machine.clone())).collect()
        };
        // Without a descriptor or memory to look with, nobody is gone.
        let Ok(entries) = fs::read_dir(self.root.join("proc")) else {
            return machines(&self.machines);
        };
        let pids =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut known = HashMap::new();
        let mut now = HashMap::new();
        for pid in pids {
            let Ok(folder) = fs::metadata(self.root.join(format!("proc/{pid}/task"))) else {
                continue;
            };
            // Two links, and one for each thread. Where the file system does not count them, it is
            // read each time.
            let links = folder.nlink();
            let (before, again) = self.known.get(&pid).copied().unwrap_or((0, true));
            let changed = links != before || links < 3;
            known.insert(pid, (links, changed));
            let found = found.remove(&pid).unwrap_or_default();
            if let Some(machine) = self.look(pid, changed || again, found) {
                now.insert(pid, machine);
            }
        }
        self.known = known;
        self.machines = now;
        machines(&self.machines)
    }

    /// A process, if it is a machine; and of its virtual CPUs those that KVM has told of. Those that are inside of KVM
    /// now are `found`.
    fn look(
        &mut self,
        pid: i32,
        read: bool,
        found: BTreeMap<u32, u32>,
    ) -> Option<(Machine, BTreeMap<u32, u32>)> {
        let before = self.machines.remove(&pid);
        // Most processes are none, and nothing of theirs has to be read.
        if before.is_none() && !read && found.is_empty() {
            return None;
        }
        let (before, known) = before
            .filter(|(machine, _)| machine.id.is_alive(&self.root))
            .map_or((None, BTreeMap::new()), |(machine, known)| (Some(machine), known));
        let mut by_kvm = known.clone();
        // A thread that runs another one now does not run the one before.
        by_kvm.retain(|_, tid| !found.values().any(|now| now == tid));
        by_kvm.extend(found);
        let vcpus = match &before {
            Some(machine) if !read && by_kvm == known => machine.vcpus.clone(),
            _ => {
                let there: BTreeSet<u32> = threads(&self.root, pid).collect();
                by_kvm.retain(|_, tid| there.contains(tid));
                vcpus(&self.root, pid, &there, &by_kvm)
            }
        };
        if vcpus.is_empty() {
            return None;
        }
        let place = pid.to_string();
        let due = self.scans.is_multiple_of(SCANS_PER_AFFINITY);
        let cpus = match &before {
            Some(machine) if machine.vcpus == vcpus && !due => machine.cpus.clone(),
            _ => allowed(&self.root, pid, vcpus.values()),
        };
        let cgroup = of_process(&self.root, &place).unwrap_or_default();
        let recognised_by = if by_kvm.is_empty() { RecognisedBy::Names } else { RecognisedBy::Kvm };
        if let Some(machine) = before {
            return Some((Machine { vcpus, recognised_by, cgroup, cpus, ..machine }, by_kvm));
        }
        let id = ProcessId::of(&self.root, pid)?;
        let owner = owner(&self.root, pid)?;
        let cmdline = fs::read(self.root.join(format!("proc/{pid}/cmdline"))).unwrap_or_default();
        let name = name_of(&cmdline).unwrap_or(place);
        Some((Machine { name, id, owner, vcpus, recognised_by, cgroup, cpus }, by_kvm))
    }
}

/// The virtual CPUs of a process of these threads. What KVM says of a thread or of a number counts, and names only
/// beside it: where a machine has a topology, QEMU's names have other numbers than KVM.
fn vcpus(
    root: &Path,
    pid: i32,
    threads: &BTreeSet<u32>,
    by_kvm: &BTreeMap<u32, u32>,
) -> BTreeMap<u32, u32> {
    let told: BTreeSet<u32> = by_kvm.values().copied().collect();
    let mut vcpus: BTreeMap<u32, u32> = threads
        .difference(&told)
        .filter_map(|tid| {
            let comm = fs::read_to_string(root.join(format!("proc/{pid}/task/{tid}/comm"))).ok()?;
            Some((vcpu(comm.trim_end())?, *tid))
        })
        .collect();
    vcpus.extend(by_kvm);
    vcpus
}

/// The threads of a process.
fn threads(root: &Path, pid: i32) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(root.join(format!("proc/{pid}/task")));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The number of the virtual CPU whose thread has that name: `CPU 3/KVM`.
fn vcpu(comm: &str) -> Option<u32> {
    let (number, accelerator) = comm.strip_prefix("CPU ")?.split_once('/')?;
    ["KVM", "TCG"].contains(&accelerator).then(|| number.parse().ok())?
}

/// The CPUs that at least one of these threads may use.
pub(super) fn allowed<'a>(
    root: &Path,
    pid: i32,
    threads: impl Iterator<Item = &'a u32>,
) -> BTreeSet<u32> {
    threads
        .filter_map(|tid| {
            let status = root.join(format!("proc/{pid}/task/{tid}/status"));
            let status = fs::read_to_string(status).ok()?;
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            parse_cpu_list(list)
        })
        .flatten()
        .collect()
}

/// The effective user and group of a process. The owner of its folder is root where it must not be dumped.
fn owner(root: &Path, pid: i32) -> Option<(u32, u32)> {
    let status = fs::read_to_string(root.join(format!("proc/{pid}/status"))).ok()?;
    let effective = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((effective("Uid:")?, effective("Gid:")?))
}

/// What `-name` says in a command line whose words end with NULs: `guest=NAME,...` or `NAME,...`.
fn name_of(cmdline: &[u8]) -> Option<String> {
    let mut words = cmdline.split(|byte| *byte == 0);
    words.find(|word| matches!(*word, b"-name" | b"--name"))?;
    let said = String::from_utf8_lossy(words.next()?).into_owned();
    // A comma in a value is written twice.
    const COMMA: char = '\0';
    let said = said.replace(",,", "\0");
    let named = said.split(',').enumerate().find_map(|(at, part)| match part.split_once('=') {
        Some(("guest", name)) => Some(name),
        // Only the first one may come without its key.
        None if at == 0 => Some(part),
        _ => None,
    })?;
    // Whoever starts a machine names it, and terminals obey what is no letter.
    let named = named.replace(COMMA, ",").replace(char::is_control, "\u{fffd}");
    Some(named).filter(|name| !name.is_empty())
}

/// What QEMU is to be started with so that its guest sees a page: a device on PCI whose second
/// region is that file.
pub fn qemu_arguments(page: &Path) -> [String; 4] {
    // As QEMU reads its options.
    let path = page.display().to_string().replace(',', ",,");
    [
        "-object".to_owned(),
        format!(
            "memory-backend-file,id=metasched-paravirt,share=on,mem-path={path},size={}",
            metasched_abi::METASCHED_PARAVIRT_BYTES
        ),
        "-device".to_owned(),
        "ivshmem-plain,memdev=metasched-paravirt".to_owned(),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process with these threads, which may use CPUs 0 to 3 of user 64055.
    pub fn process(root: &Path, pid: i32, cmdline: &str, threads: &[(u32, &str)]) {
        let folder = format!("proc/{pid}");
        let rest = "1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
        write(root, &format!("{folder}/stat"), &format!("{pid} (qemu) S 1 {rest}\n"));
        write(root, &format!("{folder}/cmdline"), cmdline);
        write(root, &format!("{folder}/cgroup"), "0::/machine.slice/a.scope\n");
        write(root, &format!("{folder}/status"), "Uid:\t0\t64055\t0\t0\nGid:\t0\t108\t0\t0\n");
        for (tid, comm) in threads {
            write(root, &format!("{folder}/task/{tid}/comm"), &format!("{comm}\n"));
            let status = format!("Name:\t{comm}\nCpus_allowed_list:\t0-1,3\n");
            write(root, &format!("{folder}/task/{tid}/status"), &status);
        }
    }

    #[test]
    fn machines_are_known_by_the_threads_of_their_cpus() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let kvm = [(10, "qemu"), (11, "CPU 0/KVM"), (12, "CPU 1/KVM"), (13, "IO mon_iothread")];
        process(root, 10, "qemu\0-name\0guest=web,debug-threads=on\0-snapshot\0", &kvm);
        process(root, 20, "qemu\0", &[(20, "qemu"), (21, "CPU 7/TCG")]);
        process(root, 30, "sh\0", &[(30, "sh"), (31, "CPU x/KVM"), (32, "CPU 0/HVF")]);
        let mut scanner = Scanner::new(root);
        let machines = scanner.scan();
        let web = Machine {
            name: "web".into(),
            id: ProcessId { pid: 10, start_ticks: 99 },
            owner: (64055, 108),
            vcpus: [(0, 11), (1, 12)].into(),
            recognised_by: RecognisedBy::Names,
            cgroup: "machine.slice/a.scope".into(),
            cpus: [0, 1, 3].into(),
        };
        assert_eq!(machines[&10], web);
        assert_eq!((machines[&20].name.as_str(), &machines[&20].vcpus), ("20", &[(7, 21)].into()));
        assert_eq!(machines.len(), 2);
        // One comes, one gets a virtual CPU more, one goes.
        process(root, 40, "qemu\0-name\0new\0", &[(41, "CPU 0/KVM")]);
        process(root, 10, "", &[(14, "CPU 2/KVM")]);
        fs::remove_dir_all(root.join("proc/20")).unwrap();
        let machines = scanner.scan();
        assert_eq!(machines.keys().copied().collect::<Vec<_>>(), [10, 40]);
        // It keeps the name that it was found with.
        assert_eq!((machines[&10].vcpus.len(), machines[&10].name.as_str()), (3, "web"));
        assert_eq!(machines[&40].name, "new");
        assert_eq!(scanner.scan().len(), 2);
        // Where nothing can be looked at nobody is gone.
        fs::rename(root.join("proc"), root.join("away")).unwrap();
        assert_eq!(scanner.scan().len(), 2);
    }

    fn in_kvm(pid: i32, vcpu_id: u32, tid: i32) -> VcpuThread {
        VcpuThread { pid, tid, vcpu_id }
    }

    #[test]
    fn kvm_tells_of_machines_whose_threads_have_no_names() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        process(root, 10, "firecracker\0", &[(10, "fc"), (11, "fc_vcpu 0"), (12, "fc_vcpu 1")]);
        let mut scanner = Scanner::new(root);
        assert!(scanner.scan_beside(&[]).is_empty());
        // Its threads are all there, and nothing but KVM tells of it.
        scanner.scan_beside(&[]);
        let machines = scanner.scan_beside(&[in_kvm(10, 0, 11), in_kvm(99, 0, 100)]);
        let own = &machines[&10];
        assert_eq!((own.name.as_str(), own.recognised_by), ("10", RecognisedBy::Kvm));
        assert_eq!((&own.vcpus, machines.len()), (&[(0, 11)].into(), 1));
        // One that was found stays known while it is outside of KVM.
        assert_eq!(scanner.scan_beside(&[in_kvm(10, 1, 12)])[&10].vcpus, [(0, 11), (1, 12)].into());
        assert_eq!(scanner.scan_beside(&[])[&10].vcpus.len(), 2);
        // Threads change places.
        let swapped = [in_kvm(10, 0, 12), in_kvm(10, 1, 11)];
        assert_eq!(scanner.scan_beside(&swapped)[&10].vcpus, [(0, 12), (1, 11)].into());
        assert_eq!(scanner.scan_beside(&[in_kvm(10, 0, 11)])[&10].vcpus, [(0, 11)].into());
        // And one ends.
        fs::remove_dir_all(root.join("proc/10/task/11")).unwrap();
        assert!(scanner.scan_beside(&[]).is_empty());
    }

    #[test]
    fn kvms_own_word_counts_where_names_say_another_thing() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let names = [(11, "CPU 0/KVM"), (12, "CPU 1/KVM"), (13, "CPU 2/KVM")];
        process(root, 10, "qemu\0-name\0web\0", &names);
        let mut scanner = Scanner::new(root);
        assert_eq!(scanner.scan_beside(&[])[&10].recognised_by, RecognisedBy::Names);
        // By KVM's numbers there is no 1, and what is not told of yet has the number in its name.
        let machines = scanner.scan_beside(&[in_kvm(10, 0, 11), in_kvm(10, 2, 12)]);
        assert_eq!(machines[&10].vcpus, [(0, 11), (2, 12)].into());
        assert_eq!(machines[&10].recognised_by, RecognisedBy::Kvm);
        let machines = scanner.scan_beside(&[in_kvm(10, 4, 13)]);
        assert_eq!(machines[&10].vcpus, [(0, 11), (2, 12), (4, 13)].into());
        assert_eq!(machines[&10].name, "web");
    }

    #[test]
    fn a_later_process_of_the_same_number_is_another_machine() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        process(root, 10, "qemu\0-name\0old\0", &[(11, "CPU 0/KVM")]);
        let mut scanner = Scanner::new(root);
        assert_eq!(scanner.scan()[&10].name, "old");
        process(root, 10, "qemu\0-name\0new\0", &[(11, "CPU 0/KVM")]);
        let stat = fs::read_to_string(root.join("proc/10/stat")).unwrap();
        write(root, "proc/10/stat", &stat.replace(" 99 ", " 100 "));
        assert_eq!(scanner.scan()[&10].name, "new");
    }

    #[test]
    fn a_machine_may_use_other_cpus_after_some_scans() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        process(root, 10, "qemu\0", &[(11, "CPU 0/KVM")]);
        let mut scanner = Scanner::new(root);
        assert_eq!(scanner.scan()[&10].cpus, [0, 1, 3].into());
        write(root, "proc/10/task/11/status", "Cpus_allowed_list:\t2\n");
        let last = (0..SCANS_PER_AFFINITY).map(|_| scanner.scan()).last().unwrap();
        assert_eq!(last[&10].cpus, [2].into());
    }

    #[test]
    fn names_are_read_as_qemu_reads_them() {
        for (said, name) in [
            ("qemu\0-name\0guest=a b,debug-threads=on\0", Some("a b")),
            ("qemu\0--name\0plain\0", Some("plain")),
            ("qemu\0-name\0plain,process=x\0", Some("plain")),
            ("qemu\0-name\0process=x,guest=late\0", Some("late")),
            ("qemu\0-name\0guest=a,,b\0", Some("a,b")),
            ("qemu\0-name\0a\n\x1b[31mred\0", Some("a\u{fffd}\u{fffd}[31mred")),
            ("qemu\0-name\0debug-threads=on\0", None),
            ("qemu\0-name\0", None),
            ("qemu\0-snapshot\0", None),
        ] {
            assert_eq!(name_of(said.as_bytes()).as_deref(), name, "{said}");
        }
    }

    #[test]
    fn a_comma_in_a_path_is_written_twice_for_qemu() {
        let [_, object, _, device] = qemu_arguments(Path::new("/dev/shm/a,b"));
        assert!(object.contains("mem-path=/dev/shm/a,,b,size=4096"), "{object}");
        assert!(object.contains("id=metasched-paravirt") && device.ends_with("metasched-paravirt"));
    }
}
