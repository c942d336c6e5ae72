//! What becomes of a lane whose policy has a half in user space, and of that half late or dead.

use crate::{HOGS, hogs, ran};
use metasched_base::Kind;
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Prompt, Spawn};
use metasched_loader::{LaneSpec, LoadOptions, Program, UserDriver, UserFiles};
use metasched_userhalf::{Halves, half_of};
use std::time::Duration;

/// The policy there that has a half in user space.
const RUSTLAND: &str = "rustland";

/// The process that decides, in a cgroup of its own.
struct Decider(Child);

impl Decider {
    fn start(program: &Program, cgroup: &Cgroup) -> Self {
        let this = std::env::current_exe().unwrap();
        let test = "user_half::who_was_passed_nothing_is_told_who_starts_it";
        let spawn = Spawn::new([this.to_str().unwrap(), "--ignored", "--exact", test])
            .cgroup(cgroup)
            .stdout(Output::Inherit)
            .stderr(Output::Inherit);
        Self(program.user_files().unwrap().pass_to(spawn).unwrap().start().unwrap())
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        self.0.signal(signal);
    }
}

/// Where something was passed it is the process that decides, which the next test starts.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn who_was_passed_nothing_is_told_who_starts_it() {
    let files = match UserFiles::inherited() {
        Ok(files) => files,
        Err(error) => {
            assert_eq!(error.kind, Kind::BadInput);
            assert!(
                error.to_string().contains("the process that has loaded the program"),
                "{error}"
            );
            return;
        }
    };
    // As the process that metasched starts.
    let _prompt = Prompt::new();
    let halves = Halves::new(|_| half_of(RUSTLAND));
    let mut driver = UserDriver::new(files, halves).unwrap();
    loop {
        driver.serve().unwrap();
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_process_decides_for_a_lane_and_stopped_or_dead_it_is_not_waited_for() {
    use nix::sys::signal::Signal;

    let policies = [RUSTLAND, "vtime"].map(str::to_owned).into();
    let mut program =
        metasched_faulty::load(&LoadOptions { policies, ..LoadOptions::policy("fifo") }).unwrap();
    let own = Cgroup::create("metasched-test/decider").unwrap();
    let work = Cgroup::create("metasched-test/work").unwrap();
    program.set_app(1, &LaneSpec::of("fifo"), 100).unwrap();
    program.assign(own.id().unwrap(), 1).unwrap();
    program.set_app(2, &LaneSpec::of(RUSTLAND), 100).unwrap();
    program.assign(work.id().unwrap(), 2).unwrap();
    let slot = program.lanes().unwrap().iter().find(|l| l.app == 2).expect("it was made").index;
    let _hogs = hogs(&work, HOGS);
    let has = |program: &Program, what: &str| {
        let has = program.user_lane(slot);
        println!("{what}: {has:?}");
        has
    };
    let second = || std::thread::sleep(Duration::from_secs(1));
    let patience = u64::from(metasched_abi::USER_PATIENCE);

    second();
    let before = has(&program, "with nobody there");
    assert!(before.told == 0 && before.untold > 0, "{before:?}");

    let first = Decider::start(&program, &own);
    second();
    second();
    let decided = has(&program, "with a process that decides");
    assert!(decided.taken > 50 && decided.wrong == 0, "{decided:?}");
    assert!(decided.late * 4 < decided.taken, "most must be in time: {decided:?}");

    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        let alive = has(&program, "before it is stopped");
        first.signal(signal);
        let ran_before = ran(&work);
        second();
        second();
        let gone = has(&program, signal.as_str());
        let late = gone.late - alive.late;
        assert!(late <= patience + HOGS as u64, "{late} tasks waited for it");
        assert!(gone.untold > alive.untold, "{gone:?}");
        let had = ran(&work) - ran_before;
        println!("without it the lane's tasks had {had:?} in 2 s");
        assert!(had > Duration::from_millis(500), "they had {had:?}");
        if signal == Signal::SIGSTOP {
            first.signal(Signal::SIGCONT);
            second();
            let again = has(&program, "it goes on");
            assert!(again.taken > gone.taken && again.stale > 0, "{again:?}");
        }
    }

    let before = has(&program, "before another one");
    let _second = Decider::start(&program, &own);
    second();
    let again = has(&program, "another one");
    assert!(again.taken > before.taken + 20, "{again:?}");

    // Replaced while it decides, the lane gets empty.
    program.set_app(2, &LaneSpec::of("vtime"), 100).unwrap();
    second();
    let left = program.lanes().unwrap().iter().filter(|lane| lane.policy == RUSTLAND).count();
    assert_eq!(left, 0, "{left} lanes are left");
    assert!(program.new_quarantines().is_empty());
    assert!(program.exited().is_none(), "{:?}", program.exited());
}
