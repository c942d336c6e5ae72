//! What shortest promises, run in the simulator from its own source.

use metasched_sim::{Scenario, TaskSpec, exactly, ms, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(5);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);
/// The most that a burst counts, times the default of `patience`.
const LONGEST_TURN: u64 = ms(1_000);

/// Four that never sleep and then one that wants little and often, on one CPU.
fn one_that_wants_little(policy_name: &str) -> Scenario {
    let little = TaskSpec::named("little").arrives(ms(100));
    policy("one wants little", policy_name)
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(little.run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .run_for(ms(2_000))
}

#[test]
fn who_wants_little_waits_for_one_slice_at_most() {
    let waits = |policy_name| {
        one_that_wants_little(policy_name).pass().task("little").longest_wait_ns
    };
    assert!(waits("shortest") <= SLICE + TICK, "{}", waits("shortest"));
    // What is first in, first out lets it wait for all of them.
    assert!(waits("fifo") >= 4 * SLICE, "{}", waits("fifo"));
}

#[test]
fn who_wants_much_has_its_turn_beside_many_who_want_little() {
    let outcome = policy("one wants much", "shortest")
        .task(TaskSpec::hog("hog"))
        .tasks(20, |i| {
            let little = TaskSpec::named(format!("little {i}"));
            little.run(exactly(ms(1))).sleep(exactly(ms(10))).for_ever()
        })
        .run_for(ms(10_000))
        .pass();
    let longest = outcome.task("hog").longest_wait_ns;
    // All of the others may stand in the same moment of the queue.
    assert!(longest <= LONGEST_TURN + ms(20) + TICK, "{longest}");
    assert!(outcome.task("hog").ran_ns >= ms(40), "{}", outcome.task("hog").ran_ns);
}
