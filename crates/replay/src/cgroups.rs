//! The cgroups of a replay, below one of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use metasched_base::Result;
use metasched_host::cgroup::{Cgroup, MOUNT, of_process};
use metasched_host::process::of_the_gone;
use nix::unistd::getpid;

use crate::events::{carry_out, cgroup_of};
use crate::replayable::Replayable;

/// The tasks of no cgroup have one too, so that what looks at the clock is in another.
const ROOT: &str = "_root";

/// What the names of replays' own cgroups begin with; the process's id follows.
const OWN: &str = "replay-";

/// All of them.
pub struct Cgroups {
    base: Cgroup,
    /// Where this process was before.
    home: Option<String>,
    /// By their paths in the scenario; the root's is empty.
    pub by_path: BTreeMap<String, Cgroup>,
}

impl Cgroups {
    pub fn make(replayable: &Replayable) -> Result<Cgroups> {
        let home = of_process(Path::new("/"), "self");
        let name = format!("metasched/{OWN}{}", getpid());
        remove_those_of_the_dead(&Path::new("/").join(MOUNT).join("metasched"));
        let base = Cgroup::create(&name)?;
        let mut built = Cgroups { base, home, by_path: BTreeMap::new() };
        match built.fill(replayable, &name) {
            Ok(()) => Ok(built),
            Err(error) => {
                // What went wrong first is what is told.
                let _ = built.remove();
                Err(error)
            }
        }
    }

    fn fill(&mut self, replayable: &Replayable, name: &str) -> Result<()> {
        let lanes = replayable.file.lanes.iter().map(|lane| lane.cgroup.as_str());
        let told = replayable.file.changes().filter_map(cgroup_of);
        let used = replayable.cgroups.iter().map(String::as_str).chain(told).chain(lanes);
        let used: BTreeSet<String> = used.map(str::to_owned).collect();
        // Those above them too; parents come first in this order.
        let mut paths = BTreeSet::new();
        for path in &used {
            let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
            paths.extend(above.filter(|above| !above.is_empty()).map(str::to_owned));
            paths.insert(path.clone());
        }
        for path in paths {
            let folder = if path.is_empty() { ROOT } else { &path };
            let cgroup = Cgroup::create(&format!("{name}/{folder}"))?;
            cgroup.make_threaded()?;
            self.by_path.insert(path, cgroup);
        }
        for change in &replayable.file.cgroups {
            carry_out(change, |path| self.by_path.get(path), |_| Vec::new())?;
        }
        self.base.add(getpid().as_raw())
    }

    /// The ids of these cgroups.
    ///
    /// # Errors
    /// When one is gone.
    pub fn ids<'a>(&self, paths: impl IntoIterator<Item = &'a String>) -> Result<Vec<u64>> {
        paths.into_iter().map(|path| self.by_path[path].id()).collect()
    }

    /// Takes this process out of them, and removes them.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn remove(self) -> Result<()> {
        let home = Path::new("/").join(MOUNT).join(self.home.as_deref().unwrap_or_default());
        Cgroup::open(&home)?.add(getpid().as_raw())?;
        self.base.remove()
    }
}

/// Removes the cgroups of replays that were killed: their threads are gone, and nobody is left to
/// remove them. What cannot be removed harms nobody, and is tried again by the next replay.
fn remove_those_of_the_dead(folder: &Path) {
    for cgroup in of_the_gone(folder, OWN).iter().filter_map(|path| Cgroup::open(path).ok()) {
        // That of a process of another container is in use.
        if !cgroup.is_populated() {
            let _ = cgroup.remove();
        }
    }
}
