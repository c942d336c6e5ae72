//! What rusty promises, run in the simulator from its own source.

use metasched_sim::metasched::{assign, set_app, set_option};
use metasched_sim::task::Step;
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};
use std::sync::Arc;

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);
const LENGTH: u64 = ms(4_000);

fn rusty(name: &str, machine: Machine, set: &[(&str, u64)]) -> Scenario {
    let set: Vec<(usize, u64)> = set
        .iter()
        .map(|(name, value)| options::option("rusty", name, &value.to_string()).unwrap())
        .collect();
    policy(name, "rusty").machine(machine).at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

fn machine(cpus: usize, llcs: usize, nodes: usize) -> Machine {
    Machine::new(cpus, llcs, nodes, false).unwrap()
}

/// Hogs that may run on those CPUs only, until some time.
fn bound_until(run: Scenario, name: &'static str, n: usize, cpus: &[usize], until: u64) -> Scenario {
    let run = run.tasks(n, |i| {
        TaskSpec::hog(format!("{name} {i}")).only_on(cpus.iter().copied())
    });
    run.at(until, move |kernel| {
        for i in 0..n {
            let task = kernel.task_named(&format!("{name} {i}"));
            let all = (0..kernel.nr_cpus()).collect();
            kernel.set_affinity(task, all);
        }
    })
}

fn ran(outcome: &Outcome, prefix: &str) -> u64 {
    outcome.all().filter(|(name, _)| name.starts_with(prefix)).map(|(_, f)| f.ran_ns).sum()
}

/// What was granted and not used is not charged: by granted slices the sleeper would have a third.
#[test]
fn what_ran_is_charged_by_weight() {
    let outcome = rusty("weights", machine(1, 1, 1), &[])
        .tasks(2, |i| TaskSpec::hog(format!("light {i}")))
        .task(TaskSpec::hog("heavy").weight(300))
        .shares(0.05)
        .run_for(ms(8_000))
        .pass();
    let share = ran(&outcome, "heavy") as f64 / ms(8_000) as f64;
    assert!((share - 0.6).abs() < 0.03, "{share}");
}

#[test]
fn who_wakes_stays_in_its_domain_while_that_has_time() {
    let outcome = rusty("two domains", machine(8, 2, 1), &[])
        .tasks(3, |i| {
            TaskSpec::named(format!("calm {i}"))
                .run(between(us(100), us(900)))
                .sleep(between(ms(1), ms(5)))
                .for_ever()
        })
        .traced()
        .run_for(LENGTH)
        .pass();
    // Each began somewhere, and keeps to the CPUs of that domain.
    for task in 0..3 {
        let cpus: Vec<usize> = starts(&outcome, task, ms(100));
        let domains = cpus.iter().map(|cpu| cpu / 4).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(domains.len(), 1, "task {task}: {cpus:?}");
    }
}

/// On which CPUs a task's runs began, from some time on.
fn starts(outcome: &Outcome, task: usize, from_ns: u64) -> Vec<usize> {
    let of = format!("task{task}");
    let is_start = |line: &&str| {
        line.ends_with(" start") && line.split_whitespace().any(|word| word == of)
    };
    let at = |line: &str| line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    let cpu = |line: &str| {
        line.split_whitespace().nth(1).unwrap().trim_start_matches("cpu").parse().unwrap()
    };
    outcome.trace.lines().filter(is_start).filter(|l| at(l) >= from_ns).map(cpu).collect()
}

#[test]
fn a_whole_core_comes_before_half_of_one() {
    let smt = Machine::new(8, 1, 1, true).unwrap();
    let outcome = rusty("cores", smt, &[])
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")).arrives(ms(i as u64)))
        .traced()
        .run_for(ms(200))
        .pass();
    let mut cores: Vec<usize> =
        (0..4).map(|task| starts(&outcome, task, 0).last().unwrap() / 2).collect();
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2, 3]);
}

