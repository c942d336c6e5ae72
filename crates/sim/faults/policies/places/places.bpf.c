/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy with a queue for each CPU and each last-level cache, by which tests try what level 1
 * does with many queues. A task that may run on one CPU waits for that one, one that may run on
 * all under the cache of its CPU, any other where all look.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

#define PLACES_SLICE_NS (3ULL * 1000 * 1000)

static s32 places_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			     u64 wake_flags)
{
	bool claimed = false;

	return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, PLACES_SLICE_NS, &claimed);
}

static void places_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			   u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 dsq = lane_dsq(lane, 0);

	if (p->nr_cpus_allowed == 1)
		dsq = lane_cpu_dsq(lane, cpu, 0);
	else if ((u32)p->nr_cpus_allowed >= nr_cpus())
		dsq = lane_llc_dsq(lane, cpu_llc(cpu), 0);
	lane_insert(lane, p, dsq, PLACES_SLICE_NS, enq_flags);
}

static bool places_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			    struct lane_task *t, const struct lane_run *run)
{
	u32 i, llc = cpu_llc(cpu);

	if (lane_move_to_local(lane, lane_cpu_dsq(lane, cpu, 0)) ||
	    lane_move_to_local(lane, lane_dsq(lane, 0)))
		return true;
	/* First its own cache, then the others in turn. */
	bpf_for(i, 0, nr_llcs()) {
		if (lane_move_to_local(lane, lane_llc_dsq(lane, llc, 0)))
			return true;
		llc = llc + 1 < nr_llcs() ? llc + 1 : 0;
	}
	return false;
}

static const struct policy_ops places_ops = {
	.select_cpu = places_select_cpu,
	.enqueue = places_enqueue,
	.dispatch = places_dispatch,
	.queues = 1,
	.llc_queues = 1,
	.cpu_queues = 1,
};
