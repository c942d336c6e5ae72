//! Lanes side by side: applications have lanes of their own, and each of the
//! invariants of such lanes holds.

use crate::level1::expect;
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    LAZY, LaneInfo, LaneState, POLICIES, assign, drop_app, faulty_scenario, lanes, quarantined,
    reap, rescued, scenario, scenario_of, set_app, set_app_with, set_weight, unassign,
};
use metasched_sim::{Outcome, Scenario, TaskSpec, between, exactly, image, ms, us};

/// Hogs in a cgroup.
pub(crate) fn hogs(run: Scenario, n: usize, cgroup: &'static str) -> Scenario {
    run.tasks(n, move |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup))
}

/// What all tasks whose names begin so have run, ns.
fn ran(outcome: &Outcome, name: &str) -> u64 {
    outcome.all().filter(|(who, _)| who.starts_with(name)).map(|(_, f)| f.ran_ns).sum()
}

pub(crate) fn near(outcome: &Outcome, name: &str, share: f64, tolerance: f64) {
    let total: u64 = outcome.all().map(|(_, f)| f.ran_ns).sum();
    let got = ran(outcome, name) as f64 / total as f64;
    assert!((got - share).abs() <= tolerance, "'{name}' had {got:.3} of the time, not {share:.3}");
}

pub fn app_lane(kernel: &mut Kernel, app: u32) -> Option<LaneInfo> {
    lanes(kernel).into_iter().find(|l| l.is_apps() && l.app == app)
}

#[test]
fn lanes_share_cpus_by_their_weights_whatever_their_policies() {
    for first in POLICIES {
        for second in POLICIES {
            let run = scenario(format!("{first} 1 : 3 {second}"), "fifo").cpus(2);
            let run = hogs(hogs(run, 2, "a"), 5, "b").at(0, move |kernel| {
                set_app(kernel, 1, first, 100);
                set_app(kernel, 2, second, 300);
                assign(kernel, "a", 1);
                assign(kernel, "b", 2);
            });
            let outcome = run.run_for(ms(2_000)).pass();
            near(&outcome, "a", 0.25, 0.02);
            near(&outcome, "b", 0.75, 0.02);
        }
    }
}

#[test]
fn the_default_lane_has_its_share_beside_the_others() {
    let run =
        hogs(hogs(scenario("one application beside the rest", "vtime").cpus(2), 4, "a"), 4, "");
    let outcome = run
        .at(ms(1), |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(2_000))
        .pass();
    near(&outcome, "a", 0.5, 0.02);
}

#[test]
fn a_weight_that_is_changed_takes_effect_without_another_lane() {
    let run = hogs(hogs(scenario("weights change", "fifo").cpus(1), 2, "a"), 2, "b");
    let outcome = run
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, "vtime", 100);
                assign(kernel, cgroup, app);
            }
        })
        .at(ms(1_000), |kernel| {
            let before = app_lane(kernel, 1).map(|l| l.generation);
            set_weight(kernel, 1, 300);
            let after = app_lane(kernel, 1);
            expect(kernel, after.map(|l| l.generation) == before, "another lane");
            expect(kernel, after.is_some_and(|l| l.weight == 300), "not that weight");
        })
        .run_for(ms(2_000))
        .pass();
    // Half of the first second, three quarters of the next.
    near(&outcome, "a", 0.625, 0.02);
}

#[test]
fn a_cgroups_own_weight_is_its_lanes_until_the_user_gives_one() {
    scenario("cpu.weight", "fifo")
        .at(ms(1), |kernel| {
            set_app_with(kernel, 1, "fifo", (100, false), &[]);
            assign(kernel, "a", 1);
            kernel.set_cgroup_weight("a", 700);
            kernel.set_cgroup_weight("b", 900);
            let lane = app_lane(kernel, 1);
            expect(kernel, lane.is_some_and(|l| l.weight == 700), "not the cgroup's weight");
            for (idle, weight) in [(true, 1), (false, 100)] {
                kernel.set_cgroup_idle("a", idle);
                let lane = app_lane(kernel, 1);
                expect(kernel, lane.is_some_and(|l| l.weight == weight), "cpu.idle has no say");
            }
            set_weight(kernel, 1, 50);
            kernel.set_cgroup_weight("a", 800);
            let lane = app_lane(kernel, 1);
            expect(kernel, lane.is_some_and(|l| l.weight == 50), "not the user's weight");
        })
        .run_for(ms(2))
        .pass();
}

