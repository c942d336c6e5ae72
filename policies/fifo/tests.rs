//! What fifo promises, run in the simulator from its own source.

use metasched_sim::{TaskSpec, exactly, ms, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

#[test]
fn tasks_run_in_the_order_they_came() {
    let names: Vec<String> = (0..10).map(|i| format!("task {i}")).collect();
    let outcome = policy("ten arrivals", "fifo")
        .task(TaskSpec::named("occupant").run(exactly(ms(12))))
        .tasks(10, |i| {
            TaskSpec::named(&names[i]).arrives(ms(1) + us(i as u64)).run(exactly(us(300)))
        })
        .pass();
    assert_eq!(outcome.first_runs()[1..], names);
}

#[test]
fn an_idle_cpu_is_used_at_once() {
    let outcome = policy("a sleeper beside an idle CPU", "fifo")
        .cpus(2)
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .pass();
    // The interrupt that wakes the idle CPU, and nothing else.
    assert!(outcome.task("sleeper").longest_wait_ns <= us(2));
    assert_eq!(outcome.task("hog").ran_ns, ms(1_000) - outcome.task("hog").waited_ns);
}

#[test]
fn hogs_take_turns_of_one_slice() {
    let outcome = policy("three hogs", "fifo")
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(3_000))
        .pass();
    for (name, hog) in outcome.all() {
        assert!(hog.longest_wait_ns <= 2 * (SLICE + TICK), "{name}: {}", hog.longest_wait_ns);
        let turns = hog.ran_ns.div_ceil(SLICE);
        assert!(turns.abs_diff(hog.waits) <= 1, "{name}: {} ns in {} turns", hog.ran_ns, hog.waits);
    }
}

#[test]
fn weights_count_for_nothing() {
    let outcome = policy("weights 1 to 100", "fifo")
        .task(TaskSpec::hog("light").weight(10))
        .task(TaskSpec::hog("heavy").weight(1_000))
        .run_for(ms(4_000))
        .pass();
    let ratio = outcome.task("heavy").ran_ns as f64 / outcome.task("light").ran_ns as f64;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn a_short_task_waits_behind_every_hog() {
    // What the README warns of: the price of not looking at tasks.
    let outcome = policy("a sleeper behind four hogs", "fifo")
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("sleeper").run(exactly(us(100))).sleep(exactly(ms(10))).for_ever())
        .run_for(ms(4_000))
        .pass();
    let sleeper = outcome.task("sleeper");
    assert!(sleeper.waited_ns / sleeper.waits > 3 * SLICE);
    assert!(sleeper.longest_wait_ns <= 4 * (SLICE + TICK));
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = policy("pinned beside three hogs on two CPUs", "fifo")
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
    // At most one hog stands before it in the queue, and one runs.
    assert!(outcome.task("pinned").longest_wait_ns <= 2 * (SLICE + TICK));
}

#[test]
fn a_task_that_yields_goes_to_the_end() {
    use metasched_sim::task::Step;
    let outcome = policy("a yielder beside a hog", "fifo")
        .task(TaskSpec::named("yielder").run(exactly(ms(1))).step(Step::Yield).for_ever())
        .task(TaskSpec::hog("hog"))
        .run_for(ms(2_000))
        .pass();
    let (yielder, hog) = (outcome.task("yielder"), outcome.task("hog"));
    assert!(hog.ran_ns > 15 * yielder.ran_ns, "{} to {}", hog.ran_ns, yielder.ran_ns);
}

#[test]
fn children_queue_behind_those_who_came_before_them() {
    use metasched_sim::task::Step;
    let child = || Step::Fork(std::sync::Arc::new(TaskSpec::named("child").run(exactly(ms(1)))));
    let outcome = policy("a fork beside a waiting task", "fifo")
        .task(TaskSpec::named("parent").run(exactly(ms(2))).step(child()).run(exactly(ms(2))))
        .task(TaskSpec::named("waiting").arrives(ms(1)).run(exactly(ms(1))))
        .pass();
    assert_eq!(outcome.first_runs(), ["parent", "waiting", "child"]);
    assert!(outcome.task("child").exited_ns.is_some());
}
