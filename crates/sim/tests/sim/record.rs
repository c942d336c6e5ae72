//! From a trace to a scenario and back: what the simulator ran is told as `perf script` tells it,
//! made a scenario of, and run again. It must behave as before.

use metasched_base::Place;
use metasched_scenario::file::ScenarioFile;
use metasched_scenario::record::{self, CgroupFacts, Facts, Recording};
use metasched_scenario::requests::{Arrivals, Process};
use metasched_sim::step::Step;
use metasched_sim::{Outcome, Scenario, Span, TaskSpec, between, exactly, ms, policy, us};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const LENGTH_NS: u64 = 4_000_000_000;

/// The trace of a run as `perf script` prints that of a machine.
fn as_perf_prints_it(outcome: &Outcome) -> String {
    let names: Vec<&str> = outcome.all().map(|(name, _)| name).collect();
    let mut perf = String::new();
    let mut running: BTreeMap<usize, usize> = BTreeMap::new();
    // Who stopped and whether it is runnable, until somebody else starts there.
    let mut stopped: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
    for line in outcome.trace.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, cpu, task, rest @ ..] = &words[..] else { continue };
        let (at, cpu): (u64, usize) =
            (at.parse().expect("a time"), cpu[3..].parse().expect("a CPU"));
        if *task == "idle"
            && let Some(from) = stopped.remove(&cpu)
        {
            switch(&mut perf, at, cpu, Some(from), None, &names);
        }
        let task = task.strip_prefix("task").and_then(|id| id.parse::<usize>().ok());
        let (Some(task), [what, rest @ ..]) = (task, rest) else { continue };
        let head = |current: Option<&usize>| {
            let (name, pid) = current.map_or(("swapper", 0), |task| (names[*task], task + 1));
            format!(
                "{name} {pid} [{cpu:03}] {}.{:09}: sched:",
                at / 1_000_000_000,
                at % 1_000_000_000
            )
        };
        match *what {
            "wake" => {
                let head = head(running.get(&cpu));
                writeln!(
                    perf,
                    "{head}sched_wakeup: {}:{} [120] CPU:{cpu:03}",
                    names[task],
                    task + 1
                )
            }
            .expect("a String"),
            "start" => {
                switch(&mut perf, at, cpu, stopped.remove(&cpu), Some(task), &names);
                running.insert(cpu, task);
            }
            "stop," | "stop" => {
                running.remove(&cpu);
                stopped.insert(cpu, (task, rest.contains(&"runnable")));
            }
            "arrive" if at > 0 && running.contains_key(&cpu) => {
                let parent = names[running[&cpu]];
                let head = head(running.get(&cpu));
                writeln!(
                    perf,
                    "{head}sched_process_fork: comm={parent} pid=1 child_comm={} child_pid={}",
                    names[task],
                    task + 1
                )
                .expect("a String");
            }
            "exit" => {
                let head = head(running.get(&cpu));
                writeln!(
                    perf,
                    "{head}sched_process_exit: comm={} pid={} prio=120",
                    names[task],
                    task + 1
                )
                .expect("a String");
            }
            _ => {}
        }
    }
    perf
}

fn switch(
    perf: &mut String,
    at: u64,
    cpu: usize,
    from: Option<(usize, bool)>,
    to: Option<usize>,
    names: &[&str],
) {
    let thread = |task: Option<usize>| match task {
        Some(task) => format!("{}:{} [120]", names[task], task + 1),
        None => format!("swapper/{cpu}:0 [120]"),
    };
    let (pid, state) = match from {
        Some((task, runnable)) => (task + 1, if runnable { "R" } else { "S" }),
        None => (0, "R"),
    };
    writeln!(
        perf,
        "x {pid} [{cpu:03}] {}.{:09}: sched:sched_switch: {} {state} ==> {}",
        at / 1_000_000_000,
        at % 1_000_000_000,
        thread(from.map(|(task, _)| task)),
        thread(to),
    )
    .expect("a String");
}

/// The scenario that is made of a run.
fn recorded(scenario: Scenario) -> (Outcome, String) {
    let outcome = scenario.run_for(LENGTH_NS).traced().pass();
    let perf = as_perf_prints_it(&outcome);
    let events = record::read(Place { path: "perf.txt", text: &perf }).expect("it is read");
    let recording = Recording { name: "recorded".into(), events, ..Recording::default() };
    (outcome, recording.scenario().expect("something ran").text)
}