#[test]
fn the_nearest_assigned_cgroup_counts_and_the_rest_inherit() {
    let run = scenario("nested", "fifo").cpus(1);
    let run = hogs(hogs(hogs(run, 1, "a/x/y"), 1, "a/b/c/d"), 2, "other");
    let outcome = run
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            set_app(kernel, 2, "vtime", 200);
            assign(kernel, "a", 1);
            assign(kernel, "a/b", 2);
        })
        .run_for(ms(2_000))
        .pass();
    // Half is a's, of which a/b has two thirds.
    near(&outcome, "a/x/y", 1.0 / 6.0, 0.02);
    near(&outcome, "a/b/c/d", 1.0 / 3.0, 0.02);
    near(&outcome, "other", 0.5, 0.02);
}

#[test]
fn a_task_that_moves_changes_lanes_with_its_cgroup() {
    let run = hogs(hogs(scenario("a task moves", "fifo").cpus(1), 2, "a"), 1, "b");
    let outcome = run
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, "fifo", 100);
                assign(kernel, cgroup, app);
            }
        })
        .at(ms(1_000), |kernel| {
            let task = kernel.task_named("a 0");
            kernel.move_to_cgroup(task, "b");
        })
        .run_for(ms(2_000))
        .pass();
    // A quarter before, a quarter after; the one that stays behind goes from 1/4 to 1/2.
    near(&outcome, "a 0", 0.25, 0.02);
    near(&outcome, "a 1", 0.375, 0.02);
    near(&outcome, "b 0", 0.375, 0.02);
}

#[test]
fn a_lane_that_mostly_sleeps_is_served_soon_beside_one_of_hogs() {
    let run = hogs(scenario("sleeper beside hogs", "fifo").cpus(2), 8, "batch");
    let outcome = run
        .task(
            TaskSpec::named("service")
                .in_cgroup("service")
                .run(between(us(50), us(200)))
                .sleep(between(ms(2), ms(8)))
                .for_ever(),
        )
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "batch"), (2, "service")] {
                set_app(kernel, app, "fifo", 100);
                assign(kernel, cgroup, app);
            }
        })
        .run_for(ms(4_000))
        .pass();
    let service = outcome.task("service");
    let mean = service.waited_ns / service.waits.max(1);
    // An interrupt's time, most of the time; a tick and a capped slice at the worst.
    assert!(mean < us(100), "it waits {} us in the mean", mean / 1_000);
    assert!(service.longest_wait_ns < ms(7), "{} us", service.longest_wait_ns / 1_000);
}

#[test]
fn a_lane_of_least_weight_is_served_within_the_bound() {
    let run = scenario("weight 1 beside 10000", "fifo").cpus(1);
    let outcome = hogs(hogs(run, 1, "small"), 3, "large")
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 1);
            set_app(kernel, 2, "fifo", 10_000);
            assign(kernel, "small", 1);
            assign(kernel, "large", 2);
        })
        .run_for(ms(2_000))
        .pass();
    // A sweep that finds it unserved, 125 more until it is urgent, and two ticks: one
    // in which the running task's slice ends, one by which that may be late.
    let longest = outcome.task("small 0").longest_wait_ns;
    assert!(longest <= ms((1 + 125) * 4 + 2 * 4), "it waited {} us", longest / 1_000);
}

