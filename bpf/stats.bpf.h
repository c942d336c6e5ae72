/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters per lane, kept per CPU so that counting shares no cache line.
 *
 * The simulator puts a header of this name in front of this one.
 */
#ifndef METASCHED_STATS_BPF_H
#define METASCHED_STATS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <lane.h>

struct lane_counters {
	u64 counts[LANE_COUNTERS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LANES_MAX);
	__type(key, u32);
	__type(value, struct lane_counters);
} lane_counters SEC(".maps");

/* Adds one to a counter of @lane: @which is one of the policy's counter indices. */
static __always_inline void lane_count(const struct lane *lane, u32 which)
{
	u32 slot = lane->slot;
	struct lane_counters *c = bpf_map_lookup_elem(&lane_counters, &slot);

	if (c && which < LANE_COUNTERS_MAX)
		c->counts[which]++;
}

#endif
