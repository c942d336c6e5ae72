/* SPDX-License-Identifier: GPL-2.0-only */
/* A policy of level 1 that takes tasks and never gives a CPU one. */
#include <sched.bpf.h>
#include "options.h"

static s32 lazy_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

static void lazy_enqueue(struct lane *lane, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, lane_dsq(lane, 0), SCX_SLICE_DFL, enq_flags);
}

static bool lazy_dispatch(struct lane *lane, s32 cpu)
{
	return false;
}
