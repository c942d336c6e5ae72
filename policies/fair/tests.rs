//! What fair promises, run in the simulator from its own source, and beside its model of the
//! kernel's fair class.

use metasched_sim::metasched::set_option;
use metasched_sim::task::Step;
use metasched_sim::{
    Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, seeds, us,
};

/// The default of `slice_ns` on so many CPUs.
const fn slice(cpus: u32) -> u64 {
    us(700) * (1 + cpus.ilog2() as u64)
}
/// What a run goes on beyond its slice is less than that.
const TICK: u64 = ms(4);
const LENGTH: u64 = ms(4_000);

fn fair(name: &str) -> Scenario {
    policy(name, "fair")
}

fn set(scenario: Scenario, option: &str, value: u64) -> Scenario {
    let (option, value) = options::option("fair", option, &value.to_string()).unwrap();
    scenario.at(0, move |kernel| set_option(kernel, 0, option, value))
}

/// With requests of 3 ms: what a test looks for is bounded by a request and shows by more.
fn long(name: &str) -> Scenario {
    set(fair(name), "slice_ns", ms(3))
}

/// The policy and what it is to be like.
fn both(name: &str) -> [Scenario; 2] {
    [fair(name), Scenario::eevdf(name)]
}

/// Hogs in cgroups, each with so many and `cpu.weight`.
fn hogs(mut run: Scenario, cpus: usize, cgroups: &[(&'static str, usize, u32)]) -> Scenario {
    run = run.cpus(cpus).run_for(LENGTH);
    for (cgroup, count, weight) in cgroups.iter().copied() {
        run = run.tasks(count, |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup));
        run = run.at(0, move |kernel| kernel.set_cgroup_weight(cgroup, weight));
    }
    run
}

/// CPU time of the tasks whose names begin so, as a part of all that there was.
fn share(outcome: &Outcome, cpus: usize, prefix: &str) -> f64 {
    let of = outcome.all().filter(|(name, _)| name.starts_with(&format!("{prefix} ")));
    let ran: u64 = of.map(|(_, figures)| figures.ran_ns).sum();
    ran as f64 / (outcome.simulated_ns * cpus as u64) as f64
}

fn assert_shares(outcome: &Outcome, cpus: usize, wanted: &[(&str, f64)], tolerance: f64) {
    for (prefix, wanted) in wanted {
        let share = share(outcome, cpus, prefix);
        assert!((share / wanted - 1.0).abs() < tolerance, "{prefix}: {share:.4}, not {wanted}");
    }
}

fn mean_wait(outcome: &Outcome, task: &str) -> u64 {
    let figures = outcome.task(task);
    figures.waited_ns / figures.waits
}

#[test]
fn weights_share_the_cpu_within_a_hundredth() {
    let outcome = fair("weights 100, 300 and 600")
        .task(TaskSpec::hog("a 0"))
        .task(TaskSpec::hog("b 0").weight(300))
        .task(TaskSpec::hog("c 0").weight(600))
        .run_for(ms(8_000))
        .pass();
    assert_shares(&outcome, 1, &[("a", 0.1), ("b", 0.3), ("c", 0.6)], 0.01);
}

#[test]
fn equal_weights_share_many_cpus_equally() {
    let outcome = fair("nine hogs on four CPUs")
        .cpus(4)
        .tasks(9, |i| TaskSpec::hog(format!("hog {i}")))
        .shares(0.02)
        .run_for(ms(8_000))
        .pass();
    let ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    let (least, most) = (ran.iter().min().unwrap(), ran.iter().max().unwrap());
    assert!(most - least <= 2 * (slice(4) + TICK), "{ran:?}");
}

#[test]
fn a_new_weight_counts_from_then_on() {
    let outcome = fair("weight 100 becomes 300")
        .task(TaskSpec::hog("steady"))
        .task(TaskSpec::hog("promoted"))
        .at(ms(4_000), |kernel| {
            let promoted = kernel.task_named("promoted");
            kernel.set_weight(promoted, 300);
        })
        .run_for(ms(8_000))
        .pass();
    let share = outcome.task("promoted").ran_ns as f64 / ms(8_000) as f64;
    assert!((share - 0.625).abs() < 0.007, "{share}");
}

/// What is owed to a sleeper is what it was owed when it went to sleep, and one request at most.
#[test]
fn who_sleeps_long_saves_nothing() {
    let outcome = fair("a long sleeper beside a hog")
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").sleep(exactly(ms(2_000))).run(exactly(ms(1_000))))
        .run_for(ms(2_400))
        .pass();
    let ran = outcome.task("sleeper").ran_ns;
    assert!(ran.abs_diff(ms(200)) <= slice(1) + TICK, "{ran}");
}

#[test]
pub(crate) fn who_wants_little_takes_the_cpu_of_who_has_had_its_part() {
    // Its requests are due in a fifth of the time of the hogs'.
    let sleeper = TaskSpec::named("sleeper").weight(500).run(exactly(us(100)));
    // Not in step with ticks.
    let sleeper = sleeper.sleep(between(ms(5), ms(15)));
    let taken = fair("a sleeper beside four hogs")
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(sleeper.for_ever())
        .run_for(LENGTH)
        .pass();
    assert!(taken.task("sleeper").waits > 300);
    let waited = mean_wait(&taken, "sleeper");
    assert!(waited <= us(300), "the sleeper waits {waited}");
    // One hog is owed what it runs: 1.5 ms after it began a request at a tick it may be left alone.
    let wakes = TaskSpec::named("once").weight(500);
    let wakes = wakes.sleep(exactly(us(9_500))).run(exactly(us(100)));
    let once = |run: Scenario| run.task(TaskSpec::hog("hog")).task(wakes.clone()).run_for(ms(40));
    let early = set(long("a hog in a later part of its request"), "min_granularity_ns", us(700));
    let taken = once(early).pass();
    let left = once(long("a hog that is left alone")).pass();
    let [taken, left] = [taken, left].map(|outcome| outcome.task("once").longest_wait_ns);
    assert!(taken < us(100) && left > ms(1), "{taken} and {left}");
}

/// It sleeps as soon as it has had more than its part; that does not help it.
#[test]
pub(crate) fn who_owes_pays_back_before_it_is_eligible_again() {
    let outcome = long("one that sleeps a little beside hogs")
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("cheat 0").run(exactly(ms(3))).sleep(exactly(us(200))).for_ever())
        .run_for(ms(8_000))
        .pass();
    let share = share(&outcome, 1, "cheat");
    assert!(share < 0.26, "{share} for the cheat");
    assert!(share > 0.2, "{share} for the cheat");
}

