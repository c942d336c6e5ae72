//! What CPUs owe to applications: bounded credit, slices that are cut, and nobody charged for
//! what is not theirs. Each of these was broken once.

use crate::lanes::{app_lane, hogs, near};
use crate::level1::expect;
use metasched_abi::{Account, ROOT_ACCOUNT};
use metasched_sim::image::{self, Image};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{assign, drop_app, replace_root, scenario, scenario_of, set_app};
use metasched_sim::step::Step;
use metasched_sim::{Machine, Scenario, TaskSpec, between, exactly, ms, us};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Two applications of equal weights, and nobody else.
fn two_applications(run: Scenario, policy: &'static str) -> Scenario {
    run.at(0, move |kernel| {
        for (app, cgroup) in [(1, "a"), (2, "b")] {
            set_app(kernel, app, policy, 100);
            assign(kernel, cgroup, app);
        }
    })
}

/// An application that always had an arrival between two sweeps kept all that it did not use:
/// after fifteen seconds its hogs had 92 % of the machine for seconds.
#[test]
pub(crate) fn who_wakes_all_the_time_saves_no_more_than_20_ms() {
    let run = scenario("light for long, then heavy", "fifo").cpus(2).tasks(6, |i| {
        let spec = TaskSpec::named(format!("a {i}")).in_cgroup("a");
        let light = |spec: TaskSpec| spec.run(exactly(us(100))).sleep(exactly(us(900)));
        spec.repeat(6_000, light).run(exactly(ms(4_000)))
    });
    let outcome = two_applications(hogs(run, 4, "b"), "fifo").run_for(ms(9_000)).pass();
    let light_ns = 6 * 6_000 * us(100);
    let a: u64 = outcome.all().filter(|(who, _)| who.starts_with('a')).map(|(_, f)| f.ran_ns).sum();
    // Six tasks of a millisecond's round at the least; what is left of 9 s is shared evenly.
    let heavy_ns = (a - light_ns) as f64;
    let share = heavy_ns / (2.0 * (ms(9_000) - ms(6_000)) as f64);
    assert!(share < 0.55, "it had {share:.3} of the machine when it was heavy");
}

/// Two tasks that each wait for the other's answer, beside hogs, on two CPUs, from that time on.
fn asks_and_answers(image: &'static [u8], from_ns: u64) -> Scenario {
    let of_a = |name: &str| TaskSpec::named(name).in_cgroup("a");
    let run = scenario_of(image, "one asks and one answers", "fifo").cpus(2);
    let run = run.pipe("there", 1).pipe("back", 1);
    let rounds = |spec: TaskSpec| {
        spec.run(exactly(us(50)))
            .step(Step::Write("there".into(), 1))
            .step(Step::Read("back".into(), 1))
    };
    let run = run.task(of_a("asks").sleep(exactly(from_ns)).repeat(20_000, rounds)).task(
        of_a("answers")
            .step(Step::Read("there".into(), 1))
            .run(exactly(us(50)))
            .step(Step::Write("back".into(), 1))
            .for_ever(),
    );
    two_applications(hogs(run, 4, "b"), "fifo")
        .at(from_ns + ms(1_000), |kernel| {
            let kicks = app_lane(kernel, 1).map_or(0, |lane| lane.kicks);
            // For 10,000 rounds: it keeps the CPU that it has, which is its share.
            expect(kernel, kicks < 50, &format!("others were preempted {kicks} times"));
        })
        .run_for(from_ns + ms(1_000))
}

/// They are there from the beginning.
fn asks_at_once(image: &'static [u8]) -> Scenario {
    asks_and_answers(image, 1)
}

/// They come with all the credit that there is, and can never use it: of two tasks one sleeps.
pub(crate) fn asks_late(image: &'static [u8]) -> Scenario {
    asks_and_answers(image, ms(100))
}

/// Each wake-up took another CPU away, of which the hog had 20 us until the next. And 15 times a second
/// a hog had this CPU in rotation, which would have had the other one 4 ms later.
#[test]
pub(crate) fn who_is_woken_by_a_task_that_sleeps_then_has_its_cpu() {
    for run in [asks_at_once, asks_late] {
        let outcome = run(image::metasched()).pass();
        let rounds = outcome.task("asks").voluntary_switches;
        assert!(rounds > 9_800, "{rounds} rounds of 10,000");
    }
}

