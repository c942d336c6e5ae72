//! A policy with a half in user space, rustland: what that half decides is followed;
//! late, dead, restarted or wrong it hurts nobody.

use crate::lanes::{hogs, near};
use crate::level1::expect;
use metasched_abi::{Account, DecisionResult, UNDECIDED_NS, USER_PATIENCE, UserDecision, UserLane};
use metasched_sim::fuzz::{self, Act};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    LAZY, RUSTLAND, assign, delay_user_half, drop_app, faulty_scenario, lanes, program,
    quarantined, reap, replace_root, scenario, scenario_of, set_app, set_option, start_turns,
    start_user_half, stop_user_half, unassign, user_decide, user_lane, user_messages,
};
use metasched_sim::{
    Costs, Machine, Scenario, TaskSpec, between, exactly, image, ms, options, seeds, us,
};
use metasched_userhalf::{Decision, Halves, Task, UserHalf, half_of};
use std::sync::Arc;

fn rustland() -> Halves {
    Halves::new(|_| half_of(RUSTLAND))
}

/// A half that takes so long for everything.
fn half(run: Scenario, delay_ns: u64) -> Scenario {
    run.at(0, move |kernel| start_user_half(kernel, delay_ns, rustland()))
}

/// So many that sleep most of the time.
fn sleepers(run: Scenario, n: usize, cgroup: &'static str) -> Scenario {
    run.tasks(n, move |i| {
        TaskSpec::named(format!("sleeper {i}"))
            .in_cgroup(cgroup)
            .run(between(us(100), us(900)))
            .sleep(between(ms(1), ms(5)))
            .for_ever()
    })
}

/// What the root's lane has of its half.
fn root_has(kernel: &mut Kernel) -> UserLane {
    let root = lanes(kernel).into_iter().find(|l| l.is_root()).expect("there is always one");
    user_lane(kernel, root.slot)
}

/// A service that sleeps most of the time, and two hogs for each CPU.
fn service_beside_hogs(run: Scenario) -> Scenario {
    let service = TaskSpec::named("service").run(exactly(ms(1))).sleep(between(ms(8), ms(10)));
    run.cpus(2).tasks(4, |i| TaskSpec::hog(format!("hog {i}"))).task(service.for_ever())
}

/// The half alone puts the service before the hogs: without it they would have their slices first.
#[test]
fn nobody_has_to_ask_for_the_half_of_a_run() {
    let outcome = service_beside_hogs(scenario("a whole policy", RUSTLAND))
        .at(ms(2_900), |kernel| {
            let has = root_has(kernel);
            expect(kernel, has.taken > 500, &format!("{has:?}"));
            expect(kernel, has.untold + has.late == 0, &format!("{has:?}"));
        })
        .run_for(ms(3_000))
        .pass();
    let waits = outcome.waits_ns("service");
    let median = waits[waits.len() / 2];
    assert!(median < us(300), "the service waits {median}");
}

#[test]
fn a_half_starts_with_the_first_lane_that_has_one_however_that_comes() {
    let decided = |kernel: &mut Kernel| {
        let of = lanes(kernel).into_iter().map(|lane| user_lane(kernel, lane.slot));
        let taken: u64 = of.collect::<Vec<_>>().iter().map(|has| has.taken).sum();
        expect(kernel, taken > 50, &format!("{taken} decisions"));
    };
    let fifo = || service_beside_hogs(scenario("another policy first", "fifo"));
    let runs = [
        fifo().at(ms(100), |kernel| replace_root(kernel, RUSTLAND)),
        fifo().at(ms(100), |kernel| start_turns(kernel, &[("fifo", ms(4)), (RUSTLAND, ms(20))])),
        hogs(fifo(), 4, "a").at(ms(100), |kernel| {
            set_app(kernel, 1, RUSTLAND, 100);
            assign(kernel, "a", 1);
        }),
        service_beside_hogs(Scenario::eevdf("loaded later"))
            .at(ms(100), |kernel| kernel.load(&program(RUSTLAND))),
    ];
    for run in runs {
        run.traced().at(ms(990), decided).run_for(ms(1_000)).pass();
    }
    let trace = fifo().traced().run_for(ms(100)).pass().trace;
    assert!(!trace.contains("half"), "one started for nobody");
}

