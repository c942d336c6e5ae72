//! What becomes of a lane whose policy does not dispatch, and of one whose half in user space is
//! late or dead.

use std::time::{Duration, Instant};

use metasched_abi::{QUARANTINE_SWEEPS, SWEEP_NS};
use metasched_base::Kind;
use metasched_faulty::{LaneSpec, LoadOptions, Program, UserDriver, UserFiles};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use metasched_userhalf::Halves;

#[path = "../../../sim/faults/policies/rustland/half.rs"]
mod rustland;

/// The policy of crates/sim/faults that takes tasks and gives no CPU one.
const LAZY: &str = "lazy";
/// How long a lane may leave tasks that could run.
const PATIENCE: Duration = Duration::from_nanos(QUARANTINE_SWEEPS * SWEEP_NS);
/// The kernel's watchdog, which must not be what notices: it ejects the whole program.
const WATCHDOG: Duration = Duration::from_secs(10);
/// Tasks of the victim: more than there are CPUs, so that some are always queued.
const HOGS: usize = 6;

fn hogs(cgroup: &Cgroup, how_many: usize) -> Vec<Child> {
    (0..how_many)
        .map(|_| {
            Spawn::new(["sh", "-c", "while :; do :; done"])
                .cgroup(cgroup)
                .stdout(Output::Null)
                .stderr(Output::Null)
                .start()
                .unwrap()
        })
        .collect()
}

fn ran(cgroup: &Cgroup) -> Duration {
    Duration::from_micros(cgroup.cpu_stat().unwrap().usage_usec)
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_policy_that_does_not_dispatch_loses_its_cgroups_before_the_watchdog_notices() {
    let timeout_ms = WATCHDOG.as_millis() as u32;
    let mut program =
        Program::load(&LoadOptions { timeout_ms, ..LoadOptions::policy("fifo") }).unwrap();
    let victim = Cgroup::create("metasched-test/victim").unwrap();
    let other = Cgroup::create("metasched-test/other").unwrap();
    let _hogs = (hogs(&victim, HOGS), hogs(&other, 2));

    program.set_app(1, &LaneSpec::of(LAZY), 100).unwrap();
    let start = Instant::now();
    program.assign(victim.id().unwrap(), 1).unwrap();
    let told = loop {
        let mut told = program.new_quarantines();
        if let Some(quarantine) = told.pop() {
            assert!(told.is_empty(), "told of more than one: {told:?}");
            break quarantine;
        }
        assert!(start.elapsed() < WATCHDOG, "no quarantine in {WATCHDOG:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    println!("quarantined after {:?}: {told:?}", start.elapsed());
    assert_eq!((told.app, told.policy.as_str()), (1, LAZY));
    assert!(told.unserved_ns >= PATIENCE.as_nanos() as u64, "too soon: {told:?}");
    assert!(told.nr_queued > 0 && told.rescues > 0, "nothing spoke against it: {told:?}");

    // They are on the default lane now, and run there like all others, past the time at
    // which the watchdog would have ended the program.
    let before = (ran(&victim), ran(&other));
    std::thread::sleep((WATCHDOG + Duration::from_secs(2)).saturating_sub(start.elapsed()));
    assert!(program.exited().is_none(), "{:?}", program.exited());
    let had = (ran(&victim) - before.0, ran(&other) - before.1);
    println!("since then the victim had {:?}, the other {:?}", had.0, had.1);
    // Six tasks beside two in one queue; half of that would still be no starvation.
    assert!(had.0 > had.1, "the victim's six tasks had {:?}, the other's two {:?}", had.0, had.1);

    // Another policy, and it has a lane again.
    program.set_app(1, &LaneSpec::of("vtime"), 100).unwrap();
    std::thread::sleep(PATIENCE * 2);
    let lanes = program.lanes().unwrap();
    let lane = lanes.iter().find(|lane| lane.app == 1).expect("it was given a lane");
    assert!(lane.policy == "vtime" && lane.runtime_ns > 0, "{lane:?}");
    assert!(program.new_quarantines().is_empty());
    assert!(program.exited().is_none(), "{:?}", program.exited());
}

/// The policy there that has a half in user space.
const RUSTLAND: &str = "rustland";

/// The process that decides, in a cgroup of its own.
struct Decider(std::process::Child);

impl Decider {
    fn start(program: &Program, cgroup: &Cgroup) -> Self {
        let files = program.user_files().unwrap();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "who_was_passed_nothing_is_told_who_starts_it"]);
        files.pass_to(&mut command);
        let child = command.spawn().unwrap();
        cgroup.add(child.id() as i32).unwrap();
        Self(child)
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Decider {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
            assert!(error.to_string().contains("whoever has loaded the program"), "{error}");
            return;
        }
    };
    let halves = Halves::new(|_| Some(Box::<rustland::Rustland>::default()));
    let mut driver = UserDriver::new(files, halves).unwrap();
    loop {
        driver.serve().unwrap();
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_process_decides_for_a_lane_and_stopped_or_dead_it_is_not_waited_for() {
    use nix::sys::signal::Signal;

    let mut program = Program::load(&LoadOptions::policy("fifo")).unwrap();
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
