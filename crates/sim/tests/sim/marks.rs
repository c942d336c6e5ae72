//! Lanes with a queue for each CPU and each cache: what it costs to know where tasks wait, and that
//! none is forgotten.

use crate::lanes::hogs;
use metasched_sim::callbacks::Callback;
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{PLACES, assign, faulty_scenario, lose_marks, scenario_of, set_app};
use metasched_sim::{Machine, Scenario, TaskSpec, between, exactly, image, ms, us};

/// Applications beside the root: as many as there may be.
const APPS: u32 = 63;
const CPUS: usize = 512;
const LLCS: usize = 64;
/// A queue for each CPU, each cache, and one for all.
const QUEUES: u64 = (CPUS + LLCS + 1) as u64;

/// A CPU is given away by weight between hogs and a task that sleeps, alone in a lane that has
/// next to none: it waits for its turn out of turn, and nobody else comes to its lane meanwhile.
fn one_waits_long(image: &'static [u8], name: &str) -> Scenario {
    let run = scenario_of(image, name, "fifo").cpus(2);
    let rare = TaskSpec::named("rare").in_cgroup("a").only_on([1]);
    hogs(run, 4, "b").task(rare.run(exactly(ms(1))).sleep(between(ms(2), ms(12))).for_ever()).at(
        0,
        |kernel| {
            for (app, cgroup, policy, weight) in [(1, "a", PLACES, 1), (2, "b", "fifo", 10_000)] {
                set_app(kernel, app, policy, weight);
                assign(kernel, cgroup, app);
            }
        },
    )
}

/// The sweep is made between enqueues and their inserts.
pub(crate) fn inserts_meet_sweeps(image: &'static [u8]) -> Scenario {
    one_waits_long(image, "inserts meet sweeps")
        .at(0, Kernel::timers_come_in_gaps)
        // It comes out of turn each 64 ms.
        .waits_at_most(ms(150))
        // Not in every minute does a sweep meet the one that waits.
        .run_for(ms(400_000))
}

/// Marks of tasks that wait are lost, and found again: some sweeps later all words are looked at.
pub(crate) fn marks_are_lost(image: &'static [u8]) -> Scenario {
    let run = one_waits_long(image, "marks are lost");
    // Another time of the sleeper's each time, and long after it was found.
    let run = (1..28).fold(run, |run, i| run.at(us(701_300 * i), lose_marks));
    // Each word is looked at in 64 sweeps.
    run.waits_at_most(ms(500)).run_for(ms(20_000))
}

#[test]
fn a_task_that_is_inserted_after_a_sweep_is_not_forgotten() {
    inserts_meet_sweeps(image::faulty()).pass();
}

#[test]
fn a_task_whose_mark_was_lost_is_found() {
    marks_are_lost(image::faulty()).pass();
}

/// On the largest machine that we promise anything for: each application has hogs, on CPUs of
/// their own and anywhere, and tasks that come and go.
fn large(sleepers: usize) -> Scenario {
    let machine = Machine::new(CPUS, LLCS, 2, false).unwrap();
    let mut run = faulty_scenario("a queue for each CPU", PLACES).machine(machine);
    for app in 1..=APPS as usize {
        let cgroup = format!("app{app}");
        run = run.tasks(8, |i| {
            TaskSpec::hog(format!("{app} pinned {i}"))
                .in_cgroup(cgroup.clone())
                .only_on([(app * 61 + i * 7) % CPUS])
        });
        run = run.tasks(4, |i| TaskSpec::hog(format!("{app} hog {i}")).in_cgroup(cgroup.clone()));
        run = run.tasks(sleepers, |i| {
            TaskSpec::named(format!("{app} sleeper {i}"))
                .run(between(us(50), us(500)))
                .sleep(between(us(200), ms(2)))
                .for_ever()
                .in_cgroup(cgroup.clone())
                .only_on([(app * 37 + i * 11) % CPUS])
        });
    }
    run
}

fn has_lanes(kernel: &mut Kernel) {
    for app in 1..=APPS {
        set_app(kernel, app, PLACES, 100);
        assign(kernel, &format!("app{app}"), app);
    }
}

/// 1,536 words and queues by MARK_STEPS, two words more and the rest of the last one; of each lane
/// the queue for all, twice; a part of all CPUs for whom they run; and all are told if an account is
/// urgent. All queues would be
/// 37,000 calls.
const SWEEP_CALLS: u64 = 1_536 + 34 + 2 * (APPS as u64 + 1) + CPUS as u64 + 64 + 20;

/// A queue each, a word for 32 of them, and each CPU is told twice at most.
const LANE_CALLS: u64 = QUEUES + QUEUES / 32 + 1 + 2 * CPUS as u64 + 200;

#[test]
fn a_sweep_of_63_lanes_with_a_queue_for_each_of_512_cpus_is_short() {
    for sleepers in [2, 24] {
        large(sleepers)
            .at(ms(1), |kernel| {
                kernel.most_calls(Callback::Program);
                has_lanes(kernel);
                let calls = kernel.most_calls(Callback::Program);
                println!("a lane is made in {calls} calls");
                crate::level1::expect(
                    kernel,
                    calls > QUEUES && calls <= LANE_CALLS,
                    &format!("a lane is made in {calls} calls"),
                );
                kernel.most_calls(Callback::Timer);
            })
            .at(ms(59), move |kernel| {
                let calls = kernel.most_calls(Callback::Timer);
                println!("{sleepers} sleepers: a sweep in {calls} calls");
                crate::level1::expect(
                    kernel,
                    calls > u64::from(APPS) && calls <= SWEEP_CALLS,
                    &format!("a timer makes {calls} calls"),
                );
            })
            .waits_at_most(ms(1_000))
            .idle_at_most(ms(1_000))
            .run_for(ms(60))
            .pass();
    }
}
