// SPDX-License-Identifier: GPL-2.0-only
/* Tasks of low weight go to a queue that nobody serves. */
#include "fault.h"

#define UNSERVED 0x11

static s32 wrong_queue_init(void)
{
	return honest_init() ?: scx_bpf_create_dsq(UNSERVED, -1);
}

static void wrong_queue_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, p->scx.weight < 100 ? UNSERVED : QUEUE, SLICE_NS, enq_flags);
}

struct sched_ext_ops wrong_queue = {
	HONEST, .init = wrong_queue_init, .enqueue = wrong_queue_enqueue,
};
