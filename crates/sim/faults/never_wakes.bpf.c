// SPDX-License-Identifier: GPL-2.0-only
/* A waking task stays on its CPU, in a local queue, though others are idle. */
#include "fault.h"

static s32 never_wakes_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 0;
}

static void never_wakes_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
}

struct sched_ext_ops never_wakes = {
	HONEST, .select_cpu = never_wakes_select_cpu, .enqueue = never_wakes_enqueue,
};
