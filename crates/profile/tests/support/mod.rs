//! What the tests that run real processes share: workloads of shell commands, a site
//! in a temporary folder, and groups that need no cgroups and no privileges.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use metasched_base::{Interrupt, Result};
use metasched_host::machine::HostFacts;
use metasched_host::process::Spawn;
use metasched_profile::manifest::{Manifest, Workload};
use metasched_profile::runner::{Group, Groups, Site, Usage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Names the groups of all tests apart.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Groups by a variable in the environment of each member, found through /proc.
#[derive(Debug)]
pub struct MarkedGroups {
    mark: String,
}

#[derive(Debug)]
struct Marked(String);

const VARIABLE: &str = "METASCHED_TEST_GROUP";

impl MarkedGroups {
    pub fn new() -> Self {
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        Self { mark: format!("{}.{n}", std::process::id()) }
    }

    /// What is in the environment of every process of these groups.
    pub fn mark(&self) -> String {
        format!("{VARIABLE}={}/", self.mark)
    }
}

/// The processes whose environment holds this text.
pub fn marked(text: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(text.len()).any(|window| window == text.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

impl Groups for MarkedGroups {
    fn group(&self, workload: &str, name: &str) -> Result<Box<dyn Group>> {
        Ok(Box::new(Marked(format!("{}/{workload}/{name}", self.mark))))
    }

    fn close(&self, _workload: &str) -> Result<()> {
        Marked(format!("{}/", self.mark)).kill()
    }
}

impl Group for Marked {
    fn place(&self, spawn: Spawn) -> Spawn {
        spawn.env(VARIABLE, &self.0)
    }

    fn usage(&self) -> Result<Option<Usage>> {
        Ok(None)
    }

    fn id(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn kill(&self) -> Result<()> {
        let text = format!("{VARIABLE}={}", self.0);
        for _ in 0..1000 {
            let left = marked(&text);
            if left.is_empty() {
                return Ok(());
            }
            for pid in left {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("processes of {} survive SIGKILL", self.0);
    }
}

/// A workload in a temporary folder, and the site to run it on.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub site: Site,
    mark: String,
}

impl Lab {
    /// A workload with this manifest (its first lines are given).
    pub fn new(manifest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny");
        fs::create_dir(&path).unwrap();
        let head = "schema = 1\nname = \"tiny\"\nsummary = \"a test\"\n";
        fs::write(path.join("manifest.toml"), format!("{head}{manifest}")).unwrap();
        let groups = MarkedGroups::new();
        let mark = groups.mark();
        let site = Site {
            machine: machine(),
            cache_root: folder.path().join("cache"),
            run_root: folder.path().join("run"),
            groups: Box::new(groups),
            interrupt: Interrupt::default(),
        };
        Self { folder, site, mark }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("tiny")
    }

    pub fn workload(&self) -> Workload {
        let manifest = Manifest::read(&self.path()).unwrap();
        Workload::resolve(manifest, &[], false).unwrap()
    }

    /// Processes of the workload that are still there.
    pub fn left(&self) -> Vec<i32> {
        marked(&self.mark)
    }

    /// How many lines a file in the lab's folder has.
    pub fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default().lines().count()
    }
}

fn machine() -> HostFacts {
    metasched_host::machine::machine(Path::new("/")).unwrap()
}

/// A load that prints these metrics after `sleep_s`.
pub fn metrics(sleep_s: f64, throughput: f64) -> String {
    format!(
        r#"sleep {sleep_s}; echo 'METASCHED {{"throughput_per_s":{throughput},"requests":{requests},"errors":0,"duration_s":10,"mean_us":5,"p50_us":5,"p95_us":6,"p99_us":7,"p999_us":8,"max_us":9}}'"#,
        requests = (throughput * 10.0) as u64,
    )
}
