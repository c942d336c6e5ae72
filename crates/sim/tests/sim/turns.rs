//! Turns by the timer: the root's share goes from lane to lane, and nobody is lost,
//! forgotten or kept waiting by it.

use crate::lanes::{hogs, near};
use crate::level1::{expect, loaded};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    LaneState, POLICIES, assign, cycle, lanes, reap, replace_root, scenario, set_app, start_turns,
    stop_turns,
};
use metasched_sim::{TaskSpec, between, ms, us};

/// The policies that take turns: up to three of them.
fn rotating() -> &'static [&'static str] {
    &POLICIES[..POLICIES.len().min(3)]
}

fn root_word(kernel: &mut Kernel) -> u32 {
    // SAFETY: meta/lanes.bpf.h declares it as a u32, and no callback runs now.
    unsafe { *kernel.image().required("root_word").unwrap().cast::<u32>() }
}

/// Nothing is left but one lane in force, on the fast path but for state per task.
fn one_lane_alone(kernel: &mut Kernel) {
    for _ in 0..4 {
        reap(kernel);
    }
    let states: Vec<_> = lanes(kernel).iter().map(|l| l.state).collect();
    expect(kernel, states == [LaneState::InForce], "lanes are left");
    let word = root_word(kernel);
    expect(kernel, word & !(127 | 1 << 8) == 0, &format!("the fast path is off: {word:#x}"));
}

#[test]
fn the_time_in_force_follows_the_lengths() {
    let turns = [("fifo", ms(3)), ("vtime", ms(1)), ("fifo", us(500))];
    loaded("lengths 6 : 2 : 1", "fifo", 2)
        .at(ms(1), move |kernel| start_turns(kernel, &turns))
        .at(ms(1_000), move |kernel| {
            stop_turns(kernel);
            let books = cycle(kernel);
            let in_force = books.turn.map(|turn| turn.in_force_ns);
            let whole: u64 = in_force.iter().sum();
            expect(kernel, whole == ms(999), &format!("{whole} ns in force"));
            for ((_, length), ns) in turns.iter().zip(in_force) {
                // The last round was cut short, and each turn may begin and end late.
                let rounds = ms(999) / ms(9).div_ceil(2);
                let off = ns.abs_diff(rounds * length);
                expect(kernel, off <= length + us(50), &format!("off by {off} ns: {books:?}"));
            }
        })
        .run_for(ms(1_100))
        .pass();
}

#[test]
fn neighbours_of_one_policy_are_no_change() {
    loaded("one change in two turns", "vtime", 2)
        .at(ms(1), |kernel| {
            let turns = [("vtime", ms(1)), ("vtime", ms(2)), ("fifo", ms(1)), ("fifo", ms(1))];
            start_turns(kernel, &turns);
            let made = lanes(kernel).len();
            expect(kernel, made == 2, "a policy has more than one lane");
        })
        .at(ms(502), |kernel| {
            let books = cycle(kernel);
            let changes = books.changes.abs_diff(books.begun / 2);
            expect(kernel, books.begun >= 398 && changes <= 1, &format!("{books:?}"));
        })
        .run_for(ms(510))
        .pass();
}

/// How long anybody waits at turns of a millisecond, three tasks to a CPU: what lies in a
/// lane that rests has its share of each millisecond, and a slice ends at a change.
const LONGEST_WAIT: u64 = ms(12);

#[test]
fn nobody_waits_long_at_turns_of_a_millisecond() {
    for cpus in 1..=8 {
        for first in 0..rotating().len() {
            let turns: Vec<_> = (0..rotating().len())
                .map(|i| (rotating()[(first + i) % rotating().len()], ms(1)))
                .collect();
            let outcome = loaded(&format!("turns of 1 ms on {cpus} CPUs"), turns[0].0, cpus)
                .at(0, move |kernel| start_turns(kernel, &turns))
                .waits_at_most(LONGEST_WAIT)
                .run_for(ms(1_000))
                .pass();
            for (name, figures) in outcome.all() {
                assert!(figures.ran_ns > ms(100), "{name} ran for {} us", figures.ran_ns / 1_000);
            }
        }
    }
}

#[test]
fn hogs_share_alike_whichever_lanes_they_stand_in() {
    for (cpus, tasks) in [(1, 3), (1, 10), (2, 5), (4, 13), (8, 20)] {
        for turn in [us(300), ms(1)] {
            let outcome = scenario(format!("{tasks} hogs, turns of {turn} ns"), "fifo")
                .cpus(cpus)
                .tasks(tasks, |i| TaskSpec::hog(format!("hog {i}")))
                .at(0, move |kernel| start_turns(kernel, &[("fifo", turn), ("vtime", turn)]))
                .run_for(ms(2_000))
                .pass();
            let fair = ms(2_000) * cpus as u64 / tasks as u64;
            for (name, figures) in outcome.all() {
                let share = figures.ran_ns as f64 / fair as f64;
                assert!((share - 1.0).abs() < 0.1, "{name} of {tasks} on {cpus}: {share:.2}");
            }
        }
    }
}