/// The heavy one's requests are due early, all the time; it runs no farther ahead for that.
#[test]
pub(crate) fn an_early_deadline_waits_until_it_is_eligible() {
    let light = |name: &str| TaskSpec::named(name).run(exactly(us(500))).sleep(exactly(ms(40)));
    let outcome = long("a heavy hog beside light ones")
        .machine(Machine::cpus(1).hz(1000).unwrap())
        .task(TaskSpec::hog("heavy 0").weight(2_000))
        .tasks(4, |i| TaskSpec::hog(format!("light {i}")))
        .task(light("sleeper").for_ever())
        .run_for(ms(8_000))
        .pass();
    assert_shares(&outcome, 1, &[("heavy", 20.0 / 24.2), ("light", 4.0 / 24.2)], 0.03);
    // What it lags behind by deadlines alone: one virtual slice of a light task, 70 ms.
    let longest = outcome.task("light 0").longest_wait_ns;
    assert!(longest <= ms(110), "{longest}");
}

#[test]
pub(crate) fn cgroups_have_the_shares_of_the_fair_class() {
    for run in both("nested") {
        let outcome = hogs(run, 1, &[("a/x", 1, 100), ("a/y", 1, 300), ("b", 1, 100)])
            .at(0, |kernel| kernel.set_cgroup_weight("a", 300))
            .pass();
        assert_shares(&outcome, 1, &[("a/x", 0.1875), ("a/y", 0.5625), ("b", 0.25)], 0.03);
    }
    for run in both("one and nine") {
        let outcome = hogs(run, 1, &[("a", 1, 100), ("b", 9, 100)]).pass();
        assert_shares(&outcome, 1, &[("a", 0.5), ("b", 0.5)], 0.03);
    }
    // The class counts a cgroup as often as it has tasks, on average, rounded down: three times here.
    for (run, a) in both("four and twelve").into_iter().zip([0.5, 3.0 / 7.0]) {
        let outcome = hogs(run, 4, &[("a", 4, 100), ("b", 12, 100)]).pass();
        assert_shares(&outcome, 4, &[("a", a), ("b", 1.0 - a)], 0.05);
    }
    for run in both("beside") {
        let outcome = hogs(run, 1, &[("a", 3, 100)]).task(TaskSpec::hog("alone 0")).pass();
        assert_shares(&outcome, 1, &[("a", 0.5), ("alone", 0.5)], 0.03);
    }
}

