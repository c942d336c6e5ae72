/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Level 1: which lane a task belongs to, and which lane a CPU serves next.
 *
 * While one lane is in force, nothing drains and its policy keeps nothing per
 * task, none of this runs: the callbacks test one word and call the policy. The
 * rest of the time tasks are watched: a task's lane is cached when it is
 * enqueued, and what it runs is measured.
 *
 * A task that was queued before watching began has no valid cache. It came
 * through the lane that was in force then, the predecessor; that lane's queues
 * are served until they are empty, so nothing is lost, and what such a task runs
 * is charged to that lane.
 */
#ifndef METASCHED_LEVEL1_BPF_H
#define METASCHED_LEVEL1_BPF_H

#include <sched.bpf.h>
#include <kcalls.bpf.h>
#include <types.h>
#include <table.bpf.h>
#include <tasks.bpf.h>

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

/*
 * The longest slice while several lanes are served: how long a lane that lags
 * may have to wait for a CPU.
 */
#define SHARED_SLICE_NS (2ULL * 1000 * 1000)
/*
 * The most vtime by which a lane that had nothing to run may lag behind, and by
 * which a new root lane may be ahead and still have its first run.
 */
#define LANE_CREDIT_NS (20ULL * 1000 * 1000)
/*
 * How much more than the root lane the lanes that drain get. Their tasks came
 * first: at even shares, whoever was queued when the lane was replaced would
 * wait twice as long as without a change, at 8 : 1 an eighth longer.
 */
#define DRAIN_SHARE 8

/*
 * What is in force, in one word so that one write changes it.
 *
 *	 31                 9         8        7      6 5      0
 *	+--------------------+--------------+---------+--------+
 *	|         0          | TRACKED      | TASKS 7 |  slot  |
 *	+--------------------+--------------+---------+--------+
 */
#define ROOT_SLOT (LANES_MAX - 1) /* mask: the slot of the root lane */
#define ROOT_TASKS (1U << 7) /* the root lane's policy keeps state per task */
#define ROOT_TRACKED (1U << 8) /* other lanes are still served, or the first run is awaited */
#define ROOT_WATCHED (ROOT_TASKS | ROOT_TRACKED)

/* Written by replace_root() and reap() only, which user space never overlaps. */
u32 root_word;
/* Slots of lanes that dispatch serves: the root and those that drain. */
u64 served;
/* dsq of the lane that was in force when tracking last began. */
u64 predecessor;
/* Counts the times that watching began: what is older is not to be trusted. */
u64 watch_episode;
/* Generations given out. */
u64 generations;

struct meta_lane lanes[LANES_MAX];

/* Written while several lanes are served; on a cache line of its own. */
struct {
	u64 vtime_now; /* the highest vtime of a lane that was served */
	u64 drain_vtime; /* of all lanes that drain, together */
} level1 __attribute__((aligned(64)));

static __always_inline struct meta_lane *lane_at(u32 slot)
{
	return &lanes[slot & ROOT_SLOT];
}

/* The lane of that slot if it is still the one of that generation, or NULL. */
static __always_inline struct meta_lane *lane_if_current(u32 slot, u64 generation)
{
	struct meta_lane *l = lane_at(slot);

	return generation && l->lane.generation == generation ? l : NULL;
}

/* The lane through which a running task came, or NULL if that lane is gone. */
static __always_inline struct meta_lane *lane_of(struct task_ctx *t, u32 root)
{
	struct meta_lane *l;
	u64 dsq;

	if (t) {
		l = lane_if_current(t->slot, t->generation);
		if (l)
			return l;
	}
	if (!(root & ROOT_TRACKED))
		return lane_at(root);
	dsq = READ_ONCE(predecessor);
	return lane_if_current((u32)(dsq >> 8), dsq >> 16);
}

/* Makes @l the lane of the task; its policy meets it if it is new there. */
static __always_inline void lane_join(struct meta_lane *l, struct task_struct *p,
				      struct task_ctx *t)
{
	if (t->generation == l->lane.generation && t->slot == l->lane.slot)
		return;
	t->slot = l->lane.slot;
	t->generation = l->lane.generation;
	__builtin_memset(&t->policy, 0, sizeof(t->policy));
	policy_join(&l->lane, p, &t->policy);
}

/*
 * Charges a lane for what one of its tasks ran. Only while several are served,
 * so that a lane alone pays for no atomics. Lanes that drain share one account:
 * however often the root lane is replaced, its successor has its share.
 */
static __always_inline void lane_charge(struct meta_lane *l, u64 ran_ns)
{
	u64 vtime_ns = weighted_ns(ran_ns, l->weight);

	if (l->state == LANE_DRAINING)
		__sync_fetch_and_add(&level1.drain_vtime, vtime_ns / DRAIN_SHARE);
	else
		__sync_fetch_and_add(&l->vtime, vtime_ns);
	__sync_fetch_and_add(&l->runtime_ns, ran_ns);
}

/*
 * A lane that had nothing to run comes back at most LANE_CREDIT_NS behind.
 *
 * The write may undo what another CPU charges to the lane at this moment: one
 * run, a slice at most, is then not charged. The lane was idle, so that is rare.
 */
