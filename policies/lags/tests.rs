//! What lags promises, run in the simulator from its own source.

use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{BACK_TO_ROOT, LAGS, assign, set_app_with, set_option};
use metasched_sim::random::Random;
use metasched_sim::step::Step;
use metasched_sim::{
    Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, seeds, us,
};

/// Defaults of options.h.
const SLICE: u64 = ms(5);
const BOUND: u64 = ms(1_000);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

fn lags(name: &str, set: &[(&str, u64)]) -> Scenario {
    let set: Vec<(usize, u64)> = set
        .iter()
        .map(|(name, value)| options::option(LAGS, name, &value.to_string()).unwrap())
        .collect();
    policy(name, LAGS).at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

/// Puts cgroups on one lane of lags, each by itself.
fn flag(kernel: &mut Kernel, cgroups: &[&str]) {
    set_app_with(kernel, 1, "lags", (100, false), &[]);
    for cgroup in cgroups {
        assign(kernel, cgroup, 1);
    }
}

/// Runs so long in each millisecond, or in each few.
fn sleeper(name: &str, cgroup: &str, runs: u64, sleeps: u64) -> TaskSpec {
    TaskSpec::named(name).in_cgroup(cgroup).run(exactly(runs)).sleep(exactly(sleeps)).for_ever()
}

fn hogs(run: Scenario, n: usize, cgroup: &str) -> Scenario {
    run.tasks(n, |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup))
}

fn mean_wait(outcome: &Outcome, task: &str) -> u64 {
    let figures = outcome.task(task);
    figures.waited_ns / figures.waits.max(1)
}

fn longest_wait(outcome: &Outcome, task: &str) -> u64 {
    outcome.waits_ns(task).into_iter().max().unwrap_or(0)
}

/// CPU time of the tasks whose names begin so.
fn ran(outcome: &Outcome, prefix: &str) -> u64 {
    outcome.all().filter(|(name, _)| name.starts_with(prefix)).map(|(_, f)| f.ran_ns).sum()
}

#[test]
pub(crate) fn a_lighter_cgroup_takes_the_cpu_of_a_heavier_one() {
    let run = hogs(lags("one sleeps, four compute", &[]), 4, "batch")
        .task(sleeper("web", "web", us(200), ms(5)))
        .run_for(ms(8_000))
        .pass();
    let waited = mean_wait(&run, "web");
    assert!(waited < us(100), "the light one waits {waited} ns in the mean");
}

/// Each wants a third of the CPU or less; together they want more than there is.
#[test]
fn the_less_a_cgroup_uses_the_shorter_it_waits() {
    let run = lags("four cgroups", &[])
        .task(sleeper("a", "a", ms(1), ms(19)))
        .task(sleeper("b", "b", ms(3), ms(12)))
        .task(sleeper("c", "c", ms(6), ms(9)))
        .task(TaskSpec::hog("d").in_cgroup("d"))
        .run_for(ms(20_000))
        .pass();
    let waits: Vec<u64> = ["a", "b", "c", "d"].map(|task| mean_wait(&run, task)).to_vec();
    assert!(waits.is_sorted() && waits[0] < us(200), "from light to heavy they wait {waits:?}");
}

#[test]
pub(crate) fn a_cgroup_with_more_tasks_is_no_lighter_for_that() {
    // The credit is of the cgroup, on all CPUs.
    let run = hogs(hogs(lags("one hog beside six", &[]).cpus(2), 1, "one"), 6, "six")
        .run_for(ms(20_000))
        .pass();
    let (one, six) = (ran(&run, "one"), ran(&run, "six"));
    assert!(one as f64 > 0.9 * ms(20_000) as f64, "the cgroup of one had {one}, that of six {six}");
}

#[test]
pub(crate) fn nobody_is_passed_over_for_longer_than_the_bound() {
    // Those that come want all of the CPU that the hog had to itself.
    let light = |i: usize| {
        sleeper(&format!("light {i}"), &format!("light{i}"), ms(2), ms(58)).arrives(ms(3_000))
    };
    let longest = |bound_ns: u64| {
        let set = [("bound_ns", bound_ns), ("patience_ns", ms(4_000))];
        let run = hogs(lags("a hog, then sixty", &set), 1, "hog").tasks(60, light);
        longest_wait(&run.run_for(ms(8_000)).pass(), "hog 0")
    };
    let (short, long) = (longest(ms(100)), longest(ms(1_500)));
    assert!(short < ms(100) + 2 * ms(60) + TICK, "passed over for {short}");
    assert!(long > ms(1_000), "{long}");
}

#[test]
fn without_patience_who_comes_first_is_served_first() {
    let run = hogs(lags("first come", &[("patience_ns", 0)]), 4, "batch")
        .task(sleeper("web", "web", us(200), ms(5)))
        .run_for(ms(4_000))
        .pass();
    let waited = mean_wait(&run, "web");
    assert!(waited > 3 * SLICE && waited < 4 * (SLICE + TICK), "{waited}");
}

