//! Level 1: lanes come and go, and nobody is lost, forgotten or kept waiting.

use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    LaneState, POLICIES, lanes, reap, replace_root, scenario, scenario_of,
};
use metasched_sim::random::Random;
use metasched_sim::task::Step;
use metasched_sim::{Machine, Scenario, TaskSpec, between, exactly, image, ms, policy, us};
use std::sync::Arc;

/// Hogs and sleepers, three to a CPU.
pub(crate) fn loaded(name: &str, first: &str, cpus: usize) -> Scenario {
    scenario(name, first).cpus(cpus).tasks(cpus, |i| TaskSpec::hog(format!("hog {i}"))).tasks(
        2 * cpus,
        |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), ms(3)))
                .sleep(between(us(100), ms(5)))
                .for_ever()
        },
    )
}

pub(crate) fn expect(kernel: &mut Kernel, holds: bool, what: &str) {
    if !holds {
        let seen = format!("{what}; lanes: {:?}", lanes(kernel));
        kernel.fail("expectation", seen);
    }
}

#[test]
fn replacing_the_root_lane_loses_no_task() {
    for first in POLICIES {
        for second in POLICIES {
            let outcome = loaded(&format!("{first} replaced by {second}"), first, 2)
                .at(ms(100), move |kernel| replace_root(kernel, second))
                .waits_at_most(ms(120))
                .run_for(ms(600))
                .pass();
            for (name, figures) in outcome.all() {
                assert!(figures.ran_ns > 0, "{name} never ran: {first} to {second}");
            }
        }
    }
}

#[test]
fn a_task_runs_under_the_new_lane_within_a_slice() {
    loaded("first run under the new lane", "fifo", 2)
        .at(ms(100), |kernel| replace_root(kernel, "vtime"))
        .at(ms(130), |kernel| {
            let root = lanes(kernel).into_iter().find(|l| l.is_root());
            let ran = root.map_or(0, |l| l.first_run_ns);
            expect(kernel, ran >= ms(100) && ran <= ms(124), "no first run within a slice");
        })
        .run_for(ms(200))
        .pass();
}

/// The root lane is replaced while a higher scheduling class has the only CPU: the kick that is to
/// end the slice of the task there finds nobody.
pub(crate) fn kicked_in_vain(image: &'static [u8]) -> Scenario {
    const REPLACED: u64 = ms(101);
    scenario_of(image, "a kick that finds another class", "fifo")
        .cpus(1)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .at(REPLACED - us(500), |kernel| kernel.take_cpu(0, ms(1)))
        .at(REPLACED, |kernel| replace_root(kernel, "vtime"))
        .at(REPLACED + ms(1), |kernel| {
            let root = lanes(kernel).into_iter().find(|l| l.is_root());
            let ran = root.map_or(0, |l| l.first_run_ns);
            expect(kernel, ran > REPLACED, "no first run when the CPU was given back");
        })
        .run_for(ms(200))
}

#[test]
fn what_a_higher_class_kept_from_its_cpu_goes_on_under_the_new_lane_at_once() {
    kicked_in_vain(image::faulty()).pass();
}

#[test]
fn a_drained_lane_is_freed() {
    loaded("drained", "fifo", 2)
        .at(ms(100), |kernel| {
            replace_root(kernel, "vtime");
            let states: Vec<_> = lanes(kernel).iter().map(|l| l.state).collect();
            expect(kernel, states == [LaneState::Draining, LaneState::InForce], "not draining");
        })
        .at(ms(400), |kernel| {
            // Draining to retired, retired to free, and nothing left to do.
            let left = reap(kernel);
            expect(kernel, left == 0, &format!("{left} lanes are left"));
            let states: Vec<_> = lanes(kernel).iter().map(|l| l.state).collect();
            expect(kernel, states == [LaneState::InForce], "not freed");
        })
        .run_for(ms(500))
        .pass();
}

#[test]
fn a_freed_slot_is_used_again_under_another_generation() {
    let mut run = loaded("lanes without end", "fifo", 2).run_for(ms(8_000));
    for i in 1..=150 {
        let next = POLICIES[i as usize % POLICIES.len()];
        run = run.at(ms(50 * i), move |kernel| {
            replace_root(kernel, next);
            reap(kernel);
            let seen = lanes(kernel);
            expect(kernel, seen.len() <= 8, "lanes pile up");
            let mut generations: Vec<_> = seen.iter().map(|l| l.generation).collect();
            generations.sort();
            generations.dedup();
            expect(kernel, generations.len() == seen.len(), "a generation is used twice");
        });
    }
    run.pass();
}

#[test]
fn a_bound_kernel_thread_goes_past_the_lanes() {
    let outcome = policy("bound kernel thread", "fifo")
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(
            TaskSpec::named("kthread")
                .kthread()
                .only_on([0])
                .arrives(ms(5))
                .run(exactly(us(100)))
                .sleep(exactly(ms(7)))
                .for_ever(),
        )
        .run_for(ms(1_000))
        .pass();
    // It waits for the end of the running task's slice, 20 ms and a tick, and
    // not behind the other three.
    assert!(outcome.task("kthread").longest_wait_ns <= ms(24));
}

/// Any machine of up to so many CPUs, alike or with cores, caches and nodes; 8 at least.
pub(crate) fn any_machine(random: &mut Random, most_cpus: u64) -> Machine {
    if random.once_in(2) {
        return Machine::cpus(random.within(1, most_cpus) as usize);
    }
    let smt = random.once_in(2);
    let (llcs, nodes) = [(1, 1), (2, 1), (2, 2), (4, 2)][random.within(0, 3) as usize];
    let least = if smt { 2 * llcs } else { llcs };
    let times = random.within(1, most_cpus / least as u64) as usize;
    Machine::new(least * times, llcs, nodes, smt).expect("it divides evenly")
}

pub(crate) fn any_policy(random: &mut Random) -> &'static str {
    POLICIES[random.within(0, POLICIES.len() as u64 - 1) as usize]
}

pub(crate) fn any_weight(random: &mut Random) -> u32 {
    random.within(80, 160) as u32
}

pub(crate) fn any_task(random: &mut Random, cpus: usize, name: &str, may_fork: bool) -> TaskSpec {
    let mut task =
        TaskSpec::named(name).arrives(random.within(0, ms(50))).weight(any_weight(random));
    if random.once_in(3) {
        let low = random.within(0, cpus as u64 - 1) as usize;
        let high = random.within(low as u64, cpus as u64 - 1) as usize;
        task = task.only_on(low..=high);
    }
    if may_fork && random.once_in(4) {
        let child = any_task(random, cpus, &format!("child of {name}"), false).rounds(2);
        task = task.step(Step::Fork(Arc::new(child)));
    }
    for _ in 0..random.within(1, 4) {
        task = task.run(between(us(1), random.within(us(2), ms(30))));
        task = match random.within(0, 4) {
            0..=2 => task.sleep(between(us(1), random.within(us(2), ms(20)))),
            3 => task.step(Step::Yield),
            _ => task,
        };
    }
    task.rounds(random.within(1, 20))
}

pub(crate) fn change_any_task(kernel: &mut Kernel, which: u64, bits: u64, weight: u32) {
    let Some(task) = kernel.any_task(which) else { return };
    kernel.set_weight(task, weight);
    let cpus = (0..kernel.nr_cpus()).filter(|cpu| bits >> cpu & 1 == 1);
    kernel.set_affinity(task, cpus.collect());
}
