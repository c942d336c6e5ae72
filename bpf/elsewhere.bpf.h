/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A CPU that has nothing to do takes a task from the queue of another last-level cache.
 */
#ifndef METASCHED_ELSEWHERE_BPF_H
#define METASCHED_ELSEWHERE_BPF_H

#include <sched.bpf.h>

/* In dispatch: moves a task to this CPU from the first queue of the next cache after @llc that has one. */
__weak __noinline bool take_elsewhere(struct lane *lane __arg_nonnull, u32 llc)
{
	u32 i;

	bpf_for(i, 1, nr_llcs()) {
		if (lane_move_to_local(lane, lane_llc_dsq(lane, llc_after(llc, i), 0)))
			return true;
	}
	return false;
}

#endif
