// SPDX-License-Identifier: GPL-2.0-only
/* Leaves every other task in a queue that it never serves, and says how long that may last. */
#include "fault.h"

#define NOBODYS_QUEUE 0x11

static s32 stalls_init(void)
{
	return honest_init() ?: scx_bpf_create_dsq(NOBODYS_QUEUE, -1);
}

static s32 stalls_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

static void stalls_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, p->pid % 2 ? QUEUE : NOBODYS_QUEUE, SLICE_NS, enq_flags);
}

struct sched_ext_ops stalls = {
	HONEST,
	.init = stalls_init,
	.select_cpu = stalls_select_cpu,
	.enqueue = stalls_enqueue,
	.timeout_ms = 800,
};
