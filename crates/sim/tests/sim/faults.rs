//! Planted faults: each is caught, by the name of what it breaks. And the honest
//! policy that they are made from passes in the same scenario.

use metasched_sim::{Failure, Outcome, Scenario, TaskSpec, between, ms};
use std::path::Path;
use std::process::Command;

static FAULTS: &[u8] = include_bytes!(concat!(env!("SIM_OUT"), "/libfaults-native.so"));

/// Two CPUs, hogs of two weights, sleepers, and one task that must stay on CPU 1.
fn scenario(ops: &str) -> Scenario {
    Scenario::of(format!("planted fault {ops}"), FAULTS, ops)
        .cpus(2)
        .task(TaskSpec::hog("light hog").weight(50))
        .tasks(3, |i| TaskSpec::hog(format!("hog {i}")))
        .task(TaskSpec::hog("pinned hog").only_on([1]))
        .tasks(6, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(100_000, 3_000_000))
                .sleep(between(ms(1), ms(20)))
                .for_ever()
        })
        .run_for(ms(4_000))
}

fn run(ops: &str) -> Result<Outcome, Failure> {
    scenario(ops).run()
}

/// The check by which a fault fails, and its message.
fn caught(ops: &str) -> (String, String) {
    let Err(failure) = run(ops) else { panic!("the fault '{ops}' was not caught") };
    (failure.check, failure.message)
}

#[test]
fn the_honest_policy_passes() {
    run("honest").unwrap();
}

#[test]
fn a_lost_wake_up_is_caught() {
    assert_eq!(caught("lost_wakeup").0, "no_task_lost");
}

#[test]
fn a_queue_that_nobody_serves_is_caught() {
    assert_eq!(caught("wrong_queue").0, "waiting_bounded");
}

#[test]
fn a_cpu_left_idle_beside_work_is_caught() {
    let two_hogs = Scenario::of("two hogs, two CPUs", FAULTS, "never_wakes")
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")));
    let Err(failure) = two_hogs.run() else { panic!("not caught") };
    assert_eq!(failure.check, "work_conserved");
}

#[test]
fn an_endless_wait_is_caught() {
    assert_eq!(caught("last_come_first_served").0, "waiting_bounded");
}

#[test]
fn the_watchdog_ends_a_program_that_leaves_a_task_waiting() {
    let run = Scenario::of("a queue that nobody serves", FAULTS, "stalls")
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .waits_at_most(ms(60_000))
        .idle_at_most(ms(60_000))
        .run_for(ms(3_000))
        .run();
    let Err(failure) = run else { panic!("it was not ended") };
    assert_eq!(failure.check, "stall");
    assert!(failure.message.contains("[2] failed to run for "), "{}", failure.message);
    // It looks every 400 ms for who has waited for more than 800.
    assert!((ms(800)..=ms(1_210)).contains(&failure.at), "at {} ms", failure.at / ms(1));
}

#[test]
fn an_ignored_affinity_is_caught() {
    let (check, message) = caught("ignores_affinity");
    assert_eq!(check, "scx_error");
    assert!(message.contains("target CPU 0 not allowed for pinned hog"), "{message}");
}

#[test]
fn a_double_insert_is_caught() {
    let (check, message) = caught("double_insert");
    assert_eq!(check, "scx_error");
    assert!(message.contains("already direct-dispatched"), "{message}");
}

#[test]
fn a_queue_with_both_orders_is_caught() {
    let (check, message) = caught("mixed_orders");
    assert_eq!(check, "scx_error");
    assert!(message.contains("-enqueued tasks"), "{message}");
}

#[test]
fn ignored_weights_are_caught() {
    let hogs = |ops| {
        Scenario::of("two hogs, weights 100 and 300", FAULTS, ops)
            .task(TaskSpec::hog("light"))
            .task(TaskSpec::hog("heavy").weight(300))
            .shares(0.1)
            .run_for(ms(4_000))
            .run()
    };
    let Err(failure) = hogs("ignores_weights") else { panic!("not caught") };
    assert_eq!(failure.check, "shares_near_weights");
    assert!(failure.message.contains("75.0 % is due") || failure.message.contains("25.0 %"));
}

#[test]
fn a_call_in_the_wrong_callback_is_refused_by_name() {
    for (ops, call, callback) in [
        ("inserts_in_running", "scx_bpf_dsq_insert", "running"),
        ("creates_in_enqueue", "scx_bpf_create_dsq", "enqueue"),
        ("moves_in_enqueue", "scx_bpf_dsq_move_to_local", "enqueue"),
    ] {
        let (check, message) = caught(ops);
        assert_eq!(check, "context", "{ops}");
        let said = format!("{call} called from {callback};");
        assert!(message.starts_with(&said), "{message}");
    }
}

