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

/* The place has a new cgroup. */
static __always_inline void group_forget(u32 number)
{
	struct group *g = group_at(number);

	if (g)
		__builtin_memset(g, 0, sizeof(*g));
}

#endif