/// Tasks that may run on CPU 0 only, in a lane that has its share on CPU 1.
pub(crate) fn share_from_elsewhere(image: &'static [u8]) -> Scenario {
    scenario_of(image, "shares from elsewhere", "fifo")
        .cpus(2)
        .tasks(3, |i| TaskSpec::hog(format!("narrow {i}")).in_cgroup("narrow").only_on([0]))
        .tasks(4, |i| TaskSpec::hog(format!("wide {i}")).in_cgroup("wide"))
        .task(TaskSpec::hog("pinned").in_cgroup("wide").only_on([0]))
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "narrow"), (2, "wide")] {
                set_app(kernel, app, "vtime", 100);
                assign(kernel, cgroup, app);
            }
        })
        .waits_at_most(ms(1_000))
        .run_for(ms(3_000))
}

#[test]
fn a_task_that_only_one_cpu_may_run_is_not_starved_by_lanes_that_have_no_other() {
    let outcome = share_from_elsewhere(image::metasched()).pass();
    assert!(outcome.task("pinned").ran_ns > ms(30));
}

/// It waits where every CPU looks, not for the CPU on which it woke.
#[test]
fn a_kernel_thread_that_may_run_anywhere_is_taken_by_whichever_cpu_is_free_first() {
    let outcome = scenario("kernel threads beside long slices", "fifo")
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).in_cgroup("a").only_on([i]))
        .task(
            TaskSpec::named("short")
                .in_cgroup("b")
                .run(exactly(us(900)))
                .sleep(exactly(ms(2)))
                .for_ever(),
        )
        .tasks(4, |i| {
            let thread = TaskSpec::named(format!("kthread {i}")).kthread();
            thread.run(between(us(5), us(300))).sleep(between(ms(1), ms(7))).for_ever()
        })
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app_with(kernel, app, "fifo", (100, false), &[(0, ms(1_000))]);
                assign(kernel, cgroup, app);
            }
        })
        .run_for(ms(2_000))
        .pass();
    for i in 0..4 {
        // The tick that finds it waiting, 2 ms, and the tick that ends them; others before it.
        let longest = outcome.task(&format!("kthread {i}")).longest_wait_ns;
        assert!(longest <= ms(13), "kthread {i} waited {} us", longest / 1_000);
    }
}

/// Writeback or compression may take seconds, and is a kernel thread's.
#[test]
fn kernel_threads_that_never_sleep_leave_lanes_half_of_the_time() {
    let run = hogs(scenario("busy kernel threads", "fifo").cpus(2), 4, "a");
    let outcome = run
        .tasks(4, |i| TaskSpec::hog(format!("kthread {i}")).kthread())
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(2_000))
        .pass();
    near(&outcome, "a", 0.5, 0.05);
}

#[test]
fn when_no_application_has_a_lane_any_more_one_is_in_force_alone() {
    hogs(scenario("back to one lane", "fifo").cpus(2), 4, "a")
        .at(ms(10), |kernel| {
            set_app(kernel, 1, "vtime", 100);
            assign(kernel, "a", 1);
        })
        .at(ms(100), |kernel| {
            unassign(kernel, "a");
            drop_app(kernel, 1);
        })
        .at(ms(400), |kernel| {
            for _ in 0..3 {
                reap(kernel);
            }
            let states: Vec<_> = lanes(kernel).iter().map(|l| l.state).collect();
            expect(kernel, states == [LaneState::InForce], "lanes are left");
            // SAFETY: meta/lanes.bpf.h declares it as a u32, and no callback runs now.
            let word = unsafe { *kernel.image().required("root_word").unwrap().cast::<u32>() };
            expect(kernel, word & !127 == 0, &format!("the fast path is off: {word:#x}"));
        })
        .run_for(ms(500))
        .pass();
}

#[test]
fn an_idle_lane_is_not_looked_at_any_more() {
    hogs(scenario("idle lanes", "fifo").cpus(1), 2, "a")
        .at(0, |kernel| {
            for app in 1..=20 {
                set_app(kernel, app, "fifo", 100);
            }
            assign(kernel, "a", 1);
        })
        .at(ms(50), |kernel| {
            let seen = busy_accounts(kernel);
            expect(kernel, seen <= 1, &format!("{seen} accounts are looked at"));
        })
        .run_for(ms(60))
        .pass();
}

