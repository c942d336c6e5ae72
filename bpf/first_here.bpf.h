/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the first task of a queue that may run on this CPU: a policy compares the task that would go on with
 * it. The very first task of the queue may be bound to other CPUs.
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
