// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: keeps books of who is in which cgroup, refuses to let tasks of a weight of 1
 * move, and gives up where a move comes out of the kernel's order.
 */
#include "fault.h"

struct state {
	u64 cgroup;
	u64 moving_to; /* prepared, not moved yet */
	bool queued;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct state);
} places SEC(".maps");

/* Read by the test. */
u64 prepared, moved, cancelled;

static struct state *state_of(struct task_struct *p)
{
	return bpf_task_storage_get(&places, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static void give_up(const char *callback, struct task_struct *p)
{
	unsigned long long args[] = { (unsigned long)callback, p->pid };

	scx_bpf_error_bstr("%s of task %d", args, sizeof(args));
}

static s32 moves_init_task(struct task_struct *p, struct scx_init_task_args *args)
{
	state_of(p)->cgroup = args->cgroup->kn->id;
	return 0;
}

static void moves_runnable(struct task_struct *p, u64 enq_flags)
{
	state_of(p)->queued = true;
}

static void moves_quiescent(struct task_struct *p, u64 deq_flags)
{
	state_of(p)->queued = false;
}

static s32 moves_prepare(struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct state *s = state_of(p);

	if (s->cgroup != from->kn->id || s->moving_to)
		give_up("cgroup_prep_move", p);
	if (p->scx.weight == 1)
		return -EPERM;
	prepared++;
	s->moving_to = to->kn->id;
	return 0;
}

static void moves_move(struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct state *s = state_of(p);

	if (s->cgroup != from->kn->id || s->moving_to != to->kn->id || s->queued ||
	    p->cgroups->dfl_cgrp != to)
		give_up("cgroup_move", p);
	moved++;
	s->cgroup = to->kn->id;
	s->moving_to = 0;
}

static void moves_cancel(struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct state *s = state_of(p);

	if (s->cgroup != from->kn->id || s->moving_to != to->kn->id)
		give_up("cgroup_cancel_move", p);
	cancelled++;
	s->moving_to = 0;
}

struct sched_ext_ops cgroup_moves = {
	HONEST,
	.init_task = moves_init_task,
	.runnable = moves_runnable,
	.quiescent = moves_quiescent,
	.cgroup_prep_move = moves_prepare,
	.cgroup_move = moves_move,
	.cgroup_cancel_move = moves_cancel,
};
