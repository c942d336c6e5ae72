//! No program at all: the model of the fair class. And programs that come and go under
//! load, through it.

use crate::hotplug::off;
use crate::level1::{any_machine, any_policy, any_weight, change_any_task};
use metasched_sim::metasched::{program, replace_root, scenario};
use metasched_sim::random::Random;
use metasched_sim::{
    Machine, Outcome, Program, Scenario, TaskSpec, between, exactly, ms, seeds, us,
};

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

/// What a task asks for at once, on one CPU.
const SLICE: u64 = us(700);

fn mixed(run: Scenario, cpus: usize) -> Scenario {
    run.cpus(cpus).tasks(cpus, |i| TaskSpec::hog(format!("hog {i}"))).tasks(2 * cpus, |i| {
        TaskSpec::named(format!("sleeper {i}"))
            .run(between(us(50), ms(3)))
            .sleep(between(us(100), ms(5)))
            .for_ever()
    })
}

#[test]
fn weights_share_the_cpu() {
    Scenario::eevdf("weights 100, 300 and 600")
        .task(TaskSpec::hog("light"))
        .task(TaskSpec::hog("middle").weight(300))
        .task(TaskSpec::hog("heavy").weight(600))
        .shares(0.05)
        .run_for(ms(8_000))
        .pass();
}

#[test]
fn equal_weights_share_many_cpus_nearly() {
    let outcome = Scenario::eevdf("nine hogs on four CPUs")
        .cpus(4)
        .tasks(9, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(8_000))
        .pass();
    // One CPU has a third task; which one that is changes too seldom to be even.
    let fair = ms(8_000) * 4 / 9;
    for (name, figures) in outcome.all() {
        let share = figures.ran_ns as f64 / fair as f64;
        assert!((0.6..1.3).contains(&share), "{name}: {share:.2}");
    }
    let whole: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
    assert!(whole > ms(4 * 8_000 - 10), "CPUs were idle: {whole} ns in all");
}

#[test]
fn a_sleeper_waits_for_less_than_a_request_of_a_hog() {
    let outcome = Scenario::eevdf("a sleeper beside four hogs")
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::named("sleeper").run(exactly(us(100))).sleep(exactly(ms(10))).for_ever())
        .run_for(ms(4_000))
        .pass();
    let sleeper = outcome.task("sleeper");
    // Its request is due after those of the hogs that are owed something.
    assert!(sleeper.waited_ns / sleeper.waits < SLICE, "{} ns", sleeper.waited_ns);
    assert!(sleeper.waits > 350, "{}", sleeper.waits);
}

#[test]
fn a_long_sleep_earns_nothing() {
    let outcome = Scenario::eevdf("a long sleeper beside a hog")
        .task(TaskSpec::hog("hog"))
        .task(TaskSpec::named("sleeper").sleep(exactly(ms(2_000))).run(exactly(ms(1_000))))
        .run_for(ms(2_400))
        .pass();
    let ran = outcome.task("sleeper").ran_ns;
    assert!(ran.abs_diff(ms(200)) <= 2 * SLICE, "{ran}");
}

#[test]
fn hogs_take_turns_of_a_request_each() {
    let outcome = Scenario::eevdf("three hogs")
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .run_for(ms(3_000))
        .pass();
    for (name, hog) in outcome.all() {
        assert!(hog.longest_wait_ns <= 3 * SLICE, "{name}: {} ns", hog.longest_wait_ns);
        assert!(hog.waits > 1_000, "{name}: {}", hog.waits);
    }
}

#[test]
fn no_cpu_is_idle_beside_work_for_long() {
    for machine in [
        Machine::cpus(3),
        Machine::new(8, 2, 2, true).unwrap(),
        Machine::new(16, 4, 2, true).unwrap(),
    ] {
        for seed in seeds(5) {
            mixed(Scenario::eevdf(format!("fair on {machine}")), machine.nr_cpus())
                .machine(machine.clone())
                .seed(seed)
                .run_for(ms(1_000))
                .pass();
        }
    }
}

#[test]
fn affinities_hold_and_cpus_may_go() {
    let outcome = Scenario::eevdf("pinned, and a CPU goes")
        .cpus(3)
        .tasks(2, |i| TaskSpec::hog(format!("pinned {i}")).only_on([2]))
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(200), |kernel| off(kernel, 1))
        .at(ms(600), |kernel| off(kernel, 2))
        .at(ms(900), |kernel| {
            kernel.cpu_on(1);
            kernel.cpu_on(2);
        })
        .run_for(ms(1_500))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(200), "{name} ran for {} ns", figures.ran_ns);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_without_a_program() {
    let trace = |seed| mixed(Scenario::eevdf("fair"), 4).seed(seed).traced().pass().trace;
    let first = trace(5);
    assert!(first.lines().count() > 1_000);
    assert!(first == trace(5), "it differs from itself");
    assert!(first != trace(6), "it does not depend on the seed");
}

