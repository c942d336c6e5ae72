/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers of lanes, one for each place.
 *
 * The simulator puts a header of this name in front of this one: there, the
 * engine keeps the time.
 */
#ifndef METASCHED_LANE_TIMER_BPF_H
#define METASCHED_LANE_TIMER_BPF_H

#include <lanes.bpf.h>

/* Defined in services.bpf.h: what happens when the timer expires. */
static void lane_timer_over(u32 slot, u64 generation);

struct lane_timer {
	struct bpf_timer timer;
	u64 generation; /* of the lane that set it */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES_MAX);
	__type(key, u32);
	__type(value, struct lane_timer);
} lane_timers SEC(".maps");

static int lane_timer_due(void *map, u32 *slot, struct lane_timer *due)
{
	/* Once we have been ended, the CPUs are another scheduler's. */
	if (READ_ONCE(served))
		lane_timer_over(*slot, due->generation);
	return 0;
}

static __noinline int lane_timers_make(void)
{
	struct lane_timer *t;
	u32 i, slot;

	bpf_for(i, 0, LANES_MAX) {
		slot = i;
		t = bpf_map_lookup_elem(&lane_timers, &slot);
		if (!t || bpf_timer_init(&t->timer, &lane_timers, CLOCK_MONOTONIC))
			return -EINVAL;
		bpf_timer_set_callback(&t->timer, lane_timer_due);
	}
	return 0;
}

/* Has it expire once, in @ns, instead of when it was set to before. */
static __always_inline void lane_timer_start(struct lane *lane, u64 ns)
{
	u32 slot = lane->slot;
	struct lane_timer *t = bpf_map_lookup_elem(&lane_timers, &slot);

	if (!t)
		return;
	t->generation = lane->generation;
	bpf_timer_start(&t->timer, ns, 0);
}

#endif
