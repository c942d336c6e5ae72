//! What qmap promises, run in the simulator from its own source.

use metasched_sim::{Outcome, TaskSpec, exactly, ms, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);

/// The ends of each class of weights.
const CLASSES: [(u32, u32); 5] = [(1, 25), (26, 50), (51, 199), (200, 399), (400, 10_000)];

/// The parts of the CPU time that tasks whose names begin so got.
fn parts(outcome: &Outcome, names: &[&str]) -> Vec<f64> {
    let ran = |name: &str| {
        let of_it = outcome.all().filter(|(task, _)| task.starts_with(name));
        of_it.map(|(_, figures)| figures.ran_ns).sum::<u64>() as f64
    };
    let all: f64 = names.iter().map(|name| ran(name)).sum();
    names.iter().map(|name| ran(name) / all).collect()
}

fn near(found: &[f64], due: &[f64]) {
    let apart = found.iter().zip(due).map(|(found, due)| (found / due - 1.0).abs());
    assert!(apart.fold(0.0, f64::max) < 0.05, "{found:?} and not {due:?}");
}

#[test]
pub(crate) fn hogs_of_the_five_classes_share_a_cpu_as_1_2_4_8_16() {
    for end in 0..2 {
        let outcome = policy("one of each class", "qmap")
            .tasks(5, |i| {
                let (least, most) = CLASSES[i];
                TaskSpec::hog(format!("{i}")).weight([least, most][end])
            })
            .run_for(ms(31 * 24 * 10))
            .pass();
        let due: Vec<f64> = (0..5).map(|i| f64::from(1 << i) / 31.0).collect();
        near(&parts(&outcome, &["0", "1", "2", "3", "4"]), &due);
    }
}

#[test]
pub(crate) fn what_a_class_gets_does_not_depend_on_how_many_tasks_it_has() {
    let outcome = policy("nine light and two heavy", "qmap")
        .tasks(9, |i| TaskSpec::hog(format!("light {i}")).weight(50))
        .tasks(2, |i| TaskSpec::hog(format!("heavy {i}")).weight(400))
        .run_for(ms(18 * 24 * 40))
        .pass();
    near(&parts(&outcome, &["light", "heavy"]), &[2.0 / 18.0, 16.0 / 18.0]);
}

#[test]
fn tasks_of_a_class_run_in_the_order_they_came() {
    let names: Vec<String> = (0..10).map(|i| format!("task {i}")).collect();
    let outcome = policy("ten arrivals", "qmap")
        .task(TaskSpec::named("occupant").run(exactly(ms(12))))
        .tasks(10, |i| {
            let weight = 51 + 14 * i as u32;
            TaskSpec::named(&names[i])
                .weight(weight)
                .arrives(ms(1) + us(i as u64))
                .run(exactly(us(300)))
        })
        .pass();
    assert_eq!(outcome.first_runs()[1..], names);
}

#[test]
fn an_idle_cpu_is_used_at_once() {
    let outcome = policy("a sleeper beside an idle CPU", "qmap")
        .cpus(2)
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").run(exactly(us(200))).sleep(exactly(ms(3))).for_ever())
        .pass();
    assert!(outcome.task("sleeper").longest_wait_ns <= us(2));
}

/// The lightest class waits for a whole round of the others, and no longer.
#[test]
fn the_lightest_waits_for_one_round_at_most() {
    let outcome = policy("one light beside many of each class", "qmap")
        .task(TaskSpec::hog("light").weight(10))
        .tasks(80, |i| TaskSpec::hog(format!("{i}")).weight(CLASSES[1 + i % 4].0))
        // Of 20 in a class, two of which run in a round of 31.
        .waits_at_most(10 * 31 * (SLICE + TICK))
        .run_for(ms(8_000))
        .pass();
    assert!(outcome.task("light").longest_wait_ns <= 30 * (SLICE + TICK));
}

#[test]
fn a_pinned_task_waits_only_for_its_cpu() {
    let outcome = policy("pinned beside three hogs on two CPUs", "qmap")
        .cpus(2)
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .task(
            TaskSpec::named("pinned")
                .only_on([1])
                .run(exactly(us(500)))
                .sleep(exactly(ms(15)))
                .for_ever(),
        )
        .run_for(ms(4_000))
        .pass();
    assert!(outcome.task("pinned").longest_wait_ns <= 2 * (SLICE + TICK));
}

#[test]
fn a_new_weight_counts_from_then_on() {
    let outcome = policy("weight 100 becomes 400", "qmap")
        .task(TaskSpec::hog("steady"))
        .task(TaskSpec::hog("promoted"))
        .at(ms(4_000), |kernel| {
            let promoted = kernel.task_named("promoted");
            kernel.set_weight(promoted, 400);
        })
        .run_for(ms(8_000))
        .pass();
    let share = outcome.task("promoted").ran_ns as f64 / ms(8_000) as f64;
    // Half of the first half, four fifths of the second.
    assert!((0.62..0.68).contains(&share), "{share}");
}
