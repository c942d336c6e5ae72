//! The model of the fair class by its parts: requests and when they are due, debts, wake-ups,
//! and what cgroups weigh on each CPU.

use metasched_sim::task::Step;
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, us};

/// What a task asks for at once, on one CPU.
const SLICE: u64 = us(700);
const LENGTH: u64 = ms(4_000);

fn hogs(name: &str, count: usize) -> Scenario {
    Scenario::eevdf(name).tasks(count, |i| TaskSpec::hog(format!("hog {i}"))).run_for(LENGTH)
}

fn mean_wait(outcome: &Outcome, task: &str) -> u64 {
    outcome.task(task).waited_ns / outcome.task(task).waits
}

fn share(outcome: &Outcome, task: &str) -> f64 {
    outcome.task(task).ran_ns as f64 / outcome.simulated_ns as f64
}

/// A tick is 10 ms here: a timer of its own ends a request.
#[test]
fn a_request_ends_when_it_is_served_and_not_at_a_tick() {
    let machine = Machine::cpus(1).hz(100).unwrap();
    let outcome = hogs("three hogs at 100 Hz", 3).machine(machine).pass();
    for (name, hog) in outcome.all() {
        assert!(hog.longest_wait_ns <= 2 * SLICE + us(20), "{name}: {}", hog.longest_wait_ns);
        assert!(hog.waits > LENGTH / SLICE / 4, "{name}: {}", hog.waits);
    }
}

#[test]
fn more_cpus_make_longer_requests() {
    let switches = |cpus| {
        let pinned = |i| TaskSpec::hog(format!("hog {i}")).only_on([0]);
        let run = Scenario::eevdf("two hogs").cpus(cpus).tasks(2, pinned).run_for(LENGTH);
        let outcome = run.idle_at_most(LENGTH).pass();
        (LENGTH / outcome.all().map(|(_, hog)| hog.involuntary_switches).sum::<u64>()) as f64
    };
    for (cpus, slices) in [(1, 1.0), (2, 2.0), (4, 3.0), (8, 4.0), (64, 4.0)] {
        let lasts = switches(cpus) / SLICE as f64;
        assert!((lasts / slices - 1.0).abs() < 0.1, "{cpus} CPUs: {lasts:.2} times 0.7 ms");
    }
}

/// Its request is due in a fifth of the time.
#[test]
fn a_heavier_one_that_wakes_takes_the_cpu_and_an_equal_one_waits_for_its_turn() {
    let wait = |weight| {
        let sleeper = TaskSpec::named("sleeper").weight(weight).run(exactly(us(100)));
        let sleeper = sleeper.sleep(between(ms(5), ms(15))).for_ever();
        mean_wait(&hogs("a sleeper beside four hogs", 4).task(sleeper).pass(), "sleeper")
    };
    let (heavy, equal) = (wait(500), wait(100));
    assert!(heavy < us(150), "{heavy}");
    assert!((us(250)..SLICE).contains(&equal), "{equal}");
}

/// Nobody takes the CPU from a hog that has had no more than its part, before its request is served.
#[test]
fn who_has_had_no_more_than_its_part_is_not_interrupted() {
    let sleeper = TaskSpec::named("sleeper").run(exactly(us(100))).sleep(between(ms(5), ms(15)));
    let outcome = hogs("a sleeper beside a hog", 1).task(sleeper.for_ever()).pass();
    let longest = outcome.task("sleeper").longest_wait_ns;
    assert!((SLICE / 2..=SLICE + us(20)).contains(&longest), "{longest}");
}

/// The heavy one's requests are due early, all the time; it runs no farther ahead for that.
#[test]
fn an_early_deadline_waits_until_it_is_eligible() {
    let outcome =
        hogs("a heavy hog beside light ones", 4).task(TaskSpec::hog("heavy").weight(2_000)).pass();
    assert!((share(&outcome, "heavy") - 20.0 / 24.0).abs() < 0.005, "{}", share(&outcome, "heavy"));
    // By deadlines alone it would have run for a whole request of a light one's virtual time.
    let longest = outcome.task("hog 0").longest_wait_ns;
    assert!(longest < 24 * SLICE + 4 * SLICE, "{longest}");
}

/// It sleeps as soon as it has had more than its part; that does not help it.
#[test]
fn who_sleeps_in_debt_gains_nothing() {
    for (run, sleep) in [(us(3_000), us(200)), (us(690), us(50)), (us(1_500), us(10))] {
        let cheat = TaskSpec::named("cheat").run(exactly(run)).sleep(exactly(sleep)).for_ever();
        let outcome = hogs("one that sleeps a little", 3).task(cheat).pass();
        let share = share(&outcome, "cheat");
        assert!(share < 0.255, "{share}");
    }
}

/// It competes on while it sleeps. What it would still owe otherwise it would wait for.
#[test]
fn a_debt_is_paid_back_during_a_sleep() {
    let sleeper = TaskSpec::named("sleeper").run(exactly(SLICE)).sleep(between(ms(15), ms(25)));
    let outcome = hogs("a request, then a sleep", 1).task(sleeper.for_ever()).pass();
    let mean = mean_wait(&outcome, "sleeper");
    assert!(mean < us(500), "{mean}");
}

