/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task weighs by the hierarchy of cgroups, as scx_flatcg flattens it: a cgroup has what
 * cpu.weight says beside its siblings and the tasks next to it, and its members with work divide
 * that by their weights.
 *
 *	weight(task, flat) = weight(task) * weight(g) / sum(g) * weight(g') / sum(g') ...
 *
 * for its cgroup g, the one above g', and so on up to the highest of its lane, whose members weigh
 * what they say. So with weights of 100 and no cgroups each task weighs 100, as with the fair class,
 * and a cgroup of 100 as much as one of these, whatever is in it.
 *
 * sum(g) is what the members of g with work weigh. Those with work change all the time; so each
 * task's flat weight is computed when it is needed, on the way up. The part of it that is above its own
 * cgroup holds for a millisecond.
 */
#ifndef METASCHED_GROUP_WEIGHTS_BPF_H
#define METASCHED_GROUP_WEIGHTS_BPF_H

#include <sched.bpf.h>

/* Levels of cgroups that are looked at; what is deeper counts as far as this. */
#define GROUP_LEVELS 32
/* How often a CPU that is at work in a cgroup looks again for what others have left to it. */
#define GROUP_TRIES 4
/* For so long what the cgroups above one leave of a weight is not looked up again. */
#define GROUP_ABOVE_NS (1000ULL * 1000)
/* A factor of one, and the most that factors come to. */
#define GROUP_FACTOR_ONE (1ULL << 20)
#define GROUP_FACTOR_MAX (1ULL << 36)

/* A cgroup: the beginning of a policy's state of each. Weights are in parts, see WEIGHT_BITS. */
struct group_weights {
	u64 sum; /* what its members with work weigh */
	u64 counted; /* what of its weight is in the sum of the one above: 0 while it has no work */
	/* That one. The lane may end here since, or the state up there have begun anew. */
	u64 over_serial;
	u64 above_factor; /* what those above leave of a weight, in GROUP_FACTOR_ONE; 0: there are none */
	u64 above_ns; /* when that was looked up; 0: never */
	u32 over_place;
	u32 changes; /* somebody is making that true */
	u32 changed; /* and has to once more */
	u32 above_gives_way;
};

/* What a task has added to its cgroup's sum. */
struct group_share {
	u64 serial; /* of the cgroup; 0: it has added nothing */
	u32 place : 31;
	u32 gives_way : 1; /* it runs when nobody else wants to: cpu.idle, SCHED_IDLE */
	u32 weight; /* in its cgroup, in parts */
};

/*
 * A cgroup, counted in one that is not the one @above it any more, or in a state that has begun anew,
 * counts there no more; returns where that was, or NULL. If another CPU is at its books at this moment
 * it is done when a task of it is next asked what it weighs.
 */
static __always_inline struct lane_group *
group_uncounts(struct lane *lane, struct lane_group *group, struct lane_group *above)
{
	struct group_weights *g = STATE_OF(group, struct group_weights);
	struct lane_group *over;

	if (!g->counted ||
	    (above && g->over_serial == above->serial && g->over_place == above->place) ||
	    __sync_lock_test_and_set(&g->changes, 1))
		return NULL;
	over = lane_group_find(lane, g->over_place, g->over_serial);
	if (over)
		__sync_fetch_and_add(&STATE_OF(over, struct group_weights)->sum, -g->counted);
	g->counted = 0;
	__sync_lock_test_and_set(&g->changes, 0);
	return over;
}

/* Brings what a cgroup adds to the one above up to date; whether that has changed. */
static __always_inline bool group_counts(struct lane *lane, struct lane_group *group,
					 struct lane_group *above)
{
	struct group_weights *g = STATE_OF(group, struct group_weights);
	struct group_weights *over = STATE_OF(above, struct group_weights);
	bool changed = false;
	u64 weight;
	u32 i;

	WRITE_ONCE(g->changed, 1);
	bpf_for(i, 0, GROUP_TRIES) {
		if (!READ_ONCE(g->changed) || __sync_lock_test_and_set(&g->changes, 1))
			break;
		__sync_lock_test_and_set(&g->changed, 0);
		weight = (s64)READ_ONCE(g->sum) > 0 ? lane_group_weight(lane, group) : 0;
		if (g->counted && g->over_serial != above->serial)
			weight = g->counted;
		if (weight != g->counted) {
			__sync_fetch_and_add(&over->sum, weight - g->counted);
			g->counted = weight;
			g->over_place = above->place;
			g->over_serial = above->serial;
			changed = true;
		}
		__sync_lock_test_and_set(&g->changes, 0);
	}
	return changed;
}

/*
 * Counts the group and those above it, as far up as there is a change. Where it was counted wrongly comes
 * first: what it adds above it does when a task of it is next asked what it weighs.
 */
__weak __noinline int groups_count(struct lane *lane __arg_nonnull, u32 place, u64 serial)
{
	struct lane_group *group = lane_group_find(lane, place, serial), *above, *over;
	u32 i;

	bpf_for(i, 0, GROUP_LEVELS) {
		if (!group)
			break;
		above = lane_group_above(lane, group);
		over = group_uncounts(lane, group, above);
		if (!over && (!above || !group_counts(lane, group, above)))
			break;
		group = over ? over : above;
	}
	return 0;
}

/* The weight of a task in its cgroup. */
static __always_inline u32 group_task_weight(struct task_struct *p)
{
	u32 weight = task_weight(p);

	return (weight ? weight : 1) << WEIGHT_BITS;
}

/* Whether a cgroup counts as one beside its siblings, and @sum of it have work. */
static __always_inline bool group_has_others(const struct group_weights *g, s64 sum)
{
	return sum > 0 && g->above_factor;
}

