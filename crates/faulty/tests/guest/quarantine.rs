//! What becomes of a lane whose policy does not dispatch.

use crate::{HOGS, hogs, ran};
use metasched_abi::{QUARANTINE_SWEEPS, SWEEP_NS};
use metasched_host::cgroup::Cgroup;
use metasched_loader::{LaneSpec, LoadOptions};
use std::time::{Duration, Instant};

/// The policy of crates/sim/faults that takes tasks and gives no CPU one.
const LAZY: &str = "lazy";
/// How long a lane may leave tasks that could run.
const PATIENCE: Duration = Duration::from_nanos(QUARANTINE_SWEEPS * SWEEP_NS);
/// The kernel's watchdog, which must not be what notices: it ejects the whole program.
const WATCHDOG: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_policy_that_does_not_dispatch_loses_its_cgroups_before_the_watchdog_notices() {
    let timeout_ms = WATCHDOG.as_millis() as u32;
    let policies = [LAZY, "vtime"].map(str::to_owned).into();
    let options = LoadOptions { timeout_ms, policies, ..LoadOptions::policy("fifo") };
    let mut program = metasched_faulty::load(&options).unwrap();
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
