// SPDX-License-Identifier: GPL-2.0-only
/* A task is inserted twice. */
#include "fault.h"

static void double_insert_enqueue(struct task_struct *p, u64 enq_flags)
{
	honest_enqueue(p, enq_flags);
	honest_enqueue(p, enq_flags);
}

struct sched_ext_ops double_insert = { HONEST, .enqueue = double_insert_enqueue };