/// A server and its ten clients, which are one task, had both CPUs for a slice and none for the next, since both
/// CPUs saw the same account lag. So each hog's turn was cut short.
#[test]
pub(crate) fn two_applications_have_a_cpu_each() {
    let of_a = |name: &str| TaskSpec::named(name).in_cgroup("a");
    let (requests, replies) = ("requests", "replies");
    let mut run = scenario("a server and its clients", "fifo").cpus(2);
    run = run.pipe(requests, 10).pipe(replies, 10);
    for (name, reads, writes) in [("server", requests, replies), ("clients", replies, requests)] {
        let steps = of_a(name).step(Step::Read(reads.into(), 1)).run(between(us(30), us(80)));
        run = run.task(steps.step(Step::Write(writes.into(), 1)).for_ever());
    }
    let run = run.task(of_a("starter").step(Step::Write(requests.into(), 10)));
    let outcome = two_applications(hogs(run, 6, "b"), "fifo").run_for(ms(2_000)).pass();
    let migrations = outcome.all().map(|(_, f)| f.migrations).sum::<u64>();
    assert!(migrations < 100, "tasks changed their CPU {migrations} times");
}

/// CPUs on which an application once ran, and which are idle since, count for it no more: beside another
/// one on the CPU that both are bound to it has its half at once.
pub(crate) fn ran_elsewhere_before(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "its other CPUs are idle by now", "fifo").cpus(16);
    let run = run
        .tasks(15, |i| {
            let spec = TaskSpec::named(format!("a {i}")).in_cgroup("a").only_on([i + 1]);
            spec.run(exactly(ms(1_000)))
        })
        .task(TaskSpec::hog("a bound").in_cgroup("a").only_on([0]))
        .task(
            TaskSpec::named("b waking")
                .in_cgroup("b")
                .only_on([15])
                .run(exactly(us(10)))
                .sleep(exactly(ms(2)))
                .for_ever(),
        )
        .task(
            TaskSpec::named("b bound")
                .in_cgroup("b")
                .only_on([0])
                .sleep(exactly(ms(1_100)))
                .run(exactly(ms(4_000))),
        );
    let ran = Rc::new(Cell::new(0));
    let before = Rc::clone(&ran);
    let of_b = |kernel: &mut Kernel| app_lane(kernel, 2).map_or(0, |lane| lane.runtime_ns);
    two_applications(run, "fifo")
        .at(ms(1_100), move |kernel| before.set(of_b(kernel)))
        .at(ms(1_300), move |kernel| {
            let share = (of_b(kernel) - ran.get()) as f64 / ms(200) as f64;
            expect(kernel, (0.45..0.65).contains(&share), &format!("it had {share:.3} of its CPU"));
        })
        .run_for(ms(1_310))
}

#[test]
fn who_ran_on_other_cpus_before_has_its_half_of_the_one_that_is_left() {
    ran_elsewhere_before(image::metasched()).pass();
}

/// A policy that lets its task go on does not know that others have work.
#[test]
fn a_task_that_its_policy_keeps_has_a_shared_slice_beside_others() {
    let run = scenario("a task that is kept", "fifo")
        .task(TaskSpec::hog("a").in_cgroup("a"))
        .task(TaskSpec::hog("b").in_cgroup("b"));
    // A slice of 2 ms ends at the next tick; of 20 ms, at the one after.
    let outcome = two_applications(run, "vtime").waits_at_most(ms(6)).run_for(ms(2_000)).pass();
    near(&outcome, "a", 0.5, 0.02);
}