/// How many accounts may have work.
fn busy_accounts(kernel: &Kernel) -> u32 {
    let at = kernel.image().required("busy").unwrap().cast::<u64>();
    // SAFETY: in meta/accounts.bpf.h it begins with a u64, and no callback runs now.
    unsafe { *at }.count_ones()
}

/// In the kernel a sweep may come between `enqueue` and its insert. The lane was then
/// taken for idle and came last, and one wake-up in a hundred waited for milliseconds.
#[test]
fn a_lane_to_which_a_task_came_since_the_last_sweep_is_not_taken_for_idle() {
    let sleeper = TaskSpec::named("sleeper")
        .in_cgroup("a")
        .arrives(ms(102))
        .run(exactly(us(100)))
        .sleep(exactly(ms(50)))
        .for_ever();
    hogs(scenario("arrivals and sweeps", "fifo").cpus(1), 2, "b")
        .task(sleeper)
        .at(ms(10), |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, "fifo", 100);
                assign(kernel, cgroup, app);
            }
        })
        // It came at 102 ms and was gone soon; there is a sweep each 4 ms.
        .at(ms(109), |kernel| {
            let busy = busy_accounts(kernel);
            expect(kernel, busy == 2, &format!("{busy} accounts are busy after two sweeps"));
        })
        .at(ms(116), |kernel| {
            let busy = busy_accounts(kernel);
            expect(kernel, busy == 1, &format!("{busy} accounts are busy after three"));
        })
        .run_for(ms(120))
        .pass();
}

#[test]
fn a_policy_that_does_not_dispatch_loses_its_application() {
    let run = faulty_scenario("quarantine", "fifo").cpus(2);
    let outcome = hogs(hogs(run, 3, "victim"), 2, "other")
        .at(ms(100), |kernel| {
            set_app(kernel, 1, LAZY, 100);
            assign(kernel, "victim", 1);
        })
        .at(ms(900), |kernel| {
            let none = quarantined(kernel);
            expect(kernel, none == 0, "too soon");
        })
        .at(ms(1_400), |kernel| {
            let one = quarantined(kernel);
            expect(kernel, one == 1, &format!("{one} lanes in quarantine"));
            // Its user space moves it on like any lane that was replaced.
            for _ in 0..3 {
                reap(kernel);
            }
        })
        // Level 1 takes its tasks meanwhile: each waits for some 32 ms and a few sweeps.
        .waits_at_most(ms(200))
        .run_for(ms(3_000))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(500), "{name} ran for {} ms only", figures.ran_ns / ms(1));
    }
}

/// A policy left a task once, and serves its lane since: a wait of a second, behind real-time tasks
/// say, is not its doing then.
pub(crate) fn rescued_long_ago(image: &'static [u8]) -> Scenario {
    hogs(scenario_of(image, "rescued long ago", "fifo"), 2, "a")
        .at(ms(1), |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .at(ms(100), |kernel| rescued(kernel, 1))
        .at(ms(101), |kernel| {
            let counted = app_lane(kernel, 1).map_or(0, |lane| lane.rescues);
            expect(kernel, counted == 1, &format!("{counted} rescues at first"));
        })
        .at(ms(200), |kernel| {
            let left = app_lane(kernel, 1).map_or(0, |lane| lane.rescues);
            expect(kernel, left == 0, &format!("{left} rescues count still"));
        })
        .run_for(ms(210))
}

#[test]
fn a_policy_that_serves_its_lane_is_not_held_to_what_it_once_left() {
    rescued_long_ago(image::faulty()).pass();
}

#[test]
fn a_task_alone_on_its_cpu_changes_lanes_too() {
    scenario("a hog alone", "fifo")
        .task(TaskSpec::hog("hog").in_cgroup("a"))
        .at(ms(100), |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .at(ms(200), |kernel| {
            let lane = app_lane(kernel, 1);
            let charged = lane.map_or(0, |l| l.runtime_ns);
            expect(kernel, charged > ms(60), &format!("its lane was charged {charged} ns"));
        })
        .run_for(ms(210))
        .pass();
}