/// Programs whose every callback is in the kernel's order, whatever the tasks are at.
#[test]
fn a_program_may_come_and_go_under_load() {
    for seed in seeds(20) {
        let ordered = Program::of(FAULTS, "every_callback_loaded");
        let again = ordered.clone();
        let outcome = mixed(Scenario::eevdf("a program comes and goes"), 3)
            .task(TaskSpec::named("leaves").run(exactly(ms(130))))
            .tasks(10, |i| TaskSpec::named("comes").arrives(ms(20 * i as u64)).run(exactly(ms(30))))
            .at(ms(100), move |kernel| kernel.load(&ordered))
            .at(ms(500), |kernel| kernel.unload())
            .at(ms(800), move |kernel| kernel.load(&again))
            .at(ms(1_200), |kernel| {
                if kernel.loaded() != Some(2) {
                    kernel.fail("expectation", "the second load did not come");
                }
            })
            .seed(seed)
            .idle_at_most(ms(100))
            .waits_at_most(ms(600))
            .run_for(ms(1_500))
            .pass();
        for (task, figures) in outcome.all() {
            assert!(figures.ran_ns > ms(25), "{task} ran for {} ns", figures.ran_ns);
        }
    }
}

#[test]
fn a_second_program_is_refused_while_one_is_there() {
    for at in [ms(101), ms(400)] {
        let run = mixed(Scenario::eevdf("two programs"), 2)
            .at(ms(100), |kernel| kernel.load(&program("fifo")))
            .at(at, |kernel| kernel.load(&program("vtime")))
            .run_for(ms(500))
            .run();
        let Err(failure) = run else { panic!("both were loaded") };
        assert_eq!(failure.check, "load");
    }
}

/// The longest wait of a hog from the change on.
fn longest_wait(outcome: &Outcome) -> u64 {
    let hogs = outcome.all().filter(|(name, _)| name.starts_with("hog"));
    hogs.map(|(_, figures)| figures.longest_wait_ns).max().unwrap()
}

#[test]
fn replacing_a_lane_disturbs_less_than_swapping_the_program() {
    for (first, second) in [("fifo", "vtime"), ("vtime", "fifo")] {
        let lane = mixed(scenario("replaced in place", first), 2)
            .at(ms(300), move |kernel| replace_root(kernel, second))
            .traced()
            .run_for(ms(1_000))
            .pass();
        let swap = mixed(scenario("swapped", first), 2)
            .at(ms(300), |kernel| kernel.unload())
            .at(ms(450), move |kernel| kernel.load(&program(second)))
            .at(ms(900), |kernel| {
                if kernel.loaded() != Some(2) {
                    kernel.fail("expectation", "it is not loaded");
                }
            })
            .traced()
            .idle_at_most(ms(100))
            .run_for(ms(1_000))
            .pass();
        // The swap passes every task through the fair class: an insert there for each wake-up.
        let fair = |outcome: &Outcome| outcome.trace.matches("insert into Fair(").count();
        assert_eq!(fair(&lane), 0);
        assert!(fair(&swap) > 50, "{}", fair(&swap));
        assert!(longest_wait(&swap) < ms(400) && longest_wait(&lane) < ms(200));
    }
}

/// Any machine; programs, good ones, that come and go at any moment that the kernel allows,
/// beside CPUs that do, and weights and affinities that change.
fn anything(seed: u64) -> Scenario {
    let mut random = Random::new(seed ^ 0x10ad);
    let machine = any_machine(&mut random, 12);
    let cpus = machine.nr_cpus();
    let mut run = mixed(Scenario::eevdf("programs at random"), cpus).machine(machine);
    let mut at = random.within(0, ms(100));
    for _ in 0..3 {
        let name = any_policy(&mut random);
        run = run.at(at, move |kernel| kernel.load(&program(name)));
        at += random.within(ms(140), ms(300));
        run = run.at(at, |kernel| kernel.unload());
        at += random.within(ms(80), ms(200));
    }
    for _ in 0..random.within(0, 10) {
        let (which, bits, weight) = (random.bits(), random.bits(), any_weight(&mut random));
        run = run.at(random.within(0, at), move |kernel| {
            change_any_task(kernel, which, bits, weight);
        });
        let cpu = random.within(0, cpus as u64 - 1) as usize;
        run = run
            .at(random.within(0, at), move |kernel| {
                kernel.cpu_off(cpu);
            })
            .at(random.within(0, at), move |kernel| {
                kernel.cpu_on(cpu);
            });
    }
    run.at(at, |kernel| {
        for cpu in 0..kernel.nr_cpus() {
            kernel.cpu_on(cpu);
        }
    })
    .seed(seed)
    .idle_at_most(ms(400))
    .waits_at_most(ms(1_500))
    .run_for(at + ms(1_600))
}

#[test]
fn programs_and_cpus_may_come_and_go_at_any_moment() {
    for seed in seeds(60) {
        anything(seed).pass();
    }
}
