//! Which cgroups are on which lanes: what users asked for, what rules say, and what was
//! written to the kernel's table for it.

mod follow;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use metasched_base::{Error, Kind, Result};
use metasched_host::cgroup::{Cgroup, MOUNT};
use metasched_loader::{APPS, BACK_TO_ROOT, DEFAULT_WEIGHT, LaneSpec, Quarantine};
use serde::{Deserialize, Serialize};

use crate::program::LaneProgram;
use crate::rules::{LATENCY_AWARE_POLICY, Pattern, RuleApp, Standing, Why};

/// Below which cgroup those are made that go with one command.
pub const BRIEF_CGROUPS: &str = "metasched/run";

/// An application: cgroups that share a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// Its number in the kernel's table, from 1.
    pub number: u32,
    /// What users know it by: its name in the rules, or the cgroup that was assigned.
    pub name: String,
    /// What its lane is to be.
    pub lane: LaneSpec,
    /// Why it is that.
    pub why: Why,
    /// Its share by the strategy, of 1, where its weight follows from that.
    pub share: Option<f64>,
    /// How often its lane was replaced by another one.
    pub replaced: u64,
    /// Whether its policy did not dispatch: then its cgroups are on the default lane until
    /// they are assigned again.
    pub quarantined: bool,
    /// Its cgroups, by their path below the mount point.
    pub cgroups: BTreeMap<String, Member>,
}

/// A cgroup of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The kernel's number of it.
    pub id: u64,
    /// The rule that put it there; `None` where a user did.
    pub rule: Option<Pattern>,
}

/// What an assignment changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The cgroup was not assigned before.
    Assigned,
    /// It was, and got a new lane in place of the old one.
    Replaced,
    /// Its lane has another weight or option now.
    Adjusted,
    /// It was so already.
    Unchanged,
}

/// An assignment that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assigned {
    /// The cgroup's path below the mount point.
    pub cgroup: String,
    /// Its application's number.
    pub app: u32,
    /// What its lane is.
    pub lane: LaneSpec,
    /// What was changed.
    pub change: Change,
    /// How long the calls took that put a lane in force, nanoseconds; `None` where no
    /// lane was made.
    pub write_ns: Option<u64>,
}

/// The table as user space knows it. A method that fails leaves it, and the kernel's,
/// as they were.
#[derive(Debug)]
pub struct Assignments {
    root: PathBuf,
    apps: BTreeMap<u32, App>,
    /// Cgroups that a rule has put back on the default lane below a flagged one.
    exempt: BTreeMap<String, Member>,
    /// Cgroups, by their ids, that a user unassigned: no rule assigns them again.
    unassigned: BTreeMap<u64, String>,
    /// Cgroups that were made for one command, and go with it.
    brief: BTreeSet<String>,
}

