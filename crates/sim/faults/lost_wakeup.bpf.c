// SPDX-License-Identifier: GPL-2.0-only
/* Every hundredth task that is enqueued is forgotten. */
#include "fault.h"

static u32 enqueued;

static void lost_wakeup_enqueue(struct task_struct *p, u64 enq_flags)
{
	if (++enqueued % 100)
		honest_enqueue(p, enq_flags);
}

struct sched_ext_ops lost_wakeup = { HONEST, .enqueue = lost_wakeup_enqueue };