/// While it competes there it is not looked for another CPU for it.
#[test]
fn who_wakes_while_it_pays_back_wakes_where_it_was() {
    let sleeper = |sleep| {
        let sleeper = TaskSpec::named("sleeper").run(exactly(ms(3))).sleep(exactly(sleep));
        let outcome = Scenario::eevdf("an idle CPU beside a hog")
            .cpus(2)
            .task(TaskSpec::hog("hog").only_on([0]).weight(1_000))
            .task(sleeper.only_on([0]).for_ever())
            .at(ms(10), |kernel| {
                let sleeper = kernel.task_named("sleeper");
                kernel.set_affinity(sleeper, [0, 1].into_iter().collect());
            })
            .idle_at_most(LENGTH)
            .run_for(ms(60))
            .pass();
        outcome.task("sleeper").migrations
    };
    assert!(sleeper(ms(40)) <= 1);
    // It is moved by an idle CPU that finds it waiting, and not by its wake-ups.
    assert!(sleeper(us(10)) <= 1);
}

#[test]
fn who_yields_has_as_much_behind_it_as_after_a_whole_request() {
    let yields = TaskSpec::named("yields").run(exactly(us(50))).step(Step::Yield).for_ever();
    let outcome = hogs("one that yields beside a hog", 1).task(yields.clone()).pass();
    let share = share(&outcome, "yields");
    // Half of the CPU would be its.
    assert!(share < 0.15, "{share}");
    let alone = Scenario::eevdf("alone").task(yields).run_for(LENGTH).pass();
    assert!(alone.task("yields").ran_ns > LENGTH * 99 / 100);
}

#[test]
fn a_new_weight_counts_at_once_for_who_waits_and_who_runs() {
    let outcome = hogs("100 becomes 300", 2)
        .at(LENGTH / 2, |kernel| {
            let promoted = kernel.task_named("hog 0");
            kernel.set_weight(promoted, 300);
        })
        .pass();
    let share = share(&outcome, "hog 0");
    assert!((share - 0.625).abs() < 0.002, "{share}");
}

/// Four tasks on two CPUs: the cgroup counts as much as two tasks of its weight, three quarters of
/// that on the CPU with three of them.
#[test]
fn a_cgroup_weighs_on_each_cpu_by_its_load_there() {
    let member = |i: usize| TaskSpec::hog(format!("a {i}")).in_cgroup("a").only_on([i / 3]);
    let outcome = Scenario::eevdf("three and one")
        .cpus(2)
        .tasks(4, member)
        .tasks(2, |i| TaskSpec::hog(format!("beside {i}")).only_on([i]))
        .run_for(2 * LENGTH)
        .pass();
    for (beside, wanted) in [("beside 0", 1.0 / 2.5), ("beside 1", 1.0 / 1.5)] {
        let share = share(&outcome, beside);
        assert!((share / wanted - 1.0).abs() < 0.03, "{beside}: {share:.3}, not {wanted:.3}");
    }
}

/// Since Linux 7.3: one task for each CPU, where it has so many. How many it has is an average, which
/// comes to a little less than whole numbers, and is rounded down.
#[test]
fn a_cgroup_counts_as_often_as_it_has_tasks_and_there_are_cpus() {
    for (count, times) in [(1, 1.0), (2, 1.0), (4, 3.0), (12, 4.0)] {
        let outcome = Scenario::eevdf("a cgroup beside a crowd")
            .cpus(4)
            .tasks(count, |i| TaskSpec::hog(format!("a {i}")).in_cgroup("a").only_on([i % 4]))
            .tasks(8, |i| TaskSpec::hog(format!("beside {i}")).only_on([i % 4]))
            .run_for(2 * LENGTH)
            .pass();
        let of = outcome.all().filter(|(name, _)| name.starts_with("a "));
        let ran: u64 = of.map(|(_, figures)| figures.ran_ns).sum();
        let share = ran as f64 / (2 * LENGTH) as f64;
        // On each of its CPUs two others are beside its part.
        let cpus = f64::from(count.min(4) as u32);
        let wanted = times / (times / cpus + 2.0);
        // What averages say of the beginning is part of it.
        assert!((share / wanted - 1.0).abs() < 0.06, "{count} tasks: {share:.3}, not {wanted:.3}");
    }
}

#[test]
fn who_wakes_takes_a_cpu_that_has_only_work_of_idle_cgroups() {
    let wakes = TaskSpec::named("wakes").run(exactly(us(300))).sleep(between(ms(3), ms(9)));
    let outcome = Scenario::eevdf("two CPUs, one with work that gives way")
        .cpus(2)
        .task(TaskSpec::hog("gives way").in_cgroup("idle").only_on([1]))
        .task(TaskSpec::hog("hog").only_on([0]))
        .at(0, |kernel| kernel.set_cgroup_idle("idle", true))
        .task(wakes.for_ever())
        .run_for(LENGTH)
        .pass();
    let lost = 1.0 - share(&outcome, "hog");
    assert!(lost < 0.01, "the hog lost {lost:.3}");
}

/// The CPU that is first takes all that there is, and what it leaves the other one has.
#[test]
fn a_quota_of_less_than_a_portion_is_used_up_by_one_cpu() {
    let outcome = Scenario::eevdf("3 ms of 100 for two CPUs")
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("a {i}")).in_cgroup("a").only_on([i]))
        .at(ms(10), |kernel| kernel.set_cgroup_max("a", 100_000, 3_000, 0))
        .idle_at_most(LENGTH)
        .waits_at_most(LENGTH)
        .run_for(LENGTH)
        .pass();
    let ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    let granted = ms(3) * LENGTH / ms(100) + 2 * ms(10);
    assert!(ran.iter().sum::<u64>() < granted + ms(16), "{ran:?}");
    assert!(outcome.all().all(|(_, hog)| hog.longest_wait_ns > ms(90)));
}
