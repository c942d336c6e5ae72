//! What vtime promises, run in the simulator from its own source.

use metasched_sim::{TaskSpec, exactly, ms, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

#[test]
fn weights_one_to_three_share_the_cpu_one_to_three() {
    policy("weights 100 and 300", "vtime")
        .task(TaskSpec::hog("light").weight(100))
        .task(TaskSpec::hog("heavy").weight(300))
        .shares(0.05)
        .run_for(ms(8_000))
        .pass();
}

#[test]
fn equal_weights_share_many_cpus_equally() {
    policy("nine hogs on four CPUs", "vtime")
        .cpus(4)
        .tasks(9, |i| TaskSpec::hog(format!("hog {i}")))
        .shares(0.05)
        .run_for(ms(8_000))
        .pass();
}

#[test]
fn a_new_weight_counts_from_then_on() {
    let outcome = policy("weight 100 becomes 300", "vtime")
        .task(TaskSpec::hog("steady"))
        .task(TaskSpec::hog("promoted"))
        .at(ms(4_000), |kernel| {
            let promoted = kernel.task_named("promoted");
            kernel.set_weight(promoted, 300);
        })
        .run_for(ms(8_000))
        .pass();
    let share = outcome.task("promoted").ran_ns as f64 / ms(8_000) as f64;
    // Half of the first half, three quarters of the second.
    assert!((0.60..0.65).contains(&share), "{share}");
}

#[test]
fn sleeper_keeps_at_most_one_slice() {
    let outcome = policy("a long sleeper beside a hog", "vtime")
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").sleep(exactly(ms(2_000))).run(exactly(ms(1_000))))
        .run_for(ms(2_400))
        .pass();
    // It slept for 2 s. Were all that credit, it would run alone from now on; it
    // may be ahead by a slice, and by the slice that it has begun.
    let ran = outcome.task("sleeper").ran_ns;
    assert!(ran <= ms(200) + SLICE + TICK, "{ran}");
    assert!(ran >= ms(200) - SLICE - TICK, "{ran}");
}

#[test]
fn a_sleeper_goes_before_the_hogs() {
    let outcome = policy("a sleeper beside four hogs", "vtime")
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("sleeper").run(exactly(us(100))).sleep(exactly(ms(10))).for_ever())
        .run_for(ms(4_000))
        .pass();
    // Once for the arrival, where it is as far as everybody; then it waits for
    // the running slice only.
    let sleeper = outcome.task("sleeper");
    assert!(sleeper.waited_ns / sleeper.waits <= SLICE + TICK);
    assert!(sleeper.waits > 100);
}

#[test]
fn a_newcomer_neither_leads_nor_lags() {
    let outcome = policy("a hog that comes late", "vtime")
        .task(TaskSpec::hog("early"))
        .task(TaskSpec::hog("late").arrives(ms(2_000)))
        .run_for(ms(4_000))
        .pass();
    let late = outcome.task("late").ran_ns;
    assert!(late.abs_diff(ms(1_000)) <= 2 * (SLICE + TICK), "{late}");
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = policy("pinned beside three hogs on two CPUs", "vtime")
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
    let pinned = outcome.task("pinned");
    assert!(pinned.waited_ns / pinned.waits <= SLICE + TICK);
    assert!(pinned.longest_wait_ns <= 3 * (SLICE + TICK));
}
