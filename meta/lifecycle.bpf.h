/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How lanes come and go. All of it is called in sleepable context and by one caller
 * at a time: the start of the program, then user space under its lock, between
 * change_begin() and change_end(), which keep the timer of turns away.
 */
#ifndef METASCHED_LIFECYCLE_BPF_H
#define METASCHED_LIFECYCLE_BPF_H

#include <kcalls.bpf.h>
#include <dispatch.bpf.h>
#include <sweep.bpf.h>

struct replace_result replaced;
/* How many lanes wait for a grace period to move on, as reap() left them. */
u32 reap_waits;

/* How often user space looks whether the timer's change is over: far longer than one takes. */
#define CHANGE_LOOKS 100000
/* Whether somebody changes lanes at this moment. */
u32 changing;

/*
 * Results of loops are kept here rather than in local variables: the verifier
 * follows the value of a local through every turn of a loop, and gives up; what
 * it reads from memory it takes as unknown, and one turn stands for all.
 */
struct {
	int err;
	int slot;
	u32 made;
	u32 left;
	u32 undrained;
	u32 resting;
	u32 apps; /* that have a lane in force */
	u32 uses; /* what their policies use, see policy.h */
} walk; /* not static: clang would split it, and its BTF would be wrong */

/* Keeps others from changing lanes, unless one of them is at it. */
static __always_inline bool change_try(void)
{
	return !__sync_lock_test_and_set(&changing, 1);
}

/*
 * change_try(), but waits until the timer's change is over. A caller that is interrupted by
 * the timer is not waited for: the timer comes again. -EAGAIN where the CPU that is at it
 * has stopped, as one of a virtual machine may; user space then tries again.
 */
static __noinline int change_begin(void)
{
	u32 i;

	walk.err = -EAGAIN;
	bpf_for(i, 0, CHANGE_LOOKS) {
		if (change_try()) {
			walk.err = 0;
			break;
		}
	}
	return walk.err;
}

static __always_inline void change_end(void)
{
	__sync_lock_test_and_set(&changing, 0);
}

/* Creates the lane's queues; all of them or none. */
__weak __noinline int lane_create_queues(struct lane *lane __arg_nonnull, u32 queues)
{
	u32 queue;

	walk.err = 0;
	walk.made = 0;
	bpf_for(queue, 0, queues) {
		if (walk.err)
			continue;
		walk.err = scx_bpf_create_dsq(lane_dsq(lane, queue), -1);
		if (!walk.err)
			walk.made++;
	}
	if (!walk.err)
		return 0;
	bpf_for(queue, 0, walk.made) {
		scx_bpf_destroy_dsq(lane_dsq(lane, queue));
	}
	return walk.err;
}

/* A free slot, or -ENOSPC. */
static int free_slot(void)
{
	u32 i;

	walk.slot = -ENOSPC;
	bpf_for(i, 0, LANES_MAX) {
		if (walk.slot < 0 && lane_at(i)->state == LANE_FREE)
			walk.slot = i;
	}
	return walk.slot;
}

/* Fills a free slot with a new lane for an account, not yet in force; its slot or an error. */
static int lane_make(u32 variant, u32 account)
{
	u32 policy = policy_of_variant(variant);
	struct meta_lane *l;
	int slot, err;

	slot = free_slot();
	if (slot < 0)
		return slot;
	l = lane_at(slot);
	__builtin_memset(l, 0, sizeof(*l));
	l->lane.slot = slot;
	l->lane.policy = policy;
	l->lane.variant = variant;
	l->lane.dsq = make_dsq_id(generations + 1, slot, 0);
	/* By way of memory: what is known of it would be a path of its own for each policy. */
	WRITE_ONCE(l->queues, policy_queues(&l->lane));
	if (!READ_ONCE(l->queues))
		return -ENOENT;
	policy_forget_places(&l->lane);
	policy_default_options(&l->lane);
	err = lane_create_queues(&l->lane, READ_ONCE(l->queues));
	if (err)
		return err;
	generations++;
	l->lane.generation = generations;
	l->ready = l->queues - policy_has_user_half(policy);
	l->places = l->ready - lane_shared_queues(l);
	if (any_places())
		marks_forget(slot, l->places);
	user_forget(slot);
	l->account = account;
	uses_now |= policy_uses(policy);
	if (policy_uses(policy) & USES_PLACES)
		sweep_timer_start();
	policy_start(&l->lane);
	return slot;
}

