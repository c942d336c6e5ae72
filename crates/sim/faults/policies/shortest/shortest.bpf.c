/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shortest: who wants little comes first.
 *
 * What a task ran between its last two sleeps is what it is expected to run this time. The queue is
 * in the order of when a task came, and so much later the more it is expected to run: whoever wants
 * little goes before those who want much, and nobody waits for ever.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

enum { shortest_options(OPTION_INDEX) };
enum { shortest_counters(COUNTER_INDEX) };

/* A burst counts as this at most, so that who never sleeps is not put off without end. */
#define SHORTEST_LONGEST_NS (100ULL * 1000 * 1000)

struct shortest_task {
	u64 burst_ns; /* what it ran between its last two sleeps */
	u64 ran_ns; /* what it has run since it last slept */
};

static s32 shortest_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			       u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[shortest_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, shortest_counter_direct);
	return cpu;
}

static void shortest_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     u64 enq_flags)
{
	struct shortest_task *task = STATE_OF(t, struct shortest_task);
	u64 wants_ns = task->burst_ns > task->ran_ns ? task->burst_ns : task->ran_ns;

	if (wants_ns > SHORTEST_LONGEST_NS)
		wants_ns = SHORTEST_LONGEST_NS;
	lane_count(lane, shortest_counter_queued);
	lane_insert_vtime(lane, p, lane_dsq(lane, 0), lane->options[shortest_option_slice_ns],
			  scx_bpf_now() + wants_ns * lane->options[shortest_option_patience],
			  enq_flags);
}

static bool shortest_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			      struct lane_task *t, const struct lane_run *run)
{
	return lane_move_to_local(lane, lane_dsq(lane, 0));
}

static void shortest_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			      const struct lane_run *run)
{
	struct shortest_task *task = STATE_OF(t, struct shortest_task);

	task->ran_ns += run->ran_ns;
	if (run->runnable)
		return;
	task->burst_ns = task->ran_ns;
	task->ran_ns = 0;
}

static const struct policy_ops shortest_ops = {
	.select_cpu = shortest_select_cpu,
	.enqueue = shortest_enqueue,
	.dispatch = shortest_dispatch,
	.stopping = shortest_stopping,
	.queues = 1,
	.task_bytes = sizeof(struct shortest_task),
};
