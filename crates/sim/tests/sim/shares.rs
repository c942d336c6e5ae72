//! What accounts weigh: assigning a cgroup changes nobody's share.

use crate::lanes::{app_lane, hogs, near};
use crate::level1::expect;
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    assign, drop_app, lanes, reap, replace_root, scenario_of, set_app_with, set_weight, unassign,
    weight_left,
};
use metasched_sim::{Scenario, TaskSpec, exactly, image, ms};

/// How far a share may lie from what is due, as a part of the whole.
const NEAR: f64 = 0.02;

/// How far one may lie from what is due by the checker, as a part of that: in a window of a second a
/// lane that has an eighth of two CPUs runs some sixty slices, and may be two before or behind at
/// either end.
const TOLERANCE: f64 = 0.08;

/// Gives a cgroup a lane of its own, whose weight is left to `cpu.weight`.
fn assign_by_weight(kernel: &mut Kernel, path: &str, app: u32) {
    set_app_with(kernel, app, "vtime", (100, false), &[]);
    assign(kernel, path, app);
}

fn machine(name: &str) -> Scenario {
    machine_of(image::metasched(), name)
}

fn machine_of(image: &'static [u8], name: &str) -> Scenario {
    scenario_of(image, name, "vtime").cpus(2).lane_shares(TOLERANCE)
}

#[test]
fn three_busy_cgroups_have_a_third_each_when_one_is_assigned() {
    let run = ["a", "b", "c"].into_iter().fold(machine("thirds"), |run, path| hogs(run, 3, path));
    let outcome = run.at(0, |kernel| assign_by_weight(kernel, "a", 1)).run_for(ms(4_000)).pass();
    // In one lane vtime knows no groups: the other two have equally many tasks.
    for path in ["a", "b", "c"] {
        near(&outcome, path, 1.0 / 3.0, NEAR);
    }
}

/// P holds c1 and c2, and Q stands beside it: all of weight 100.
fn family(name: &str) -> Scenario {
    hogs(hogs(hogs(machine(name), 2, "P/c1"), 2, "P/c2"), 4, "Q")
}

#[test]
fn an_assigned_cgroup_has_its_part_of_the_one_above() {
    let run = family("P, Q").at(0, |kernel| assign_by_weight(kernel, "P/c2", 1));
    let outcome = run.run_for(ms(4_000)).pass();
    near(&outcome, "P/c2", 0.25, NEAR);
    // c1 and Q share a lane by their numbers of tasks, which are as their shares.
    near(&outcome, "P/c1", 0.25, NEAR);
    near(&outcome, "Q", 0.5, NEAR);
}

/// What policies read, with 12 bits behind the point: P has lost half of its weight to c2's lane.
#[test]
fn a_cgroup_has_the_weight_left_that_belongs_to_its_account() {
    let run = family("weights left").at(0, |kernel| {
        assign_by_weight(kernel, "P/c2", 1);
        // Below one that is not watched cpu.weight says it.
        kernel.set_cgroup_weight("Q/x", 700);
    });
    run.at(ms(900), |kernel| {
        let left = ["P", "P/c1", "P/c2", "Q", "Q/x"].map(|path| weight_left(kernel, path));
        let wanted = [50, 100, 100, 100, 700].map(|weight| weight << 12);
        expect(kernel, left == wanted, "other weights");
    })
    .run_for(ms(1_000))
    .pass();
}

#[test]
fn a_lane_below_a_lane_has_its_part_of_that_ones_cgroup() {
    let run = hogs(family("nested lanes"), 2, "P/c2/d").at(0, |kernel| {
        assign_by_weight(kernel, "P", 1);
        assign_by_weight(kernel, "P/c2/d", 2);
        assign_by_weight(kernel, "P/c2", 3);
    });
    let outcome = run.run_for(ms(4_000)).pass();
    near(&outcome, "Q", 0.5, NEAR);
    near(&outcome, "P/c1", 0.25, NEAR);
    // Tasks directly in c2 count as one more of its children.
    near(&outcome, "P/c2/d", 0.125, NEAR);
}

