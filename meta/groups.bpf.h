/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept of each cgroup for policies, see lane_group() of sched.bpf.h; by its place in the
 * table of cgroups. The map has room for them where an enabled policy asks for it, else for one:
 * the loader sees to that.
 */
#ifndef METASCHED_GROUPS_BPF_H
#define METASCHED_GROUPS_BPF_H

#include <lanes.bpf.h>

struct group {
	u64 policy_of; /* whose the state is: the number of a policy plus one; 0: nobody's */
	struct lane_group lane;
};

/* In place of a policy: the state is just being taken from the one before. */
#define GROUP_CHANGES (~0ULL)

/* The serial that was given last. */
u64 group_serials;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u32);
	__type(value, struct group);
} groups SEC(".maps");

static __always_inline struct group *group_at(u32 number)
{
	return bpf_map_lookup_elem(&groups, &number);
}

/*
 * The cgroup of that place as the policy of @lane keeps it, which begins with zeroes. Several CPUs
 * may come at once: one of them begins, and the others get NULL until it has.
 */
static __always_inline struct lane_group *group_for(const struct lane *lane, u32 number)
{
	struct group *g = group_at(number);
	u64 policy_of = lane->policy + 1, before;

	if (!g)
		return NULL;
	before = READ_ONCE(g->policy_of);
	if (likely(before == policy_of))
		return &g->lane;
	if (before == GROUP_CHANGES ||
	    __sync_val_compare_and_swap(&g->policy_of, before, GROUP_CHANGES) != before)
		return NULL;
	__builtin_memset(g->lane.state, 0, sizeof(g->lane.state));
	g->lane.place = number;
	g->lane.serial = __sync_fetch_and_add(&group_serials, 1) + 1;
	__sync_lock_test_and_set(&g->policy_of, policy_of);
	return &g->lane;
}

/* The place has a new cgroup. */
static __always_inline void group_forget(u32 number)
{
	struct group *g = group_at(number);

	if (g)
		__builtin_memset(g, 0, sizeof(*g));
}

#endif
