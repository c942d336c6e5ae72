//! An idle CPU that is kept from deep sleep, by the interrupts that it takes.

use std::fs;
use std::time::Duration;

use metasched_loader::{LaneSpec, Program};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::support::{assert_alive, load, wait_until};

/// How long the task of CPU 1 sleeps each time, and how often.
const SLEEP: Duration = Duration::from_millis(20);
const SLEEPS: usize = 15;
/// How long that CPU is kept awake of these, and how often it is interrupted for that.
const SPIN_NS: u64 = 4_000_000;
const EACH_NS: u64 = 100_000;
/// Beside them: the end of the sleep, and timers of others, as of the sweep each 4 ms.
const OTHERS: u64 = 15;

/// Of the local timer of CPU 1.
fn interrupts() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let line = text.lines().find(|line| line.contains("LOC:")).unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

/// The median of the interrupts in a sleep.
fn while_asleep(program: &mut Program, spin_ns: u64) -> u64 {
    let options = [("spin_ns".to_owned(), spin_ns), ("p_remove_ns".to_owned(), 100_000_000)];
    program.set_lane(0, &LaneSpec { options: options.into(), ..LaneSpec::of("nest") }).unwrap();
    let mut taken = Vec::new();
    for _ in 0..SLEEPS {
        let before = interrupts();
        std::thread::sleep(SLEEP);
        taken.push(interrupts() - before);
    }
    taken.sort_unstable();
    taken[SLEEPS / 2]
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn an_idle_cpu_of_the_nest_spins_for_so_long_and_sleeps_then() {
    let mut cpus = CpuSet::new();
    cpus.set(1).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
    let mut program = load("nest");
    // Half of them: an emulated timer that is late takes the next one's time. Where the host is
    // busy that is so for longer, so some sleeps more are looked at.
    let all = SPIN_NS / EACH_NS;
    wait_until("half of the interrupts that are due", || {
        let (off, on) = (while_asleep(&mut program, 0), while_asleep(&mut program, SPIN_NS));
        println!("{off} interrupts in a sleep, {on} with spin_ns");
        assert!(off <= OTHERS, "{off} interrupts without spin_ns");
        assert!(on <= all + OTHERS, "{on} interrupts, {off} without");
        on >= off + all / 2
    });
    assert_alive(&program);
    program.unload().unwrap();
}