/* The task has no work any more. Returns whether its cgroup goes on, as one, with others. */
static __always_inline bool group_leave(struct lane *lane, struct group_share *share)
{
	struct lane_group *group;
	struct group_weights *g;
	s64 left;

	if (!share->serial)
		return false;
	group = lane_group_find(lane, share->place, share->serial);
	share->serial = 0;
	if (!group)
		return false;
	g = STATE_OF(group, struct group_weights);
	left = __sync_fetch_and_add(&g->sum, -(u64)share->weight) - share->weight;
	if (left <= 0)
		groups_count(lane, group->place, group->serial);
	return group_has_others(g, left);
}

/*
 * The task has work, or weighs something else. Returns whether others of its cgroup, which counts as
 * one, have some: false if nothing has changed, since the task does not come then.
 */
static __always_inline bool group_join(struct lane *lane, struct task_struct *p,
				       struct group_share *share)
{
	struct lane_group *group = lane_group(lane, p);
	struct group_weights *g;
	u32 weight = group_task_weight(p);
	s64 before;

	if (group && share->serial == group->serial && share->place == group->place &&
	    share->weight == weight)
		return false;
	group_leave(lane, share);
	share->weight = weight;
	if (!group)
		return false;
	g = STATE_OF(group, struct group_weights);
	share->serial = group->serial;
	share->place = group->place;
	before = __sync_fetch_and_add(&g->sum, weight);
	if (!READ_ONCE(g->counted))
		groups_count(lane, group->place, group->serial);
	return group_has_others(g, before);
}

/* The way up from a task's cgroup. */
struct group_walk {
	u64 serial; /* of the cgroup that it has come to, and its place */
	u64 factor; /* what the cgroups below leave of a weight, in GROUP_FACTOR_ONE */
	u32 place;
	u32 gives_way; /* one of them does */
	u64 wrong_serial; /* a cgroup whose part of the one above is not what it should be; 0: none */
	u32 wrong_place;
	u32 above; /* it has come to one above the first */
};

/* One level further; whether there was one. A call, since the verifier follows loops many times. */
__weak __noinline bool group_walk_up(struct lane *lane __arg_nonnull,
				     struct group_walk *walk __arg_nonnull)
{
	struct lane_group *group = lane_group_find(lane, walk->place, walk->serial), *above;
	u64 own, sum, counted;

	if (!group)
		return false;
	above = lane_group_above(lane, group);
	own = above ? lane_group_weight(lane, group) : 0;
	sum = READ_ONCE(STATE_OF(group, struct group_weights)->sum);
	counted = READ_ONCE(STATE_OF(group, struct group_weights)->counted);
	/* cpu.weight has changed since; or the lane ends here, as it did not before. */
	if (unlikely(own != counted && !walk->wrong_serial)) {
		walk->wrong_place = group->place;
		walk->wrong_serial = group->serial;
	}
	if (!above)
		return false;
	if (own <= (WEIGHT_IDLE << WEIGHT_BITS))
		walk->gives_way = 1;
	if ((s64)sum > 0)
		walk->factor = walk->factor * own / sum;
	if (walk->factor > GROUP_FACTOR_MAX)
		walk->factor = GROUP_FACTOR_MAX;
	walk->place = above->place;
	walk->serial = above->serial;
	return true;
}

/* Looks up what the cgroups above one leave of a weight. */
static __always_inline void group_look_above(struct lane *lane, struct lane_group *group, u64 now)
{
	struct group_weights *g = STATE_OF(group, struct group_weights);
	struct group_walk walk = { .serial = group->serial, .place = group->place };
	u32 i;

	bpf_for(i, 0, GROUP_LEVELS) {
		if (!group_walk_up(lane, &walk))
			break;
		if (walk.above)
			continue;
		/* Its own part changes too often to be kept. */
		walk.above = 1;
		walk.gives_way = 0;
		walk.factor = GROUP_FACTOR_ONE;
	}
	/* Where several are wrong the others are mended when somebody looks again. */
	if (unlikely(walk.wrong_serial))
		groups_count(lane, walk.wrong_place, walk.wrong_serial);
	g->above_gives_way = walk.gives_way;
	g->above_factor = walk.above ? (walk.factor ? walk.factor : 1) : 0;
	g->above_ns = now;
}

/* The flat weight of a task that has joined, 1 at least; and it says whether the task gives way. */
__weak __noinline u32 group_flat_weight(struct lane *lane __arg_nonnull,
					struct group_share *share __arg_nonnull)
{
	struct lane_group *group = lane_group_find(lane, share->place, share->serial);
	u64 now = scx_bpf_now(), weight = share->weight, factor, own, sum;
	bool gives_way = weight <= (WEIGHT_IDLE << WEIGHT_BITS);
	struct group_weights *g;

	if (group) {
		g = STATE_OF(group, struct group_weights);
		if (!g->above_ns || now - g->above_ns >= GROUP_ABOVE_NS)
			group_look_above(lane, group, now);
		factor = g->above_factor;
		if (factor) {
			own = lane_group_weight(lane, group);
			sum = READ_ONCE(g->sum);
			gives_way |= own <= (WEIGHT_IDLE << WEIGHT_BITS) || g->above_gives_way;
			if ((s64)sum > 0)
				factor = factor * own / sum;
			if (factor > GROUP_FACTOR_MAX)
				factor = GROUP_FACTOR_MAX;
			weight = weight * factor / GROUP_FACTOR_ONE;
		}
	}
	share->gives_way = gives_way;
	if (weight > ~0U)
		return ~0U;
	return weight ? weight : 1;
}

#endif
