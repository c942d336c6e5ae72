// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel takes and the model does not, or neither does. */
#include "fault.h"

struct sched_ext_ops idle_per_node = { HONEST, .flags = SCX_OPS_BUILTIN_IDLE_PER_NODE };
struct sched_ext_ops switch_partial = { HONEST, .flags = SCX_OPS_SWITCH_PARTIAL };
struct sched_ext_ops long_patience = { HONEST, .timeout_ms = 31000 };

static void immediate_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags | SCX_ENQ_IMMED);
}

struct sched_ext_ops immediate = { HONEST, .enqueue = immediate_enqueue };
