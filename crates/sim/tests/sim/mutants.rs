//! Faults planted in level 1 itself: each is caught, by the name of what it breaks, and the same
//! scenario passes without it.

use crate::accounts::{
    an_arrival_is_lost, asks_late, crowd_on_a_cpu, long_rotation, ran_elsewhere_before,
};
use crate::hotplug::woken_by_dying_cpus;
use crate::lanes::{hogs, rescued_long_ago, share_from_elsewhere};
use crate::level1::kicked_in_vain;
use crate::limits::{
    GRANTED_NS, a_limit_in_the_place_of_another, a_limit_that_goes_below_another,
    is_every_place_once, most_taken_at_once, places_claimed_at_once,
};
use crate::marks::{inserts_meet_sweeps, marks_are_lost};
use crate::planted::{Plant, planted};
use crate::services::changed_from_elsewhere;
use crate::shares::{idle_sibling, long_queue};
use crate::user_half::{drains, nobody_decides, undecided_beside_hogs};
use metasched_sim::metasched::{
    LATE, LAZY, assign, drop_app, reap, replace_root, scenario_of, set_app, unassign,
};
use metasched_sim::{Scenario, TaskSpec, between, exactly, image, ms, us};
use std::time::{Duration, Instant};

/// The scenario passes, and with the plant fails by that checker.
fn caught(check: &str, run: impl Fn(&'static [u8]) -> Scenario, plant: Plant) {
    run(image::faulty()).pass();
    match run(planted(&plant)).run() {
        Ok(_) => panic!("it was not caught"),
        Err(failure) => assert_eq!(failure.check, check, "{failure}"),
    }
}

/// Lanes of weights 100 and 300 beside the root's, all with more work than two CPUs can do.
fn three_lanes(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "three lanes", "fifo").cpus(2);
    hogs(hogs(hogs(run, 3, "a"), 3, "b"), 3, "")
        .at(0, |kernel| {
            for (app, cgroup, policy, weight) in [(1, "a", "fifo", 100), (2, "b", "vtime", 300)] {
                set_app(kernel, app, policy, weight);
                assign(kernel, cgroup, app);
            }
        })
        .lane_shares(0.2)
        .run_for(ms(4_100))
}

/// Three lanes; then a cgroup belongs to no application any more, whose lane stays.
fn unassigned(image: &'static [u8]) -> Scenario {
    three_lanes(image).at(ms(100), |kernel| unassign(kernel, "a"))
}

/// Three lanes, of which one is dropped, unassigned and reaped.
fn a_lane_goes(image: &'static [u8]) -> Scenario {
    let run = three_lanes(image).at(ms(100), |kernel| {
        unassign(kernel, "a");
        drop_app(kernel, 1);
        reap(kernel);
        reap(kernel);
    });
    (1..40).fold(run, |run, i| {
        run.at(ms(100 + 10 * i), |kernel| {
            reap(kernel);
        })
    })
}

/// Lanes of the least weight beside one of the greatest: more than have their turns out of turn.
fn light_and_heavy(image: &'static [u8]) -> Scenario {
    let run = hogs(scenario_of(image, "light and heavy", "fifo"), 2, "app21");
    run.tasks(20, |i| TaskSpec::hog(format!("light {i}")).in_cgroup(format!("app{}", i + 1)))
        .at(0, |kernel| {
            for app in 1..=21 {
                set_app(kernel, app, "fifo", if app == 21 { 10_000 } else { 1 });
                assign(kernel, &format!("app{app}"), app);
            }
        })
        .run_for(ms(2_000))
}

/// A lane that comes to life long after the other.
fn a_late_lane(image: &'static [u8]) -> Scenario {
    hogs(scenario_of(image, "a late lane", "fifo"), 2, "a")
        .tasks(2, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b").arrives(ms(3_500)))
        .at(0, |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, "fifo", 100);
                assign(kernel, cgroup, app);
            }
        })
        .lane_shares(0.2)
        .run_for(ms(6_600))
}

/// Hogs in a cgroup with a limit below one with a tighter one, and one alone on its CPU.
fn limited(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "limits", "fifo").cpus(4);
    hogs(hogs(run, 2, "a/b"), 1, "c")
        .at(0, |kernel| {
            kernel.set_cgroup_max("a", 100_000, 20_000, 20_000);
            kernel.set_cgroup_max("a/b", 100_000, 90_000, 0);
            kernel.set_cgroup_max("c", 100_000, 20_000, 0);
        })
        .run_for(ms(3_000))
}

