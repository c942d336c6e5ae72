// SPDX-License-Identifier: GPL-2.0-only
/* The newest goes first: whoever is at the end stays there. */
#include "fault.h"

static void last_come_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS, enq_flags | SCX_ENQ_HEAD);
}

struct sched_ext_ops last_come_first_served = { HONEST, .enqueue = last_come_enqueue };