impl Assignments {
    /// An empty one, for the file system below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            apps: BTreeMap::new(),
            exempt: BTreeMap::new(),
            unassigned: BTreeMap::new(),
            brief: BTreeSet::new(),
        }
    }

    /// Every application that has a lane.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.apps.values()
    }

    /// The cgroups that a rule has put back on the default lane, by their paths.
    pub fn exempt(&self) -> &BTreeMap<String, Member> {
        &self.exempt
    }

    /// Whether nothing is assigned.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }

    /// Puts a cgroup, named as [`Cgroup::find`] takes it, on a lane of its own.
    ///
    /// # Errors
    /// `BadInput` for a cgroup or a lane that cannot be; `Busy` when there are too many.
    pub fn assign(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroup: &str,
        lane: &LaneSpec,
    ) -> Result<Assigned> {
        lane.check()?;
        let group = self.find(program, cgroup, &lane.policy)?;
        let (name, id) = (group.name(), group.id()?);
        let weight = group.cpu_weight().unwrap_or(DEFAULT_WEIGHT);
        let done = |app, change, write_ns| Assigned {
            cgroup: name.clone(),
            app,
            lane: lane.clone(),
            change,
            write_ns,
        };
        let by_hand = |app: &&mut App| app.why == Why::Hand && app.cgroups.contains_key(&name);
        if let Some(app) = self.apps.values_mut().find(by_hand) {
            let number = app.number;
            if app.lane == *lane && !app.quarantined {
                return Ok(done(number, Change::Unchanged, None));
            }
            let same_but_weight = LaneSpec { weight: app.lane.weight, ..lane.clone() };
            if same_but_weight == app.lane && lane.weight.is_some() && !app.quarantined {
                program.set_lane(number, lane)?;
                app.lane = lane.clone();
                return Ok(done(number, Change::Adjusted, None));
            }
            let written = program.set_app(number, lane, weight)?;
            app.lane = lane.clone();
            app.replaced += 1;
            app.quarantined = false;
            return Ok(done(number, Change::Replaced, Some(written.write_ns)));
        }
        let app = RuleApp {
            name: name.clone(),
            lane: Some(lane.clone()),
            why: Why::Hand,
            share: None,
            patterns: Vec::new(),
        };
        let (number, write_ns) = self.make(program, &name, &app)?;
        let earlier = self.move_to(program, number, &name, Member { id, rule: None })?;
        self.unassigned.remove(&id);
        let change = if earlier { Change::Replaced } else { Change::Assigned };
        Ok(done(number, change, Some(write_ns)))
    }

    /// Puts a cgroup, named as [`Cgroup::find`] takes it, on the lane of those that are flagged
    /// latency-aware, which is made as `app` says for the first one, and has these options from now on.
    ///
    /// # Errors
    /// As [`Assignments::assign`].
    pub fn flag(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroup: &str,
        app: &RuleApp,
        options: &BTreeMap<String, u64>,
    ) -> Result<Assigned> {
        let changed = |lane: &LaneSpec| {
            let mut lane = lane.clone();
            lane.options.extend(options.clone());
            lane
        };
        let asked = LaneSpec { options: options.clone(), ..LaneSpec::of(LATENCY_AWARE_POLICY) };
        asked.check()?;
        let group = self.find(program, cgroup, LATENCY_AWARE_POLICY)?;
        let (name, member) = (group.name(), Member { id: group.id()?, rule: None });
        let id = member.id;
        let shared = self.apps.values_mut().find(|app| app.why == Why::LatencyAware);
        let (number, change, write_ns) = match shared {
            None => {
                let lane = app.lane.as_ref().map(changed);
                let app = RuleApp { lane, ..app.clone() };
                let (number, write_ns) = self.make(program, &name, &app)?;
                (number, Change::Assigned, Some(write_ns))
            }
            Some(shared) if shared.quarantined => {
                let lane = changed(&shared.lane);
                let weight = group.cpu_weight().unwrap_or(DEFAULT_WEIGHT);
                let written = program.set_app(shared.number, &lane, weight)?;
                shared.lane = lane;
                shared.replaced += 1;
                shared.quarantined = false;
                (shared.number, Change::Replaced, Some(written.write_ns))
            }
            Some(shared) => {
                let lane = changed(&shared.lane);
                let change = if lane == shared.lane { Change::Unchanged } else { Change::Adjusted };
                if change == Change::Adjusted {
                    program.set_lane(shared.number, &asked)?;
                    shared.lane = lane;
                }
                (shared.number, change, None)
            }
        };
        let known = self.apps.get_mut(&number).and_then(|app| app.cgroups.get_mut(&name));
        let change = if let Some(known) = known.filter(|known| known.id == id) {
            // It was flagged by a rule, or by hand: now it is by hand.
            *known = member;
            change
        } else if self.move_to(program, number, &name, member)? {
            Change::Replaced
        } else {
            Change::Assigned
        };
        self.unassigned.remove(&id);
        let lane = self.apps[&number].lane.clone();
        Ok(Assigned { cgroup: name, app: number, lane, change, write_ns })
    }

    /// The cgroup that a user names, which cannot be the root. What vanished is forgotten first.
    fn find(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroup: &str,
        policy: &str,
    ) -> Result<Cgroup> {
        let group = Cgroup::find(&self.root, cgroup)?;
        if group.name().is_empty() {
            return Err(Error::new(
                Kind::BadInput,
                "assign the root of the hierarchy",
                "what is assigned to nothing else is on the default lane anyway",
            )
            .remedy(format!("change that one: metasched switch {policy}")));
        }
        self.forget_what_vanished(program)?;
        Ok(group)
    }

    /// Makes the lane of an application that has no cgroup yet, weighted by the one for which it is made
    /// where that is left open; its number, and how long that took in nanoseconds.
    fn make(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroup: &str,
        app: &RuleApp,
    ) -> Result<(u32, u64)> {
        let lane = app.lane.clone().ok_or_else(|| {
            Error::new(Kind::Failed, format!("put '{cgroup}' on a lane"), "its rule has none")
        })?;
        let number = self.free_number(cgroup)?;
        // One that vanished has no weight; that it did is found out soon.
        let group = Cgroup::find(&self.root, &format!("/{cgroup}/"));
        let weight = group.ok().and_then(|group| group.cpu_weight()).unwrap_or(DEFAULT_WEIGHT);
        let written = program.set_app(number, &lane, weight)?;
        let made = App {
            number,
            name: app.name.clone(),
            lane,
            why: app.why.clone(),
            share: app.share,
            replaced: 0,
            quarantined: false,
            cgroups: BTreeMap::new(),
        };
        self.apps.insert(number, made);
        Ok((number, written.write_ns))
    }

    /// Puts cgroups on one lane that they share: the first as [`Assignments::assign`] does,
    /// the others beside it.
    ///
    /// # Errors
    /// As there. What was assigned before one failed stays.
    pub fn assign_all(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroups: &[String],
        lane: &LaneSpec,
    ) -> Result<()> {
        let Some((first, others)) = cgroups.split_first() else { return Ok(()) };
        let number = self.assign(program, first, lane)?.app;
        for cgroup in others {
            let group = Cgroup::find(&self.root, cgroup)?;
            let member = Member { id: group.id()?, rule: None };
            self.move_to(program, number, &group.name(), member)?;
        }
        Ok(())
    }

    /// Puts a cgroup into an application that has a lane, or back on the default lane, and takes it out of
    /// the application that it was in; true if it was in one. An application that has no cgroup goes,
    /// also when this fails.
    fn move_to(
        &mut self,
        program: &mut dyn LaneProgram,
        number: u32,
        name: &str,
        member: Member,
    ) -> Result<bool> {
        if let Err(error) = program.assign(member.id, number) {
            self.drop_if_empty(program, number)?;
            return Err(error);
        }
        let id = member.id;
        let earlier = self.number_of(name).ok();
        let before = match earlier.and_then(|number| self.apps.get_mut(&number)) {
            Some(app) => app.cgroups.remove(name),
            None => self.exempt.remove(name),
        };
        if number == BACK_TO_ROOT {
            self.exempt.insert(name.to_owned(), member);
        } else if let Some(app) = self.apps.get_mut(&number) {
            app.cgroups.insert(name.to_owned(), member);
        }
        if let Some(before) = before.filter(|before| before.id != id) {
            take_off(program, before.id)?;
        }
        if let Some(earlier) = earlier {
            self.drop_if_empty(program, earlier)?;
        }
        Ok(earlier.is_some())
    }

    fn free_number(&self, cgroup: &str) -> Result<u32> {
        (1..=APPS).find(|number| !self.apps.contains_key(number)).ok_or_else(|| {
            Error::new(
                Kind::Busy,
                format!("assign '{cgroup}'"),
                format!("{APPS} applications have lanes, and there are no more"),
            )
            .remedy("assign a cgroup further up, or unassign one: metasched lane unassign")
        })
    }

    /// Takes a cgroup off its lane; the lane goes when it was its last one. Gives what
    /// was assigned.
    ///
    /// # Errors
    /// `BadInput` if it is not assigned.
    pub fn unassign(&mut self, program: &mut dyn LaneProgram, cgroup: &str) -> Result<App> {
        // One that has vanished can still be named.
        let name = Cgroup::find(&self.root, cgroup)
            .map_or_else(|_| cgroup.trim_matches('/').to_owned(), |group| group.name());
        let number = self.number_of(&name)?;
        let mut before = self.apps[&number].clone();
        before.cgroups.retain(|cgroup, _| *cgroup == name);
        self.remove(program, number, &name)?;
        self.unassigned.extend(before.cgroups.values().map(|member| (member.id, name.clone())));
        Ok(before)
    }

    /// Takes every cgroup off its lane.
    ///
    /// # Errors
    /// `SchedulerExit` if the program has left the kernel: then nothing is assigned.
    pub fn clear(&mut self, program: &mut dyn LaneProgram) -> Result<()> {
        self.brief.clear();
        for member in std::mem::take(&mut self.exempt).into_values() {
            take_off(program, member.id)?;
        }
        for app in std::mem::take(&mut self.apps).into_values() {
            for member in app.cgroups.into_values() {
                take_off(program, member.id)?;
            }
            drop_lane(program, app.number)?;
        }
        Ok(())
    }

    /// What a user has said of a cgroup.
    pub fn standing(&self, name: &str, id: u64) -> Standing {
        let by_hand = |app: &&App| {
            app.cgroups.get(name).is_some_and(|member| member.id == id && member.rule.is_none())
        };
        if self.unassigned.contains_key(&id) {
            return Standing::Unassigned;
        }
        match self.apps.values().find(by_hand) {
            Some(app) if app.why == Why::LatencyAware => Standing::Flagged,
            Some(_) => Standing::Assigned,
            None => Standing::Free,
        }
    }

    /// Changes the lane of a cgroup in place: the weight, and those options that are named.
    ///
    /// # Errors
    /// `BadInput` if it is not assigned, or for what no lane can be.
    pub fn adjust(
        &mut self,
        program: &mut dyn LaneProgram,
        cgroup: &str,
        weight: Option<u32>,
        options: &BTreeMap<String, u64>,
    ) -> Result<Assigned> {
        let name = Cgroup::find(&self.root, cgroup)?.name();
        let number = self.number_of(&name)?;
        let app = self.apps.get_mut(&number).expect("it was just found");
        if app.quarantined {
            let policy = &app.lane.policy;
            return Err(Error::new(
                Kind::BadInput,
                format!("change the lane of '{name}'"),
                format!("it has none: the policy '{policy}' did not dispatch"),
            )
            .remedy(format!("assign it to another policy: metasched lane assign {name} POLICY")));
        }
        let change = LaneSpec { policy: app.lane.policy.clone(), weight, options: options.clone() };
        change.check()?;
        program.set_lane(number, &change)?;
        app.lane.weight = weight.or(app.lane.weight);
        app.lane.options.extend(change.options);
        Ok(Assigned {
            cgroup: name,
            app: number,
            lane: app.lane.clone(),
            change: Change::Adjusted,
            write_ns: None,
        })
    }

    /// Notes which of these applications have lost their lanes for good: one may have got
    /// another lane at the same moment.
    pub fn note_quarantines(
        &mut self,
        program: &dyn LaneProgram,
        quarantines: &[Quarantine],
    ) -> Result<()> {
        let lanes = program.lanes()?;
        for quarantine in quarantines {
            if let Some(app) = self.apps.get_mut(&quarantine.app) {
                app.quarantined = !lanes
                    .iter()
                    .any(|lane| lane.app == app.number && lane.is_apps() && !lane.quarantined);
            }
        }
        Ok(())
    }

    /// Has a cgroup removed as soon as nobody is in it any more: see
    /// [`Assignments::remove_what_is_empty`].
    pub fn remove_when_empty(&mut self, cgroup: &str) {
        self.brief.insert(cgroup.to_owned());
    }

    /// The same for those that were made for commands under an earlier keeper, which has ended
    /// since. Their commands may run still.
    pub fn remove_what_was_left(&mut self) {
        let parent = self.root.join(MOUNT).join(BRIEF_CGROUPS);
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if let (Ok(kind), Some(name)) = (entry.file_type(), entry.file_name().to_str())
                && kind.is_dir()
            {
                self.remove_when_empty(&format!("{BRIEF_CGROUPS}/{name}"));
            }
        }
    }

    /// Removes those cgroups that were made for a command which has ended.
    pub fn remove_what_is_empty(&mut self) {
        self.brief.retain(|name| {
            let path = self.root.join(MOUNT).join(name);
            // The kernel refuses while anybody is in it.
            path.is_dir() && std::fs::remove_dir(path).is_err()
        });
    }

    /// Forgets cgroups that were removed, and lanes that so have none left. The kernel
    /// never gives the id of a removed cgroup to another one.
    pub fn forget_what_vanished(&mut self, program: &mut dyn LaneProgram) -> Result<()> {
        self.remove_what_is_empty();
        let mount = self.root.join(MOUNT);
        let is_there = |name: &str, id: u64| {
            std::fs::metadata(mount.join(name)).is_ok_and(|folder| folder.ino() == id)
        };
        self.unassigned.retain(|id, name| is_there(name, *id));
        let mut vanished = Vec::new();
        for app in self.apps.values() {
            let gone = app.cgroups.iter().filter(|(name, member)| !is_there(name, member.id));
            vanished.extend(gone.map(|(name, _)| (app.number, name.clone())));
        }
        for (number, name) in vanished {
            self.remove(program, number, &name)?;
        }
        let exempt = self.exempt.iter().filter(|(name, member)| !is_there(name, member.id));
        let vanished: Vec<String> = exempt.map(|(name, _)| name.clone()).collect();
        vanished.iter().try_for_each(|name| self.include(program, name))
    }

    fn number_of(&self, name: &str) -> Result<u32> {
        let found = self.apps.values().find(|app| app.cgroups.contains_key(name));
        found.map(|app| app.number).ok_or_else(|| {
            Error::new(Kind::BadInput, format!("change the lane of '{name}'"), "it is not assigned")
                .remedy("'metasched lane list' shows what is; a cgroup below one that is inherits")
        })
    }

    fn remove(&mut self, program: &mut dyn LaneProgram, number: u32, name: &str) -> Result<()> {
        let Some(app) = self.apps.get_mut(&number) else { return Ok(()) };
        let Some(id) = app.cgroups.get(name).map(|member| member.id) else { return Ok(()) };
        take_off(program, id)?;
        app.cgroups.remove(name);
        self.drop_if_empty(program, number)
    }

    /// Takes back that a cgroup was put on the default lane.
    fn include(&mut self, program: &mut dyn LaneProgram, name: &str) -> Result<()> {
        if let Some(member) = self.exempt.get(name) {
            take_off(program, member.id)?;
            self.exempt.remove(name);
        }
        Ok(())
    }

    fn drop_if_empty(&mut self, program: &mut dyn LaneProgram, number: u32) -> Result<()> {
        if self.apps.get(&number).is_some_and(|app| app.cgroups.is_empty()) {
            self.apps.remove(&number);
            drop_lane(program, number)?;
        }
        Ok(())
    }
}

