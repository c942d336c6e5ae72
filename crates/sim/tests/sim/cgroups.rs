//! Moves between cgroups where the cpu controller is enabled.

use metasched_sim::kernel::Kernel;
use metasched_sim::{Scenario, TaskSpec, exactly, ms, us};

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

fn counted(kernel: &mut Kernel, name: &str, expected: u64) {
    // SAFETY: those that are asked for are u64 in faults/cgroup_moves.bpf.c. No callback runs now.
    let seen = unsafe { *kernel.image().required(name).unwrap().cast::<u64>() };
    if seen != expected {
        kernel.fail("expectation", format!("{seen} {name}, not {expected}"));
    }
}

fn scenario(name: &str) -> Scenario {
    Scenario::of(name, FAULTS, "cgroup_moves")
        .cpus(2)
        .tasks(4, |i| TaskSpec::hog(format!("hog {i}")).in_cgroup("a"))
        .task(TaskSpec::hog("stays").in_cgroup("a").weight(1))
        .task(
            TaskSpec::named("sleeper")
                .in_cgroup("a")
                .run(exactly(us(100)))
                .sleep(exactly(ms(5)))
                .for_ever(),
        )
        .run_for(ms(400))
}

fn named(kernel: &Kernel, names: &[&str]) -> Vec<metasched_sim::task::TaskId> {
    names.iter().map(|name| kernel.task_named(name)).collect()
}

#[test]
fn a_program_hears_of_a_move_while_the_task_stands_in_no_queue() {
    let outcome = scenario("moves")
        .at(ms(101), |kernel| {
            // Running, waiting and asleep ones.
            let tasks = named(kernel, &["hog 0", "hog 1", "hog 2", "hog 3", "sleeper"]);
            for cgroup in ["b", "b/c", "b/c", "a"] {
                if !kernel.attach_to_cgroup(&tasks, cgroup) {
                    kernel.fail("expectation", "a move was refused");
                }
            }
        })
        // A move to where a task is already is none.
        .at(ms(399), |kernel| {
            counted(kernel, "prepared", 15);
            counted(kernel, "moved", 15);
            counted(kernel, "cancelled", 0);
        })
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(1), "{name} ran for {} ns", figures.ran_ns);
    }
}

#[test]
fn where_one_task_is_refused_all_stay() {
    scenario("a move that is refused")
        .at(ms(101), |kernel| {
            let tasks = named(kernel, &["hog 0", "sleeper", "stays", "hog 1"]);
            if kernel.attach_to_cgroup(&tasks, "b") {
                kernel.fail("expectation", "the move was not refused");
            }
            counted(kernel, "prepared", 2);
            counted(kernel, "cancelled", 2);
            counted(kernel, "moved", 0);
            // They may try again.
            if !kernel.attach_to_cgroup(&tasks[..2], "b") {
                kernel.fail("expectation", "the second move was refused");
            }
            counted(kernel, "moved", 2);
        })
        .pass();
}
