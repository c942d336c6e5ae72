//! The machine under the policies: where a task goes that wakes, and what it costs.

use metasched_scenario::file::{KernelThread, MachineSpec};
use metasched_sim::step::Step;
use metasched_sim::{
    Costs, Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, policy, us,
};
use std::cell::Cell;
use std::rc::Rc;

/// A task that last ran on CPU `last` wakes on this machine while those in `busy` run hogs:
/// the CPU that it comes to.
fn wakes_on(machine: &Machine, last: usize, busy: &[usize], seed: u64) -> usize {
    let found = Rc::new(Cell::new(usize::MAX));
    let seen = Rc::clone(&found);
    let all = machine.all();
    let mut run = policy("where it wakes", "fifo").machine(machine.clone()).seed(seed);
    for cpu in busy {
        run = run.task(TaskSpec::hog(format!("hog {cpu}")).only_on([*cpu]).arrives(ms(5)));
    }
    run.task(
        TaskSpec::named("it")
            .only_on([last])
            .run(exactly(us(100)))
            .sleep(exactly(ms(50)))
            .run(exactly(ms(20))),
    )
    .at(ms(20), move |kernel| {
        let it = kernel.task_named("it");
        kernel.set_affinity(it, all);
    })
    .at(ms(51), move |kernel| {
        let it = kernel.task_named("it");
        seen.set(kernel.cpu_of(it));
    })
    .run_for(ms(60))
    .pass();
    found.get()
}

/// Whatever the seed, it wakes on one of these.
fn wakes_within(machine: &Machine, last: usize, busy: &[usize], expected: &[usize]) {
    for seed in 1..=8 {
        let cpu = wakes_on(machine, last, busy, seed);
        assert!(
            expected.contains(&cpu),
            "from CPU {last} beside {busy:?} it went to {cpu}, not to one of {expected:?}"
        );
    }
}

#[test]
fn a_wholly_idle_core_comes_before_the_idle_sibling_of_a_busy_one() {
    let machine = Machine::new(4, 1, 1, true).unwrap();
    wakes_within(&machine, 1, &[], &[1]);
    wakes_within(&machine, 1, &[0], &[2, 3]);
    // No core is wholly idle: the CPU that it was on, then its sibling, then any.
    wakes_within(&machine, 1, &[0, 2], &[1]);
    wakes_within(&machine, 0, &[0, 2], &[1]);
    wakes_within(&machine, 1, &[0, 1, 2], &[3]);
    // Without SMT the CPU that it was on is as good as any.
    wakes_within(&Machine::cpus(4), 1, &[0], &[1]);
}

#[test]
fn its_cache_comes_before_its_node_and_its_node_before_the_rest() {
    let machine = Machine::new(8, 4, 2, false).unwrap();
    wakes_within(&machine, 0, &[0], &[1]);
    wakes_within(&machine, 0, &[0, 1], &[2, 3]);
    wakes_within(&machine, 5, &[4, 5], &[6, 7]);
    wakes_within(&machine, 0, &[0, 1, 2, 3], &[4, 5, 6, 7]);
}

#[test]
fn a_wholly_idle_core_far_away_comes_before_a_sibling_near_by() {
    let machine = Machine::new(8, 2, 2, true).unwrap();
    wakes_within(&machine, 0, &[0, 2], &[4, 5, 6, 7]);
    wakes_within(&machine, 0, &[0], &[2, 3]);
}

/// Six hogs on two CPUs, and a task that is woken on the one where it did not run.
fn priced(costs: Costs) -> Outcome {
    policy("a machine with costs", "fifo")
        .machine(Machine::new(2, 2, 2, false).unwrap().costs(costs))
        .tasks(6, |i| TaskSpec::hog(format!("hog {i}")))
        .tasks(2, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), us(500)))
                .sleep(between(us(500), ms(3)))
                .for_ever()
        })
        .run_for(ms(1_000))
        .pass()
}

/// What tasks ran on a machine where each had nothing but them.
fn ran(outcome: &Outcome) -> u64 {
    outcome.all().map(|(_, figures)| figures.ran_ns).sum()
}

#[test]
fn what_the_kernel_takes_is_nobodys_run_time() {
    let free = priced(Costs::default());
    assert_eq!(free.lost_ns, 0);
    for (name, costs) in [
        ("switches", Costs { switch_ns: us(20), ..Costs::default() }),
        ("migrations", Costs { migration_across_ns: us(200), ..Costs::default() }),
        ("callbacks", Costs { callback_ns: us(2), ..Costs::default() }),
        ("calls", Costs { kfunc_ns: us(1), ..Costs::default() }),
    ] {
        let outcome = priced(costs);
        assert!(outcome.lost_ns > ms(1), "{name} cost {} us", outcome.lost_ns / 1_000);
        // Both CPUs are always busy: what is not lost is run, but for the first interrupts.
        let whole = ran(&outcome) + outcome.lost_ns;
        assert!(whole.abs_diff(2 * ms(1_000)) < us(100), "{name}: {whole} ns in all");
    }
}