fn limits_in_turn(image: &'static [u8]) -> Scenario {
    a_limit_in_the_place_of_another(scenario_of(image, "limits in turn", "fifo"))
        .idle_at_most(ms(3_000))
}

fn limit_that_goes(image: &'static [u8]) -> Scenario {
    a_limit_that_goes_below_another(scenario_of(image, "a limit goes below another", "fifo"))
}

/// Many hogs on many CPUs, with the least quotas that cpu.max takes, above one another.
fn tiny_quotas(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "tiny quotas", "fifo").cpus(8);
    hogs(hogs(run, 12, "a/b"), 30, "c")
        // All CPUs run hogs by then, each until its next tick: a debt of many periods.
        .at(ms(53), |kernel| {
            kernel.set_cgroup_max("a", 990_000, 1_000, 0);
            kernel.set_cgroup_max("a/b", 1_000_000, 1_000, 0);
            kernel.set_cgroup_max("c", 1_000_000, 1_000, 0);
        })
        .waits_at_most(ms(20_000))
        .idle_at_most(ms(20_000))
        .run_for(ms(25_000))
}

/// Hogs that have used up their quota half a second ago, and are killed.
fn killed_while_parked(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "killed while parked", "fifo").cpus(2);
    hogs(run, 16, "a")
        .idle_at_most(ms(3_000))
        .waits_at_most(ms(600))
        .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .at(ms(500), |kernel| {
            for i in 0..16 {
                kernel.kill(kernel.task_named(&format!("a {i}")), 0);
            }
        })
        .run_for(ms(2_000))
}

/// The program leaves beside lanes and limits, and another one comes some time later.
fn it_comes_and_goes(image: &'static [u8]) -> Scenario {
    three_lanes(image)
        .at(0, |kernel| kernel.set_cgroup_max("a", 100_000, 20_000, 0))
        .at(ms(100), |kernel| kernel.unload())
}

/// A policy gives a CPU that goes idle a task when it is asked once more, and not before.
fn served_at_the_second_look(image: &'static [u8]) -> Scenario {
    scenario_of(image, "served at the second look", LATE)
        .tasks(3, |i| {
            let spec = TaskSpec::named(format!("{i}")).run(exactly(ms(5)));
            spec.sleep(between(ms(20), ms(40))).for_ever()
        })
        .run_for(ms(2_000))
}

/// A policy that does not dispatch has a lane beside others.
fn lazy(image: &'static [u8]) -> Scenario {
    let run = scenario_of(image, "lazy", "fifo").cpus(2);
    hogs(hogs(run, 3, "a"), 2, "b")
        .at(0, |kernel| {
            set_app(kernel, 1, LAZY, 100);
            assign(kernel, "a", 1);
        })
        .run_for(ms(1_500))
}

/// Two hogs come to share a CPU while the other one is idle: one must be let go.
fn slices_that_end_beside_an_idle_cpu(image: &'static [u8]) -> Scenario {
    scenario_of(image, "an idle CPU", "fifo")
        .cpus(2)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).only_on([0]))
        .at(ms(100), |kernel| {
            for name in ["hog 0", "hog 1"] {
                let task = kernel.task_named(name);
                kernel.set_affinity(task, [0, 1].into_iter().collect());
            }
        })
        .run_for(ms(500))
}

/// A task sleeps while its lane is replaced twice, the second time by one in the same slot, of
/// a policy that keeps what each task has run. Light when it wakes, since that policy forgives
/// others what they are ahead: after one tick's run it waits for 133 ms of each hog, and for more
/// than twice as much if it brings what it ran before.
fn slept_through(image: &'static [u8]) -> Scenario {
    let replace = |run: Scenario, at: u64| {
        run.at(ms(at), |kernel| set_app(kernel, 1, "vtime", 100)).at(ms(at + 100), |kernel| {
            for _ in 0..3 {
                reap(kernel);
            }
        })
    };
    let task = TaskSpec::named("b").in_cgroup("a");
    let run = hogs(scenario_of(image, "slept through", "fifo"), 2, "a")
        .task(task.run(exactly(ms(1_000))).sleep(exactly(ms(1_000))).for_ever())
        .at(1, |kernel| {
            set_app(kernel, 1, "vtime", 100);
            assign(kernel, "a", 1);
        })
        .at(ms(3_400), |kernel| kernel.set_weight(kernel.task_named("b"), 3));
    replace(replace(run, 3_300), 3_500).waits_at_most(ms(500)).run_for(ms(5_000))
}