#[test]
fn a_cgroup_that_does_not_want_its_share_leaves_it_to_the_others() {
    for run in both("a sleeper") {
        let sleeper = TaskSpec::named("a 0").in_cgroup("a").run(exactly(ms(1))).sleep(exactly(ms(9)));
        let outcome =
            hogs(run, 1, &[("b", 1, 100), ("c", 1, 200)]).task(sleeper.for_ever()).pass();
        let rest = 1.0 - share(&outcome, 1, "a");
        assert!((0.9..0.93).contains(&rest), "{rest}");
        assert_shares(&outcome, 1, &[("b", rest / 3.0), ("c", rest * 2.0 / 3.0)], 0.03);
    }
}

#[test]
fn an_idle_cgroup_gets_next_to_nothing_beside_others_and_all_alone() {
    let idle = |run: Scenario| run.at(ms(1), |kernel| kernel.set_cgroup_idle("a", true));
    let beside = idle(hogs(fair("idle"), 1, &[("a", 1, 100), ("b", 1, 100)])).pass();
    assert!(share(&beside, 1, "a") < 0.012, "{:.4}", share(&beside, 1, "a"));
    let alone = idle(hogs(fair("idle and alone"), 1, &[("a", 1, 100)])).pass();
    assert!(share(&alone, 1, "a") > 0.99);
}

/// Those that run when nobody else wants to give way at once.
#[test]
fn who_wakes_waits_for_no_idle_cgroup() {
    let service = TaskSpec::named("service").run(exactly(us(300))).sleep(exactly(ms(5)));
    let service = service.arrives(ms(100));
    let outcome = hogs(fair("a service beside idle hogs"), 1, &[("a", 4, 100)])
        .at(ms(1), |kernel| kernel.set_cgroup_idle("a", true))
        .task(service.for_ever())
        .pass();
    let longest = outcome.task("service").longest_wait_ns;
    assert!(longest <= us(100), "{longest}");
}

#[test]
fn weights_and_moves_take_effect_when_they_are_made() {
    for run in both("changes") {
        let outcome = hogs(run, 1, &[("a", 1, 100), ("b", 1, 100)])
            .at(LENGTH / 2, |kernel| {
                kernel.set_cgroup_weight("a", 300);
                kernel.set_cgroup_weight("a", 700);
            })
            .pass();
        assert_shares(&outcome, 1, &[("a", 0.5 * 0.5 + 0.875 * 0.5)], 0.03);
    }
    for run in both("a move") {
        let outcome = hogs(run, 1, &[("a", 2, 100), ("b", 1, 100)])
            .at(LENGTH / 2, |kernel| {
                let task = kernel.task_named("a 1");
                kernel.move_to_cgroup(task, "b");
            })
            .pass();
        let moved = outcome.task("a 0").ran_ns as f64 / LENGTH as f64;
        assert!((moved - (0.25 + 0.5) / 2.0).abs() < 0.02, "{moved:.3}");
    }
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = fair("pinned beside three hogs on two CPUs")
        .cpus(2)
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .task(
            TaskSpec::named("pinned")
                .only_on([1])
                .run(exactly(us(500)))
                .sleep(exactly(ms(15)))
                .for_ever(),
        )
        .run_for(LENGTH)
        .pass();
    assert!(outcome.task("pinned").longest_wait_ns <= slice(2) + TICK);
}

/// While one hog has CPU 0, two share CPU 1, so that it gets ahead of them by a second in two.
/// Who then comes to CPU 0 begins where those two are.
#[test]
fn a_task_that_had_a_cpu_to_itself_does_not_pay_for_that_time() {
    let outcome = fair("a hog beside a crowd elsewhere")
        .cpus(2)
        .task(TaskSpec::hog("ahead").only_on([0]))
        .tasks(2, |i| TaskSpec::hog(format!("crowd {i}")).only_on([1]))
        .task(TaskSpec::hog("late").only_on([0]).arrives(ms(4_000)))
        .run_for(ms(8_000))
        .pass();
    let longest = outcome.task("ahead").longest_wait_ns;
    assert!(longest <= 3 * (slice(2) + TICK), "{longest}");
    let late = outcome.task("late").ran_ns;
    assert!(late.abs_diff(ms(2_000)) <= 5 * (slice(2) + TICK), "{late}");
}