#[test]
fn a_switch_costs_what_it_is_said_to() {
    let outcome = priced(Costs { switch_ns: us(20), ..Costs::default() });
    let per_switch = outcome.lost_ns / outcome.switches;
    assert!((us(19)..=us(20)).contains(&per_switch), "{per_switch} ns each");
}

/// Hogs, each in a cgroup of that path, on one CPU: what a switch costs.
fn nested(groups: usize, path: impl Fn(usize) -> String, run: Scenario) -> u64 {
    let costs = Costs { group_level_ns: us(10), group_queued_ns: us(3), ..Costs::default() };
    let outcome = run
        .machine(Machine::cpus(1).costs(costs))
        .tasks(groups, |i| TaskSpec::hog(format!("hog {i}")).in_cgroup(path(i)))
        .waits_at_most(ms(4_000))
        .run_for(ms(2_000))
        .pass();
    outcome.lost_ns / outcome.switches
}

#[test]
fn a_switch_of_the_kernels_own_class_costs_more_the_deeper_and_the_more_cgroups_there_are() {
    let eevdf = || Scenario::eevdf("nested cgroups");
    let apart = |depth: usize| move |i: usize| format!("{i}{}", "/below".repeat(depth - 1));
    let near = |seen: u64, levels: u64, doublings: u64| {
        let due = levels * (us(10) + doublings * us(3));
        assert!(seen.abs_diff(due) < due / 20, "{levels} levels, {doublings}: {seen} ns for {due}");
    };
    // Of 1, 3, 7, 2 times 2, and 3 times 13 cgroups.
    for (depth, groups, doublings) in [(1, 1, 1), (1, 3, 2), (1, 7, 3), (2, 2, 2), (3, 13, 5)] {
        near(nested(groups, apart(depth), eevdf()), depth as u64, doublings);
    }
    // What both tasks are below is left as it is.
    near(nested(13, |i| format!("above/above/{i}"), eevdf()), 1, 4);
    assert_eq!(nested(13, apart(3), policy("nested cgroups", "fifo")), 0);
}

#[test]
fn a_base_slice_is_what_tasks_ask_for() {
    let switches = |machine: Machine| {
        let run = Scenario::eevdf("slices").machine(machine);
        run.tasks(3, |i| TaskSpec::hog(format!("hog {i}"))).run_for(ms(3_000)).pass().switches
    };
    let long = switches(Machine::cpus(1).base_slice_ns(ms(100)));
    assert!((25..=35).contains(&long), "{long} slices of 100 ms in 3 s");
    assert!(switches(Machine::cpus(1)) > 500);
}

#[test]
fn a_move_within_a_cache_is_not_charged_as_one_across_nodes() {
    let migrations = |llcs, nodes| {
        let costs = Costs { migration_across_ns: us(100), ..Costs::default() };
        let machine = Machine::new(2, llcs, nodes, false).unwrap().costs(costs);
        let run = policy("two CPUs", "fifo").machine(machine);
        run.tasks(5, |i| TaskSpec::hog(format!("hog {i}"))).run_for(ms(1_000)).pass().lost_ns
    };
    assert!(migrations(2, 2) > ms(1));
    assert_eq!(migrations(2, 1), 0);
    assert_eq!(migrations(1, 1), 0);
}

#[test]
fn ticks_come_as_often_as_the_machine_says() {
    for hz in [100, 250, 1_000] {
        let machine = Machine::cpus(1).hz(hz).unwrap();
        let tick = machine.tick_ns();
        let outcome = policy("slices end at ticks", "fifo")
            .machine(machine)
            .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
            .run_for(ms(2_000))
            .pass();
        // The default slice of 20 ms, and the rest of the tick in which it ends.
        let longest = outcome.task("hog 1").longest_wait_ns;
        assert!(longest <= ms(20) + tick + us(10), "{hz} Hz: {longest} ns");
        assert!(hz != 100 || longest > ms(24), "{hz} Hz: {longest} ns");
    }
}

#[test]
fn a_flag_that_is_not_modelled_is_refused_by_name() {
    static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));
    for (ops, name) in [
        ("idle_per_node", "SCX_OPS_BUILTIN_IDLE_PER_NODE"),
        ("switch_partial", "SCX_OPS_SWITCH_PARTIAL"),
        ("long_patience", "31000 ms is longer than the kernel takes"),
    ] {
        let Err(failure) = Scenario::of(ops, FAULTS, ops).run() else { panic!("{ops} runs") };
        assert_eq!(failure.check, "load");
        assert!(failure.message.contains(name), "{}", failure.message);
    }
}