/// A slice of 2 ms is over at the next tick, or at the one after if it began less than 2 ms before that:
/// 6 ms at most. Who is kept with its policy's 20 ms, while the other account is not due, would have
/// the CPU for two ticks.
#[test]
pub(crate) fn who_is_kept_beside_others_makes_way_after_2_ms_and_a_tick() {
    let thread = TaskSpec::named("kthread").kthread();
    let run = scenario("a slice that is kept", "fifo")
        .task(TaskSpec::hog("a").in_cgroup("a"))
        .task(TaskSpec::hog("b").in_cgroup("b"))
        .task(thread.run(exactly(us(50))).sleep(between(ms(8), ms(30))).for_ever());
    let outcome = run
        .at(0, |kernel| {
            for (app, cgroup, weight) in [(1, "a", 10_000), (2, "b", 1)] {
                set_app(kernel, app, "vtime", weight);
                assign(kernel, cgroup, app);
            }
        })
        .run_for(ms(4_000))
        .pass();
    let waited = outcome.task("kthread").longest_wait_ns;
    assert!(waited < ms(6), "the kernel thread waited for {waited} ns");
}

/// They lost their lane when they were queued, and what they ran was the root's to pay.
#[test]
pub(crate) fn nobody_pays_for_kernel_threads() {
    let thread = TaskSpec::named("kthread").kthread();
    let run = scenario("who pays", "fifo")
        .task(thread.run(exactly(us(900))).sleep(exactly(us(1_100))).for_ever());
    let run = hogs(hogs(run, 2, "a"), 2, "root");
    let outcome = run
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(3_000))
        .pass();
    let ran = |name: &str| -> u64 {
        outcome.all().filter(|(who, _)| who.starts_with(name)).map(|(_, f)| f.ran_ns).sum()
    };
    let share = ran("a") as f64 / (ran("a") + ran("root")) as f64;
    assert!((share - 0.5).abs() < 0.02, "the application had {share:.3}, not half");
}

/// To kick a CPU that is none ends the scheduler.
#[test]
pub(crate) fn numbers_that_stand_for_no_cpu_are_left_alone() {
    let machine = Machine::cpus(2).with_numbers_without_cpu(3);
    let run = scenario("holes among the CPUs", "fifo").machine(machine);
    let sleeper = TaskSpec::named("c").in_cgroup("a");
    let run = run.task(sleeper.run(exactly(us(300))).sleep(exactly(ms(2))).for_ever());
    two_applications(hogs(hogs(run, 3, "a"), 3, "b"), "fifo")
        .at(ms(100), |kernel| {
            set_app(kernel, 1, "vtime", 10_000);
            replace_root(kernel, "vtime");
        })
        .at(ms(200), |kernel| drop_app(kernel, 2))
        .run_for(ms(400))
        .pass();
}

/// As many accounts as there can be, and tasks of them that have one CPU only.
pub(crate) fn long_rotation(image: &'static [u8]) -> Scenario {
    /// Nobody waits for more than 2.03 s, a round of the accounts. At a fixed pace of `ROTATION_NS` a
    /// round would be 4 s.
    const ROUND: u64 = ms(3_000);
    let run = scenario_of(image, "a long rotation", "fifo").cpus(2);
    let run = run.tasks(63, |i| {
        let name = format!("app{}", i + 1);
        let spec = TaskSpec::hog(format!("hog {i}")).in_cgroup(name);
        // Those that have no other CPU lag there for ever.
        spec.only_on([usize::from(i >= 40)])
    });
    let run = run.tasks(23, |i| {
        TaskSpec::hog(format!("pinned {i}")).in_cgroup(format!("app{}", i + 41)).only_on([0])
    });
    run.at(0, |kernel| {
        for app in 1..=63 {
            set_app(kernel, app, "fifo", 100);
            assign(kernel, &format!("app{app}"), app);
        }
    })
    .waits_at_most(ROUND)
    .run_for(ms(10_000))
}

/// A task that only one CPU may run has its turn there after a rotation, not after 4 s or more: the
/// kernel's patience may be 10 s.
#[test]
fn the_longest_rotation_is_far_from_the_watchdogs_least() {
    long_rotation(image::metasched()).pass();
}

/// An application with all its work on one CPU is due that CPU by its weight; another has its share
/// from the other CPU, and a crowd of tasks that may run on the first one only.
pub(crate) fn crowd_on_a_cpu(image: &'static [u8]) -> Scenario {
    scenario_of(image, "a crowd on a CPU", "fifo")
        .cpus(2)
        .tasks(200, |i| TaskSpec::hog(format!("crowd {i}")).in_cgroup("root").only_on([0]))
        .tasks(2, |i| TaskSpec::hog(format!("wide {i}")).in_cgroup("root"))
        .task(TaskSpec::hog("narrow").in_cgroup("a").only_on([0]))
        .at(0, |kernel| {
            set_app(kernel, 1, "vtime", 400);
            assign(kernel, "a", 1);
        })
        .waits_at_most(ms(8_000))
        .run_for(ms(20_000))
}