/// The root lane is replaced again and again by one of a policy that keeps state per task.
fn replaced_often(image: &'static [u8]) -> Scenario {
    let mut run = scenario_of(image, "replaced often", "vtime").cpus(2);
    run = run.tasks(6, |i| TaskSpec::hog(format!("hog {i}"))).task(
        TaskSpec::named("service").run(exactly(us(200))).sleep(between(ms(1), ms(3))).for_ever(),
    );
    for i in 1..20 {
        run = run.at(ms(50 * i), |kernel| {
            replace_root(kernel, "vtime");
            reap(kernel);
            reap(kernel);
        });
    }
    run.run_for(ms(1_500))
}

macro_rules! plants {
    ($($name:ident: $check:literal, $run:ident, $file:literal, $find:literal => $replace:literal;)*) => {
        $(#[test]
        fn $name() {
            caught($check, $run, Plant { file: $file, find: $find, replace: $replace });
        })*
    };
}

plants! {
    an_urgency_that_never_comes_is_caught: "accounts_served", light_and_heavy,
        "meta/sweep.bpf.h",
        "	if (a->unserved_sweeps - a->urgent_from < account_patience(a, all))" => "	if (1)";
    credit_without_a_limit_is_caught: "lane_shares", a_late_lane,
        "meta/accounts.bpf.h",
        "	if (vtime_before(was, floor))" => "	if (0)";
    a_charge_to_the_wrong_account_is_caught: "lane_shares", three_lanes,
        "meta/accounts.bpf.h",
        "__sync_fetch_and_add(&a->vtime, vtime_ns);" => "__sync_fetch_and_add(&accounts[0].vtime, vtime_ns);";
    ignored_weights_of_lanes_are_caught: "lane_shares", three_lanes,
        "meta/accounts.bpf.h",
        "return ran_ns * WEIGHT_NOW_DFL / (weight ? weight : 1);" => "return ran_ns;";
    shares_of_cgroups_without_work_are_caught: "lane_shares", idle_sibling,
        "meta/shares.bpf.h",
        "	if (!sum || !number)" => "	if (!number)";
    a_cgroup_that_is_forgotten_while_its_tasks_wait_is_caught: "lane_shares", long_queue,
        "meta/shares.bpf.h",
        "	if (!n->waits)" => "	if (1)";
    a_lane_that_is_freed_while_it_has_tasks_is_caught: "dead_lanes_empty", a_lane_goes,
        "meta/lifecycle.bpf.h",
        "	if (!lane_is_empty(l)) {\n		l->settled_at = 0;" => "	if (0) {\n		l->settled_at = 0;";
    queues_that_outlive_their_lane_are_caught: "dead_lanes_empty", a_lane_goes,
        "meta/lifecycle.bpf.h",
        "		scx_bpf_destroy_dsq(lane_dsq(&l->lane, queue));" => "		;";
    an_assignment_that_is_remembered_too_long_is_caught: "one_lane_per_task", unassigned,
        "meta/cgroups.bpf.h",
        "		__sync_lock_test_and_set(&watch.walking, 0);\n		__sync_fetch_and_add(&assign_seq, 1);"
        => "		__sync_lock_test_and_set(&watch.walking, 0);";
    a_task_in_the_wrong_queue_is_caught: "one_lane_per_task", three_lanes,
        "meta/level1.bpf.h",
        "policy_enqueue_task(&l->lane, p, &t->policy, enq_flags);"
        => "policy_enqueue_task(&lane_at(root)->lane, p, &t->policy, enq_flags);";
    a_drain_that_never_ends_is_caught: "lanes_drained", replaced_often,
        "meta/dispatch.bpf.h",
        "	if (serve_by_age(a, true, cpu, prev))" => "	if (0)";
    a_task_that_keeps_the_state_of_an_earlier_lane_is_caught: "waiting_bounded", slept_through,
        "meta/level1.bpf.h",
        "	if (t->generation == l->lane.generation && t->slot == l->lane.slot)"
        => "	if (t->slot == l->lane.slot)";
    a_grant_that_is_filled_up_twice_is_caught: "quota_kept", limited,
        "meta/limits.bpf.h",
        "l->granted_ns += periods * l->quota_ns;" => "l->granted_ns += 2 * periods * l->quota_ns;";
    a_limit_that_is_not_charged_from_below_is_caught: "quota_kept", limited,
        "meta/limits.bpf.h",
        "			beyond = used - granted;\n		number = l->parent;" => "			beyond = used - granted;\n		number = 0;";
    who_goes_on_under_a_limit_that_has_gone_is_caught: "quota_kept", limit_that_goes,
        "meta/limits.bpf.h",
        "	limit_renew(l);\n	/* Before its tasks"
            => "	/* Before its tasks";
    what_was_taken_of_another_limit_is_caught: "quota_kept", limits_in_turn,
        "meta/parking.bpf.h",
        "	if (ns < 0 && cpu->limit_chain != limit_chain((u32)cpu->limit))\n		return;" => "";
    a_task_alone_that_is_never_stopped_is_caught: "quota_kept", limited,
        "meta/metasched.bpf.c",
        "		prev = NULL;" => "		;";
    parked_tasks_that_nobody_takes_out_are_caught: "waiting_bounded", limited,
        "meta/limits.bpf.h",
        "	l->look_at_ns = now + PARKED_LOOK_NS;\n	limit_unpark(number);" => "	l->look_at_ns = now + PARKED_LOOK_NS;";
    who_is_killed_and_waits_for_the_quota_is_caught: "waiting_bounded", killed_while_parked,
        "meta/limits.bpf.h",
        "			limit_find_dying(i + 1);" => "			;";
    quotas_that_end_at_ticks_are_caught: "quota_kept", tiny_quotas,
        "meta/parking.bpf.h",
        "		slice_timer_set(on, cpu->limited_since_ns + cpu->taken_ns);" => "		;";
    a_task_that_runs_with_nothing_left_is_caught: "quota_kept", tiny_quotas,
        "meta/parking.bpf.h",
        "	end_at_start(p, t);\n}\n\nstatic __always_inline void running_limited" => "}\n\nstatic __always_inline void running_limited";
    an_overdraft_for_each_that_runs_is_caught: "quota_kept", tiny_quotas,
        "meta/limits.bpf.h",
        "	if (!beyond)\n		return piece;" => "	return piece;";
    timers_that_outlive_the_program_are_caught: "context", it_comes_and_goes,
        "meta/metasched.bpf.c",
        "	__sync_fetch_and_or(&exit_record.kind, info->kind);\n	timers_stop();" => "";
    a_quarantine_that_never_comes_is_caught: "quarantined_in_time", lazy,
        "meta/sweep.bpf.h",
        "		quarantine_lane(l, a, now);" => "		;";
    a_lazy_lane_that_has_every_choice_is_caught: "accounts_served", lazy,
        "meta/dispatch.bpf.h",
        "		__sync_fetch_and_and(&busy.urgent, ~account_bit(number));" => "		;";
    a_rotation_that_never_comes_is_caught: "waiting_bounded", share_from_elsewhere,
        "meta/dispatch.bpf.h",
        "	if (since < every ||" => "	if (1 ||";
    a_rotation_that_is_as_slow_with_many_accounts_is_caught: "waiting_bounded", long_rotation,
        "meta/dispatch.bpf.h",
        "	every = ROTATION_ALL_NS / __builtin_popcountll(set);" => "	every = ROTATION_NS;";
    a_crowd_that_rotations_alone_serve_is_caught: "waiting_bounded", crowd_on_a_cpu,
        "meta/waits.bpf.h",
        "	if (unlikely(cpu->out_of_turn))" => "	if (0)";
    rescues_that_count_for_ever_are_caught: "expectation", rescued_long_ago,
        "meta/dispatch.bpf.h",
        "		l->rescues = 0;" => "		;";
    books_of_the_wrong_cpu_are_caught: "scx_bpf_error", changed_from_elsewhere,
        "meta/tasks.bpf.h",
        "	return likely(cpu == (s32)bpf_get_smp_processor_id()) ? cpu_ctx_here() : cpu_ctx_of(cpu);"
            => "	return cpu_ctx_here();";
    a_kick_that_found_another_class_is_caught: "expectation", kicked_in_vain,
        "meta/level1.bpf.h",
        "		end_resumed(l, cpu, p, t);" => "		;";
    a_kick_from_a_dying_cpu_is_caught: "lost", woken_by_dying_cpus,
        "meta/dying_cpu.bpf.h",
        "	return unlikely(READ_ONCE(cpus_gone)) &&" => "	return 0 &&";
    a_cpu_that_goes_idle_and_looks_once_is_caught: "work_conserved", served_at_the_second_look,
        "meta/metasched.bpf.c",
        "	if (goes_idle(cpu, root))\n		choose(cpu, NULL, root);" => "	goes_idle(cpu, root);";
    a_forgotten_kick_is_caught: "work_conserved", slices_that_end_beside_an_idle_cpu,
        "meta/kcalls.bpf.h",
        "	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);\n	return true;" => "	return true;";
    an_undecided_task_whose_time_never_comes_is_caught: "work_conserved", nobody_decides,
        "meta/user.bpf.h",
        "	    !undecided_timer_start())" => "	    0)";
    undecided_tasks_that_do_not_drain_are_caught: "expectation", drains,
        "meta/lifecycle.bpf.h",
        "	l->ready = l->queues;" => "	;";
    a_wake_up_that_leaves_nobody_to_the_waker_is_caught: "expectation", asks_late,
        "meta/level1.bpf.h",
        "	t->woken_sync = !!(wake_flags & SCX_WAKE_SYNC);" => "	t->woken_sync = 0;";
    cpus_that_count_for_ever_are_caught: "expectation", ran_elsewhere_before,
        "meta/in_service.bpf.h",
        "			set_runs_for(there, 0);" => "			;";
    undecided_tasks_that_look_ready_to_a_cpu_are_caught: "expectation", undecided_beside_hogs,
        "meta/in_service.bpf.h",
        "account_has_ready(number)" => "account_has_queued(number)";
    an_undecided_task_that_preempts_when_it_wakes_is_caught: "expectation", undecided_beside_hogs,
        "meta/level1.bpf.h",
        "		if (policy_has_user_half(l->lane.policy) && t->ticket)\n			return;" => "";
    marks_that_go_before_the_insert_are_caught: "waiting_bounded", inserts_meet_sweeps,
        "meta/marks.bpf.h",
        "	held &= ~(READ_ONCE(marking.empty) & ~came);" => "	held &= ~READ_ONCE(marking.empty);";
    marks_that_are_lost_for_ever_are_caught: "waiting_bounded", marks_are_lost,
        "meta/marks.bpf.h",
        "% MARK_ROUNDS == 0);" => "% MARK_ROUNDS == MARK_ROUNDS);";
}

