//! Faults planted in the policies, and in what they stand on: each takes away what a policy is
//! for, and a test of that policy fails by it, with the words for what is broken. Without the
//! plant it passes, as a test of its own. The last ones are of level 1, found by tests of that.

use crate::planted::{Plant, planted};
use crate::{accounts, every_policy, limits, policies, reuse, services, shares, user_half};
use metasched_sim::metasched::under_image;

/// With the plant the test fails, and says so.
fn caught(test: fn(), says: &str, plant: &Plant) {
    let image = planted(plant);
    let Err(why) = under_image(image, test) else { panic!("it was not caught") };
    let why = why
        .downcast_ref::<String>()
        .map_or_else(|| why.downcast_ref::<&str>().copied().unwrap_or_default(), String::as_str);
    assert!(why.contains(says), "it failed, but not by '{says}': {why}");
}

macro_rules! plants {
    ($($name:ident: $test:path, $says:literal, $file:literal, $find:literal => $replace:literal;)*) => {
        $(#[test]
        fn $name() {
            caught($test, $says, &Plant { file: $file, find: $find, replace: $replace });
        })*
    };
}

plants! {
    a_nest_that_never_shrinks_is_caught: policies::nest::the_nest_shrinks_when_there_is_less_to_do, "with patience",
        "policies/nest/nest.bpf.c",
        "		if (ns_since(since, now) >= (s64)patience_ns)"
            => "		if (0)";
    a_primary_nest_that_is_not_searched_is_caught: policies::nest::light_work_stays_on_few_cpus, " CPUs",
        "policies/nest/nest.bpf.c",
        "	if (cpu < 0)\n		cpu = nest_claim_any(lane, p, NEST_PRIMARY, prev_cpu, false);"
            => "	;";
    a_reserve_that_takes_everybody_is_caught: policies::nest::the_nest_shrinks_when_there_is_less_to_do, "with patience",
        "policies/nest/nest.bpf.c",
        "	    READ_ONCE(nest_state(lane)->reserved) >= lane->options[nest_option_r_max])"
            => "	    0)";
    impatience_that_is_ignored_is_caught: policies::nest::who_is_impatient_adds_a_cpu_to_the_nest, "of the impatient",
        "policies/nest/nest.bpf.c",
        "	if (patience && task->misses >= patience) {"
            => "	if (0) {";
    impatience_that_is_boundless_is_caught: policies::nest::who_is_impatient_adds_a_cpu_to_the_nest, "of the patient",
        "policies/nest/nest.bpf.c",
        "	if (patience && task->misses >= patience) {"
            => "	if (1) {";
    a_task_that_is_attached_nowhere_is_caught: policies::nest::who_was_turned_away_once_comes_back_to_its_cpu, "runs on its CPU",
        "policies/nest/nest.bpf.c",
        "	if (task->attached && nest_claim("
            => "	if (0 && nest_claim(";
    a_core_that_is_half_busy_is_caught: policies::nest::a_core_that_runs_nothing_comes_first_if_that_is_asked_for, "beside their parent",
        "policies/nest/nest.bpf.c",
        "	if (cpu < 0 && lane->options[nest_option_find_fully_idle])"
            => "	if (0)";
    a_cpu_that_outlives_its_task_in_the_nest_is_caught: policies::nest::who_ends_takes_its_cpu_out_of_the_nest, "after those that sleep",
        "policies/nest/nest.bpf.c",
        "	if (p->flags & PF_EXITING &&"
            => "	if (0 &&";
    a_spin_that_does_not_end_is_caught: policies::nest::an_idle_cpu_spins_for_so_long_at_most, "interrupts",
        "meta/services.bpf.h",
        "	if (there->task || !vtime_before(now, there->awake_until_ns)) {"
            => "	if (there->task) {";
    a_spin_that_is_none_is_caught: policies::nest::a_cpu_that_spins_stays_warm, "runs",
        "meta/services.bpf.h",
        "	return AWAKE_NS;"
            => "	return 0;";
    eligibility_that_is_ignored_is_caught: policies::fair::an_early_deadline_waits_until_it_is_eligible, "waiting_bounded",
        "bpf/eevdf.bpf.h",
        "	return !vtime_before(READ_ONCE(q->now), vruntime);"
            => "	return true;";
    a_debt_that_is_forgotten_asleep_is_caught: policies::fair::who_owes_pays_back_before_it_is_eligible_again, "for the cheat",
        "bpf/fair.bpf.h",
        "		if (competes && from == to && !eevdf_eligible(&to->q, task->e.vruntime))\n			return 0;"
            => "		if (competes) {\n			eevdf_leave(&from->q, &task->e, fair_slice(lane), false);\n			task->e.lag = 0;\n			competes = false;\n		}";
    weights_of_cgroups_that_are_ignored_are_caught: policies::fair::cgroups_have_the_shares_of_the_fair_class, "a/x: ",
        "bpf/group_weights.bpf.h",
        "		walk->factor = walk->factor * own / sum;"
            => "		;";
    a_cgroup_that_counts_above_its_lane_is_caught: shares::who_is_assigned_under_fair_pays_alone_for_it, "'P/B' had",
        "bpf/group_weights.bpf.h",
        "		over = group_uncounts(lane, group, above);"
            => "		over = NULL;";
    a_lane_that_has_come_to_end_lower_is_caught: shares::a_lane_of_fairs_beside_fair_takes_its_cgroup_along, "'P/",
        "bpf/group_weights.bpf.h",
        "	if (unlikely(own != counted && !walk->wrong_serial)) {"
            => "	if (above && own != counted && !walk->wrong_serial) {";
    two_policies_with_one_state_of_a_cgroup_are_caught: shares::fair_knows_its_cgroups_again_after_pair, "'P/",
        "meta/groups.bpf.h",
        "#define GROUP_POLICIES 2"
            => "#define GROUP_POLICIES 1";
    a_rescue_that_sees_the_last_few_is_caught: policies::fair::a_hundred_idle_hogs_run_every_few_seconds, "idle ",
        "bpf/rescue.bpf.h",
        "#define RESCUE_LOOKS 1000"
            => "#define RESCUE_LOOKS 32";
    a_rescue_that_never_comes_is_caught: policies::vtime::who_weighs_next_to_nothing_runs_every_few_seconds, "waiting_bounded",
        "policies/vtime/vtime.bpf.c",
        "	if (here && rescue("
            => "	if (0 && rescue(";
    a_rescue_that_nest_does_without_is_caught: policies::nest::who_weighs_next_to_nothing_runs_every_few_seconds, "waiting_bounded",
        "policies/nest/nest.bpf.c",
        "	if (here && rescue("
            => "	if (0 && rescue(";
    a_rescue_that_rusty_does_without_is_caught: policies::rusty::who_weighs_next_to_nothing_runs_every_few_seconds, "waiting_bounded",
        "policies/rusty/rusty.bpf.c",
        "	if (here && rescue("
            => "	if (0 && rescue(";
    a_rescue_that_bpfland_does_without_is_caught: policies::bpfland::who_weighs_next_to_nothing_runs_every_few_seconds, "waiting_bounded",
        "policies/bpfland/bpfland.bpf.c",
        "	if (bpfland_rescue(lane, here))"
            => "	if (0)";
    a_half_that_is_always_obeyed_is_caught: user_half::whom_user_space_puts_last_for_ever_runs_every_few_seconds, "waiting_bounded",
        "policies/rustland/rustland.bpf.c",
        "	if (here && rescue("
            => "	if (0 && rescue(";
    turns_that_are_all_elsewhere_are_caught: policies::bpfland::a_bound_hog_is_not_starved_by_interactive_tasks_of_its_cpu, "waiting_bounded",
        "bpf/starvation.bpf.h",
        "	if (likely(!starves_here && !queue_starves("
            => "	starves_here = false;\n	if (likely(!starves_here && !queue_starves(";
    turns_of_ioprio_that_are_all_elsewhere_are_caught: policies::ioprio::a_bound_hog_is_not_starved_by_those_with_priority_on_its_cpu, "waiting_bounded",
        "bpf/starvation.bpf.h",
        "	if (likely(!starves_here && !queue_starves("
            => "	starves_here = false;\n	if (likely(!starves_here && !queue_starves(";
    a_rescue_each_time_is_caught: policies::ioprio::who_has_priority_is_not_starved_where_the_lane_seldom_runs, "waiting_bounded",
        "bpf/starvation.bpf.h",
        "	bool turn_of_other = here->rescued;"
            => "	bool turn_of_other = false;";
    who_goes_on_alone_by_another_slice_is_caught: policies::ioprio::who_goes_on_alone_has_the_slice_of_its_class, "",
        "policies/ioprio/ioprio.bpf.c",
        "	if (!prev)\n		return false;\n	/* Nobody"
            => "	return false;\n	/* Nobody";
    a_rival_that_may_not_run_here_is_caught: policies::vtime::weights_count_on_a_cpu_with_less_to_do, " to ",
        "bpf/first_here.bpf.h",
        "	if (likely(bpf_cpumask_test_cpu(cpu, first->cpus_ptr)))"
            => "	if (1)";
    a_rival_in_bpfland_that_may_not_run_here_is_caught: policies::bpfland::weights_count_on_a_cpu_with_less_to_do, " to ",
        "bpf/first_here.bpf.h",
        "	if (likely(bpf_cpumask_test_cpu(cpu, first->cpus_ptr)))"
            => "	if (1)";
    a_time_that_follows_who_is_alone_is_caught: policies::bpfland::who_runs_alone_elsewhere_takes_no_weight_from_those_who_share, "0.",
        "bpf/weighted.bpf.h",
        "	if (first != LANE_NOBODY || scx_bpf_dsq_nr_queued(dsq) <= 0)"
            => "	if (1)";
    a_deadline_that_is_bound_elsewhere_is_caught: policies::fair::weights_count_on_a_cpu_with_less_to_do, " to ",
        "bpf/fair.bpf.h",
        "	if (unlikely(!bpf_cpumask_test_cpu(cpu, first->cpus_ptr)))"
            => "	if (0)";
    who_competes_while_it_is_parked_is_caught: policies::fair::who_waits_for_its_quota_leaves_its_share_to_its_siblings, "P/B: ",
        "meta/parking.bpf.h",
        "	if (is_used(USES_RUNNABLE))"
            => "	if (0)";
    cpus_that_are_off_line_and_count_are_caught: policies::fair::a_cache_has_the_work_of_its_cpus_that_are_on_line, "from ",
        "bpf/fair.bpf.h",
        "cpu_llc(cpu) == llc &&\n			cpu_takes_tasks(cpu);"
            => "cpu_llc(cpu) == llc;";
    a_debt_that_leaves_a_cgroup_is_caught: policies::fair::a_thousand_tasks_at_once_are_one_cgroup, "the hog waits",
        "bpf/eevdf.bpf.h",
        "	if ((s64)all > 0 && (lag > 0 || !others))"
            => "	if ((s64)all > 0)";
    a_debt_that_ends_with_its_task_is_caught: policies::fair::children_share_with_their_parents_cgroup, "beside the children",
        "bpf/fair.bpf.h",
        "	if (p->flags & PF_EXITING)\n"
            => "	if (0)\n";
    a_deadline_that_takes_no_cpu_is_caught: policies::fair::who_wants_little_takes_the_cpu_of_who_has_had_its_part, "the sleeper waits",
        "bpf/fair.bpf.h",
        "	bpf_for(i, 0, woke ? looks : 0) {"
            => "	bpf_for(i, 0, 0) {";
    an_order_that_takes_no_cpu_is_caught: user_half::who_wakes_and_wants_little_does_not_wait_for_a_slice, "the service waits",
        "policies/rustland/rustland.bpf.c",
        "	if (task->woke)"
            => "	if (0)";
    a_slice_that_ends_at_a_tick_is_caught: policies::fair::a_run_that_is_over_ends_before_the_next_tick, "the service waits",
        "meta/ends.bpf.h",
        "			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);"
            => "			;";
    a_first_part_that_ends_with_the_slice_is_caught: policies::fair::a_run_that_is_over_ends_before_the_next_tick, "the service waits",
        "bpf/fair.bpf.h",
        "	lane_end_run(lane, cpu, ns < (u64)left_ns ? ns : (u64)left_ns);"
            => "	lane_end_run(lane, cpu, left_ns);";
    a_mean_that_hides_who_could_move_is_caught: policies::fair::weights_count_across_caches_of_one_cpu, "heavy: ",
        "bpf/fair.bpf.h",
        "with > there + there / FAIR_SAME)"
            => "with * FAIR_IMBALANCE > (there - weight * own->cpus) * FAIR_BALANCED)";
    a_cache_that_changes_places_with_none_is_caught: policies::fair::equal_tasks_take_turns_at_having_a_cache_to_themselves, " of a CPU",
        "bpf/fair.bpf.h",
        "	return !own->ties;"
            => "	return false;";
    a_cache_that_takes_nothing_from_others_is_caught: policies::fair::a_cpu_with_nothing_to_do_takes_from_another_cache_at_once, "work_conserved",
        "bpf/fair.bpf.h",
        "	if (nr_llcs() == 1 || !take_elsewhere(lane, c->llc))"
            => "	if (1)";
    a_gang_that_is_not_charged_is_caught: policies::pv::a_machine_has_no_more_than_its_part, "of what each hog has",
        "policies/pv/pv.bpf.c",
        "	if (g)\n"
            => "	if (0)\n";
    a_gang_in_which_weights_do_not_count_is_caught: policies::pv::a_machine_of_unequal_virtual_cpus_has_no_more_than_its_part, "of their part",
        "policies/pv/pv.bpf.c",
        "eevdf_scale(task->e.vruntime - before, task->e.weight,\n						 READ_ONCE(g->weight)));"
            => "eevdf_scale(task->e.vruntime - before, 1, pv_members(g)));";
    members_that_wait_by_their_own_weights_are_caught: policies::pv::a_machine_of_unequal_virtual_cpus_has_no_more_than_its_part, "caches: ",
        "policies/pv/pv.bpf.c",
        "	due = eevdf_vtime(pv_request_ns(lane), pv_mean_weight(g, members));"
            => "	due = eevdf_vtime(pv_request_ns(lane), task->e.weight);";
    a_bound_that_forgives_what_a_gang_had_is_caught: policies::pv::long_times_of_a_machine_take_nothing_from_others, "of what each hog has",
        "policies/pv/pv.bpf.c",
        "	return gang_ns > slice_ns + EEVDF_TICK_NS ? gang_ns - EEVDF_TICK_NS : slice_ns;"
            => "	return slice_ns;";
    a_gang_that_begins_with_too_few_cpus_is_caught: policies::pv::a_machine_has_no_more_than_its_part, "of what each hog has",
        "policies/pv/pv.bpf.c",
        "	if (READ_ONCE(g->wants) == waiting ||"
            => "	if (0 &&";
    members_that_do_not_make_way_are_caught: policies::pv::short_turns_help_where_few_wait_and_gangs_where_many_do, "without turns",
        "policies/pv/pv.bpf.c",
        "	return READ_ONCE(g->waiting) && turn_ns < slice_ns ? turn_ns : slice_ns;"
            => "	return slice_ns;";
    a_gang_without_a_time_is_caught: policies::pv::machines_take_turns, "of one alone",
        "policies/pv/pv.bpf.c",
        "	g->until_ns = now + lane->options[pv_option_gang_ns];"
            => "	g->until_ns = now;";
    members_beyond_the_cpus_that_never_run_are_caught: policies::pv::the_virtual_cpus_of_a_machine_have_the_same, "",
        "policies/pv/pv.bpf.c",
        "	return pv_makes_way(lane, c, g, pv_number(task)) ||"
            => "	return false ||";
    a_credit_that_counts_for_nothing_is_caught: policies::lags::a_lighter_cgroup_takes_the_cpu_of_a_heavier_one, "the light one waits",
        "policies/lags/lags.bpf.c",
        "	delay_ns = g->credit * lane->options[lags_option_patience_ns] / RAVG_ONE;"
            => "	delay_ns = 0;";
    a_lighter_cgroup_that_preempts_nobody_is_caught: policies::lags::a_lighter_cgroup_takes_the_cpu_of_a_heavier_one, "the light one waits",
        "policies/lags/lags.bpf.c",
        "		lags_preempt(lane, p, key);"
            => "		;";
    a_bound_that_binds_nobody_is_caught: policies::lags::nobody_is_passed_over_for_longer_than_the_bound, "waiting_bounded",
        "policies/lags/lags.bpf.c",
        "	return delay_ns < bound_ns ? delay_ns : bound_ns;"
            => "	return delay_ns;";
    a_weight_of_a_cgroup_that_is_ignored_is_caught: policies::lags::a_heavier_weight_makes_a_cgroup_lighter, "the heavier weight had",
        "policies/lags/lags.bpf.c",
        "	g->weight = weight;"
            => "	g->weight = LAGS_WEIGHT_ONE;";
    a_yield_that_gives_nothing_up_is_caught: policies::lags::who_yields_gives_way, "switches",
        "policies/lags/lags.bpf.c",
        "	if (run->ran_ns >= run->granted_ns || here->runs == LAGS_RUNS)\n"
            => "	if (run->ran_ns >= run->granted_ns)\n";
    a_weight_of_what_is_highest_in_the_lane_that_is_ignored_is_caught: policies::lags::a_heavier_weight_makes_a_cgroup_lighter_that_is_flagged_by_itself, "the heavier weight had",
        "policies/lags/lags.bpf.c",
        "		if (!group->place)"
            => "		if (!lane_group_above(lane, group))";
    a_cache_that_sees_its_own_light_tasks_only_is_caught: policies::lags::who_waits_under_one_cache_comes_before_heavier_ones_under_another, "behind heavy ones",
        "policies/lags/lags.bpf.c",
        "	    lags_balance(lane, l, llc, cpu, now))"
            => "	    0)";
    a_cpu_that_stays_idle_beside_another_cache_is_caught: policies::lags::no_cpu_is_idle_beside_another_cache_with_work, "work_conserved",
        "policies/lags/lags.bpf.c",
        "	if (nr_llcs() == 1 || !take_elsewhere(lane, llc))"
            => "	if (1)";
    a_busy_machine_whose_slices_are_long_is_caught: policies::rusty::slices_are_short_while_all_cpus_are_busy, "while all are busy",
        "policies/rusty/rusty.bpf.c",
        "	state->overutil = rusty_is_everywhere(lane);"
            => "	state->overutil = 0;";
    an_idle_cpu_that_counts_as_busy_is_caught: policies::rusty::slices_are_short_while_all_cpus_are_busy, "while a CPU is idle",
        "policies/rusty/rusty.bpf.c",
        "		if (c && !c->runs)\n			return false;"
            => "		;";
    a_cpu_that_is_idle_at_times_and_counts_as_busy_is_caught: policies::rusty::slices_are_short_while_all_cpus_are_busy, "idle at times",
        "policies/rusty/rusty.bpf.c",
        "	if (__sync_lock_test_and_set(&rusty_state(lane)->idled, 0))"
            => "	if (0)";
    a_balancer_that_goes_the_wrong_way_is_caught: policies::rusty::load_is_evened_out_between_domains, "after all",
        "policies/rusty/rusty.bpf.c",
        "	if (surplus <= 0 ||"
            => "	if (surplus >= 0 ||";
    a_domain_that_does_not_steal_is_caught: policies::rusty::a_domain_with_nothing_to_do_steals, "they ran",
        "policies/rusty/rusty.bpf.c",
        "	if (prev)\n		return false;\n	if (rusty_steal"
            => "	return false;\n	if (rusty_steal";
    nodes_that_are_evened_out_like_caches_are_caught: policies::rusty::nodes_may_differ_by_more, "between nodes",
        "policies/rusty/rusty.bpf.c",
        "#define RUSTY_IMBALANCE_NODES 17"
            => "#define RUSTY_IMBALANCE_NODES 0";
    a_weight_that_cannot_be_used_is_caught: policies::rusty::a_weight_counts_as_far_as_it_can_be_used, "a light one has",
        "policies/rusty/rusty.bpf.c",
        "	state->weight_most = state->mean >> RAVG_BITS;"
            => "	state->weight_most = ~0U; return 0;";
    a_domain_without_time_that_takes_others_is_caught: policies::rusty::an_idle_cpu_elsewhere_is_taken_while_its_domain_has_time, "without time",
        "policies/rusty/rusty.bpf.c",
        "	return l && l->busy < lane->options[rusty_option_direct_greedy_under];"
            => "	return true;";
    a_domain_off_line_that_keeps_its_tasks_is_caught: policies::rusty::who_is_of_a_domain_that_is_off_line_comes_to_another_one, "waiting_bounded",
        "policies/rusty/rusty.bpf.c",
        "	} else if (l && unlikely(!rusty_takes_tasks(l, task->domain))) {"
            => "	} else if (0) {";
    a_cpu_off_line_that_counts_is_caught: policies::rusty::a_cpu_that_is_off_line_is_nobodys_part, "the least is",
        "policies/rusty/rusty.bpf.c",
        "		l = cpu_possible(i) && cpu_takes_tasks(i) ? rusty_llc_at(lane, cpu_llc(i)) : NULL;"
            => "		l = cpu_possible(i) ? rusty_llc_at(lane, cpu_llc(i)) : NULL;";
    a_cpuset_that_is_not_balanced_is_caught: policies::rusty::who_may_use_all_cpus_that_are_on_line_is_balanced, "of the cpuset's",
        "meta/kcalls.bpf.h",
        "	return !everywhere;"
            => "	return true;";
    who_may_not_migrate_and_waits_elsewhere_is_caught: policies::rusty::who_may_not_migrate_is_of_the_domain_of_its_cpu, "waiting_bounded",
        "meta/kcalls.bpf.h",
        "	if (unlikely(may_not_migrate(p)))"
            => "	if (0)";
    what_is_promised_twice_is_caught: policies::rusty::two_domains_do_not_pass_their_load_to_the_same_one, "was left alone",
        "policies/rusty/rusty.bpf.c",
        "		l->coming += from->push;"
            => "		;";
    a_domain_that_is_busy_unseen_is_caught: policies::rusty::who_always_goes_on_makes_its_domain_busy, "half busy",
        "policies/rusty/rusty.bpf.c",
        "			rusty_count_run(lane, cpu, run->ran_ns);"
            => "			;";
    runs_that_are_ended_for_nobody_are_caught: policies::central::who_waits_for_another_cpu_interrupts_nobody_each_millisecond, "interrupts of CPU",
        "policies/central/central.bpf.c",
        "		c->since_ns = now;"
            => "		;";
    a_cpu_that_still_wants_while_it_runs_is_caught: policies::central::who_wakes_beside_busy_cpus_is_handed_to_none_of_them, "beside a CPU that is soon idle",
        "policies/central/central.bpf.c",
        "	c->since_ns = scx_bpf_now();\n	c->wants = 0;"
            => "	c->since_ns = scx_bpf_now();";
    a_cpu_that_still_wants_as_its_task_goes_on_is_caught: policies::central::who_wakes_beside_busy_cpus_is_handed_to_none_of_them, "beside a CPU that is soon idle",
        "policies/central/central.bpf.c",
        "	c->wants = 0;\n	return false;"
            => "	return false;";
    who_is_stolen_on_its_way_is_caught: policies::central::who_is_handed_to_an_idle_cpu_takes_no_other, "hog 0 had",
        "policies/central/central.bpf.c",
        "		if (!c || ns_since(c->handed_ns, now) < (s64)CENTRAL_LOOKS_NS)"
            => "		if (!c)";
    idle_cpus_that_come_after_others_are_caught: policies::central::who_is_handed_to_an_idle_cpu_takes_no_other, "hog 1 had",
        "policies/central/central.bpf.c",
        "	return bpf_cpumask_test_cpu(cpu, idle) &&"
            => "	return 0 &&";
    a_central_cpu_that_all_wait_for_is_caught: policies::central::cpus_take_by_themselves_while_the_one_that_decides_does_not_answer, "[",
        "policies/central/central.bpf.c",
        "				state->unanswered++;"
            => "				;";
    who_is_gone_and_still_waited_for_is_caught: policies::pair::who_leaves_a_cgroup_while_it_waits_costs_that_no_turn, "who were left",
        "policies/pair/pair.bpf.c",
        "		__sync_fetch_and_add(&STATE_OF(group, struct pair_group)->started, 1);\n	task->queued = 0;"
            => "		;\n	task->queued = 0;";
    a_partner_that_is_waited_for_in_vain_is_caught: policies::pair::a_cpu_does_not_wait_for_a_partner_that_a_higher_class_has, "both ran",
        "policies/pair/pair.bpf.c",
        "	pair_look_later(lane);\n	return false;"
            => "	return false;";
    a_partner_that_is_handed_all_in_vain_is_caught: policies::pair::a_cpu_does_not_wait_for_a_partner_that_a_higher_class_has, "both ran",
        "policies/pair/pair.bpf.c",
        "	} else if (handed && pair_held_for(there, now) >= (s64)PAIR_HELD_NS) {"
            => "	} else if (0) {";
    a_cpu_that_is_back_and_waits_is_caught: policies::pair::who_is_bound_to_a_cpu_that_another_lane_mostly_has_has_its_turn, "b waited",
        "policies/pair/pair.bpf.c",
        "	if (!pair_left_ns(lane, pair, now) || (others && pair_was_asked(pair, now))) {"
            => "	if (!pair_left_ns(lane, pair, now)) {";
    a_core_that_never_ran_and_looks_busy_is_caught: policies::nest::a_cpu_that_never_ran_leaves_its_core_whole, "beside their parent",
        "policies/nest/nest.bpf.c",
        "	return cpu_sibling(cpu) != cpu && c && c->runs;"
            => "	return cpu_sibling(cpu) != cpu && c && !c->idle_since_ns;";
    a_timer_that_ends_no_run_is_caught: policies::central::all_have_their_turns_of_a_slice, "waiting_bounded",
        "policies/central/central.bpf.c",
        "			lane_kick(lane, cpu, true);"
            => "			;";
    what_is_asked_too_soon_and_forgotten_is_caught: policies::central::who_wakes_beside_idle_cpus_is_handed_one_at_once, "longest_wait_ns",
        "meta/services.bpf.h",
        "		asks_set_timer(asked, cpu, now, early_ns);"
            => "		;";
    a_timer_that_came_and_counts_as_set_is_caught: policies::central::what_is_asked_after_an_answer_is_answered_in_time, "longest_wait_ns",
        "meta/services.bpf.h",
        "	__sync_lock_test_and_set(&asked->timer_ns, 0);"
            => "	;";
    a_long_answer_that_counts_for_nothing_is_caught: services::who_takes_long_to_answer_is_interrupted_once_in_ten_times_as_long, "interrupts where answers take",
        "meta/services.bpf.h",
        "	return rest_ns < ASKS_NS ? ASKS_NS : rest_ns;"
            => "	return ASKS_NS;";
    a_central_cpu_that_is_gone_is_caught: policies::central::who_wakes_while_the_central_cpu_is_off_line_is_handed_a_cpu_at_once, "longest_wait_ns",
        "policies/central/central.bpf.c",
        "		cpu = cpu_after(from, i);\n		if (lane_ask(lane, cpu)) {"
            => "		cpu = from;\n		if (lane_ask(lane, cpu) || 1) {";
    a_cpu_that_leaves_unseen_is_caught: policies::central::a_central_cpu_that_is_about_to_go_is_asked_for_a_sweep_at_most, "kicks of a CPU",
        "meta/sweep.bpf.h",
        "		sweep_leaving();"
            => "		;";
    a_kernel_thread_that_is_light_is_caught: every_policy::a_light_kernel_thread_has_its_turn_in_a_crowd, "it ran for",
        "bpf/sched.bpf.h",
        "	return p->flags & PF_KTHREAD && weight < WEIGHT_DFL ? WEIGHT_DFL : weight;"
            => "	return weight;";
    cpus_that_decide_for_themselves_are_caught: policies::central::one_cpu_hands_out_what_the_others_run, "handed out for",
        "policies/central/central.bpf.c",
        "	if ((u32)cpu == READ_ONCE(state->cpu)) {"
            => "	if (1) {";
    a_timer_that_never_stops_is_caught: policies::central::the_timer_stops_while_nobody_waits, "timers were set",
        "policies/central/central.bpf.c",
        "	} else if (!came) {"
            => "	} else if (0) {";
    ticks_that_do_not_stop_again_are_caught: policies::central::ticks_stop_but_where_another_lane_needs_them, " ticks",
        "meta/metasched.bpf.c",
        "		start_anew(prev);"
            => "		;";
    a_run_alone_that_is_not_infinite_is_caught: policies::central::ticks_stop_but_where_another_lane_needs_them, " ticks",
        "meta/level1.bpf.h",
        "	return is_used(USES_INFINITE) && l && policy_is_infinite(l->lane.policy) ? SCX_SLICE_INF :"
            => "	return 0 ? SCX_SLICE_INF :";
    who_is_left_behind_such_a_run_is_caught: policies::central::nobody_is_left_behind_a_run_that_began_meanwhile, "longest_wait_ns",
        "meta/sweep.bpf.h",
        "	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0;"
            => "	       0;";
    a_cpu_that_decides_for_good_is_caught: policies::central::the_cpu_that_decides_is_the_one_that_the_option_names, "another CPU decides",
        "policies/central/central.bpf.c",
        "	WRITE_ONCE(state->cpu, central_option(lane));\n	if"
            => "	if";
    cgroups_that_are_all_alike_are_caught: policies::pair::two_cpus_of_a_pair_never_run_tasks_of_different_cgroups, "at a stretch",
        "policies/pair/pair.bpf.c",
        "	if (!g)\n		return PAIR_UNKNOWN;"
            => "	if (1)\n		return PAIR_UNKNOWN;";
    a_partner_that_is_not_asked_is_caught: policies::pair::who_changes_its_cgroup_runs_with_the_new_one, "at a stretch",
        "policies/pair/pair.bpf.c",
        "	return !(runs & other) || runs >> PAIR_CPUS_BITS == number;"
            => "	return true;";
    siblings_that_are_no_pair_are_caught: policies::pair::siblings_of_a_core_are_a_pair, "left == right",
        "policies/pair/pair.bpf.c",
        "	if (sibling != cpu && cpu_sibling(sibling) == cpu)\n		return sibling;"
            => "	;";
    a_batch_that_is_never_over_is_caught: policies::pair::each_cgroup_has_its_turn_of_a_batch_however_many_tasks_it_has, " ran ",
        "policies/pair/pair.bpf.c",
        "	if (!pair_left_ns(lane, pair, now) || (others && pair_was_asked(pair, now))) {"
            => "	if (0) {";
    a_threshold_that_does_not_move_is_caught: policies::bpfland::what_is_often_is_found_out, " and ",
        "policies/bpfland/bpfland.bpf.c",
        "	u64 threshold = bpfland_min(bpfland_average(state->threshold, rate), most);"
            => "	u64 threshold = BPFLAND_LEAST_THRESHOLD;";
    a_shared_queue_that_starves_is_caught: policies::bpfland::the_shared_queue_has_a_turn_after_its_time_whoever_is_interactive, " and ",
        "bpf/starvation.bpf.h",
        "	if (likely(!starves_here && !queue_starves(dsq, *since_ns, most_ns)))"
            => "	if (1)";
    slices_that_are_never_divided_are_caught: policies::bpfland::slices_get_shorter_the_more_tasks_wait, "in a crowd",
        "policies/bpfland/bpfland.bpf.c",
        "	slice_ns = lane->options[bpfland_option_slice_ns] / (waiting + 1);"
            => "	slice_ns = lane->options[bpfland_option_slice_ns];";
    credit_that_nobody_has_is_caught: policies::bpfland::who_sleeps_keeps_as_much_credit_as_the_option_says, "with credit",
        "policies/bpfland/bpfland.bpf.c",
        "			      lane->options[bpfland_option_slice_lag_ns],"
            => "			      0,";
    a_use_that_never_grows_is_caught: policies::ioprio::the_use_of_a_short_priority_slice_is_measured_against_that_slice, " long, ",
        "policies/ioprio/ioprio.bpf.c",
        "	return (use * stays + now * (1000 - stays)) / 1000;"
            => "	use = (use * stays + now * (1000 - stays)) / 1000 < use ? (use * stays + now * (1000 - stays)) / 1000 : use;\n	return use;";
    priority_each_time_is_caught: policies::ioprio::no_starvation_gives_every_other_turn_to_the_normal_queue, " long, ",
        "policies/ioprio/ioprio.bpf.c",
        "	if (prio && task->had_priority && lane->options[ioprio_option_no_starvation]) {"
            => "	if (0) {";
    a_normal_queue_that_starves_is_caught: policies::ioprio::the_normal_queue_has_a_turn_after_starvation_ns_whoever_has_priority, "waiting_bounded",
        "bpf/starvation.bpf.h",
        "	if (likely(!starves_here && !queue_starves(dsq, *since_ns, most_ns)))"
            => "	if (1)";
    who_yields_taken_for_one_who_waits_is_caught: policies::ioprio::who_yields_is_not_taken_for_one_who_waits, " to ",
        "policies/ioprio/ioprio.bpf.c",
        "	if (run->runnable && run->ran_ns < run->granted_ns)\n		return;"
            => "	;";
    one_slice_for_all_on_idle_cpus_is_caught: policies::ioprio::on_an_idle_cpu_too_who_has_priority_has_the_slice_of_its_class, "with priority",
        "policies/ioprio/ioprio.bpf.c",
        "ioprio_slice(lane, prio), &claimed);"
            => "ioprio_slice(lane, false), &claimed);";
    weights_the_other_way_round_are_caught: policies::qmap::hogs_of_the_five_classes_share_a_cpu_as_1_2_4_8_16, "and not",
        "policies/qmap/qmap.bpf.c",
        "			at->left = 1 << at->queue;"
            => "			at->left = 16 >> at->queue;";
    empty_queues_that_are_waited_for_are_caught: policies::qmap::what_a_class_gets_does_not_depend_on_how_many_tasks_it_has, "and not",
        "policies/qmap/qmap.bpf.c",
        "		at->left = 0;\n	}"
            => "		at->left--;\n	}";
    who_is_alone_in_its_class_and_makes_way_is_caught: policies::qmap::hogs_of_the_five_classes_share_a_cpu_as_1_2_4_8_16, "and not",
        "policies/qmap/qmap.bpf.c",
        "	if (!prev || qmap_queue_of(prev) != queue)"
            => "	if (1)";
    an_order_that_is_not_followed_is_caught: user_half::what_user_space_decides_is_the_order_in_which_tasks_run, "[",
        "policies/rustland/rustland.bpf.c",
        "	place->vtime = d->order;"
            => "	place->vtime = 0;";
    slices_that_are_not_granted_are_caught: user_half::a_slice_is_what_user_space_grants_as_far_as_the_options_let_it, "turns of 2 ms",
        "policies/rustland/rustland.bpf.c",
        "	place->slice_ns = d->slice_ns > least_ns ? d->slice_ns : least_ns;"
            => "	place->slice_ns = most_ns;";
    slices_without_a_bound_are_caught: user_half::a_slice_is_what_user_space_grants_as_far_as_the_options_let_it, "turns of the most",
        "policies/rustland/rustland.bpf.c",
        "	if (place->slice_ns > most_ns)\n		place->slice_ns = most_ns;"
            => "	;";
    who_is_decided_and_waits_for_who_is_not_is_caught: user_half::who_is_decided_and_who_is_not_have_every_second_choice_each, "threads ran",
        "policies/rustland/rustland.bpf.c",
        "	u32 first = STATE_OF(lane, struct rustland_lane)->choices++ % RUSTLAND_QUEUES;"
            => "	u32 first = RUSTLAND_ALONE;";
    a_rotation_that_nobody_needs_is_caught: accounts::who_is_woken_by_a_task_that_sleeps_then_has_its_cpu, "rounds of 10,000",
        "meta/dispatch.bpf.h",
        "	if (!kernel_counts_waits() || here->anyway ||" => "	if (1 ||";
    a_rotation_that_sees_nobody_wait_is_caught: policies::pair::who_is_bound_to_a_cpu_that_another_lane_mostly_has_has_its_turn, "b waited",
        "meta/waits.bpf.h",
        "	       vtime_before(p->sched_info.last_queued, since_ns);" => "	       0;";
    runs_that_count_when_they_are_over_are_caught: accounts::two_applications_have_a_cpu_each, "changed their CPU",
        "meta/in_service.bpf.h",
        "	return a->vtime + cpus * READ_ONCE(a->run_vtime_ns);" => "	return a->vtime;";
    a_kept_slice_that_is_not_cut_is_caught: accounts::who_is_kept_beside_others_makes_way_after_2_ms_and_a_tick, "the kernel thread waited",
        "meta/dispatch.bpf.h",
        "			if (number == own && prev && prev->scx.slice > SHARED_SLICE_NS)"
            => "			if (0)";
    credit_that_who_never_idles_keeps_is_caught: accounts::who_wakes_all_the_time_saves_no_more_than_20_ms, "lane_shares",
        "meta/sweep.bpf.h",
        "	account_limit_credit(a);"
            => "	if (!(READ_ONCE(busy.accounts) & bit))\n		account_limit_credit(a);";
    kernel_threads_that_somebody_pays_for_are_caught: accounts::nobody_pays_for_kernel_threads, "lane_shares",
        "meta/level1.bpf.h",
        "	if (!l || is_level1s(p, root))"
            => "	if (!l)";
    a_number_of_no_cpu_as_lanes_change_is_caught: accounts::numbers_that_stand_for_no_cpu_are_left_alone, "CPU 2, which there is not",
        "meta/lifecycle.bpf.h",
        "		if (!cpu_possible(cpu))"
            => "		if (0)";
    a_kick_of_no_cpu_by_the_sweep_is_caught: accounts::numbers_that_stand_for_no_cpu_are_left_alone, "invalid CPU",
        "meta/kcalls.bpf.h",
        "		if (cpu_possible(cpu))"
            => "		if (1)";
    who_is_parked_and_never_let_through_is_caught: limits::nobody_is_parked_for_long_in_a_crowd, "waiting_bounded",
        "meta/parking.bpf.h",
        "	if (number && t->parked_from_ns && bpf_ktime_get_ns() - t->parked_from_ns >= PARKED_LOOK_NS)"
            => "	if (0)";
    who_is_parked_in_a_read_section_is_caught: limits::who_is_in_a_read_section_is_not_parked, "it was parked",
        "meta/parking.bpf.h",
        " || is_in_rcu_section(p);"
            => ";";
    a_run_that_another_cpu_changed_without_a_timer_is_caught: limits::who_is_changed_as_it_runs_has_a_timer_at_once, "quota_kept",
        "meta/parking.bpf.h",
        "		cpu->untimed = on != (s32)bpf_get_smp_processor_id();"
            => "		cpu->untimed = 0;";
    who_is_parked_in_a_system_call_is_caught: limits::a_system_call_ends_before_its_task_is_parked, "calls_end",
        "meta/parking.bpf.h",
        "	if (number && ends_its_call(p, t, limit_chain(t->limit)))"
            => "	if (0)";
    a_guest_that_was_left_long_ago_is_caught: limits::a_virtual_cpu_that_went_on_ends_its_next_call, "calls_end",
        "meta/parking.bpf.h",
        "	if (!number)\n		t->in_guest = 0;"
            => "";
    a_guest_that_was_left_where_nobody_asked_is_caught: limits::who_was_about_to_enter_its_guest_is_not_parked_in_its_next_call, "calls_end",
        "meta/parking.bpf.h",
        "	if (starts)\n		t->in_guest = 0;"
            => "";
    a_run_in_another_cgroup_that_counts_is_caught: limits::what_a_task_ran_in_another_cgroup_is_not_beyond_its_limit, "calls_end",
        "meta/parking.bpf.h",
        "	if (!t->limit) {\n		t->beyond_from_ns = 0;"
            => "	if (!t->limit) {";
    a_run_without_limits_that_counts_is_caught: limits::what_a_task_ran_while_there_were_no_limits_is_beyond_none, "calls_end",
        "meta/syscalls.bpf.h",
        "	if (t->beyond_of != chain) {"
            => "	if (0) {";
    who_is_ended_at_the_start_in_a_system_call_is_caught: limits::a_system_call_ends_before_its_task_is_parked, "its call",
        "meta/parking.bpf.h",
        " || ends_its_call(p, t, cpu->limit_chain))"
            => ")";
    who_goes_on_after_its_system_call_is_caught: limits::a_system_call_ends_before_its_task_is_parked, "it ran for",
        "meta/syscalls.bpf.h",
        "	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);"
            => "	;";
    a_virtual_cpu_that_is_not_parked_is_caught: limits::a_virtual_cpu_is_parked_in_its_system_call, "'a' ran for",
        "meta/syscalls.bpf.h",
        " || t->in_guest || "
            => " || ";
    a_system_call_for_ever_is_caught: limits::a_system_call_that_does_not_end_is_parked, "it ran for",
        "meta/syscalls.bpf.h",
        "	return ran_ns - t->beyond_from_ns < BEYOND_MOST_NS && "
            => "	return ";
    one_system_call_and_no_more_is_caught: limits::each_system_call_ends, "calls_end",
        "meta/parking.bpf.h",
        "	if (cpu->taken_ns) {\n		t->beyond_from_ns = 0;"
            => "	if (cpu->taken_ns) {";
    a_refill_that_wakes_everybody_is_caught: limits::a_refill_leaves_the_tasks_of_other_cgroups_parked, "200 tasks were queued",
        "meta/limits.bpf.h",
        "	if (waits)\n		return;"
            => "";
    a_debt_that_is_never_forgiven_is_caught: limits::a_debt_that_would_take_too_long_is_forgiven_and_counted, "were forgiven",
        "meta/limits.bpf.h",
        "	if (vtime_before(l->granted_ns + most, l->used_ns)) {"
            => "	if (0) {";
    a_cgroup_that_stays_assigned_is_caught: shares::a_cgroups_own_weight_is_not_that_of_an_application_it_has_left, "it weighs",
        "meta/cgroups.bpf.h",
        "	n->assigned = account;\n	/* The"
            => "	if (account)\n		n->assigned = account;\n	/* The";
    a_timer_that_goes_with_its_lane_is_caught: reuse::a_lane_in_the_place_of_another_hears_of_its_timer, "bpf_timer_start",
        "meta/lifecycle.bpf.h",
        "	l->lane.generation = 0;\n	l->state = LANE_FREE;"
            => "	timer_stop(TIMER_LANES + l->lane.slot);\n	l->lane.generation = 0;\n	l->state = LANE_FREE;";
    a_queue_that_a_new_limit_keeps_is_caught: reuse::who_was_parked_goes_on_though_another_cgroup_has_the_place_of_the_limit, "they ran",
        "meta/limits.bpf.h",
        "	l->look_at_ns = 0;"
            => "	;";
    an_account_that_has_work_for_ever_is_caught: reuse::who_is_alone_when_an_application_has_gone_has_whole_slices, "it was stopped",
        "meta/sweep.bpf.h",
        "		if (!account_at(number)->first && !(with_work & account_bit(number)))"
            => "		if (!account_at(number)->first)";
    a_light_crowd_that_waits_by_its_weight_is_caught: reuse::the_lightest_application_with_many_tasks_does_not_end_the_program, "waiting_bounded",
        "meta/dispatch.bpf.h",
        "		if (every > BEHIND_MOST_NS)"
            => "		if (0)";
    cpus_that_are_not_there_and_count_are_caught: reuse::a_light_application_is_light_where_most_cpus_are_off_line, "it ran for",
        "meta/sweep.bpf.h",
        "	WRITE_ONCE(cpus_working, cpus);"
            => "	WRITE_ONCE(cpus_working, nr_cpus());";
    a_cgroup_that_is_idle_already_is_caught: reuse::a_cgroup_that_was_idle_when_the_program_came_has_next_to_nothing, "it ran for",
        "meta/metasched.bpf.c",
        "cgroup_is_idle(cgrp) ? WEIGHT_IDLE : args->weight"
            => "args->weight";
}
