/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sketch of rustland: a half in user space decides the order of tasks and their slices.
 *
 * A task that wakes while a CPU is idle runs there at once. Any other is left to user space,
 * and stands in a queue in the order that this decides. Whom it does not decide in time
 * stands in a second queue, first in, first out. The two have every second choice each:
 * neither waits for ever for the other.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

/* What a task is granted that was decided here; and the least and most that user space may grant. */
#define RUSTLAND_SLICE_NS (5ULL * 1000 * 1000)
#define RUSTLAND_LEAST_SLICE_NS (250ULL * 1000)
#define RUSTLAND_MOST_SLICE_NS (20ULL * 1000 * 1000)

enum rustland_queue {
	RUSTLAND_DECIDED,
	RUSTLAND_ALONE,
	RUSTLAND_QUEUES,
};

struct rustland_lane {
	u64 choices;
};

static s32 rustland_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			       u64 wake_flags)
{
	bool claimed = false;

	return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, RUSTLAND_SLICE_NS, &claimed);
}

static void rustland_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     u64 enq_flags)
{
	if (!lane_tell_user(lane, p, enq_flags))
		lane_insert(lane, p, lane_dsq(lane, RUSTLAND_ALONE), RUSTLAND_SLICE_NS, enq_flags);
}

static void rustland_decide(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    const struct lane_decision *d, struct lane_place *place)
{
	if (!d) {
		place->dsq = lane_dsq(lane, RUSTLAND_ALONE);
		place->slice_ns = RUSTLAND_SLICE_NS;
		return;
	}
	place->dsq = lane_dsq(lane, RUSTLAND_DECIDED);
	place->by_vtime = true;
	place->vtime = d->order;
	place->cpu = d->cpu;
	place->slice_ns = d->slice_ns;
	if (place->slice_ns < RUSTLAND_LEAST_SLICE_NS)
		place->slice_ns = RUSTLAND_LEAST_SLICE_NS;
	if (place->slice_ns > RUSTLAND_MOST_SLICE_NS)
		place->slice_ns = RUSTLAND_MOST_SLICE_NS;
}

static bool rustland_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			      struct lane_task *t, const struct lane_run *run)
{
	/* Two CPUs may both take the same for the first: the next choice makes up for it. */
	u32 first = STATE_OF(lane, struct rustland_lane)->choices++ % RUSTLAND_QUEUES;

	return lane_move_to_local(lane, lane_dsq(lane, first)) ||
	       lane_move_to_local(lane, lane_dsq(lane, !first));
}

static const struct policy_ops rustland_ops = {
	.select_cpu = rustland_select_cpu,
	.enqueue = rustland_enqueue,
	.dispatch = rustland_dispatch,
	.decide = rustland_decide,
	.queues = RUSTLAND_QUEUES,
};
