/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * overhead: what scheduling costs, under whatever scheduler is in force.
 *
 * A call of schedule() is measured from the tracepoint at its beginning to the one at its end,
 * which are on the same CPU, though mostly in two tasks; preemption passes there as well, and
 * a new task in its first steps. Beside it the functions by which the scheduler works elsewhere.
 *
 * Time is counted once: what is begun while something else is measured on this CPU belongs to that.
 * Only schedule() ends what it finds, since it may find a task on its way out of a wake-up.
 *
 * The clock is read last at a beginning and first at an end. So what is measured has in it the way out of
 * one program and into the other; user space takes that off, as it was tried before.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <wait_histogram.bpf.h>
#include <overhead.h>

char _license[] SEC("license") = "GPL";

/* What a CPU is at: nothing, schedule(), or the place of a part. */
#define NOTHING 0
#define SCHEDULE 1

/* What the programs at the beginning and at the end of schedule() take. */
struct overhead_tries entries, exits;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct overhead_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OVERHEAD_PLACES);
	__type(key, u32);
	__type(value, struct wait_histogram);
} times SEC(".maps");

static __always_inline struct overhead_cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline void count(u32 place, u64 ns)
{
	struct wait_histogram *h = bpf_map_lookup_elem(&times, &place);

	if (h)
		wait_histogram_add(h, ns);
}

/*
 * How many run queues of groups are above the task's: the level of the cgroup whose cpu controller
 * is in force for it. The group of a session (autogroup) has no cgroup, and is in the root's.
 */
static __always_inline u32 depth_of(struct task_struct *p)
{
	struct cgroup *cgrp = p->sched_task_group->css.cgroup;
	u32 depth = cgrp ? cgrp->level : 1;

	return depth < OVERHEAD_DEPTHS_MAX ? depth : OVERHEAD_DEPTHS_MAX - 1;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(schedule_begins)
{
	struct overhead_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (cpu->open == SCHEDULE)
		cpu->nr_dropped++;
	else if (cpu->open)
		count(cpu->open, bpf_ktime_get_ns() - cpu->clock_ns);
	cpu->open = SCHEDULE;
	cpu->nested = 0;
	cpu->clock_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(schedule_ends, bool is_switch)
{
	u64 now_ns = bpf_ktime_get_ns();
	struct overhead_cpu *cpu = this_cpu();
	struct task_struct *p;
	u32 row;

	/* One that had begun before we came. */
	if (!cpu || cpu->open != SCHEDULE)
		return 0;
	p = bpf_get_current_task_btf();
	row = p->pid ? depth_of(p) : OVERHEAD_DEPTHS_MAX;
	count(is_switch ? row : OVERHEAD_STAYED + row, now_ns - cpu->clock_ns);
	cpu->clock_ns = now_ns;
	cpu->open = NOTHING;
	return 0;
}

static __always_inline void try(struct overhead_tries *tries, u64 now_ns)
{
	struct overhead_cpu *cpu = this_cpu();
	u64 nr;

	if (!cpu || tries->nr >= OVERHEAD_TRIES_MAX)
		return;
	nr = __sync_fetch_and_add(&tries->nr, 1);
	barrier_var(nr);
	if (nr < OVERHEAD_TRIES_MAX)
		tries->ns[nr] = now_ns - cpu->clock_ns;
}

/* These two come behind the two above, as the second ones at their tracepoints. */
SEC("tp_btf/sched_entry_tp")
int BPF_PROG(try_schedule_begins)
{
	try(&entries, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(try_schedule_ends)
{
	try(&exits, bpf_ktime_get_ns());
	return 0;
}

/*
 * A task may be preempted in here, and in the next one. Then one call is counted as if it had begun with
 * the switch before it, or is counted twice: of millions a few, by microseconds.
 */
static __always_inline int begin(enum overhead_part part)
{
	struct overhead_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (cpu->open) {
		cpu->nested++;
		return 0;
	}
	cpu->nested = 0;
	cpu->clock_ns = bpf_ktime_get_ns();
	barrier();
	cpu->open = OVERHEAD_PARTS + part;
	return 0;
}

static __always_inline int end(void)
{
	u64 now_ns = bpf_ktime_get_ns();
	struct overhead_cpu *cpu = this_cpu();

	if (!cpu || !cpu->open)
		return 0;
	if (cpu->nested)
		cpu->nested--;
	else if (cpu->open != SCHEDULE) {
		count(cpu->open, now_ns - cpu->clock_ns);
		cpu->open = NOTHING;
	}
	return 0;
}

#define MEASURED(function, part)                                                                   \
	SEC("fentry/" #function)                                                                   \
	int function##_begins(void *context)                                                       \
	{                                                                                          \
		return begin(part);                                                                \
	}                                                                                          \
	SEC("fexit/" #function)                                                                    \
	int function##_ends(void *context)                                                         \
	{                                                                                          \
		return end();                                                                      \
	}

MEASURED(try_to_wake_up, OVERHEAD_WAKE_UP)
MEASURED(wake_up_new_task, OVERHEAD_WAKE_UP)
MEASURED(sched_ttwu_pending, OVERHEAD_REMOTE_WAKE_UP)
MEASURED(sched_tick, OVERHEAD_TICK)
MEASURED(sched_balance_softirq, OVERHEAD_BALANCE)
/* The kernel calls it when such a program is tried, and for nothing else. */
MEASURED(bpf_fentry_test1, OVERHEAD_TRIED)
