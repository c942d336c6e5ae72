//! What the doctor looks at, as it is found.

use std::path::{Path, PathBuf};
use std::process::Command;

use metasched_base::Result;
use metasched_host::btf::{self, BtfVerdict};
use metasched_host::cgroup;
use metasched_host::kernel::{self, Release};
use metasched_host::privileges::may_load_schedulers;
use metasched_host::sched_ext::{SchedExt, State};
use metasched_host::services::{self, Rival};

/// Everything that the findings depend on.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The running kernel.
    pub release: Release,
    /// Where its configuration was found and which needed options it lacks; None if there is none.
    pub config: Option<ConfigFacts>,
    /// Whether and how far sched_ext is in use.
    pub sched_ext: State,
    /// The scheduler in force.
    pub ops: Option<String>,
    /// The verdict on the running kernel's BTF; None if it exposes none.
    pub btf: Option<Result<BtfVerdict, String>>,
    /// Whether we may load BPF programs and attach schedulers.
    pub privileged: bool,
    /// The controllers of the cgroup v2 hierarchy, or why there is none.
    pub cgroup2_controllers: Result<Vec<String>>,
    /// Other programs that load schedulers.
    pub rivals: Vec<Rival>,
    /// CPUs that the kernel's command line took out of scheduling; empty if none.
    pub isolated_cpus: String,
    /// Whether KVM runs an instruction, or why not.
    pub kvm: Result<(), String>,
    /// QEMU's version; None if it does not run.
    pub qemu: Option<String>,
    /// The tools of [`TOOLS`] that are not on PATH.
    pub tools_missing: Vec<&'static Tool>,
}

/// The kernel's configuration, as far as the doctor cares.
#[derive(Clone, Debug)]
pub struct ConfigFacts {
    /// The file.
    pub path: PathBuf,
    /// Options that BPF schedulers need and that are not built in.
    pub missing: Vec<&'static str>,
    /// Whether it is where libbpf looks for it.
    pub seen_by_libbpf: bool,
}

/// A program that a part of the project runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name on PATH.
    pub command: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether the testbed cannot do without it.
    pub for_testbed: bool,
}

/// Programs that are looked for on PATH.
pub const TOOLS: &[Tool] = &[
    Tool { command: "qemu-system-x86_64", purpose: "the testbed", for_testbed: true },
    Tool { command: "busybox", purpose: "the testbed", for_testbed: true },
    Tool { command: "depmod", purpose: "the testbed", for_testbed: true },
    Tool { command: "wrk", purpose: "the question-answering application", for_testbed: false },
    Tool { command: "hackbench", purpose: "bench-switch and bench-cost", for_testbed: false },
    Tool { command: "perf", purpose: "bench-cost", for_testbed: false },
];

impl Facts {
    /// Reads the facts below `root`; KVM and the tools are this process's own.
    pub fn gather(root: &Path) -> Result<Self> {
        let release = kernel::release(root)?;
        let status = SchedExt::at(root).status()?;
        let config = kernel::config(root, &release.text)?.map(|config| ConfigFacts {
            seen_by_libbpf: !config.path.starts_with(root.join("usr"))
                && !config.path.starts_with(root.join("lib")),
            missing: kernel::missing_options(&config),
            path: config.path,
        });
        Ok(Self {
            config,
            sched_ext: status.state,
            ops: status.ops,
            btf: std::fs::read(root.join("sys/kernel/btf/vmlinux"))
                .ok()
                .map(|bytes| btf::soundness(&bytes).map_err(|error| error.cause)),
            privileged: may_load_schedulers(root),
            cgroup2_controllers: cgroup::controllers(root),
            rivals: services::rivals(root),
            isolated_cpus: read(root, "sys/devices/system/cpu/isolated").trim().to_string(),
            kvm: metasched_testbed::kvm_opens(&root.join("dev/kvm")),
            qemu: qemu_version(),
            tools_missing: TOOLS.iter().filter(|tool| !is_on_path(tool.command)).collect(),
            release,
        })
    }

    /// The tools without which the testbed cannot boot anything.
    pub fn testbed_tools_missing(&self) -> Vec<&'static str> {
        self.tools_missing.iter().filter(|tool| tool.for_testbed).map(|tool| tool.command).collect()
    }
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

fn is_on_path(command: &str) -> bool {
    // depmod is in /sbin, which a user's PATH lacks.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn qemu_version() -> Option<String> {
    let output = Command::new("qemu-system-x86_64").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next()?.strip_prefix("QEMU emulator version ").map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn facts_are_read_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/sys/kernel/osrelease", "7.2.13-x\n");
        write(root, "proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
        write(root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
        write(root, "sys/devices/system/cpu/isolated", "2-3\n");
        write(root, "usr/lib/modules/7.2.13-x/config", "CONFIG_BPF_SYSCALL=y\n");
        let facts = Facts::gather(root).unwrap();
        assert!(facts.privileged);
        assert_eq!(facts.sched_ext, State::Absent);
        assert_eq!(facts.isolated_cpus, "2-3");
        assert!(facts.cgroup2_controllers.unwrap().contains(&"cpu".to_string()));
        let config = facts.config.unwrap();
        assert!(!config.seen_by_libbpf);
        assert!(config.missing.contains(&"CONFIG_SCHED_CLASS_EXT"));
        assert!(facts.btf.is_none());
        assert!(facts.kvm.is_err(), "there is no dev/kvm below this root");
    }

    #[test]
    fn a_unified_hierarchy_beside_those_of_v1_is_told_as_run_tells_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/sys/kernel/osrelease", "7.2.13-x\n");
        write(
            root,
            "proc/self/mountinfo",
            "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        write(root, "sys/fs/cgroup/unified/cgroup.controllers", "\n");
        let told = Facts::gather(root).unwrap().cgroup2_controllers.unwrap_err();
        let refused = cgroup::Cgroup::create_at(root, "a").unwrap_err();
        assert_eq!((told.kind, told.cause), (refused.kind, refused.cause));
    }
}
