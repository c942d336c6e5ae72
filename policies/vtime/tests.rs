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

/// While one hog has CPU 0, two share CPU 1, so that it gets ahead of them by a second in two.
/// Who then comes to CPU 0 begins where those two are.
#[test]
fn a_task_that_had_a_cpu_to_itself_does_not_pay_for_that_time() {
    let outcome = policy("a hog beside a crowd elsewhere", "vtime")
        .cpus(2)
        .task(TaskSpec::hog("ahead").only_on([0]))
        .tasks(2, |i| TaskSpec::hog(format!("crowd {i}")).only_on([1]))
        .task(TaskSpec::hog("late").only_on([0]).arrives(ms(4_000)))
        .run_for(ms(8_000))
        .pass();
    // Each is ahead by one run at most, and has begun another one.
    let longest = outcome.task("ahead").longest_wait_ns;
    assert!(longest <= 3 * (SLICE + TICK), "{longest}");
    let late = outcome.task("late").ran_ns;
    assert!(late.abs_diff(ms(2_000)) <= 3 * (SLICE + TICK), "{late}");
}

/// The same, and the crowd is of weights 100 and 300: they keep their shares.
#[test]
fn who_runs_alone_elsewhere_takes_no_weight_from_those_who_share() {
    let outcome = policy("weights beside a hog elsewhere", "vtime")
        .cpus(2)
        .task(TaskSpec::hog("alone").only_on([0]))
        .task(TaskSpec::hog("light").only_on([1]))
        .task(TaskSpec::hog("heavy").only_on([1]).weight(300))
        .run_for(ms(8_000))
        .pass();
    let heavy = outcome.task("heavy").ran_ns as f64 / ms(8_000) as f64;
    assert!((0.70..0.80).contains(&heavy), "{heavy}");
}

/// Three of weight 50 share two CPUs, so that vtime_now goes faster than the two hogs on a third
/// come forward: each of those is far behind the other's place in the queue when its turn comes,
/// and farther each time.
#[test]
fn two_that_share_a_slow_cpu_take_turns_however_fast_the_lane_goes() {
    let outcome = policy("two pinned hogs beside three light ones", "vtime")
        .cpus(3)
        .task(TaskSpec::hog("pinned").only_on([0]))
        .task(TaskSpec::hog("pinned heavy").only_on([0]).weight(300))
        .tasks(3, |i| TaskSpec::hog(format!("light {i}")).only_on([1, 2]).weight(50))
        .run_for(ms(20_000))
        .pass();
    let longest = outcome.task("pinned").longest_wait_ns;
    assert!(longest <= 3 * (SLICE + TICK), "{longest}");
}

/// A slice of 20 ms would have it wait for 2 s of each of the others.
#[test]
fn a_light_task_runs_for_less_and_not_more_rarely() {
    let outcome = policy("weight 2 beside ten hogs", "vtime")
        .tasks(10, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::hog("light").weight(2))
        .run_for(ms(20_000))
        .pass();
    let light = outcome.task("light");
    // One run of a tick counts for 200 ms, which each of the others has meanwhile.
    assert!(light.longest_wait_ns <= ms(10 * 200) + SLICE + TICK, "{}", light.longest_wait_ns);
    let share = light.ran_ns as f64 / ms(20_000) as f64;
    assert!((share / (2.0 / 1002.0) - 1.0).abs() < 0.25, "{share}");
}

/// By their weights its turn comes after more than 30 s.
#[test]
pub(crate) fn who_weighs_next_to_nothing_runs_every_few_seconds() {
    let outcome = policy("a light hog beside a heavy one", "vtime")
        .task(TaskSpec::hog("light").weight(1))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(8_668))
        .waits_at_most(ms(8_000))
        .run_for(ms(60_000))
        .pass();
    assert!(outcome.task("light").ran_ns < ms(300), "{}", outcome.task("light").ran_ns);
}

/// Twenty hogs may stand before them that are bound elsewhere.
#[test]
pub(crate) fn weights_count_on_a_cpu_with_less_to_do() {
    let outcome = policy("a heavy one and a light one beside a crowd elsewhere", "vtime")
        .cpus(2)
        .tasks(20, |i| TaskSpec::hog(format!("crowd {i}")).only_on([0]))
        .task(TaskSpec::hog("heavy").weight(1_000).only_on([1]))
        .task(TaskSpec::hog("light").only_on([1]))
        .run_for(ms(8_000))
        .pass();
    let (heavy, light) = (outcome.task("heavy").ran_ns, outcome.task("light").ran_ns);
    assert!((7.0..14.0).contains(&(heavy as f64 / light as f64)), "{heavy} to {light}");
}
