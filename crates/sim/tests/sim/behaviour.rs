//! What tasks do together: nothing is lost, nobody has what another one has, and all are
//! let go who waited. Under every policy, since each has its own order of wake-ups.

use metasched_scenario::requests::{Arrivals, Process};
use metasched_sim::metasched::POLICIES;
use metasched_sim::step::Step;
use metasched_sim::{Outcome, Scenario, Span, TaskSpec, between, exactly, ms, policy, us};

fn under_each_policy(check: impl Fn(&str)) {
    POLICIES.iter().for_each(|policy| check(policy));
}

fn end(outcome: &Outcome, name: &str) -> u64 {
    let end = outcome.task(name).exited_ns;
    end.unwrap_or_else(|| panic!("'{name}' has not exited"))
}

fn fails(scenario: Scenario, check: &str, said: &str) {
    let Err(failure) = scenario.run() else { panic!("it passes") };
    assert_eq!(failure.check, check);
    assert!(failure.message.contains(said), "{}", failure.message);
}

#[test]
fn a_pipe_loses_nothing_and_doubles_nothing() {
    under_each_policy(|name| {
        // Three writers of 100 messages, two readers of 150: only if nothing is lost do all
        // of them end, and only if nothing is doubled does another reader not.
        let outcome = policy("a pipe", name)
            .cpus(2)
            .pipe("p", 4)
            .tasks(3, |i| {
                TaskSpec::named(format!("writer {i}"))
                    .run(between(us(5), us(200)))
                    .step(Step::Write("p".into(), 5))
                    .rounds(20)
            })
            .tasks(2, |i| {
                TaskSpec::named(format!("reader {i}"))
                    .step(Step::Read("p".into(), 3))
                    .run(between(us(5), us(200)))
                    .step(Step::Done(3))
                    .rounds(50)
            })
            .task(TaskSpec::named("late").arrives(ms(400)).step(Step::Read("p".into(), 1)))
            .pass();
        for task in ["writer 0", "writer 1", "writer 2", "reader 0", "reader 1"] {
            assert!(end(&outcome, task) < ms(400), "{name}: '{task}' is late");
        }
        assert_eq!(outcome.done("reader 0") + outcome.done("reader 1"), 300);
        assert!(outcome.task("late").exited_ns.is_none(), "{name}: a message too many");
    });
}

#[test]
fn a_full_pipe_holds_its_writer_back() {
    let outcome = policy("a slow reader", "fifo")
        .cpus(2)
        .pipe("p", 2)
        .task(TaskSpec::named("writer").step(Step::Write("p".into(), 1)).rounds(10))
        .task(
            TaskSpec::named("reader")
                .sleep(exactly(ms(10)))
                .step(Step::Read("p".into(), 1))
                .rounds(10),
        )
        .pass();
    // The reader takes the eighth at 80 ms, which makes room for the last one.
    let end = end(&outcome, "writer");
    assert!((ms(80)..ms(81)).contains(&end), "the writer ends at {end} ns");
}

/// Tasks that take turns with a lock, and what they do with it takes 80 ms together.
fn contended(name: &str, cpus: usize) -> Scenario {
    policy("a contended lock", name).cpus(cpus).lock("m").tasks(4, |i| {
        TaskSpec::named(format!("locker {i}"))
            .step(Step::Lock("m".into()))
            .run(exactly(ms(1)))
            .step(Step::Unlock("m".into()))
            .rounds(20)
    })
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    under_each_policy(|name| {
        let outcome = contended(name, 4).pass();
        let last = outcome.all().filter_map(|(_, f)| f.exited_ns).max().unwrap_or(0);
        // Four CPUs would need 20 ms without it.
        assert!((ms(80)..ms(90)).contains(&last), "{name}: the last ends at {last} ns");
        assert_eq!(outcome.all().filter(|(_, f)| f.exited_ns.is_some()).count(), 4, "{name}");
    });
}

#[test]
fn a_mutex_that_is_not_held_cannot_be_given_back_or_kept_for_ever() {
    let lock = || Step::Lock("m".into());
    let run = |task: TaskSpec| policy("a wrong lock", "fifo").lock("m").task(task);
    let task = || TaskSpec::named("careless");
    fails(run(task().step(Step::Unlock("m".into()))), "scenario", "does not have it");
    fails(run(task().step(lock()).step(lock())), "scenario", "has it already");
    fails(run(task().step(lock())), "scenario", "has not given back");
    fails(run(task().step(Step::Lock("n".into()))), "scenario", "'n', which the scenario does not");
}

