//! What nest promises, run in the simulator from its own source.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use metasched_sim::kernel::Kernel;
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
    runs_of(outcome, |_| true, from_ns)
}

/// The same of some tasks, by their numbers.
fn runs_of(
    outcome: &Outcome,
    of: impl Fn(usize) -> bool,
    from_ns: u64,
) -> BTreeMap<usize, usize> {
    let mut runs = BTreeMap::new();
    for line in outcome.trace.lines().filter(|line| line.ends_with(" start")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str, of: &str| word.trim_start_matches(of).parse().unwrap();
        let at: u64 = words[0].parse().unwrap();
        if at >= from_ns && of(number(words[2], "task")) {
            *runs.entry(number(words[1], "cpu")).or_default() += 1;
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
pub(crate) fn light_work_stays_on_few_cpus() {
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
    let warm = runs("nest");
    for other in ["fifo", "vtime"] {
        let cold = runs(other);
        assert!(warm * 100 > cold * 104, "{warm} runs, {cold} under {other}");
    }
}

/// How often level 1 has a CPU that stays awake interrupted.
const AWAKE: u64 = us(100);

/// One that runs for a moment and sleeps so long, again and again.
fn moments(run: Scenario, sleep: u64) -> Scenario {
    let task = TaskSpec::named("moments").run(exactly(us(100))).sleep(exactly(sleep));
    run.task(task.for_ever()).run_for(ms(500))
}

/// How many timers are set in all while one sleeps for 20 ms each time, so 24 times, more than without.
fn spins(spin: u64, stays: u64) -> u64 {
    let timers = |spin| {
        let set = Rc::new(Cell::new(0));
        let at_end = set.clone();
        let run = nest("spinning", &[("spin_ns", spin), ("p_remove_ns", stays)]);
        let run = run.at(ms(500) - 1, move |kernel: &mut Kernel| at_end.set(kernel.timers_set()));
        moments(run, ms(20)).pass();
        set.get()
    };
    timers(spin) - timers(0)
}

/// So many in so long a spin, each up to 50 us late.
fn within(spins: u64, ns: u64) -> bool {
    (24 * ns / (AWAKE + us(50))..=25 * (ns / AWAKE + 1)).contains(&spins)
}

#[test]
pub(crate) fn an_idle_cpu_spins_for_so_long_at_most() {
    let three = spins(ms(3), ms(30));
    assert!(within(three, ms(3)), "{three} interrupts");
    let six = spins(ms(6), ms(30));
    assert!(within(six, ms(6)), "{six} interrupts");
}

#[test]
fn who_is_not_of_the_nest_does_not_spin() {
    let two = spins(ms(20), ms(2));
    assert!(within(two, ms(2)), "{two} interrupts");
}

#[test]
pub(crate) fn a_cpu_that_spins_stays_warm() {
    let costs = Costs { cold_ns: us(500), cold_after_ns: ms(1), ..Costs::default() };
    let runs = |spin| {
        let run = nest("cold CPUs", &[("spin_ns", spin), ("p_remove_ns", ms(30))]);
        let run = run.machine(Machine::cpus(2).costs(costs));
        moments(run, ms(4)).pass().task("moments").voluntary_switches
    };
    let (warm, cold) = (runs(ms(8)), runs(0));
    assert!(warm * 100 > cold * 108, "{warm} runs, {cold} without");
}

/// For who wakes, and for another lane, a CPU that spins is as good as one that sleeps.
#[test]
fn who_wakes_has_a_cpu_that_spins_at_once() {
    for lanes in [false, true] {
        let run = nest("spinning beside others", &[("spin_ns", ms(8)), ("p_remove_ns", ms(30))]);
        let of = |name: &str, i: usize| {
            TaskSpec::named(format!("{name} {i}"))
                .run(between(us(50), us(500)))
                .sleep(between(us(500), ms(4)))
                .for_ever()
        };
        let run = run.cpus(4).tasks(2, move |i| of("own", i));
        let run = run.tasks(2, move |i| of("other", i).in_cgroup("other"));
        let run = run.at(0, move |kernel| {
            if lanes {
                set_app(kernel, 1, "fifo", 100);
                assign(kernel, "other", 1);
            }
        });
        let outcome = run.idle_at_most(us(100)).run_for(ms(500)).pass();
        for (name, figures) in outcome.all() {
            assert!(figures.longest_wait_ns <= us(20), "{name}: {figures:?}");
        }
    }
}

/// A CPU without work leaves the primary nest; a longer patience keeps it there.
#[test]
pub(crate) fn the_nest_shrinks_when_there_is_less_to_do() {
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

/// Without a reserve a CPU joins the nest only when somebody was turned away so often.
#[test]
pub(crate) fn who_is_impatient_adds_a_cpu_to_the_nest() {
    // The median of five runs: who meets whom is chance.
    let cpus = |times| {
        let set = [("r_max", 0), ("r_impatient", times)];
        let needed = |seed| needed(&light(nest("no reserve", &set)).seed(seed).traced().pass());
        let mut runs: Vec<usize> = (1..=5).map(needed).collect();
        runs.sort_unstable();
        runs[2]
    };
    let (impatient, patient) = (cpus(2), cpus(0));
    assert!(impatient <= 8, "{impatient} CPUs of the impatient");
    assert!(patient >= 12, "{patient} CPUs of the patient");
}

/// Now and then another task has its CPU when it wakes; the next time it is back.
#[test]
pub(crate) fn who_was_turned_away_once_comes_back_to_its_cpu() {
    let calm = TaskSpec::named("calm").only_on([3]).run(exactly(ms(1))).sleep(exactly(ms(1)));
    let other = TaskSpec::named("other").only_on([3]).arrives(ms(50));
    let outcome = nest("turned away", &[("p_remove_ns", ms(1_000))])
        .task(calm.for_ever())
        .task(other.run(exactly(us(1_200))).sleep(exactly(us(6_300))).for_ever())
        .at(ms(20), |kernel| {
            let calm = kernel.task_named("calm");
            kernel.set_affinity(calm, (0..CPUS).collect());
        })
        .traced()
        .run_for(LENGTH)
        .pass();
    let calm = runs_of(&outcome, |task| task == 0, ms(50));
    let (back, all) = (calm.get(&3).copied().unwrap_or_default(), calm.values().sum::<usize>());
    assert!(back < all * 9 / 10, "it was never turned away: {calm:?}");
    assert!(back > all * 6 / 10, "{back} of {all} runs on its CPU");
}

/// On a machine that is all nest: whose CPU is busy goes to a whole core, or to the other half.
#[test]
pub(crate) fn a_core_that_runs_nothing_comes_first_if_that_is_asked_for() {
    let beside = |find_fully_idle| {
        let child = || {
            let child = TaskSpec::named("child").run(exactly(us(300))).sleep(exactly(ms(60_000)));
            Step::Fork(std::sync::Arc::new(child))
        };
        let set = [("p_remove_ns", ms(1_000)), ("find_fully_idle", find_fully_idle)];
        let outcome = nest("cores", &set)
            .machine(Machine::new(8, 1, 1, true).unwrap())
            .tasks(16, |i| {
                TaskSpec::named(format!("crowd {i}")).run(exactly(ms(20))).sleep(exactly(ms(60_000)))
            })
            .task(
                TaskSpec::named("parent")
                    .only_on([0])
                    .arrives(ms(100))
                    .step(child())
                    .run(exactly(ms(1)))
                    .sleep(exactly(ms(10)))
                    .for_ever(),
            )
            .traced()
            .run_for(ms(600))
            .pass();
        let children = runs_of(&outcome, |task| task > 16, 0);
        children.get(&1).copied().unwrap_or_default()
    };
    let (half, whole) = (beside(0), beside(1));
    assert!(half > 30, "{half} children beside their parent");
    assert!(whole == 0, "{whole} children beside their parent");
}

/// The other half of CPU 2's core never ran anything: that core is whole.
#[test]
pub(crate) fn a_cpu_that_never_ran_leaves_its_core_whole() {
    let child = || {
        let child = TaskSpec::named("child").run(exactly(us(300))).sleep(exactly(ms(60_000)));
        Step::Fork(std::sync::Arc::new(child))
    };
    let crowd = |i: usize| {
        let task = TaskSpec::named(format!("crowd {i}")).only_on(0..3);
        task.run(exactly(ms(20))).sleep(exactly(ms(60_000)))
    };
    let set = [("p_remove_ns", ms(1_000)), ("find_fully_idle", 1)];
    let parent = TaskSpec::named("parent").only_on([0]).arrives(ms(100)).step(child());
    let outcome = nest("half of a core", &set)
        .machine(Machine::new(4, 1, 1, true).unwrap())
        .tasks(6, crowd)
        .task(parent.run(exactly(ms(1))).sleep(exactly(ms(10))).for_ever())
        .traced()
        .run_for(ms(600))
        .pass();
    let children = runs_of(&outcome, |task| task > 6, 0);
    let (beside, whole) = [1, 2].map(|cpu| children.get(&cpu).copied().unwrap_or_default()).into();
    assert!(beside == 0 && whole > 30, "{children:?} children beside their parent");
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

/// Eight that build a nest and end leave less of it than eight that sleep.
#[test]
pub(crate) fn who_ends_takes_its_cpu_out_of_the_nest() {
    let cpus = |ends: bool| {
        let run = nest("a burst that ends", &[("p_remove_ns", ms(1_000))]).tasks(8, |i| {
            let burst = TaskSpec::named(format!("burst {i}"));
            let burst = burst.repeat(20, |burst| burst.run(exactly(ms(2))).sleep(exactly(ms(1))));
            if ends { burst } else { burst.sleep(exactly(ms(60_000))) }
        });
        let run = run.tasks(16, |i| {
            TaskSpec::named(format!("light {i}"))
                .arrives(ms(200))
                .run(between(us(50), us(150)))
                .sleep(between(ms(3), ms(6)))
                .for_ever()
        });
        needed(&run.traced().run_for(LENGTH).pass())
    };
    let (ended, slept) = (cpus(true), cpus(false));
    assert!(ended + 2 <= slept, "{ended} CPUs, {slept} after those that sleep");
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

/// By their weights its turn comes after more than 30 s.
#[test]
pub(crate) fn who_weighs_next_to_nothing_runs_every_few_seconds() {
    policy("a light hog beside a heavy one", "nest")
        .task(TaskSpec::hog("light").weight(1))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(8_668))
        .waits_at_most(ms(8_000))
        .run_for(ms(60_000))
        .pass();
}