/// Who waits for another by yielding would otherwise have the CPU for its whole slice each time.
#[test]
pub(crate) fn who_yields_gives_way() {
    let yields = |i: usize| {
        let name = format!("yields {i}");
        TaskSpec::named(name).in_cgroup("one").run(exactly(us(10))).step(Step::Yield).for_ever()
    };
    let run = lags("two that yield", &[]).tasks(2, yields).run_for(ms(1_000)).pass();
    // 10 us and a call, then the other.
    assert!(run.switches > 90_000, "{} switches", run.switches);
}

#[test]
fn a_new_cgroup_comes_first() {
    let old = |i: usize| sleeper(&format!("old {i}"), &format!("old{i}"), ms(4), ms(4));
    let run = lags("one that is new", &[])
        .tasks(4, old)
        .task(sleeper("new", "new", us(500), ms(500)).arrives(ms(3_000)))
        .run_for(ms(6_000))
        .pass();
    assert!(longest_wait(&run, "new") < us(200), "{:?}", run.waits_ns("new"));
}

#[test]
pub(crate) fn a_heavier_weight_makes_a_cgroup_lighter() {
    // Both want more than half of the CPU.
    let run = hogs(hogs(lags("weights of 100 and 300", &[]), 1, "a"), 1, "b")
        .at(0, |kernel| kernel.set_cgroup_weight("b", 300))
        .run_for(ms(30_000))
        .pass();
    let (a, b) = (ran(&run, "a"), ran(&run, "b"));
    let times = b as f64 / a as f64;
    assert!((2.4..3.6).contains(&times), "the heavier weight had {times} times as much");
}

/// Regression: of what is highest in the lane the weight did not count, and each of these is.
#[test]
pub(crate) fn a_heavier_weight_makes_a_cgroup_lighter_that_is_flagged_by_itself() {
    let run = hogs(hogs(policy("flagged one by one", "fair"), 1, "a"), 1, "b")
        .at(0, |kernel| {
            kernel.set_cgroup_weight("b", 300);
            flag(kernel, &["a", "b"]);
        })
        .run_for(ms(30_000))
        .pass();
    let times = ran(&run, "b") as f64 / ran(&run, "a") as f64;
    assert!((2.4..3.6).contains(&times), "the heavier weight had {times} times as much");
}

/// Regression: a weight of 2, as Kubernetes gives small containers, made a credit of 20 ms a second count
/// for as much as the bound.
#[test]
fn weights_count_beside_each_other_and_not_beside_the_default() {
    let run = lags("all weigh 2", &[])
        .task(sleeper("light", "light", ms(1), ms(19)))
        .task(sleeper("heavy", "heavy", ms(8), ms(8)))
        .task(TaskSpec::hog("hog").in_cgroup("hog"))
        .at(0, |kernel| {
            for cgroup in ["light", "heavy", "hog"] {
                kernel.set_cgroup_weight(cgroup, 2);
            }
        })
        .run_for(ms(20_000))
        .pass();
    let waited = mean_wait(&run, "light");
    assert!(waited < us(200), "the light one waits {waited} ns in the mean");
}

/// So that a flag changes what others have by nothing.
#[test]
fn a_hundred_that_are_flagged_have_together_what_they_had_by_their_weights() {
    let names: Vec<String> = (0..100).map(|i| format!("f{i}")).collect();
    let run = names.iter().fold(policy("a hundred", "fair").cpus(2), |run, name| {
        run.task(TaskSpec::hog(name.clone()).in_cgroup(name.clone()))
    });
    let run = hogs(run, 2, "other")
        .at(0, move |kernel| {
            kernel.set_cgroup_weight("other", 1_000);
            flag(kernel, &names.iter().map(String::as_str).collect::<Vec<_>>());
        })
        .run_for(ms(20_000))
        .pass();
    let part = ran(&run, "other") as f64 / (ran(&run, "f") + ran(&run, "other")) as f64;
    assert!((0.081..0.101).contains(&part), "of 11,000 parts the unflagged 1,000 had {part}");
}

#[test]
fn what_goes_back_to_the_default_lane_below_a_flagged_cgroup_has_its_share_there() {
    let run = hogs(hogs(hogs(policy("taken out", "fair"), 1, "pod/in"), 1, "pod/out"), 1, "other")
        .at(0, |kernel| flag(kernel, &["pod"]))
        .at(ms(1_000), |kernel| assign(kernel, "pod/out", BACK_TO_ROOT))
        .at(ms(2_000), |kernel| kernel.set_cgroup_weight("pod/out", 300))
        .run_for(ms(22_000))
        .pass();
    let parts = ["pod/in", "pod/out", "other"].map(|name| ran(&run, name) as f64 / 22e9);
    assert!(parts[0] > 0.08 && parts[0] < 0.18, "an eighth, and at first a fourth: {parts:?}");
}