/// A machine whose kernel takes time for itself takes more of it for who decides elsewhere.
#[test]
fn a_decision_in_user_space_costs_two_switches() {
    let lost = |half: bool| {
        let costs = Costs { switch_ns: us(2), ..Costs::default() };
        let run = hogs(scenario("what it costs", RUSTLAND), 3, "");
        let run = run.machine(Machine::cpus(1).costs(costs));
        let run = if half { run } else { run.at(0, stop_user_half) };
        let outcome = run.run_for(ms(2_000)).pass();
        outcome.lost_ns / outcome.switches
    };
    let (with, without) = (lost(true), lost(false));
    assert!((us(5)..us(7)).contains(&with), "{with} ns for each switch");
    assert!(without < us(3), "{without} ns for each switch without a half");
}

#[test]
pub(crate) fn what_user_space_decides_is_the_order_in_which_tasks_run() {
    /// The higher number first, always.
    struct Youngest;
    impl UserHalf for Youngest {
        fn decide(&mut self, task: &Task) -> Decision {
            Decision { order: u64::from(u32::MAX - task.pid), slice_ns: ms(1), cpu: None }
        }
    }
    let youngest = || Halves::new(|_| Some(Box::new(Youngest)));
    let outcome = hogs(faulty_scenario("the youngest first", RUSTLAND), 4, "")
        .at(0, move |kernel| start_user_half(kernel, us(50), youngest()))
        .waits_at_most(ms(2_000))
        .run_for(ms(1_000))
        .pass();
    // While the youngest, who ran, is being decided, the next one runs. They stand in the order of
    // their birth.
    let ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    assert!(ran[2].min(ran[3]) > ms(450) && ran[2] + ran[3] > ms(980), "{ran:?}");
}

/// Grants everybody the same, in turn.
struct Grants(u64);

impl UserHalf for Grants {
    fn decide(&mut self, task: &Task) -> Decision {
        Decision { order: task.at_ns, slice_ns: self.0, cpu: None }
    }
}

fn granting(run: Scenario, slice_ns: u64) -> Scenario {
    let halves = move || Halves::new(move |_| Some(Box::new(Grants(slice_ns))));
    run.at(0, move |kernel| start_user_half(kernel, us(50), halves()))
}

#[test]
pub(crate) fn a_slice_is_what_user_space_grants_as_far_as_the_options_let_it() {
    let turns = |granted_ns: u64, least_ns: u64| {
        let least = options::option(RUSTLAND, "slice_min_ns", &least_ns.to_string()).unwrap();
        let run = hogs(faulty_scenario("grants", RUSTLAND), 3, "")
            .machine(Machine::cpus(1).hz(1000).unwrap())
            .at(0, move |kernel| set_option(kernel, 0, least.0, least.1));
        let outcome = granting(run, granted_ns).run_for(ms(1_000)).pass();
        outcome.all().map(|(_, hog)| hog.waits).sum::<u64>()
    };
    let granted = turns(ms(2), us(250));
    assert!((300..=510).contains(&granted), "{granted} turns of 2 ms");
    // 5 ms is the most by default.
    let most = turns(ms(1_000), us(250));
    assert!((150..=210).contains(&most), "{most} turns of the most");
    let least = turns(us(100), ms(4));
    assert!((190..=260).contains(&least), "{least} turns of the least");
}

/// Kernel threads are never left to user space. On one CPU all would be bound, and level 1's.
#[test]
pub(crate) fn who_is_decided_and_who_is_not_have_every_second_choice_each() {
    let run = hogs(faulty_scenario("both", RUSTLAND).cpus(2), 4, "");
    let run = run.tasks(4, |i| TaskSpec::hog(format!("thread {i}")).kthread());
    let outcome = granting(run, ms(5)).run_for(ms(2_000)).pass();
    let of = outcome.all().filter(|(name, _)| name.starts_with("thread"));
    let ran = of.map(|(_, figures)| figures.ran_ns).sum::<u64>();
    assert!(ran.abs_diff(ms(2_000)) < ms(200), "threads ran {ran} of four seconds");
}