#[test]
fn a_slice_of_whole_ticks_lasts_a_tick_longer_where_a_switch_is_later_than_its_tick() {
    let switches = |tick_late_ns| {
        let machine = Machine::cpus(1).costs(Costs { tick_late_ns, ..Costs::default() });
        let hogs =
            policy("hogs", "fifo").machine(machine).tasks(2, |i| TaskSpec::hog(format!("h{i}")));
        hogs.run_for(ms(1_200)).pass().switches
    };
    // Slices of 20 ms at 250 Hz: the sixth tick is the first to see that one is over.
    let [at_once, late] = [0, us(2)].map(switches);
    assert!((59..=62).contains(&at_once), "{at_once}");
    assert!((49..=52).contains(&late), "{late}");
}

#[test]
fn who_sleeps_on_a_timer_takes_the_cpu_time_that_this_takes() {
    let ran_ns = |sleep_ns| {
        let machine = Machine::cpus(1).costs(Costs { sleep_ns, ..Costs::default() });
        let it = TaskSpec::named("it").run(exactly(us(300))).sleep(exactly(us(9_700))).for_ever();
        let run = policy("naps", "fifo").machine(machine).task(it).run_for(ms(1_000)).pass();
        run.task("it").ran_ns
    };
    assert!((ms(29)..=ms(31)).contains(&ran_ns(0)), "{}", ran_ns(0));
    assert!((ms(49)..=ms(51)).contains(&ran_ns(us(200))), "{}", ran_ns(us(200)));
}

#[test]
fn who_wakes_somebody_on_an_idle_cpu_pays_for_telling_it() {
    let lost_ns = |tell_ns| {
        let machine = Machine::cpus(2).costs(Costs { tell_ns, ..Costs::default() });
        let waker = TaskSpec::named("waker").only_on([0]).run(exactly(ms(1)));
        let waker = waker.step(Step::Wake("go".into(), 1)).for_ever();
        let woken = TaskSpec::named("woken").only_on([1]);
        let woken = woken.step(Step::Wait("go".into())).run(exactly(us(10))).for_ever();
        policy("told", "fifo")
            .machine(machine)
            .task(waker)
            .task(woken)
            .run_for(ms(100))
            .pass()
            .lost_ns
    };
    assert_eq!(lost_ns(0), 0);
    let lost = lost_ns(us(5));
    assert!((us(450)..=us(510)).contains(&lost), "{lost}");
}

#[test]
fn a_slice_ends_a_tick_early_where_its_last_tick_but_one_is_late() {
    let switches = |tick_strays| {
        let costs = Costs { tick_late_ns: us(2), tick_stray_ns: ms(3), ..Costs::default() };
        let machine = Machine::cpus(1).costs(Costs { tick_strays, ..costs });
        let hogs =
            policy("hogs", "fifo").machine(machine).tasks(2, |i| TaskSpec::hog(format!("h{i}")));
        hogs.run_for(ms(12_000)).pass().switches
    };
    let [none, some] = [0, 2].map(switches);
    assert!(some > none + none / 50, "{some} switches, and {none} without late ticks");
}

#[test]
fn kernel_threads_run_as_often_as_their_machine_says() {
    let thread = |cpu| KernelThread {
        name: format!("kworker/{cpu}"),
        cpu: Some(cpu),
        every_ns: ms(10),
        run_ns: us(100),
    };
    // There is no CPU 7.
    let kernel_threads = vec![thread(1), thread(7)];
    let spec = MachineSpec { cpus: 2, kernel_threads, ..MachineSpec::default() };
    let run = policy("alone", "vtime").with_kernel_threads(&spec).machine(Machine::cpus(2));
    let run = run.run_for(ms(4_000)).pass();
    let names: Vec<&str> = run.all().map(|(name, _)| name).collect();
    assert_eq!(names, ["kworker/1"]);
    let ran = run.task("kworker/1");
    assert!((330..=470).contains(&ran.waits), "{} runs", ran.waits);
    assert_eq!(ran.migrations, 0);
}

/// Who comes to a CPU that was idle for long pays for that, and who comes sooner does not.
#[test]
fn a_cpu_that_was_idle_for_long_is_slow_at_first() {
    let lost_ns = |cold_after_ns, asleep| {
        let costs = Costs { cold_ns: us(20), cold_after_ns, ..Costs::default() };
        let it = TaskSpec::named("it").run(exactly(us(100))).sleep(exactly(asleep)).for_ever();
        let machine = Machine::cpus(1).costs(costs);
        policy("cold", "fifo").machine(machine).task(it).run_for(ms(100)).pass().lost_ns
    };
    // About ninety runs of 100 us after 1 ms.
    assert!((us(1_700)..=us(1_900)).contains(&lost_ns(us(500), ms(1))));
    assert!(lost_ns(ms(2), ms(1)) <= us(20));
}
