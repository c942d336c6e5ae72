/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task's cgroup says: its application, and by that its lane, and its limit.
 *
 * A cgroup is assigned to an application, those below it inherit, the nearest
 * assigned one counts, and each application has a lane. So replacing an application's
 * lane is one write, however many cgroups it has, and a cgroup that is made below an
 * assigned one needs none.
 */
#ifndef METASCHED_APPS_BPF_H
#define METASCHED_APPS_BPF_H

#include <accounts.bpf.h>
#include <limits.bpf.h>
#include <shares.bpf.h>
#include <cgroup.bpf.h>

/* The cgroup of a task in the unified hierarchy, by its id. */
static __always_inline u64 cgroup_of(struct task_struct *p)
{
	return p->cgroups->dfl_cgrp->kn->id;
}

/*
 * Looks up what the task's cgroup and those above it say, from the root down. It calls nobody, since
 * dispatch gets here by eight calls, and the verifier of 7.0 grants no more.
 */
__weak __noinline int place_task(struct task_struct *p __arg_trusted,
				struct task_ctx *t __arg_nonnull)
{
	struct cgroup *cgrp = p->cgroups->dfl_cgrp;
	s32 at, level = cgrp->level;
	struct cgroup_node *n;
	u32 place, limit;

	t->account = ROOT_ACCOUNT;
	t->group = 0;
	t->watched = 0;
	t->limit = 0;
	bpf_for(at, 0, level + 1) {
		place = cgroup_find(ancestor_id(cgrp, at));
		n = cgroup_node_at(place);
		if (place)
			t->group = place;
		if (place && n->assigned)
			t->account = cgroup_account(n);
		if (place && n->watched)
			t->watched = place;
		limit = place ? READ_ONCE(n->limit) : 0;
		if (limit) {
			limit_at(limit)->parent = t->limit;
			t->limit = limit;
		}
	}
	return 0;
}

/*
 * Sees to it that the task's application and limit are known. They are remembered
 * until assignments or limits change or the task is in another cgroup, which is
 * compared by its id: the kernel tells of a move only where the cpu controller is
 * enabled.
 */
static __always_inline void task_placed(struct task_struct *p, struct task_ctx *t)
{
	u64 seq = READ_ONCE(assign_seq);
	u64 id = cgroup_of(p);

	if (unlikely(t->placed_seq != seq || t->cgroup != id)) {
		place_task(p, t);
		t->cgroup = id;
		t->placed_seq = seq;
	}
}

/* The lane through which a task that now wants a CPU has to come. */
static __always_inline struct meta_lane *lane_for(struct task_struct *p, struct task_ctx *t,
						  u32 root)
{
	if (!(root & ROOT_LANES))
		return lane_at(root);
	task_placed(p, t);
	return account_lane(t->account, root);
}

#endif
