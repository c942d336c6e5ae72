//! cpu.max: cgroups get their quota, and no more, whatever lanes they are on.

use crate::level1::expect;
use metasched_abi::{
    BEYOND_MOST_NS, LIMIT_STEPS, LIMITS_MAX, Limit, OVERDRAFT_NS, PIECE_LEAST_NS, SWEEP_NS,
};
use metasched_sim::abi::{CpuMask, NO_QUOTA};
use metasched_sim::callbacks::Callback;
use metasched_sim::image::{self, Image};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{POLICIES, assign, scenario, set_app};
use metasched_sim::observer::Observer;
use metasched_sim::step::Step;
use metasched_sim::task::TaskId;
use metasched_sim::trace::{Observed, What};
use metasched_sim::{Outcome, Scenario, TaskSpec, between, exactly, ms, us};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

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

/// While a task runs under a limit that goes, and has taken more of it than it will use, another
/// cgroup has the place of that.
pub fn a_limit_in_the_place_of_another(run: Scenario) -> Scenario {
    let short = TaskSpec::named("a").in_cgroup("a").run(exactly(us(500))).sleep(exactly(us(50)));
    run.cpus(2)
        .task(short.for_ever())
        .tasks(2, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b").arrives(ms(20)))
        .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 90_000, 0))
        .at(ms(10), |kernel| {
            kernel.set_cgroup_max("a", PERIOD_US, NO_QUOTA, 0);
            kernel.set_cgroup_max("b", PERIOD_US, 1_000, 0);
        })
        .run_for(ms(TEN_PERIODS))
}

#[test]
fn what_a_run_took_of_a_limit_that_has_gone_is_not_given_to_the_next_one() {
    for policy in POLICIES {
        let run = scenario("a limit in the place of another", policy).idle_at_most(ms(3_000));
        a_limit_in_the_place_of_another(run).pass();
    }
}

/// A hog whose own limit goes just after its second run under that has begun. Of the one above there is
/// something left then, and much less than until the next tick.
pub fn a_limit_that_goes_below_another(run: Scenario) -> Scenario {
    run.cpus(1)
        .task(TaskSpec::hog("hog").in_cgroup("a/b"))
        .at(0, |kernel| {
            kernel.set_cgroup_max("a", 400_000, 3_700, 0);
            kernel.set_cgroup_max("a/b", 14_500, 1_000, 0);
        })
        .at(us(16_600), |kernel| kernel.set_cgroup_max("a/b", 14_500, NO_QUOTA, 0))
        .idle_at_most(ms(500))
        .run_for(ms(300))
}

#[test]
fn who_runs_as_its_limit_goes_is_held_by_the_one_above() {
    for policy in POLICIES {
        a_limit_that_goes_below_another(scenario("a limit goes below another", policy)).pass();
    }
}

