// SPDX-License-Identifier: GPL-2.0-only
/* Calls in callbacks that may not make them. */
#include "fault.h"

static void inserts_running(struct task_struct *p)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS, 0);
}

static void creates_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_create_dsq(0x12, -1);
	honest_enqueue(p, enq_flags);
}

static void moves_enqueue(struct task_struct *p, u64 enq_flags)
{
	honest_enqueue(p, enq_flags);
	scx_bpf_dsq_move_to_local(QUEUE);
}

struct sched_ext_ops inserts_in_running = { HONEST, .running = inserts_running };
struct sched_ext_ops creates_in_enqueue = { HONEST, .enqueue = creates_enqueue };
struct sched_ext_ops moves_in_enqueue = { HONEST, .enqueue = moves_enqueue };
