/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hierarchy of cgroups, from the callbacks about cgroups: the parent of each, its weight, and
 * whether it is assigned. A cgroup that they do not tell of (the kernel
 * has no such callbacks, or the cpu controller is not enabled there) is known only if it is
 * assigned, and stands directly below the root with the weight that user space gave.
 *
 * Watched are those that matter for what an account weighs: the children of every cgroup
 * that has an assigned one below it, which is then open. A task counts for the lowest
 * watched cgroup that it is in: where that is open, as one directly in it, and where it is
 * not, for all that is below.
 */
#ifndef METASCHED_CGROUPS_BPF_H
#define METASCHED_CGROUPS_BPF_H

#include <lanes.bpf.h>
#include <cgroup.bpf.h>
#include <groups.bpf.h>

/* Levels of cgroups that are looked at; deeper ones count for those above them. */
#define CGROUP_LEVELS 32
/* How often a walk that others ask for meanwhile is made again by the one that is at it. */
#define WATCH_TRIES 8

/* The root's place is 0, which is never given out and so means "unknown" too. */
struct cgroup_node {
	u64 id; /* 0: free */
	u32 parent;
	u32 level; /* the root's is 0 */
	u32 weight; /* cpu.weight, or what cpu.idle makes of it */
	u32 assigned; /* its account, if it is assigned itself, or BACK_TO_ROOT; see cgroup_account() */
	u32 untold; /* no callback tells of it */
	u32 limit; /* its limit in cpu.max: the place plus one; 0: none; see limits.bpf.h */
	/* As watch_walk() left them. */
	u32 open;
	u32 watched;
	u32 account; /* the nearest assigned one's; of watched ones only */

	/* See shares.bpf.h; all of watched ones only. */
	u64 waits; /* a task that is queued, by its address; 0: none is known; written by any CPU */
	u32 arrived; /* a task came since the last look; written by any CPU */
	u32 came; /* the round in which one had */
	u32 own; /* it has work directly, or below where it is not open */
	u64 adds; /* what its children with work weigh, so far in this round */
	u64 sum; /* the same when all were asked, and its own work; 0: none */
	u64 weighs; /* beside its siblings */
	u64 share; /* of the machine, in SHARE_ONE; what it would be, if it has no work */
	u64 left; /* of that, what belongs to its own account */
};

struct cgroup_node cgroup_nodes[CGROUPS_MAX];
/* Where a free place is looked for first. */
u32 cgroup_free_from;
/* All places that were ever given out, one over the other: none is higher. */
u32 cgroups_used;
u32 cgroups_assigned;
/* Cgroups that there was no place for: they count for the nearest known above them. */
u64 cgroups_refused;

/* Those that are watched, each behind its parent. */
u32 watched[CGROUPS_MAX];
struct {
	u32 count;
	u32 walks; /* how often they were found anew */
	u32 walking;
	u32 wanted; /* the hierarchy has changed since */
} watch;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u64); /* cgroup id */
	__type(value, u32); /* place in cgroup_nodes */
} cgroup_numbers SEC(".maps");

static __always_inline struct cgroup_node *cgroup_node_at(u32 number)
{
	return &cgroup_nodes[number & (CGROUPS_MAX - 1)];
}

/* The account that a cgroup is assigned to itself; the root's, too, where it is not. */
static __always_inline u32 cgroup_account(const struct cgroup_node *n)
{
	return n->assigned & (ACCOUNTS_MAX - 1);
}

/* The place of a cgroup; 0 if it is unknown. */
static __always_inline u32 cgroup_find(u64 id)
{
	u32 *number = bpf_map_lookup_elem(&cgroup_numbers, &id);

	return number ? *number : 0;
}

__noinline u32 cgroup_number(u64 id)
{
	return cgroup_find(id);
}

/* Claims a free place; several CPUs may. 0 if there is none. */
__noinline u32 cgroup_claim(u64 id)
{
	u32 i, number, from = cgroup_free_from;

	bpf_for(i, 0, CGROUPS_MAX) {
		number = (from + i) & (CGROUPS_MAX - 1);
		if (!number || cgroup_node_at(number)->id ||
		    __sync_val_compare_and_swap(&cgroup_node_at(number)->id, 0, id))
			continue;
		cgroup_free_from = number + 1;
		__sync_fetch_and_or(&cgroups_used, number);
		return number;
	}
	return 0;
}

/* A place that no cgroup is found at any more. */
static __always_inline void cgroup_give_back(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number);

	n->assigned = 0;
	n->watched = 0;
	n->open = 0;
	if (number < cgroup_free_from)
		cgroup_free_from = number;
	/* Last: then another may have the place. */
	__sync_lock_test_and_set(&n->id, 0);
}

static __noinline void cgroup_free(u32 number)
{
	u64 id = cgroup_node_at(number)->id;

	bpf_map_delete_elem(&cgroup_numbers, &id);
	cgroup_give_back(number);
}

/* A place for a cgroup that has none, directly below the root; 0 if there is none. */
static __noinline u32 cgroup_make(u64 id)
{
	u32 found, number = cgroup_claim(id);
	struct cgroup_node *n = cgroup_node_at(number);

	if (!number)
		goto refused;
	__builtin_memset((void *)n + sizeof(id), 0, sizeof(*n) - sizeof(id));
	n->level = 1;
	n->weight = WEIGHT_DFL;
	group_forget(number);
	if (!bpf_map_update_elem(&cgroup_numbers, &id, &number, BPF_NOEXIST))
		return number;
	/* The kernel and user space may tell of it at the same time. */
	found = cgroup_number(id);
	cgroup_give_back(number);
	if (found)
		return found;
refused:
	__sync_fetch_and_add(&cgroups_refused, 1);
	return 0;
}