fn replay(text: &str) -> Outcome {
    let file = ScenarioFile::parse(Path::new("recorded.toml"), text)
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let run = policy(file.name.clone(), "vtime").cpus(file.machine.cpus);
    run.run_for(file.duration_ns).with_file(&file).pass()
}

fn us_of(n: u64) -> Span {
    exactly(us(n))
}

/// CPU time of all tasks of a group, ns.
fn ran(outcome: &Outcome, group: &str) -> f64 {
    let all = outcome.all().zip(outcome.belongings());
    all.filter(|(_, (of, _))| *of == group).map(|((_, f), _)| f.ran_ns as f64).sum()
}

#[test]
fn a_recorded_load_takes_the_cpu_time_that_it_took() {
    let (was, text) = recorded(
        policy("a load", "vtime")
            .cpus(4)
            .tasks(6, |i| {
                TaskSpec::named(format!("worker {i}"))
                    .in_group("worker")
                    .run(Span::LogNormal { median_ns: us(800), sigma_thousandths: 700 })
                    .sleep(Span::Exponential(ms(8)))
                    .for_ever()
            })
            .tasks(2, |i| {
                TaskSpec::named(format!("timer {i}"))
                    .in_group("timer")
                    .run(between(us(100), us(300)))
                    .sleep(exactly(ms(10)))
                    .for_ever()
            })
            .task(TaskSpec::hog("hog")),
    );
    let again = replay(&text);
    for (group, now) in [("worker", "worker"), ("timer", "timer"), ("hog", "hog.busy")] {
        let ratio = ran(&again, now) / ran(&was, group);
        assert!((0.9..1.1).contains(&ratio), "{group}: {ratio:.3}\n{text}");
    }
}

#[test]
fn who_is_woken_by_a_group_waits_for_it() {
    let (was, text) = recorded(
        policy("a chain", "vtime")
            .cpus(2)
            .arrivals("in", Arrivals::of(Process::Open { gap: Span::Exponential(ms(4)) }))
            .pipe("p", 8)
            .task(
                TaskSpec::named("front")
                    .step(Step::Accept("in".into()))
                    .run(exactly(us(500)))
                    .step(Step::Write("p".into(), 1))
                    .for_ever(),
            )
            .task(
                TaskSpec::named("back")
                    .step(Step::Read("p".into(), 1))
                    .run(between(ms(1), ms(2)))
                    .step(Step::End)
                    .for_ever(),
            ),
    );
    assert!(text.contains("\"wake back 1\""), "{text}");
    assert!(text.contains("\"wait back\""), "{text}");
    let ratio = ran(&replay(&text), "back") / ran(&was, "back");
    assert!((0.8..1.2).contains(&ratio), "{ratio:.3}\n{text}");
}

/// Clients that each ask the one server, and wait for its answer.
fn clients_and_a_server(clients: usize) -> (Outcome, String) {
    recorded(
        policy("ping and pong", "vtime")
            .cpus(2)
            .pipe("there", 8)
            .pipe("back", 8)
            .tasks(clients, |i| {
                TaskSpec::named(format!("client {i}"))
                    .in_group("client")
                    .run(between(us(100), us(300)))
                    .step(Step::Write("there".into(), 1))
                    .step(Step::Read("back".into(), 1))
                    .for_ever()
            })
            .task(
                TaskSpec::named("server")
                    .step(Step::Read("there".into(), 1))
                    .run(between(us(300), us(500)))
                    .step(Step::Write("back".into(), 1))
                    .for_ever(),
            ),
    )
}

/// Two that ask each other wait for each other, and never both. A server that never rests is none
/// of them: it wakes its clients while it runs.
#[test]
fn two_that_wake_each_other_are_a_closed_loop() {
    for (clients, said) in [(1, "\"wait server\""), (3, "\"wake client 1\"")] {
        let (was, text) = clients_and_a_server(clients);
        assert!(text.contains(said) && text.contains("\"wait client\""), "{text}");
        let again = replay(&text);
        for (group, named) in [("client", "name = \"client\""), ("server", "name = \"server")] {
            assert!(text.contains(named), "{text}");
            let now = if group == "server" && clients > 1 { "server.busy" } else { group };
            let ratio = ran(&again, now) / ran(&was, group);
            assert!((0.85..1.15).contains(&ratio), "{clients}, {group}: {ratio:.3}\n{text}");
        }
    }
}

