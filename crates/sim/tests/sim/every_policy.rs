//! What holds for every policy, with options at their ends and on machines that no policy's own
//! tests have.

use metasched_sim::callbacks::Callback;
use metasched_sim::metasched::{PAIR, POLICIES, RUSTY, set_option};
use metasched_sim::options::options_of;
use metasched_sim::{
    Costs, Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, policy, us,
};
use std::cell::RefCell;
use std::rc::Rc;

/// Half as many tasks again as there are CPUs that never sleep, and as many that do; of different
/// weights, in two cgroups, some of them bound to a quarter of the CPUs.
fn busy(name: &str, machine: &Machine) -> Scenario {
    let cpus = machine.nr_cpus();
    let placed = move |task: TaskSpec, i: usize| {
        let task = task.weight([20, 100, 400][i % 3]).in_cgroup(["a", "b"][i % 2]);
        if i.is_multiple_of(5) { task.only_on(0..cpus.div_ceil(4)) } else { task }
    };
    policy(name, name)
        .machine(machine.clone())
        .tasks(cpus + cpus / 2, move |i| placed(TaskSpec::hog(format!("hog {i}")), i))
        .tasks(cpus + cpus / 2, move |i| {
            let sleeper = TaskSpec::named(format!("sleeper {i}"));
            placed(sleeper.run(between(us(20), ms(2))).sleep(between(us(100), ms(8))), i).for_ever()
        })
        .task(
            TaskSpec::named("kthread")
                .kthread()
                .run(exactly(us(20)))
                .sleep(exactly(ms(3)))
                .for_ever(),
        )
}

/// How much of the CPUs a policy has to use at least. [`PAIR`] leaves a CPU idle beside another
/// cgroup, [`RUSTY`] beside another node's tasks.
fn least_used(name: &str) -> f64 {
    if [PAIR, RUSTY].contains(&name) { 0.6 } else { 0.9 }
}

/// What was used of the CPUs.
fn used(outcome: &Outcome, machine: &Machine, ns: u64) -> f64 {
    let ran: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
    ran as f64 / (machine.nr_cpus() as u64 * ns) as f64
}

#[test]
fn every_option_may_be_at_its_ends() {
    const FOR_NS: u64 = ms(1_500);
    let machine = Machine::new(4, 2, 1, true).unwrap();
    for name in POLICIES {
        for (number, option) in options_of(name).iter().enumerate() {
            for value in [option.least, option.most] {
                let run = busy(name, &machine)
                    .at(ms(1), move |kernel| set_option(kernel, 0, number, value))
                    .waits_at_most(ms(60_000))
                    .idle_at_most(ms(60_000));
                let outcome = run.run_for(FOR_NS).run().unwrap_or_else(|failure| {
                    panic!("{name} with {} = {value}: {failure}", option.name)
                });
                let used = used(&outcome, &machine, FOR_NS);
                assert!(
                    used > least_used(name),
                    "{name} with {} = {value} used {used:.2}",
                    option.name
                );
            }
        }
    }
}

#[test]
fn machines_may_be_small_and_large() {
    let costs = Costs {
        switch_ns: 1_500,
        migration_core_ns: 500,
        migration_llc_ns: us(3),
        migration_node_ns: us(8),
        migration_across_ns: us(25),
        callback_ns: 200,
        ..Costs::default()
    };
    for (cpus, llcs, nodes, smt) in [
        (1, 1, 1, false),
        (2, 1, 1, true),
        (3, 1, 1, false),
        (6, 3, 3, true),
        (12, 4, 4, false),
        (16, 4, 2, true),
        (64, 8, 2, true),
        (512, 32, 4, true),
    ] {
        let machine = Machine::new(cpus, llcs, nodes, smt).unwrap().costs(costs);
        let for_ns = if cpus > 64 { ms(100) } else { ms(400) };
        for name in POLICIES {
            let outcome = busy(name, &machine).run_for(for_ns).run();
            let outcome =
                outcome.unwrap_or_else(|failure| panic!("{name} on {machine}: {failure}"));
            let used = used(&outcome, &machine, for_ns);
            assert!(used > least_used(name), "{name} on {machine} used {used:.2}");
        }
    }
}