/* Opens the cgroups above one that is assigned. */
__noinline int cgroup_open_above(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number);
	u32 i;

	if (!number || !n->assigned)
		return 0;
	bpf_for(i, 0, CGROUP_LEVELS) {
		number = n->parent;
		n = cgroup_node_at(number);
		if (n->open)
			break;
		n->open = 1;
		if (!number)
			break;
	}
	return 0;
}

/* Watches a cgroup of that level if its parent is open; whether it did. */
__noinline bool cgroup_watch(u32 number, u32 level)
{
	struct cgroup_node *n = cgroup_node_at(number), *parent = cgroup_node_at(n->parent);
	u32 at = watch.count;

	if (!n->id || n->level != level || !parent->open || !parent->watched)
		return false;
	n->account = n->assigned ? cgroup_account(n) : parent->account;
	n->watched = 1;
	watched[at & (CGROUPS_MAX - 1)] = number;
	watch.count = at + 1;
	return true;
}

/*
 * Finds all that are watched, level by level: for each level down to the lowest of an assigned
 * one, a look at every place in use. In a system call or a callback that may sleep.
 */
static __noinline void watch_walk(void)
{
	u32 i, level, before, used = READ_ONCE(cgroups_used);

	watch.count = 0;
	bpf_for(i, 0, used + 1) {
		cgroup_node_at(i)->open = 0;
		cgroup_node_at(i)->watched = 0;
		cgroup_node_at(i)->adds = 0;
	}
	bpf_for(i, 1, used + 1) {
		cgroup_open_above(i);
	}
	if (cgroup_nodes[0].open) {
		cgroup_nodes[0].watched = 1;
		watched[0] = 0;
		watch.count = 1;
	}
	bpf_for(level, 1, CGROUP_LEVELS) {
		before = watch.count;
		bpf_for(i, 1, used + 1) {
			cgroup_watch(i, level);
		}
		if (watch.count == before)
			break;
	}
	__sync_fetch_and_add(&watch.walks, 1);
}

/*
 * The hierarchy, or an assignment, has changed: tasks are to be placed anew. A caller that finds another
 * CPU at the walk sets `wanted`, and that CPU walks again. A sweep at the same moment may count a cgroup twice
 * or not at all; the next one does not.
 */
static __noinline void watch_again(void)
{
	u32 i;

	__sync_lock_test_and_set(&watch.wanted, 1);
	bpf_for(i, 0, WATCH_TRIES) {
		if (!READ_ONCE(watch.wanted) || __sync_lock_test_and_set(&watch.walking, 1))
			break;
		__sync_lock_test_and_set(&watch.wanted, 0);
		watch_walk();
		__sync_lock_test_and_set(&watch.walking, 0);
		__sync_fetch_and_add(&assign_seq, 1);
	}
}

/*
 * The kernel tells of a cgroup: of those above it first. It may have tasks, if the cpu controller is
 * enabled there only now; they know the one above it as their own.
 */
static __noinline void cgroup_comes(struct cgroup *cgrp, u32 weight)
{
	s32 level = cgrp->level;
	u64 id = cgrp->kn->id;
	struct cgroup_node *n;
	u32 number, parent;

	if (level <= 0)
		return;
	number = cgroup_number(id);
	if (!number)
		number = cgroup_make(id);
	if (!number)
		return;
	parent = cgroup_number(ancestor_id(cgrp, level - 1));
	n = cgroup_node_at(number);
	n->untold = 0;
	n->weight = weight;
	n->parent = parent;
	n->level = cgroup_node_at(parent)->level + 1;
	if (n->assigned || cgroup_node_at(parent)->open)
		watch_again();
	else if (cgroup_has_tasks(cgrp))
		__sync_fetch_and_add(&assign_seq, 1);
}

/*
 * A cgroup goes, or has no cpu controller any more. If it is assigned user space has yet to
 * take that back.
 */
static __noinline void cgroup_goes(struct cgroup *cgrp)
{
	u32 number = cgroup_number(cgrp->kn->id);
	struct cgroup_node *n = cgroup_node_at(number);
	bool was_watched = n->watched;

	if (!number)
		return;
	if (n->assigned) {
		n->untold = 1;
		n->parent = 0;
		n->level = 1;
	} else {
		cgroup_free(number);
	}
	if (was_watched)
		watch_again();
	else if (cgroup_has_tasks(cgrp))
		__sync_fetch_and_add(&assign_seq, 1);
}

/*
 * Assigns a cgroup to an account, to BACK_TO_ROOT, or to none (0); what it was assigned to, or an error. By
 * one caller at a time.
 */
static __noinline int cgroup_assign(u64 id, u32 account)
{
	u32 before, number = cgroup_number(id);
	struct cgroup_node *n;

	if (account && cgroups_assigned >= ASSIGNED_MAX && !cgroup_node_at(number)->assigned)
		return -E2BIG;
	if (!number && account) {
		number = cgroup_make(id);
		if (!number)
			return -E2BIG;
		cgroup_node_at(number)->untold = 1;
	}
	n = cgroup_node_at(number);
	before = n->assigned;
	if (!number || (!account && !before))
		return -ENOENT;
	n->assigned = account;
	/* The cgroup went at this moment: its place is free, or another's. */
	if (READ_ONCE(n->id) != id) {
		n->assigned = 0;
		return -ENOENT;
	}
	cgroups_assigned += !before;
	cgroups_assigned -= !account;
	if (!account && n->untold)
		cgroup_free(number);
	watch_again();
	return before;
}

#endif