#[test]
fn a_flag_that_is_not_modelled_is_refused_by_name() {
    let (check, message) = caught("immediate");
    assert_eq!(check, "refused");
    assert!(message.starts_with("SCX_ENQ_IMMED "), "{message}");
}

#[test]
fn arithmetic_that_differs_from_bpf_ends_the_run() {
    for (ops, what) in [
        ("divides_by_zero", "division by zero"),
        ("takes_remainder_by_zero", "division by zero"),
        ("shifts_too_far", "shift by more"),
        ("overruns_an_array", "index out of range"),
        ("dereferences_null", "NULL dereference"),
    ] {
        let (check, message) = caught(ops);
        assert_eq!(check, "arithmetic", "{ops}");
        assert!(message.contains(what) && message.contains("undefined.bpf.c:"), "{message}");
    }
}

#[test]
fn what_bpf_defines_is_computed_as_in_bpf() {
    run("computes").unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signed_division_without_a_result_ends_the_run() {
    let (check, message) = caught("divides_signed");
    assert_eq!(check, "arithmetic");
    assert!(message.contains("signed division"), "{message}");
}

#[test]
fn what_was_never_written_is_a_pattern_and_no_address() {
    let (check, message) = caught("never_writes");
    assert_eq!(check, "scx_error");
    assert!(message.contains("non-existent DSQ 0xaaaaaaaaaaaaaaaa"), "{message}");
    let (check, message) = caught("follows_nothing");
    assert_eq!(check, "memory");
    assert!(message.ends_with("(in enqueue)"), "{message}");
}

#[test]
fn a_deleted_value_may_be_read_until_the_callback_is_over() {
    run("looks_before").unwrap();
}

#[test]
fn a_value_that_is_used_after_it_was_deleted_ends_the_run() {
    for (ops, map) in [
        ("keeps_number", "numbers"),
        ("keeps_storage", "of_tasks"),
        ("deletes_storage", "of_tasks"),
        ("keeps_wide", "wide_ones"),
    ] {
        let Err(failure) = scenario(ops)
            .task(TaskSpec::named("mortal").run(between(1_000, 2_000)).rounds(1))
            .run()
        else {
            panic!("'{ops}' was not caught")
        };
        assert_eq!(failure.check, "memory", "{ops}: {failure}");
        let said = format!("a value of the map '{map}' ");
        assert!(failure.message.starts_with(&said), "{ops}: {}", failure.message);
    }
}

#[test]
fn a_missing_value_that_is_followed_ends_the_run() {
    let (check, message) = caught("misses");
    assert_eq!(check, "arithmetic");
    assert!(message.contains("NULL dereference"), "{message}");
    assert!(message.contains("lifetime.bpf.c:"), "{message}");
}

#[test]
fn a_policy_that_gives_up_says_why() {
    let (check, message) = caught("gives_up");
    assert_eq!(check, "scx_bpf_error");
    assert!(message.ends_with(" has 42 of beef, 100% (in enqueue)"), "{message}");
}

/// What the compiler says of a fault that does not build.
fn does_not_build(file: &str) -> String {
    let out = std::env::temp_dir().join(format!("metasched-{file}-{}", std::process::id()));
    let sim = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("SIM_COMPILER"))
        .args(env!("SIM_FLAGS").split(' '))
        .args(["-shared", "-Wl,-z,defs", "-o"])
        .arg(&out)
        .args([sim.join("faults").join(file), sim.join("seam/seam.c")])
        .output()
        .expect("the compiler that built the policies");
    let _ = std::fs::remove_file(&out);
    assert!(!output.status.success(), "{file} builds");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_call_that_is_not_modelled_does_not_link() {
    let said = does_not_build("unmodelled.c");
    assert!(said.contains("scx_bpf_reenqueue_local"), "{said}");
}

#[test]
fn what_the_compiler_sees_is_never_written_does_not_compile() {
    let said = does_not_build("uninitialised.c");
    assert!(said.contains("variable 'slice' is used uninitialized"), "{said}");
}

#[test]
fn a_failure_ends_with_the_command_that_replays_it() {
    let Err(failure) = scenario("lost_wakeup").seed(7).run() else { panic!("not caught") };
    let said = failure.to_string();
    assert!(said.contains("scenario 'planted fault lost_wakeup', seed 7, 2 CPUs"), "{said}");
    let last = said.lines().last().expect("it says something");
    assert_eq!(
        last,
        "replay: METASCHED_SIM_SEED=7 cargo test --release -p metasched-sim -p metasched-sim-tests -- \
         faults::a_failure_ends_with_the_command_that_replays_it"
    );
}
