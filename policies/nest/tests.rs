//! What nest promises, run in the simulator from its own source.

use std::collections::{BTreeMap, BTreeSet};

use metasched_sim::machine::Costs;
use metasched_sim::metasched::{assign, set_app, set_option};
use metasched_sim::task::Step;
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};

const CPUS: usize = 16;
const LENGTH: u64 = ms(2_000);
/// A slice that is used up is noticed at the next tick.
const SLICE: u64 = ms(24);

fn nest(name: &str, set: &[(&str, u64)]) -> Scenario {
    let set: Vec<(usize, u64)> = set
        .iter()
        .map(|(name, value)| options::option("nest", name, &value.to_string()).unwrap())
        .collect();
    policy(name, "nest").cpus(CPUS).at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

/// Sixteen that want a third of a CPU among them.
fn light(run: Scenario) -> Scenario {
    run.tasks(16, |i| {
        TaskSpec::named(format!("light {i}"))
            .run(between(us(50), us(150)))
            .sleep(between(ms(3), ms(6)))
            .for_ever()
    })
    .run_for(LENGTH)
}

/// How many runs began on each CPU, from some time on.
fn runs(outcome: &Outcome, from_ns: u64) -> BTreeMap<usize, usize> {
    let mut runs = BTreeMap::new();
    for line in outcome.trace.lines().filter(|line| line.ends_with(" start")) {
        let mut words = line.split_whitespace();
        let at: u64 = words.next().unwrap().parse().unwrap();
        let cpu: usize = words.next().unwrap().trim_start_matches("cpu").parse().unwrap();
        if at >= from_ns {
            *runs.entry(cpu).or_default() += 1;
        }
    }
    runs
}

/// The fewest CPUs on which nineteen of twenty runs were.
fn needed(outcome: &Outcome) -> usize {
    let mut runs: Vec<usize> = runs(outcome, LENGTH / 4).into_values().collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = runs.iter().sum();
    let mut sum = 0;
    runs.iter().take_while(|n| { let more = sum < all * 19 / 20; sum += **n; more }).count()
}

#[test]
fn light_work_stays_on_few_cpus() {
    let gathered = needed(&light(nest("light work", &[])).traced().pass());
    let spread = needed(&light(policy("light work", "fifo").cpus(CPUS)).traced().pass());
    assert!(gathered <= 5, "{gathered} CPUs");
    assert!(spread >= 12, "{spread} CPUs");
}

/// A CPU that was idle for a millisecond is slow at first: the same tasks come less often.
#[test]
fn warm_cpus_save_what_cold_ones_cost() {
    let costs = Costs { cold_ns: us(500), cold_after_ns: ms(1), ..Costs::default() };
    let runs = |name: &str| -> u64 {
        let machine = Machine::cpus(CPUS).costs(costs);
        let outcome = light(policy("cold CPUs", name).machine(machine)).pass();
        outcome.all().map(|(_, figures)| figures.voluntary_switches).sum()
    };
    let (warm, cold) = (runs("nest"), runs("fifo"));
    assert!(warm * 100 > cold * 104, "{warm} runs, {cold} under fifo");
}

/// A CPU without work leaves the primary nest; a longer patience keeps it there.
#[test]
fn the_nest_shrinks_when_there_is_less_to_do() {
    let burst = |patience: u64| {
        let run = nest("a burst, then little", &[("p_remove_ns", patience)]);
        let run = run.tasks(8, |i| {
            TaskSpec::named(format!("burst {i}")).run(exactly(ms(300))).sleep(exactly(ms(60_000)))
        });
        let outcome = light(run).traced().pass();
        runs(&outcome, ms(600)).len()
    };
    let (short, long) = (burst(ms(2)), burst(ms(1_000)));
    assert!(short + 2 <= long, "{short} CPUs, {long} with patience");
}

/// Who finds no idle CPU in the nest gets one outside at once: nobody waits for the nest's sake.
#[test]
fn nobody_waits_beside_idle_cpus() {
    let outcome = nest("hogs on sixteen CPUs", &[])
        .tasks(14, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("late").run(between(us(100), us(500))).sleep(exactly(ms(5))).for_ever())
        .idle_at_most(ms(1))
        .run_for(LENGTH)
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.longest_wait_ns <= us(100), "{name}: {figures:?}");
    }
}

/// With a CPU to itself a task comes back to it each time.
#[test]
fn a_task_keeps_the_cpu_that_it_is_attached_to() {
    let outcome = nest("three, one after the other", &[])
        .tasks(3, |i| {
            TaskSpec::named(format!("calm {i}")).run(exactly(ms(1))).sleep(exactly(ms(1))).for_ever()
        })
        .run_for(LENGTH)
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.migrations <= 5, "{name}: {figures:?}");
    }
}

#[test]
fn a_restricted_task_runs_outside_the_nest() {
    let outcome = light(nest("restricted beside light work", &[]))
        .task(
            TaskSpec::named("restricted")
                .only_on([13, 14])
                .run(exactly(us(500)))
                .sleep(exactly(ms(3)))
                .for_ever(),
        )
        .pass();
    let restricted = outcome.task("restricted");
    assert!(restricted.longest_wait_ns <= us(100), "{restricted:?}");
}

#[test]
fn weights_count_where_all_cpus_are_busy() {
    let outcome = nest("weights", &[])
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("light {i}")))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(200))
        .shares(0.1)
        .run_for(ms(8_000))
        .pass();
    let ratio = outcome.task("heavy 0").ran_ns as f64 / outcome.task("light 0").ran_ns as f64;
    assert!((ratio - 2.0).abs() < 0.3, "{ratio}");
}

#[test]
fn cpus_of_the_nest_may_go_off_line_and_come_back() {
    let outcome = light(nest("CPUs go", &[]))
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(400), |kernel| {
            for cpu in 0..6 {
                assert!(kernel.cpu_off(cpu));
            }
        })
        .at(ms(900), |kernel| {
            for cpu in 0..6 {
                assert!(kernel.cpu_on(cpu));
            }
        })
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.longest_wait_ns <= SLICE, "{name}: {figures:?}");
    }
}

/// A CPU whose task ends leaves the nest at once: the next one finds those that others keep warm.
#[test]
fn who_ends_leaves_no_cpu_behind() {
    let child = || Step::Fork(std::sync::Arc::new(TaskSpec::named("child").run(exactly(us(300)))));
    let parent = TaskSpec::named("parent").step(child()).step(child()).sleep(exactly(ms(3)));
    let outcome = nest("forks", &[("p_remove_ns", ms(500))])
        .task(parent.for_ever())
        .traced()
        .run_for(LENGTH)
        .pass();
    let cpus: BTreeSet<usize> = runs(&outcome, LENGTH / 2).into_keys().collect();
    assert!(cpus.len() <= 7, "{cpus:?}");
}

#[test]
fn two_lanes_have_nests_of_their_own() {
    let outcome = light(nest("two nests", &[]))
        .tasks(16, |i| {
            TaskSpec::named(format!("other {i}"))
                .in_cgroup("other")
                .run(between(us(50), us(150)))
                .sleep(between(ms(3), ms(6)))
                .for_ever()
        })
        .at(0, |kernel| {
            set_app(kernel, 1, "nest", 100);
            assign(kernel, "other", 1);
        })
        .traced()
        .pass();
    assert!(needed(&outcome) <= 9, "{}", needed(&outcome));
}
