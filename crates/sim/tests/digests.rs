//! The bytes of some runs, pinned: what makes the simulator faster must not change what it
//! says. A digest is one of the whole trace, the figures and, where a run fails, of what it
//! fails by.
//!
//! A change of the model, or of a policy's source, may change them, and is meant to. Then
//! renew them: this test prints the table as it is now; put it in place of [`PINNED`] in the
//! commit that makes the change, and say there what changed.
//!
//! A program of its own, since `scripts/test.sh` compiles it a second time without optimisation.

use metasched_sim::abi::NO_QUOTA;
use metasched_sim::figures::RunFigures;
use metasched_sim::fuzz;
use metasched_sim::metasched::{
    assign, drop_app, program, reap, replace_root, scenario, set_app, set_weight, start_turns,
};
use metasched_sim::step::Step;
use metasched_sim::{Costs, Machine, Scenario, TaskSpec, between, exactly, ms, policy, us};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

/// See above for how they are renewed.
const PINNED: &[(&str, &str)] = &[
    ("fifo, busy", "b2454e13c442d182"),
    ("fifo, a machine of parts", "df7279c7f049bac9"),
    ("vtime, busy", "c215ea0c239f9f23"),
    ("vtime, a machine of parts", "4f258bab3074e5e5"),
    ("fair, busy", "ae58fed584c92b66"),
    ("fair, a machine of parts", "69ca7d3c9db39e8b"),
    ("lanes", "cff44be28f8c17da"),
    ("a program comes and goes", "069c8f62603d5b01"),
    ("the fault lost_wakeup", "28e3721d96b59da2"),
    ("the fault wrong_queue", "31421db3cd38fa72"),
    ("the fault ignores_affinity", "015a99125da9fec2"),
    ("random run 1", "dde222009286990c"),
    ("random run 2", "cf85f92b721f7016"),
    ("random run 3", "b70a39dcd03a5168"),
];

/// Everything that a run says.
fn digest(run: Scenario, machine: Machine) -> String {
    let figures = Rc::new(RefCell::new(RunFigures::new(machine, ms(20))));
    let mut text = String::new();
    match run.traced().read_by(&figures).run() {
        Ok(outcome) => {
            text += &outcome.trace;
            for (name, figures) in outcome.all() {
                writeln!(text, "{name} {figures:?} {:?}", outcome.waits_ns(name)).unwrap();
            }
            let (events, switches) = (outcome.events, outcome.switches);
            writeln!(text, "{events} {switches} {} {:?}", outcome.lost_ns, outcome.exit).unwrap();
            let figures = figures.borrow();
            writeln!(text, "{:?}", figures.groups().collect::<Vec<_>>()).unwrap();
            writeln!(text, "{}", figures.idle_beside_work_ns()).unwrap();
        }
        Err(failure) => {
            text += failure.trace();
            let (check, message, at) = (&failure.check, &failure.message, failure.at);
            writeln!(text, "{check} {message} {at} {:?}", failure.recent()).unwrap();
        }
    }
    let hash = Sha256::digest(text.as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hogs and sleepers, some of them pinned, one of another weight.
fn busy(run: Scenario, cpus: usize) -> Scenario {
    run.tasks(2 * cpus, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::hog("heavy").weight(300))
        .task(TaskSpec::hog("pinned").only_on([cpus - 1]))
        .tasks(4 * cpus, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), ms(2)))
                .sleep(between(us(100), ms(10)))
                .for_ever()
        })
}

/// Tasks that wait for each other, fork and exit.
fn together(run: Scenario) -> Scenario {
    let child = TaskSpec::named("child").run(between(us(100), ms(1)));
    run.pipe("p", 4)
        .lock("l")
        .barrier("b", 2, us(100))
        .tasks(2, |i| {
            TaskSpec::named(format!("writer {i}"))
                .run(between(us(5), us(500)))
                .step(Step::Write("p".into(), 2))
                .for_ever()
        })
        .tasks(2, |i| {
            TaskSpec::named(format!("reader {i}"))
                .step(Step::Read("p".into(), 2))
                .step(Step::Lock("l".into()))
                .run(between(us(5), us(200)))
                .step(Step::Unlock("l".into()))
                .step(Step::Barrier("b".into()))
                .for_ever()
        })
        .task(
            TaskSpec::named("parent")
                .step(Step::Fork(child.into()))
                .step(Step::Join)
                .sleep(exactly(ms(1)))
                .for_ever(),
        )
}

fn hogs(run: Scenario, n: usize, cgroup: &'static str) -> Scenario {
    run.tasks(n, |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup))
}

