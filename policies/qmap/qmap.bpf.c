/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * qmap: five queues by weight.
 *
 * A task waits in the queue of its class of weights, first in, first out. Each CPU visits the
 * queues in turn, and takes up to 1, 2, 4, 8 or 16 tasks from them at a visit: the heavier
 * the class, the more. An empty queue is passed over. A task that wakes while a CPU is idle
 * runs there at once.
 *
 * It helps where a few classes of weights are enough and a decision has to be cheap: nothing
 * is kept of a task. It hurts where weights are to count as numbers: two tasks of a class
 * are alike, and what a class gets depends on whether others want CPUs, not on how many tasks
 * it has itself.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

enum { qmap_options(OPTION_INDEX) };
enum { qmap_counters(COUNTER_INDEX) };

#define QMAP_QUEUES 5

/* Where a CPU is on its way through the queues. */
struct qmap_cpu {
	u32 queue;
	u32 left; /* so many tasks it may still take there */
};

static __always_inline u32 qmap_queue_of(struct task_struct *p)
{
	u32 weight = task_weight(p);

	if (weight <= 25)
		return 0;
	if (weight <= 50)
		return 1;
	if (weight < 200)
		return 2;
	return weight < 400 ? 3 : 4;
}

static s32 qmap_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[qmap_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, qmap_counter_direct);
	return cpu;
}

static void qmap_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	u32 queue = qmap_queue_of(p);

	lane_count(lane, qmap_counter_queued_0 + queue);
	lane_insert(lane, p, lane_dsq(lane, queue), lane->options[qmap_option_slice_ns],
		    enq_flags);
}

/*
 * The task that ran here is in no queue yet. It is the last of its own: so it goes on where that
 * is empty and its visit is not over. Else a class of one task would have one run at a visit,
 * whatever its weight.
 */
static bool qmap_goes_on(struct lane *lane, struct task_struct *prev, u32 queue)
{
	if (!prev || qmap_queue_of(prev) != queue)
		return false;
	lane_count(lane, qmap_counter_kept);
	lane_grant(lane, prev, lane->options[qmap_option_slice_ns]);
	return true;
}

static bool qmap_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	struct cpu_state *state = lane_cpu(lane, cpu);
	struct qmap_cpu *at;
	u32 i;

	if (!state)
		return false;
	at = STATE_OF(state, struct qmap_cpu);
	/* The rest of the present visit, then one of each queue. */
	bpf_for(i, 0, QMAP_QUEUES + 1) {
		if (!at->left) {
			at->queue = (at->queue + 1) % QMAP_QUEUES;
			at->left = 1 << at->queue;
		}
		if (lane_move_to_local(lane, lane_dsq(lane, at->queue)) ||
		    qmap_goes_on(lane, prev, at->queue)) {
			at->left--;
			return true;
		}
		at->left = 0;
	}
	return false;
}

static const struct policy_ops qmap_ops = {
	.select_cpu = qmap_select_cpu,
	.enqueue = qmap_enqueue,
	.dispatch = qmap_dispatch,
	.queues = QMAP_QUEUES,
	.looks_at_prev = 1,
	.cpu_bytes = sizeof(struct qmap_cpu),
};
