//! Rules on a kernel: what is made or marked later is on its lane at once, and what a user
//! says by hand stays.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::Interrupt;
use metasched_control::keeper::{Answer, KeeperStatus, Order, ask};
use metasched_control::{ATTRIBUTE, App, RUN_DIR};
use metasched_host::cgroup::{Cgroup, MOUNT};
use metasched_host::process::Spawn;
use nix::sys::signal::Signal;

use crate::machine::{TestMachine, status};
use crate::support::{FEW, Run, eventually};

/// Everything here is below this cgroup, which goes at the end.
pub const TOP: &str = "metasched-rules";

/// The file of rules, in the folder of its scene.
const FILE: &str = "app.toml";

/// What counts as at once: less than the second after which the keeper would look for
/// itself, on an emulated machine whose host is busy.
const AT_ONCE: Duration = Duration::from_millis(700);

/// A keeper that follows rules, and the cgroup in which all happens.
pub struct Scene {
    pub run: Option<Run>,
    top: Cgroup,
    folder: tempfile::TempDir,
    _machine: TestMachine,
}

impl Scene {
    /// With a file of rules.
    fn new(rules: &str, cgroups: &[&str]) -> Self {
        Self::of(rules, &FEW, cgroups)
    }

    /// The same with other arguments.
    pub fn of(rules: &str, more: &[&str], cgroups: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), rules).unwrap();
        let path = folder.path().join(FILE);
        let arguments = [&["rules", path.to_str().unwrap()], more].concat();
        Self::run(&arguments, folder, cgroups)
    }

    /// Starts it once more as it was, with the same file of rules.
    pub fn again(&mut self, more: &[&str]) {
        let path = self.folder.path().join(FILE);
        self.run = Some(Run::start(&[&["rules", path.to_str().unwrap()], more].concat()));
        eventually("it answers again", || asked().is_some_and(|s| !s.lanes.is_empty()));
    }

    fn run(arguments: &[&str], folder: tempfile::TempDir, cgroups: &[&str]) -> Self {
        let machine = TestMachine::take();
        let top = Cgroup::create(TOP).unwrap();
        for name in cgroups {
            make(name);
        }
        let run = Some(Run::start(arguments));
        let scene = Self { run, top, folder, _machine: machine };
        eventually("the keeper answers", || asked().is_some_and(|status| !status.lanes.is_empty()));
        scene
    }

    /// Stops it; gives all that it said.
    pub fn end(mut self) -> String {
        let (code, said) = Run::start(&["stop"]).finish();
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = self.run.take().unwrap().finish();
        assert_eq!(code, Some(0), "{said}");
        assert!(status().is_default());
        said
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.top.kill().and_then(|()| self.top.remove());
    }
}

pub fn folder(name: &str) -> PathBuf {
    Path::new("/").join(MOUNT).join(TOP).join(name)
}

pub fn make(name: &str) {
    std::fs::create_dir_all(folder(name)).unwrap();
}

pub fn asked() -> Option<KeeperStatus> {
    match ask(Path::new(RUN_DIR), &Order::Status, &Interrupt::default()).ok()?? {
        Answer::Status(status) => Some(*status),
        other => panic!("{other:?}"),
    }
}

pub fn kept() -> KeeperStatus {
    asked().expect("the keeper answers")
}

/// The application that has this cgroup.
pub fn owner(name: &str) -> Option<App> {
    let path = format!("{TOP}/{name}");
    kept().apps.into_iter().find(|app| app.cgroups.contains_key(&path))
}