/// Four tasks of 1, 2, 3 and 4 ms a round, and a barrier after each of 10 rounds.
fn parallel(name: &str, cpus: usize, spin_ns: u64) -> Scenario {
    policy("a parallel program", name).cpus(cpus).barrier("b", 4, spin_ns).tasks(4, |i| {
        TaskSpec::named(format!("worker {i}"))
            .run(exactly(ms(1 + i as u64)))
            .step(Step::Barrier("b".into()))
            .step(Step::Done(1))
            .rounds(10)
    })
}

#[test]
fn a_barrier_lets_all_go_when_the_last_has_come() {
    under_each_policy(|name| {
        for (spin_ns, ran) in [(0, ms(10)), (ms(1), ms(20)), (u64::MAX, ms(40))] {
            let outcome = parallel(name, 4, spin_ns).pass();
            for i in 0..4 {
                let end = end(&outcome, &format!("worker {i}"));
                assert!((ms(40)..ms(41)).contains(&end), "{name}: worker {i} ends at {end} ns");
            }
            // The quickest spins for 3 ms a round if it may, and for 1 ms if it must then block.
            let got = outcome.task("worker 0").ran_ns;
            assert!((ran..ran + ms(1)).contains(&got), "{name}: {got} ns with spin {spin_ns}");
            assert_eq!(outcome.done("worker 0"), 10);
        }
    });
}

#[test]
fn a_spinner_burns_its_cpu_and_the_run_still_ends() {
    under_each_policy(|name| {
        let outcome = policy("nobody else comes", name)
            .barrier("b", 2, u64::MAX)
            .task(TaskSpec::named("spinner").step(Step::Barrier("b".into())))
            .task(TaskSpec::hog("hog"))
            .run_for(ms(2_000))
            .pass();
        let ran = outcome.task("spinner").ran_ns;
        assert!(ran > ms(900), "{name}: it ran for {ran} ns of 2 s on half a CPU");
        assert_eq!(outcome.task("spinner").exited_ns, None);
    });
}

#[test]
fn spinners_that_are_preempted_are_let_go_too() {
    under_each_policy(|name| {
        let outcome = parallel(name, 1, u64::MAX).run_for(ms(10_000)).pass();
        assert_eq!(outcome.done("worker 3"), 10, "{name}");
    });
}

#[test]
fn a_wake_chain_goes_from_one_to_the_next() {
    under_each_policy(|name| {
        let outcome = policy("a wakes b wakes c", name)
            .cpus(2)
            .task(
                TaskSpec::named("a")
                    .sleep(exactly(ms(10)))
                    .run(exactly(ms(1)))
                    .step(Step::Wake("b".into(), 1))
                    .rounds(50),
            )
            .tasks(2, |i| {
                let [own, next] = [["b", "c"], ["c", "d"]][i];
                TaskSpec::named(own)
                    .step(Step::Wait(own.into()))
                    .run(exactly(ms(1)))
                    .step(Step::Wake(next.into(), 1))
                    .rounds(50)
            })
            .pass();
        assert!(end(&outcome, "c") > end(&outcome, "b"), "{name}");
        assert!(end(&outcome, "b") > end(&outcome, "a"), "{name}");
        assert!(end(&outcome, "c") < ms(50 * 11 + 3), "{name}");
    });
}

#[test]
fn a_condition_wakes_those_who_wait_and_gives_them_their_lock() {
    under_each_policy(|name| {
        let outcome = policy("a condition", name)
            .cpus(2)
            .lock("m")
            .tasks(3, |i| {
                TaskSpec::named(format!("waiter {i}"))
                    .arrives(ms(1))
                    .step(Step::Lock("m".into()))
                    .step(Step::Await { condition: "c".into(), lock: Some("m".into()) })
                    .run(exactly(ms(5)))
                    .step(Step::Unlock("m".into()))
            })
            .task(
                TaskSpec::named("caller")
                    .step(Step::Signal { condition: "c".into(), all: true })
                    .sleep(exactly(ms(20)))
                    .step(Step::Signal { condition: "c".into(), all: true }),
            )
            .pass();
        let mut ends: Vec<u64> = (0..3).map(|i| end(&outcome, &format!("waiter {i}"))).collect();
        ends.sort_unstable();
        // One after the other, and none before it was called.
        for (end, due) in ends.iter().zip([25, 30, 35]) {
            assert!((ms(due)..ms(due + 1)).contains(end), "{name}: {ends:?}");
        }
    });
}