/// Lanes that are made, weighed, replaced and dropped, turns, and limits.
fn lanes() -> Scenario {
    let run = scenario("lanes", "vtime").cpus(4);
    hogs(hogs(hogs(hogs(run, 4, "a"), 4, "b/c"), 3, "limited"), 2, "")
        .tasks(6, |i| {
            TaskSpec::named(format!("service {i}"))
                .run(between(us(50), us(500)))
                .sleep(between(ms(1), ms(4)))
                .for_ever()
                .in_cgroup(["a", "b/c", "b"][i % 3])
        })
        .at(0, |kernel| {
            kernel.set_cgroup_max("limited", 100_000, 40_000, 0);
            kernel.set_cgroup_max("b", 50_000, 60_000, 10_000);
            for (app, cgroup, policy, weight) in [(1, "a", "fifo", 100), (2, "b", "vtime", 300)] {
                set_app(kernel, app, policy, weight);
                assign(kernel, cgroup, app);
            }
        })
        .at(ms(100), |kernel| set_weight(kernel, 1, 500))
        .at(ms(150), |kernel| set_app(kernel, 2, "fifo", 200))
        .at(ms(200), |kernel| replace_root(kernel, "fifo"))
        .at(ms(250), |kernel| {
            let task = kernel.task_named("a 0");
            assert!(kernel.attach_to_cgroup(&[task], "b"));
            kernel.set_cgroup_max("b", 100_000, NO_QUOTA, 0);
        })
        .at(ms(300), |kernel| start_turns(kernel, &[("fifo", ms(1)), ("vtime", ms(3))]))
        .at(ms(350), |kernel| drop_app(kernel, 1))
        .at(ms(400), |kernel| {
            reap(kernel);
            reap(kernel);
        })
        .waits_at_most(ms(10_000))
        .run_for(ms(600))
}

fn runs() -> Vec<(String, Scenario, Machine)> {
    let mut runs = Vec::new();
    let mut add = |name: &str, run: Scenario, machine: Machine| {
        runs.push((name.to_owned(), run.seed(7).machine(machine.clone()), machine));
    };
    let parts = Machine::new(16, 4, 2, true).unwrap();
    let costs = Costs {
        switch_ns: 1_300,
        callback_ns: 150,
        migration_across_ns: us(20),
        ..Costs::default()
    };
    for name in ["fifo", "vtime", "fair"] {
        let run = busy(policy("busy", name), 4).run_for(ms(300));
        add(&format!("{name}, busy"), run, Machine::cpus(4));
        let run = together(busy(policy("parts", name), 4))
            .at(ms(40), |kernel| assert!(kernel.cpu_off(3)))
            .at(ms(50), |kernel| {
                let task = kernel.task_named("hog 1");
                kernel.set_affinity(task, [0, 1, 2, 12].into_iter().collect());
                kernel.set_weight(task, 1_000);
            })
            .at(ms(120), |kernel| assert!(kernel.cpu_on(3)))
            .run_for(ms(200));
        add(&format!("{name}, a machine of parts"), run, parts.clone().costs(costs));
    }
    add("lanes", lanes(), Machine::cpus(4));
    let swapped = together(busy(Scenario::eevdf("a program comes and goes"), 3))
        .at(ms(50), |kernel| kernel.load(&program("vtime")))
        .at(ms(300), metasched_sim::kernel::Kernel::unload)
        .run_for(ms(500));
    add("a program comes and goes", swapped, Machine::new(4, 2, 1, false).unwrap());
    for ops in ["lost_wakeup", "wrong_queue", "ignores_affinity"] {
        let run = busy(Scenario::of(format!("planted fault {ops}"), FAULTS, ops), 2);
        add(&format!("the fault {ops}"), run.run_for(ms(4_000)), Machine::cpus(2));
    }
    for seed in 1..=3 {
        let case = fuzz::generate(seed);
        let machine = Machine::cpus(case.machine.cpus);
        runs.push((format!("random run {seed}"), fuzz::scenario(&case), machine));
    }
    runs
}

#[test]
fn what_runs_say_is_what_they_said_before() {
    let found: Vec<(String, String)> =
        runs().into_iter().map(|(name, run, machine)| (name, digest(run, machine))).collect();
    let same = found.len() == PINNED.len()
        && found.iter().zip(PINNED).all(|(a, b)| (a.0.as_str(), a.1.as_str()) == *b);
    if !same {
        let rows = found.iter().map(|(name, digest)| format!("    ({name:?}, {digest:?}),\n"));
        panic!("other bytes than before; if that is meant:\n{}", rows.collect::<String>());
    }
}