#[test]
fn rustland_shares_by_weight_and_favours_who_sleeps() {
    let run = faulty_scenario("rustland", RUSTLAND).cpus(2);
    let run = run.tasks(4, |i| TaskSpec::hog(format!("light {i}")));
    let run = run.tasks(4, |i| TaskSpec::hog(format!("heavy {i}")).weight(300));
    let outcome = half(sleepers(run, 1, ""), us(50))
        .at(ms(3_999), |kernel| {
            let has = root_has(kernel);
            expect(kernel, has.taken > 1_000, &format!("{has:?}"));
            expect(kernel, has.late + has.stale + has.wrong + has.untold == 0, &format!("{has:?}"));
        })
        .run_for(ms(4_000))
        .pass();
    let ran = |name: &str| -> u64 {
        outcome.all().filter(|(who, _)| who.starts_with(name)).map(|(_, f)| f.ran_ns).sum()
    };
    let ratio = ran("heavy") as f64 / ran("light") as f64;
    assert!((2.7..3.3).contains(&ratio), "heavy to light is {ratio:.2}");
    let mean = |name| {
        let waits = outcome.waits_ns(name);
        waits.iter().sum::<u64>() / waits.len() as u64
    };
    let (sleeper, light) = (mean("sleeper"), mean("light"));
    assert!(3 * sleeper < light, "it waits {sleeper} ns in the mean, and they {light}");
}

/// Mostly the hog that runs comes later in the order by enough.
#[test]
pub(crate) fn who_wakes_and_wants_little_does_not_wait_for_a_slice() {
    let service = TaskSpec::named("service").run(exactly(ms(1))).sleep(between(ms(8), ms(10)));
    let outcome = half(faulty_scenario("a service beside hogs", RUSTLAND), us(50))
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(service.for_ever())
        .run_for(ms(4_000))
        .pass();
    let mut waits = outcome.waits_ns("service");
    waits.sort_unstable();
    let median = waits[waits.len() / 2];
    assert!(median < us(300), "the service waits {median}");
}

/// Two tasks that want the one CPU at the same time, and nobody who decides.
pub(crate) fn nobody_decides(image: &'static [u8]) -> Scenario {
    half(scenario_of(image, "nobody decides", RUSTLAND), ms(10_000))
        .tasks(2, |i| {
            TaskSpec::named(format!("task {i}"))
                .arrives(ms(1))
                .run(exactly(us(100)))
                .sleep(exactly(ms(50)))
                .for_ever()
        })
        .run_for(ms(400))
}

#[test]
fn a_task_that_is_not_decided_is_ready_after_its_time_and_no_later() {
    let outcome = nobody_decides(image::faulty()).pass();
    let waits: Vec<u64> = outcome.waits_ns("task");
    // What a timer and an interrupt are late, and the other's run.
    let most = UNDECIDED_NS + us(400);
    // Who waits longer than for the other's run was left to user space.
    let late: Vec<u64> = waits.iter().copied().filter(|ns| *ns > us(500)).collect();
    assert!(!late.is_empty(), "nobody was left to user space: {waits:?}");
    for ns in late {
        assert!((UNDECIDED_NS..most).contains(&ns), "it waited {} us", ns / 1_000);
    }
}

#[test]
fn a_half_that_is_late_delays_nobody_by_more_than_its_time() {
    let run = half(sleepers(hogs(faulty_scenario("late", RUSTLAND).cpus(2), 3, ""), 2, ""), us(50));
    run.at(ms(500), |kernel| delay_user_half(kernel, ms(200)))
        .at(ms(2_900), |kernel| {
            let has = root_has(kernel);
            expect(kernel, has.late > 0 && has.stale > 0, &format!("{has:?}"));
            // Heard of five times a second, and each time given so many tasks, and what was on
            // the way.
            let most = 13 * (u64::from(USER_PATIENCE) + 5);
            expect(kernel, has.late <= most, &format!("{} were late", has.late));
            let quarantines = quarantined(kernel);
            expect(kernel, quarantines == 0, "a quarantine");
        })
        // It was known to be alive: each wait has one such time in it, and what tasks run.
        .waits_at_most(UNDECIDED_NS + ms(5 * 10))
        .run_for(ms(3_000))
        .pass();
}

