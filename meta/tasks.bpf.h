/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 remembers about tasks and CPUs. Nothing here is touched while a
 * single lane of a policy without task state is in force.
 */
#ifndef METASCHED_TASKS_BPF_H
#define METASCHED_TASKS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <lane.h>

/* A task's lane, cached when it is enqueued. Stale once the lane is freed. */
struct task_ctx {
	u64 generation; /* of its lane; 0: none */
	u32 slot;
	/* Its application and its limit, as of that cgroup and assign_seq; see apps.bpf.h. */
	u32 app;
	u32 limit;
	u32 pad;
	u64 cgroup;
	u64 placed_seq; /* 0: never looked up */
	/* What the kernel's books said when it began to wait, see waits.bpf.h. */
	u64 wait_arrivals;
	u64 wait_from_ns;
	struct lane_task policy; /* its policy's own */
};

/* The task that runs on a CPU, as far as level 1 measures it. */
struct cpu_ctx {
	u64 task; /* the task's address, to tell whether this is about it; 0: nobody */
	u64 episode; /* the watch_episode in which it was written */
	u64 generation; /* of its lane */
	u64 slot;
	/* The task's cgroup, and assign_seq, when it started to run. */
	u64 cgroup;
	u64 placed_seq;
	u64 since_ns; /* when it started to run, while applications have lanes */
	u64 ran_from_ns; /* sum_exec_runtime when it started to run */
	u64 charged_from_ns; /* sum_exec_runtime up to which its lane is charged, but for */
	u64 uncharged_ns; /* see CHARGE_NS */
	/* The task whose cgroup has a limit, which may be known when its lane is not. */
	u64 limited_task;
	u64 limit;
	u64 limited_from_ns; /* sum_exec_runtime up to which the limit is charged */
	u64 rotated_ns; /* when a lane was last served out of its turn */
	u64 preempted; /* a task that woke has had this CPU choose anew; written by any CPU */
	u64 turn; /* the slot that was served last out of its turn */
	u64 looks; /* its timer is set, see slice_look() */
	u64 kthread_chosen; /* the last choice was a kernel thread of KTHREADS_DSQ */
	/* Of the task, until its wait is counted. */
	u64 wait_arrivals;
	u64 wait_from_ns;
	struct lane_task spare; /* state for a task that memory could not be had for */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

/* What is remembered about @p, or NULL. */
static __always_inline struct task_ctx *task_ctx_find(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

/* The same, made if there is none yet; NULL if there is no memory. */
static __always_inline struct task_ctx *task_ctx_make(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* This CPU's record; never NULL in fact. */
static __always_inline struct cpu_ctx *cpu_ctx_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_ctxs, &zero);
}

/* The record of a CPU, to look at; NULL if there is no such CPU. */
static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	u32 zero = 0;

	return bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, cpu);
}

#endif
