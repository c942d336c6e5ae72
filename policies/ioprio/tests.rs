//! What ioprio promises, run in the simulator from its own source.

use metasched_sim::metasched::{assign, set_app_with, set_option};
use metasched_sim::{Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};

/// The default of both slices in options.h.
const SLICE: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

/// What a task that serves a device runs each time, next to nothing of a slice.
const MOMENT: u64 = us(20);
/// The time between its runs.
const PAUSE: u64 = ms(1);

/// The least number of runs that use next to nothing after which 0.99 of each average before it
/// is less than 5 %, with 0.1 % for what they do use.
const RUNS_TO_PRIORITY: usize = 302;

fn server(name: impl Into<String>) -> TaskSpec {
    TaskSpec::named(name).run(exactly(MOMENT)).sleep(exactly(PAUSE)).for_ever()
}

/// Options by their numbers.
fn numbered(set: &[(&str, u64)]) -> Vec<(usize, u64)> {
    set.iter()
        .map(|(name, value)| options::option("ioprio", name, &value.to_string()).unwrap())
        .collect()
}

fn ioprio(name: &str, set: &[(&str, u64)]) -> Scenario {
    let set = numbered(set);
    policy(name, "ioprio").at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

/// In how many of its waits the task let all four hogs run first, and in how many one at most.
fn waits(outcome: &Outcome, task: &str) -> (usize, usize) {
    let waits = outcome.waits_ns(task);
    let short = waits.iter().filter(|ns| **ns <= SLICE + TICK).count();
    (waits.len() - short, short)
}

#[test]
fn who_uses_little_is_promoted_after_300_runs_and_waits_for_one_slice_then() {
    let outcome = ioprio("a server beside four hogs", &[("no_starvation", 0)])
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(server("server"))
        .run_for(ms(60_000))
        .pass();
    let (long, short) = waits(&outcome, "server");
    assert!(long.abs_diff(RUNS_TO_PRIORITY) <= 3, "after {long}");
    assert!(short > 100, "{short}");
}

#[test]
fn with_an_average_of_nothing_the_last_run_decides() {
    let outcome =
        ioprio("a server beside four hogs", &[("average_permille", 0), ("no_starvation", 0)])
            .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
            .task(server("server"))
            .run_for(ms(8_000))
            .pass();
    let (long, short) = waits(&outcome, "server");
    assert!(long <= 1 && short > 100, "{long} long, {short} short");
}

#[test]
fn who_is_assumed_to_use_little_begins_with_priority() {
    let outcome = ioprio("a newcomer", &[("first_use_percent", 0), ("no_starvation", 0)])
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(server("server").arrives(ms(1_000)))
        .run_for(ms(4_000))
        .pass();
    let (long, short) = waits(&outcome, "server");
    assert!(long == 0 && short > 100, "{long} long, {short} short");
}

#[test]
fn without_a_threshold_nobody_has_priority() {
    let outcome = ioprio("a server", &[("threshold_percent", 0), ("first_use_percent", 0)])
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(server("server"))
        .run_for(ms(60_000))
        .pass();
    // The first one is when all arrive together.
    let (long, short) = waits(&outcome, "server");
    assert!(long > 500 && short <= 1, "{long} long, {short} short");
}

/// The fault of the original: half of a short priority slice was taken for half of a normal one.
#[test]
pub(crate) fn the_use_of_a_short_priority_slice_is_measured_against_that_slice() {
    let set = [("prio_slice_ns", ms(1)), ("average_permille", 0), ("no_starvation", 0)];
    let outcome = ioprio("a quarter of a short slice", &set)
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("server").run(exactly(us(250))).sleep(exactly(PAUSE)).for_ever())
        .run_for(ms(8_000))
        .pass();
    // 250 us are little of 20 ms, and much of 1 ms: each turn with priority costs it the next.
    let (long, short) = waits(&outcome, "server");
    assert!(long.abs_diff(short) <= 2 && short > 50, "{long} long, {short} short");
}

#[test]
pub(crate) fn no_starvation_gives_every_other_turn_to_the_normal_queue() {
    let outcome = ioprio("a server beside four hogs", &[("average_permille", 0)])
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(server("server"))
        .run_for(ms(8_000))
        .pass();
    let (long, short) = waits(&outcome, "server");
    assert!(long.abs_diff(short) <= 2 && short > 50, "{long} long, {short} short");
}

/// So many servers that there is always one with priority.
fn crowd(set: &[(&str, u64)]) -> Outcome {
    let set = [&[("first_use_percent", 0), ("no_starvation", 0)], set].concat();
    ioprio("a crowd with priority", &set)
        .waits_at_most(ms(12_000))
        .task(TaskSpec::hog("hog"))
        .tasks(40, |i| {
            TaskSpec::named(format!("server {i}"))
                .run(exactly(us(500)))
                .sleep(exactly(ms(5)))
                .for_ever()
        })
        .run_for(ms(20_000))
        .pass()
}

