// SPDX-License-Identifier: GPL-2.0-only
/* One queue gets tasks in FIFO order and by vtime. */
#include "fault.h"

static void mixed_orders_enqueue(struct task_struct *p, u64 enq_flags)
{
	if (p->pid % 2)
		honest_enqueue(p, enq_flags);
	else
		scx_bpf_dsq_insert_vtime(p, QUEUE, SLICE_NS, p->pid, enq_flags);
}

struct sched_ext_ops mixed_orders = { HONEST, .enqueue = mixed_orders_enqueue };