#[test]
fn a_half_that_dies_is_not_waited_for_any_more_and_one_that_comes_decides_again() {
    let run = sleepers(hogs(faulty_scenario("dead", RUSTLAND).cpus(2), 3, ""), 2, "");
    half(run, us(50))
        .at(ms(500), stop_user_half)
        .at(ms(1_500), |kernel| {
            let has = root_has(kernel);
            let most = u64::from(USER_PATIENCE) + 5;
            expect(kernel, (1..=most).contains(&has.late), &format!("{has:?}"));
            expect(kernel, has.taken < 700, &format!("{has:?}"));
            expect(kernel, has.untold > 300, &format!("{has:?}"));
        })
        // It finds what the dead one has left unread: all of that is stale.
        .at(ms(1_600), |kernel| {
            let before = root_has(kernel);
            start_user_half(kernel, us(50), rustland());
            let left = before.told - before.taken;
            kernel.act_at(
                kernel.now() + ms(1),
                Arc::new(move |kernel: &mut Kernel| {
                    let has = root_has(kernel);
                    expect(kernel, has.stale >= left, &format!("{left} were left, {has:?}"));
                }),
            );
        })
        .at(ms(2_600), |kernel| {
            let has = root_has(kernel);
            expect(kernel, has.taken > 1_000, &format!("{has:?}"));
            expect(kernel, has.late <= u64::from(USER_PATIENCE) + 5, &format!("{has:?}"));
            let quarantines = quarantined(kernel);
            expect(kernel, quarantines == 0, "a quarantine");
        })
        .run_for(ms(2_700))
        .pass();
}

#[test]
fn without_a_half_the_policy_decides_alone_and_nobody_waits_for_one() {
    let run = sleepers(hogs(faulty_scenario("no half", RUSTLAND).cpus(2), 3, ""), 2, "");
    let outcome = run
        .at(ms(900), |kernel| {
            let has = root_has(kernel);
            expect(kernel, has.told == 0 && has.untold > 100, &format!("{has:?}"));
            let told = user_messages(kernel);
            expect(kernel, told.is_empty(), &format!("it was told: {told:?}"));
        })
        .run_for(ms(1_000))
        .pass();
    assert!(outcome.all().all(|(_, f)| f.ran_ns > ms(10)));
}

/// The decision for a task that a message tells of.
fn decision(message: &metasched_abi::UserMessage) -> UserDecision {
    UserDecision {
        what: metasched_abi::LaneDecision { order: 1, slice_ns: ms(1), cpu: -1 },
        lane: message.lane,
        ticket: message.ticket,
        slot: message.slot,
        pid: message.pid,
        ..UserDecision::default()
    }
}

#[test]
fn decisions_that_are_stale_wrong_or_repeated_hurt_nobody_and_are_counted() {
    let run = faulty_scenario("wrong decisions", "fifo").cpus(1);
    let run = hogs(hogs(run, 2, "a"), 2, "b")
        .task(TaskSpec::named("short").in_cgroup("a").arrives(ms(10)).run(exactly(us(100))));
    run.at(0, |kernel| {
        for (app, cgroup) in [(1, "a"), (2, "b")] {
            set_app(kernel, app, RUSTLAND, 100);
            assign(kernel, cgroup, app);
        }
        user_decide(kernel, &mut []);
    })
    .at(ms(13), |kernel| {
        use DecisionResult::{Stale, Taken, Wrong};
        let told = user_messages(kernel);
        let of = |slot: u32| told.iter().rfind(|m| m.slot == slot && m.ticket != 0).cloned();
        let slot = |kernel: &mut Kernel, app| {
            lanes(kernel).iter().find(|l| l.app == app && l.is_apps()).expect("made").slot
        };
        let (a, b) = (slot(kernel, 1), slot(kernel, 2));
        let (in_a, in_b) = (of(a).expect("told of a"), of(b).expect("told of b"));
        let of_a = decision(&in_a);
        let mut wrong = [
            // A task that there never was; no ticket; one that is yet to come.
            UserDecision { pid: 9_999, ..of_a },
            UserDecision { ticket: 0, ..of_a },
            UserDecision { ticket: u64::MAX, ..of_a },
            // A task of the other lane, with this lane's names and with its own.
            UserDecision { pid: in_b.pid, ticket: in_b.ticket, ..of_a },
            UserDecision { lane: in_b.lane, slot: in_b.slot, ..of_a },
            // Lanes that there are not, and one whose policy has no such half.
            UserDecision { lane: 77, ..of_a },
            UserDecision { slot: u32::MAX, ..of_a },
            UserDecision { slot: 0, lane: 1, ..of_a },
        ];
        let said = user_decide(kernel, &mut wrong);
        let want = [Stale, Stale, Stale, Wrong, Wrong, Wrong, Wrong, Wrong];
        expect(kernel, said == want, &format!("{said:?}"));
        // Taken once, with numbers that no machine has; and never again.
        let what = metasched_abi::LaneDecision { order: u64::MAX, slice_ns: 0, cpu: i64::MAX };
        let said = user_decide(kernel, &mut [UserDecision { what, ..of_a }, of_a, of_a]);
        expect(kernel, said == [Taken, Stale, Stale], &format!("{said:?}"));
        let (has_a, has_b) = (user_lane(kernel, a), user_lane(kernel, b));
        let counted = (has_a.taken, has_a.stale, has_a.wrong, has_b.wrong);
        expect(kernel, counted == (1, 5, 1, 1), &format!("{counted:?}"));
    })
    .at(ms(300), |kernel| {
        let told = user_messages(kernel);
        // Who has ended was told of as gone, and is no task any more.
        let short = kernel.task_named("short");
        let gone = told.iter().find(|m| m.ticket == 0);
        expect(kernel, gone.is_some(), &format!("{short:?} ended and nobody was told"));
        if let Some(gone) = gone.cloned() {
            let said = user_decide(kernel, &mut [UserDecision { ticket: 1, ..decision(&gone) }]);
            expect(kernel, said == [DecisionResult::Stale], &format!("{said:?}"));
        }
    })
    .run_for(ms(1_000))
    .pass();
}

