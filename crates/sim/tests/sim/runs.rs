//! What every run promises: the same seed gives the same bytes, and time passes
//! much faster than on a real machine.

use metasched_sim::metasched::{assign, lanes, scenario, set_app};
use metasched_sim::{Costs, Machine, Scenario, TaskSpec, between, metasched, ms, policy, us};

fn busy_machine(name: &str, cpus: usize, seed: u64) -> Scenario {
    policy(format!("{name} on a busy machine"), name)
        .cpus(cpus)
        .seed(seed)
        .tasks(2 * cpus, |i| TaskSpec::hog(format!("hog {i}")))
        .tasks(4 * cpus, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), ms(2)))
                .sleep(between(us(100), ms(10)))
                .for_ever()
        })
        .run_for(ms(500))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for name in metasched::POLICIES {
        let trace = |seed| busy_machine(name, 4, seed).traced().pass().trace;
        let first = trace(5);
        assert!(first.lines().count() > 1_000, "{name} did too little to tell");
        assert!(first == trace(5), "{name} differs from itself");
        assert!(first != trace(6), "{name} does not depend on the seed");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_a_machine_of_parts_that_come_and_go() {
    let machine = Machine::new(8, 2, 2, true).unwrap();
    let costs = Costs { switch_ns: 1_300, migration_across_ns: us(20), ..Costs::default() };
    let machine = machine.costs(costs);
    for name in metasched::POLICIES {
        let trace = |seed| {
            busy_machine(name, 8, seed)
                .machine(machine.clone())
                .at(ms(100), |kernel| assert!(kernel.cpu_off(3)))
                .at(ms(300), |kernel| assert!(kernel.cpu_on(3)))
                .traced()
                .pass()
                .trace
        };
        let first = trace(5);
        assert!(first == trace(5), "{name} differs from itself");
        assert!(first != trace(6), "{name} does not depend on the seed");
    }
}

#[test]
fn kernels_that_run_in_parallel_share_nothing() {
    let alone = busy_machine("vtime", 2, 3).traced().pass().trace;
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| busy_machine("vtime", 2, 3).traced().pass().trace))
        .collect();
    for thread in threads {
        assert!(thread.join().expect("it passes") == alone);
    }
}

/// Slower than this, the sweeps over seeds would take minutes. The aim is far
/// above; a debug build on a loaded machine must pass too.
const SLOWEST: f64 = 2.0;

#[test]
fn simulated_time_passes_faster_than_real_time() {
    for name in metasched::POLICIES {
        let outcome = busy_machine(name, 8, 1).run_for(ms(2_000)).pass();
        println!(
            "{name}, 8 CPUs, contended: {:.0} times real time, {} events, {} switches in {:?}",
            outcome.speed(),
            outcome.events,
            outcome.switches,
            outcome.wall
        );
        assert!(outcome.speed() > SLOWEST, "{name}: {:.1}", outcome.speed());
    }
}

#[test]
fn thousands_of_tasks_in_hundreds_of_cgroups_run_on_as_many_lanes_as_there_can_be() {
    const LANES: usize = 63;
    const CGROUPS: usize = 512;
    let outcome = scenario("the big case in small", "vtime")
        .machine(Machine::new(64, 4, 2, true).unwrap())
        .at(0, |kernel| {
            for app in 1..LANES {
                set_app(kernel, app as u32, metasched::POLICIES[app % 2], 100);
                assign(kernel, &format!("app{app}"), app as u32);
            }
        })
        .tasks(5_000, |i| {
            let spec = match i % 50 {
                0 => TaskSpec::hog(format!("hog {i}")),
                _ => TaskSpec::named(format!("sleeper {i}"))
                    .run(between(us(200), ms(1)))
                    .sleep(between(ms(50), ms(200)))
                    .for_ever(),
            };
            let cgroup = i % CGROUPS;
            spec.in_cgroup(format!("app{}/{cgroup}", cgroup % LANES)).arrives(us(10) * i as u64)
        })
        .at(ms(300), |kernel| {
            let served = lanes(kernel).iter().filter(|lane| lane.runtime_ns > 0).count();
            if served < LANES {
                kernel.fail("expectation", format!("only {served} lanes ran anything"));
            }
        })
        .run_for(ms(301))
        .pass();
    let ran = outcome.all().filter(|(_, figures)| figures.ran_ns > 0).count();
    assert_eq!(ran, 5_000, "tasks ran");
}

/// As many as a scheduler could never have to look at at one instant.
const AT_ONCE: usize = 120_000;

#[test]
fn any_number_of_tasks_may_come_at_one_instant() {
    let outcome = Scenario::eevdf("they come at once")
        .cpus(64)
        .tasks(AT_ONCE, |i| TaskSpec::named(format!("task {i}")))
        .waits_at_most(ms(60_000))
        .run_for(ms(1))
        .pass();
    assert!(outcome.events > AT_ONCE as u64);
}