#[test]
fn a_device_serves_as_many_as_its_queue_is_deep() {
    for (depth, due) in [(1, 80), (2, 40), (8, 10)] {
        let outcome = policy("a disk", "vtime")
            .cpus(2)
            .device("disk", depth, exactly(ms(10)))
            .tasks(8, |i| TaskSpec::named(format!("reader {i}")).step(Step::Io("disk".into())))
            .pass();
        let last = outcome.all().filter_map(|(_, f)| f.exited_ns).max().unwrap_or(0);
        assert!((ms(due)..ms(due + 1)).contains(&last), "depth {depth}: {last} ns");
        assert!(outcome.all().all(|(_, f)| f.ran_ns < us(100)), "waiting takes no CPU time");
    }
}

#[test]
fn a_parent_waits_for_all_its_children() {
    under_each_policy(|name| {
        let child = TaskSpec::named("child").run(exactly(ms(10))).in_cgroup("build");
        let outcome = policy("fork and join", name)
            .cpus(2)
            .task(
                TaskSpec::named("parent")
                    .repeat(4, |parent| parent.step(Step::Fork(child.into())))
                    .step(Step::Join)
                    .step(Step::Done(1))
                    .rounds(3),
            )
            .pass();
        let end = end(&outcome, "parent");
        assert!((ms(60)..ms(65)).contains(&end), "{name}: 12 times 10 ms on 2 CPUs: {end} ns");
        let children = outcome.all().filter(|(name, _)| *name == "child");
        assert_eq!(children.filter(|(_, f)| f.exited_ns.is_some_and(|at| at < end)).count(), 12);
    });
}

#[test]
fn a_timer_that_keeps_its_schedule_makes_up_for_what_was_late() {
    let periodic = |keeps_schedule| {
        let outcome = policy("a timer", "fifo")
            .task(
                TaskSpec::named("periodic")
                    .step(Step::Timer { timer: 0, period_ns: ms(10), keeps_schedule })
                    .run(exactly(ms(1)))
                    .repeat(2, |late| late.run(exactly(ms(12))))
                    .step(Step::Timer { timer: 0, period_ns: ms(10), keeps_schedule })
                    .step(Step::Timer { timer: 0, period_ns: ms(10), keeps_schedule }),
            )
            .pass();
        end(&outcome, "periodic") / ms(1)
    };
    // 10 ms; then it runs until 35; 20 and 30 are past.
    assert_eq!(periodic(true), 35);
    // 20 is past, so it counts anew from 35.
    assert_eq!(periodic(false), 45);
}

/// A server of one thread at 10 ms a request, under requests that come every 5 ms.
fn overloaded() -> Scenario {
    policy("an overloaded server", "fifo")
        .arrivals("web", Arrivals::of(Process::Open { gap: exactly(ms(5)) }))
        .task(
            TaskSpec::named("server")
                .in_cgroup("front/web")
                .step(Step::Accept("web".into()))
                .run(exactly(ms(10)))
                .step(Step::End)
                .for_ever(),
        )
        .run_for(ms(1_000))
}

#[test]
fn response_times_count_from_arrival_and_grow_with_the_queue() {
    let outcome = overloaded().pass();
    let responses = outcome.responses_ns("server");
    // The n-th arrives at 5 n and is answered at 5 + 10 n.
    assert_eq!(responses.len(), 99);
    assert!((ms(10)..ms(11)).contains(&responses[0]));
    assert!((ms(500)..ms(502)).contains(&responses[98]), "{}", responses[98]);
    assert_eq!(outcome.done("server"), 99);
    let unanswered: Vec<_> = outcome.unanswered().collect();
    assert_eq!(unanswered, [("web", 200 - 99)]);
}

#[test]
fn responses_belong_to_a_group_a_cgroup_and_those_above_it() {
    let outcome = overloaded().pass();
    for (name, n) in [("server", 99), ("front/web", 99), ("front", 99), ("fro", 0), ("web", 0)] {
        assert_eq!(outcome.responses_ns(name).len(), n, "{name}");
    }
    assert_eq!(outcome.belongings().collect::<Vec<_>>(), [("server", "front/web")]);
}

#[test]
fn what_warms_up_counts_in_no_figure() {
    let outcome = overloaded().warm_up(ms(500)).pass();
    assert_eq!(outcome.responses_ns("server").len(), 50);
    assert!(outcome.responses_ns("server")[0] > ms(250));
    let ran = outcome.task("server").ran_ns;
    assert!((ms(499)..=ms(501)).contains(&ran), "{ran} ns");
}

