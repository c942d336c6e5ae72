/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fifo: first in, first out.
 *
 * One queue for all CPUs. A task that wakes while a CPU is idle runs there at
 * once; any other goes to the end of the queue and, when its turn comes, runs
 * until it blocks or its slice is used up. Nothing is preempted.
 *
 * It helps where tasks are alike and many: the least work per decision, and
 * nobody is passed over. It hurts where a task that needs a CPU for a moment
 * stands behind many that use up their slices; and it ignores weights.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

enum { fifo_options(OPTION_INDEX) };
enum { fifo_counters(COUNTER_INDEX) };

static s32 fifo_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[fifo_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, fifo_counter_direct);
	return cpu;
}

static void fifo_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	lane_count(lane, fifo_counter_queued);
	lane_insert(lane, p, lane_dsq(lane, 0), lane->options[fifo_option_slice_ns], enq_flags);
}

static bool fifo_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	return lane_move_to_local(lane, lane_dsq(lane, 0));
}

static const struct policy_ops fifo_ops = {
	.select_cpu = fifo_select_cpu,
	.enqueue = fifo_enqueue,
	.dispatch = fifo_dispatch,
	.queues = 1,
};