/// The original counts updates: what runs on four CPUs reaches its credit four times as soon there.
#[test]
fn a_credit_follows_time_whatever_the_cpus() {
    let after = |cpus: usize| {
        let busy = hogs(lags("busy, then it sleeps", &[]).cpus(cpus), cpus, "busy");
        let run = busy.task(sleeper("light", "light", ms(1), ms(9))).run_for(ms(2_000)).pass();
        ran(&run, "light") as f64
    };
    let (one, four) = (after(1), after(4));
    assert!((one / four - 1.0).abs() < 0.1, "{one} and {four}");
}

#[test]
pub(crate) fn no_cpu_is_idle_beside_another_cache_with_work() {
    lags("two caches", &[])
        .machine(Machine::new(4, 2, 1, false).unwrap())
        .tasks(6, |i| {
            TaskSpec::named(format!("free {i}"))
                .in_cgroup(format!("free{i}"))
                .run(between(ms(1), ms(5)))
                .sleep(between(us(100), ms(1)))
                .for_ever()
        })
        .idle_at_most(us(100))
        .run_for(ms(4_000))
        .pass();
}

/// Under one cache are hogs only, and what waits under the other one is lighter and more than that can do.
#[test]
pub(crate) fn who_waits_under_one_cache_comes_before_heavier_ones_under_another() {
    let run = lags("two caches", &[])
        .machine(Machine::new(4, 2, 1, false).unwrap())
        .tasks(6, |i| TaskSpec::hog(format!("batch {i}")).in_cgroup("batch").only_on([2, 3]))
        .tasks(6, |i| {
            sleeper(&format!("light {i}"), &format!("light{i}"), ms(3), ms(2)).only_on([0, 1])
        })
        .at(ms(1_000), |kernel| {
            for i in 0..6 {
                let light = kernel.task_named(&format!("light {i}"));
                kernel.set_affinity(light, (0..4).collect());
            }
        })
        .run_for(ms(6_000))
        .pass();
    let cpus = ran(&run, "light") as f64 / ms(6_000) as f64;
    assert!(cpus > 2.6, "the light ones had {cpus} CPUs, behind heavy ones");
}

#[test]
fn a_thousand_cgroups_are_served_within_the_bound() {
    let run = lags("a thousand cgroups", &[])
        .cpus(4)
        .tasks(1_000, |i| sleeper(&format!("f {i}"), &format!("f{i}"), ms(1), ms(240)))
        .run_for(ms(4_000))
        .pass();
    let longest = run.all().map(|(name, _)| longest_wait(&run, name)).max().unwrap();
    assert!(longest < BOUND, "{longest}");
}

/// One to six levels below the root.
fn any_path(random: &mut Random) -> String {
    let levels: Vec<String> =
        (0..random.within(1, 6)).map(|_| format!("c{}", random.within(0, 2))).collect();
    levels.join("/")
}

/// Checkers see to it that nobody waits for long, no CPU is idle beside work, and quotas are kept.
#[test]
fn in_any_hierarchy_nobody_starves_no_cpu_is_wasted_and_quotas_are_kept() {
    for seed in seeds(24) {
        let mut random = Random::new(seed);
        let paths: Vec<String> =
            (0..random.within(2, 16)).map(|_| any_path(&mut random)).collect();
        let set = [("bound_ns", ms(random.within(0, 1_000)))];
        let mut run = lags("any hierarchy", &set).cpus(random.within(1, 6) as usize).seed(seed);
        for (at, path) in paths.iter().enumerate() {
            run = match random.within(0, 2) {
                0 => hogs(run, random.within(1, 3) as usize, path),
                _ => {
                    let (works, sleeps) = (us(random.within(50, 5_000)), us(random.within(50, 9_000)));
                    run.task(sleeper(&format!("sleeper {at}"), path, works, sleeps))
                }
            };
        }
        let weights: Vec<(String, u32)> = paths
            .iter()
            .map(|path| (path.clone(), random.within(1, 10_000) as u32))
            .collect();
        run = run.at(ms(100), move |kernel| {
            weights.iter().for_each(|(path, weight)| kernel.set_cgroup_weight(path, *weight));
        });
        if random.once_in(2) {
            let (path, quota_us) = (paths[0].clone(), random.within(1_000, 100_000));
            // Who is throttled waits, beside idle CPUs.
            run = run.waits_at_most(ms(4_000)).idle_at_most(ms(4_000));
            run = run.at(ms(200), move |kernel| kernel.set_cgroup_max(&path, 100_000, quota_us, 0));
        }
        run.run_for(ms(4_000)).pass();
    }
}
