/* SPDX-License-Identifier: GPL-2.0-only */
/* The engine is the timer: it calls sim_lane_timer() when one expires. */
#ifndef METASCHED_LANE_TIMER_BPF_H
#define METASCHED_LANE_TIMER_BPF_H

#include <lanes.bpf.h>

static void lane_timer_over(u32 slot, u64 generation);

/* How often each was set, and for which lane: what was set before does not expire. */
static struct {
	u64 times;
	u64 generation;
} lane_timers[LANES_MAX];

static inline int lane_timers_make(void)
{
	return 0;
}

static inline void lane_timer_start(struct lane *lane, u64 ns)
{
	u32 slot = lane->slot;

	lane_timers[slot].generation = lane->generation;
	seam_timer(slot, ++lane_timers[slot].times, ns);
}

static u32 all_callbacks(void);

/* For src/load.rs: what policies name, see policy.h. */
u32 sim_callbacks(void)
{
	return all_callbacks();
}

int sim_lane_timer(u64 slot, u64 time)
{
	if (lane_timers[slot].times == time)
		lane_timer_over(slot, lane_timers[slot].generation);
	return 0;
}

#endif