/* The word that puts a lane in force as the root's; the first run through it is awaited. */
static u32 root_word_of(struct meta_lane *l)
{
	return l->lane.slot | ROOT_TRACKED |
	       (policy_keeps_tasks(l->lane.policy) ? ROOT_TASKS : 0);
}

/* The first lane, before any task is ours. */
static int lifecycle_start(u32 variant)
{
	int slot = lane_make(variant, ROOT_ACCOUNT);
	struct meta_lane *l;

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	account_at(ROOT_ACCOUNT)->weight = WEIGHT_DFL;
	account_set_weight_now(account_at(ROOT_ACCOUNT), WEIGHT_NOW_DFL);
	account_at(ROOT_ACCOUNT)->lane = slot + 1;
	account_add(l);
	l->state = LANE_IN_FORCE;
	l->in_force_ns = bpf_ktime_get_ns();
	predecessor = l->lane.dsq;
	watch_episode = 1;
	/* 0 is what a task's record holds that was never looked up; limits may be there. */
	assign_seq++;
	set_root_word(0, root_word_of(l));
	return 0;
}

/* The CPU that kick_cpus() leaves out. */
enum kick_whom {
	KICK_ALL,
	KICK_ALL_BUT, /* those that run tasks of the account's lane in force */
	KICK_ACCOUNT, /* those that do not run tasks of any lane of the account */
};

/*
 * Has CPUs choose anew, so that what runs comes through its new lane now and not when its
 * slice ends. If lanes change fast most of an account's tasks run for lanes that drain.
 */
