use super::*;
use crate::candidate::EEVDF;
use crate::fake::FakeMachine;

fn turn(candidate: Candidate, app: &str, slice_ms: u64) -> Turn {
    Turn { candidate, slice: Duration::from_millis(slice_ms), app: app.to_owned() }
}

/// Runs the turns; gives the schedulers in their order, and the summary.
fn run(
    machine: &FakeMachine,
    turns: &[Turn],
    mechanism: Mechanism,
    until_ms: u64,
) -> Result<(Vec<TurnEvent>, TurnsSummary)> {
    let mut switcher = Switcher::new(machine.options())?;
    let mut events = Vec::new();
    let summary = take_turns(
        &mut switcher,
        turns,
        mechanism,
        Some(Duration::from_millis(until_ms)),
        &Interrupt::default(),
        &mut |event| events.push(event.clone()),
    )?;
    Ok((events, summary))
}

#[test]
fn lanes_take_turns_in_order_and_in_proportion() {
    let machine = FakeMachine::new();
    let turns = [
        turn(FakeMachine::policy("fifo"), "front", 150),
        turn(FakeMachine::policy("vtime"), "back", 50),
    ];
    let (events, summary) = run(&machine, &turns, Mechanism::Lane, 1000).unwrap();
    let order: Vec<&str> = events.iter().map(|e| e.scheduler.as_str()).collect();
    for pair in order.chunks(2).filter(|pair| pair.len() == 2) {
        assert_eq!(pair, ["fifo", "vtime"]);
    }
    assert!(order.len() >= 4, "{order:?}");
    assert_eq!(events.len() as u64, summary.turns);
    assert_eq!(summary.switches, summary.turns - 1, "the start is told apart");
    assert_eq!(summary.start_ns, events[0].switch.total_ns);
    // One after the other by their lengths; the last turn is cut by the end.
    for (event, next) in events.iter().zip(&events[1..]) {
        assert_eq!(next.at_ns - event.at_ns, event.slice_ns, "{event:?}");
        assert_eq!((&next.switch.from, &next.switch.to), (&event.scheduler, &next.scheduler));
    }
    assert!(summary.elapsed_ns >= 1_000_000_000);
    let in_force: u64 = summary.in_force_ns.values().sum();
    assert!((980_000_000..=summary.elapsed_ns).contains(&in_force), "{summary:?}");
    assert!(summary.switching_share() < 1.0);
    assert!(summary.lateness.is_some());
    let log = &machine.program.lock().unwrap().log;
    assert_eq!(log[..2], ["load fifo", "2 turns"]);
    assert!(log[2].starts_with("no turns"), "{log:?}");
}

#[test]
fn of_short_turns_one_a_second_is_told_of() {
    let machine = FakeMachine::new();
    let turns =
        [turn(FakeMachine::policy("fifo"), "a", 1), turn(FakeMachine::policy("vtime"), "b", 1)];
    let (events, summary) = run(&machine, &turns, Mechanism::Lane, 2_500).unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert!(numbers.len() <= 4, "{numbers:?}");
    assert_eq!(numbers[0], 0);
    assert!(numbers[1] >= 1_000 && numbers.is_sorted(), "{numbers:?}");
    // One each millisecond since the first one began, however long its policy took to load.
    let in_force: u64 = summary.in_force_ns.values().sum();
    assert_eq!(summary.turns, in_force / 1_000_000 + 1, "{summary:?}");
    assert!(summary.turns > 2_000 && in_force <= summary.elapsed_ns, "{summary:?}");
    let shares: Vec<u64> = summary.in_force_ns.values().copied().collect();
    assert!(shares[0].abs_diff(shares[1]) <= 1_000_000, "{summary:?}");
}