/// Undoes the assignment of a cgroup in the kernel's table, if it is there.
fn take_off(program: &mut dyn LaneProgram, id: u64) -> Result<()> {
    match program.unassign(id) {
        // It was removed while it was being assigned, and the kernel has let go of it.
        Err(error) if error.kind == Kind::BadInput => Ok(()),
        done => done,
    }
}

/// Takes an application's lane away, if it has one.
fn drop_lane(program: &mut dyn LaneProgram, number: u32) -> Result<()> {
    match program.drop_app(number) {
        // One in quarantine, perhaps from this moment on, has lost its lane already.
        Err(error) if error.kind == Kind::BadInput => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod exhaustive;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;
    use std::fs;

    /// A program of ours that pretends, and the cgroups `a` and `a/b`.
    fn pretended(machine: &FakeMachine) -> (Box<dyn LaneProgram>, Assignments) {
        machine.make_cgroups(&["a/b"]);
        let program = machine.options().loader.load(&LaneSpec::of("fifo")).unwrap();
        (program, Assignments::new(machine.root.path()))
    }

    fn lane(policy: &str, weight: Option<u32>) -> LaneSpec {
        LaneSpec { weight, ..LaneSpec::of(policy) }
    }

    fn log(machine: &FakeMachine) -> Vec<String> {
        machine.program.lock().unwrap().log.drain(..).collect()
    }

    #[test]
    fn a_cgroup_gets_a_lane_another_one_and_none() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        let folder = machine.root.path().join("sys/fs/cgroup/a");
        fs::write(folder.join("cpu.weight"), "250\n").unwrap();
        log(&machine);
        let said = table.assign(&mut *program, "a", &lane("vtime", None)).unwrap();
        assert_eq!((said.app, said.change), (1, Change::Assigned));
        let id = table.apps().next().unwrap().cgroups["a"].id;
        assert_eq!(log(&machine), ["app 1: vtime 250".to_owned(), format!("assign {id} 1")]);

        let said = table.assign(&mut *program, "a", &lane("vtime", None)).unwrap();
        assert_eq!(said.change, Change::Unchanged);
        let said = table.assign(&mut *program, "a", &lane("vtime", Some(300))).unwrap();
        assert_eq!(said.change, Change::Adjusted);
        let said = table.assign(&mut *program, "a", &lane("fifo", Some(300))).unwrap();
        assert_eq!(said.change, Change::Replaced);
        assert_eq!(log(&machine), ["set 1: vtime Some(300)", "app 1: fifo 250"]);
        assert_eq!(table.apps().next().unwrap().replaced, 1);

        table.unassign(&mut *program, "a").unwrap();
        assert_eq!(log(&machine), [format!("unassign {id}"), "drop 1".to_owned()]);
        assert!(table.is_empty());
    }

    #[test]
    fn clearing_takes_every_cgroup_off_its_lane() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        table.assign(&mut *program, "a", &lane("fifo", None)).unwrap();
        table.assign(&mut *program, "a/b", &lane("vtime", None)).unwrap();
        log(&machine);
        table.clear(&mut *program).unwrap();
        assert!(table.is_empty());
        let log = log(&machine);
        assert_eq!((log.len(), &*log[1], &*log[3]), (4, "drop 1", "drop 2"));
    }

    #[test]
    fn a_refusal_leaves_the_table_as_it_was() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        log(&machine);
        for (cgroup, lane) in [
            ("nowhere", lane("fifo", None)),
            ("a", lane("lavd", None)),
            ("a", lane("fifo", Some(0))),
            ("/", lane("fifo", None)),
        ] {
            let error = table.assign(&mut *program, cgroup, &lane).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput, "{error}");
            assert!(!error.remedy.is_empty(), "{error}");
        }
        assert_eq!(table.unassign(&mut *program, "a").unwrap_err().kind, Kind::BadInput);
        assert!(table.is_empty() && log(&machine).is_empty());
    }

    #[test]
    fn a_cgroup_that_vanished_is_forgotten_with_its_lane() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        table.assign(&mut *program, "a/b", &lane("fifo", None)).unwrap();
        table.assign(&mut *program, "a", &lane("fifo", None)).unwrap();
        fs::remove_dir_all(machine.root.path().join("sys/fs/cgroup/a/b")).unwrap();
        log(&machine);
        table.forget_what_vanished(&mut *program).unwrap();
        assert_eq!(table.apps().map(|app| app.number).collect::<Vec<_>>(), [2]);
        assert_eq!(log(&machine)[1], "drop 1");
    }

    #[test]
    fn a_cgroup_has_one_name_however_it_is_written() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        table.assign(&mut *program, "a/b", &lane("fifo", None)).unwrap();
        let said = table.assign(&mut *program, "a//b", &lane("vtime", None)).unwrap();
        assert_eq!((said.cgroup.as_str(), said.change), ("a/b", Change::Replaced));
        assert_eq!(table.apps().count(), 1);
    }

    #[test]
    fn a_cgroup_that_the_kernel_has_let_go_of_already_is_forgotten_all_the_same() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        let folder = machine.root.path().join("sys/fs/cgroup/a/b");
        table.assign(&mut *program, "a/b", &lane("fifo", None)).unwrap();
        machine.program.lock().unwrap().assigned.clear();
        fs::remove_dir_all(&folder).unwrap();
        table.forget_what_vanished(&mut *program).unwrap();
        assert!(table.is_empty());
        // As of a rule, which puts what was made anew onto the same lane.
        table.assign(&mut *program, "a", &lane("fifo", None)).unwrap();
        machine.program.lock().unwrap().assigned.clear();
        let anew = Member { id: 1, rule: None };
        assert!(table.move_to(&mut *program, 1, "a", anew).unwrap());
        machine.program.lock().unwrap().assigned.clear();
        table.clear(&mut *program).unwrap();
    }

    #[test]
    fn a_cgroup_in_quarantine_gets_a_lane_again_when_it_is_assigned_again() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        table.assign(&mut *program, "a", &lane("fifo", None)).unwrap();
        let quarantine = Quarantine {
            app: 1,
            policy: "fifo".to_owned(),
            at_ns: 1,
            unserved_ns: 1,
            nr_queued: 1,
            rescues: 1,
        };
        // The program that pretends has no lanes, so the application has lost its own.
        table.note_quarantines(&*program, &[quarantine]).unwrap();
        assert!(table.apps().next().unwrap().quarantined);
        let error = table.adjust(&mut *program, "a", Some(5), &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("metasched lane assign a POLICY"), "{error}");
        let said = table.assign(&mut *program, "a", &lane("fifo", None)).unwrap();
        assert_eq!(said.change, Change::Replaced);
        assert!(!table.apps().next().unwrap().quarantined);
    }

    #[test]
    fn an_application_that_has_lost_its_lane_can_still_be_forgotten() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        table.assign(&mut *program, "a/b", &lane("fifo", None)).unwrap();
        machine.program.lock().unwrap().lanes.remove(&1);
        fs::remove_dir_all(machine.root.path().join("sys/fs/cgroup/a/b")).unwrap();
        table.forget_what_vanished(&mut *program).unwrap();
        assert!(table.is_empty());
    }

    #[test]
    fn flagged_cgroups_share_one_lane_and_its_options() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        machine.make_cgroups(&["c"]);
        let app = RuleApp::latency_aware_by_default();
        let none = BTreeMap::new();
        let slice = BTreeMap::from([("slice_ns".to_owned(), 3_000_000)]);
        log(&machine);
        let mut flag = |table: &mut Assignments, cgroup: &str, options: &BTreeMap<String, u64>| {
            let said = table.flag(&mut *program, cgroup, &app, options).unwrap();
            (said.app, said.change)
        };
        assert_eq!(flag(&mut table, "a", &none), (1, Change::Assigned));
        assert_eq!(flag(&mut table, "a/b", &none), (1, Change::Assigned));
        assert_eq!(flag(&mut table, "a", &none), (1, Change::Unchanged));
        assert_eq!(flag(&mut table, "a", &slice), (1, Change::Adjusted));
        assert_eq!(flag(&mut table, "c", &none), (1, Change::Assigned), "what it has stays");
        let shared = table.apps().next().unwrap();
        assert_eq!((shared.cgroups.len(), &shared.lane.options), (3, &slice));
        let said = log(&machine);
        let said: Vec<&String> = said.iter().filter(|line| !line.starts_with("assign")).collect();
        assert_eq!(said, ["app 1: lags 100", "set 1: lags None"]);

        // Another lane by hand, and back.
        table.assign(&mut *program, "c", &lane("fifo", None)).unwrap();
        let said = table.flag(&mut *program, "c", &app, &none).unwrap();
        assert_eq!((said.app, said.change, table.apps().count()), (1, Change::Replaced, 1));
        let wrong = BTreeMap::from([("quantum".to_owned(), 1)]);
        for (cgroup, options) in [("/", &none), ("nowhere", &none), ("a", &wrong)] {
            let e = table.flag(&mut *program, cgroup, &app, options).unwrap_err();
            assert_eq!(e.kind, Kind::BadInput, "{e}");
        }
        for cgroup in ["a", "a/b", "c"] {
            table.unassign(&mut *program, cgroup).unwrap();
        }
        assert!(table.is_empty());
    }

    #[test]
    fn a_lane_of_flagged_cgroups_that_did_not_dispatch_is_made_anew_by_hand() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        let app = RuleApp::latency_aware_by_default();
        table.flag(&mut *program, "a", &app, &BTreeMap::new()).unwrap();
        machine.program.lock().unwrap().lanes.clear();
        table.apps.get_mut(&1).unwrap().quarantined = true;
        let said = table.flag(&mut *program, "a/b", &app, &BTreeMap::new()).unwrap();
        assert_eq!((said.app, said.change), (1, Change::Assigned));
        let shared = table.apps().next().unwrap();
        assert!(!shared.quarantined && shared.replaced == 1 && shared.cgroups.len() == 2);
    }

    #[test]
    fn when_there_are_too_many_the_last_is_refused() {
        let machine = FakeMachine::new();
        let (mut program, mut table) = pretended(&machine);
        for i in 0..=APPS {
            machine.make_cgroups(&[&format!("c{i}")]);
            let said = table.assign(&mut *program, &format!("c{i}"), &lane("fifo", None));
            if i < APPS {
                said.unwrap();
            } else {
                assert_eq!(said.unwrap_err().kind, Kind::Busy);
            }
        }
    }
}
