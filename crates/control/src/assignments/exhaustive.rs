//! Every sequence of a few operations on the table, with what must hold after each.

use std::collections::BTreeMap;
use std::fs;

use exhaustigen::Gen;
use metasched_host::cgroup::{Cgroup, MOUNT, Node, Tree};
use metasched_loader::{BACK_TO_ROOT, LaneSpec, Quarantine};

use super::Assignments;
use crate::fake::FakeMachine;
use crate::program::LaneProgram;
use crate::rules::{Commands, FLAG, Pattern, RuleApp, Rules, Standing, Why};

/// How long sequences are.
const LENGTH: usize = 4;

/// What users, rules and the kernel do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Assign(&'static str, &'static str),
    Flag(&'static str),
    /// Its attribute says so from the next comparison on.
    Mark(&'static str, &'static str),
    Unassign(&'static str),
    Adjust(&'static str),
    /// The cgroup is removed, and made anew.
    Renew(&'static str),
    /// Rules are compared with what there is.
    Follow,
    /// The kernel takes the lane of the first application away, and that is told.
    Quarantine,
    Clear,
}

const ALL: [Does; 13] = [
    Does::Assign("a", "fifo"),
    Does::Assign("a", "vtime"),
    Does::Assign("a/b", "fifo"),
    Does::Flag("a"),
    Does::Mark("a", "1"),
    Does::Mark("a/b", "0"),
    Does::Unassign("a"),
    Does::Unassign("a/b"),
    Does::Adjust("a/b"),
    Does::Renew("a/b"),
    Does::Follow,
    Does::Quarantine,
    Does::Clear,
];

/// How a quarantine is told of.
fn quarantine(app: u32) -> Quarantine {
    Quarantine {
        app,
        policy: "fifo".to_owned(),
        at_ns: 1,
        unserved_ns: 1,
        nr_queued: 1,
        rescues: 1,
    }
}

struct Scene {
    // Before its machine, for it says there that it goes.
    program: Box<dyn LaneProgram>,
    machine: FakeMachine,
    rules: Rules,
    table: Assignments,
    marks: BTreeMap<&'static str, &'static str>,
}

impl Scene {
    fn new() -> Self {
        let machine = FakeMachine::new();
        let program = machine.options().loader.load(&LaneSpec::of("fifo")).unwrap();
        let app = |name: &str, pattern| RuleApp {
            name: name.to_owned(),
            lane: Some(LaneSpec::of("vtime")),
            why: Why::CommandLine,
            share: None,
            patterns: vec![pattern],
        };
        let commands = |name: &str| Pattern::Commands(name.to_owned());
        let rules = vec![app("x", commands("x")), app("y", commands("y"))];
        machine.make_cgroups(&["a/b"]);
        let table = Assignments::new(machine.root.path());
        let rules = Rules::new(rules, true).unwrap();
        Self { machine, program, rules, table, marks: BTreeMap::new() }
    }

    /// As if nothing had been done before.
    fn begin(&mut self) {
        self.table = Assignments::new(self.machine.root.path());
        self.marks.clear();
        let mut kernel = self.machine.program.lock().unwrap();
        (kernel.assigned, kernel.lanes, kernel.log) = Default::default();
    }

    fn id(&self, path: &str) -> u64 {
        Cgroup::find(self.machine.root.path(), path).unwrap().id().unwrap()
    }

    /// What is done on the table has worked, or has been refused and has changed nothing.
    fn carry_out(&mut self, does: Does) {
        let before = self.table.apps.clone();
        let program = &mut *self.program;
        let done = match does {
            Does::Assign(path, policy) => {
                let lane = LaneSpec::of(policy);
                let done = self.table.assign(program, path, &lane).map(|_| ());
                assert_eq!(self.table.standing(path, self.id(path)), Standing::Assigned);
                done
            }
            Does::Flag(path) => {
                let app = RuleApp::latency_aware_by_default();
                let done = self.table.flag(program, path, &app, &BTreeMap::new()).map(|_| ());
                assert_eq!(self.table.standing(path, self.id(path)), Standing::Flagged);
                done
            }
            Does::Mark(path, value) => {
                self.marks.insert(path, value);
                Ok(())
            }
            Does::Unassign(path) => self.table.unassign(program, path).map(|_| ()),
            Does::Adjust(path) => {
                self.table.adjust(program, path, Some(300), &BTreeMap::new()).map(|_| ())
            }
            Does::Clear => self.table.clear(program),
            Does::Renew(path) => {
                self.renew(path);
                self.table.forget_what_vanished(&mut *self.program)
            }
            Does::Follow => {
                self.follow();
                Ok(())
            }
            Does::Quarantine => {
                let Some(app) = before.keys().next() else { return };
                self.machine.program.lock().unwrap().lanes.remove(app);
                self.table.note_quarantines(program, &[quarantine(*app)])
            }
        };
        if done.is_err() {
            assert_eq!(self.table.apps, before, "it was refused, and has changed something");
        }
    }

    /// Another cgroup takes the path, with an id that none had before; the kernel lets go of the old.
    fn renew(&self, path: &str) {
        let mount = self.machine.root.path().join(MOUNT);
        let (old, new) = (mount.join(path), mount.join("new"));
        fs::create_dir(&new).unwrap();
        fs::write(new.join("cgroup.controllers"), "cpu\n").unwrap();
        self.machine.program.lock().unwrap().assigned.remove(&self.id(path));
        fs::remove_dir_all(&old).unwrap();
        fs::rename(new, old).unwrap();
    }

    fn follow(&mut self) {
        let mut tree = Tree::default();
        for path in ["a", "a/b"] {
            let mark = self.marks.get(path).map(|value| (FLAG, (*value).to_owned()));
            tree.insert(path, Node { id: self.id(path), attributes: mark.into_iter().collect() });
        }
        // Where nothing is marked rules of commands count.
        let of = |path: &str, app: &str| (path.to_owned(), [app.to_owned()].into());
        let unmarked = |(path, _): &(&str, &str)| !self.marks.contains_key(path);
        let commands = [("a", "x"), ("a/b", "y")].into_iter().filter(unmarked);
        let commands: Commands = commands.map(|(path, app)| of(path, app)).collect();
        let standing = |path: &str, id| self.table.standing(path, id);
        let placement = self.rules.place(&tree, &commands, standing);
        let by_hand = self.members(false);
        let failed = self.table.follow(&mut *self.program, &placement).unwrap();
        assert_eq!(self.members(false), by_hand, "rules have changed what a user assigned");
        if failed.is_empty() {
            let placed = placement.cgroups.iter();
            let placed: BTreeMap<_, _> =
                placed.map(|(path, p)| ((*path).to_owned(), p.id)).collect();
            assert_eq!(self.members(true), placed);
        }
    }

    /// The cgroups that rules have assigned, or users, with their ids.
    fn members(&self, by_rule: bool) -> BTreeMap<String, u64> {
        let all = self.table.apps().flat_map(|app| &app.cgroups).chain(self.table.exempt());
        let asked = all.filter(|(_, member)| member.rule.is_some() == by_rule);
        asked.map(|(path, member)| (path.clone(), member.id)).collect()
    }

    /// What users are shown is what the kernel has.
    fn check(&self) {
        let kernel = self.machine.program.lock().unwrap();
        let (mut lanes, mut assigned, mut paths) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (number, app) in &self.table.apps {
            assert!(app.number == *number && !app.cgroups.is_empty(), "{app:?}");
            if !app.quarantined {
                lanes.insert(*number, app.lane.policy.clone());
            }
            for (path, member) in &app.cgroups {
                paths.push(path);
                assigned.insert(member.id, *number);
                let unassigned = self.table.standing(path, member.id) == Standing::Unassigned;
                assert!(!unassigned, "'{path}' was unassigned, and is of {app:?}");
            }
        }
        for (path, member) in &self.table.exempt {
            paths.push(path);
            assigned.insert(member.id, BACK_TO_ROOT);
        }
        paths.sort_unstable();
        assert!(paths.is_sorted_by(|a, b| a < b), "a cgroup is of two applications: {paths:?}");
        assert_eq!(kernel.lanes, lanes);
        assert_eq!(kernel.assigned, assigned);
    }
}

#[test]
fn whatever_is_done_in_a_row_the_kernel_has_what_the_table_says() {
    let (mut scene, mut sequences) = (Scene::new(), Gen::new());
    let (mut done, mut assigned) = (0, 0);
    while !sequences.done() {
        let sequence = [(); LENGTH].map(|()| *sequences.pick(&ALL));
        // Said only where it fails.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scene.begin();
            for does in sequence {
                scene.carry_out(does);
                scene.check();
                assigned += scene.table.apps.len();
            }
            scene.carry_out(Does::Clear);
            scene.check();
            assert!(scene.table.is_empty());
        }));
        if let Err(panic) = told {
            eprintln!("it was {sequence:?}");
            std::panic::resume_unwind(panic);
        }
        done += 1;
    }
    assert_eq!(done, ALL.len().pow(LENGTH as u32));
    assert!(assigned > done, "in {done} sequences there were only {assigned} applications");
}