#[test]
pub(crate) fn a_domain_with_nothing_to_do_steals() {
    let outcome = bound_until(rusty("stealing", machine(4, 2, 1), &[]), "hog", 4, &[0, 1], ms(500))
        .idle_at_most(ms(510))
        .run_for(LENGTH)
        .pass();
    let all = ran(&outcome, "hog");
    assert!(all > 2 * ms(500) + 4 * ms(3_500) * 97 / 100, "they ran {all}");
}

#[test]
fn nobody_steals_who_is_not_to() {
    let never = [("greedy_threshold", 0), ("direct_greedy_under", 0), ("interval_ns", ms(60_000))];
    let run = rusty("no stealing", machine(4, 2, 1), &never);
    let outcome = bound_until(run, "hog", 4, &[0, 1], ms(500))
        .idle_at_most(LENGTH)
        .run_for(LENGTH)
        .pass();
    // Level 1 has idle CPUs look, and they leave what is not for them.
    let all = ran(&outcome, "hog");
    assert!(all < 2 * LENGTH * 110 / 100, "{all}");
}

/// Stealing is not for other nodes unless it is asked for.
#[test]
fn another_node_is_stolen_from_only_if_that_is_asked_for() {
    let all = |x_numa| {
        let set = [("greedy_threshold_x_numa", x_numa), ("direct_greedy_under", 0), ("interval_ns", ms(60_000))];
        let run = rusty("nodes", machine(4, 2, 2), &set);
        let run = bound_until(run, "hog", 4, &[0, 1], ms(500)).idle_at_most(LENGTH);
        ran(&run.run_for(LENGTH).pass(), "hog")
    };
    assert!(all(1) > 2 * ms(500) + 4 * ms(3_500) * 97 / 100, "{}", all(1));
    assert!(all(0) < 2 * LENGTH * 110 / 100, "{}", all(0));
}

/// How the first eight hogs fare after they were bound to one domain, beside two in the other.
fn uneven(set: &[(&str, u64)], nodes: usize, bound: usize, free: usize) -> (u64, u64) {
    let run = rusty("uneven", machine(4, 2, nodes), set);
    let run = bound_until(run, "bound", bound, &[0, 1], ms(1_000));
    let run = bound_until(run, "free", free, &[2, 3], ms(1_000));
    let outcome = run.run_for(ms(21_000)).pass();
    (ran(&outcome, "bound"), ran(&outcome, "free"))
}

#[test]
pub(crate) fn load_is_evened_out_between_domains() {
    let (bound, free) = uneven(&[], 1, 8, 2);
    // All of them alike: 8 of 10 parts of four CPUs, after some intervals.
    let share = (bound - ms(2_000)) as f64 / (bound + free - ms(4_000)) as f64;
    assert!(share > 0.74, "{share} after all");
    let (bound, free) = uneven(&[("interval_ns", ms(60_000))], 1, 8, 2);
    let share = bound as f64 / (bound + free) as f64;
    assert!(share < 0.55, "{share}");
}

/// A node that has 11 per cent too much is left alone, and a domain that has is not.
#[test]
pub(crate) fn nodes_may_differ_by_more() {
    let (bound, free) = uneven(&[], 2, 10, 8);
    let share = (bound - ms(2_000)) as f64 / (bound + free - ms(4_000)) as f64;
    assert!((share - 0.5).abs() < 0.02, "{share} between nodes");
    let (bound, free) = uneven(&[], 1, 10, 8);
    let share = (bound - ms(2_000)) as f64 / (bound + free - ms(4_000)) as f64;
    assert!(share > 0.53, "{share}");
    let (bound, free) = uneven(&[], 2, 14, 4);
    let share = (bound - ms(2_000)) as f64 / (bound + free - ms(4_000)) as f64;
    assert!(share > 0.6, "{share}");
}

