// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: makes the calls that no policy in the tree makes yet, and gives up
 * where an answer is wrong.
 */
#include "fault.h"

#define TRY(condition)                                                               \
	do {                                                                         \
		if (!(condition))                                                    \
			scx_bpf_error_bstr(#condition, NULL, 0);                     \
	} while (0)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, s32);
	__type(value, u64);
} enqueued_at SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} enqueues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} marks SEC(".maps");

/* Sum of what was counted per CPU; read by the test. */
u64 enqueues_seen;

static s32 every_call_init(void)
{
	TRY(scx_bpf_nr_cpu_ids() == 2);
	TRY(scx_bpf_create_dsq(QUEUE, -1) == 0);
	TRY(scx_bpf_create_dsq(QUEUE, -1) == -EEXIST);
	TRY(scx_bpf_create_dsq(SCX_DSQ_LOCAL, -1) == -EINVAL);
	TRY(scx_bpf_dsq_nr_queued(QUEUE) == 0);
	TRY(scx_bpf_create_dsq(0x99, -1) == 0);
	scx_bpf_destroy_dsq(0x99);
	TRY(scx_bpf_dsq_nr_queued(0x99) == -ENOENT);
	TRY(!scx_bpf_dsq_peek(QUEUE));
	return 0;
}

/* The default search, spelt out. */
static s32 every_call_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = prev_cpu;

	TRY(wake_flags & (SCX_WAKE_TTWU | SCX_WAKE_FORK));
	if (!scx_bpf_test_and_clear_cpu_idle(prev_cpu)) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0)
			return scx_bpf_pick_any_cpu(p->cpus_ptr, 0);
	}
	TRY(bpf_cpumask_test_cpu(cpu, p->cpus_ptr));
	TRY(bpf_cpumask_subset(p->cpus_ptr, p->cpus_ptr));
	TRY(scx_bpf_cpu_curr(cpu)->flags & PF_IDLE && !scx_bpf_cpu_curr(cpu)->pid);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, SLICE_NS, 0);
	return cpu;
}

static void every_call_enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 now = bpf_ktime_get_ns(), *at, *count, *mark;
	u32 zero = 0;
	s32 pid = p->pid;

	TRY(now == scx_bpf_now());
	TRY(bpf_task_from_pid(pid) == p);
	TRY(!bpf_task_from_pid(pid + 1000));
	bpf_task_release(bpf_task_acquire(p));

	TRY(bpf_map_update_elem(&enqueued_at, &pid, &now, BPF_ANY) == 0);
	at = bpf_map_lookup_elem(&enqueued_at, &pid);
	TRY(at && *at == now);
	TRY(bpf_map_delete_elem(&enqueued_at, &pid) == 0);
	TRY(!bpf_map_lookup_elem(&enqueued_at, &pid));
	/* Deleted, and still there for whoever looks. */
	TRY(*at == now);

	count = bpf_map_lookup_elem(&enqueues, &zero);
	(*count)++;
	enqueues_seen = *(u64 *)bpf_map_lookup_percpu_elem(&enqueues, &zero, 0) +
			*(u64 *)bpf_map_lookup_percpu_elem(&enqueues, &zero, 1);

	TRY(!bpf_task_storage_get(&marks, p, 0, 0));
	mark = bpf_task_storage_get(&marks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	TRY(mark && *mark == 0);
	*mark = bpf_get_prandom_u32();
	TRY(bpf_task_storage_delete(&marks, p) == 0);

	/* The newest goes first, and at once: where it may run nothing else is kept. */
	if (p->scx.weight > 1000) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, SCX_ENQ_PREEMPT);
		return;
	}
	honest_enqueue(p, enq_flags);
}

static void every_call_dispatch(s32 cpu, struct task_struct *prev)
{
	struct task_struct *first = scx_bpf_dsq_peek(QUEUE);

	TRY(bpf_get_smp_processor_id() == cpu);
	TRY(!first == !scx_bpf_dsq_nr_queued(QUEUE));
	TRY(!prev || scx_bpf_cpu_curr(cpu) == prev);
	honest_dispatch(cpu, prev);
}

struct sched_ext_ops every_call = {
	HONEST,
	.init = every_call_init,
	.select_cpu = every_call_select_cpu,
	.enqueue = every_call_enqueue,
	.dispatch = every_call_dispatch,
};
