//! What level 1 tells policies and does for them: a witness of the order of callbacks,
//! `central` with a timer, a CPU that decides for others, queues and state of each
//! CPU, and infinite slices, and one of latency-aware group scheduling with state of each cgroup.

use crate::lanes::hogs;
use crate::level1::expect;
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{
    CENTRAL, LAGS, WITNESS, assign, faulty_scenario, group_ran, replace_root, scenario_of, set_app,
};
use metasched_sim::{Costs, Machine, Scenario, TaskSpec, between, exactly, image, ms, us};

/// So many that sleep most of the time.
fn sleepers(run: Scenario, n: usize) -> Scenario {
    run.tasks(n, |i| {
        TaskSpec::named(format!("sleeper {i}"))
            .run(between(us(100), us(900)))
            .sleep(between(us(1), ms(5)))
            .for_ever()
    })
}

#[test]
fn one_cpu_decides_for_all_and_its_timer_ends_infinite_slices() {
    let run = faulty_scenario("central", CENTRAL).cpus(4);
    let outcome = sleepers(hogs(run, 10, ""), 2).run_for(ms(2_000)).pass();
    // The hogs have 8 s of CPU time among ten; who sleeps waits behind them each time.
    for (name, figures) in outcome.all() {
        let least = if name.starts_with("sleeper") { ms(10) } else { ms(500) };
        assert!(figures.ran_ns > least, "'{name}' had {} ns", figures.ran_ns);
    }
}

#[test]
fn a_lane_alone_is_told_of_its_tasks_in_order() {
    let run = faulty_scenario("witness", WITNESS).cpus(3);
    sleepers(hogs(run, 4, ""), 5).run_for(ms(1_000)).pass();
}

/// Tasks that run are given other weights, by somebody on another CPU.
pub(crate) fn changed_from_elsewhere(image: &'static [u8]) -> Scenario {
    let mut run = hogs(scenario_of(image, "changed from elsewhere", WITNESS).cpus(3), 4, "");
    for i in 0..90 {
        run = run.at(ms(10) + i * ms(5), move |kernel| {
            let hog = kernel.task_named(&format!(" {}", i % 4));
            kernel.set_weight(hog, 100 + 50 * (i as u32 % 7));
        });
    }
    run.run_for(ms(500))
}

#[test]
fn a_lane_is_told_in_order_of_tasks_that_are_changed_while_they_run() {
    changed_from_elsewhere(image::faulty()).pass();
}

#[test]
fn who_decides_answers_though_another_lane_has_its_cpu() {
    let run = faulty_scenario("central beside vtime", CENTRAL).cpus(4);
    hogs(hogs(run, 6, ""), 6, "a")
        .at(0, |kernel| {
            set_app(kernel, 1, "vtime", 100);
            assign(kernel, "a", 1);
        })
        .lane_shares(0.2)
        .run_for(ms(2_100))
        .pass();
}

#[test]
fn the_timer_of_a_lane_that_is_replaced_is_heard_until_it_is_empty() {
    let run = faulty_scenario("central is replaced", CENTRAL).cpus(2);
    hogs(run, 6, "")
        .at(ms(500), |kernel| replace_root(kernel, "fifo"))
        .at(ms(1_000), |kernel| replace_root(kernel, CENTRAL))
        .run_for(ms(1_500))
        .pass();
}

/// It is the witness that says so: it takes no task for new that it has met before.
#[test]
fn a_task_that_comes_back_to_its_policy_is_known_there() {
    let run = faulty_scenario("witness again", WITNESS).cpus(2);
    let result = hogs(run, 4, "")
        .at(ms(100), |kernel| replace_root(kernel, "vtime"))
        .at(ms(300), |kernel| replace_root(kernel, WITNESS))
        .run_for(ms(600))
        .run();
    let failure = result.err().expect("it joins, and the witness has met it").to_string();
    let source = include_str!("../../faults/policies/witness/witness.bpf.c");
    let line = 1 + source.lines().position(|line| line.contains("MUST(!w->joined")).unwrap();
    assert!(failure.contains(&format!("line {line}")), "{failure}");
}

/// Alone on its CPU it is enqueued nowhere; the witness hears of its run all the same.
#[test]
fn a_run_that_goes_on_in_another_lane_begins_there() {
    let run = faulty_scenario("a run goes on", "vtime").cpus(1);
    hogs(run, 1, "a")
        .at(ms(100), |kernel| {
            set_app(kernel, 1, WITNESS, 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(400))
        .pass();
}

/// What happens while so many that sleep 100 to 400 us ask CPU 0 to decide. That has a task that may
/// run nowhere else, so it does not come to choose by itself.
fn many_ask(machine: Machine, sleepers: usize, run: (u64, u64), lasts_ns: u64) -> String {
    faulty_scenario("many ask", CENTRAL)
        .machine(machine)
        .task(TaskSpec::hog("pinned").only_on([0]))
        .tasks(sleepers, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(run.0, run.1))
                .sleep(between(us(100), us(400)))
                .for_ever()
        })
        .traced()
        .run_for(lasts_ns)
        .pass()
        .trace
}

