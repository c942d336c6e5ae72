//! Where an application's processes live, so that they are accounted and killed as one.

use std::fmt::Debug;

use metasched_base::Result;
use metasched_control::Guard;
use metasched_host::cgroup::{Cgroup, ThreadStats};
use metasched_host::process::Spawn;

/// Makes groups. The real ones are cgroups; tests without privileges have their own.
pub trait Groups: Debug + Send + Sync {
    /// The group with this name, which is made, and emptied if something is left in it.
    fn group(&self, workload: &str, name: &str) -> Result<Box<dyn Group>>;
    /// Kills what is left in any group of the workload, and gives them up.
    fn close(&self, workload: &str) -> Result<()>;
}

/// A set of processes.
pub trait Group: Debug + Send {
    /// Makes the process that is to be started a member from its first instruction on.
    fn place(&self, spawn: Spawn) -> Spawn;
    /// What its members used so far; `None` where that is not accounted.
    fn usage(&self) -> Result<Option<Usage>>;
    /// The kernel's number of the cgroup, by which the tracer knows it.
    fn id(&self) -> Result<Option<u64>>;
    /// Kills all members, however deep their trees, and waits until none is left.
    fn kill(&self) -> Result<()>;
}

/// A reading of what a group used since it was made.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// CPU time in microseconds, of members that have ended too.
    pub cpu_us: u64,
    /// Of it in user space.
    pub user_us: u64,
    /// The scheduler's figures of each thread that is there now.
    pub threads: ThreadStats,
}

/// cgroups below `metasched/WORKLOAD`, which the guard empties if we are killed.
#[derive(Debug)]
pub struct Cgroups {
    guard: Option<Guard>,
}

impl Cgroups {
    /// cgroups that this guard watches.
    pub fn new(guard: Option<Guard>) -> Self {
        Self { guard }
    }
}

impl Groups for Cgroups {
    fn group(&self, workload: &str, name: &str) -> Result<Box<dyn Group>> {
        let whole = Cgroup::create(&top(workload))?;
        if let Some(guard) = &self.guard {
            guard.watch_cgroup(whole.path())?;
        }
        let cgroup = Cgroup::create(&cgroup_name(workload, name))?;
        // A metasched that was killed together with its guard may have left some.
        cgroup.kill()?;
        Ok(Box::new(Placed(cgroup)))
    }

    fn close(&self, workload: &str) -> Result<()> {
        let whole = Cgroup::create(&top(workload))?;
        whole.kill()?;
        whole.remove()?;
        match &self.guard {
            Some(guard) => guard.unwatch_cgroup(whole.path()),
            None => Ok(()),
        }
    }
}

/// The path, below the mount point, of a workload's cgroup.
pub fn cgroup_name(workload: &str, name: &str) -> String {
    format!("{}/{name}", top(workload))
}

/// The path of the cgroup that all of a workload is in, its load too.
pub(crate) fn top(workload: &str) -> String {
    format!("metasched/{workload}")
}

#[derive(Debug)]
struct Placed(Cgroup);

impl Group for Placed {
    fn place(&self, spawn: Spawn) -> Spawn {
        spawn.cgroup(&self.0)
    }

    fn usage(&self) -> Result<Option<Usage>> {
        let cpu = self.0.cpu_stat()?;
        let threads = self.0.threads()?;
        Ok(Some(Usage { cpu_us: cpu.usage_usec, user_us: cpu.user_usec, threads }))
    }

    fn id(&self) -> Result<Option<u64>> {
        self.0.id().map(Some)
    }

    fn kill(&self) -> Result<()> {
        self.0.kill()
    }
}
