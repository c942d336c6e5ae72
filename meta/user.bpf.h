/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policies' halves in user space, the way up: which tasks are left to them, and what they are told.
 *
 * A task that is left to one stands in the last queue of its lane. It is queued there, and
 * not ready: no CPU may take it before it was decided. What comes back is in decide.bpf.h.
 */
#ifndef METASCHED_USER_BPF_H
#define METASCHED_USER_BPF_H

#include <table.bpf.h>
#include <timer.bpf.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, USER_RING_BYTES);
} user_messages SEC(".maps");

/* By the slots of lanes. */
struct user_lane user_lanes[LANES_MAX];

/* The process that decides for all lanes that have such a half. */
struct {
	u64 tickets; /* given out */
	u64 tickets_seen; /* when the timer last looked */
	u64 due_ns; /* the next task that is late then; the timer's own */
	u64 wrong; /* decisions for lanes that are gone, or have no such half */
	u32 waits; /* whether there is one; the timer's own */
	u32 timed; /* the timer is set, see decide_late() */
	u32 patience; /* tasks that it may leave undecided before it counts as gone */
	u32 tgid; /* its process */
} user_half;

static __always_inline struct user_lane *user_lane_of(struct meta_lane *l)
{
	return &user_lanes[l->lane.slot & (LANES_MAX - 1)];
}

/* The slot has a new lane. */
static __always_inline void user_forget(u32 slot)
{
	__builtin_memset(&user_lanes[slot & (LANES_MAX - 1)], 0, sizeof(struct user_lane));
}

/* The queue of tasks that are undecided. */
static __always_inline u64 undecided_dsq(struct meta_lane *l)
{
	return lane_dsq(&l->lane, l->queues - 1);
}

static __always_inline long user_tell(struct meta_lane *l, struct task_struct *p, u64 ticket,
				      u64 now)
{
	struct user_message message = {
		.lane = l->lane.generation,
		.ticket = ticket,
		.at_ns = now,
		.ran_ns = p->se.sum_exec_runtime,
		.sleeps = p->nvcsw,
		.slot = l->lane.slot,
		.policy = l->lane.policy,
		.pid = p->pid,
		.weight = task_weight(p),
		.cpu = scx_bpf_task_cpu(p),
		.waiting = lane_queued_anywhere(l->lane.slot),
	};

	return bpf_ringbuf_output(&user_messages, &message, sizeof(message), 0);
}

/*
 * Whether user space may have a say about the task. It may wait itself for a kernel thread and
 * for its own threads; a task that exits cannot be found by its number any more.
 */
static __always_inline bool user_may_decide(struct task_struct *p)
{
	return !(p->flags & (PF_KTHREAD | PF_EXITING)) && (u32)p->tgid != user_half.tgid &&
	       READ_ONCE(user_half.patience);
}

/* See sched.bpf.h. */
__weak __noinline bool lane_tell_user(struct lane *lane __arg_nonnull,
				      struct task_struct *p __arg_trusted, u64 enq_flags)
{
	struct meta_lane *l = lane_at(lane->slot);
	struct task_ctx *t = task_ctx_find(p);
	u64 now = scx_bpf_now();

	if (!t || !user_may_decide(p)) {
		__sync_fetch_and_add(&user_lane_of(l)->untold, 1);
		return false;
	}
	/* Before the message, which is answered on another CPU. */
	t->ticket = __sync_fetch_and_add(&user_half.tickets, 1) + 1;
	t->told_ns = now;
	t->told_awake = !!(enq_flags & SCX_ENQ_WAKEUP);
	if (user_tell(l, p, t->ticket, now)) {
		t->ticket = 0;
		__sync_fetch_and_add(&user_lane_of(l)->untold, 1);
		return false;
	}
	__sync_fetch_and_add(&user_lane_of(l)->told, 1);
	/* Always at the end, so that the first is the one that is late first. */
	scx_bpf_dsq_insert(p, undecided_dsq(l), SCX_SLICE_DFL, enq_flags & ~(u64)SCX_ENQ_HEAD);
	if (!READ_ONCE(user_half.timed) && !__sync_lock_test_and_set(&user_half.timed, 1) &&
	    !undecided_timer_start())
		WRITE_ONCE(user_half.timed, 0);
	return true;
}

/* The task leaves the lane, or ends: user space need not remember it. */
static __noinline void user_tell_left(struct meta_lane *l, struct task_struct *p)
{
	user_tell(l, p, 0, scx_bpf_now());
}

/* Tells it too, if the lane is not gone and has a half in user space. */
static __always_inline void tell_user_if_left(struct meta_lane *l, struct task_struct *p)
{
	if (l && policy_has_user_half(l->lane.policy))
		user_tell_left(l, p);
}

#endif