#[test]
fn the_tightest_of_nested_limits_counts() {
    // By vtime, so that who had less comes first while the outer one has something left.
    let outcome = limited("nested limits", "vtime", &[("a/x", 2), ("a/y", 2)])
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
        .at(ms(1_200), |kernel| {
            // SAFETY: meta/lanes.bpf.h declares it as a u32, and no callback runs now.
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

/// A sweep, and the next one where it comes at the same moment; then 20 us for the exit.
const DEAD_AFTER: u64 = 2 * SWEEP_NS + ms(1);

#[test]
fn who_is_killed_while_parked_dies_within_a_sweep() {
    for policy in POLICIES {
        let killed_at = ms(500);
        let outcome = limited("killed while parked", policy, &[("a", 60), ("b", 1)])
            .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 10_000, 0))
            .at(killed_at, |kernel| {
                for i in 0..60 {
                    kernel.kill(kernel.task_named(&format!("a {i}")), 0);
                }
            })
            .run_for(ms(900))
            .pass();
        for (name, figures) in outcome.all().filter(|(name, _)| name.starts_with("a ")) {
            let died = figures.exited_ns.unwrap_or_else(|| panic!("'{name}' lives on"));
            let after = died - killed_at;
            assert!(after <= DEAD_AFTER, "{policy}: '{name}' died {} us later", after / 1000);
        }
    }
}

/// Between its signal and its exit a task may be stopped, and it had neither mark by then.
#[test]
fn who_has_taken_the_signal_that_kills_it_is_not_parked_again() {
    /// More than a tick.
    const DYING: u64 = ms(5);
    for policy in POLICIES {
        let killed_at = ms(500);
        // It runs when the limit is set: until the next tick, which is a debt for some periods.
        let outcome = limited("killed, and stopped on its way", policy, &[("a", 1)])
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .at(killed_at, |kernel| kernel.kill(kernel.task_named("a 0"), DYING))
            .run_for(ms(900))
            .pass();
        let died = outcome.task("a 0").exited_ns;
        let after = died.unwrap_or_else(|| panic!("{policy}: it lives on")) - killed_at;
        assert!(after <= DEAD_AFTER + DYING, "{policy}: {} us", after / 1000);
    }
}

/// What the kernel wants to free waits for who reads. The others have used up the quota for long.
#[test]
pub(crate) fn who_is_in_a_read_section_is_not_parked() {
    for policy in POLICIES {
        let outcome = limited("a read section", policy, &[("a", 60)])
            .task(TaskSpec::named("reads").in_cgroup("a").run(exactly(ms(10))))
            .at(ms(1), |kernel| kernel.enter_rcu_section(kernel.task_named("reads")))
            .at(ms(2), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .run_for(ms(900))
            .pass();
        let left = outcome.task("reads").exited_ns;
        assert!(left.is_some_and(|at| at <= ms(100)), "{policy}: it was parked: {left:?}");
    }
}

/// It gives its piece back and takes another one, for which the CPU that changes it cannot set the timer.
#[test]
pub(crate) fn who_is_changed_as_it_runs_has_a_timer_at_once() {
    for policy in POLICIES {
        let mut run = scenario("changed as they run", policy)
            .cpus(8)
            .idle_at_most(ms(3_000))
            .tasks(3, |i| TaskSpec::hog(format!("a {i}")).in_cgroup("a"))
            .at(0, |kernel| kernel.set_cgroup_max("a", 50_000, 10_000, 0));
        for time in 1..3_000 {
            run = run.at(us(331 * time), move |kernel| {
                let task = kernel.task_named(&format!("a {}", time % 3));
                kernel.set_affinity(task, CpuMask::first(7 + time as usize % 2));
            });
        }
        run.run_for(ms(1_000)).pass();
    }
}

/// A task that computes for so long in each of its system calls, which are its requests.
fn calls(ns: u64, after_ns: u64) -> TaskSpec {
    TaskSpec::named("calls")
        .in_cgroup("a")
        .step(Step::Begin)
        .step(Step::Syscall)
        .run(exactly(ns))
        .step(Step::End)
        .step(Step::Return)
        .run(exactly(after_ns))
        .for_ever()
}

/// What it owes after that takes longer than the run.
#[test]
pub(crate) fn a_system_call_ends_before_its_task_is_parked() {
    for policy in POLICIES {
        let outcome = limited("a call", policy, &[("a", 3), ("b", 3)])
            .task(calls(ms(20), ms(100)))
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .run_for(ms(900))
            .pass();
        let figures = outcome.task("calls");
        let longest = *outcome.responses_ns("calls").last().expect("its call ends");
        assert!(longest <= ms(200), "{policy}: its call took {} us", longest / 1000);
        assert!(figures.ran_ns <= ms(21), "{policy}: it ran for {} us", figures.ran_ns / 1000);
    }
}

/// With a piece of its quota it may begin one more. What it owes is paid: 10 % of a CPU.
#[test]
pub(crate) fn each_system_call_ends() {
    for policy in POLICIES {
        let outcome = limited("calls", policy, &[("a", 1)])
            .task(calls(ms(30), us(10)))
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 100_000, 10_000, 0))
            .run_for(ms(10_000))
            .pass();
        let responses = outcome.responses_ns("calls");
        let longest = *responses.last().expect("its calls end");
        assert!(longest <= ms(100), "{policy}: a call took {} us", longest / 1000);
        assert!(responses.len() >= 8, "{policy}: {} calls", responses.len());
        let ran = ran(&outcome, "a") + outcome.task("calls").ran_ns as f64 / 1e6;
        assert!(ran <= 1_100.0, "{policy}: they ran for {ran} ms");
    }
}

