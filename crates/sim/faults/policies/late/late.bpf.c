/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy that gives a CPU a task at every second look only, as if somebody came
 * between the two. First in, first out.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

struct late_lane {
	u64 looks;
};

static s32 late_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;

	return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, SCX_SLICE_DFL, &claimed);
}

static void late_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	lane_insert(lane, p, lane_dsq(lane, 0), SCX_SLICE_DFL, enq_flags);
}

static bool late_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	return STATE_OF(lane, struct late_lane)->looks++ % 2 &&
	       lane_move_to_local(lane, lane_dsq(lane, 0));
}

static const struct policy_ops late_ops = {
	.select_cpu = late_select_cpu,
	.enqueue = late_enqueue,
	.dispatch = late_dispatch,
	.queues = 1,
};
