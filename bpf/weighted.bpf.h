/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted fair by virtual time, as several policies have it: a task carries what it ran divided by
 * its weight, and the least comes first.
 */
#ifndef METASCHED_WEIGHTED_BPF_H
#define METASCHED_WEIGHTED_BPF_H

#include <sched.bpf.h>
#include <first_here.bpf.h>

/* That a slice is used up is noticed at the next tick, which is as late as this at HZ=100. */
#define WEIGHTED_TICK_NS (10ULL * 1000 * 1000)

/*
 * The lane's time follows the task that runs. Two CPUs may both find it behind and write; the lower
 * value can win, and then it is behind by the difference of two tasks that run at the same time until
 * the next one starts. That is well under a slice.
 */
static __always_inline void weighted_advance(u64 *now, u64 vtime)
{
	if (vtime_before(*now, vtime))
		*now = vtime;
}

/*
 * The place of a task in its queue: as far as it has come, with no more than @credit_ns of credit, and
 * no farther ahead than one run of @slice_ns brings it. A task that had a CPU to itself, while others shared
 * those that it may not use or that may not use its own, has taken nothing from anybody.
 */
static __always_inline u64 weighted_place(u64 now, u64 vtime, u64 credit_ns, u64 slice_ns,
					  u32 weight)
{
	u64 floor = now - credit_ns;
	u64 ceiling = now + weighted_ns(slice_ns + WEIGHTED_TICK_NS, weight);

	if (vtime_before(vtime, floor))
		return floor;
	return vtime_before(ceiling, vtime) ? ceiling : vtime;
}

/*
 * In dispatch on @cpu: whether a task of that vtime, which ran there, goes on: it comes before all that
 * wait for that CPU. Time follows it then, but not one that has its CPU to itself while others share
 * those that it may not use: beside it all of them would lag.
 */
__weak __noinline bool weighted_goes_on(struct lane *lane __arg_nonnull, u64 dsq, s32 cpu, u64 vtime,
					u64 *now __arg_nonnull)
{
	u64 first = first_here(lane, dsq, cpu);

	if (first != LANE_NOBODY && !vtime_before(vtime, first))
		return false;
	if (first != LANE_NOBODY || scx_bpf_dsq_nr_queued(dsq) <= 0)
		weighted_advance(now, vtime);
	return true;
}

#endif