/// There is something left again as a call is over, so the task goes on: the call after it ends as well.
#[test]
pub(crate) fn a_system_call_after_one_that_was_paid_for_ends_too() {
    for policy in POLICIES {
        let outcome = limited("calls without a stop", policy, &[])
            .task(calls(ms(30), us(10)))
            .at(0, |kernel| kernel.set_cgroup_max("a", 20_000, 18_000, 0))
            .run_for(ms(3_000))
            .pass();
        let longest = *outcome.responses_ns("calls").last().expect("its calls end");
        assert!(longest <= ms(31), "{policy}: a call took {} us", longest / 1000);
    }
}

#[test]
pub(crate) fn a_system_call_that_does_not_end_is_parked() {
    for policy in POLICIES {
        let outcome = limited("an endless call", policy, &[("a", 1)])
            .task(calls(ms(5_000), ms(1)))
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .run_for(ms(900))
            .pass();
        let ran = outcome.task("calls").ran_ns;
        assert!(
            (BEYOND_MOST_NS..BEYOND_MOST_NS + ms(10)).contains(&ran),
            "{policy}: it ran for {} us",
            ran / 1000
        );
    }
}

/// A virtual CPU computes within its system call, and comes to where it holds nothing all the time.
#[test]
pub(crate) fn a_virtual_cpu_is_parked_in_its_system_call() {
    for policy in POLICIES {
        let vcpu = TaskSpec::named("a vcpu").in_cgroup("a").step(Step::Syscall);
        let vcpu = vcpu.repeat(1_000_000, |task| task.run(exactly(us(100))).step(Step::Guest));
        let outcome = limited("a virtual CPU", policy, &[])
            .task(vcpu)
            .at(0, |kernel| kernel.set_cgroup_max("a", PERIOD_US, 40_000, 0))
            .run_for(ms(TEN_PERIODS))
            .pass();
        near(&outcome, "a", 400.0);
    }
}

/// It came to its guest and went on, since there was something left again. What it does then it does in
/// a call as any other.
#[test]
pub(crate) fn a_virtual_cpu_that_went_on_ends_its_next_call() {
    for policy in POLICIES {
        let vcpu = TaskSpec::named("a vcpu")
            .in_cgroup("a")
            .step(Step::Syscall)
            .run(exactly(ms(21)))
            .step(Step::Guest)
            .run(exactly(ms(1)))
            .step(Step::Return)
            .run(exactly(us(10)))
            .step(Step::Syscall)
            .run(exactly(ms(30)))
            .step(Step::Return)
            .for_ever();
        limited("a virtual CPU goes on", policy, &[])
            .task(vcpu)
            .at(0, |kernel| kernel.set_cgroup_max("a", 20_000, 18_000, 0))
            .run_for(ms(3_000))
            .pass();
    }
}

/// Four tasks of a cgroup that has a fortieth of a CPU, named by a number last. A third CPU comes and goes, and they may use
/// it or not: the kernel lets some run that are parked.
fn lets_run_unasked(scenario: Scenario) {
    let mut run = scenario.cpus(3).at(0, |kernel| kernel.set_cgroup_max("a", 40_000, 1_000, 0));
    for time in 1..30 {
        run = run.at(us(33_100 * time), move |kernel| match time % 2 {
            0 => assert!(kernel.cpu_on(2)),
            _ => assert!(kernel.cpu_off(2)),
        });
    }
    for time in 1..3_000 {
        run = run.at(us(331 * time) + 700, move |kernel| {
            let task = kernel.task_named(&format!("task {}", time % 4));
            kernel.set_affinity(task, CpuMask::first(2 + time as usize % 2));
        });
    }
    run.run_for(ms(1_000)).pass();
}

