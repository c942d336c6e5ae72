// SPDX-License-Identifier: GPL-2.0-only
/* Weighted vtime, except that the weight is left out of the charge. */
#include "fault.h"

static void ignores_weights_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, QUEUE, SLICE_NS, p->scx.dsq_vtime, enq_flags);
}

static void ignores_weights_stopping(struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, p->se.sum_exec_runtime);
}

struct sched_ext_ops ignores_weights = {
	HONEST, .enqueue = ignores_weights_enqueue, .stopping = ignores_weights_stopping,
};
