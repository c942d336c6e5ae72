//! CPUs that go and come: nobody is left behind, and policies hear of it in the kernel's
//! order.

use crate::level1::loaded;
use metasched_sim::abi::CpuMask;
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{POLICIES, assign, replace_root, scenario_of, set_app};
use metasched_sim::{Machine, Scenario, TaskSpec, exactly, ms, policy, us};

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

/// A condition of the scenario's own.
fn expect(kernel: &mut Kernel, holds: bool, what: &str) {
    if !holds {
        kernel.fail("expectation", what);
    }
}

pub(crate) fn off(kernel: &mut Kernel, cpu: usize) {
    let done = kernel.cpu_off(cpu);
    expect(kernel, done, &format!("CPU {cpu} cannot go off line"));
}

/// For programs that have no sweep: on a kernel they would be lucky.
fn off_without_readers(kernel: &mut Kernel, cpu: usize) {
    let done = kernel.cpu_off_without_readers(cpu);
    expect(kernel, done, &format!("CPU {cpu} cannot go off line"));
}

#[test]
fn nothing_runs_on_a_cpu_that_is_off_line() {
    for name in POLICIES {
        let outcome = loaded(&format!("{name} loses a CPU"), name, 4)
            .at(ms(100), |kernel| off(kernel, 2))
            .traced()
            .run_for(ms(400))
            .pass();
        // What is there when it goes comes to run once more, and is pushed away; and so does what the policy
        // had kept for it until it was told that it goes.
        let lines = || outcome.trace.lines().filter(|line| line.contains("cpu2 "));
        let at = |line: &str| line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        let goes = |line: &&str| line.ends_with(" offline") || line.ends_with(" left");
        let going: Vec<u64> = lines().filter(goes).map(at).collect();
        assert_eq!((going.len(), going[0]), (2, ms(100)), "under {name}");
        let late = |at: &u64| *at >= going[1] + ms(1);
        let starts = || lines().filter(|line| line.ends_with(" start"));
        assert_eq!(starts().map(at).filter(late).count(), 0, "under {name}");
        let mut between: Vec<&str> = starts()
            .filter(|line| (ms(100) + 1..going[1]).contains(&at(line)))
            .map(|line| line.split_whitespace().find(|word| word.starts_with("task")).unwrap())
            .collect();
        let all = between.len();
        between.sort_unstable();
        between.dedup();
        assert_eq!(between.len(), all, "none runs there more than once under {name}");
        for (task, figures) in outcome.all() {
            assert!(figures.ran_ns > ms(5), "{task} ran for {} ns under {name}", figures.ran_ns);
        }
    }
}

#[test]
fn a_cpu_that_comes_back_is_used_again() {
    for name in POLICIES {
        let outcome = policy("two hogs", name)
            .cpus(2)
            .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
            .at(ms(100), |kernel| off(kernel, 1))
            .at(ms(500), |kernel| {
                let done = kernel.cpu_on(1);
                expect(kernel, done, "it does not come back");
            })
            .run_for(ms(1_000))
            .pass();
        let ran: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
        // One CPU for 400 ms, two for the rest; a task that waits is taken along by the
        // next slice that ends.
        assert!(ran.abs_diff(ms(1_600)) <= ms(30), "{} ms under {name}", ran / ms(1));
    }
}

#[test]
fn a_task_that_has_nowhere_else_to_run_may_run_anywhere() {
    for name in POLICIES {
        let outcome = policy("pinned where a CPU goes", name)
            .cpus(2)
            .task(TaskSpec::hog("running").only_on([1]))
            .task(TaskSpec::hog("queued").only_on([1]))
            .task(
                TaskSpec::named("asleep")
                    .only_on([1])
                    .run(exactly(us(500)))
                    .sleep(exactly(ms(30)))
                    .for_ever(),
            )
            .at(ms(100), |kernel| off(kernel, 1))
            .waits_at_most(ms(150))
            .run_for(ms(1_000))
            .pass();
        for (task, figures) in outcome.all() {
            let least = if task == "asleep" { ms(3) } else { ms(400) };
            assert!(figures.ran_ns > least, "{task} ran for {} ns", figures.ran_ns);
        }
    }
}