/// A pod is due a slice in 100 ms here.
#[test]
fn fifty_assigned_pods_have_what_their_slice_has() {
    let run = (0..50).fold(machine("pods"), |run, pod| {
        let path = format!("pods/{pod}");
        run.task(TaskSpec::hog(format!("pod {pod}")).in_cgroup(&path))
    });
    let run = hogs(run, 16, "other").at(0, |kernel| {
        for pod in 0..50 {
            assign_by_weight(kernel, &format!("pods/{pod}"), pod + 1);
        }
    });
    // While they are assigned they have up to 0.1 s too much, however long they run after that.
    let outcome = run.run_for(ms(8_000)).pass();
    near(&outcome, "pod ", 0.5, NEAR);
}

/// A cgroup with no task beside an assigned one.
pub(crate) fn idle_sibling(image: &'static [u8]) -> Scenario {
    let run = hogs(hogs(machine_of(image, "an idle sibling"), 2, "P/c2"), 2, "Q");
    let run = run.at(0, |kernel| {
        kernel.cgroup_id("P/c1");
        assign_by_weight(kernel, "P/c2", 1);
    });
    run.run_for(ms(4_100))
}

#[test]
fn cgroups_without_work_leave_their_share_to_their_siblings() {
    let outcome = idle_sibling(image::metasched()).pass();
    near(&outcome, "P/c2", 0.5, NEAR);
}

#[test]
fn a_weight_that_the_user_gave_counts_among_the_cgroups_siblings() {
    let run = family("a given weight").at(0, |kernel| {
        set_app_with(kernel, 1, "vtime", (300, true), &[]);
        assign(kernel, "P/c2", 1);
        kernel.set_cgroup_weight("P/c2", 7);
    });
    let outcome = run.run_for(ms(4_000)).pass();
    near(&outcome, "P/c2", 0.375, NEAR);
}

/// The root's lane is fair's, which weighs cgroups itself; P/A comes to have a lane and to lose it.
fn weighed(name: &str) -> Scenario {
    let run = scenario_of(image::metasched(), name, "fair").cpus(2);
    hogs(hogs(hogs(run, 2, "P/A"), 2, "P/B"), 4, "Q")
}

fn family_has_its_shares(run: Scenario) {
    let outcome = run.run_for(ms(8_000)).pass();
    near(&outcome, "P/A", 0.25, 0.03);
    near(&outcome, "P/B", 0.25, 0.03);
    near(&outcome, "Q", 0.5, 0.03);
}

#[test]
pub(crate) fn who_is_assigned_under_fair_pays_alone_for_it() {
    family_has_its_shares(
        weighed("assigned under fair").at(ms(300), |kernel| assign_by_weight(kernel, "P/A", 1)),
    );
}

/// Its tasks have work all the time, in one lane of fair's or the other.
#[test]
pub(crate) fn a_lane_of_fairs_beside_fair_takes_its_cgroup_along() {
    family_has_its_shares(weighed("fair beside fair").at(ms(300), |kernel| {
        set_app_with(kernel, 1, "fair", (100, false), &[]);
        assign(kernel, "P/A", 1);
    }));
}

#[test]
fn who_is_assigned_no_more_counts_in_its_parent_again() {
    let run = (0..4u64).fold(weighed("back under fair"), |run, round| {
        run.at(ms(300 + 200 * round), |kernel| assign_by_weight(kernel, "P/A", 1))
            .at(ms(400 + 200 * round), |kernel| unassign(kernel, "P/A"))
    });
    family_has_its_shares(run);
}

/// Both keep something of each cgroup.
#[test]
pub(crate) fn fair_knows_its_cgroups_again_after_pair() {
    let run = (0..3u64).fold(weighed("fair, pair, fair"), |run, round| {
        run.at(ms(200 + 200 * round), |kernel| replace_root(kernel, "pair")).at(
            ms(300 + 200 * round),
            |kernel| {
                replace_root(kernel, "fair");
                reap(kernel);
            },
        )
    });
    family_has_its_shares(run);
}

#[test]
fn an_application_weighs_the_sum_of_its_cgroups() {
    let run = family("two cgroups on a lane").at(0, |kernel| {
        assign_by_weight(kernel, "P/c2", 1);
        assign(kernel, "Q", 1);
    });
    let outcome = run.run_for(ms(4_000)).pass();
    near(&outcome, "P/c1", 0.25, NEAR);
}

#[test]
fn cgroups_that_share_a_given_weight_have_it_once() {
    let run = hogs(hogs(hogs(machine("one weight for two"), 2, "a"), 2, "b"), 4, "c");
    let run = run.at(0, |kernel| {
        set_app_with(kernel, 1, "vtime", (100, true), &[]);
        assign(kernel, "a", 1);
        assign(kernel, "b", 1);
    });
    near(&run.run_for(ms(4_000)).pass(), "c", 0.5, NEAR);
}

