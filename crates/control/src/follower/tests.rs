use super::*;
use crate::fake::FakeMachine;
use crate::rules::{Pattern, Why};
use metasched_loader::{ASSIGNED_MAX, LaneSpec};
use std::fs;

/// A machine with a program of ours and a hierarchy that rules are compared with.
struct Scene {
    program: Box<dyn LaneProgram>,
    table: Assignments,
    follower: Follower,
    machine: FakeMachine,
}

fn app(name: &str, glob: &str) -> RuleApp {
    RuleApp {
        name: name.to_owned(),
        lane: Some(LaneSpec::of("fifo")),
        why: Why::File("app.toml".to_owned()),
        share: None,
        patterns: vec![Pattern::Cgroups(glob.to_owned())],
    }
}

impl Scene {
    fn new(apps: Vec<RuleApp>, cgroups: &[&str]) -> Self {
        let machine = FakeMachine::new();
        machine.make_cgroups(cgroups);
        let program = machine.options().loader.load(&LaneSpec::of("vtime")).unwrap();
        let rules = Rules::new(apps, false).unwrap();
        let mut scene = Self {
            program,
            table: Assignments::new(machine.root.path()),
            follower: Follower::new(machine.root.path(), rules, |_| ()).unwrap(),
            machine,
        };
        scene.log();
        scene
    }

    /// Lets the rules take effect.
    fn follow(&mut self) {
        self.follower.update();
        self.follower.apply(&mut *self.program, &mut self.table).unwrap();
    }

    /// Which cgroups each application has.
    fn apps(&self) -> Vec<(String, Vec<&str>)> {
        let mut apps: Vec<_> = self
            .table
            .apps()
            .map(|app| (app.name.clone(), app.cgroups.keys().map(String::as_str).collect()))
            .collect();
        apps.sort();
        apps
    }

    fn log(&mut self) -> Vec<String> {
        self.machine.program.lock().unwrap().log.drain(..).collect()
    }

    fn folder(&self, cgroup: &str) -> PathBuf {
        self.machine.root.path().join("sys/fs/cgroup").join(cgroup)
    }

    fn remove(&self, cgroup: &str) {
        fs::remove_dir_all(self.folder(cgroup)).unwrap();
    }

    /// Removes it, and makes another one in its place.
    fn make_anew(&self, cgroup: &str) {
        // While it is open no folder of this file system is given its number, by which they differ.
        let _old = fs::File::open(self.folder(cgroup)).unwrap();
        self.remove(cgroup);
        self.machine.make_cgroups(&[cgroup]);
    }
}

