//! How long a lane's tasks wait, as level 1 takes it from the kernel's books, is what the
//! engine itself sees.

use std::cell::RefCell;
use std::rc::Rc;

use crate::lanes::app_lane;
use crate::level1::{any_task, expect};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    POLICIES, assign, drop_app, lanes, reap, scenario, set_app, unassign, wait_bucket, waits,
};
use metasched_sim::random::Random;
use metasched_sim::{Outcome, Scenario, TaskSpec, between, ms, seeds, us};
use metasched_stats::WaitHistogram;

/// By how much a percentile may be off: see `WaitHistogram::percentile_ns`.
const EIGHTH: f64 = 0.125;

/// So many waits have percentiles of which the few that are missing change little.
const ENOUGH: usize = 100;

/// Runs it with the cgroups `a` and `b` on lanes of those policies; the waits of both just
/// before the end, which must not be at a tick: much would happen at that very moment.
fn run(scenario: Scenario, policies: [&'static str; 2], ns: u64) -> (Outcome, [WaitHistogram; 2]) {
    let found: Rc<RefCell<Vec<WaitHistogram>>> = Rc::default();
    let last = Rc::clone(&found);
    let outcome = scenario
        .at(0, move |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, policies[app as usize - 1], 100);
                assign(kernel, cgroup, app);
            }
        })
        .at(ns - 1, move |kernel| {
            *last.borrow_mut() = [1, 2].map(|app| of_app(kernel, app)).into();
        })
        .run_for(ns)
        .pass();
    let found = found.borrow().clone().try_into().expect("both were looked at");
    (outcome, found)
}

fn of_app(kernel: &mut Kernel, app: u32) -> WaitHistogram {
    let slot = app_lane(kernel, app).expect("it has a lane").slot;
    waits(kernel, slot)
}

/// The histogram tells what the engine saw, but for those waits that are over since the
/// task's lane was last charged: one for each CPU.
fn agrees(histogram: &WaitHistogram, exact: &[u64], cpus: u64) {
    let count = exact.len() as u64;
    assert!(histogram.count().abs_diff(count) <= cpus, "{} of {count}", histogram.count());
    for percent in [50, 90, 99] {
        let rank = (exact.len() * percent).div_ceil(100);
        // The missing ones may be below it or above.
        let around =
            rank.saturating_sub(1 + cpus as usize)..(rank + cpus as usize).min(exact.len());
        let found =
            histogram.percentile_ns(percent as f64 / 100.0).expect("there are waits") as f64;
        let (low, high) = (exact[around.start] as f64, exact[around.end - 1] as f64);
        assert!(
            found >= low * (1.0 - EIGHTH) && found <= high * (1.0 + EIGHTH),
            "p{percent} is {found} ns, and was {low} to {high} ns"
        );
    }
    let sum: u64 = exact.iter().sum();
    let missing = cpus * exact.last().copied().unwrap_or(0);
    assert!(sum - histogram.sum_ns <= missing, "{} of {sum} ns", histogram.sum_ns);
    let maxima = &exact[exact.len().saturating_sub(1 + cpus as usize)..];
    assert!(maxima.contains(&histogram.max_ns), "{} is not of {maxima:?}", histogram.max_ns);
}

#[test]
fn a_wait_is_counted_in_the_bucket_whose_bounds_user_space_gives() {
    scenario("buckets", "fifo")
        .at(0, |kernel| {
            let last = WaitHistogram::default().buckets.len() - 1;
            for bucket in 0..=last {
                let (from, to) = WaitHistogram::bounds_ns(bucket);
                for wait in [from, (from + to) / 2, to - 1] {
                    let there = wait_bucket(kernel, wait);
                    expect(kernel, there == bucket, &format!("{wait} ns: {there}, not {bucket}"));
                }
            }
            let longest = wait_bucket(kernel, u64::MAX);
            expect(kernel, longest == last, "the longest wait is not in the last bucket");
        })
        .run_for(1)
        .pass();
}

