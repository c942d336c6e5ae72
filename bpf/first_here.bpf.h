/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The competitor of a task that would go on: the first of a queue that may run on its CPU. The first
 * of all may be bound to others, where all are behind those of this CPU.
 */
#ifndef METASCHED_FIRST_HERE_BPF_H
#define METASCHED_FIRST_HERE_BPF_H

#include <sched.bpf.h>

/* In dispatch on @cpu: the vtime of that task of @dsq; LANE_NOBODY if there is none. */
static __always_inline u64 first_here(struct lane *lane, u64 dsq, s32 cpu)
{
	struct task_struct *first = scx_bpf_dsq_peek(dsq);

	if (!first)
		return LANE_NOBODY;
	if (likely(bpf_cpumask_test_cpu(cpu, first->cpus_ptr)))
		return first->scx.dsq_vtime;
	return lane_first(lane, dsq, cpu, cpu);
}

#endif