/// They waited for a rotation each, all in all for longer than the kernel's watchdog does.
#[test]
fn a_crowd_that_has_one_cpu_only_has_its_part_of_that() {
    let outcome = crowd_on_a_cpu(image::metasched()).pass();
    let crowd = outcome.all().filter(|(who, _)| who.starts_with("crowd"));
    let part = crowd.map(|(_, f)| f.ran_ns).sum::<u64>() as f64 / ms(20_000) as f64;
    // A fifth by the weights, and what rotations give.
    assert!((0.18..0.26).contains(&part), "the crowd had {part:.3} of its CPU");
}

/// The one thread is later than the other by up to so many turns of a loop.
const APART: u64 = 64;
/// In place of a round: there is none any more.
const OVER: u64 = u64::MAX;

/// Waits for another thread, which may need this one's CPU.
fn wait_for(round: &AtomicU64, at_least: u64) -> u64 {
    for turn in 1_u64.. {
        let now = round.load(SeqCst);
        if now >= at_least {
            return now;
        }
        if turn % 1_000 == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    OVER
}

fn spin(turns: u64) {
    (0..turns).for_each(|_| std::hint::spin_loop());
}

/// Whether an account to which a task comes is taken for idle within that time, again and again by a
/// thread that calls the sweep's function for it while this one calls that of arrivals. It has no
/// lane, so that they call nothing.
pub(crate) fn an_arrival_is_lost(image: &[u8], within: Duration) -> bool {
    const NUMBER: u32 = ROOT_ACCOUNT + 1;
    const BIT: u64 = 1 << NUMBER;
    let image = Image::open(image).unwrap();
    // SAFETY: meta/accounts.bpf.h declares it so.
    let arrives: extern "C" fn(u32) -> i32 =
        unsafe { std::mem::transmute(image.required("account_arrives").unwrap()) };
    // SAFETY: meta/sweep.bpf.h declares it so.
    let sweep: extern "C" fn(u32, u64, u64) -> bool =
        unsafe { std::mem::transmute(image.required("sweep_account").unwrap()) };
    let account = image.required("accounts").unwrap().cast::<Account>();
    // SAFETY: there are ACCOUNTS_MAX accounts, and `busy` begins with a u64. The image outlives
    // both. Its functions read them at once (READ_ONCE) and write by atomic instructions.
    let (arrived, busy) = unsafe {
        let arrived = &raw mut (*account.add(NUMBER as usize)).arrived;
        let busy = image.required("busy").unwrap().cast::<u64>();
        (AtomicU32::from_ptr(arrived), AtomicU64::from_ptr(busy))
    };
    let [begun, sweeps, swept] = [0; 3].map(AtomicU64::new);
    let until = Instant::now() + within;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = wait_for(&begun, 1);
            while round != OVER {
                sweeps.store(round, SeqCst);
                spin(round / APART % APART);
                sweep(NUMBER, 0, 0);
                swept.store(round, SeqCst);
                round = wait_for(&begun, round + 1);
            }
        });
        let (mut round, mut lost) = (0, false);
        while !lost && Instant::now() < until {
            round += 1;
            arrived.store(1, SeqCst);
            busy.fetch_or(BIT, SeqCst);
            begun.store(round, SeqCst);
            if round % 2 == 0 {
                wait_for(&sweeps, round);
            }
            spin(round % APART);
            arrives(NUMBER);
            wait_for(&swept, round);
            lost = busy.load(SeqCst) & BIT == 0;
        }
        begun.store(OVER, SeqCst);
        lost
    })
}

/// No run shows it: a callback is one instant.
#[test]
fn who_comes_while_the_sweep_looks_has_an_account_with_work() {
    assert!(!an_arrival_is_lost(image::metasched(), Duration::from_millis(300)));
}
