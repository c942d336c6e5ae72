/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which lane a task belongs to: a cgroup is assigned to an application, those
 * below it inherit, the nearest assigned one counts, and each application has a
 * lane. So replacing an application's lane is one write, however many cgroups it
 * has, and a cgroup that is made below an assigned one needs none.
 */
#ifndef METASCHED_APPS_BPF_H
#define METASCHED_APPS_BPF_H

#include <lanes.bpf.h>
#include <ancestors.bpf.h>

struct app apps[APPS_MAX];
/* Counts changes of which cgroup is assigned to what: what is older is looked up anew. */
u64 assign_seq;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ASSIGNED_MAX);
	__type(key, u64); /* cgroup id */
	__type(value, u32); /* application */
} cgroup_apps SEC(".maps");

/* The application of the nearest cgroup that is assigned, from @cgrp upwards; 0 if none is. */
static __noinline u32 app_of_cgroup(struct cgroup *cgrp)
{
	s32 up, level = cgrp->level;
	u32 *app;
	u64 id;

	bpf_for(up, 0, level + 1) {
		id = ancestor_id(cgrp, level - up);
		app = bpf_map_lookup_elem(&cgroup_apps, &id);
		if (app)
			return *app;
	}
	return 0;
}

/* The cgroup of a task in the unified hierarchy, by its id. */
static __always_inline u64 cgroup_of(struct task_struct *p)
{
	return p->cgroups->dfl_cgrp->kn->id;
}

/*
 * The application of a task. It is remembered until assignments change or the
 * task is in another cgroup, which is compared by its id: the kernel tells of a
 * move only where the cpu controller is enabled.
 */
static __always_inline u32 app_of(struct task_struct *p, struct task_ctx *t)
{
	u64 seq = READ_ONCE(assign_seq);
	u64 id = cgroup_of(p);

	if (unlikely(t->app_seq != seq || t->cgroup != id)) {
		t->app = app_of_cgroup(p->cgroups->dfl_cgrp);
		t->cgroup = id;
		t->app_seq = seq;
	}
	return t->app;
}

static __always_inline struct app *app_at(u32 app)
{
	return &apps[app & (APPS_MAX - 1)];
}

/* The lane through which a task that now wants a CPU has to come. */
static __always_inline struct meta_lane *lane_for(struct task_struct *p, struct task_ctx *t,
						  u32 root)
{
	u32 app, lane;

	if (!(root & ROOT_LANES))
		return lane_at(root);
	app = app_of(p, t);
	if (!app)
		return lane_at(root);
	lane = READ_ONCE(app_at(app)->lane);
	return lane_at(lane ? lane - 1 : root);
}

#endif
