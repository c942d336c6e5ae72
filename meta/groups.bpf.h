/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept of each cgroup for policies, see lane_group() of sched.bpf.h; by its place in the
 * table of cgroups. The map has room for them where an enabled policy asks for it, else for one:
 * the loader sees to that.
 */
#ifndef METASCHED_GROUPS_BPF_H
#define METASCHED_GROUPS_BPF_H

#include <lanes.bpf.h>

/*
 * So many policies may keep something of each cgroup at the same time, 2 at most. Where there are more
 * the last ones have their states taken from each other, and begin anew each time that they come.
 */
#define GROUP_POLICIES 2

struct group_of {
	u64 policy_of; /* the owner of the state: the number of its policy plus one; 0: none */
	struct lane_group lane;
};

/* What is measured the first one has from the beginning, and each other one since it is somebody's. */
struct group {
	struct group_of of[GROUP_POLICIES];
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

/* 1 unless @number is 0: without a branch, of which the verifier would follow both ways from here on. */
static __always_inline u32 group_unless(u64 number)
{
	return (number | -number) >> 63;
}

/* The state of that cgroup which is the policy's of @lane; NULL if there is none yet. */
static __always_inline struct group_of *group_known(struct group *g, const struct lane *lane)
{
	u64 policy_of = lane->policy + 1;
	u32 last = GROUP_POLICIES - 1;
	struct group_of *of = &g->of[group_unless(READ_ONCE(g->of[0].policy_of) ^ policy_of) & last];

	return likely(READ_ONCE(of->policy_of) == policy_of) ? of : NULL;
}

/*
 * A state of the cgroup becomes that of @policy_of, see struct group_of, and begins with zeroes.
 * Several CPUs may come at once: one of them begins. A call, since it is rare and the verifier would
 * follow it wherever a cgroup is asked for.
 */
__weak __noinline int group_begin(u64 policy_of, u32 number)
{
	struct group *g = group_at(number);
	u32 last = GROUP_POLICIES - 1;
	struct group_of *of;
	u64 first, before;

	if (!g)
		return 0;
	first = READ_ONCE(g->of[0].policy_of);
	of = &g->of[group_unless(first) & last];
	before = READ_ONCE(of->policy_of);
	if (first == GROUP_CHANGES || first == policy_of || before == GROUP_CHANGES ||
	    before == policy_of ||
	    __sync_val_compare_and_swap(&of->policy_of, before, GROUP_CHANGES) != before)
		return 0;
	__builtin_memset(of->lane.state, 0, sizeof(of->lane.state));
	of->lane.ran_ns = g->of[0].lane.ran_ns;
	of->lane.place = number;
	of->lane.serial = __sync_fetch_and_add(&group_serials, 1) + 1;
	__sync_lock_test_and_set(&of->policy_of, policy_of);
	return 0;
}

/* The cgroup of that place as the policy of @lane keeps it; NULL while another CPU begins it. */
static __always_inline struct lane_group *group_for(const struct lane *lane, u32 number)
{
	struct group *g = group_at(number);
	struct group_of *of;

	if (!g)
		return NULL;
	of = group_known(g, lane);
	if (unlikely(!of)) {
		group_begin(lane->policy + 1, number);
		of = group_known(g, lane);
	}
	return of ? &of->lane : NULL;
}

/* Tasks of the cgroup have run for so long. */
static __always_inline void group_ran(struct group *g, u64 ran_ns)
{
	u32 i;

	for (i = 0; i < GROUP_POLICIES; i++) {
		if (!i || READ_ONCE(g->of[i].policy_of))
			__sync_fetch_and_add(&g->of[i].lane.ran_ns, ran_ns);
	}
}

/* The place has a new cgroup. */
static __always_inline void group_forget(u32 number)
{
	struct group *g = group_at(number);

	if (g)
		__builtin_memset(g, 0, sizeof(*g));
}

#endif