/// By a plain write some time after the look, so long that on one CPU too another thread comes
/// between.
#[test]
fn a_place_that_two_claim_is_caught() {
    let image = planted(&Plant {
        file: "meta/limits.bpf.h",
        find: "	return __sync_val_compare_and_swap(&l->state, from, LIMIT_CLAIMED) == from;",
        replace: "	bool was = READ_ONCE(l->state) == from;
	for (volatile u32 i = 0; i < 20000; i++)
		;
	WRITE_ONCE(l->state, LIMIT_CLAIMED);
	return was;",
    });
    assert!(!is_every_place_once(&places_claimed_at_once(image)));
}

/// With such a pause too.
#[test]
fn pieces_that_two_cpus_take_of_the_same_rest_are_caught() {
    let image = planted(&Plant {
        file: "meta/limits.bpf.h",
        find: "	beyond = limit_charge(number, piece, overdraft);\n	if (!beyond)",
        replace: "	for (volatile u32 i = 0; i < 20000; i++)
		;
	beyond = limit_charge(number, piece, overdraft);
	if (true)",
    });
    let began = Instant::now();
    while most_taken_at_once(image) <= GRANTED_NS {
        assert!(began.elapsed() < TO_BE_LOST, "not caught");
    }
}

/// The pause is longer than a slice of any machine's, so that it is found in the first rounds,
/// wherever the two threads run; unless others keep them from that.
const TO_BE_LOST: Duration = Duration::from_secs(30);

