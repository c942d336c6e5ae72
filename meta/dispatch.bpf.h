/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Level 1, the side of the CPUs: which account a CPU serves next, and which of its lanes.
 *
 * The account with work that lags most comes first. One that waited too long comes before
 * all others, and now and then the next one in order does, see ROTATION_NS.
 *
 * Inside an account the first task of a new lane comes first, then lanes that drain, the
 * oldest first, so that tasks leave them in the order in which they came; then the lane in
 * force. While turns are taken, that one and those that rest have shares by the tasks that
 * are queued in them, see turns.bpf.h.
 *
 * The task that ran here counts as one more of its account's, else an account with one task
 * per CPU would never be seen to be busy; its run so far is charged first. It is kept if its
 * account lags and has nobody else, unless its lane was replaced.
 */
#ifndef METASCHED_DISPATCH_BPF_H
#define METASCHED_DISPATCH_BPF_H

#include <level1.bpf.h>
#include <look.bpf.h>
#include <left.bpf.h>
#include <kthreads.bpf.h>

/*
 * So often a choice of a CPU goes to the next account in order instead of the one that lags
 * most. An account's share may come from other CPUs, and tasks of it that may run on this one
 * only would wait for ever beside accounts that have no other CPU. With many accounts it comes
 * more often, so that each has its turn here after ROTATION_ALL_NS, or twice that: a choice
 * that an account which lags has asked for is left to it as long.
 *
 * Most often nobody depends on that: the account's tasks would soon have had another CPU. So it has this
 * one only if one of its first tasks has waited for ROTATION_NS; and in a round each ROTATION_ALL_NS
 * anyway, since a task that has may stand behind others.
 */
#define ROTATION_NS (64ULL * 1000 * 1000)
#define ROTATION_ALL_NS (2000ULL * 1000 * 1000)
/*
 * A hundred such tasks would wait for half a minute in that way, and the kernel's watchdog would
 * end us. So an account whose tasks wait here for more than BEHIND_NS has its part of this CPU, as
 * it would have by its weight if each CPU were shared for itself. That may be more than it is due
 * of the whole machine. However light it is, it has a slice in each BEHIND_MOST_NS: by its weight alone the
 * tasks of one of 1 beside others of 10,000 would wait until the watchdog ended us.
 */
#define BEHIND_MOST_NS (50ULL * 1000 * 1000)

/* The account after that one in a set that is not empty, round and round. */
static __always_inline u32 next_account(u64 set, u32 number)
{
	u64 after = set & ~((2ULL << (number & (ACCOUNTS_MAX - 1))) - 1);

	return lowest_account(after ? after : set);
}

/*
 * Lets the lane's policy give this CPU a task. The task that ran here is put to
 * the policy too if it is the lane's, unless the lane was replaced: then the task
 * has to come through the new one. If the policy keeps it, others may have work.
 */
static __always_inline bool lane_dispatch(struct meta_lane *l, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *here;
	struct task_ctx *t;

	if (policy_keeps_tasks(l->lane.policy) && prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    l->state == LANE_IN_FORCE) {
		here = cpu_ctx_here();
		t = here && lane_running(here, prev) == l ? task_ctx_find(prev) : NULL;
		if (t && t->generation == l->lane.generation) {
			here->run = run_of(here, prev, true);
			return policy_dispatch_task(&l->lane, cpu, prev, &t->policy, &here->run);
		}
	}
	return policy_dispatch_task(&l->lane, cpu, NULL, &no_task, &no_run);
}

/* The lane's policy has given a CPU a task. */
static __always_inline void account_served(struct account *a, struct meta_lane *l)
{
	a->serves++;
	if (unlikely(l->rescues))
		l->rescues = 0;
}

/* One lane is in force, and its policy keeps state per task. */
static __noinline bool dispatch_alone(struct meta_lane *l, s32 cpu, struct task_struct *prev)
{
	return lane_dispatch(l, cpu, prev);
}

/*
 * Serves one of an account's lanes. If its policy gives no task, level 1 may take one itself: from a
 * lane that was replaced at once, so that every lane gets empty; from a lane in force only when its
 * account has waited too long, and then that counts against the policy.
 *
 * This and what follows is global where the verifier shall read it once, and not with every
 * path that leads to it; and weak, since the compiler would else leave out arguments.
 */
