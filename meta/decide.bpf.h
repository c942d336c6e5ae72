/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policies' halves in user space, the way down: user space has decided about a task or, when it is
 * late, the policy does so alone.
 *
 * Both move a task out of its lane's queue of undecided ones. Several may try at the same time, also level 1
 * if the lane was replaced: only one of them succeeds.
 */
#ifndef METASCHED_DECIDE_BPF_H
#define METASCHED_DECIDE_BPF_H

#include <level1.bpf.h>
#include <requeue.bpf.h>
#include <user.bpf.h>

extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __weak __ksym;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				   u64 dsq_id, u64 enq_flags) __weak __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __weak __ksym;
extern void bpf_task_release(struct task_struct *p) __weak __ksym;

/* A task that was told of so lately may not be queued yet: that happens after enqueue. */
#define EARLY_NS (1ULL * 1000 * 1000)

/* What user space has decided; it writes here, and reads what became of it. */
struct user_decision user_decisions[DECISIONS_MAX] SEC(".bss.user");

static __always_inline bool move_decided(struct meta_lane *l, struct bpf_iter_scx_dsq *it,
					 struct task_struct *p, const struct lane_place *place)
{
	lane_mark(&l->lane, place->dsq);
	scx_bpf_dsq_move_set_slice(it, place->slice_ns);
	if (!place->by_vtime)
		return scx_bpf_dsq_move(it, p, place->dsq, 0);
	scx_bpf_dsq_move_set_vtime(it, place->vtime);
	return scx_bpf_dsq_move_vtime(it, p, place->dsq, 0);
}

