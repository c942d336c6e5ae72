//! A fake system for tests: a sysfs that behaves like the kernel's, schedulers that
//! are shell scripts, and a program of ours that only pretends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_host::process::ProcessId;

use crate::candidate::{Candidate, CandidateKind};
use crate::graces::Graces;
use crate::program::{LaneProgram, OPS_NAME, ProgramLoader};
use crate::switcher::SwitcherOptions;
use crate::turns::monotonic_ns;
use metasched_loader::{
    BACK_TO_ROOT, BegunTurn, ExitRecord, LaneInfo, LaneSpec, LaneTurn, Limits, Quarantine,
    Replacement, TurnFigures,
};

/// Far longer than anything here takes; only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "it never came about: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes an executable shell script. Another program opens the file, because a
/// process that another test forks meanwhile would inherit our open file, and the
/// kernel refuses to execute a file that is open for writing.
pub(crate) fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    let path = folder.join(name);
    let mut child = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("#!/bin/sh\n{body}\n");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    path
}

/// A machine with sched_ext, in a folder. A thread plays the kernel: it takes a
/// scheduler out when the process that holds it is gone.
pub(crate) struct FakeMachine {
    pub(crate) root: tempfile::TempDir,
    pub(crate) program: Arc<Mutex<Program>>,
    off: Arc<AtomicBool>,
    kernel: Option<std::thread::JoinHandle<()>>,
}

/// What the program of ours is to do, and what was done with it.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) failing_loads: u32,
    pub(crate) failing_unassigns: u32,
    /// Whether it stays in the kernel when it is unloaded.
    pub(crate) stays: bool,
    /// Cgroups that are assigned, by their ids, and to which application.
    pub(crate) assigned: BTreeMap<u64, u32>,
    /// The policies of applications' lanes; the kernel may take one away.
    pub(crate) lanes: BTreeMap<u32, String>,
    pub(crate) exit: Option<ExitRecord>,
    /// How often somebody looks at that in vain, as while the kernel takes it out.
    pub(crate) looks_in_vain: u32,
    /// To be told of.
    pub(crate) quarantines: Vec<Quarantine>,
    pub(crate) log: Vec<String>,
}