__weak __noinline bool lane_serve(u32 slot, s32 cpu,
				  struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct meta_lane *l = lane_at(slot);
	struct account *a = account_at(l->account);
	bool urgent = READ_ONCE(busy.urgent) & account_bit(l->account);

	if (likely(!l->quarantined) && lane_dispatch(l, cpu, prev)) {
		account_served(a, l);
		return true;
	}
	if (likely(l->state == LANE_IN_FORCE && !l->quarantined && !urgent))
		return false;
	if (!lane_move_any(l))
		return false;
	if (l->state == LANE_IN_FORCE)
		l->rescues++;
	else
		a->serves++;
	return true;
}

/*
 * Returns the lane of a cycle whose tasks have run least (turn_vtime), of two equal ones the older;
 * LANES_MAX if there is none.
 */
__noinline u32 first_of_turns(u32 first)
{
	u32 i, lane = first, best = LANES_MAX;
	struct meta_lane *l;
	u64 lowest = 0;

	bpf_for(i, 0, LANES_MAX) {
		if (!lane)
			break;
		l = lane_at(lane - 1);
		if (l->state != LANE_DRAINING &&
		    (best == LANES_MAX || vtime_before(l->turn_vtime, lowest))) {
			best = lane - 1;
			lowest = l->turn_vtime;
		}
		lane = l->next;
	}
	return best;
}

/* Serves an account's lanes by age: those that drain, or all others. */
static __always_inline bool serve_by_age(struct account *a, bool drains, s32 cpu,
					 struct task_struct *prev)
{
	u32 i, next = READ_ONCE(a->first);
	struct meta_lane *l;

	bpf_for(i, 0, LANES_MAX) {
		if (!next)
			break;
		l = lane_at(next - 1);
		if ((l->state == LANE_DRAINING) == drains && lane_serve(next - 1, cpu, prev))
			return true;
		next = l->next;
	}
	return false;
}

/*
 * Serves an account that has several lanes, or none in force. The first run of the lane in force goes
 * to a queued task, not to the one that ran here: the policy might keep that task again and again, and
 * tasks in lanes that drain would wait for ever. In a short turn the lane in force has no first run at
 * once: the task that ran when the turn began would have it, and so the CPU, at each turn.
 */
static __always_inline bool account_serve_all(struct account *a, s32 cpu,
					      struct task_struct *prev)
{
	u32 lane = READ_ONCE(a->lane), best;
	struct meta_lane *l = lane_at(lane - 1);

	if (lane && !l->first_run_ns && (!cycle.turns || cycle.settles) &&
	    lane_serve(lane - 1, cpu, NULL))
		return true;
	if (serve_by_age(a, true, cpu, prev))
		return true;
	if (cycle.turns && a == account_at(ROOT_ACCOUNT)) {
		best = first_of_turns(a->first);
		if (best != LANES_MAX && lane_serve(best, cpu, prev))
			return true;
	}
	return serve_by_age(a, false, cpu, prev);
}

/*
 * The account's lane if it has that one only and no account is urgent, or NULL: then its policy
 * is asked and nothing more is to be done, which is so most often.
 */
static __always_inline struct meta_lane *lane_only(struct account *a)
{
	u32 lane = READ_ONCE(a->lane);
	struct meta_lane *l = lane_at(lane - 1);

	if (likely(lane && a->first == lane && a->last == lane && !l->quarantined &&
		   !READ_ONCE(busy.urgent)))
		return l;
	return NULL;
}

/* Serves an account: whether one of its lanes gave this CPU a task. */
__weak __noinline bool account_serve(u32 number, s32 cpu,
				     struct task_struct *prev __arg_trusted __arg_nullable)
{
	struct account *a = account_at(number);
	struct meta_lane *only = lane_only(a);
	u32 lane = READ_ONCE(a->lane);
	bool served;

	if (likely(only)) {
		if (!lane_dispatch(only, cpu, prev))
			return false;
		account_served(a, only);
		return true;
	}
	if (lane && a->first == lane && a->last == lane)
		served = lane_serve(lane - 1, cpu, prev);
	else
		served = account_serve_all(a, cpu, prev);
	if (!served)
		return false;
	if (unlikely(READ_ONCE(busy.urgent) & account_bit(number)))
		__sync_fetch_and_and(&busy.urgent, ~account_bit(number));
	return true;
}

/*
 * The account of a set of several that is to be served first, the lower number of two alike. What other
 * CPUs run for them at this moment counts as charged. Of those that are urgent it is the one that has
 * waited longest: with more than a CPU has time for in URGENT_SWEEPS all of them are urgent always.
 */