#[test]
fn a_long_turn_takes_effect_at_once() {
    let mut run = loaded("first runs", "fifo", 4)
        .at(0, |kernel| start_turns(kernel, &[("fifo", ms(100)), ("vtime", ms(100))]));
    for turn in 1..10 {
        // Each may have begun 50 us late, and interrupts take some more.
        run = run.at(ms(100 * turn) + us(100), |kernel| {
            let root = lanes(kernel).into_iter().find(|l| l.is_root());
            expect(kernel, root.is_some_and(|l| l.first_run_ns > 0), "no first run");
        });
    }
    run.run_for(ms(1_000)).pass();
}

#[test]
fn a_cycle_that_is_stopped_frees_its_lanes() {
    loaded("stopped", "fifo", 2)
        .at(ms(10), |kernel| start_turns(kernel, &[("fifo", ms(1)), ("vtime", ms(1))]))
        .at(ms(200), |kernel| {
            reap(kernel);
            let left = lanes(kernel).len();
            expect(kernel, left == 2, "a lane of the cycle was freed");
            stop_turns(kernel);
        })
        .at(ms(400), one_lane_alone)
        .run_for(ms(500))
        .pass();
}

#[test]
fn a_cycle_that_is_replaced_frees_its_lanes() {
    loaded("replaced", "fifo", 2)
        .at(ms(10), |kernel| start_turns(kernel, &[("fifo", ms(1)), ("vtime", ms(2))]))
        .at(ms(100), |kernel| start_turns(kernel, &[("vtime", us(700)), ("fifo", us(300))]))
        .at(ms(200), |kernel| {
            replace_root(kernel, "vtime");
            let turns = cycle(kernel).turns;
            expect(kernel, turns == 0, "turns go on under a lane that replaced theirs");
        })
        .at(ms(201), |kernel| start_turns(kernel, &[("fifo", ms(1))]))
        .at(ms(300), |kernel| replace_root(kernel, "fifo"))
        .at(ms(600), one_lane_alone)
        .run_for(ms(700))
        .pass();
}

#[test]
fn through_a_long_turn_one_lane_is_in_force_alone() {
    loaded("long turns", "fifo", 2)
        .at(ms(1), |kernel| start_turns(kernel, &[("fifo", ms(200)), ("vtime", ms(200))]))
        .at(ms(300), |kernel| {
            // What user space does from 5 ms after the change on.
            reap(kernel);
            reap(kernel);
            let resting = lanes(kernel).into_iter().find(|l| l.state == LaneState::Resting);
            expect(kernel, resting.is_some(), "the lane of the other turn is gone");
            let word = root_word(kernel);
            expect(kernel, word & 1 << 9 == 0, &format!("tasks are tracked: {word:#x}"));
        })
        .at(ms(410), |kernel| {
            let policy = lanes(kernel).into_iter().find(|l| l.is_root());
            expect(kernel, policy.is_some_and(|l| l.policy == 0), "it is not fifo's turn again");
            let word = root_word(kernel);
            expect(kernel, word & 1 << 9 != 0, &format!("tasks are not tracked: {word:#x}"));
        })
        .at(ms(500), |kernel| {
            reap(kernel);
            reap(kernel);
            stop_turns(kernel);
            one_lane_alone(kernel);
        })
        .waits_at_most(ms(120))
        .run_for(ms(600))
        .pass();
}

#[test]
fn only_the_roots_share_goes_round() {
    for turn in [ms(1), ms(10), ms(100)] {
        let run = scenario("turns beside an application's lane", "fifo").cpus(2);
        let outcome = hogs(hogs(run, 4, "a"), 6, "")
            .at(ms(1), move |kernel| {
                set_app(kernel, 1, "fifo", 100);
                assign(kernel, "a", 1);
                start_turns(kernel, &[("fifo", turn), ("vtime", turn)]);
            })
            .run_for(ms(2_000))
            .pass();
        near(&outcome, "a", 0.5, 0.02);
    }
}

#[test]
fn a_sleeper_on_a_lane_of_its_own_is_not_disturbed_by_turns() {
    let outcome = hogs(scenario("sleeper beside turns", "fifo").cpus(2), 6, "")
        .task(
            TaskSpec::named("service")
                .in_cgroup("service")
                .run(between(us(50), us(200)))
                .sleep(between(ms(2), ms(8)))
                .for_ever(),
        )
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "service", 1);
            start_turns(kernel, &[("fifo", ms(1)), ("vtime", ms(1))]);
        })
        .run_for(ms(4_000))
        .pass();
    let service = outcome.task("service");
    let mean = service.waited_ns / service.waits.max(1);
    assert!(mean < us(100), "it waits {} us in the mean", mean / 1_000);
    assert!(service.longest_wait_ns < ms(7), "{} us", service.longest_wait_ns / 1_000);
}