#[test]
fn what_the_kernel_cannot_take_turns_of_is_refused_before_anything_is_done() {
    let machine = FakeMachine::new();
    let mut short = turn(FakeMachine::policy("fifo"), "a", 1);
    short.slice = Duration::from_micros(99);
    let many = vec![turn(FakeMachine::policy("fifo"), "a", 10); 17];
    for turns in [&[short][..], &many] {
        let e = run(&machine, turns, Mechanism::Lane, 100).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput, "{e}");
    }
    assert!(machine.program.lock().unwrap().log.is_empty());
}

#[test]
fn one_scheduler_for_all_is_a_cycle_without_changes() {
    let machine = FakeMachine::new();
    let fifo = FakeMachine::policy("fifo");
    let turns = [turn(fifo.clone(), "front", 20), turn(fifo, "back", 20)];
    let (events, summary) = run(&machine, &turns, Mechanism::Swap, 150).unwrap();
    assert!(summary.turns >= 3, "{summary:?}");
    assert_eq!((summary.switches, summary.switching_ns), (0, 0), "only the start loads it");
    assert_eq!(summary.start_ns, events[0].switch.total_ns);
    assert!(events[1..].iter().all(|event| !event.switch.is_change()));
}

#[test]
fn the_default_scheduler_can_have_a_turn() {
    let machine = FakeMachine::new();
    let turns = [turn(machine.good("scx_a"), "front", 50), turn(Candidate::eevdf(""), "back", 50)];
    let (events, summary) = run(&machine, &turns, Mechanism::Swap, 600).unwrap();
    assert_eq!(events[0].scheduler, "scx_a");
    assert_eq!(events[1].scheduler, EEVDF);
    assert!(events[1].switch.stop_ns.is_some());
    assert!(summary.in_force_ns[EEVDF] >= 50_000_000, "{summary:?}");
    assert_eq!(machine.state(), "disabled");
}

#[test]
fn lanes_for_other_peoples_schedulers_are_refused_before_anything_is_done() {
    let machine = FakeMachine::new();
    let turns =
        [turn(FakeMachine::policy("fifo"), "front", 20), turn(machine.good("scx_a"), "b", 20)];
    let e = run(&machine, &turns, Mechanism::Lane, 100).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.to_string().contains("'b' prefers 'scx_a'"), "{e}");
    assert!(machine.program.lock().unwrap().log.is_empty());
}

#[test]
fn an_application_of_weight_zero_has_no_turn_and_nobody_at_all_is_an_error() {
    let machine = FakeMachine::new();
    let turns =
        [turn(FakeMachine::policy("fifo"), "a", 0), turn(FakeMachine::policy("vtime"), "b", 10)];
    let (events, _) = run(&machine, &turns, Mechanism::Lane, 50).unwrap();
    assert!(events.iter().all(|event| event.app == "b"));
    let e = run(&machine, &turns[..1], Mechanism::Lane, 50).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
}

#[test]
fn a_candidate_that_dies_in_its_turn_ends_the_cycle() {
    let machine = FakeMachine::new();
    let short = machine.scheduler(
        "scx_short",
        "trap 'off; exit 0' INT TERM\n(sleep 0.3; kill -9 $$) &",
        "",
    );
    let e = run(&machine, &[turn(short, "a", 20_000)], Mechanism::Swap, 60_000).unwrap_err();
    assert_eq!(e.kind, Kind::SchedulerExit);
    assert_eq!(machine.state(), "disabled");
}

#[test]
fn a_raised_interrupt_ends_the_turn_at_once() {
    let machine = FakeMachine::new();
    let mut switcher = Switcher::new(machine.options()).unwrap();
    let interrupt = Interrupt::default();
    let raise = interrupt.clone();
    let summary = take_turns(
        &mut switcher,
        &[turn(FakeMachine::policy("fifo"), "a", 3_600_000)],
        Mechanism::Lane,
        None,
        &interrupt,
        &mut |_| raise.raise(),
    )
    .unwrap();
    assert!(summary.interrupted);
    assert_eq!(summary.turns, 1);
    switcher.restore().unwrap();
    assert_eq!(machine.state(), "disabled");
}