/// Its turn by its weight would come after 30 s.
#[test]
fn who_weighs_next_to_nothing_runs_every_few_seconds() {
    let outcome = fair("a light hog beside heavy ones")
        .task(TaskSpec::hog("light").weight(1))
        .tasks(4, |i| TaskSpec::hog(format!("heavy {i}")).weight(10_000))
        .waits_at_most(ms(6_000))
        .run_for(ms(60_000))
        .pass();
    let light = outcome.task("light");
    assert!(light.longest_wait_ns <= ms(6_000), "{}", light.longest_wait_ns);
    assert!(light.ran_ns < ms(120), "{}", light.ran_ns);
}

#[test]
fn no_cache_idles_beside_one_that_has_much_to_do() {
    let outcome = fair("a crowd that begins under one cache")
        .machine(Machine::new(8, 4, 2, false).unwrap())
        .tasks(8, |i| TaskSpec::hog(format!("hog {i}")))
        .idle_at_most(ms(10))
        .run_for(LENGTH)
        .pass();
    let ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    assert!(ran.iter().all(|ran| *ran > LENGTH * 95 / 100), "{ran:?}");
}

/// What balances would come some milliseconds later.
#[test]
pub(crate) fn a_cpu_with_nothing_to_do_takes_from_another_cache_at_once() {
    fair("a cache with time beside one without")
        .machine(Machine::new(4, 2, 1, false).unwrap())
        .tasks(6, |i| {
            TaskSpec::named(format!("free {i}"))
                .run(between(ms(1), ms(5)))
                .sleep(between(us(100), ms(1)))
                .for_ever()
        })
        .idle_at_most(us(100))
        .run_for(LENGTH)
        .pass();
}

/// Ten hogs were bound to one cache and are not any more, beside two under the other.
#[test]
fn uneven_caches_become_even() {
    let outcome = fair("bound to a cache, then free")
        .machine(Machine::new(4, 2, 1, false).unwrap())
        .tasks(10, |i| TaskSpec::hog(format!("bound {i}")).only_on([0, 1]))
        .tasks(2, |i| TaskSpec::hog(format!("free {i}")).only_on([2, 3]))
        .at(ms(1_000), |kernel| {
            for i in 0..10 {
                let task = kernel.task_named(&format!("bound {i}"));
                kernel.set_affinity(task, (0..4).collect());
            }
        })
        .run_for(ms(9_000))
        .pass();
    let bound: u64 = (0..10).map(|i| outcome.task(&format!("bound {i}")).ran_ns).sum();
    // 2 CPUs for 1 s, then ten twelfths of four, but for some steps of balancing.
    assert!(bound > ms(2_000) + ms(32_000) * 76 / 100, "{bound}");
}

/// Each set is bound to a cache of one CPU, and is not any more.
fn freed(run: Scenario, heavy: u32) -> Outcome {
    run.machine(Machine::new(2, 2, 1, false).unwrap())
        .tasks(3, |i| TaskSpec::hog(format!("heavy {i}")).weight(heavy).only_on([0]))
        .tasks(3, |i| TaskSpec::hog(format!("light {i}")).only_on([1]))
        .at(ms(10), |kernel| {
            for i in 0..6 {
                let name = format!("{} {}", ["heavy", "light"][i / 3], i % 3);
                let task = kernel.task_named(&name);
                kernel.set_affinity(task, (0..2).collect());
            }
        })
        .run_for(ms(8_000))
        .pass()
}

/// Three heavy tasks under one cache weigh four times what three light ones do under the other, but
/// not so much more that one of a mean weight could move and leave more behind.
#[test]
pub(crate) fn weights_count_across_caches_of_one_cpu() {
    let outcome = freed(fair("heavy and light ones, each under its cache"), 400);
    // The one that shares with the light ones has 4/7 of a CPU, or 4/6.
    assert_shares(&outcome, 2, &[("heavy", 0.79), ("light", 0.21)], 0.12);
}

