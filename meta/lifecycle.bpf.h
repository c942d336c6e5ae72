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
#include <timer.bpf.h>

struct replace_result replaced;
struct reap_set reapable;

/* How often user space looks whether the timer's change is over: far longer than one takes. */
#define CHANGE_LOOKS 100000
/* Whether somebody changes lanes at this moment. */
u32 changing;
/* Lanes that rest, were empty when reap() last looked, and have had no turn since. */
u64 settling;

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
	u32 apps;
	u32 callbacks;
} walk; /* not static: clang would split it, and its BTF would be wrong */

/* Keeps others from changing lanes, unless one of them is at it. */
static __always_inline bool change_try(void)
{
	return !__sync_lock_test_and_set(&changing, 1);
}

/*
 * The same, waiting for the timer's change to be over. A caller that is interrupted by
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
static int lane_create_queues(struct lane *lane, u32 queues)
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

/* Fills a free slot with a new lane, not yet in force; its slot or an error. */
static int lane_make(u32 policy, u32 weight)
{
	struct meta_lane *l;
	int slot, err;
	u32 queues;

	if (!weight)
		return -EINVAL;
	slot = free_slot();
	if (slot < 0)
		return slot;
	l = lane_at(slot);
	__builtin_memset(l, 0, sizeof(*l));
	l->lane.slot = slot;
	l->lane.policy = policy;
	l->lane.dsq = make_dsq_id(generations + 1, slot, 0);
	queues = policy_queues(&l->lane);
	if (!queues)
		return -ENOENT;
	policy_forget_places(&l->lane);
	policy_default_options(&l->lane);
	err = lane_create_queues(&l->lane, queues);
	if (err)
		return err;
	generations++;
	l->lane.generation = generations;
	l->queues = queues;
	l->weight = weight;
	named_callbacks |= policy_callbacks(policy);
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
static int lifecycle_start(u32 policy)
{
	int slot = lane_make(policy, WEIGHT_DFL);
	struct meta_lane *l;

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	l->state = LANE_ROOT;
	l->in_force_ns = bpf_ktime_get_ns();
	served = slot_bit(slot);
	predecessor = l->lane.dsq;
	watch_episode = 1;
	/* 0 is what a task's record holds that was never looked up; limits may be there. */
	assign_seq++;
	set_root_word(0, root_word_of(l));
	return 0;
}

/*
 * Has every CPU but those that run tasks of the lane in @but (LANES_MAX: none) choose
 * anew, so that what runs comes through its new lane now and not when its slice ends.
 */
static void kick_all(u32 but)
{
	struct cpu_ctx *there;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		there = cpu_ctx_of(cpu);
		if (there && there->task && there->slot == but)
			continue;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * The same for the CPUs that run tasks of an application: of its lane in force, or of
 * one that drains, which is where most of its tasks come from if lanes change fast.
 */
static void kick_app(u32 app)
{
	struct cpu_ctx *there;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		there = cpu_ctx_of(cpu);
		if (there && there->task && lane_at(there->slot)->app == app)
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

/* A lane that was replaced is served until it is empty. */
static void lane_drain(struct meta_lane *l)
{
	if (!draining)
		level1.drain_vtime = l->vtime;
	__sync_fetch_and_or(&draining, slot_bit(l->lane.slot));
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
static int lifecycle_replace(u32 policy, u32 weight)
{
	u32 root = root_word;
	struct meta_lane *old = lane_at(root), *l;
	int slot = lane_make(policy, weight);

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	l->vtime = old->vtime;
	begin_sharing(root);
	l->state = LANE_ROOT;
	tell_replaced(l);
	__sync_fetch_and_or(&served, slot_bit(slot));
	set_root_word(ROOT_SLOT | ROOT_TASKS, root_word_of(l));
	lane_drain(old);
	if (root & ROOT_LANES)
		kick_app(0);
	else
		kick_all(LANES_MAX);
	return 0;
}

/*
 * Puts a new lane in force for an application, its first or one in place of an
 * earlier one, in the same way.
 */
static int lifecycle_set_app(struct app_args *args)
{
	u32 old, i, root = root_word;
	struct meta_lane *l;
	struct app *app;
	int slot;

	if (!args->app || args->app >= APPS_MAX)
		return -EINVAL;
	slot = lane_make(args->policy, args->weight);
	if (slot < 0)
		return slot;
	app = app_at(args->app);
	l = lane_at(slot);
	/* Unrolled: the verifier wants constant offsets into an argument. */
#pragma unroll
	for (i = 0; i < LANE_OPTIONS_MAX; i++) {
		if (args->options[i] != ~0ULL)
			l->lane.options[i] = args->options[i];
	}
	l->app = args->app;
	old = app->lane;
	l->vtime = old ? lane_at(old - 1)->vtime : level1.vtime_now;
	l->state = LANE_APP;
	tell_replaced(l);
	__sync_fetch_and_or(&served, slot_bit(slot));
	if (!(root & ROOT_LANES)) {
		begin_sharing(root);
		lane_at(root)->vtime = level1.vtime_now;
		/* Who has work is not known yet: the sweep finds out. */
		busy.lanes = served;
		set_root_word(0, ROOT_LANES);
		sweep_timer_start();
	}
	/* Its first task comes before everybody's, unless the application is in debt. */
	if (!vtime_before(level1.vtime_now + LANE_CREDIT_NS, l->vtime))
		__sync_fetch_and_or(&busy.urgent, slot_bit(slot));
	app->weight_fixed = args->weight_fixed;
	old = __sync_lock_test_and_set(&app->lane, slot + 1);
	if (old) {
		lane_drain(lane_at(old - 1));
		kick_app(args->app);
	}
	return 0;
}

/* An application has no lane any more: its tasks go to the root lane. */
static int lifecycle_drop_app(u32 number)
{
	struct app *app = app_at(number);
	u32 old;

	if (!number || number >= APPS_MAX)
		return -EINVAL;
	old = __sync_lock_test_and_set(&app->lane, 0);
	if (!old)
		return -ENOENT;
	lane_drain(lane_at(old - 1));
	kick_app(number);
	return 0;
}

/* Assigns a cgroup, with all below it that are not assigned themselves. */
static int lifecycle_assign(u64 cgroup, u32 number)
{
	u32 lane;
	int err;

	if (!number || number >= APPS_MAX)
		return -EINVAL;
	lane = app_at(number)->lane;
	if (!lane)
		return -ENOENT;
	err = bpf_map_update_elem(&cgroup_apps, &cgroup, &number, BPF_ANY);
	if (err)
		return err;
	__sync_fetch_and_add(&assign_seq, 1);
	kick_all(lane - 1);
	return 0;
}

static int lifecycle_unassign(u64 cgroup)
{
	u32 *found = bpf_map_lookup_elem(&cgroup_apps, &cgroup), number;

	if (!found)
		return -ENOENT;
	number = *found;
	bpf_map_delete_elem(&cgroup_apps, &cgroup);
	__sync_fetch_and_add(&assign_seq, 1);
	kick_app(number);
	return 0;
}

/* Changes the weight or an option of a lane in force, without replacing it. */
static int lifecycle_set_lane(struct lane_args *args)
{
	struct app *app = app_at(args->app);
	struct meta_lane *l;

	if (args->app >= APPS_MAX)
		return -EINVAL;
	if (args->app && !app->lane)
		return -ENOENT;
	/* Whose option that would be changes with the turns; the weight goes along. */
	if (!args->app && cycle.turns && args->option < LANE_OPTIONS_MAX)
		return -EBUSY;
	l = lane_at(args->app ? app->lane - 1 : root_word);
	if (args->weight) {
		l->weight = args->weight;
		app->weight_fixed = args->weight_fixed;
	}
	if (args->option < LANE_OPTIONS_MAX)
		l->lane.options[args->option] = args->value;
	return 0;
}

/* No callback has anything to do with the lane any more. */
static void lane_put_aside(u64 bit)
{
	__sync_fetch_and_and(&served, ~bit);
	__sync_fetch_and_and(&draining, ~bit);
	__sync_fetch_and_and(&resting, ~bit);
	__sync_fetch_and_and(&busy.lanes, ~bit);
	__sync_fetch_and_and(&busy.urgent, ~bit);
}

/*
 * A lane that rests through a long turn is put aside once it is empty, until its own
 * turn: one lane alone is in force then, which costs least. What user space says of it
 * counts only if it has had no turn since, in which tasks could have come.
 */
static void reap_resting(struct meta_lane *l, u64 bit, u64 drained)
{
	if (!(served & bit))
		return;
	walk.resting++;
	if (!cycle.settles)
		return;
	walk.left++;
	if (lane_has_queued(l)) {
		settling &= ~bit;
	} else if (drained & settling & bit) {
		lane_put_aside(bit);
		settling &= ~bit;
		walk.resting--;
		walk.left--;
	} else {
		settling |= bit;
		reapable.drained |= bit;
	}
}

/*
 * While no application has a lane nobody looks into the queue of kernel threads. A callback
 * that began earlier may put one there even so: with the sharing ends the last of the lanes
 * that were replaced, which takes one more call, after a grace period.
 */
static void kthreads_let_go(void)
{
	if (!(root_word & ROOT_LANES) && scx_bpf_dsq_nr_queued(KTHREADS_DSQ) > 0)
		requeue_all(KTHREADS_DSQ);
}

/* Which callbacks lanes name that are not free. */
static void count_callbacks(void)
{
	u32 i;

	if (!all_callbacks())
		return;
	walk.callbacks = 0;
	bpf_for(i, 0, LANES_MAX) {
		if (lane_at(i)->state != LANE_FREE)
			walk.callbacks |= policy_callbacks(lane_at(i)->lane.policy);
	}
	WRITE_ONCE(named_callbacks, walk.callbacks);
}

/*
 * Moves lanes on in their life, as far as the grace periods allow that user
 * space waited for; what waits for the next one is left in reapable. Returns the
 * number of lanes that are not yet done with. Once none drains or rests and the root
 * lane has run a task, tracking ends; once no application has a lane, sharing does.
 */
static int lifecycle_reap(u64 drained, u64 retired)
{
	struct meta_lane *l;
	u32 i, queue;
	u64 bit;

	walk.left = 0;
	walk.undrained = 0;
	walk.resting = 0;
	walk.apps = 0;
	reapable.drained = 0;
	reapable.retired = 0;
	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		bit = 1ULL << i;
		if (l->state == LANE_APP) {
			/* One in quarantine has lost its application already. */
			if (l->quarantined && app_at(l->app)->lane != i + 1)
				lane_drain(l);
			else
				walk.apps++;
		}
		if (l->state == LANE_DRAINING) {
			walk.left++;
			if (lane_has_queued(l)) {
				walk.undrained++;
			} else if (drained & bit) {
				lane_put_aside(bit);
				l->state = LANE_RETIRED;
				reapable.retired |= bit;
			} else {
				walk.undrained++;
				reapable.drained |= bit;
			}
		} else if (l->state == LANE_RESTING) {
			reap_resting(l, bit, drained);
		} else if (l->state == LANE_RETIRED) {
			if (!(retired & bit)) {
				walk.left++;
				reapable.retired |= bit;
				continue;
			}
			bpf_for(queue, 0, l->queues) {
				scx_bpf_destroy_dsq(lane_dsq(&l->lane, queue));
			}
			l->lane.generation = 0;
			l->state = LANE_FREE;
		}
	}
	count_callbacks();
	kthreads_let_go();
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
		kthreads_let_go();
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