/// The most calls of the kernel that one choice of a CPU, one enqueue and one dispatch made, once
/// all is under way.
fn most_work(name: &'static str, machine: &Machine, tasks: usize) -> [u64; 3] {
    const CALLBACKS: [Callback; 3] = [Callback::SelectCpu, Callback::Enqueue, Callback::Dispatch];
    let found: Rc<RefCell<[u64; 3]>> = Rc::default();
    let last = Rc::clone(&found);
    policy(name, name)
        .machine(machine.clone())
        .tasks(tasks, |i| {
            let task = TaskSpec::named(format!("task {i}")).in_cgroup(["a", "b"][i % 2]);
            match i % 4 {
                0 => task.run(exactly(us(300))).sleep(between(us(100), ms(5))).for_ever(),
                _ => task.run(exactly(ms(1_000))).for_ever(),
            }
        })
        .at(ms(30), |kernel| {
            CALLBACKS.iter().for_each(|callback| {
                kernel.most_calls(*callback);
            })
        })
        .at(ms(59), move |kernel| {
            *last.borrow_mut() = CALLBACKS.map(|callback| kernel.most_calls(callback));
        })
        .waits_at_most(ms(60_000))
        .idle_at_most(ms(60_000))
        .run_for(ms(60))
        .pass();
    *found.borrow()
}

/// What a decision may look at beside that: the first tasks of a queue.
const LOOKS: u64 = 2 * 64 + 20;

#[test]
fn a_decision_takes_no_more_work_the_more_tasks_wait() {
    let machine = Machine::new(4, 2, 1, true).unwrap();
    for name in POLICIES {
        let work = [10, 100, 1_000].map(|tasks| most_work(name, &machine, tasks));
        println!("{name}: calls of select_cpu, enqueue, dispatch at 10 to 1,000 tasks: {work:?}");
        for callback in 0..3 {
            assert!(work[2][callback] <= work[0][callback] + LOOKS, "{name}: {work:?}");
        }
    }
}

/// Those of which the README says so.
const LINEAR_IN_CPUS: [&str; 3] = ["central", "nest", "pair"];

#[test]
fn only_who_says_so_takes_more_work_the_more_cpus_there_are() {
    for name in POLICIES {
        let work = [(2, 1, 1), (16, 2, 1), (128, 8, 2), (512, 32, 4)].map(|(cpus, llcs, nodes)| {
            most_work(name, &Machine::new(cpus, llcs, nodes, false).unwrap(), cpus * 2)
        });
        println!("{name}: calls of select_cpu, enqueue, dispatch at 2 to 512 CPUs: {work:?}");
        let most = work.map(|of_callbacks| *of_callbacks.iter().max().unwrap());
        let linear = most[3] > most[0] + LOOKS;
        assert_eq!(linear, LINEAR_IN_CPUS.contains(name), "{name}: {work:?}");
    }
}

/// It may have been preempted while it holds what all wait for, such as a read section of RCU.
#[test]
pub(crate) fn a_light_kernel_thread_has_its_turn_in_a_crowd() {
    const CROWD: usize = 80;
    const LENGTH: u64 = ms(8_000);
    for name in POLICIES {
        let outcome = policy(format!("khugepaged under {name}"), name)
            // One that may run on one CPU only is level 1's.
            .cpus(2)
            .tasks(CROWD, |i| TaskSpec::hog(format!("hog {i}")))
            .task(TaskSpec::hog("khugepaged").kthread().weight(1))
            .waits_at_most(LENGTH)
            .run_for(LENGTH)
            .pass();
        let ran = outcome.task("khugepaged").ran_ns;
        assert!(ran > 2 * LENGTH / (CROWD as u64 + 1) / 3, "{name}: it ran for {ran} ns");
    }
}