/// Wherever two of them are, they change places with the third.
#[test]
pub(crate) fn equal_tasks_take_turns_at_having_a_cache_to_themselves() {
    let outcome = fair("three hogs under two caches")
        .machine(Machine::new(2, 2, 1, false).unwrap())
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(8_000))
        .pass();
    for (name, figures) in outcome.all() {
        let ran = figures.ran_ns as f64 / ms(8_000) as f64;
        assert!((ran - 2.0 / 3.0).abs() < 0.05, "{name} had {ran:.3} of a CPU");
    }
}

#[test]
fn what_waits_under_a_cache_without_cpus_is_run_elsewhere() {
    let outcome = fair("a cache goes off line")
        .machine(Machine::new(4, 2, 1, false).unwrap())
        .tasks(8, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(500), |kernel| {
            kernel.cpu_off(2);
            kernel.cpu_off(3);
        })
        .run_for(LENGTH)
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.longest_wait_ns <= ms(150), "{name}: {}", figures.longest_wait_ns);
    }
}

/// A service that wants less than its part waits for the first part of a request at most, and a slice is
/// seen to be used up when it is: both are between two ticks, which are 4 ms apart.
#[test]
pub(crate) fn a_run_that_is_over_ends_before_the_next_tick() {
    let service = TaskSpec::named("service").in_cgroup("service").run(exactly(ms(1)));
    let service = service.sleep(between(ms(8), ms(10))).for_ever();
    // The others wait behind requests that are due before its own.
    let most_wait = |run: Scenario, part: usize| {
        let run = hogs(run, 1, &[("batch", 4, 100)]).task(service.clone());
        let waits = |seed| run.clone().seed(seed).pass().waits_ns("service");
        let mut waits: Vec<u64> = (1..=8).flat_map(waits).collect();
        waits.sort_unstable();
        waits[waits.len() * part / 100]
    };
    let first_part = set(long("a service beside a batch"), "min_granularity_ns", us(700));
    let parts = most_wait(first_part, 90);
    assert!(parts <= us(750), "the service waits {parts}");
    let slices = most_wait(long("one that waits for slices"), 99);
    assert!((ms(2)..=ms(3) + us(200)).contains(&slices), "the service waits {slices}");
}

#[test]
pub(crate) fn children_share_with_their_parents_cgroup() {
    let child = || Step::Fork(std::sync::Arc::new(TaskSpec::named("child").in_cgroup("a").run(exactly(ms(2)))));
    let outcome = hogs(set(long("a tree of forks"), "min_granularity_ns", us(700)), 1, &[("b", 1, 100)])
        .task(TaskSpec::named("a 0").in_cgroup("a").step(child()).run(exactly(ms(1))).for_ever())
        .pass();
    let b = share(&outcome, 1, "b");
    assert!((b - 0.5).abs() < 0.05, "{b} beside the children");
}

/// Whoever has a cgroup to itself has what its weight says, whatever the others do. How near waits
/// and shares are to the class is in `fair_beside.rs` of the simulator's tests.
#[test]
fn cgroups_of_random_tasks_have_their_shares() {
    for seed in seeds(20) {
        let outcome = hogs(fair("a mix"), 2, &[("batch", 4, 100), ("heavy", 2, 300)])
            .tasks(6, |i| {
                TaskSpec::named(format!("web {i}"))
                    .in_cgroup("web")
                    .run(between(us(100), us(900)))
                    .sleep(between(ms(2), ms(9)))
                    .for_ever()
            })
            .seed(seed)
            .pass();
        let (batch, heavy) = (share(&outcome, 2, "batch"), share(&outcome, 2, "heavy"));
        assert!((heavy / batch - 3.0).abs() < 0.15, "{heavy} to {batch}");
    }
}

/// Each child ends before it has paid for its run, and the next one owes nothing of its own.
#[test]
pub(crate) fn a_cgroup_gains_nothing_by_tasks_that_end() {
    let child = || Step::Fork(std::sync::Arc::new(TaskSpec::named("child").in_cgroup("a").run(exactly(ms(1)))));
    let parent = |i| {
        let parent = TaskSpec::named(format!("a {i}")).in_cgroup("a").step(child());
        parent.sleep(between(us(6_000), us(10_000))).for_ever()
    };
    let outcome = hogs(fair("short tasks"), 1, &[("b", 1, 100)]).tasks(8, parent).pass();
    let b = share(&outcome, 1, "b");
    assert!((b - 0.5).abs() < 0.05, "{b} for the other");
}