#[test]
fn a_sweep_that_does_not_look_again_is_caught() {
    let image = planted(&Plant {
        file: "meta/sweep.bpf.h",
        find: "	__sync_fetch_and_and(&busy.accounts, ~bit);
	/* See account_arrival(). */
	if (READ_ONCE(a->arrived))
		__sync_fetch_and_or(&busy.accounts, bit);",
        replace: "	for (volatile u32 i = 0; i < 10000000; i++)
		;
	__sync_fetch_and_and(&busy.accounts, ~bit);",
    });
    assert!(an_arrival_is_lost(image, TO_BE_LOST));
}

#[test]
fn an_arrival_that_looks_before_it_says_so_is_caught() {
    let image = planted(&Plant {
        file: "meta/accounts.bpf.h",
        find: "	if (unlikely(READ_ONCE(a->arrived) != ARRIVED_SWEEPS))
		__sync_lock_test_and_set(&a->arrived, ARRIVED_SWEEPS);
	if (unlikely(!(READ_ONCE(busy.accounts) & account_bit(number))))
		__sync_fetch_and_or(&busy.accounts, account_bit(number));",
        replace: "	if (!(READ_ONCE(busy.accounts) & account_bit(number)))
		__sync_fetch_and_or(&busy.accounts, account_bit(number));
	for (volatile u32 i = 0; i < 10000000; i++)
		;
	__sync_lock_test_and_set(&a->arrived, ARRIVED_SWEEPS);",
    });
    assert!(an_arrival_is_lost(image, TO_BE_LOST));
}
