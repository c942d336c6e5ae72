/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wait: how long tasks wait for a CPU, under whatever scheduler is in force; and, if that is asked
 * for, how long they run each time that they get one.
 *
 * A wait begins when a task becomes runnable (it wakes, it is new, or it is
 * preempted) and ends when it runs. Its length goes into a histogram for the
 * whole system, into one for each cgroup of a list that the task is in or
 * below, and into one for each process or name of another list. A task that was
 * already waiting when tracing began is not counted. Runs are counted in the same way, those at whose end
 * the task slept and those at whose end it could have gone on apart.
 *
 * Everything is written per CPU; the one look-up per event is the task's storage.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <wait_histogram.bpf.h>

char _license[] SEC("license") = "GPL";

/* Which cgroups and which tasks are asked for; set by user space before it loads. */
const volatile u32 nr_cgroups;
const volatile u64 cgroup_ids[WAIT_CGROUPS_MAX];
const volatile u32 nr_tasks;
const volatile struct wait_tasks tasks[WAIT_TASKS_MAX];
const volatile u32 counts_runs;

/* Raised by user space to begin anew: what was runnable before is not counted. */
u64 epoch;

struct waiting {
	u64 since_ns; /* 0: not waiting */
	u64 epoch;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waiting);
} waiting SEC(".maps");

/*
 * Index 0 is the whole system, 1 and on are the cgroups asked for, then the tasks: waits first, then
 * the runs that ended in sleep, then those that did not. User space leaves the runs out if it wants none.
 */
#define FIRST_TASKS (WAIT_CGROUPS_MAX + 1)
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3 * WAIT_PLACES);
	__type(key, u32);
	__type(value, struct wait_histogram);
} histograms SEC(".maps");

/* Since when the present task runs on each CPU, and in which epoch. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct waiting);
} running SEC(".maps");

/*
 * A global function, which the verifier reads once, by itself: part of the loop below,
 * it would be read with every bucket for every cgroup.
 */
__attribute__((noinline)) int record(u32 index, u64 ns)
{
	struct wait_histogram *h = bpf_map_lookup_elem(&histograms, &index);

	if (h)
		wait_histogram_add(h, ns);
	return 0;
}

/*
 * Counts it for that cgroup, if it is of the list. Global as well, or the verifier would read the list once for
 * each level. Nothing is carried from one comparison to the next, or it would follow every combination of matches.
 */
__attribute__((noinline)) int record_in(u64 id, u32 first, u64 ns)
{
	u32 i;

	for (i = 0; i < WAIT_CGROUPS_MAX && i < nr_cgroups; i++)
		if (cgroup_ids[i] == id)
			record(first + i + 1, ns);
	return 0;
}

/* For each cgroup of the list that the task is in or below. */
static __always_inline void record_in_cgroups(struct task_struct *p, u32 first, u64 ns)
{
	struct cgroup *cgrp = p->cgroups->dfl_cgrp, *ancestor;
	int level;

	for (level = 0; level < WAIT_DEPTH_MAX && level <= cgrp->level; level++) {
		if (bpf_core_read(&ancestor, sizeof(ancestor), &cgrp->ancestors[level]))
			break;
		record_in(BPF_CORE_READ(ancestor, kn, id), first, ns);
	}
}

/* What a task is called, as the list has it: nothing behind the first NUL. */
struct name {
	u64 part[WAIT_NAME_BYTES / 8];
};

static __always_inline void read_name(struct name *name, struct task_struct *p)
{
	name->part[0] = name->part[1] = 0;
	bpf_core_read_str(name, sizeof(*name), &p->comm);
}

static __always_inline bool is_called(const volatile struct wait_tasks *asked, struct name *name)
{
	return asked->name[0] == name->part[0] && asked->name[1] == name->part[1];
}

/* For each entry of the list of tasks that means this one. */
static __always_inline void record_in_tasks(struct task_struct *p, u32 first, u64 ns)
{
	struct name own, leader;
	u32 i, tgid = p->tgid;

	read_name(&own, p);
	read_name(&leader, BPF_CORE_READ(p, group_leader));
	for (i = 0; i < WAIT_TASKS_MAX && i < nr_tasks; i++) {
		const volatile struct wait_tasks *asked = &tasks[i];

		if (asked->tgid ? asked->tgid == tgid : is_called(asked, &own) || is_called(asked, &leader))
			record(first + FIRST_TASKS + i, ns);
	}
}

/* Everywhere where the task belongs, from that index on. */
static __always_inline void record_all(struct task_struct *p, u32 first, u64 ns)
{
	record(first, ns);
	if (nr_cgroups)
		record_in_cgroups(p, first, ns);
	if (nr_tasks)
		record_in_tasks(p, first, ns);
}

static __always_inline void begin_wait(struct task_struct *p, u64 now_ns)
{
	struct waiting *w = bpf_task_storage_get(&waiting, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!w)
		return;
	w->since_ns = now_ns;
	w->epoch = epoch;
}

static __always_inline void end_wait(struct task_struct *p, u64 now_ns)
{
	struct waiting *w = bpf_task_storage_get(&waiting, p, 0, 0);
	u64 wait_ns;

	if (!w || !w->since_ns)
		return;
	wait_ns = now_ns - w->since_ns;
	w->since_ns = 0;
	/* Clocks of two CPUs may differ by a little: then it waited for nothing. */
	if (w->epoch != epoch || (s64)wait_ns < 0)
		return;
	record_all(p, 0, wait_ns);
}

/* The run of @prev on this CPU is over, and the next one begins. */
static __always_inline void end_run(struct task_struct *prev, bool sleeps, u64 now_ns)
{
	u32 here = 0;
	struct waiting *r = bpf_map_lookup_elem(&running, &here);
	u64 since_ns;

	if (!r)
		return;
	since_ns = r->epoch == epoch ? r->since_ns : 0;
	r->since_ns = now_ns;
	r->epoch = epoch;
	if (since_ns && prev->pid)
		record_all(prev, sleeps ? WAIT_PLACES : 2 * WAIT_PLACES, now_ns - since_ns);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(wait_wakeup, struct task_struct *p)
{
	begin_wait(p, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(wait_wakeup_new, struct task_struct *p)
{
	begin_wait(p, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(wait_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (counts_runs)
		end_run(prev, !preempt && prev_state, now_ns);
	/*
	 * Still runnable, and so waiting again. A task that was preempted on its
	 * way to sleep is runnable too, whatever its state says.
	 */
	if ((preempt || !prev_state) && prev->pid)
		begin_wait(prev, now_ns);
	if (next->pid)
		end_wait(next, now_ns);
	return 0;
}