/// A lane is replaced while most of its tasks are undecided.
pub(crate) fn drains(image: &'static [u8]) -> Scenario {
    half(hogs(scenario_of(image, "drains", RUSTLAND).cpus(2), 8, ""), ms(10_000))
        .at(ms(21), |kernel| {
            user_decide(kernel, &mut []);
        })
        .at(ms(25), |kernel| {
            let undecided = root_has(kernel);
            expect(kernel, undecided.told > undecided.late, &format!("{undecided:?}"));
            replace_root(kernel, "fifo");
            // Nobody's time had to be over for that.
            let then = Arc::new(move |kernel: &mut Kernel| {
                let drained = user_lane(kernel, 0);
                expect(kernel, drained == undecided, &format!("{undecided:?}: {drained:?}"));
            });
            kernel.act_at(ms(90), then);
        })
        .at(ms(100), |kernel| {
            for _ in 0..3 {
                reap(kernel);
            }
            let left = lanes(kernel).len();
            expect(kernel, left == 1, &format!("{left} lanes are left"));
        })
        .run_for(ms(300))
}

#[test]
fn a_lane_is_emptied_of_undecided_tasks_when_it_is_replaced() {
    drains(image::faulty()).pass();
}

#[test]
fn several_lanes_have_halves_and_their_shares() {
    let run = faulty_scenario("several halves", RUSTLAND).cpus(2);
    let run = hogs(hogs(hogs(run, 4, "a"), 4, "b"), 4, "");
    let outcome = half(run, us(50))
        .at(0, |kernel| {
            for (app, cgroup, weight) in [(1, "a", 100), (2, "b", 200)] {
                set_app(kernel, app, RUSTLAND, weight);
                assign(kernel, cgroup, app);
            }
        })
        .lane_shares(0.1)
        .run_for(ms(4_100))
        .pass();
    for (name, share) in [("a", 0.25), ("b", 0.5)] {
        near(&outcome, name, share, 0.02);
    }
}

/// Its tasks come to it one by one, and each change of lanes finds some undecided.
#[test]
fn tasks_go_between_lanes_with_halves_and_none_is_lost() {
    for delay_ns in [us(30), ms(2), ms(200)] {
        let run = faulty_scenario(format!("changes, {delay_ns} ns"), RUSTLAND).cpus(3);
        let mut run = half(sleepers(hogs(run, 4, "a"), 4, "a"), delay_ns);
        for round in 0..20 {
            let at = ms(20) + round * ms(40);
            run = run
                .at(at, |kernel| {
                    set_app(kernel, 1, RUSTLAND, 100);
                    assign(kernel, "a", 1);
                })
                .at(at + ms(13), |kernel| {
                    replace_root(kernel, RUSTLAND);
                    set_app(kernel, 1, RUSTLAND, 100);
                })
                .at(at + ms(26), |kernel| {
                    unassign(kernel, "a");
                    drop_app(kernel, 1);
                    reap(kernel);
                });
        }
        run.waits_at_most(ms(200)).run_for(ms(1_000)).pass();
    }
}