__noinline u32 first_of_accounts(u64 set, struct cpu_ctx *here __arg_nonnull)
{
	u64 urgent = READ_ONCE(busy.urgent) & set, key, lowest = 0;
	u32 i, number, best = NO_ACCOUNT;
	struct account *a;

	if (unlikely(urgent))
		set = urgent;
	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!set)
			break;
		number = lowest_account(set);
		set &= set - 1;
		a = account_at(number);
		key = unlikely(urgent) ? -(u64)a->unserved_sweeps :
					 account_vtime_elsewhere(number, here);
		if (best == NO_ACCOUNT || vtime_before(key, lowest)) {
			best = number;
			lowest = key;
		}
	}
	return best;
}

/* The account of a set that is to be served first. Most often one alone has work. */
static __always_inline u32 first_account(u64 set, struct cpu_ctx *here)
{
	return likely(!several(set)) ? lowest_account(set) : first_of_accounts(set, here);
}

/* Remembers how far level 1 has come, when an account is served in its turn. */
static __always_inline void level1_advance(u64 vtime)
{
	if (vtime_before(level1.vtime_now, vtime))
		level1.vtime_now = vtime;
}

/* Whether it is the turn of the next account in order of those with work, see ROTATION_NS. */
static __always_inline bool rotation_is_due(struct cpu_ctx *here, u64 set, u64 now, bool asked_for)
{
	u64 since = now - here->rotated_ns, every;

	/* However many have work: most choices need no count of them. */
	if (likely(since < ROTATION_ALL_NS / ACCOUNTS_MAX))
		return false;
	every = ROTATION_ALL_NS / __builtin_popcountll(set);
	if (every > ROTATION_NS)
		every = ROTATION_NS;
	if (since < every || (asked_for && since < 2 * every))
		return false;
	here->rotated_ns = now;
	return true;
}

/*
 * Of the accounts that are behind here one that has not been served for so long that its part of
 * this CPU, by its weight, is a slice; at most half of the CPU. NO_ACCOUNT if there is none.
 */
static __noinline u32 behind_and_due(struct cpu_ctx *here, u64 set, u64 now, bool asked_for)
{
	u64 all = WEIGHT_NOW_DFL * __builtin_popcountll(set), behind = here->behind & set, every;
	u32 i, number, weight;

	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!behind)
			break;
		number = lowest_account(behind) & (ACCOUNTS_MAX - 1);
		behind &= behind - 1;
		weight = READ_ONCE(account_at(number)->weight_now);
		every = SHARED_SLICE_NS * all / (weight ? weight : 1);
		if (every < 2 * SHARED_SLICE_NS)
			every = 2 * SHARED_SLICE_NS;
		if (every > BEHIND_MOST_NS)
			every = BEHIND_MOST_NS;
		if (now - here->behind_served_ns[number] < (asked_for ? 2 * every : every))
			continue;
		here->behind_served_ns[number] = now;
		return number;
	}
	return NO_ACCOUNT;
}

/* The next account in order, which has its turn; NO_ACCOUNT if it does not need it. */
static __noinline u32 next_in_rotation(struct cpu_ctx *here, u64 set, u64 now)
{
	u32 number = next_account(set, (u32)here->turn);

	if (number <= here->turn) {
		here->anyway = now - here->anyway_ns >= ROTATION_ALL_NS;
		if (here->anyway)
			here->anyway_ns = now;
	}
	here->turn = number;
	if (!kernel_counts_waits() || here->anyway ||
	    account_has_waiting(number, bpf_get_smp_processor_id(), now - ROTATION_NS))
		return number;
	return NO_ACCOUNT;
}

/* The account of a set of several to which this choice goes out of its turn; NO_ACCOUNT: to none. */
static __always_inline u32 out_of_turn(struct cpu_ctx *here, u64 set)
{
	bool asked_for = here->preempted;
	u64 now = scx_bpf_now();
	u32 number;

	here->preempted = 0;
	if (rotation_is_due(here, set, now, asked_for)) {
		number = next_in_rotation(here, set, now);
		if (number != NO_ACCOUNT)
			return number;
	}
	return unlikely(here->behind & set) ? behind_and_due(here, set, now, asked_for) : NO_ACCOUNT;
}

/*
 * The account of the task that ran here, which may go on for it; NO_ACCOUNT if the task does not go on,
 * was a kernel thread, or came through a lane that was replaced. Charges its run, and changes its lane
 * if its cgroup or an assignment has changed.
 */
__weak __noinline u32 account_of_prev(struct cpu_ctx *here __arg_nonnull,
				      struct task_struct *prev __arg_trusted, u32 root)
{
	struct meta_lane *l = lane_running(here, prev);

	if (is_level1s(prev, root))
		return NO_ACCOUNT;
	if (l)
		charge_running(l, here, prev);
	if (l && is_used(USES_GROUPS))
		charge_group(here, prev);
	if (root & ROOT_LANES && (!l || l->state == LANE_IN_FORCE))
		l = change_lane(l, here, prev, root);
	return l && l->state == LANE_IN_FORCE ? l->account : NO_ACCOUNT;
}

