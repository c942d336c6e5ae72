// SPDX-License-Identifier: GPL-2.0-only
/* Makes a call that the kernel has and the model has not; must not link. */
#include "fault.h"

extern void scx_bpf_reenqueue_local(void) __weak __ksym;

static void unmodelled_dispatch(s32 cpu, struct task_struct *prev)
{
	scx_bpf_reenqueue_local();
	honest_dispatch(cpu, prev);
}

struct sched_ext_ops unmodelled = { HONEST, .dispatch = unmodelled_dispatch };