#[test]
fn weights_that_change_take_effect_at_once() {
    let run = hogs(hogs(machine("cpu.weight changes"), 3, "a"), 3, "b");
    let outcome = run
        .at(0, |kernel| assign_by_weight(kernel, "a", 1))
        .at(ms(1_000), |kernel| kernel.set_cgroup_weight("a", 300))
        .at(ms(2_000), |kernel| kernel.set_cgroup_weight("b", 900))
        .at(ms(3_000), |kernel| kernel.set_cgroup_idle("b", true))
        .run_for(ms(4_000))
        .pass();
    // A half, three quarters, a quarter, and all but what comes out of turn.
    near(&outcome, "a", (0.5 + 0.75 + 0.25 + 0.92) / 4.0, NEAR);
}

#[test]
fn a_cgroup_that_is_not_assigned_any_more_keeps_its_share() {
    let run = family("unassigned").at(0, |kernel| assign_by_weight(kernel, "P", 1));
    let outcome = run
        .at(ms(1_000), |kernel| unassign(kernel, "P"))
        .at(ms(1_000), |kernel| assign_by_weight(kernel, "Q", 2))
        .run_for(ms(4_000))
        .pass();
    near(&outcome, "Q", 0.5, NEAR);
}

#[test]
fn a_weight_given_to_everything_else_multiplies_its_share() {
    let run = hogs(hogs(machine("the root's weight"), 3, "a"), 3, "b");
    let outcome = run
        .at(0, |kernel| {
            assign_by_weight(kernel, "a", 1);
            set_weight(kernel, 0, 300);
            let lane = app_lane(kernel, 1);
            expect(kernel, lane.is_some_and(|l| l.weight == 100), "that of another");
        })
        .run_for(ms(1_000))
        .pass();
    near(&outcome, "b", 0.75, NEAR);
}

/// Tasks wait in a queue for far longer than a cgroup without arrivals counts.
pub(crate) fn long_queue(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "a long queue", "fifo").lane_shares(TOLERANCE);
    hogs(hogs(hogs(run, 40, "P/c1"), 1, "P/c2"), 1, "Q")
        .at(0, |kernel| assign_by_weight(kernel, "P/c2", 1))
        .run_for(ms(8_100))
}

#[test]
fn a_cgroup_whose_tasks_wait_long_still_counts() {
    let outcome = long_queue(image::metasched()).pass();
    near(&outcome, "P/c2", 0.25, NEAR);
}

#[test]
fn a_cgroup_that_is_made_later_counts() {
    let run = hogs(machine("a new sibling"), 2, "P/c2");
    let run = run.tasks(2, |i| {
        TaskSpec::named(format!("late {i}"))
            .in_cgroup("P/late")
            .arrives(ms(1_000))
            .run(exactly(ms(10_000)))
    });
    let outcome = hogs(run, 2, "Q")
        .at(0, |kernel| assign_by_weight(kernel, "P/c2", 1))
        .run_for(ms(5_000))
        .pass();
    // A half for a second, a quarter for four.
    near(&outcome, "P/c2", 0.3, NEAR);
}

/// The number of an application is used again while a cgroup that was its once goes on.
#[test]
pub(crate) fn a_cgroups_own_weight_is_not_that_of_an_application_it_has_left() {
    let run = hogs(hogs(machine("a number again"), 3, "a"), 3, "b");
    let run = run.at(0, |kernel| assign_by_weight(kernel, "a", 1)).at(ms(100), |kernel| {
        unassign(kernel, "a");
        drop_app(kernel, 1);
    });
    let run = (1..40).fold(run, |run, i| {
        run.at(ms(100 + 10 * i), |kernel| {
            reap(kernel);
        })
    });
    run.at(ms(600), |kernel| {
        let left = lanes(kernel).len();
        expect(kernel, left == 1, "its lane is not gone");
        assign_by_weight(kernel, "b", 1);
        kernel.set_cgroup_weight("a", 700);
        let weight = app_lane(kernel, 1).map(|l| l.weight);
        expect(kernel, weight == Some(100), &format!("it weighs {weight:?}"));
    })
    .run_for(ms(4_600))
    .pass();
}
