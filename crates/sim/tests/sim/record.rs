//! From a trace to a scenario and back: what the simulator ran is told as `perf script` tells it,
//! made a scenario of, and run again. It must behave as before.

use metasched_base::Place;
use metasched_sim::file::ScenarioFile;
use metasched_sim::record;
use metasched_sim::requests::{Arrivals, Process};
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
                let head = head(Some(&task));
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
    let text = record::scenario(&events, "recorded").expect("something ran");
    (outcome, text)
}

fn replay(text: &str) -> Outcome {
    let file = ScenarioFile::parse(Path::new("recorded.toml"), text)
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let run = policy(file.name.clone(), "vtime").cpus(file.machine.cpus);
    file.apply(run.run_for(file.duration_ns)).pass()
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
    let e = record::scenario(&[], "empty").unwrap_err();
    assert!(e.to_string().contains("no thread runs in it"), "{e}");
}
