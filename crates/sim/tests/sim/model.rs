//! The model answers as the kernel does: policies that look at every callback and
//! every call, and give up where something is wrong.

use metasched_sim::abi::CpuMask;
use metasched_sim::kernel::Kernel;
use metasched_sim::task::Step;
use metasched_sim::{Machine, Scenario, TaskSpec, between, exactly, ms, us};

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

/// Two CPUs; tasks that come, sleep, yield, fork and go, and are changed meanwhile.
fn eventful(ops: &str) -> Scenario {
    let child = TaskSpec::named("child").run(exactly(ms(3))).sleep(exactly(ms(1))).rounds(2);
    let step = Step::Fork(child.into());
    Scenario::of(format!("eventful life under {ops}"), FAULTS, ops)
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .tasks(4, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), ms(5)))
                .sleep(between(us(50), ms(5)))
                .step(Step::Yield)
                .rounds(100)
        })
        .task(TaskSpec::named("parent").step(step).sleep(exactly(ms(9))).rounds(20))
        .task(TaskSpec::named("alone").arrives(ms(2_500)).run(exactly(ms(100))))
        .at(ms(333), |kernel| {
            for name in ["hog 0", "hog 1", "sleeper 0", "sleeper 1"] {
                let task = kernel.task_named(name);
                kernel.set_weight(task, 300);
                kernel.set_affinity(task, CpuMask::one(1));
            }
        })
        .run_for(ms(3_000))
}

/// A counter of the program.
fn global(kernel: &Kernel, name: &str) -> u64 {
    // SAFETY: those that are asked for are u64 in faults/, and no callback runs now.
    unsafe { *kernel.image().required(name).expect("it is there").cast::<u64>() }
}

fn came(kernel: &mut Kernel, name: &str) {
    if global(kernel, name) == 0 {
        kernel.fail("expectation", format!("'{name}' never came"));
    }
}

#[test]
fn callbacks_come_in_the_kernels_order() {
    eventful("every_callback")
        .at(ms(2_999), |kernel| {
            for name in [
                "ticks",
                "yields",
                "dequeues",
                "last_enqueues",
                "idle_changes",
                "weights",
                "cpumasks",
                "exits",
            ] {
                came(kernel, name);
            }
        })
        .pass();
}

#[test]
fn every_call_answers_as_in_the_kernel() {
    eventful("every_call").at(ms(2_999), |kernel| came(kernel, "enqueues_seen")).pass();
}

#[test]
fn calls_about_cores_and_queues_answer_as_in_the_kernel() {
    let outcome = Scenario::of("two cores", FAULTS, "machine_calls")
        .machine(Machine::new(4, 1, 1, true).unwrap())
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")).weight(50 + 10 * i as u32))
        .tasks(8, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .weight(100 + i as u32)
                .run(between(us(50), ms(3)))
                .sleep(between(us(50), ms(9)))
                .for_ever()
        })
        .at(ms(499), |kernel| {
            for name in ["idle_cores", "idle_siblings", "walks", "moves"] {
                came(kernel, name);
            }
        })
        .run_for(ms(500))
        .pass();
    // Whoever kicks a busy CPU and waits spins for the time of the interrupt.
    assert!(outcome.lost_ns > us(200), "{} ns", outcome.lost_ns);
}

#[test]
fn kicks_and_moves_are_refused_where_the_kernel_refuses_them() {
    for (ops, check, words) in [
        ("kicks_idle_and_waits", "scx_error", "cannot be used with SCX_KICK_IDLE"),
        ("moves_from_a_queue_in_enqueue", "context", "scx_bpf_dsq_move called from enqueue;"),
    ] {
        let Err(failure) = eventful(ops).run() else { panic!("{ops} passes") };
        assert_eq!(failure.check, check, "{ops}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn a_preempting_insert_takes_the_cpu_at_once() {
    let outcome = Scenario::of("an urgent task beside a hog", FAULTS, "every_call")
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).only_on([i]))
        .task(
            TaskSpec::named("urgent")
                .weight(2_000)
                .run(exactly(us(100)))
                .sleep(exactly(ms(3)))
                .for_ever(),
        )
        .run_for(ms(2_000))
        .pass();
    // The interrupt, and nothing else; the first time it may find nobody running.
    assert!(outcome.task("urgent").longest_wait_ns <= us(4));
    assert!(outcome.task("urgent").waits > 100);
}