/// The kernel lets a task run that was parked, as its CPU goes off line; and at once it is in a call.
#[test]
pub(crate) fn who_has_returned_is_not_parked_in_its_next_call() {
    for policy in POLICIES {
        let call = |i| calls(us(50), us(1)).called(format!("task {i}"));
        lets_run_unasked(limited("returned and called", policy, &[]).tasks(4, call));
    }
}

/// A virtual CPU comes to its guest with nothing left, and is let run by the kernel in that way; then
/// it is in a call like any other.
#[test]
pub(crate) fn who_was_about_to_enter_its_guest_is_not_parked_in_its_next_call() {
    for policy in POLICIES {
        let vcpu = |i| {
            TaskSpec::named(format!("task {i}"))
                .in_cgroup("a")
                .step(Step::Syscall)
                .run(exactly(us(50)))
                .step(Step::Guest)
                .run(exactly(us(1)))
                .step(Step::Return)
                .run(exactly(us(1)))
                .for_ever()
        };
        lets_run_unasked(limited("to its guest, and called", policy, &[]).tasks(4, vcpu));
    }
}

/// A task that computes in a system call beyond its limit for a moment at 10 ms, then outside for longer
/// than it ever may beyond one, and 100 ms later in its next call.
fn calls_again(away_ns: u64) -> TaskSpec {
    TaskSpec::named("calls")
        .in_cgroup("a")
        .step(Step::Syscall)
        .sleep(exactly(ms(10)))
        .run(exactly(ms(1)))
        .sleep(exactly(away_ns))
        .step(Step::Return)
        .run(exactly(2 * BEYOND_MOST_NS))
        .step(Step::Syscall)
        .sleep(exactly(ms(100)))
        .run(exactly(ms(20)))
        .step(Step::Return)
}

#[test]
pub(crate) fn what_a_task_ran_in_another_cgroup_is_not_beyond_its_limit() {
    for policy in POLICIES {
        let moved = |path: &'static str| {
            move |kernel: &mut Kernel| {
                let task = kernel.task_named("calls");
                assert!(kernel.attach_to_cgroup(&[task], path));
            }
        };
        limited("in another cgroup meanwhile", policy, &[("a", 1)])
            .task(calls_again(ms(20)))
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .at(ms(15), moved("b"))
            .at(ms(280), moved("a"))
            .run_for(ms(900))
            .pass();
    }
}

