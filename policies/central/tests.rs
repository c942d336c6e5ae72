//! What central promises, run in the simulator from its own source.

use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{assign, set_app, set_app_with, set_option};
use metasched_sim::{Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// The timer looks so often.
const LOOK: u64 = ms(1);
/// A CPU that asks often is answered so often.
const ANSWER: u64 = us(100);
/// What a CPU was handed and has not taken for so long is for all again.
const HELD: u64 = ms(5);
/// An interrupt that is on its way, and what callbacks take.
const SOON: u64 = us(20);

/// An option by its name, as the simulator takes it.
fn option(name: &str, value: u64) -> (usize, u64) {
    options::option("central", name, &value.to_string()).unwrap()
}

fn central(name: &str, set: &[(&str, u64)]) -> Scenario {
    let set: Vec<(usize, u64)> = set.iter().map(|(name, value)| option(name, *value)).collect();
    policy(name, "central").at(0, move |kernel| {
        for (option, value) in &set {
            set_option(kernel, 0, *option, *value);
        }
    })
}

fn hogs(run: Scenario, n: usize) -> Scenario {
    run.tasks(n, |i| TaskSpec::hog(format!("hog {i}")))
}

fn sleeper(name: &str) -> TaskSpec {
    TaskSpec::named(name).run(exactly(us(200))).sleep(exactly(ms(3))).for_ever()
}

/// The lines of a trace between two times that end so; the CPU of each.
fn cpus_of(outcome: &Outcome, from: u64, to: u64, end: &str) -> Vec<usize> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let at: u64 = words.next()?.parse().ok()?;
        let cpu: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        ((from..to).contains(&at) && line.ends_with(end)).then_some(cpu)
    };
    outcome.trace.lines().filter_map(parse).collect()
}

fn longest_wait(outcome: &Outcome, name: &str) -> u64 {
    let of = outcome.all().filter(|(who, _)| who.starts_with(name));
    of.map(|(_, figures)| figures.longest_wait_ns).max().unwrap()
}

#[test]
fn tasks_run_in_the_order_they_came() {
    let names: Vec<String> = (0..10).map(|i| format!("task {i}")).collect();
    let outcome = policy("ten arrivals", "central")
        .cpus(2)
        .tasks(2, |i| TaskSpec::named(format!("occupant {i}")).run(exactly(ms(12))))
        .tasks(10, |i| {
            TaskSpec::named(&names[i]).arrives(ms(1) + us(i as u64)).run(exactly(us(300)))
        })
        .pass();
    assert_eq!(outcome.first_runs()[2..], names);
}

/// A slice has no end; the timer ends it, which finds it sooner than a tick would.
#[test]
fn a_task_makes_way_after_its_slice_for_one_that_waits() {
    for slice in [ms(5), SLICE] {
        let run = central("six hogs on two CPUs", &[("slice_ns", slice)]).cpus(2);
        let outcome = hogs(run, 6).run_for(ms(3_000)).pass();
        let longest = longest_wait(&outcome, "hog");
        assert!(longest >= 2 * slice, "{longest} with {slice}");
        assert!(longest <= 2 * (slice + 2 * LOOK) + SOON, "{longest} with {slice}");
        for (name, figures) in outcome.all() {
            assert!(figures.ran_ns.abs_diff(ms(1_000)) <= ms(60), "{name}: {}", figures.ran_ns);
        }
    }
}

#[test]
fn while_nobody_waits_nobody_is_interrupted() {
    let outcome = hogs(policy("a hog for each CPU", "central").cpus(4), 4)
        .traced()
        .run_for(ms(2_000))
        .pass();
    let (from, to) = (ms(100), ms(1_999));
    assert_eq!(cpus_of(&outcome, 0, to, " start").len(), 4);
    for what in [" ops.dispatch", "kick", "kick, preempt"] {
        let seen = cpus_of(&outcome, from, to, what);
        assert!(seen.is_empty(), "{what}: {seen:?}");
    }
}

/// The CPU that decides is interrupted for who wakes, the others are not.
#[test]
fn the_cpu_of_the_option_decides() {
    for decides in [0, 2, 3] {
        let run = central("who decides", &[("central_cpu", decides)]).cpus(4);
        let outcome = hogs(run, 3)
            .task(sleeper("sleeper").arrives(ms(5)))
            .traced()
            .run_for(ms(19))
            .pass();
        let asked = cpus_of(&outcome, ms(6), ms(19), "kick, preempt");
        assert!(asked.len() > 3, "{asked:?}");
        assert!(asked.iter().all(|cpu| *cpu == decides as usize), "{asked:?}, not {decides}");
    }
}

