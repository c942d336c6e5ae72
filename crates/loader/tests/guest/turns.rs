//! Turns by the timer on a real kernel: their lengths, what they cost, and that nobody is
//! lost by them.

use std::time::Duration;

use crate::load::{Hog, Load};
use crate::support::{Group, assert_alive, load, settles, wait_until};
use metasched_host::process::run_first;
use metasched_loader::{LaneSpec, LaneState, LaneTurn, Program, TurnFigures};

fn turns(of: &[(&str, u64)]) -> Vec<LaneTurn> {
    let turn = |(policy, us): &(&str, u64)| LaneTurn {
        policy: (*policy).to_owned(),
        length: Duration::from_micros(*us),
    };
    of.iter().map(turn).collect()
}

/// Prints what turns cost and how late they began.
fn print(what: &str, figures: &TurnFigures) {
    let mean_us = |sum_ns: u64, n: u64| sum_ns as f64 / n.max(1) as f64 / 1e3;
    println!(
        "{what}: {} turns, {} changes of {:.1} us; late by {:.1} us in the mean, {:.1} us at most",
        figures.begun,
        figures.changes,
        mean_us(figures.changing_ns, figures.changes),
        mean_us(figures.late_sum_ns, figures.begun),
        figures.late_max_ns as f64 / 1e3
    );
}

/// Each turn was in force for its length, round for round, but for what it and the one after
/// it began late. That is milliseconds where a guest's CPUs are emulated in turn, and its
/// host has other things to do; natively it is microseconds.
fn in_force_by_lengths(figures: &TurnFigures, turns: &[LaneTurn]) {
    let whole: u64 = figures.in_force_ns.iter().sum();
    let rounds = figures.begun / turns.len() as u64;
    for (turn, ns) in turns.iter().zip(&figures.in_force_ns) {
        let length_ns = turn.length.as_nanos() as u64;
        let share = *ns as f64 / whole as f64;
        println!("  {} for {:?}: {share:.3} of the time", turn.policy, turn.length);
        // The last round was cut short.
        let tolerance = 2 * figures.late_sum_ns + length_ns;
        assert!(ns.abs_diff(rounds * length_ns) <= tolerance, "{figures:?}");
    }
}

/// Everything is as it was with one lane, under a load that goes on.
fn one_lane_alone(program: &Program) {
    wait_until("one lane alone", || program.lanes().unwrap().len() == 1);
    assert_alive(program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn turns_of_a_millisecond_hold_their_lengths_and_lose_nobody() {
    run_first(1).unwrap();
    let mut program = load("fifo");
    let hackbench = Load::endless_hackbench(2);
    let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[], 0)).collect();
    std::thread::sleep(Duration::from_millis(500));
    for cycle in [
        turns(&[("fifo", 1_000), ("vtime", 1_000)]),
        turns(&[("vtime", 30_000), ("fifo", 10_000), ("vtime", 20_000)]),
    ] {
        let before = program.counters().unwrap();
        let ran: Vec<Duration> = hogs.iter().map(Hog::ran).collect();
        program.start_turns(&cycle).unwrap();
        std::thread::sleep(Duration::from_secs(5));
        let lanes = program.lanes().unwrap();
        let roots = lanes.iter().filter(|l| l.is_root()).count();
        let resting = lanes.iter().filter(|l| l.state == LaneState::Resting).count();
        // Another one may drain: the first cycle's went with it.
        assert!(roots == 1 && resting == 1, "{lanes:?}");
        assert_alive(&program);
        let figures = program.stop_turns().unwrap();
        print("under hackbench", &figures);
        assert!(figures.begun > 100, "{figures:?}");
        in_force_by_lengths(&figures, &cycle);
        for (hog, before) in hogs.iter().zip(ran) {
            let ran = hog.ran() - before;
            assert!(ran > Duration::from_millis(20), "a hog ran for only {ran:?} of 5 s");
        }
        let after = program.counters().unwrap();
        for counter in ["fifo.queued", "vtime.queued"] {
            let queued = after[counter] - before.get(counter).unwrap_or(&0);
            assert!(queued > 100, "{counter}: {queued}");
        }
        one_lane_alone(&program);
    }
    hackbench.assert_running();
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn turns_go_through_the_roots_share_beside_lanes_of_applications() {
    // With a hog less per lane a CPU could be left to one of them.
    const HOGS: usize = 3;
    run_first(1).unwrap();
    let mut program = load("vtime");
    let group = Group::new("metasched-beside-turns");
    let start = || -> Vec<Hog> { (0..HOGS).map(|_| Hog::start(&[], 0)).collect() };
    let (own, rest) = (start(), start());
    own.iter().for_each(|hog| group.take(hog));
    program.set_app(1, &LaneSpec::of("fifo"), 100).unwrap();
    program.assign(group.id(), 1).unwrap();
    let ran = |hogs: &[Hog]| hogs.iter().map(|hog| hog.ran().as_secs_f64()).sum::<f64>();
    for cycle in [
        turns(&[("vtime", 100_000), ("fifo", 100_000)]),
        turns(&[("fifo", 1_000), ("vtime", 1_000)]),
    ] {
        program.start_turns(&cycle).unwrap();
        let before = (ran(&own), ran(&rest));
        let mut ratio = 0.0;
        // As in lanes.rs: what a stalled host puts off is made up for later.
        settles("shares 1 : 1 beside turns", Duration::ZERO, || {
            for _ in 0..40 {
                std::thread::sleep(Duration::from_millis(50));
                program.look_at_turns();
            }
            ratio = (ran(&own) - before.0) / (ran(&rest) - before.1);
            println!("application : all others = {ratio:.2}");
            (ratio - 1.0).abs() < 0.1
        });
        assert_alive(&program);
        let figures = program.stop_turns().unwrap();
        print("beside an application's lane", &figures);
        in_force_by_lengths(&figures, &cycle);
    }
    program.unassign(group.id()).unwrap();
    program.drop_app(1).unwrap();
    one_lane_alone(&program);
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_lane_that_rests_through_a_long_turn_is_put_aside_and_comes_back() {
    run_first(1).unwrap();
    let mut program = load("fifo");
    let hackbench = Load::endless_hackbench(2);
    program.start_turns(&turns(&[("fifo", 500_000), ("vtime", 500_000)])).unwrap();
    // While one lane is alone nothing is charged; a lane that is put aside is what that takes.
    let charged =
        |program: &Program| program.lanes().unwrap().iter().map(|l| l.runtime_ns).sum::<u64>();
    let mut alone = 0;
    for _ in 0..60 {
        std::thread::sleep(Duration::from_millis(50));
        program.look_at_turns();
        let before = charged(&program);
        std::thread::sleep(Duration::from_millis(5));
        alone += u32::from(charged(&program) == before);
        assert_eq!(program.lanes().unwrap().len(), 2);
    }
    println!("one lane was alone at {alone} of 60 looks");
    assert!(alone >= 5, "a lane alone pays for what it shares with nobody");
    let figures = program.stop_turns().unwrap();
    print("under hackbench", &figures);
    assert!(figures.changes >= 5, "{figures:?}");
    one_lane_alone(&program);
    hackbench.assert_running();
    program.unload().unwrap();
}