/// Its limit has gone, and no cgroup has one for longer than level 1 looks; then another one comes.
#[test]
pub(crate) fn what_a_task_ran_while_there_were_no_limits_is_beyond_none() {
    for policy in POLICIES {
        limited("no limits meanwhile", policy, &[("a", 1)])
            .task(calls_again(ms(300)))
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .at(ms(15), |kernel| kernel.set_cgroup_max("a", 1_000_000, NO_QUOTA, 0))
            .at(ms(550), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .run_for(ms(900))
            .pass();
    }
}

/// Who needs a lock that is held in a call does not wait for the next quota.
#[test]
fn a_lock_that_is_held_in_a_system_call_keeps_nobody_waiting() {
    for policy in POLICIES {
        let holder = |i| {
            TaskSpec::named(format!("holder {i}"))
                .in_cgroup("a")
                .step(Step::Syscall)
                .step(Step::Lock("machine".into()))
                .run(exactly(ms(2)))
                .step(Step::Unlock("machine".into()))
                .step(Step::Return)
                .run(exactly(us(50)))
                .for_ever()
        };
        let outsider = TaskSpec::named("outsider")
            .sleep(exactly(ms(5)))
            .step(Step::Begin)
            .step(Step::Lock("machine".into()))
            .run(exactly(us(50)))
            .step(Step::Unlock("machine".into()))
            .step(Step::End)
            .for_ever();
        let outcome = limited("a lock in a call", policy, &[])
            .lock("machine")
            .waits_at_most(PARKED_AT_MOST + UNTIL_IT_RUNS)
            .tasks(4, holder)
            .task(outsider)
            .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
            .run_for(ms(10_000))
            .pass();
        let longest = *outcome.responses_ns("outsider").last().expect("it has the lock");
        assert!(longest <= ms(50), "{policy}: it waited for {} us", longest / 1000);
    }
}

/// The longest that level 1 keeps a task parked, and what it may take until it runs.
const PARKED_AT_MOST: u64 = ms(10_000);
const UNTIL_IT_RUNS: u64 = ms(500);

/// Quotas and periods at both ends of what cpu.max takes, us.
const EXTREMES: [(u64, u64); 4] =
    [(1_000_000, 1_000), (100_000, 1_000), (1_000, 1_000), (4_000, 1_000)];

#[test]
fn the_least_quotas_on_many_cpus_are_kept_and_stall_nobody() {
    for (period_us, quota_us) in EXTREMES {
        let seconds = 40;
        let outcome = limited(&format!("{quota_us} in {period_us}"), "vtime", &[("a", 16)])
            .cpus(8)
            .waits_at_most(PARKED_AT_MOST + UNTIL_IT_RUNS)
            .idle_at_most(PARKED_AT_MOST)
            .at(0, move |kernel| kernel.set_cgroup_max("a", period_us, quota_us, 0))
            .run_for(ms(seconds * 1_000 - 1))
            .pass();
        let due = seconds as f64 * 1e3 * quota_us as f64 / period_us as f64;
        let got = ran(&outcome, "a");
        // What a limit may owe when the run ends.
        let apart = (got - due).abs() - OVERDRAFT_NS as f64 / 1e6;
        assert!(apart < due * 0.05, "{quota_us} in {period_us}: {got:.1} ms, not {due} ms");
    }
}

/// A period has something for four of them, each of which takes a quarter of a millisecond.
#[test]
pub(crate) fn nobody_is_parked_for_long_in_a_crowd() {
    limited("tiny, and a crowd", "fifo", &[("a", 100)])
        .cpus(8)
        .waits_at_most(PARKED_AT_MOST + UNTIL_IT_RUNS)
        .idle_at_most(PARKED_AT_MOST)
        .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .run_for(ms(30_000))
        .pass();
}

#[test]
fn nobody_is_parked_for_long_by_limits_that_are_nested() {
    let outcome = limited("tiny and nested", "fifo", &[("a/b/c", 12), ("a/b", 3), ("a", 3)])
        .cpus(8)
        .waits_at_most(PARKED_AT_MOST + UNTIL_IT_RUNS)
        .idle_at_most(PARKED_AT_MOST)
        .at(0, |kernel| {
            kernel.set_cgroup_max("a", 990_000, 1_000, 0);
            kernel.set_cgroup_max("a/b", 1_000_000, 1_000, 0);
            kernel.set_cgroup_max("a/b/c", 970_000, 1_000, 0);
        })
        .run_for(ms(60_000))
        .pass();
    assert!(ran(&outcome, "a/b") + ran(&outcome, "a") + ran(&outcome, "a/b/c") < 75.0);
}

/// Who dies is never parked, and would have its cgroup pay for 40 s: for 5 s at most it does.
#[test]
pub(crate) fn a_debt_that_would_take_too_long_is_forgiven_and_counted() {
    const DYING: u64 = ms(40);
    // By their number, and since all of them run when the limit is set, `quota_kept` lets that pass.
    limited("a long debt", "fifo", &[("a", 16)])
        .cpus(16)
        .waits_at_most(PARKED_AT_MOST + UNTIL_IT_RUNS)
        .idle_at_most(PARKED_AT_MOST)
        .at(ms(1), |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .at(ms(500), |kernel| kernel.kill(kernel.task_named("a 0"), DYING))
        .at(ms(19_900), |kernel| {
            let limits = kernel.image().required("limits").unwrap().cast::<Limit>();
            // SAFETY: meta/limits.bpf.h declares an array of them, and no callback runs now.
            let (used, forgiven) = unsafe { ((*limits).used_ns, (*limits).forgiven_ns) };
            expect(kernel, forgiven > ms(30), &format!("{forgiven} ns were forgiven"));
            // A millisecond for each second from the sixth or seventh on.
            expect(kernel, used > DYING + ms(12), &format!("of {used} ns the others had a rest"));
        })
        .run_for(ms(20_000))
        .pass();
}

/// Counts how often tasks are put into any queue.
#[derive(Default)]
struct Inserts {
    names: BTreeMap<TaskId, String>,
    of: BTreeMap<String, u64>,
}

impl Observer for Inserts {
    fn born(&mut self, task: TaskId, _name: &str, cgroup: &str) {
        self.names.insert(task, cgroup.to_owned());
    }

    fn observe(&mut self, event: &Observed) {
        if let (What::Insert(_), Some(task)) = (&event.what, event.task) {
            *self.of.entry(self.names[&task].clone()).or_default() += 1;
        }
    }
}

#[test]
pub(crate) fn a_refill_leaves_the_tasks_of_other_cgroups_parked() {
    let inserts = Rc::new(RefCell::new(Inserts::default()));
    limited("a refill", "fifo", &[("often", 2), ("seldom", 200)])
        .waits_at_most(ms(3_000))
        .at(0, |kernel| {
            kernel.set_cgroup_max("often", 4_000, 1_000, 0);
            kernel.set_cgroup_max("seldom", 1_000_000, 10_000, 0);
        })
        .read_by(&inserts)
        .run_for(ms(1_990))
        .pass();
    // At its start, once for each refill of its own, and not with each of the other's 500.
    let (seldom, often) = (inserts.borrow().of["seldom"], inserts.borrow().of["often"]);
    assert!(often > 300, "the other one had {often} inserts");
    assert!(seldom < 200 * 10, "200 tasks were queued {seldom} times in 2 s");
}

const PLACES: u32 = LIMITS_MAX as u32;

/// The places that four threads are given at the same time, in order, and then one more.
pub(crate) fn places_claimed_at_once(image: &[u8]) -> Vec<u32> {
    let image = Image::open(image).unwrap();
    // SAFETY: meta/limits.bpf.h declares it so.
    let claim: extern "C" fn() -> u32 =
        unsafe { std::mem::transmute(image.required("limit_claim_free").unwrap()) };
    // SAFETY: meta/limits.bpf.h declares it as a u32, and nothing of the image runs yet.
    unsafe { *image.required("parked_dsqs").unwrap().cast::<u32>() = PLACES };
    let claims = || (0..PLACES / 4).map(|_| claim()).collect::<Vec<u32>>();
    let mut claimed: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claims)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    claimed.sort_unstable();
    // SAFETY: meta/limits.bpf.h declares it as a u32, and the threads are over.
    let used = unsafe { *image.required("limits_used").unwrap().cast::<u32>() };
    assert_eq!(Some(&used), claimed.last());
    claimed.push(claim());
    claimed
}

/// Each has one of them, and for one more there is none left.
pub(crate) fn is_every_place_once(claimed: &[u32]) -> bool {
    claimed.iter().copied().eq((1..=PLACES).chain([0]))
}

/// cpu.max is written on several CPUs at once, which no run shows: a callback is one instant. Here
/// threads call the function itself, which calls nothing.
#[test]
fn no_place_is_claimed_twice_and_all_of_them_can_be() {
    assert!(is_every_place_once(&places_claimed_at_once(image::metasched())));
}

/// What a limit grants to threads that take all of it at the same time.
pub(crate) const GRANTED_NS: u64 = 3 * PIECE_LEAST_NS;
const TIMES: usize = 2_000;

/// Two threads at the same time take pieces of a limit, as runs do that begin, until nothing is left:
/// the most that they got in one of many times.
pub(crate) fn most_taken_at_once(image: &[u8]) -> u64 {
    let image = Image::open(image).unwrap();
    // SAFETY: meta/limits.bpf.h declares it so.
    let take: extern "C" fn(u32, u64, u64, bool) -> u64 =
        unsafe { std::mem::transmute(image.required("limit_take").unwrap()) };
    // Throttled already: so nobody asks for the time.
    let full = Limit { granted_ns: GRANTED_NS, throttled: 1, ..Limit::default() };
    let limit = image.required("limits").unwrap().cast::<Limit>() as usize;
    let begin = std::sync::Barrier::new(2);
    let takes = || {
        let times = (0..TIMES).map(|_| {
            if begin.wait().is_leader() {
                // SAFETY: it is the first of an array of them. The other thread waits meanwhile.
                unsafe { *(limit as *mut Limit) = full };
            }
            begin.wait();
            let piece = || take(1, PIECE_LEAST_NS, PIECE_LEAST_NS, false);
            let taken: u64 = std::iter::repeat_with(piece).take_while(|got| *got > 0).sum();
            begin.wait();
            taken
        });
        times.collect::<Vec<u64>>()
    };
    let (one, other) = std::thread::scope(|scope| {
        let threads = [scope.spawn(takes), scope.spawn(takes)];
        let [one, other] = threads.map(|thread| thread.join().unwrap());
        (one, other)
    });
    one.iter().zip(other).map(|(one, other)| one + other).max().unwrap()
}

#[test]
fn cpus_that_take_pieces_at_the_same_time_get_no_more_than_there_is() {
    assert_eq!(most_taken_at_once(image::metasched()), GRANTED_NS);
}

#[test]
fn each_of_4096_limits_has_a_place_of_its_own_and_one_more_has_none() {
    let run = limited("limits", "fifo", &[("0", 1)]).at(0, |kernel| {
        for cgroup in 0..=PLACES {
            kernel.set_cgroup_max(&cgroup.to_string(), PERIOD_US, 40_000, 0);
        }
        let at = |name| kernel.image().required(name).unwrap();
        // SAFETY: meta/limits.bpf.h declares them as a u32 and a u64, and no callback runs now.
        let (live, refused) =
            unsafe { (*at("limits_live").cast::<u32>(), *at("limits_refused").cast::<u64>()) };
        let said = format!("{live} live, {refused} refused");
        expect(kernel, (live, refused) == (PLACES, 1), &said);
    });
    near(&run.run_for(ms(TEN_PERIODS)).pass(), "0", 400.0);
}

const LOOKS: u64 = LIMIT_STEPS as u64;

/// The first place, one whose periods are shorter than a round, one between, and the last.
const IN_USE: [&str; 4] = ["0", "1", "2048", "4095"];

#[test]
fn each_of_4096_limits_is_kept_and_a_sweep_looks_at_512() {
    let outcome = limited("4,096 limits", "fifo", &IN_USE.map(|cgroup| (cgroup, 1)))
        .cpus(8)
        .at(0, |kernel| {
            for cgroup in 0..PLACES {
                let (period_us, quota_us) =
                    if cgroup == 1 { (5_000, 2_000) } else { (PERIOD_US, 40_000) };
                kernel.set_cgroup_max(&cgroup.to_string(), period_us, quota_us, 0);
            }
            kernel.most_calls(Callback::Timer);
        })
        .at(ms(TEN_PERIODS - 1), |kernel| {
            // One for each place whose queue is looked at: none is throttled but those in use.
            let calls = kernel.most_calls(Callback::Timer);
            let said = format!("a sweep makes {calls} calls");
            expect(kernel, (LOOKS..LOOKS + 20).contains(&calls), &said);
        })
        .run_for(ms(TEN_PERIODS))
        .pass();
    for cgroup in IN_USE {
        near(&outcome, cgroup, 400.0);
    }
}