/// A task of weight 10,000 runs on one CPU; it does not drive all others from its domain.
#[test]
pub(crate) fn a_weight_counts_as_far_as_it_can_be_used() {
    // Who steals would make up for it.
    let alone = [("greedy_threshold", 0), ("direct_greedy_under", 0)];
    let run = rusty("a heavy task", machine(8, 2, 1), &alone)
        .task(TaskSpec::hog("heavy").weight(10_000))
        .tasks(15, |i| TaskSpec::hog(format!("light {i}")));
    let outcome = run.idle_at_most(ms(20_000)).run_for(ms(20_000)).pass();
    assert!(ran(&outcome, "heavy") > ms(20_000) * 95 / 100, "{}", ran(&outcome, "heavy"));
    let light: Vec<u64> =
        (0..15).map(|i| outcome.task(&format!("light {i}")).ran_ns).collect();
    // 7 CPUs for 15: none has less than four fifths of its part.
    let least = *light.iter().min().unwrap();
    assert!(least > ms(20_000) * 7 / 15 * 4 / 5, "a light one has {least} of {light:?}");
}

#[test]
pub(crate) fn an_idle_cpu_elsewhere_is_taken_while_its_domain_has_time() {
    let wait = |under| {
        let set = [("direct_greedy_under", under), ("greedy_threshold", 0)];
        // Who is born on CPU 0 is of its domain.
        let child = || Step::Fork(Arc::new(TaskSpec::named("child").run(exactly(us(500)))));
        let parent = TaskSpec::named("parent").only_on([0]).step(child()).run(exactly(ms(2)));
        let run = rusty("foreign", machine(4, 2, 1), &set)
            .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).only_on([0, 1]))
            .task(parent.sleep(exactly(ms(5))).for_ever())
            .idle_at_most(LENGTH);
        let outcome = run.run_for(LENGTH).pass();
        let waits = outcome.waits_ns("child");
        waits.iter().sum::<u64>() / waits.len() as u64
    };
    assert!(wait(90) < us(50), "{}", wait(90));
    assert!(wait(0) > ms(1), "{}: it took a CPU of a domain without time", wait(0));
}

#[test]
fn a_task_bound_to_one_domain_stays_there() {
    let outcome = rusty("bound", machine(4, 2, 1), &[])
        .tasks(6, |i| TaskSpec::hog(format!("bound {i}")).only_on([0, 1]))
        .tasks(2, |i| TaskSpec::hog(format!("free {i}")))
        .run_for(ms(10_000))
        .pass();
    let bound = ran(&outcome, "bound");
    assert!(bound > 2 * ms(10_000) * 90 / 100, "{bound}");
}

/// They are in the queue of a domain that nobody serves any more.
#[test]
pub(crate) fn who_is_of_a_domain_that_is_off_line_comes_to_another_one() {
    let outcome = rusty("a domain goes", machine(8, 2, 1), &[])
        .tasks(8, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(500), |kernel| {
            for cpu in 0..4 {
                assert!(kernel.cpu_off(cpu));
            }
        })
        // Two on a CPU, of which a task that changes over is counted anew.
        .waits_at_most(6 * (SLICE + TICK))
        .run_for(ms(40_000))
        .pass();
    let all = ran(&outcome, "hog");
    assert!(all > 4 * ms(40_000) * 98 / 100, "{all}");
}

/// Of two domains one has a CPU that is on line, and the other has four: five for ten tasks.
#[test]
pub(crate) fn a_cpu_that_is_off_line_is_nobodys_part() {
    let alone = [("greedy_threshold", 0), ("direct_greedy_under", 0)];
    let run = rusty("a domain of one CPU", machine(8, 2, 1), &alone)
        .tasks(10, |i| TaskSpec::hog(format!("hog {i}")));
    let run = run.at(ms(1), |kernel| {
        for cpu in 1..4 {
            assert!(kernel.cpu_off(cpu));
        }
    });
    let outcome = run.idle_at_most(ms(30_000)).run_for(ms(30_000)).pass();
    let least = outcome.all().map(|(_, figures)| figures.ran_ns).min().unwrap();
    assert!(least > ms(30_000) / 2 * 3 / 4, "the least is {least}");
}

