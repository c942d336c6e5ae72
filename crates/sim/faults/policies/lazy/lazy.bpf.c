/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy of level 1 that takes tasks and never gives a CPU one. */
#include <sched.bpf.h>
#include "options.h"

static s32 lazy_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

static void lazy_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	lane_insert(lane, p, lane_dsq(lane, 0), SCX_SLICE_DFL, enq_flags);
}

static bool lazy_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	return false;
}

static const struct policy_ops lazy_ops = {
	.select_cpu = lazy_select_cpu,
	.enqueue = lazy_enqueue,
	.dispatch = lazy_dispatch,
	.queues = 1,
};