impl FakeMachine {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/kernel/sched_ext");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("state", "disabled\n"), ("enable_seq", "0\n"), ("nr_rejected", "0\n")]
        {
            std::fs::write(folder.join(name), text).unwrap();
        }
        // Who holds a scheduler is read from the real /proc.
        std::os::unix::fs::symlink("/proc", root.path().join("proc")).unwrap();
        let off = Arc::new(AtomicBool::new(false));
        let kernel = std::thread::spawn({
            let (root, off) = (root.path().to_owned(), Arc::clone(&off));
            move || {
                while !off.load(Ordering::SeqCst) {
                    let holder = std::fs::read_to_string(root.join("holder"))
                        .ok()
                        .and_then(|pid| pid.trim().parse().ok());
                    if let Some(pid) = holder
                        && ProcessId::of(Path::new("/"), pid).is_none()
                    {
                        let _ = std::fs::remove_file(root.join("holder"));
                        disable(&root);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { root, program: Arc::default(), off, kernel: Some(kernel) }
    }

    /// An external scheduler that behaves well, but for what `trap` and `extra` do:
    /// `extra` is run before it attaches.
    pub(crate) fn scheduler(&self, name: &str, trap: &str, extra: &str) -> Candidate {
        let root = self.root.path().display();
        let ops = name.trim_start_matches("scx_");
        let body = format!(
            "{extra}\n\
             S={root}/sys/kernel/sched_ext\n\
             put() {{ echo \"$2\" > {root}/put.$$ && mv {root}/put.$$ \"$1\"; }}\n\
             off() {{ rm -f {root}/holder $S/root/ops; put $S/state disabled; }}\n\
             {trap}\n\
             mkdir -p $S/root; put $S/root/ops {ops}_1.0\n\
             put $S/enable_seq $(($(cat $S/enable_seq) + 1))\n\
             put {root}/holder $$; put $S/state enabled\n\
             echo attached\n\
             while :; do sleep 0.005; done"
        );
        let path = script(self.root.path(), name, &body);
        let command = vec![path.display().to_string()];
        Candidate { version: "1.0".to_owned(), ..Candidate::external(name, command) }
    }

    /// One without any fault.
    pub(crate) fn good(&self, name: &str) -> Candidate {
        self.scheduler(name, "trap 'off; exit 0' INT TERM", "")
    }

    pub(crate) fn policy(name: &str) -> Candidate {
        let kind = CandidateKind::Policy;
        Candidate { kind, version: "1.0".to_owned(), ..Candidate::external(name, Vec::new()) }
    }

    /// Has the kernel say that state.
    pub(crate) fn set_state(&self, state: &str) {
        put(&self.root.path().join("sys/kernel/sched_ext/state"), state);
    }

    pub(crate) fn state(&self) -> String {
        let folder = self.root.path().join("sys/kernel/sched_ext");
        std::fs::read_to_string(folder.join("state")).unwrap().trim().to_owned()
    }

    /// Makes cgroups, with those above them, as they would look in cgroup v2.
    pub(crate) fn make_cgroups(&self, paths: &[&str]) {
        let mount = self.root.path().join("sys/fs/cgroup");
        for path in [""].iter().chain(paths) {
            std::fs::create_dir_all(mount.join(path)).unwrap();
            for part in Path::new(path).ancestors() {
                std::fs::write(mount.join(part).join("cgroup.controllers"), "cpu\n").unwrap();
            }
        }
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root.path().join("run")
    }

    /// Options for a switcher on this machine.
    pub(crate) fn options(&self) -> SwitcherOptions {
        let exe = std::env::current_exe().unwrap().display().to_string();
        let guard = [
            "env",
            "METASCHED_TEST_GUARD=1",
            &exe,
            "--exact",
            "guard::tests::stands_guard_when_asked_to",
            "--nocapture",
        ];
        SwitcherOptions {
            loader: Box::new(Loader {
                root: self.root.path().to_owned(),
                program: Arc::clone(&self.program),
            }),
            root: self.root.path().to_owned(),
            run_dir: self.run_dir(),
            guard: Some(guard.map(str::to_owned).to_vec()),
            graces: Graces {
                start: PATIENCE,
                link: Duration::from_millis(300),
                interrupt: Duration::from_millis(300),
                terminate: Duration::from_millis(300),
                kill: PATIENCE,
            },
            back_off: vec![Duration::from_millis(1); 2],
            ..SwitcherOptions::new("metasched test")
        }
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        self.off.store(true, Ordering::SeqCst);
        if let Some(kernel) = self.kernel.take() {
            kernel.join().unwrap();
        }
    }
}

fn put(path: &Path, text: &str) {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, text).unwrap();
    std::fs::rename(temporary, path).unwrap();
}

pub(crate) fn disable(root: &Path) {
    let folder = root.join("sys/kernel/sched_ext");
    let _ = std::fs::remove_file(folder.join("root/ops"));
    put(&folder.join("state"), "disabled\n");
}

struct Loader {
    root: PathBuf,
    program: Arc<Mutex<Program>>,
}

impl ProgramLoader for Loader {
    fn load(&self, root: &LaneSpec) -> Result<Box<dyn LaneProgram>> {
        let policy = &root.policy;
        let mut program = self.program.lock().unwrap();
        program.log.push(format!("load {policy}"));
        if program.failing_loads > 0 {
            program.failing_loads -= 1;
            return Err(Error::new(Kind::Failed, format!("load '{policy}'"), "told to fail"));
        }
        let folder = self.root.join("sys/kernel/sched_ext");
        std::fs::create_dir_all(folder.join("root")).unwrap();
        put(&folder.join("root/ops"), OPS_NAME);
        put(&folder.join("state"), "enabled\n");
        Ok(Box::new(Loaded {
            root: self.root.clone(),
            program: Arc::clone(&self.program),
            policy: policy.to_owned(),
            turns: Vec::new(),
            began_ns: 0,
        }))
    }
}

struct Loaded {
    root: PathBuf,
    program: Arc<Mutex<Program>>,
    policy: String,
    turns: Vec<LaneTurn>,
    /// When they began, `CLOCK_MONOTONIC`.
    began_ns: u64,
}

impl Loaded {
    fn say(&self, what: String) {
        self.program.lock().unwrap().log.push(what);
    }

    fn check_lane(&self, app: u32) -> Result<()> {
        match self.program.lock().unwrap().lanes.contains_key(&app) {
            true => Ok(()),
            false => Err(Error::new(Kind::BadInput, "change it", "there is nothing to change")),
        }
    }

    /// The books of turns that all begin on time, by changes that take a microsecond.
    fn turn_figures(&self) -> TurnFigures {
        const CHANGE_NS: u64 = 1000;
        let now = monotonic_ns();
        let mut figures =
            TurnFigures { in_force_ns: vec![0; self.turns.len()], ..Default::default() };
        let mut at_ns = self.began_ns;
        for (current, turn) in self.turns.iter().enumerate().cycle() {
            let length_ns = turn.length.as_nanos() as u64;
            let changing_ns = if figures.begun == 0 { 0 } else { CHANGE_NS };
            figures.latest.push(BegunTurn {
                number: figures.begun,
                at_ns,
                late_ns: 0,
                changing_ns,
            });
            figures.begun += 1;
            figures.changes += changing_ns / CHANGE_NS;
            figures.changing_ns += changing_ns;
            figures.current = current;
            figures.due_ns = at_ns + length_ns;
            figures.in_force_ns[current] += length_ns.min(now - at_ns);
            if figures.due_ns > now {
                break;
            }
            at_ns = figures.due_ns;
        }
        let told = figures.latest.len().saturating_sub(32);
        figures.latest.drain(..told);
        figures
    }
}

impl LaneProgram for Loaded {
    fn replace_root(&mut self, lane: &LaneSpec) -> Result<Replacement> {
        self.say(format!("replace {}", lane.policy));
        self.policy.clone_from(&lane.policy);
        Ok(Replacement { lane: 1, generation: 1, at_ns: 1, write_ns: 7 })
    }
    fn first_run_ns(&self, _generation: u64) -> Option<u64> {
        None
    }
    fn start_turns(&mut self, turns: &[LaneTurn]) -> Result<()> {
        self.say(format!("{} turns", turns.len()));
        (self.turns, self.began_ns) = (turns.to_vec(), monotonic_ns());
        Ok(())
    }
    fn look_at_turns(&self) -> TurnFigures {
        self.turn_figures()
    }
    fn stop_turns(&mut self) -> Result<TurnFigures> {
        let figures = self.turn_figures();
        self.policy.clone_from(&self.turns[figures.current].policy);
        self.say(format!("no turns, {}", self.policy));
        Ok(figures)
    }
    fn set_app(&mut self, app: u32, spec: &LaneSpec, weight: u32) -> Result<Replacement> {
        self.say(format!("app {app}: {} {weight}", spec.policy));
        self.program.lock().unwrap().lanes.insert(app, spec.policy.clone());
        Ok(Replacement { lane: app, generation: 1, at_ns: 1, write_ns: 7 })
    }
    fn drop_app(&mut self, app: u32) -> Result<()> {
        self.say(format!("drop {app}"));
        self.check_lane(app)?;
        self.program.lock().unwrap().lanes.remove(&app);
        Ok(())
    }
    fn assign(&mut self, cgroup: u64, app: u32) -> Result<()> {
        self.say(format!("assign {cgroup} {app}"));
        if app != BACK_TO_ROOT {
            self.check_lane(app)?;
        }
        self.program.lock().unwrap().assigned.insert(cgroup, app);
        Ok(())
    }
    fn unassign(&mut self, cgroup: u64) -> Result<()> {
        self.say(format!("unassign {cgroup}"));
        let mut program = self.program.lock().unwrap();
        if program.failing_unassigns > 0 {
            program.failing_unassigns -= 1;
            return Err(Error::new(Kind::Failed, "undo it", "told to fail"));
        }
        if program.assigned.remove(&cgroup).is_none() {
            return Err(Error::new(Kind::BadInput, "undo it", "there is nothing to change"));
        }
        Ok(())
    }
    fn set_lane(&mut self, app: u32, change: &LaneSpec) -> Result<()> {
        self.say(format!("set {app}: {} {:?}", change.policy, change.weight));
        self.check_lane(app)
    }
    fn quarantines(&self) -> Vec<Quarantine> {
        Vec::new()
    }
    fn new_quarantines(&mut self) -> Vec<Quarantine> {
        std::mem::take(&mut self.program.lock().unwrap().quarantines)
    }
    fn limits(&self) -> Limits {
        Limits::default()
    }
    fn lanes(&self) -> Result<Vec<LaneInfo>> {
        Ok(Vec::new())
    }
    fn root_policy(&self) -> String {
        self.policy.clone()
    }
    fn policies(&self) -> Vec<String> {
        vec!["fifo".to_owned(), "vtime".to_owned()]
    }
    fn exited(&self) -> Option<ExitRecord> {
        let mut program = self.program.lock().unwrap();
        if program.exit.is_some() && program.looks_in_vain > 0 {
            program.looks_in_vain -= 1;
            return None;
        }
        program.exit.clone()
    }
    fn counters(&self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.say("unload".to_owned());
        if !self.program.lock().unwrap().stays {
            disable(&self.root);
        }
    }
}