/* Has the CPU choose that a task was decided for, if it is idle; whether it is. */
static __always_inline bool tell_cpu(s32 cpu, struct task_struct *p)
{
	if (cpu < 0 || !cpu_possible(cpu) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
	    !cpu_takes_tasks(cpu) || !scx_bpf_test_and_clear_cpu_idle(cpu))
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* What is done for others at once when they are enqueued. */
static __noinline void task_is_ready(struct meta_lane *l, struct task_struct *p,
				     const struct lane_place *place, bool awake)
{
	announce_first(l, p);
	if (place->ends >= 0)
		lane_kick(&l->lane, place->ends, true);
	else if (!tell_cpu(place->cpu, p))
		tell_idle_cpu(p);
	if (awake && several(accounts_with_work(READ_ONCE(root_word))))
		preempt_if_lagging(l->account, p, NULL);
}

/* The task has waited for user space as long as it may: the policy decides alone. */
static __always_inline bool decide_alone(struct meta_lane *l, struct bpf_iter_scx_dsq *it,
					 struct task_struct *p, struct task_ctx *t,
					 struct lane_place *place)
{
	policy_decide(&l->lane, p, &t->policy, NULL, place);
	return move_decided(l, it, p, place);
}

/* Those of a lane that have waited as long as they may; and until when the next one may. */
__weak __noinline int lane_decide_late(u32 slot, u64 now)
{
	struct meta_lane *l = lane_at(slot);
	struct task_struct *p;
	struct task_ctx *t;
	u64 due;

	/* Most have no such half, and in one that drains all queues are ready. */
	if (!l->served || l->ready == l->queues)
		return 0;
	/* For 7.0 what a timer calls may sleep if it was made where one may. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, undecided_dsq(l), 0) {
		struct lane_place place = { .cpu = -1, .ends = -1 };

		t = task_ctx_find(p);
		if (!t)
			continue;
		due = t->told_ns + UNDECIDED_NS;
		if (vtime_before(now, due)) {
			user_half.waits = 1;
			if (vtime_before(due, user_half.due_ns))
				user_half.due_ns = due;
			break;
		}
		if (!decide_alone(l, &___it, p, t, &place))
			continue;
		__sync_fetch_and_add(&user_lane_of(l)->late, 1);
		/* Two at once may take one away, or give one too many: it is an estimate. */
		if (user_half.patience)
			user_half.patience--;
		task_is_ready(l, p, &place, t->told_awake);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * The timer: after how many ns it is to come again, 0: not before another task is left to user
 * space. That may happen at this moment, and the task is queued only after its callback:
 *
 *	the CPU of the task			the timer
 *	one more ticket				no more tickets since the last time
 *	(barrier)				timed = 0
 *	is it timed? else starts it		(barrier)
 *						one more ticket? then goes on
 *
 * so that one of the two sees the other, and the timer comes once more after the last ticket.
 */
static u64 decide_late(void)
{
	u64 tickets = READ_ONCE(user_half.tickets), now = scx_bpf_now();
	u32 slot;

	user_half.waits = 0;
	user_half.due_ns = now + UNDECIDED_NS;
	bpf_for(slot, 0, LANES_MAX) {
		lane_decide_late(slot, now);
	}
	if (user_half.waits || tickets != user_half.tickets_seen) {
		user_half.tickets_seen = tickets;
		return user_half.due_ns - now;
	}
	__sync_lock_test_and_set(&user_half.timed, 0);
	if (READ_ONCE(user_half.tickets) == tickets ||
	    __sync_lock_test_and_set(&user_half.timed, 1))
		return 0;
	return UNDECIDED_NS;
}

/* A decision for a task of the lane. */
static __noinline u32 decide_task(struct meta_lane *l, struct task_struct *p,
				  const struct user_decision *d)
{
	struct lane_place place = { .cpu = -1, .ends = -1 };
	struct task_ctx *t = task_ctx_find(p);
	struct bpf_iter_scx_dsq it;
	bool moved = false;

	if (!t || t->slot != l->lane.slot || t->generation != l->lane.generation)
		return DECISION_WRONG;
	if (!d->ticket || t->ticket != d->ticket)
		return DECISION_STALE;
	policy_decide(&l->lane, p, &t->policy, &d->what, &place);
	bpf_rcu_read_lock();
	/* The lane may be gone at this moment. */
	if (!bpf_iter_scx_dsq_new(&it, undecided_dsq(l), 0))
		moved = move_decided(l, &it, p, &place);
	bpf_iter_scx_dsq_destroy(&it);
	if (moved)
		task_is_ready(l, p, &place, t->told_awake);
	bpf_rcu_read_unlock();
	if (!moved)
		return vtime_before(scx_bpf_now(), t->told_ns + EARLY_NS) ? DECISION_EARLY :
									    DECISION_STALE;
	/* It may run by now, and have come again. */
	__sync_val_compare_and_swap(&t->ticket, d->ticket, 0);
	return DECISION_TAKEN;
}

/* Takes one of user_decisions; what became of it. */
__weak __noinline u32 decide_one(u32 at)
{
	struct user_decision d = user_decisions[at & (DECISIONS_MAX - 1)];
	struct meta_lane *l = lane_if_current(d.slot, d.lane);
	struct user_lane *u;
	struct task_struct *p;
	u32 result = DECISION_STALE;

	if (!l || !policy_has_user_half(l->lane.policy)) {
		__sync_fetch_and_add(&user_half.wrong, 1);
		return DECISION_WRONG;
	}
	p = bpf_task_from_pid(d.pid);
	if (p) {
		result = decide_task(l, p, &d);
		bpf_task_release(p);
	}
	u = user_lane_of(l);
	if (result == DECISION_TAKEN)
		__sync_fetch_and_add(&u->taken, 1);
	else if (result == DECISION_STALE)
		__sync_fetch_and_add(&u->stale, 1);
	else if (result == DECISION_WRONG)
		__sync_fetch_and_add(&u->wrong, 1);
	return result;
}

/* The process is there, and has decided so much. */
static __always_inline void decide(u32 decisions, u32 tgid)
{
	u32 at;

	user_half.tgid = tgid;
	WRITE_ONCE(user_half.patience, USER_PATIENCE);
	bpf_for(at, 0, decisions < DECISIONS_MAX ? decisions : DECISIONS_MAX) {
		user_decisions[at & (DECISIONS_MAX - 1)].result = decide_one(at);
	}
}

#endif