#[test]
fn cgroups_affinities_and_kernel_threads_are_told_as_they_were() {
    let (was, _) = recorded(
        policy("in cgroups", "vtime")
            .cpus(4)
            .task(TaskSpec::hog("web 0"))
            .task(TaskSpec::hog("web 1"))
            .task(TaskSpec::hog("batch"))
            .task(TaskSpec::named("kworker/2:1").run(us_of(300)).sleep(us_of(900)).for_ever()),
    );
    let events = record::read(Place { path: "perf.txt", text: &as_perf_prints_it(&was) }).unwrap();
    let facts = |cgroup: &str, cpus: Option<[u32; 2]>, kthread| Facts {
        comm: String::new(),
        cgroup: cgroup.into(),
        affinity: cpus.map(|cpus| cpus.into()),
        kthread,
    };
    let threads = [
        (1, facts("a.slice/web", Some([0, 1]), false)),
        (2, facts("a.slice/web", Some([0, 1]), false)),
        (3, facts("a.slice/batch", None, false)),
        (4, facts("", Some([2, 2]), true)),
    ];
    let cgroups = [
        ("a.slice", CgroupFacts { weight: Some(300), ..CgroupFacts::default() }),
        ("a.slice/batch", CgroupFacts { quota_us: Some((50_000, 100_000)), ..Default::default() }),
    ];
    let recording = Recording {
        name: "cgroups".into(),
        events,
        lost: 7,
        threads: threads.into(),
        cgroups: cgroups.map(|(path, facts)| (path.to_owned(), facts)).into(),
        ..Recording::default()
    };
    let made = recording.scenario().unwrap();
    for said in [
        "\"a.slice\" = { weight = 300 }",
        "\"a.slice/batch\" = { quota = \"50000us/100000us\" }",
        "LOST: 7 events",
        "affinity = \"0-1\"",
        "kthread = true\n",
    ] {
        assert!(made.text.contains(said), "{said}:\n{}", made.text);
    }
    let total: u64 = made.ran_ns.values().sum();
    assert_eq!(made.ran_ns.len(), 3);
    assert!(total > LENGTH_NS * 3, "{:?}", made.ran_ns);
    replay(&made.text);

    let only = Recording { only: Some("a.slice/web".into()), ..recording.clone() };
    assert_eq!((only.scenario().unwrap().threads, made.threads), (2, 4));
    let none = Recording { only: Some("a.slice/we".into()), ..recording };
    assert!(none.scenario().unwrap_err().to_string().contains("'a.slice/we'"));
}

/// What came late and what went early take the CPU time that they took, and no more.
#[test]
fn jobs_that_come_late_or_end_early_are_there_for_as_long_as_they_were() {
    let (was, text) = recorded(
        policy("jobs", "vtime")
            .cpus(3)
            .task(TaskSpec::named("early").run(exactly(ms(1_500))))
            .task(TaskSpec::named("clock").run(us_of(10)).sleep(exactly(ms(3))).for_ever())
            .task(
                TaskSpec::named("make")
                    .sleep(exactly(ms(2_500)))
                    .step(Step::Fork(TaskSpec::hog("late").into()))
                    .run(exactly(ms(10)))
                    .sleep(exactly(ms(9_000))),
            ),
    );
    let again = replay(&text);
    for (group, now) in [("early", "early.busy"), ("late", "late.busy")] {
        let ratio = ran(&again, now) / ran(&was, group);
        assert!((0.95..1.05).contains(&ratio), "{group}: {ratio:.3}\n{text}");
    }
}

#[test]
fn tasks_that_come_and_go_are_forked_again() {
    let child = TaskSpec::named("cc").run(between(ms(2), ms(4)));
    let (was, text) = recorded(
        policy("a build", "vtime").cpus(2).task(
            TaskSpec::named("make")
                .run(exactly(us(300)))
                .repeat(5, |make| make.step(Step::Fork(child.into())))
                .sleep(exactly(ms(20)))
                .for_ever(),
        ),
    );
    assert!(text.contains("\"fork cc.child 5\""), "{text}");
    let again = replay(&text);
    let ratio = ran(&again, "cc.child") / ran(&was, "cc");
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}\n{text}");
    let births = |outcome: &Outcome, name: &str| outcome.all().filter(|(n, _)| *n == name).count();
    let ratio = births(&again, "cc.child") as f64 / births(&was, "cc") as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio:.3}\n{text}");
}

#[test]
fn a_trace_in_which_nothing_runs_is_refused() {
    let e = Recording::default().scenario().unwrap_err();
    assert!(e.to_string().contains("no thread runs in it"), "{e}");
}