/// A cpuset gives its tasks no CPU that is off line: they are balanced all the same.
#[test]
pub(crate) fn who_may_use_all_cpus_that_are_on_line_is_balanced() {
    let alone = [("greedy_threshold", 0), ("direct_greedy_under", 0)];
    let run = rusty("a cpuset", machine(6, 2, 1), &alone)
        .tasks(8, |i| TaskSpec::hog(format!("bound {i}")).only_on(0..3))
        .tasks(2, |i| TaskSpec::hog(format!("free {i}")).only_on([3, 4]));
    let run = run.at(ms(1), |kernel| assert!(kernel.cpu_off(5))).at(ms(1_000), |kernel| {
        for (name, n) in [("bound", 8), ("free", 2)] {
            for i in 0..n {
                let task = kernel.task_named(&format!("{name} {i}"));
                kernel.set_affinity(task, (0..5).collect());
            }
        }
    });
    let outcome = run.idle_at_most(ms(21_000)).run_for(ms(21_000)).pass();
    let (bound, free) = (ran(&outcome, "bound"), ran(&outcome, "free"));
    // 8 of 10 parts of five CPUs; bound to their three it would be 60 of 100.
    let share = (bound - ms(3_000)) as f64 / (bound + free - ms(5_000)) as f64;
    assert!(share > 0.74, "{share} of the cpuset's");
}

/// The CPU that it may not leave was not of its domain, and always has others to run.
#[test]
pub(crate) fn who_may_not_migrate_is_of_the_domain_of_its_cpu() {
    let late = |i| TaskSpec::hog(format!("there {i}")).only_on([1]).arrives(ms(300));
    let outcome = rusty("no migration", machine(2, 2, 1), &[])
        .tasks(2, |i| TaskSpec::hog(format!("here {i}")).only_on([0]))
        .task(TaskSpec::hog("stays").only_on([0]))
        .tasks(2, late)
        .at(ms(100), |kernel| {
            let stays = kernel.task_named("stays");
            kernel.set_affinity(stays, [0, 1].into_iter().collect());
        })
        .at(ms(250), |kernel| {
            let stays = kernel.task_named("stays");
            kernel.disable_migration(stays);
        })
        .run_for(LENGTH)
        .pass();
    let beside = outcome.task("there 0").ran_ns;
    assert!(outcome.task("stays").ran_ns > beside, "it ran {:?}", outcome.task("stays"));
}

/// Two domains have too much, and two too little: one for each.
#[test]
pub(crate) fn two_domains_do_not_pass_their_load_to_the_same_one() {
    let alone = [("greedy_threshold", 0), ("direct_greedy_under", 0)];
    let mut run = rusty("two and two", machine(4, 4, 1), &alone);
    for (name, n, cpu) in [("a", 8, 0), ("b", 8, 1), ("c", 1, 2), ("d", 1, 3)] {
        run = bound_until(run, name, n, &[cpu], ms(1_000));
    }
    // Load is compared after 2 s, and not again.
    let outcome = run.run_for(ms(4_000)).pass();
    for name in ["c", "d"] {
        let alone = outcome.task(&format!("{name} 0")).ran_ns;
        assert!(alone < ms(4_000) * 9 / 10, "{name} was left alone for {alone}");
    }
}

/// A hog that is alone on its CPU is never stopped: its domain is busy all the same.
#[test]
pub(crate) fn who_always_goes_on_makes_its_domain_busy() {
    let wait = |under| {
        let set = [("direct_greedy_under", under), ("greedy_threshold", 0)];
        let child = || Step::Fork(Arc::new(TaskSpec::named("child").run(exactly(us(500)))));
        let parent = TaskSpec::named("parent").only_on([0]).step(child()).run(exactly(ms(2)));
        let run = rusty("half busy", machine(4, 2, 1), &set)
            .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).only_on([0, 1]))
            .task(TaskSpec::hog("goes on").only_on([2]))
            .task(parent.sleep(exactly(ms(5))).for_ever())
            .idle_at_most(LENGTH);
        let outcome = run.run_for(LENGTH).pass();
        let waits = outcome.waits_ns("child");
        waits.iter().sum::<u64>() / waits.len() as u64
    };
    assert!(wait(60) < us(100), "{}", wait(60));
    assert!(wait(40) > ms(1), "{}: it took a CPU of a domain that is half busy", wait(40));
}

