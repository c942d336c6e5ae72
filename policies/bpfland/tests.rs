//! What bpfland promises, run in the simulator from its own source.

use metasched_sim::metasched::set_option;
use metasched_sim::step::Step;
use metasched_sim::{
    Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us,
};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(5);
/// The default of `slice_min_ns`.
const LEAST: u64 = us(500);
/// The default of `starvation_thresh_ns`.
const STARVATION: u64 = ms(5);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);
/// In the order of vtime who sleeps stands in the middle of those that run all the time: many, so
/// that it makes a difference whether it comes before them.
const HOGS: usize = 20;

/// Who sleeps has no credit unless the test says so: with it a sleeper comes first in its queue,
/// whichever that is.
fn bpfland(name: &str, set: &[(&str, u64)]) -> Scenario {
    let set: Vec<(usize, u64)> = [("slice_lag_ns", 0)]
        .iter()
        .chain(set)
        .map(|(name, value)| options::option("bpfland", name, &value.to_string()).unwrap())
        .collect();
    policy(name, "bpfland").at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

/// A service that sleeps some hundred times a second, beside hogs.
fn known_mix(scenario: Scenario) -> Outcome {
    scenario
        .tasks(HOGS, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("service").run(exactly(us(100))).sleep(exactly(ms(5))).for_ever())
        .run_for(ms(10_000))
        .pass()
}

/// A slice that is used up is noticed within a millisecond.
fn fast_ticks() -> Machine {
    Machine::cpus(1).hz(1000).unwrap()
}

fn mean_wait(outcome: &Outcome, task: &str) -> u64 {
    let figures = outcome.task(task);
    figures.waited_ns / figures.waits
}

#[test]
fn of_a_known_mix_the_service_is_interactive_and_the_hogs_are_not() {
    let found = known_mix(bpfland("a service beside hogs", &[]));
    let nobody = known_mix(bpfland("nobody is interactive", &[("nvcsw_max_thresh", 0)]));
    // It waits for the run of one hog, and not for those that stand before it.
    assert!(mean_wait(&found, "service") <= LEAST + TICK, "{}", mean_wait(&found, "service"));
    assert!(mean_wait(&nobody, "service") > 2 * mean_wait(&found, "service"));
    let hogs: Vec<u64> = (0..HOGS).map(|i| found.task(&format!("hog {i}")).ran_ns).collect();
    let (least, most) = (hogs.iter().min().unwrap(), hogs.iter().max().unwrap());
    assert!(most - least <= 3 * (SLICE + TICK), "{hogs:?}");
}

/// One that wants more than its share, so that it is behind hogs unless it is interactive. It sleeps
/// some 12 times a second: often where all others are hogs, and not beside forty that do 150 times;
/// but more than ten times is often whatever others do.
#[test]
pub(crate) fn what_is_often_is_found_out() {
    let ran = |crowd: usize, most: u64| {
        let outcome = bpfland("one that sleeps now and then", &[("nvcsw_max_thresh", most)])
            .tasks(crowd, |i| {
                TaskSpec::named(format!("often {i}"))
                    .run(exactly(us(25)))
                    .sleep(exactly(ms(5)))
                    .for_ever()
            })
            .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
            .task(TaskSpec::named("now and then").run(exactly(ms(20))).sleep(exactly(ms(45))).for_ever())
            .run_for(ms(20_000))
            .pass();
        outcome.task("now and then").ran_ns
    };
    let (alone, beside, at_ten) = (ran(0, 80), ran(40, 80), ran(40, 10));
    assert!(alone > beside * 5 / 4, "{alone} and {beside}");
    assert!(at_ten > beside * 5 / 4, "{at_ten} and {beside}");
}

#[test]
pub(crate) fn slices_get_shorter_the_more_tasks_wait() {
    let longest = |least: u64| {
        bpfland("eleven hogs", &[("slice_min_ns", least)])
            .machine(fast_ticks())
            .tasks(11, |i| TaskSpec::hog(format!("hog {i}")))
            .run_for(ms(2_000))
            .pass()
            .all()
            .map(|(_, hog)| hog.longest_wait_ns)
            .max()
            .unwrap()
    };
    // Two slices: the average of those that wait begins at none.
    assert!(longest(LEAST) <= 3 * SLICE, "{} in a crowd", longest(LEAST));
    assert!(longest(SLICE) >= 9 * SLICE, "{}", longest(SLICE));
}

/// One that was queued behind twelve short ones, and runs when they are gone: its slice is that of
/// a crowd if it was worked out as it was queued. Who comes then waits for as long.
#[test]
fn the_slice_of_who_was_queued_in_a_crowd_is_longer_when_that_is_gone() {
    let rival_waits = |at_enqueue: u64| {
        let outcome = bpfland("a burst", &[("slice_at_enqueue", at_enqueue)])
            .machine(fast_ticks())
            .task(TaskSpec::named("occupant").run(exactly(ms(2))))
            .tasks(12, |i| {
                TaskSpec::named(format!("short {i}")).arrives(us(100)).run(exactly(us(300)))
            })
            .task(TaskSpec::named("late").arrives(us(200)).run(exactly(ms(20))))
            .task(TaskSpec::named("rival").arrives(us(5_900)).run(exactly(us(100))))
            .pass();
        outcome.task("rival").waited_ns
    };
    assert!(rival_waits(1) < us(1_200), "{}", rival_waits(1));
    assert!(rival_waits(0) > us(2_000), "{}", rival_waits(0));
}

#[test]
pub(crate) fn the_shared_queue_has_a_turn_after_its_time_whoever_is_interactive() {
    let ran = |most: u64| {
        let outcome = bpfland("a crowd of sleepers", &[("starvation_thresh_ns", most)])
            .waits_at_most(ms(20_000))
            .task(TaskSpec::hog("hog"))
            .task(TaskSpec::hog("other hog"))
            .tasks(60, |i| {
                TaskSpec::named(format!("sleeper {i}"))
                    .run(exactly(us(400)))
                    .sleep(exactly(ms(10)))
                    .for_ever()
            })
            .run_for(ms(15_000))
            .pass();
        outcome.task("hog").ran_ns
    };
    let (soon, late) = (ran(STARVATION), ran(ms(1_000)));
    assert!(soon > 5 * late, "{soon} and {late}");
}

/// The reader has slept often enough to be known for it only after a second.
#[test]
fn who_is_woken_by_one_that_goes_to_sleep_is_interactive_at_once() {
    let early = |most: u64| {
        let outcome = bpfland("a pipe to a CPU of hogs", &[("nvcsw_max_thresh", most)])
            .cpus(3)
            .pipe("p", 1)
            .tasks(2 * HOGS, |i| TaskSpec::hog(format!("hog {i}")).only_on([0, 2]))
            .task(
                TaskSpec::named("writer")
                    .only_on([1])
                    .run(exactly(us(50)))
                    .step(Step::Write("p".into(), 1))
                    .sleep(exactly(ms(3)))
                    .for_ever(),
            )
            .task(
                TaskSpec::named("reader")
                    .only_on([0, 2])
                    .step(Step::Read("p".into(), 1))
                    .run(exactly(ms(1)))
                    .for_ever(),
            )
            .run_for(ms(900))
            .pass();
        outcome.task("reader").ran_ns
    };
    assert!(early(10) > 2 * early(0), "{} and {}", early(10), early(0));
}

#[test]
pub(crate) fn who_sleeps_keeps_as_much_credit_as_the_option_says() {
    let waits = |lag_ns| {
        let set = [("nvcsw_max_thresh", 0), ("slice_lag_ns", lag_ns)];
        mean_wait(&known_mix(bpfland("credit", &set)), "service")
    };
    let (much, none) = (waits(ms(1_000)), waits(0));
    assert!(2 * much < none, "it waits {much} with credit, {none} without");
}

/// As the threads of sysbench, which sleep for a lock now and then. Without credit who wakes stands beside
/// all others, so that it is last as soon as it yields.
#[test]
fn by_default_who_slept_goes_on_though_it_yields() {
    let switches = |scenario: Scenario| {
        scenario
            .tasks(8, |i| {
                TaskSpec::named(format!("thread {i}"))
                    .repeat(8, |task| task.run(between(us(5), us(15))).step(Step::Yield))
                    .sleep(between(us(200), ms(1)))
                    .for_ever()
            })
            .run_for(ms(1_000))
            .pass()
            .switches
    };
    let none = switches(bpfland("no credit", &[]));
    let usual = switches(policy("credit", "bpfland"));
    assert!(usual * 5 < none * 4, "{usual} switches with credit, {none} without");
}

#[test]
fn weights_one_to_three_share_the_cpu_one_to_three() {
    policy("weights 100 and 300", "bpfland")
        .task(TaskSpec::hog("light").weight(100))
        .task(TaskSpec::hog("heavy").weight(300))
        .shares(0.05)
        .run_for(ms(8_000))
        .pass();
}

#[test]
fn a_task_that_had_a_cpu_to_itself_does_not_pay_for_that_time() {
    let outcome = policy("a hog beside a crowd elsewhere", "bpfland")
        .cpus(2)
        .task(TaskSpec::hog("ahead").only_on([0]))
        .tasks(2, |i| TaskSpec::hog(format!("crowd {i}")).only_on([1]))
        .task(TaskSpec::hog("late").only_on([0]).arrives(ms(4_000)))
        .run_for(ms(8_000))
        .pass();
    let longest = outcome.task("ahead").longest_wait_ns;
    assert!(longest <= 4 * (SLICE + TICK), "{longest}");
}

#[test]
fn an_idle_cpu_is_used_at_once() {
    let outcome = policy("a sleeper beside an idle CPU", "bpfland")
        .cpus(2)
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .pass();
    assert!(outcome.task("sleeper").longest_wait_ns <= us(2));
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = policy("pinned beside three hogs on two CPUs", "bpfland")
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

/// The shared queue has its turns, on other CPUs.
#[test]
pub(crate) fn a_bound_hog_is_not_starved_by_interactive_tasks_of_its_cpu() {
    let outcome = policy("a hog bound to the CPU of a crowd that sleeps", "bpfland")
        .cpus(4)
        .tasks(20, |i| {
            TaskSpec::named(format!("interactive {i}"))
                .only_on([0])
                .run(exactly(us(500)))
                .sleep(exactly(ms(5)))
                .for_ever()
        })
        .task(TaskSpec::hog("bound").only_on([0]).arrives(ms(3_000)))
        .tasks(6, |i| TaskSpec::hog(format!("hog {i}")).only_on([1, 2, 3]))
        .waits_at_most(ms(2_000))
        .run_for(ms(10_000))
        .pass();
    let longest = outcome.task("bound").longest_wait_ns;
    assert!(longest <= ms(300), "{longest}");
}

/// By their weights its turn comes after 34 s.
#[test]
pub(crate) fn who_weighs_next_to_nothing_runs_every_few_seconds() {
    let outcome = policy("a light hog beside a heavy one", "bpfland")
        .task(TaskSpec::hog("light").weight(1))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(8_668))
        .waits_at_most(ms(8_000))
        .run_for(ms(60_000))
        .pass();
    assert!(outcome.task("light").ran_ns < ms(300), "{}", outcome.task("light").ran_ns);
}

/// The time of all does not follow who has a CPU to itself.
#[test]
pub(crate) fn who_runs_alone_elsewhere_takes_no_weight_from_those_who_share() {
    let outcome = policy("weights beside a hog elsewhere", "bpfland")
        .cpus(2)
        .task(TaskSpec::hog("alone").only_on([0]))
        .task(TaskSpec::hog("light").only_on([1]))
        .task(TaskSpec::hog("heavy").only_on([1]).weight(300))
        .run_for(ms(8_000))
        .pass();
    let heavy = outcome.task("heavy").ran_ns as f64 / ms(8_000) as f64;
    assert!((0.70..0.80).contains(&heavy), "{heavy}");
}

/// Twenty hogs may stand before them that are bound elsewhere.
#[test]
pub(crate) fn weights_count_on_a_cpu_with_less_to_do() {
    let outcome = policy("a heavy one and a light one beside a crowd elsewhere", "bpfland")
        .cpus(2)
        .tasks(20, |i| TaskSpec::hog(format!("crowd {i}")).only_on([0]))
        .task(TaskSpec::hog("heavy").weight(1_000).only_on([1]))
        .task(TaskSpec::hog("light").only_on([1]))
        .run_for(ms(8_000))
        .pass();
    let (heavy, light) = (outcome.task("heavy").ran_ns, outcome.task("light").ran_ns);
    assert!((7.0..14.0).contains(&(heavy as f64 / light as f64)), "{heavy} to {light}");
}
