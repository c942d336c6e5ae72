//! Who is on which lane, and why, as the keeper has it.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_host::cgroup::Cgroup;
use metasched_loader::LaneInfo;
use serde::Serialize;

use crate::assignments::App;
use crate::keeper::KeeperStatus;
use crate::rules::RuleApp;

/// Who is on which lane, and why.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Those that have lanes.
    pub apps: Vec<Explained>,
    /// Those of the rules that have none.
    pub without_lane: Vec<RuleApp>,
    /// The policy of the default lane.
    pub default: String,
}

/// An application with its lane as the kernel has it.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// What is known of it.
    #[serde(flatten)]
    pub app: App,
    /// Its lane's weight; `None` when it was taken away because its policy did not dispatch.
    pub weight: Option<u32>,
}

impl Explanation {
    /// What the keeper holds.
    pub fn of(status: &KeeperStatus) -> Self {
        let weight = |app: &App| {
            let own =
                |lane: &&LaneInfo| lane.app == app.number && lane.is_apps() && !lane.quarantined;
            status.lanes.iter().find(own).map(|lane| lane.weight)
        };
        let explained = |app: &App| Explained { weight: weight(app), app: app.clone() };
        Self {
            apps: status.apps.iter().map(explained).collect(),
            without_lane: status.without_lane.clone(),
            default: status.scheduler.name.clone(),
        }
    }

    /// Leaves only the application that is meant: by its name, or by a cgroup.
    ///
    /// # Errors
    /// `BadInput` where there is none, with those that there are.
    pub fn narrow(&mut self, root: &Path, wanted: &str) -> Result<()> {
        let names = self.apps.iter().map(|explained| &explained.app.name);
        let names = names.chain(self.without_lane.iter().map(|app| &app.name));
        let known: Vec<&str> = names.map(String::as_str).collect();
        let name = if known.contains(&wanted) {
            wanted.to_owned()
        } else {
            let all = known.join(", ");
            self.nearest(root, wanted).ok_or_else(|| {
                Error::new(
                    Kind::BadInput,
                    format!("explain '{wanted}'"),
                    "no application has that name, and no cgroup that is on a lane",
                )
                .remedy(format!("there are: {all}; everything else is on the default lane"))
            })?
        };
        self.apps.retain(|explained| explained.app.name == name);
        self.without_lane.retain(|app| app.name == name);
        Ok(())
    }

    /// The application that a cgroup belongs to by itself or by one above it.
    fn nearest(&self, root: &Path, cgroup: &str) -> Option<String> {
        let path = Cgroup::find(root, cgroup).ok()?.name();
        let mut above = Path::new(&path).ancestors().filter_map(Path::to_str);
        above.find_map(|path| {
            let mut apps = self.apps.iter().map(|explained| &explained.app);
            apps.find(|app| app.cgroups.contains_key(path)).map(|app| app.name.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignments::Member;
    use crate::rules::Why;
    use metasched_loader::LaneSpec;

    fn app(name: &str, cgroup: &str) -> App {
        App {
            number: 1,
            name: name.to_owned(),
            lane: LaneSpec::of("fifo"),
            why: Why::Hand,
            share: None,
            replaced: 0,
            quarantined: false,
            cgroups: [(cgroup.to_owned(), Member { id: 1, rule: None })].into(),
        }
    }

    #[test]
    fn an_application_is_found_by_its_name_and_by_a_cgroup_below_one_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        for path in ["", "s", "s/front", "s/front/inner", "other"] {
            let folder = root.path().join("sys/fs/cgroup").join(path);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.controllers"), "").unwrap();
        }
        let all = || {
            let apps = [app("front", "s/front"), app("x", "x")];
            let apps = apps.map(|app| Explained { app, weight: Some(160) }).to_vec();
            Explanation { apps, without_lane: Vec::new(), default: "vtime".to_owned() }
        };
        for wanted in ["front", "s/front", "inner"] {
            let mut view = all();
            view.narrow(root.path(), wanted).unwrap();
            assert_eq!(view.apps.len(), 1, "{wanted}");
            assert_eq!(view.apps[0].app.name, "front");
        }
        let e = all().narrow(root.path(), "other").unwrap_err();
        assert!(e.to_string().contains("there are: front, x"), "{e}");
    }
}