#[test]
fn cpus_of_a_domain_may_go_and_come_back() {
    let outcome = rusty("CPUs go", machine(8, 2, 1), &[])
        .tasks(10, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(500), |kernel| {
            for cpu in 0..4 {
                assert!(kernel.cpu_off(cpu));
            }
        })
        .at(ms(1_500), |kernel| {
            for cpu in 0..4 {
                assert!(kernel.cpu_on(cpu));
            }
        })
        .waits_at_most(ms(1_800))
        .run_for(LENGTH)
        .pass();
    let all = ran(&outcome, "hog");
    assert!(all > (8 * 3_000 + 4 * 1_000) * ms(1) * 96 / 100, "{all}");
}

#[test]
fn one_cpu_is_a_domain() {
    let outcome = rusty("one CPU", machine(1, 1, 1), &[])
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(LENGTH)
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns.abs_diff(LENGTH / 3) <= SLICE + TICK, "{name}: {figures:?}");
    }
}

#[test]
fn two_lanes_have_domains_of_their_own() {
    let run = rusty("two lanes", machine(8, 2, 1), &[])
        .tasks(8, |i| TaskSpec::hog(format!("a {i}")))
        .tasks(8, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b"));
    run.at(0, |kernel| {
        set_app(kernel, 1, "rusty", 100);
        assign(kernel, "b", 1);
    })
    .lane_shares(0.2)
    .run_for(LENGTH)
    .pass();
}

/// By their weights its turn comes after more than 30 s.
#[test]
pub(crate) fn who_weighs_next_to_nothing_runs_every_few_seconds() {
    policy("a light hog beside a heavy one", "rusty")
        .task(TaskSpec::hog("light").weight(1))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(8_668))
        .waits_at_most(ms(8_000))
        .run_for(ms(60_000))
        .pass();
}

/// How often two CPUs switch in 4 s.
fn switches(set: &[(&str, u64)], tasks: fn(Scenario) -> Scenario) -> u64 {
    tasks(rusty("slices", machine(2, 2, 1), set)).run_for(LENGTH).pass().switches
}

/// Three that wait for CPU 0.
fn three_on_one(run: Scenario) -> Scenario {
    run.tasks(3, |i| TaskSpec::hog(format!("{i}")).only_on([0]))
}

#[test]
pub(crate) fn slices_are_short_while_all_cpus_are_busy() {
    let (long, short) = (LENGTH / SLICE, LENGTH / TICK);
    let six = |run: Scenario| run.tasks(6, |i| TaskSpec::hog(format!("{i}")));
    let as_in_2024 = [("slice_overutil_ns", SLICE)];
    let busy = switches(&[], six);
    assert!((2 * short * 9 / 10..=2 * short + 10).contains(&busy), "{busy} switches while all are busy");
    let busy = switches(&as_in_2024, six);
    assert!(busy <= 2 * long + 2, "{busy} switches with long slices");
    let idle = switches(&[], three_on_one);
    assert!(idle <= long + 1, "{idle} switches while a CPU is idle");
    // It runs something at nine looks of ten.
    let at_times = |run: Scenario| {
        let other = TaskSpec::named("other").only_on([1]);
        three_on_one(run).task(other.run(exactly(ms(9))).sleep(exactly(us(1_100))).for_ever())
    };
    let (now, then) = (switches(&[], at_times), switches(&as_in_2024, at_times));
    assert!(now < then + 20, "{now} switches while a CPU is idle at times, {then} with long slices");
}