/*
 * Serves the only account that has work. There is no other to compare it with: it is always its turn.
 */
static __always_inline bool serve_alone(u32 number, u32 own, s32 cpu, struct task_struct *prev,
					struct cpu_ctx *here)
{
	u64 vtime = account_at(number)->vtime;

	if (!account_serve(number, cpu, prev)) {
		if (number != own || task_rests(prev))
			return false;
		if (prev)
			grant_slice(here, prev,
				    slice_alone(lane_running(here, prev), SCX_SLICE_DFL));
	}
	level1_advance(vtime);
	return true;
}

/*
 * Tries the accounts of a set of several in their order until one gives a task, or keeps the one
 * that ran here, if it is of the account @own. Whether there is one to run.
 */
__weak __noinline bool serve_accounts(u64 left, u32 own, s32 cpu,
				      struct task_struct *prev __arg_trusted __arg_nullable,
				      struct cpu_ctx *here __arg_nonnull)
{
	bool in_turn = true;
	u32 i, number;
	u64 vtime;

	number = out_of_turn(here, left);
	if (unlikely(number != NO_ACCOUNT) && number != own) {
		/* That tells nothing about how far level 1 has come. */
		if (account_serve(number, cpu, prev)) {
			here->out_of_turn = number + 1;
			here->out_of_turn_ns = scx_bpf_now();
			return true;
		}
		here->behind &= ~account_bit(number);
	}
	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!left)
			break;
		number = first_account(left, here);
		left &= ~account_bit(number);
		vtime = account_at(number)->vtime;
		if (account_serve(number, cpu, prev)) {
			if (in_turn)
				level1_advance(vtime);
			/* A policy that keeps a task does not know that others have work. */
			if (number == own && prev && prev->scx.slice > SHARED_SLICE_NS)
				grant_slice(here, prev, SHARED_SLICE_NS);
			return true;
		}
		if (number == own && !task_rests(prev)) {
			if (prev)
				grant_slice(here, prev, SHARED_SLICE_NS);
			if (in_turn)
				level1_advance(vtime);
			return true;
		}
		/* It has nobody, or only tasks that may not run here: then those after it are early. */
		if (in_turn && account_has_ready(number))
			in_turn = false;
	}
	return false;
}

/* Several lanes are served: gives this CPU a task of one of them, or lets the one that ran go on. */
static __always_inline bool dispatch_shared(s32 cpu, struct task_struct *prev, u32 root)
{
	struct cpu_ctx *here = cpu_ctx_here();
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool kthread_goes_on, kthreads = READ_ONCE(kthreads_arrived);
	u32 own = NO_ACCOUNT;
	u64 left;

	if (!here)
		return false;
	here->chosen = 1;
	/* After a kernel thread that would go on lanes come first, if they have work for this CPU. */
	kthread_goes_on = goes_on && here->kthread_chosen;
	here->kthread_chosen = 0;
	if (unlikely(kthreads) && !kthread_goes_on && serve_kthreads(here))
		return true;
	if (goes_on)
		own = account_of_prev(here, prev, root);
	left = accounts_with_work(root);
	if (own != NO_ACCOUNT)
		left |= account_bit(own);
	if (unlikely(several(left)) ? serve_accounts(left, own, cpu, prev, here) :
				      left && serve_alone(lowest_account(left), own, cpu, prev, here))
		return true;
	if (unlikely(kthreads) && kthread_goes_on && serve_kthreads(here))
		return true;
	if (!goes_on || task_rests(prev))
		return false;
	/* Nobody else wants this CPU, and its lane was replaced: it goes on for the new one. */
	if (!is_level1s(prev, root))
		change_lane(NULL, here, prev, root);
	grant_slice(here, prev, SHARED_SLICE_NS);
	return true;
}

/*
 * Returns the only lane that can have a task for this CPU, or NULL if it is not the only one: one account
 * has work, it has one lane, the lane's policy keeps no state of tasks, no task goes on here, and no kernel
 * thread waits. Most often this is so where the lanes of applications are idle.
 */
static __always_inline struct meta_lane *lane_to_ask(struct task_struct *prev, u32 root)
{
	u64 left = accounts_with_work(root);
	struct meta_lane *l;

	if (!left || several(left) || READ_ONCE(kthreads_arrived) ||
	    (prev && (prev->scx.flags & SCX_TASK_QUEUED)))
		return NULL;
	l = lane_only(account_at(lowest_account(left)));
	return l && !policy_keeps_tasks(l->lane.policy) ? l : NULL;
}

