//! What rustland promises whoever decides; more of its half: crates/sim/tests/sim/user_half.rs.

use metasched_sim::metasched::{RUSTLAND, faulty_scenario};
use metasched_sim::{TaskSpec, exactly, ms, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(5);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

#[test]
fn without_a_half_hogs_take_turns_of_one_slice() {
    let outcome = faulty_scenario("three hogs", RUSTLAND)
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(3_000))
        .pass();
    for (name, hog) in outcome.all() {
        assert!(hog.longest_wait_ns <= 2 * (SLICE + TICK), "{name}: {}", hog.longest_wait_ns);
    }
}

#[test]
fn an_idle_cpu_is_used_at_once() {
    let outcome = policy("a sleeper beside an idle CPU", RUSTLAND)
        .cpus(2)
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .pass();
    assert!(outcome.task("sleeper").longest_wait_ns <= us(2));
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = policy("pinned beside three hogs on two CPUs", RUSTLAND)
        .cpus(2)
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .task(
            TaskSpec::named("pinned")
                .only_on([1])
                .run(exactly(us(500)))
                .sleep(exactly(ms(15)))
                .for_ever(),
        )
        .run_for(ms(4_000))
        .pass();
    assert!(outcome.task("pinned").longest_wait_ns <= 3 * (SLICE + TICK));
}