#[test]
fn where_there_is_no_such_cpu_the_lowest_one_decides() {
    let run = central("no such CPU", &[("central_cpu", 100)]).cpus(4);
    let outcome = hogs(run, 3).task(sleeper("sleeper")).traced().run_for(ms(19)).pass();
    let asked = cpus_of(&outcome, ms(6), ms(19), "kick, preempt");
    assert!(asked.len() > 2 && asked.iter().all(|cpu| *cpu == 0), "{asked:?}");
}

#[test]
fn an_idle_cpu_has_a_task_as_soon_as_it_is_answered() {
    let outcome = hogs(policy("a sleeper beside an idle CPU", "central").cpus(4), 3)
        .task(sleeper("sleeper"))
        .run_for(ms(2_000))
        .pass();
    assert!(longest_wait(&outcome, "sleeper") <= SOON);
    let outcome = policy("sleepers on idle CPUs", "central")
        .cpus(8)
        .tasks(6, |i| sleeper(&format!("sleeper {i}")))
        .run_for(ms(1_000))
        .pass();
    assert!(longest_wait(&outcome, "sleeper") <= ANSWER + SOON);
}

/// More tasks for CPU 1 than one look passes stand before one for CPU 2, which is idle.
#[test]
fn nobody_stands_behind_those_that_may_run_elsewhere_only() {
    let outcome = policy("many for one CPU", "central")
        .cpus(4)
        .tasks(60, |i| TaskSpec::named(format!("one {i}")).only_on([1]).run(exactly(ms(3))))
        .task(TaskSpec::named("two").only_on([2]).arrives(us(50)).run(exactly(ms(3))))
        .task(TaskSpec::named("any").arrives(us(60)).run(exactly(ms(3))))
        .run_for(ms(400))
        .pass();
    for name in ["two", "any"] {
        assert!(longest_wait(&outcome, name) <= 2 * LOOK, "{}", longest_wait(&outcome, name));
    }
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns >= ms(3), "{name} ran {}", figures.ran_ns);
    }
}

fn off(kernel: &mut Kernel, cpu: usize) {
    if !kernel.cpu_off(cpu) {
        kernel.fail("expectation", format!("CPU {cpu} does not go off line"));
    }
}

/// CPU 0 goes, and CPU 1; both come back.
#[test]
fn another_cpu_decides_while_the_central_one_is_off_line() {
    let run = hogs(policy("the central CPU goes", "central").cpus(4), 5);
    let outcome = run
        .task(sleeper("sleeper").only_on([2, 3]))
        .at(ms(300), |kernel| off(kernel, 0))
        .at(ms(600), |kernel| off(kernel, 1))
        .at(ms(900), |kernel| {
            kernel.cpu_on(1);
            kernel.cpu_on(0);
        })
        .traced()
        .run_for(ms(1_400))
        .pass();
    assert!(longest_wait(&outcome, "hog") <= 3 * (SLICE + 2 * LOOK));
    // For those that wake, not those whose slices the timer ends.
    let most = |from, to| {
        let asked = cpus_of(&outcome, from, to, "kick, preempt");
        (0..4).max_by_key(|cpu| asked.iter().filter(|asked| *asked == cpu).count()).unwrap()
    };
    assert_eq!([most(0, ms(300)), most(ms(310), ms(600))], [0, 1]);
    assert_eq!([most(ms(610), ms(900)), most(ms(910), ms(1_400))], [2, 0]);
}

/// CPU 0 decides and does not answer for 200 ms; hogs take turns on the others, and there is one
/// CPU for those that sleep.
#[test]
fn while_the_central_cpu_does_not_answer_another_one_decides() {
    let run = hogs(policy("a higher class has the central CPU", "central").cpus(4), 2);
    let outcome = run
        .tasks(3, |i| sleeper(&format!("sleeper {i}")).only_on([1, 2, 3]))
        .at(ms(100), |kernel| kernel.take_cpu(0, ms(200)))
        .at(ms(100), |kernel| kernel.forget_figures())
        .run_for(ms(299))
        .pass();
    let longest = longest_wait(&outcome, "sleeper");
    assert!(longest > SOON, "{longest}: it has answered");
    // Until the timer looks, finds that nobody answers, and has asked CPU 0 once more.
    assert!(longest <= 4 * LOOK, "{longest}");
    let ran: u64 = outcome.all().filter(|(name, _)| name.starts_with("sl")).map(|(_, f)| f.ran_ns).sum();
    assert!(ran > ms(15), "{ran}");
}