#[test]
fn a_policy_that_leaves_pinned_tasks_behind_is_caught() {
    let run = |ops: &str| {
        Scenario::of(format!("pinned under {ops}"), FAULTS, ops)
            .cpus(2)
            .tasks(2, |i| TaskSpec::hog(format!("pinned {i}")).only_on([1]))
            .at(ms(100), |kernel| off_without_readers(kernel, 1))
            .run_for(ms(3_000))
            .run()
    };
    run("hotplug_honest").unwrap();
    let Err(failure) = run("leaves_tasks_behind") else { panic!("not caught") };
    assert_eq!(failure.check, "waiting_bounded");
}

/// Sleepers that wake all the time, on CPUs that go off line and come back.
fn wakes_on_dying_cpus(scenario: Scenario) -> Scenario {
    let mut scenario = scenario
        .cpus(4)
        .task(TaskSpec::hog("hog"))
        .tasks(8, |i| {
            let sleeper = TaskSpec::named(format!("sleeper {i}"));
            sleeper.run(exactly(us(100))).sleep(exactly(us(700 + 10 * i as u64))).for_ever()
        })
        .tasks(3, |i| {
            let pinned = TaskSpec::named(format!("pinned {i}")).only_on([i + 1]);
            pinned.run(exactly(us(100))).sleep(exactly(us(900))).for_ever()
        });
    for i in 0..20 {
        let cpu = 1 + i as usize % 3;
        // One that has been leaving since its last time is let alone: under bpfland's lanes that can take 350 ms.
        scenario = scenario
            .at(ms(120 * i + 10), move |kernel| {
                kernel.cpu_off(cpu);
            })
            .at(ms(120 * i + 90), move |kernel| {
                kernel.cpu_on(cpu);
            });
    }
    scenario
}

/// Tasks that dying CPUs wake, in a lane beside another one.
pub(crate) fn woken_by_dying_cpus(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "woken by dying CPUs", "fifo");
    let hogs = |i| TaskSpec::hog(format!("hog of a lane {i}")).in_cgroup("a");
    wakes_on_dying_cpus(run)
        .tasks(4, hogs)
        .at(0, |kernel| {
            set_app(kernel, 1, "vtime", 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(2_420))
}

#[test]
fn nothing_is_asked_of_a_dying_cpus_interrupts() {
    let faulty = Scenario::of("kicks from a dying CPU", FAULTS, "kicks_from_dying_cpu");
    let Err(failure) = wakes_on_dying_cpus(faulty).run_for(ms(2_420)).run() else {
        panic!("not caught")
    };
    assert_eq!(failure.check, "lost");
    for name in POLICIES {
        wakes_on_dying_cpus(policy("wakes on dying CPUs", name)).run_for(ms(2_420)).pass();
        let app = loaded(&format!("wakes on dying CPUs, lanes of {name}"), name, 4);
        wakes_on_dying_cpus(app).run_for(ms(2_420)).pass();
    }
}

/// Between its last task and the word of it to the policy is a grace period of RCU. For that a thread
/// of the kernel has to run, which may wait in a queue of that very CPU; and so may a task that was
/// preempted where it reads under RCU, and may run nowhere else.
#[test]
fn nobody_waits_for_a_cpu_that_leaves() {
    for name in POLICIES {
        for (cpus, llcs) in [(4, 1), (4, 4), (2, 2)] {
            let machine = Machine::new(cpus, llcs, 1, false).unwrap();
            let mut run = policy(format!("{name} while CPUs of {llcs} caches leave"), name)
                .machine(machine)
                .tasks(2 * cpus + 1, |i| TaskSpec::hog(format!("hog {i}")))
                .tasks(cpus, |i| TaskSpec::hog(format!("bound {i}")).only_on([i % cpus]));
            for cpu in 0..cpus {
                let at = ms(1_000 * cpu as u64);
                run = run.at(at + ms(300), move |kernel| off(kernel, cpu)).at(
                    at + ms(800),
                    move |kernel| {
                        kernel.cpu_on(cpu);
                    },
                );
            }
            run.run_for(ms(4_000)).pass();
        }
    }
}

#[test]
fn callbacks_keep_their_order_while_cpus_come_and_go() {
    let mut run = Scenario::of("every callback under hotplug", FAULTS, "every_callback_hotplug")
        .cpus(4)
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .tasks(3, |i| TaskSpec::hog(format!("pinned {i}")).only_on([i + 1]))
        .tasks(6, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(exactly(us(700)))
                .sleep(exactly(ms(2) + us(i as u64)))
                .for_ever()
        });
    for i in 0..20 {
        let cpu = 1 + i as usize % 3;
        run = run.at(ms(60 * i + 10), move |kernel| off_without_readers(kernel, cpu)).at(
            ms(60 * i + 40),
            move |kernel| {
                kernel.cpu_on(cpu);
            },
        );
    }
    run.at(ms(1_500), |kernel| {
        // Each pinned task has its affinity broken once, when its CPU first goes.
        for (counter, expected) in [("offlines", 20), ("onlines", 20), ("cpumasks", 3)] {
            // SAFETY: faults/every_callback.bpf.c declares it as a u64, and no callback runs now.
            let seen = unsafe { *kernel.image().required(counter).unwrap().cast::<u64>() };
            expect(kernel, seen == expected, &format!("{seen} {counter}"));
        }
    })
    .run_for(ms(1_501))
    .pass();
}

