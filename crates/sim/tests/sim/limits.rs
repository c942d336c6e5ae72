//! cpu.max: cgroups get their quota, and no more, whatever lanes they are on.

use crate::level1::expect;
use metasched_sim::abi::NO_QUOTA;
use metasched_sim::metasched::{POLICIES, assign, scenario, set_app};
use metasched_sim::{Outcome, Scenario, TaskSpec, between, ms, us};

const PERIOD_US: u64 = 100_000;
/// The moment before the eleventh begins.
const TEN_PERIODS: u64 = 996;

/// Two CPUs and hogs in cgroups; whoever is throttled waits, beside idle CPUs.
fn limited(name: &str, policy: &str, hogs: &[(&str, usize)]) -> Scenario {
    let mut run = scenario(name, policy).cpus(2).idle_at_most(ms(3_000));
    for (cgroup, n) in hogs {
        let cgroup = (*cgroup).to_owned();
        run = run
            .tasks(*n, move |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup.clone()));
    }
    run
}

fn ran(outcome: &Outcome, cgroup: &str) -> f64 {
    let of = |name: &str| name.starts_with(&format!("{cgroup} "));
    outcome.all().filter(|(name, _)| of(name)).map(|(_, f)| f.ran_ns as f64 / 1e6).sum()
}

/// What both CPUs run too long in the last period, until their next ticks; that is made up
/// for in the period after it.
const LATE_MS: f64 = 2.0 * 4.0;

/// Within five hundredths of what is due, in ms.
fn near(outcome: &Outcome, cgroup: &str, due_ms: f64) {
    let (got, may_be) = (ran(outcome, cgroup), 0.05 * due_ms + LATE_MS);
    assert!((got - due_ms).abs() <= may_be, "'{cgroup}' ran for {got:.0} ms, not {due_ms} ms");
}

#[test]
fn a_cgroup_gets_its_quota_over_ten_periods() {
    for policy in POLICIES {
        let outcome = limited("a quota", policy, &[("a", 3), ("b", 3)])
            .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 40_000, 0))
            .run_for(ms(TEN_PERIODS))
            .pass();
        near(&outcome, "a", 400.0);
        near(&outcome, "b", 1_592.0);
    }
}

#[test]
fn a_task_alone_on_its_cpu_is_stopped_too() {
    for policy in POLICIES {
        let outcome = limited("one hog, two CPUs", policy, &[("a", 1)])
            .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 20_000, 0))
            .run_for(ms(TEN_PERIODS))
            .pass();
        near(&outcome, "a", 200.0);
    }
}

#[test]
fn on_lanes_a_quota_holds_as_without() {
    let outcome = limited("lanes with quotas", "vtime", &[("a", 3), ("b", 3), ("c", 1)])
        .at(0, |kernel| {
            for (app, cgroup, policy) in [(1, "a", "fifo"), (2, "b", "vtime")] {
                set_app(kernel, app, policy, 100);
                assign(kernel, cgroup, app);
            }
            kernel.set_cgroup_max("a", PERIOD_US, 30_000, 0);
            kernel.set_cgroup_max("c", PERIOD_US, 10_000, 0);
        })
        .run_for(ms(TEN_PERIODS))
        .pass();
    near(&outcome, "a", 300.0);
    near(&outcome, "b", 1_592.0);
    near(&outcome, "c", 100.0);
}

#[test]
fn the_tightest_of_nested_limits_counts() {
    let outcome = limited("nested limits", "fifo", &[("a/x", 2), ("a/y", 2)])
        .at(0, |kernel| {
            kernel.set_cgroup_max("a", PERIOD_US, 50_000, 0);
            kernel.set_cgroup_max("a/x", PERIOD_US, 10_000, 0);
        })
        .run_for(ms(TEN_PERIODS))
        .pass();
    near(&outcome, "a/x", 100.0);
    near(&outcome, "a/y", 400.0);
}

#[test]
fn what_is_saved_up_is_a_burst_at_most() {
    let outcome = limited("burst", "fifo", &[])
        .task(
            TaskSpec::named("a 0")
                .in_cgroup("a")
                .sleep(between(ms(950), ms(950)))
                .run(between(ms(2_000), ms(2_000))),
        )
        .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 20_000, 30_000))
        .run_for(ms(999))
        .pass();
    // What the present period has left, and the burst; at most a tick more.
    let got = ran(&outcome, "a");
    assert!((45.0..=54.0).contains(&got), "it ran for {got:.0} ms");
}

#[test]
fn a_limit_that_is_taken_away_lets_everybody_run() {
    let outcome = limited("a limit goes", "fifo", &[("a", 2)])
        .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 5_000, 0))
        .at(ms(1_000), |kernel| kernel.set_cgroup_max("a", PERIOD_US, NO_QUOTA, 0))
        .at(ms(1_100), |kernel| {
            let word = unsafe { *kernel.image().required("root_word").unwrap().cast::<u32>() };
            expect(kernel, word & (1 << 10) == 0, &format!("limits are still on: {word:#x}"));
        })
        .run_for(ms(2_000))
        .pass();
    near(&outcome, "a", 50.0 + 2_000.0);
}

#[test]
fn a_sleeper_within_its_quota_is_never_throttled() {
    let outcome = limited("a sleeper", "fifo", &[("b", 4)])
        .task(
            TaskSpec::named("a 0")
                .in_cgroup("a")
                .run(between(us(100), us(200)))
                .sleep(between(ms(4), ms(6)))
                .for_ever(),
        )
        .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 20_000, 0))
        .run_for(ms(2_000))
        .pass();
    // It waits for slices of the others, not for a period.
    assert!(outcome.task("a 0").longest_wait_ns < ms(80));
}