static __always_inline void lane_limit_credit(struct meta_lane *l)
{
	u64 floor = READ_ONCE(level1.vtime_now) - LANE_CREDIT_NS;

	if (vtime_before(l->vtime, floor))
		l->vtime = floor;
}

/*
 * The first task that is queued in a new root lane has a CPU choose anew: one
 * run of an earlier lane's task is cut short, so that the change takes effect
 * now and not when some slice ends. Two CPUs may both be first; then two choose.
 */
static __always_inline void announce_first(struct meta_lane *l, struct task_struct *p)
{
	if (likely(l->first_queued))
		return;
	l->first_queued = 1;
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

/* Enqueues through @l while tasks are watched. */
static __noinline void enqueue_watched(struct meta_lane *l, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_make(p);
	struct lane_task *spare;
	struct cpu_ctx *cpu;

	lane_limit_credit(l);
	if (likely(t)) {
		lane_join(l, p, t);
		policy_enqueue_task(&l->lane, p, &t->policy, enq_flags);
	} else {
		/* Without memory the task is a newcomer to its lane every time. */
		cpu = cpu_ctx_here();
		if (!cpu)
			return;
		spare = &cpu->spare;
		__builtin_memset(spare, 0, sizeof(*spare));
		policy_join(&l->lane, p, spare);
		policy_enqueue_task(&l->lane, p, spare, enq_flags);
	}
	announce_first(l, p);
}

/*
 * A task wakes through the root lane while lanes change: it may go straight to
 * an idle CPU and never be enqueued, and still it came through that lane.
 */
static __noinline void wake_tracked(struct meta_lane *l, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_make(p);

	if (t)
		lane_join(l, p, t);
}

/* A task that level 1 itself dispatches comes through no lane. */
static __noinline void leave_lane(struct task_struct *p)
{
	struct task_ctx *t = task_ctx_find(p);

	if (t)
		t->generation = 0;
}

/*
 * The first task that runs after coming through the root lane says when. Two
 * CPUs may both be first; the exchange keeps one of the two times.
 */
static __always_inline void stamp_first_run(struct task_ctx *t, u32 root)
{
	struct meta_lane *l = lane_at(root);

	if (l->first_run_ns || !t || t->generation != l->lane.generation)
		return;
	__sync_val_compare_and_swap(&l->first_run_ns, 0, bpf_ktime_get_ns());
}

/* While several lanes are served, none may keep a CPU for long. */
static __always_inline void cap_slice(struct task_struct *p)
{
	u64 lanes_served = READ_ONCE(served);

	if (lanes_served & (lanes_served - 1) && p->scx.slice > SHARED_SLICE_NS)
		scx_bpf_task_set_slice(p, SHARED_SLICE_NS);
}

static __noinline void running_watched(struct task_struct *p, u32 root)
{
	struct task_ctx *t = task_ctx_find(p);
	struct meta_lane *l = lane_of(t, root);
	struct cpu_ctx *cpu = cpu_ctx_here();

	if (!cpu)
		return;
	cpu->task = 0;
	if (!l)
		return;
	if (root & ROOT_TRACKED) {
		stamp_first_run(t, root);
		cap_slice(p);
	}
	if (policy_keeps_tasks(l->lane.policy)) {
		/* Dispatched directly, or queued before tasks were watched. */
		if (!t)
			t = task_ctx_make(p);
		if (t) {
			lane_join(l, p, t);
			policy_running(&l->lane, p, &t->policy);
		}
	}
	cpu->task = (u64)(unsigned long)p;
	cpu->episode = watch_episode;
	cpu->slot = l->lane.slot;
	cpu->generation = l->lane.generation;
	cpu->ran_from_ns = p->se.sum_exec_runtime;
	cpu->charged_from_ns = cpu->ran_from_ns;
}

/*
 * The lane to charge for what runs on this CPU, or NULL if that is unknown: the
 * task started before watching began, or its lane is gone.
 */
static __always_inline struct meta_lane *lane_running(struct cpu_ctx *cpu, struct task_struct *p)
{
	if (cpu->task != (u64)(unsigned long)p || cpu->episode != watch_episode)
		return NULL;
	return lane_if_current((u32)cpu->slot, cpu->generation);
}

static __always_inline void charge_running(struct meta_lane *l, struct cpu_ctx *cpu,
					   struct task_struct *p)
{
	u64 ran_until_ns = p->se.sum_exec_runtime;

	lane_charge(l, ran_until_ns - cpu->charged_from_ns);
	cpu->charged_from_ns = ran_until_ns;
}

static __noinline void stopping_watched(struct task_struct *p, u32 root, bool runnable)
{
	struct cpu_ctx *cpu = cpu_ctx_here();
	struct meta_lane *l;
	struct task_ctx *t;

	if (!cpu)
		return;
	l = lane_running(cpu, p);
	if (l) {
		if (root & ROOT_TRACKED)
			charge_running(l, cpu, p);
		if (policy_keeps_tasks(l->lane.policy)) {
			t = task_ctx_find(p);
			if (t && t->generation == l->lane.generation)
				policy_stopping(&l->lane, p, &t->policy,
						p->se.sum_exec_runtime - cpu->ran_from_ns,
						runnable);
		}
	}
	cpu->task = 0;
}

static __noinline bool lane_has_queued(struct meta_lane *l)
{
	u32 queue;

	bpf_for(queue, 0, l->queues) {
		if (scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue)) > 0)
			return true;
	}
	return false;
}