fn has(name: &str, cgroups: &[&'static str]) -> (String, Vec<&'static str>) {
    (name.to_owned(), cgroups.to_vec())
}

#[test]
fn a_cgroup_that_is_made_later_shares_the_lane_which_goes_with_the_last_one() {
    let mut scene = Scene::new(vec![app("x", "a/*")], &["a/1", "b"]);
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/1"])]);
    scene.machine.make_cgroups(&["a/2/inner"]);
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/1", "a/2"])]);
    let made = scene.log().iter().filter(|line| line.starts_with("app ")).count();
    assert_eq!(made, 1, "they share a lane");
    scene.follow();
    assert_eq!(scene.log(), [""; 0], "nothing is written where nothing has changed");
    scene.remove("a/1");
    scene.remove("a/2");
    scene.follow();
    assert!(scene.table.is_empty());
    assert_eq!(scene.log().last().unwrap(), "drop 1");
    scene.machine.make_cgroups(&["a/1"]);
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/1"])]);
}

#[test]
fn what_is_assigned_by_hand_gets_a_lane_of_its_own_and_keeps_it() {
    let mut scene = Scene::new(vec![app("x", "a/*")], &["a/1", "a/2"]);
    scene.follow();
    let said = scene.table.assign(&mut *scene.program, "a/1", &LaneSpec::of("vtime")).unwrap();
    assert_eq!(said.change, crate::Change::Replaced);
    scene.follower.reconsider();
    scene.follow();
    assert_eq!(scene.apps(), [has("a/1", &["a/1"]), has("x", &["a/2"])]);
    let lane = |name: &str| scene.table.apps().find(|app| app.name == name).unwrap().lane.clone();
    assert_eq!((lane("x").policy, lane("a/1").policy), ("fifo".into(), "vtime".into()));
    // One that is made anew is another one.
    scene.make_anew("a/1");
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/1", "a/2"])]);
}

#[test]
fn a_lane_that_was_taken_away_is_told_once_and_harms_no_other() {
    let mut scene = Scene::new(vec![app("x", "a/*"), app("y", "b/*")], &["a/1"]);
    scene.follow();
    scene.machine.program.lock().unwrap().lanes.remove(&1);
    scene.machine.make_cgroups(&["a/2", "a/3", "b/1"]);
    for _ in 0..2 {
        scene.follow();
        assert_eq!(scene.apps(), [has("x", &["a/1"]), has("y", &["b/1"])]);
    }
    assert_eq!(scene.follower.told.said.len(), 1);
}

#[test]
fn what_is_unassigned_by_hand_stays_so_until_it_is_made_anew() {
    let mut scene = Scene::new(vec![app("x", "a/*")], &["a/1", "a/2"]);
    scene.follow();
    let before = scene.table.unassign(&mut *scene.program, "a/1").unwrap();
    assert_eq!(before.cgroups.len(), 1, "of the one that was named");
    scene.follower.reconsider();
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/2"])]);
    scene.make_anew("a/1");
    scene.follow();
    scene.table.forget_what_vanished(&mut *scene.program).unwrap();
    assert_eq!(scene.apps(), [has("x", &["a/1", "a/2"])]);
}

#[test]
fn a_cgroup_that_another_rule_matches_now_changes_lanes() {
    let machine = FakeMachine::new();
    machine.make_cgroups(&["a/1"]);
    let mut program = machine.options().loader.load(&LaneSpec::of("vtime")).unwrap();
    let mut table = Assignments::new(machine.root.path());
    for (apps, expected) in [
        (vec![app("x", "a/1")], "x"),
        (vec![app("y", "a/1"), app("x", "a/1")], "y"),
        (vec![app("y", "a")], "y"),
    ] {
        let rules = Rules::new(apps, false).unwrap();
        let mut follower = Follower::new(machine.root.path(), rules, |_| ()).unwrap();
        follower.apply(&mut *program, &mut table).unwrap();
        let apps: Vec<_> = table.apps().map(|app| app.name.as_str()).collect();
        assert_eq!(apps, [expected]);
    }
    let app = table.apps().next().unwrap();
    assert_eq!(app.cgroups.keys().collect::<Vec<_>>(), ["a"], "a/1 has it from there");
}

#[test]
fn too_much_is_an_error_at_first_and_later_a_warning_that_changes_nothing() {
    let mut scene = Scene::new(vec![app("x", "a/*")], &["a/1"]);
    scene.follow();
    for n in 0..ASSIGNED_MAX {
        fs::create_dir(scene.folder(&format!("a/m{n}"))).unwrap();
    }
    scene.follow();
    assert_eq!(scene.apps(), [has("x", &["a/1"])]);
    assert_eq!(scene.follower.told.said.len(), 1);
    scene.follow();
    assert_eq!(scene.follower.told.said.len(), 1, "it is told once");
    let rules = Rules::new(vec![app("x", "a/*")], false).unwrap();
    let e = Follower::new(scene.machine.root.path(), rules, |_| ()).unwrap_err();
    assert_eq!(e.kind, Kind::Busy);
    assert!(e.to_string().contains("4097 cgroups"), "{e}");
    scene.remove("a/m7");
    scene.follow();
    assert_eq!(scene.apps()[0].1.len(), ASSIGNED_MAX);
}

#[test]
fn a_policy_that_there_is_not_is_told_without_what_would_harm_a_terminal() {
    let said = tell(&Unknown { path: "a/b", attribute: ATTRIBUTE, value: "\x1b[2Jlavd" });
    assert!(said.contains("'a/b'") && said.contains("fifo, vtime"), "{said}");
    assert!(!said.contains('\x1b') && said.contains("[2Jlavd"), "{said}");
}