#[test]
fn a_closed_loop_never_has_more_requests_than_clients() {
    let outcome = policy("a closed loop", "vtime")
        .arrivals(
            "web",
            Arrivals::of(Process::Closed { clients: 3, think: Span::Exponential(ms(2)) }),
        )
        .task(
            TaskSpec::named("server")
                .step(Step::Accept("web".into()))
                .run(exactly(ms(10)))
                .step(Step::End)
                .for_ever(),
        )
        .run_for(ms(2_000))
        .pass();
    let responses = outcome.responses_ns("server");
    assert!(responses.len() > 190, "{} answered", responses.len());
    // It waits for the two before it at most, however long the run.
    assert!(responses.iter().all(|ns| *ns < ms(31)), "{:?}", responses.last());
}

#[test]
fn a_request_travels_through_the_stages_of_a_pipeline() {
    let outcome = policy("stages", "vtime")
        .cpus(2)
        .pipe("p", 8)
        .arrivals("in", Arrivals::of(Process::Open { gap: exactly(ms(20)) }))
        .task(
            TaskSpec::named("first")
                .step(Step::Accept("in".into()))
                .run(exactly(ms(3)))
                .step(Step::Write("p".into(), 1))
                .for_ever(),
        )
        .task(
            TaskSpec::named("second")
                .step(Step::Read("p".into(), 1))
                .run(exactly(ms(4)))
                .step(Step::End)
                .for_ever(),
        )
        .run_for(ms(1_000))
        .pass();
    let responses = outcome.responses_ns("second");
    assert_eq!((responses.len(), outcome.responses_ns("first").len()), (49, 0));
    assert!(responses.iter().all(|ns| (ms(7)..ms(7) + us(50)).contains(ns)), "{responses:?}");
}

#[test]
fn a_request_of_its_own_counts_from_when_the_task_woke() {
    // It wakes every 10 ms, and a hog with a slice of 20 ms is in its way.
    let outcome = policy("beside a hog", "fifo")
        .task(TaskSpec::hog("hog"))
        .task(
            TaskSpec::named("periodic")
                .sleep(exactly(ms(10)))
                .step(Step::Begin)
                .run(exactly(ms(1)))
                .step(Step::End)
                .for_ever(),
        )
        .run_for(ms(1_000))
        .pass();
    let (figures, responses) = (outcome.task("periodic"), outcome.responses_ns("periodic"));
    // All its waits and runs but the wait before it first slept.
    let due = figures.ran_ns + figures.waited_ns - figures.first_run_ns.expect("it ran");
    assert!(responses.iter().sum::<u64>() >= due, "{responses:?} hide some of {due} ns");
    assert!(responses.last().is_some_and(|longest| *longest > ms(12)), "{responses:?}");
}

#[test]
fn switches_are_told_apart_by_who_wanted_them() {
    let outcome = policy("switches", "fifo")
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("sleeper").run(exactly(us(10))).sleep(exactly(ms(1))).rounds(10))
        .run_for(ms(2_000))
        .pass();
    let [hog, sleeper] = ["hog 0", "sleeper"].map(|name| outcome.task(name));
    assert!(hog.voluntary_switches == 0 && hog.involuntary_switches > 20, "{hog:?}");
    // Each sleep, and its end.
    assert_eq!(sleeper.voluntary_switches, 11);
    assert_eq!(sleeper.involuntary_switches, 0);
}

/// Some of everything at once.
fn everything(seed: u64) -> Scenario {
    policy("everything", "vtime")
        .cpus(3)
        .seed(seed)
        .pipe("p", 3)
        .lock("m")
        .barrier("b", 2, us(200))
        .device("disk", 2, Span::LogNormal { median_ns: us(300), sigma_thousandths: 700 })
        .arrivals("web", Arrivals::of(Process::Open { gap: Span::Exponential(us(900)) }))
        .tasks(3, |i| {
            TaskSpec::named(format!("server {i}"))
                .step(Step::Accept("web".into()))
                .run(Span::Pareto { least_ns: us(100), shape_thousandths: 1_800 })
                .step(Step::Lock("m".into()))
                .run(between(us(1), us(50)))
                .step(Step::Unlock("m".into()))
                .step(Step::Io("disk".into()))
                .step(Step::Write("p".into(), 1))
                .for_ever()
        })
        .task(TaskSpec::named("logger").step(Step::Read("p".into(), 1)).step(Step::End).for_ever())
        .tasks(2, |i| {
            TaskSpec::named(format!("worker {i}"))
                .run(Span::Exponential(ms(2)))
                .step(Step::Barrier("b".into()))
                .for_ever()
        })
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_tasks_do() {
    let run = |seed| everything(seed).traced().pass();
    let (first, second) = (run(4), run(4));
    assert!(first.responses_ns("logger").len() > 500);
    assert_eq!(first.responses_ns("logger"), second.responses_ns("logger"));
    assert!(first.trace == second.trace, "it differs from itself");
    assert!(first.trace != run(5).trace, "it does not depend on the seed");
}