#[test]
fn percentiles_of_a_lane_are_those_of_its_tasks() {
    for first in POLICIES {
        for second in POLICIES {
            let cpus = 3;
            let machine = scenario(format!("waits under {first} and {second}"), "fifo")
                .cpus(cpus)
                .tasks(9, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b").arrives(1))
                .tasks(4, |i| {
                    TaskSpec::named(format!("a {i}"))
                        .in_cgroup("a")
                        .arrives(1)
                        .run(between(us(50), us(900)))
                        .sleep(between(us(500), ms(8)))
                        .for_ever()
                });
            let (outcome, [a, b]) = run(machine, [first, second], ms(4_001));
            assert!(a.count() > 1_000 && b.count() > 500, "{} and {}", a.count(), b.count());
            agrees(&a, &outcome.waits_ns("a "), cpus as u64);
            agrees(&b, &outcome.waits_ns("b "), cpus as u64);
        }
    }
}

/// The books are kept in parts when a task changes its run queue while it waits.
#[test]
fn a_wait_is_counted_whole_also_when_the_task_moves_and_changes_meanwhile() {
    let (mut runs, mut compared) = (0, 0);
    for seed in seeds(40) {
        runs += 1;
        let mut random = Random::new(seed ^ 0x3a17);
        let cpus = random.within(1, 6) as usize;
        let mut machine = scenario("waits at random", "fifo").cpus(cpus).seed(seed);
        for i in 0..random.within(2, 5 * cpus as u64) as usize {
            let cgroup = ["a", "b"][i % 2];
            let task = any_task(&mut random, cpus, &format!("{cgroup} {i}"), false);
            machine = machine.task(task.in_cgroup(cgroup));
        }
        for _ in 0..random.within(0, 60) {
            let (which, bits) = (random.bits(), random.bits());
            machine = machine.at(random.within(0, ms(900)), move |kernel| {
                crate::level1::change_any_task(kernel, which, bits, 100);
            });
        }
        let policies =
            [0, 1].map(|_| POLICIES[random.within(0, POLICIES.len() as u64 - 1) as usize]);
        let (outcome, found) = run(machine, policies, ms(1_001));
        for (histogram, cgroup) in found.iter().zip(["a ", "b "]) {
            let exact = outcome.waits_ns(cgroup);
            if exact.len() > ENOUGH {
                agrees(histogram, &exact, cpus as u64);
                compared += 1;
            }
        }
    }
    println!("{compared} lanes compared in {runs} runs");
    // Each has two lanes. The tasks of nearly half of them hardly wait.
    assert!(compared > runs / 2, "of {runs} runs only {compared} lanes had waits to compare");
}

#[test]
fn a_slot_that_is_used_again_begins_anew() {
    scenario("a lane comes and goes", "fifo")
        .tasks(3, |i| TaskSpec::hog(format!("a {i}")).in_cgroup("a"))
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .at(ms(200), |kernel| {
            let slot = app_lane(kernel, 1).map_or(0, |lane| lane.slot);
            let counted = waits(kernel, slot).count();
            expect(kernel, counted > 10, &format!("only {counted} waits"));
            unassign(kernel, "a");
            drop_app(kernel, 1);
        })
        .at(ms(400), |kernel| {
            for _ in 0..3 {
                reap(kernel);
            }
            let there = lanes(kernel).len();
            expect(kernel, there == 1, "lanes are left");
            set_app(kernel, 1, "fifo", 100);
            let counted = of_app(kernel, 1);
            expect(kernel, counted == WaitHistogram::default(), &format!("{counted:?}"));
        })
        .run_for(ms(401))
        .pass();
}

#[test]
fn one_lane_alone_counts_no_waits() {
    scenario("alone", "fifo")
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(50), |kernel| {
            reap(kernel);
            let root = lanes(kernel)[0].slot;
            let before = waits(kernel, root);
            kernel.act_at(
                ms(300),
                std::sync::Arc::new(move |kernel: &mut Kernel| {
                    let now = waits(kernel, root);
                    expect(kernel, now == before, "waits were counted");
                }),
            );
        })
        .run_for(ms(400))
        .pass();
}
