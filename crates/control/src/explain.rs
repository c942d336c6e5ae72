//! Who is on which lane, and why, as the keeper has it.

use std::collections::BTreeMap;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_host::cgroup::Cgroup;
use metasched_loader::LaneInfo;
use serde::Serialize;

use crate::assignments::{App, Member};
use crate::keeper::KeeperStatus;
use crate::rules::{Pattern, RuleApp, Why};

/// Who is on which lane, and why.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Those that have lanes.
    pub apps: Vec<Explained>,
    /// Those of the rules that have none.
    pub without_lane: Vec<RuleApp>,
    /// Cgroups that are back on the default lane below one that is flagged latency-aware.
    pub exempt: BTreeMap<String, Member>,
    /// The policy of the default lane.
    pub default: String,
    /// The cgroup that was asked for, if one was.
    pub cgroup: Option<Located>,
}

/// Where a cgroup has its lane from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Located {
    /// Its path below the mount point.
    pub cgroup: String,
    /// Itself, or the one above it with which it goes along.
    pub from: String,
    /// The rule that put that one there; `None` where a user did.
    pub rule: Option<Pattern>,
    /// The application whose lane that is; `None` for the default lane.
    pub app: Option<String>,
    /// Whether it is flagged latency-aware.
    pub latency_aware: bool,
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
            exempt: status.exempt.clone(),
            default: status.scheduler.name.clone(),
            cgroup: None,
        }
    }

    /// Leaves only the application that is meant: by its name, or by a cgroup, of which it
    /// says where it has its lane from.
    ///
    /// # Errors
    /// `BadInput` where there is none, with those that there are.
    pub fn narrow(&mut self, root: &Path, wanted: &str) -> Result<()> {
        let names = self.apps.iter().map(|explained| &explained.app.name);
        let names = names.chain(self.without_lane.iter().map(|app| &app.name));
        let known: Vec<&str> = names.map(String::as_str).collect();
        let name = if known.contains(&wanted) {
            Some(wanted.to_owned())
        } else {
            let all = known.join(", ");
            self.cgroup = self.locate(root, wanted);
            let located = self.cgroup.as_ref().ok_or_else(|| {
                Error::new(
                    Kind::BadInput,
                    format!("explain '{wanted}'"),
                    "no application has that name, and no cgroup that is on a lane",
                )
                .remedy(format!("there are: {all}; everything else is on the default lane"))
            })?;
            located.app.clone()
        };
        self.apps.retain(|explained| Some(&explained.app.name) == name.as_ref());
        self.without_lane.retain(|app| Some(&app.name) == name.as_ref());
        self.exempt.clear();
        Ok(())
    }

    /// Where a cgroup has its lane from: itself, or the nearest one above it that was put somewhere.
    fn locate(&self, root: &Path, cgroup: &str) -> Option<Located> {
        let path = Cgroup::find(root, cgroup).ok()?.name();
        let located = |from: &str, member: &Member, app: Option<&App>| Located {
            cgroup: path.clone(),
            from: from.to_owned(),
            rule: member.rule.clone(),
            app: app.map(|app| app.name.clone()),
            latency_aware: app.is_some_and(|app| app.why == Why::LatencyAware),
        };
        let mut above = Path::new(&path).ancestors().filter_map(Path::to_str);
        above.find_map(|from| {
            let mut apps = self.apps.iter().map(|explained| &explained.app);
            let of_app = |app: &App| Some(located(from, app.cgroups.get(from)?, Some(app)));
            apps.find_map(of_app).or_else(|| Some(located(from, self.exempt.get(from)?, None)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        for path in ["", "s", "s/front", "s/front/inner", "s/front/out/in", "other"] {
            let folder = root.path().join("sys/fs/cgroup").join(path);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.controllers"), "").unwrap();
        }
        let out = root.path().join("sys/fs/cgroup/s/front/out");
        std::fs::write(out.join("cgroup.controllers"), "").unwrap();
        let all = || {
            let apps = [app("front", "s/front"), app("x", "x")];
            let apps = apps.map(|app| Explained { app, weight: Some(160) }).to_vec();
            let out = Member { id: 2, rule: Some(Pattern::LatencyAware(false)) };
            Explanation {
                apps,
                without_lane: Vec::new(),
                exempt: [("s/front/out".to_owned(), out)].into(),
                default: "vtime".to_owned(),
                cgroup: None,
            }
        };
        for wanted in ["front", "s/front", "inner"] {
            let mut view = all();
            view.narrow(root.path(), wanted).unwrap();
            assert_eq!(view.apps.len(), 1, "{wanted}");
            assert_eq!(view.apps[0].app.name, "front");
        }
        let located = |wanted: &str| {
            let mut view = all();
            view.narrow(root.path(), wanted).unwrap();
            (view.apps.len(), view.cgroup)
        };
        assert_eq!(located("front").1, None, "an application");
        let inner = located("s/front/inner").1.unwrap();
        assert_eq!((inner.from.as_str(), inner.app.as_deref()), ("s/front", Some("front")));
        let (apps, out) = located("s/front/out/in");
        let out = out.unwrap();
        assert_eq!((apps, out.from.as_str(), out.app), (0, "s/front/out", None));
        let e = all().narrow(root.path(), "other").unwrap_err();
        assert!(e.to_string().contains("there are: front, x"), "{e}");
    }
}
