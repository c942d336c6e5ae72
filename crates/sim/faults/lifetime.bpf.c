// SPDX-License-Identifier: GPL-2.0-only
/* Values of maps that are used after they were deleted, or that are not there. */
#include "fault.h"

struct wide {
	u64 words[1024];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, struct wide);
} wide_ones SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} of_tasks SEC(".maps");

/* The verifier lets no policy do this: what it keeps it looks up anew each time. */
static u64 *kept;
static u64 zero;

static void insert(struct task_struct *p, u64 more_ns, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS + more_ns, enq_flags);
}

/* Until the callback is over a deleted value may be read. */
static void looks_before_enqueue(struct task_struct *p, u64 enq_flags)
{
	u32 key = 3;
	u64 *number;

	bpf_map_update_elem(&numbers, &key, &zero, BPF_ANY);
	number = bpf_map_lookup_elem(&numbers, &key);
	if (!number)
		return;
	bpf_map_delete_elem(&numbers, &key);
	insert(p, *number, enq_flags);
}

static void keeps_number_enqueue(struct task_struct *p, u64 enq_flags)
{
	u32 key = 3;

	if (!kept) {
		bpf_map_update_elem(&numbers, &key, &zero, BPF_ANY);
		kept = bpf_map_lookup_elem(&numbers, &key);
		bpf_map_delete_elem(&numbers, &key);
	}
	insert(p, *kept, enq_flags);
}

/* Too large for a page. */
static void keeps_wide_enqueue(struct task_struct *p, u64 enq_flags)
{
	static struct wide wide;
	u32 key = 3;

	if (!kept) {
		bpf_map_update_elem(&wide_ones, &key, &wide, BPF_ANY);
		kept = bpf_map_lookup_elem(&wide_ones, &key);
		bpf_map_delete_elem(&wide_ones, &key);
	}
	*kept = 5;
	insert(p, 0, enq_flags);
}

static void keeps_storage_exit_task(struct task_struct *p, struct scx_exit_task_args *args)
{
	kept = bpf_task_storage_get(&of_tasks, p, 0, 0);
}

static void keeps_storage_enqueue(struct task_struct *p, u64 enq_flags)
{
	bpf_task_storage_get(&of_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	insert(p, kept ? *kept : 0, enq_flags);
}

static void deletes_storage_enqueue(struct task_struct *p, u64 enq_flags)
{
	if (!kept) {
		kept = bpf_task_storage_get(&of_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		bpf_task_storage_delete(&of_tasks, p);
	}
	insert(p, *kept, enq_flags);
}

static void misses_enqueue(struct task_struct *p, u64 enq_flags)
{
	u32 key = 4;
	u64 *number = bpf_map_lookup_elem(&numbers, &key);

	insert(p, *number, enq_flags);
}

struct sched_ext_ops looks_before = { HONEST, .enqueue = looks_before_enqueue };
struct sched_ext_ops keeps_number = { HONEST, .enqueue = keeps_number_enqueue };
struct sched_ext_ops keeps_wide = { HONEST, .enqueue = keeps_wide_enqueue };
struct sched_ext_ops keeps_storage = {
	HONEST,
	.enqueue = keeps_storage_enqueue,
	.exit_task = keeps_storage_exit_task,
};
struct sched_ext_ops deletes_storage = { HONEST, .enqueue = deletes_storage_enqueue };
struct sched_ext_ops misses = { HONEST, .enqueue = misses_enqueue };