#[test]
fn a_policy_without_the_callbacks_leaves_and_asks_for_a_restart() {
    let outcome = Scenario::of("no callbacks for it", FAULTS, "honest")
        .cpus(2)
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(100), |kernel| off(kernel, 1))
        .at(ms(300), |kernel| {
            let loaded = kernel.loaded();
            expect(kernel, loaded.is_none(), "it is still there");
        })
        .run_for(ms(500))
        .pass();
    let exit = outcome.exit.as_ref().expect("it left");
    assert_eq!(exit.message, "cpu 1 going offline, exiting scheduler");
    assert_eq!((exit.kind, exit.code), (66, 1 << 48 | 1 << 32));
    for (task, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(100), "{task} ran for {} ns", figures.ran_ns);
    }
}

#[test]
fn the_last_cpu_stays() {
    policy("down to one", "fifo")
        .cpus(3)
        .tasks(5, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(10), |kernel| {
            off(kernel, 0);
            off(kernel, 2);
            let refused = !kernel.cpu_off(1) && !kernel.cpu_off(0);
            expect(kernel, refused, "the last one went");
        })
        .run_for(ms(300))
        .pass();
}

#[test]
fn an_affinity_without_a_cpu_on_line_is_refused() {
    policy("an affinity to nothing", "fifo")
        .cpus(2)
        .task(TaskSpec::hog("hog").only_on([0]))
        .at(ms(10), |kernel| {
            off(kernel, 1);
            let hog = kernel.task_named("hog");
            kernel.set_affinity(hog, CpuMask::one(1));
        })
        .run_for(ms(200))
        .pass();
}

#[test]
fn a_kick_to_a_cpu_that_is_off_does_nothing() {
    // Replacing the lane kicks every CPU, also the one that is gone.
    let outcome = loaded("kicks into the void", "fifo", 3)
        .at(ms(50), |kernel| off(kernel, 2))
        .at(ms(400), |kernel| replace_root(kernel, "vtime"))
        .traced()
        .run_for(ms(600))
        .pass();
    let after = outcome.trace.lines().skip_while(|line| !line.contains("replace the root"));
    assert!(after.clone().count() > 100);
    let happens = |line: &&str| line.contains("cpu2 ") && !line.contains(" kick");
    assert_eq!(after.filter(happens).count(), 0);
}

#[test]
fn siblings_of_a_cpu_that_is_off_make_a_core() {
    // CPU 1 is gone, so that CPU 0 is a whole core, and idle ones are found on 2 and 3.
    let outcome = policy("half a core", "vtime")
        .machine(Machine::new(4, 1, 1, true).unwrap())
        .tasks(6, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(exactly(us(900)))
                .sleep(exactly(ms(1)))
                .for_ever()
        })
        .at(ms(20), |kernel| off(kernel, 1))
        .run_for(ms(500))
        .pass();
    assert!(outcome.all().all(|(_, figures)| figures.ran_ns > ms(50)));
}