#[test]
pub(crate) fn the_normal_queue_has_a_turn_after_starvation_ns_whoever_has_priority() {
    let starved = crowd(&[("starvation_ns", ms(1_000))]).task("hog").longest_wait_ns;
    assert!(starved > ms(900), "{starved}: nobody else had priority all the time");
    let rescued = crowd(&[("starvation_ns", ms(100))]).task("hog").longest_wait_ns;
    assert!(rescued <= ms(100) + SLICE + TICK, "{rescued}");
}

#[test]
fn hogs_take_turns_of_one_slice() {
    let outcome = policy("three hogs", "ioprio")
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(3_000))
        .pass();
    for (name, hog) in outcome.all() {
        assert!(hog.longest_wait_ns <= 2 * (SLICE + TICK), "{name}: {}", hog.longest_wait_ns);
    }
}

#[test]
fn an_idle_cpu_is_used_at_once() {
    let outcome = policy("a sleeper beside an idle CPU", "ioprio")
        .cpus(2)
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .pass();
    assert!(outcome.task("sleeper").longest_wait_ns <= us(2));
}

/// Preempted or not, what it uses is what it would have used.
#[test]
pub(crate) fn who_yields_is_not_taken_for_one_who_waits() {
    use metasched_sim::task::Step;
    let set = [("average_permille", 0), ("no_starvation", 0)];
    let outcome = ioprio("a yielder beside four hogs", &set)
        .task(TaskSpec::named("yielder").run(exactly(us(100))).step(Step::Yield).for_ever())
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(4_000))
        .pass();
    let (yielder, hog) = (outcome.task("yielder"), outcome.task("hog 0"));
    // One turn for each of every hog. With priority it would have one after each hog's.
    let slices = SLICE / us(100);
    assert!(hog.ran_ns * 4 > 3 * slices * yielder.ran_ns, "{} to {}", hog.ran_ns, yielder.ran_ns);
}

/// Who comes after it waits for the end of that.
#[test]
pub(crate) fn on_an_idle_cpu_too_who_has_priority_has_the_slice_of_its_class() {
    let rival_waits = |first_use: u64| {
        let set = [
            ("first_use_percent", first_use),
            ("slice_ns", ms(100)),
            ("prio_slice_ns", ms(1)),
            ("starvation_ns", ms(1_000)),
        ];
        let outcome = ioprio("the first on an idle CPU", &set)
            .cpus(2)
            .task(TaskSpec::hog("elsewhere").only_on([1]))
            .task(TaskSpec::named("first").arrives(ms(1)).run(exactly(ms(50))))
            .task(TaskSpec::named("rival").only_on([0]).arrives(ms(2)).run(exactly(us(100))))
            .run_for(ms(200))
            .pass();
        outcome.task("rival").longest_wait_ns
    };
    let (prio, normal) = (rival_waits(0), rival_waits(100));
    assert!(prio <= ms(1) + TICK, "it waited {prio} for one with priority");
    assert!(normal > ms(40), "{normal}");
}

/// The normal queue has its turns, on other CPUs.
#[test]
pub(crate) fn a_bound_hog_is_not_starved_by_those_with_priority_on_its_cpu() {
    let outcome = ioprio("a bound hog", &[("average_permille", 0), ("no_starvation", 0)])
        .cpus(4)
        .tasks(20, |i| {
            TaskSpec::named(format!("device {i}"))
                .only_on([0])
                .run(exactly(us(500)))
                .sleep(exactly(ms(5)))
                .for_ever()
        })
        .task(TaskSpec::hog("bound").only_on([0]).arrives(ms(1_000)))
        .tasks(6, |i| TaskSpec::hog(format!("hog {i}")).only_on([1, 2, 3]))
        .waits_at_most(ms(2_000))
        .run_for(ms(8_000))
        .pass();
    let longest = outcome.task("bound").longest_wait_ns;
    assert!(longest <= ms(300), "{longest}");
}

/// The lane's turns are so far apart that the normal queue has waited for too long at each.
#[test]
pub(crate) fn who_has_priority_is_not_starved_where_the_lane_seldom_runs() {
    policy("a newcomer in a light lane", "vtime")
        .tasks(3, |i| TaskSpec::hog(format!("heavy {i}")))
        .tasks(4, |i| {
            TaskSpec::named(format!("normal {i}"))
                .in_cgroup("light")
                .run(between(us(100), us(1_000)))
                .for_ever()
        })
        .task(TaskSpec::hog("newcomer").in_cgroup("light").arrives(ms(50)))
        .at(0, |kernel| {
            let set = numbered(&[("first_use_percent", 1), ("starvation_ns", us(1_500))]);
            set_app_with(kernel, 1, "ioprio", (3, true), &set);
            assign(kernel, "light", 1);
        })
        .waits_at_most(ms(8_000))
        .run_for(ms(20_000))
        .pass();
}

/// Who comes meanwhile waits for the end of that slice.
#[test]
pub(crate) fn who_goes_on_alone_has_the_slice_of_its_class() {
    let outcome = ioprio("a hog alone", &[("slice_ns", ms(2)), ("prio_slice_ns", ms(2))])
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(100))).sleep(between(ms(15), ms(45))).for_ever())
        .run_for(ms(4_000))
        .pass();
    let longest = outcome.task("sleeper").longest_wait_ns;
    assert!(longest <= ms(2) + 2 * TICK, "{longest}");
}