/// Slices end there too: what counts them is the timer.
#[test]
fn slices_end_while_the_central_cpu_does_not_answer() {
    let run = hogs(policy("hogs beside a higher class", "central").cpus(3), 5);
    let outcome = run
        .at(ms(100), |kernel| kernel.take_cpu(0, ms(600)))
        .at(ms(101), |kernel| kernel.forget_figures())
        .run_for(ms(690))
        .pass();
    // The one that CPU 0 ran waits there, as under any policy; the other four have two CPUs.
    let mut ran: Vec<u64> = outcome.all().map(|(_, figures)| figures.ran_ns).collect();
    ran.sort_unstable();
    assert!(ran[0] == 0 && ran[1] > ms(250), "{ran:?}");
}

/// A higher class has an idle CPU, which was handed a task at that moment.
#[test]
fn what_a_cpu_does_not_take_another_one_does() {
    let run = policy("handed to one that is gone", "central").cpus(3);
    let outcome = run
        .task(TaskSpec::hog("hog"))
        .tasks(2, |i| TaskSpec::named(format!("short {i}")).arrives(ms(50)).run(exactly(ms(1))))
        .at(ms(10), |kernel| {
            kernel.take_cpu(1, ms(300));
            kernel.take_cpu(2, ms(300));
        })
        .at(ms(80), |kernel| {
            kernel.cpu_on(1);
        })
        .run_for(ms(400))
        .pass();
    // CPU 0 has it when the hog has had its slice.
    let longest = longest_wait(&outcome, "short");
    assert!(longest > HELD && longest <= HELD + 3 * (SLICE + 2 * LOOK), "{longest}");
}

#[test]
fn a_kernel_thread_waits_neither_for_a_slice_nor_for_the_central_cpu() {
    let run = hogs(policy("a kernel thread of CPU 2", "central").cpus(3), 3);
    let outcome = run
        .task(
            TaskSpec::named("thread")
                .kthread()
                .only_on([2])
                .run(exactly(us(100)))
                .sleep(exactly(ms(7)))
                .for_ever(),
        )
        .at(ms(100), |kernel| kernel.take_cpu(0, ms(200)))
        .run_for(ms(1_000))
        .pass();
    assert!(longest_wait(&outcome, "thread") <= SOON, "{}", longest_wait(&outcome, "thread"));
}

#[test]
fn one_cpu_decides_for_itself() {
    let outcome = hogs(policy("one CPU", "central"), 3)
        .task(sleeper("sleeper"))
        .run_for(ms(3_000))
        .pass();
    assert!(longest_wait(&outcome, "hog") <= 3 * (SLICE + 2 * LOOK));
    assert!(outcome.task("sleeper").ran_ns >= ms(8));
}

/// Each of two lanes has a central CPU of its own.
#[test]
fn lanes_have_central_cpus_of_their_own() {
    let in_cgroup = |name: &'static str| {
        move |i: usize| {
            TaskSpec::named(format!("{name} {i}"))
                .in_cgroup(name)
                .run(between(us(200), us(900)))
                .sleep(between(us(500), ms(3)))
                .for_ever()
        }
    };
    let outcome = policy("two lanes", "fifo")
        .cpus(4)
        .tasks(6, in_cgroup("a"))
        .tasks(6, in_cgroup("b"))
        .at(0, |kernel| {
            set_app(kernel, 1, "central", 100);
            set_app_with(kernel, 2, "central", (100, true), &[option("central_cpu", 3)]);
            assign(kernel, "a", 1);
            assign(kernel, "b", 2);
        })
        .traced()
        .run_for(ms(500))
        .pass();
    let asked = cpus_of(&outcome, ms(100), ms(500), "kick, preempt");
    let times = |cpu| asked.iter().filter(|asked| **asked == cpu).count();
    assert!(times(0) > 5 * times(1) && times(3) > 5 * times(1), "{} of {asked:?}", times(1));
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(50), "{name} ran {}", figures.ran_ns);
        assert!(figures.longest_wait_ns <= ms(20), "{name}: {}", figures.longest_wait_ns);
    }
}