/*
 * Lets the lane's policy give this CPU a task. The task that ran here is put to
 * the policy too if it is the lane's, unless the lane drains: then the task has
 * to come through the new lane.
 */
static __always_inline bool lane_dispatch(struct meta_lane *l, s32 cpu, struct task_struct *prev,
					  struct cpu_ctx *here)
{
	struct task_ctx *t;

	if (policy_keeps_tasks(l->lane.policy) && l->state == LANE_ROOT && here && prev &&
	    (prev->scx.flags & SCX_TASK_QUEUED) && lane_running(here, prev) == l) {
		t = task_ctx_find(prev);
		if (t && t->generation == l->lane.generation)
			return policy_dispatch_task(&l->lane, cpu, prev, &t->policy,
						    prev->se.sum_exec_runtime - here->ran_from_ns);
	}
	return policy_dispatch_task(&l->lane, cpu, NULL, NULL, 0);
}

/* One lane is in force, and its policy keeps state per task. */
static __noinline void dispatch_alone(struct meta_lane *l, s32 cpu, struct task_struct *prev)
{
	lane_dispatch(l, cpu, prev, cpu_ctx_here());
}

/* Serves one of several lanes, and remembers how far level 1 has come. */
static __always_inline bool lane_serve(struct meta_lane *l, s32 cpu, struct task_struct *prev,
				       struct cpu_ctx *here)
{
	u64 vtime;

	if (!lane_dispatch(l, cpu, prev, here))
		return false;
	vtime = l->state == LANE_DRAINING ? level1.drain_vtime : l->vtime;
	if (vtime_before(level1.vtime_now, vtime))
		level1.vtime_now = vtime;
	return true;
}

/*
 * Several lanes are served: the busy one that lags most comes first. Lanes that
 * drain count as one, the oldest first, so that tasks leave them in the order in
 * which they came to different ones. A root lane that is new comes first once,
 * and pays for it afterwards; unless it is in debt already, as it is if lanes
 * are replaced faster than they can be served.
 *
 * The task that ran here counts as one more of its lane's, else a lane with one
 * task per CPU would never be seen to be busy; its run so far is charged first.
 * It is kept if its lane lags and has nobody else, unless the lane drains.
 *
 * A lane may have only tasks that cannot run on this CPU. Then all the others
 * are tried, in order of their slots.
 */
static __noinline void dispatch_shared(s32 cpu, struct task_struct *prev)
{
	u32 prev_slot = LANES_MAX, best = LANES_MAX, oldest = LANES_MAX;
	u64 best_vtime = 0, oldest_generation = 0;
	u64 candidates = READ_ONCE(served);
	struct cpu_ctx *here = cpu_ctx_here();
	struct meta_lane *l;
	u32 i;

	if (here && prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		l = lane_running(here, prev);
		if (l) {
			charge_running(l, here, prev);
			if (l->state == LANE_ROOT)
				prev_slot = l->lane.slot;
		}
	}

	bpf_for(i, 0, LANES_MAX) {
		if (!(candidates & (1ULL << i)))
			continue;
		l = lane_at(i);
		/* Before its queues are looked at, which takes longest here. */
		if (l->state == LANE_DRAINING && oldest != LANES_MAX &&
		    l->lane.generation > oldest_generation)
			continue;
		if (i != prev_slot && !lane_has_queued(l))
			continue;
		if (l->state == LANE_DRAINING) {
			oldest = i;
			oldest_generation = l->lane.generation;
		} else if (best == LANES_MAX || vtime_before(l->vtime, best_vtime)) {
			best = i;
			best_vtime = l->vtime;
		}
	}
	if (best != LANES_MAX) {
		/* Nothing drains any more: that leaves no claim for later lanes. */
		if (oldest == LANES_MAX && vtime_before(level1.drain_vtime, best_vtime))
			level1.drain_vtime = best_vtime;
		if (!lane_at(best)->first_run_ns)
			best_vtime -= LANE_CREDIT_NS;
	}
	if (oldest != LANES_MAX &&
	    (best == LANES_MAX || vtime_before(level1.drain_vtime, best_vtime)))
		best = oldest;
	if (best == LANES_MAX)
		return;
	if (lane_serve(lane_at(best), cpu, prev, here))
		return;
	if (best == prev_slot) {
		scx_bpf_task_set_slice(prev, SHARED_SLICE_NS);
		return;
	}
	bpf_for(i, 0, LANES_MAX) {
		if (i == best || !(candidates & (1ULL << i)))
			continue;
		if (lane_serve(lane_at(i), cpu, prev, here))
			return;
	}
}

#endif