/// How often the trace tells this of CPU 0.
fn told_of_cpu_0(trace: &str, what: &str) -> usize {
    trace.lines().filter(|line| line.contains(" cpu0 ") && line.ends_with(what)).count()
}

/// The lane's timer kicks CPU 0 too, each millisecond at most.
#[test]
fn who_asks_often_interrupts_no_more_than_once_in_100_us() {
    let trace = many_ask(Machine::cpus(4), 40, (us(5), us(20)), ms(100));
    let wakes = trace.lines().filter(|line| line.ends_with(" wake")).count();
    let kicks = told_of_cpu_0(&trace, "kick, preempt");
    assert!(wakes > 2_000, "{wakes} wake-ups show nothing");
    assert!((300..=1_000 + 100).contains(&kicks), "{kicks} kicks for {wakes} wake-ups");
    // Who is interrupted goes on: else it would stop and start each time.
    let starts = told_of_cpu_0(&trace, " start");
    assert!(starts < kicks / 2, "the CPU that answers began {starts} runs, {kicks} kicks");
}

/// How often CPU 0 of 128 is interrupted in 60 ms, where each call of the kernel takes so long.
fn interrupts_of_many_cpus(kfunc_ns: u64) -> usize {
    let costs = Costs { kfunc_ns, ..Costs::default() };
    let machine = Machine::new(128, 1, 1, false).unwrap().costs(costs);
    told_of_cpu_0(&many_ask(machine, 400, (us(50), us(200)), ms(60)), "kick, preempt")
}

/// It takes some 1,500 calls to give each of 128 CPUs a task.
#[test]
pub(crate) fn who_takes_long_to_answer_is_interrupted_once_in_ten_times_as_long() {
    let (short, long) = (interrupts_of_many_cpus(0), interrupts_of_many_cpus(100));
    assert!(short > 500, "{short} interrupts where answers take no time");
    assert!((20..=60).contains(&long), "{long} interrupts where answers take 0.15 ms");
}

/// A service that runs little beside a batch job that wants all, each a cgroup.
fn service_beside_batch(name: &str, policy: &str) -> Scenario {
    let service = TaskSpec::named("service").in_cgroup("web");
    let service = service.run(between(us(100), us(500))).sleep(between(ms(2), ms(8))).for_ever();
    hogs(faulty_scenario(name, policy).cpus(2), 8, "batch").task(service)
}

#[test]
fn a_cgroup_that_uses_little_comes_before_one_that_uses_much() {
    let mean_wait = |policy: &str| {
        let run = service_beside_batch("web beside batch", policy).run_for(ms(4_000)).pass();
        let service = run.task("service");
        service.waited_ns / service.waits.max(1)
    };
    let (lags, fifo) = (mean_wait(LAGS), mean_wait("fifo"));
    assert!(lags < us(100), "{} us in the mean", lags / 1_000);
    assert!(fifo > 100 * lags, "{} us without credits", fifo / 1_000);
}

/// Whether both cgroups together have had two CPUs for so long, but for what callbacks took.
fn have_all(kernel: &mut Kernel, since: (u64, u64), ns: u64) -> (u64, u64) {
    let ran = (group_ran(kernel, "batch"), group_ran(kernel, "web"));
    let had = ran.0 - since.0 + ran.1 - since.1;
    expect(kernel, had <= 2 * ns && had > 2 * ns * 9 / 10, &format!("{had} ns of two CPUs'"));
    ran
}

#[test]
fn what_a_cgroup_runs_is_measured_in_whatever_lane_it_is() {
    let run = service_beside_batch("measured", LAGS);
    run.at(ms(1_000), |kernel| {
        have_all(kernel, (0, 0), ms(1_000));
        set_app(kernel, 1, "fifo", 100);
        assign(kernel, "batch", 1);
    })
    .at(ms(2_000), |kernel| {
        have_all(kernel, (0, 0), ms(2_000));
        set_app(kernel, 2, LAGS, 100);
        assign(kernel, "batch", 2);
        // No lane in force asks for it but that one.
        replace_root(kernel, "vtime");
    })
    .at(ms(3_000), |kernel| {
        let ran = have_all(kernel, (0, 0), ms(3_000));
        expect(kernel, ran.1 > ms(100), "the service had next to nothing");
    })
    .run_for(ms(3_100))
    .pass();
}

#[test]
fn a_cgroup_in_the_place_of_another_has_used_nothing() {
    let run = faulty_scenario("a new cgroup", LAGS).cpus(1);
    let old = TaskSpec::named("old").in_cgroup("old").run(exactly(ms(300)));
    run.task(old)
        .at(ms(500), |kernel| {
            let (ran, removed) = (group_ran(kernel, "old"), kernel.remove_cgroup("old"));
            expect(kernel, ran >= ms(299) && removed, "it ran 300 ms, and is gone");
            kernel.cgroup_id("new");
            let ran = group_ran(kernel, "new");
            expect(kernel, ran == 0, "it is new");
        })
        .run_for(ms(600))
        .pass();
}
