//! Cgroups in the model of the fair class: shares by nested weights, limits, and what changes
//! while it runs.

use metasched_sim::abi::NO_QUOTA;
use metasched_sim::metasched::program;
use metasched_sim::{Outcome, Scenario, TaskSpec, between, exactly, ms, seeds, us};

const LENGTH: u64 = ms(4_000);

fn hog(cgroup: &str, i: usize) -> TaskSpec {
    TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup)
}

/// Hogs in cgroups, each with so many and `cpu.weight`.
fn hogs(name: &str, cpus: usize, cgroups: &[(&'static str, usize, u32)]) -> Scenario {
    let mut run = Scenario::eevdf(name).cpus(cpus).run_for(LENGTH);
    for (cgroup, count, weight) in cgroups.iter().copied() {
        run = run.tasks(count, |i| hog(cgroup, i));
        run = run.at(0, move |kernel| kernel.set_cgroup_weight(cgroup, weight));
    }
    run
}

/// CPU time of the tasks of a cgroup as a part of all that there was.
fn share(outcome: &Outcome, cpus: usize, cgroup: &str) -> f64 {
    let of = outcome.all().filter(|(name, _)| name.starts_with(&format!("{cgroup} ")));
    let ran: u64 = of.map(|(_, figures)| figures.ran_ns).sum();
    ran as f64 / (outcome.simulated_ns * cpus as u64) as f64
}

fn assert_shares(outcome: &Outcome, cpus: usize, wanted: &[(&str, f64)], tolerance: f64) {
    for (cgroup, wanted) in wanted {
        let share = share(outcome, cpus, cgroup);
        assert!((share / wanted - 1.0).abs() < tolerance, "{cgroup}: {share:.3}, not {wanted}");
    }
}

#[test]
fn nested_weights_share_a_cpu() {
    let outcome = hogs("nested", 1, &[("a/x", 1, 100), ("a/y", 1, 300), ("b", 1, 100)])
        .at(0, |kernel| kernel.set_cgroup_weight("a", 300))
        .pass();
    assert_shares(&outcome, 1, &[("a/x", 0.1875), ("a/y", 0.5625), ("b", 0.25)], 0.05);
}

#[test]
fn a_cgroup_has_no_more_for_having_more_tasks() {
    let outcome = hogs("one and nine", 1, &[("a", 1, 100), ("b", 9, 100)]).pass();
    assert_shares(&outcome, 1, &[("a", 0.5), ("b", 0.5)], 0.05);
    let outcome = hogs("four and twelve", 4, &[("a", 4, 100), ("b", 12, 100)]).pass();
    // It counts as often as it has tasks, up to four times. An average of four comes to a little
    // less, and is rounded down.
    assert_shares(&outcome, 4, &[("a", 3.0 / 7.0), ("b", 4.0 / 7.0)], 0.05);
}

#[test]
fn tasks_beside_cgroups_count_as_much_as_these() {
    let outcome = hogs("beside", 1, &[("a", 3, 100)]).task(TaskSpec::hog("alone 0")).pass();
    assert_shares(&outcome, 1, &[("a", 0.5), ("alone", 0.5)], 0.05);
}

#[test]
fn a_cgroup_that_does_not_want_its_share_leaves_it_to_the_others() {
    let sleeper = TaskSpec::named("a 0").in_cgroup("a").run(exactly(ms(1))).sleep(exactly(ms(9)));
    let outcome =
        hogs("a sleeper", 1, &[("b", 1, 100), ("c", 1, 200)]).task(sleeper.for_ever()).pass();
    // It wants a millisecond at once, and waits for the second part of that.
    let rest = 1.0 - share(&outcome, 1, "a");
    assert!((0.9..0.94).contains(&rest), "{rest}");
    assert_shares(&outcome, 1, &[("b", rest / 3.0), ("c", rest * 2.0 / 3.0)], 0.01);
}

#[test]
fn an_idle_cgroup_gets_next_to_nothing_beside_others_and_all_alone() {
    let idle = |run: Scenario| run.at(0, |kernel| kernel.set_cgroup_idle("a", true));
    let beside = idle(hogs("idle", 1, &[("a", 1, 100), ("b", 1, 100)])).pass();
    assert!(share(&beside, 1, "a") < 0.01, "{:.3}", share(&beside, 1, "a"));
    let alone = idle(hogs("idle and alone", 1, &[("a", 1, 100)])).pass();
    assert!(share(&alone, 1, "a") > 0.99);
}

#[test]
fn a_service_waits_for_a_slice_of_a_crowd_in_another_cgroup_at_most() {
    let outcome = hogs("a service", 2, &[("batch", 16, 100)])
        .tasks(4, |i| {
            TaskSpec::named(format!("web {i}"))
                .in_cgroup("web")
                .run(between(us(100), us(400)))
                .sleep(between(ms(2), ms(8)))
                .for_ever()
        })
        .pass();
    let waits = outcome.waits_ns("web");
    let p90 = waits[waits.len() * 9 / 10];
    // On two CPUs a request is of 1.4 ms, and who has had no more than its part keeps its CPU.
    assert!(waits.len() > 1_000 && p90 < us(1_400), "{p90} ns of {}", waits.len());
}

#[test]
fn weights_and_moves_take_effect_when_they_are_made() {
    let outcome = hogs("changes", 1, &[("a", 1, 100), ("b", 1, 100)])
        .at(LENGTH / 2, |kernel| {
            kernel.set_cgroup_weight("a", 300);
            kernel.set_cgroup_weight("a", 700);
        })
        .pass();
    assert_shares(&outcome, 1, &[("a", 0.5 * 0.5 + 0.875 * 0.5)], 0.05);
    let outcome = hogs("a move", 1, &[("a", 2, 100), ("b", 1, 100)])
        .at(LENGTH / 2, |kernel| {
            let task = kernel.task_named("a 1");
            kernel.move_to_cgroup(task, "b");
        })
        .pass();
    let moved = outcome.task("a 0").ran_ns as f64 / LENGTH as f64;
    assert!((moved - (0.25 + 0.5) / 2.0).abs() < 0.03, "{moved:.3}");
}

/// That no more is used than granted is `quota_kept`'s to say.
#[test]
fn a_cgroup_uses_what_its_quota_grants_and_the_rest_is_others() {
    for seed in seeds(5) {
        let outcome = hogs("a quota", 2, &[("a", 3, 900), ("b", 2, 100)])
            .at(0, |kernel| kernel.set_cgroup_max("a", 100_000, 40_000, 0))
            .seed(seed)
            .pass();
        assert_shares(&outcome, 2, &[("a", 0.2), ("b", 0.8)], 0.03);
    }
}

#[test]
fn a_quota_holds_for_all_that_is_below() {
    let outcome = hogs("nested quotas", 2, &[("a/x", 2, 100), ("a/y", 2, 300), ("b", 2, 100)])
        .at(0, |kernel| {
            kernel.set_cgroup_max("a", 100_000, 80_000, 0);
            kernel.set_cgroup_max("a/y", 50_000, 10_000, 0);
        })
        .pass();
    assert_shares(&outcome, 2, &[("a/x", 0.3), ("a/y", 0.1), ("b", 0.6)], 0.05);
}

#[test]
fn a_limit_that_is_lifted_lets_everybody_go_on_at_once() {
    let outcome = hogs("lifted", 1, &[("a", 2, 100)])
        .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .at(LENGTH / 2 + ms(300), |kernel| kernel.set_cgroup_max("a", 100_000, NO_QUOTA, 0))
        .waits_at_most(LENGTH)
        .pass();
    let wanted = (LENGTH / 2 - ms(300)) as f64 / LENGTH as f64;
    assert_shares(&outcome, 1, &[("a", wanted)], 0.02);
}

#[test]
fn who_moves_out_of_a_throttled_cgroup_runs_and_who_moves_in_does_not() {
    let outcome = hogs("moves and limits", 1, &[("a", 1, 100), ("b", 1, 100)])
        .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .at(LENGTH / 2 + ms(300), |kernel| {
            let (out, into) = (kernel.task_named("a 0"), kernel.task_named("b 0"));
            kernel.move_to_cgroup(out, "b");
            kernel.move_to_cgroup(into, "a");
        })
        .waits_at_most(LENGTH)
        .idle_at_most(LENGTH)
        .pass();
    let after = (LENGTH / 2 - ms(300)) as f64 / LENGTH as f64;
    assert_shares(&outcome, 1, &[("a", after), ("b", 1.0 - after)], 0.03);
}

/// A task sleeps, competes until it has paid its debt, and wakes when its cgroup has used its quota
/// up: it was counted as one less that wants to run, twice.
#[test]
fn who_pays_a_debt_asleep_may_wake_in_a_throttled_cgroup() {
    for seed in seeds(20) {
        let run = Scenario::eevdf("debts and a quota").cpus(1).seed(seed);
        let outcome = run
            .tasks(3, |i| {
                let spec = TaskSpec::named(format!("a {i}")).in_cgroup("a");
                spec.run(between(us(100), ms(6))).sleep(between(us(50), ms(3))).for_ever()
            })
            .tasks(2, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b"))
            .at(0, |kernel| kernel.set_cgroup_max("a", 20_000, 4_000, 0))
            .waits_at_most(ms(1_000))
            .run_for(ms(2_000))
            .pass();
        let ran: u64 = (0..3).map(|i| outcome.task(&format!("a {i}")).ran_ns).sum();
        assert!(ran > ms(200), "they ran for {} ms of 400", ran / ms(1));
    }
}

#[test]
fn programs_come_and_go_while_cgroups_are_throttled() {
    for seed in seeds(10) {
        let outcome = hogs("a swap beside limits", 2, &[("a", 3, 300), ("a/x", 2, 100)])
            .tasks(3, |i| {
                TaskSpec::named(format!("b {i}"))
                    .in_cgroup("b")
                    .run(between(us(50), ms(3)))
                    .sleep(between(us(100), ms(5)))
                    .for_ever()
            })
            .at(0, |kernel| kernel.set_cgroup_max("a", 100_000, 50_000, 10_000))
            .at(ms(500), |kernel| kernel.load(&program("vtime")))
            .at(ms(1_200), |kernel| kernel.unload())
            .at(ms(2_000), |kernel| kernel.set_cgroup_weight("a", 50))
            .seed(seed)
            .idle_at_most(ms(100))
            .run_for(ms(2_500))
            .pass();
        for (task, figures) in outcome.all() {
            assert!(figures.ran_ns > ms(10), "{task} ran for {} ns", figures.ran_ns);
        }
    }
}