/// A thousand tasks come to a cgroup at once, each with a millisecond to do, and then end or sleep: whoever
/// runs beside that cgroup goes on having its part.
#[test]
pub(crate) fn a_thousand_tasks_at_once_are_one_cgroup() {
    let ends: fn(TaskSpec) -> TaskSpec = |task| task.rounds(1);
    let sleeps: fn(TaskSpec) -> TaskSpec = |task| task.sleep(exactly(ms(20_000))).for_ever();
    for then in [ends, sleeps] {
        let one = |i| {
            let task = TaskSpec::named(format!("burst {i}")).in_cgroup("burst");
            then(task.arrives(ms(100)).run(exactly(ms(1))))
        };
        let run = hogs(long("a burst"), 1, &[("hog", 1, 100)]).tasks(1_000, one);
        let outcome = run.waits_at_most(ms(6_000)).run_for(ms(3_000)).pass();
        let longest = outcome.task("hog 0").longest_wait_ns;
        assert!(longest < ms(70), "the hog waits {longest} ns");
        let burst = share(&outcome, 1, "burst");
        assert!(burst > 0.2, "the burst has {burst}");
    }
}

/// By their weights each has its turn after more than a minute; the kernel waits for half of one.
#[test]
pub(crate) fn a_hundred_idle_hogs_run_every_few_seconds() {
    let busy = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut cgroups: Vec<(&'static str, usize, u32)> = busy.map(|path| (path, 1, 100)).into();
    cgroups.push(("idle", 100, 100));
    let run = hogs(fair("idle hogs beside ten cgroups"), 4, &cgroups);
    let run = run.at(ms(1), |kernel| kernel.set_cgroup_idle("idle", true));
    let outcome = run.waits_at_most(ms(8_000)).run_for(ms(40_000)).pass();
    for (name, hog) in outcome.all().filter(|(name, _)| name.starts_with("idle ")) {
        assert!(hog.waits >= 5, "{name} ran {} times", hog.waits);
    }
}

/// Twenty hogs stand before them that are bound elsewhere. Both have more than their parts, and what
/// they owe is bounded, so that it is not exact.
#[test]
pub(crate) fn weights_count_on_a_cpu_with_less_to_do() {
    let outcome = fair("a heavy one and a light one beside a crowd elsewhere")
        .cpus(2)
        .tasks(20, |i| TaskSpec::hog(format!("crowd {i}")).only_on([0]))
        .task(TaskSpec::hog("heavy").weight(1_000).only_on([1]))
        .task(TaskSpec::hog("light").only_on([1]))
        .run_for(ms(8_000))
        .pass();
    let (heavy, light) = (outcome.task("heavy").ran_ns, outcome.task("light").ran_ns);
    assert!((5.0..20.0).contains(&(heavy as f64 / light as f64)), "{heavy} to {light}");
}

/// A has used up its tenth for most of the time; until it may run again the family is B's.
#[test]
pub(crate) fn who_waits_for_its_quota_leaves_its_share_to_its_siblings() {
    let run = long("a quota below a cgroup");
    let outcome = hogs(run, 1, &[("P/A", 2, 100), ("P/B", 2, 100), ("Q", 2, 100)])
        .at(0, |kernel| kernel.set_cgroup_max("P/A", 100_000, 10_000, 0))
        .run_for(ms(8_000))
        .pass();
    assert_shares(&outcome, 1, &[("P/A", 0.1), ("P/B", 0.4), ("Q", 0.5)], 0.06);
}

/// Of one cache a single CPU is left: what is even is by those that are on line.
#[test]
pub(crate) fn a_cache_has_the_work_of_its_cpus_that_are_on_line() {
    let outcome = fair("a cache with one CPU left")
        .machine(Machine::new(8, 4, 1, false).unwrap())
        .tasks(20, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(500), |kernel| {
            for cpu in 5..8 {
                kernel.cpu_off(cpu);
            }
        })
        .run_for(ms(10_500))
        .pass();
    let ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    let (least, most) = (ran.iter().min().unwrap(), ran.iter().max().unwrap());
    assert!(most * 10 < least * 13, "from {least} to {most}");
}