/* Serves that lane as dispatch_shared() would, with its policy called in line. */
static __always_inline bool dispatch_only(struct meta_lane *l, s32 cpu)
{
	struct account *a = account_at(l->account);
	u64 vtime = a->vtime;

	if (!policy_dispatch(&l->lane, cpu))
		return false;
	account_served(a, l);
	level1_advance(vtime);
	return true;
}

/* Less than this of a slice is not worth going on for. */
#define REST_NS (50ULL * 1000)

/*
 * A CPU came to dispatch to answer. If that is all, its task goes on with the rest of its slice:
 * else it would stand behind its lane's other tasks each time, after 100 us.
 */
static __noinline bool goes_on_after_answer(struct task_struct *prev, u32 root)
{
	struct cpu_ctx *here = cpu_ctx_here();
	struct meta_lane *l;
	struct task_ctx *t;
	u64 kicked, rest_ns;

	if (!here)
		return false;
	kicked = here->kicked;
	here->kicked = 0;
	if (kicked || !prev || !(prev->scx.flags & SCX_TASK_QUEUED) || READ_ONCE(busy.urgent) ||
	    kthreads_queued())
		return false;
	l = lane_running(here, prev);
	if (!l || l->state != LANE_IN_FORCE)
		return false;
	t = task_ctx_find(prev);
	if (!t || lane_for(prev, t, root) != l)
		return false;
	rest_ns = here->granted_ns - (prev->se.sum_exec_runtime - here->ran_from_ns);
	if (here->granted_ns == SCX_SLICE_INF)
		rest_ns = root & ROOT_SHARED && others_have_work(l, root) ? 0 : SCX_SLICE_INF;
	else if ((s64)rest_ns < (s64)REST_NS)
		rest_ns = 0;
	if (!rest_ns)
		return false;
	scx_bpf_task_set_slice(prev, rest_ns);
	return true;
}

/*
 * Whether ticks may stop the kernel works out as a task starts to run, by its slice. So one that
 * goes on with a slice of the other kind is enqueued anew, as the last one of its CPU, and starts. Else
 * a CPU without ticks would not see the end of its slice, and one that is left alone again would
 * have them for as long as its task goes on.
 */
static __noinline void start_anew(struct task_struct *prev)
{
	struct cpu_ctx *here = cpu_ctx_here();

	if (here && (prev->scx.slice == SCX_SLICE_INF) != here->tickless)
		scx_bpf_task_set_slice(prev, 0);
}

/* No other task wants this CPU: the one that ran here goes on. */
static __noinline void go_on_alone(struct task_struct *prev)
{
	struct cpu_ctx *here = is_used(USES_INFINITE) ? cpu_ctx_here() : NULL;

	if (here && slice_alone(lane_running(here, prev), 0))
		grant_slice(here, prev, SCX_SLICE_INF);
	else
		scx_bpf_task_set_slice(prev, SCX_SLICE_DFL);
}

/* The slice of a task that is enqueued as the last one of its CPU. */
static __always_inline u64 slice_of_last(struct task_struct *p, u32 root)
{
	return is_used(USES_INFINITE) ? slice_alone(lane_of(task_ctx_find(p), root), SHARED_SLICE_NS) :
					SHARED_SLICE_NS;
}

/*
 * A CPU has found nothing that it may run. The CPU that we kicked may take a different task: of
 * two that were kicked for two tasks the one may take the other's, and the other finds a task
 * that it may not run. So it kicks the next one. Returns whether this CPU may run one of those
 * that wait: it came at this moment, or its policy leaves it on purpose.
 */
static __always_inline bool goes_idle(s32 cpu, u32 root)
{
	return tell_of_all_left(cpu, root) == LEFT_MINE;
}

/*
 * A CPU that was idle has found a task. It may have been told of another one, for which nobody
 * else was told, or of this one, for which no CPU was left to be told: so it kicks the next one.
 */
static __always_inline void goes_busy(u32 root)
{
	tell_of_all_left(NO_CPU, root);
}

/*
 * A CPU has found a task. If it was idle, it chooses once more, and goes on with that task: from
 * 7.1 on the kernel does not update the clock of such a CPU at its next choice. The run of the task
 * since the last tick would not be charged, and a limit would let it run on; or the next task would
 * be charged with it.
 */
static __noinline void charge_from_idle(s32 cpu)
{
	struct task_struct *before = bpf_get_current_task_btf();

	if (before->flags & PF_IDLE && bpf_ksym_exists(scx_bpf_dsq_reenq___since71))
		scx_bpf_kick_cpu(cpu, 0);
}

#endif