static __noinline void kick_cpus(enum kick_whom whom, u32 account)
{
	struct cpu_ctx *there;
	struct meta_lane *l;
	bool is_its;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		/* To kick a number that stands for no CPU would end us. */
		if (!cpu_possible(cpu))
			continue;
		there = cpu_ctx_of(cpu);
		l = there && there->task ? lane_at(there->slot) : NULL;
		is_its = l && l->account == account;
		if (whom == KICK_ALL || (whom == KICK_ACCOUNT && is_its) ||
		    (whom == KICK_ALL_BUT && !(is_its && l->state == LANE_IN_FORCE)))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* Limits are enforced from now on; for what runs at this moment, from its next tick. */
static void begin_limits(void)
{
	if (root_word & ROOT_LIMITS || !limits_live)
		return;
	set_root_word(0, ROOT_LIMITS);
	sweep_timer_start();
}

/* A lane that was replaced is served until it is empty; nobody in it waits for user space. */
static __always_inline void lane_drain(struct meta_lane *l)
{
	l->settled_at = 0;
	l->ready = l->queues;
	l->state = LANE_DRAINING;
}

/* Watching begins, if it has not: what was queued before came through the root lane. */
static void begin_sharing(u32 root)
{
	if (!(root & ROOT_WATCHED))
		watch_episode++;
	if (!(root & ROOT_SHARED))
		predecessor = lane_at(root)->lane.dsq;
}

static void tell_replaced(struct meta_lane *l)
{
	replaced.generation = l->lane.generation;
	replaced.slot = l->lane.slot;
	replaced.at_ns = l->in_force_ns = bpf_ktime_get_ns();
}

/*
 * Puts a new lane in force for all that has no application. Everything about it
 * is written before the one word that makes it the root: a callback on another CPU
 * sees the old lane or the new one, each of them whole and served.
 */
static int lifecycle_replace(u32 variant)
{
	u32 root = root_word;
	struct meta_lane *old = lane_at(root), *l;
	int slot = lane_make(variant, ROOT_ACCOUNT);

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	begin_sharing(root);
	l->state = LANE_IN_FORCE;
	tell_replaced(l);
	account_add(l);
	account_at(ROOT_ACCOUNT)->lane = slot + 1;
	set_root_word(ROOT_SLOT | ROOT_TASKS, root_word_of(l));
	lane_drain(old);
	kick_cpus(root & ROOT_LANES ? KICK_ACCOUNT : KICK_ALL, ROOT_ACCOUNT);
	return 0;
}

/* Applications have lanes from now on. Which have work is not known yet: the sweep finds out. */
static void begin_lanes(u32 root)
{
	begin_sharing(root);
	account_at(ROOT_ACCOUNT)->vtime = level1.vtime_now;
	account_arrival(ROOT_ACCOUNT);
	set_root_word(0, ROOT_LANES);
	sweep_timer_start();
}

/*
 * User space says what an account weighs. The sweep works out what that comes to beside others,
 * as soon as the account has a cgroup with work; until then it is taken as it is.
 */
static __always_inline void account_weigh(struct account *a, u32 weight, u32 fixed)
{
	a->weight = weight;
	a->weight_fixed = fixed;
	if (!a->first)
		account_set_weight_now(a, weight * (WEIGHT_NOW_DFL / WEIGHT_DFL));
	shares.changed = 1;
}

/*
 * Puts a new lane in force for an application, its first or one in place of an
 * earlier one, in the same way.
 */
static int lifecycle_set_app(struct app_args *args)
{
	u32 old, i, root = root_word;
	struct meta_lane *l;
	struct account *a;
	int slot;

	if (!args->app || args->app >= ACCOUNTS_MAX || !args->weight)
		return -EINVAL;
	slot = lane_make(args->variant, args->app);
	if (slot < 0)
		return slot;
	a = account_at(args->app);
	l = lane_at(slot);
	/* Unrolled: the verifier wants constant offsets into an argument. */
#pragma unroll
	for (i = 0; i < LANE_OPTIONS_MAX; i++) {
		if (args->options[i] != OPTION_DEFAULT)
			l->lane.options[i] = args->options[i];
	}
	/* An application that is new stands where all stand. */
	if (!a->first)
		a->vtime = level1.vtime_now;
	account_weigh(a, args->weight, args->weight_fixed);
	l->state = LANE_IN_FORCE;
	tell_replaced(l);
	account_add(l);
	if (!(root & ROOT_LANES))
		begin_lanes(root);
	old = __sync_lock_test_and_set(&a->lane, slot + 1);
	if (old) {
		lane_drain(lane_at(old - 1));
		kick_cpus(KICK_ACCOUNT, args->app);
	}
	return 0;
}

/* An application has no lane any more: its tasks go to the root lane. */
static int lifecycle_drop_app(u32 number)
{
	u32 old;

	if (!number || number >= ACCOUNTS_MAX)
		return -EINVAL;
	old = __sync_lock_test_and_set(&account_at(number)->lane, 0);
	if (!old)
		return -ENOENT;
	shares.changed = 1;
	accounts_unsettle();
	lane_drain(lane_at(old - 1));
	kick_cpus(KICK_ACCOUNT, number);
	return 0;
}

/* Assigns a cgroup, with all below it that are not assigned themselves. */
static int lifecycle_assign(u64 cgroup, u32 number)
{
	int err;

	if (!number || number > BACK_TO_ROOT)
		return -EINVAL;
	if (!account_at(number)->lane)
		return -ENOENT;
	err = cgroup_assign(cgroup, number);
	if (err < 0)
		return err;
	accounts_unsettle();
	kick_cpus(KICK_ALL_BUT, number & (ACCOUNTS_MAX - 1));
	return 0;
}

static int lifecycle_unassign(u64 cgroup)
{
	int number = cgroup_assign(cgroup, ROOT_ACCOUNT);

	if (number < 0)
		return number;
	accounts_unsettle();
	kick_cpus(KICK_ACCOUNT, number & (ACCOUNTS_MAX - 1));
	return 0;
}

/* Changes the weight of an account, or an option of its lane in force, without replacing it. */
static int lifecycle_set_lane(struct lane_args *args)
{
	struct account *a = account_at(args->app);
	struct meta_lane *l;

	if (args->app >= ACCOUNTS_MAX)
		return -EINVAL;
	if (args->app && !a->lane)
		return -ENOENT;
	/* Whose option that would be changes with the turns; the weight goes along. */
	if (!args->app && cycle.turns && args->option < LANE_OPTIONS_MAX)
		return -EBUSY;
	l = account_lane(args->app, root_word);
	if (args->weight)
		account_weigh(a, args->weight, args->weight_fixed);
	if (args->option < LANE_OPTIONS_MAX)
		l->lane.options[args->option] = args->value;
	return 0;
}

/*
 * Whether a lane to which no tasks come any more was empty before the last grace period and is
 * so still: then no callback has anything to do with it. What is not so waits for the next one.
 */
static __always_inline bool lane_settles(struct meta_lane *l, u64 graces)
{
	if (!lane_is_empty(l)) {
		l->settled_at = 0;
		return false;
	}
	if (l->settled_at && graces >= l->settled_at)
		return true;
	if (!l->settled_at)
		l->settled_at = graces + 1;
	reap_waits++;
	return false;
}

/*
 * A lane that rests through a long turn is put aside once it is empty, until its own
 * turn: one lane alone is in force then, which costs least. A turn begins with
 * settled_at = 0, so tasks that came in it are not overlooked.
 */
static __always_inline void reap_resting(struct meta_lane *l, u64 graces)
{
	if (!l->served)
		return;
	if (cycle.settles && lane_settles(l, graces)) {
		account_remove(l);
		/* If there are no turns any more, it is freed after that. */
		l->settled_at = graces + 1;
		return;
	}
	walk.resting++;
	walk.left += cycle.settles;
}

static __always_inline void lane_free(struct meta_lane *l)
{
	u32 queue;

	bpf_for(queue, 0, l->queues) {
		scx_bpf_destroy_dsq(lane_dsq(&l->lane, queue));
	}
	l->lane.generation = 0;
	l->state = LANE_FREE;
}

/* Moves a lane on in its life. */
static __noinline void reap_lane(struct meta_lane *l, u64 graces)
{
	u32 in_force = account_at(l->account)->lane;

	/* One in quarantine has lost its account already. */
	if (l->state == LANE_IN_FORCE && in_force != l->lane.slot + 1)
		lane_drain(l);
	switch (l->state) {
	case LANE_IN_FORCE:
		walk.apps += l->account != ROOT_ACCOUNT;
		break;
	case LANE_RESTING:
		reap_resting(l, graces);
		break;
	case LANE_DRAINING:
		walk.left++;
		if (lane_settles(l, graces)) {
			account_remove(l);
			l->state = LANE_RETIRED;
			l->settled_at = graces + 1;
			reap_waits++;
		} else {
			walk.undrained++;
		}
		break;
	case LANE_RETIRED:
		if (graces >= l->settled_at) {
			lane_free(l);
		} else {
			walk.left++;
			reap_waits++;
		}
		break;
	}
}

/* What the policies of lanes use that are not free. */
static void count_uses(void)
{
	u32 i;

	if (!all_uses())
		return;
	walk.uses = 0;
	bpf_for(i, 0, LANES_MAX) {
		if (lane_at(i)->state != LANE_FREE)
			walk.uses |= policy_uses(lane_at(i)->lane.policy);
	}
	WRITE_ONCE(uses_now, walk.uses);
}

/*
 * Moves lanes on in their life, as far as the grace periods allow that user
 * space has waited for so far; reap_waits tells how many wait for the next one. Returns the
 * number of lanes that are not yet done with. Once none drains or rests and the root
 * lane has run a task, tracking ends; once no application has a lane, sharing does.
 */
static int lifecycle_reap(u64 graces)
{
	u32 i;

	walk.left = 0;
	walk.undrained = 0;
	walk.resting = 0;
	walk.apps = 0;
	reap_waits = 0;
	bpf_for(i, 0, LANES_MAX) {
		reap_lane(lane_at(i), graces);
	}
	count_uses();
	kthreads_let_go(root_word);
	if (walk.undrained)
		return walk.left;
	if (root_word & ROOT_TRACKED && !walk.resting) {
		if (lane_at(root_word)->first_run_ns)
			set_root_word(ROOT_TRACKED, 0);
		else
			walk.left++;
	}
	if (root_word & ROOT_LANES && !walk.apps) {
		set_root_word(ROOT_LANES, 0);
		kthreads_let_go(root_word);
	}
	return walk.left;
}

/* Brings nr_queued of every lane up to date. */
static void lifecycle_count_queued(void)
{
	struct meta_lane *l;
	u32 i;

	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		l->nr_queued = lane_queued(l);
	}
}

#endif
