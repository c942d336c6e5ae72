// SPDX-License-Identifier: GPL-2.0-only
/* Every task is sent to CPU 0, whether it may run there or not. */
#include "fault.h"

static void ignores_affinity_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SLICE_NS, enq_flags);
}

struct sched_ext_ops ignores_affinity = { HONEST, .enqueue = ignores_affinity_enqueue };