/// How long it takes until a cgroup is on the lane of an application.
pub fn time_until_on_lane(name: &str, of: &str) -> Duration {
    let begin = Instant::now();
    while owner(name).is_none_or(|app| app.name != of) {
        assert!(begin.elapsed() < AT_ONCE, "'{name}' is not on the lane of '{of}': {:?}", kept());
    }
    begin.elapsed()
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}, {} times: median {median:?}, longest {most:?}", times.len());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_cgroup_that_is_made_later_under_a_rule_is_on_its_lane_at_once() {
    let rules = format!(
        "[[app]]\nname = \"qa\"\npolicy = \"fifo\"\nweight = 300\ncgroups = [\"{TOP}/**/qa-*\"]\n"
    );
    let scene = Scene::new(&rules, &["x"]);
    assert_eq!(kept().without_lane[0].name, "qa");
    let mut times = Vec::new();
    for n in 0..20 {
        let name = format!("x/new-{n}/qa-{n}");
        make(&name);
        times.push(time_until_on_lane(&name, "qa"));
    }
    tell("from mkdir until the keeper says that the cgroup is on its lane", times);
    let cgroup = Cgroup::open(&folder("x/new-7/qa-7")).unwrap();
    let mut hog = Spawn::new(["sh", "-c", "while :; do :; done"]).cgroup(&cgroup).start().unwrap();
    eventually("what runs in it is on that lane", || {
        let lanes = kept().lanes;
        let own = lanes.iter().find(|lane| lane.is_apps()).unwrap();
        assert_eq!((own.policy.as_str(), own.weight), ("fifo", 300));
        own.runtime_ns > 100_000_000
    });
    hog.signal(Signal::SIGKILL);
    hog.wait(Duration::from_secs(30)).unwrap().unwrap();
    let (_, said) = Run::start(&["lane", "explain", "qa"]).finish();
    println!("{said}");
    assert!(said.contains("(20 cgroups)") && said.contains("named in"), "{said}");
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn an_attribute_that_is_set_later_counts_at_once_and_a_wrong_one_is_told_once() {
    let scene = Scene::new("attributes = true\n", &["a", "b", "c"]);
    let mut times = Vec::new();
    for policy in ["fifo", "vtime", "fifo"] {
        xattr::set(folder("a"), ATTRIBUTE, policy.as_bytes()).unwrap();
        times.push(time_until_on_lane("a", &format!("policy:{policy}")));
    }
    tell("from setxattr until the keeper says that the cgroup is on its lane", times);
    xattr::set(folder("b"), ATTRIBUTE, b"fifo").unwrap();
    time_until_on_lane("b", "policy:fifo");
    assert_eq!(kept().apps.len(), 1, "they share a lane");
    for _ in 0..2 {
        xattr::set(folder("c"), ATTRIBUTE, b"lavd").unwrap();
        xattr::remove(folder("c"), ATTRIBUTE).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    xattr::set(folder("c"), ATTRIBUTE, b"lavd").unwrap();
    xattr::remove(folder("a"), ATTRIBUTE).unwrap();
    eventually("what is not marked any more is off the lane", || owner("a").is_none());
    assert!(owner("c").is_none());
    let said = scene.end();
    assert_eq!(said.matches("there is no policy 'lavd'").count(), 1, "{said}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn what_is_said_by_hand_beats_rules_and_stays() {
    let rules = format!("[[app]]\nname = \"x\"\npolicy = \"fifo\"\ncgroups = [\"{TOP}/*\"]\n");
    let scene = Scene::new(&rules, &["a/inner", "b", "c"]);
    let ok = |arguments: &[&str]| {
        let (code, said) = Run::start(arguments).finish();
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    };
    assert!(["a", "b", "c"].iter().all(|name| owner(name).is_some_and(|app| app.name == "x")));
    assert!(owner("a/inner").is_none(), "it inherits");
    ok(&["lane", "assign", &format!("{TOP}/a"), "vtime"]);
    ok(&["lane", "unassign", &format!("{TOP}/b")]);
    // Longer than any look, and something new to compare rules with.
    make("d");
    time_until_on_lane("d", "x");
    std::thread::sleep(Duration::from_millis(2500));
    let (a, c) = (owner("a").unwrap(), owner("c").unwrap());
    assert_eq!((a.name.as_str(), a.lane.policy.as_str()), ("metasched-rules/a", "vtime"));
    assert_eq!((c.lane.policy.as_str(), c.cgroups.len()), ("fifo", 2));
    assert!(owner("b").is_none());
    // One of the same name is another one, of which nobody has said anything.
    std::fs::remove_dir(folder("b")).unwrap();
    make("b");
    time_until_on_lane("b", "x");
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn hundreds_of_cgroups_that_one_glob_matches_share_one_lane() {
    const EACH: usize = 250;
    let rules =
        format!("[[app]]\nname = \"pods\"\npolicy = \"fifo\"\ncgroups = [\"{TOP}/pod-*\"]\n");
    let early: Vec<String> = (0..EACH).map(|n| format!("pod-{n}")).collect();
    let scene = Scene::new(&rules, &early.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(kept().apps[0].cgroups.len(), EACH);
    let begin = Instant::now();
    for n in 0..EACH {
        make(&format!("pod-late-{n}"));
    }
    let made = begin.elapsed();
    eventually("all are on the lane", || kept().apps[0].cgroups.len() == 2 * EACH);
    println!("{EACH} cgroups made in {made:?}, all on the lane after {:?}", begin.elapsed());
    let status = kept();
    assert_eq!(status.apps.len(), 1);
    assert_eq!(status.lanes.iter().filter(|lane| lane.is_apps()).count(), 1);
    for entry in std::fs::read_dir(folder("")).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            std::fs::remove_dir(entry.path()).unwrap();
        }
    }
    eventually("the lane went with the last of them", || kept().apps.is_empty());
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn the_cgroup_of_a_command_is_on_the_lane_while_the_command_runs() {
    const NAME: &str = "metasched-napper";
    let rules = format!("[[app]]\nname = \"n\"\npolicy = \"fifo\"\ncommands = [\"{NAME}\"]\n");
    let scene = Scene::new(&rules, &["a"]);
    let program = scene.folder.path().join(NAME);
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let cgroup = Cgroup::open(&folder("a")).unwrap();
    let mut napper =
        Spawn::new([program.to_str().unwrap(), "1000"]).cgroup(&cgroup).start().unwrap();
    let begin = Instant::now();
    eventually("its cgroup is on the lane", || owner("a").is_some_and(|app| app.name == "n"));
    println!("on the lane {:?} after the command was started", begin.elapsed());
    napper.signal(Signal::SIGKILL);
    napper.wait(Duration::from_secs(30)).unwrap().unwrap();
    eventually("its cgroup is off the lane", || owner("a").is_none());
    scene.end();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn the_short_form_keeps_its_lanes_when_a_service_is_started_anew() {
    let (front, back) = (format!("front={TOP}/front.service"), format!("back={TOP}/back"));
    let arguments = ["run", "--mode", "lanes", "--turn", "front=fifo:3", "--turn", "back=vtime:1"];
    let cgroups = ["--cgroup", front.as_str(), "--cgroup", back.as_str()];
    let arguments = [&arguments[..], &cgroups[..], &FEW[..]].concat();
    let scene = Scene::run(&arguments, tempfile::tempdir().unwrap(), &["front.service", "back"]);
    for (name, weight) in [("front.service", 150), ("back", 50)] {
        assert_eq!(owner(name).unwrap().lane.weight, Some(weight));
    }
    std::fs::remove_dir(folder("front.service")).unwrap();
    eventually("its lane is gone", || kept().apps.len() == 1);
    make("front.service");
    time_until_on_lane("front.service", "front");
    let (code, said) =
        Run::start(&["--json", "lane", "explain", &format!("{TOP}/front.service")]).finish();
    assert_eq!(code, Some(0), "{said}");
    let view: serde_json::Value = serde_json::from_str(&said).unwrap();
    let app = &view["apps"][0];
    assert_eq!((&app["name"], &app["weight"]), (&"front".into(), &150.into()), "{view}");
    assert_eq!(app["why"], "command_line", "{view}");
    let said = scene.end();
    assert!(said.contains("front: on a lane of 'fifo', weight 150 (75 % of the shares)"), "{said}");
}