/// A lane lags that has hardly any tasks but undecided ones, beside one of hogs.
pub(crate) fn undecided_beside_hogs(image: &'static [u8]) -> Scenario {
    const TASKS: usize = 3;
    hogs(scenario_of(image, "not ready", "fifo"), 2, "b")
        .tasks(TASKS, |i| {
            TaskSpec::named(format!("undecided {i}"))
                .in_cgroup("a")
                .arrives(ms(20))
                .run(exactly(us(10)))
                .sleep(exactly(us(10)))
                .for_ever()
        })
        .at(0, |kernel| {
            for (app, cgroup, policy) in [(1, "a", RUSTLAND), (2, "b", "fifo")] {
                set_app(kernel, app, policy, 100);
                assign(kernel, cgroup, app);
            }
        })
        .at(ms(10), |kernel| every_ms(kernel, 390))
        .at(ms(400), |kernel| {
            let accounts = kernel.image().required("accounts").unwrap().cast::<Account>();
            // SAFETY: the program has ACCOUNTS_MAX of them, and no callback runs now.
            let kicks = unsafe { (*accounts.add(1)).kicks };
            // Once for each that is ready, every 5 ms.
            let most = 380 / 5 * TASKS as u64;
            expect(kernel, kicks > 0 && kicks <= most, &format!("{kicks} kicks"));
        })
        .run_for(ms(410))
}

/// Somebody is there, again and again, and decides nothing.
fn every_ms(kernel: &mut Kernel, left: u64) {
    user_decide(kernel, &mut []);
    user_messages(kernel);
    if left > 0 {
        let then = Arc::new(move |kernel: &mut Kernel| every_ms(kernel, left - 1));
        kernel.act_at(kernel.now() + ms(1), then);
    }
}

#[test]
fn a_task_that_is_not_ready_takes_no_cpu_away() {
    undecided_beside_hogs(image::faulty()).pass();
}

/// Random runs: a minute of them.
const SEEDS: u64 = 8;

/// Every second lane has a half in user space, which is quick or slow, dies and comes again.
#[test]
fn random_runs_keep_their_promises_with_halves_that_come_and_go() {
    for seed in seeds(SEEDS) {
        let mut case = fuzz::generate(seed);
        let mut lane = seed;
        let mut choose = |policy: &mut String| {
            lane += 1;
            if policy != LAZY && lane % 2 == 0 {
                *policy = RUSTLAND.to_owned();
            }
        };
        choose(&mut case.root);
        for timed in &mut case.acts {
            match &mut timed.act {
                Act::SetApp { policy, options, .. } => {
                    choose(policy);
                    options.clear();
                }
                Act::ReplaceRoot { policy } => choose(policy),
                Act::StartTurns { turns } => turns.iter_mut().for_each(|(p, _)| choose(p)),
                _ => {}
            }
        }
        let delay_ns = [us(20), us(900), ms(4), ms(40)][seed as usize % 4];
        let part_ns = case.calm_ns / 4;
        half(fuzz::scenario(&case), delay_ns)
            .at(part_ns, stop_user_half)
            .at(2 * part_ns, |kernel| start_user_half(kernel, us(50), rustland()))
            .at(3 * part_ns, move |kernel| delay_user_half(kernel, delay_ns))
            .replayed_by(format!("seed {seed}, in {}", module_path!()))
            .pass();
    }
}

/// The lower number first, always: all but two would wait for ever.
#[test]
pub(crate) fn whom_user_space_puts_last_for_ever_runs_every_few_seconds() {
    struct Eldest;
    impl UserHalf for Eldest {
        fn decide(&mut self, task: &Task) -> Decision {
            Decision { order: task.pid.into(), slice_ns: ms(1), cpu: None }
        }
    }
    hogs(faulty_scenario("the eldest first", RUSTLAND), 8, "")
        .at(0, |kernel| start_user_half(kernel, us(50), Halves::new(|_| Some(Box::new(Eldest)))))
        .waits_at_most(ms(8_000))
        .run_for(ms(30_000))
        .pass();
}
