// SPDX-License-Identifier: GPL-2.0-only
/* What C leaves undefined and BPF, or its verifier, does not. */
#include "fault.h"

/* Not constants, so that the compiler cannot know. */
static volatile u64 zero;
static volatile u32 sixty_four = 64;
static volatile u32 five = 5;
static struct task_struct *volatile nobody;

static void divides_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS / zero, enq_flags);
}

static void takes_remainder_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS % zero, enq_flags);
}

static void shifts_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 1ULL << sixty_four, enq_flags);
}

static void overruns_enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 slices[4] = { 1, 2, 3, 4 };

	scx_bpf_dsq_insert(p, QUEUE, slices[five], enq_flags);
}

static void dereferences_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, nobody->scx.slice, enq_flags);
}

static void gives_up_enqueue(struct task_struct *p, u64 enq_flags)
{
	unsigned long long args[] = { (unsigned long)p->comm, 42, 0xbeef };

	scx_bpf_error_bstr("%s has %d of %llx, 100%%", args, sizeof(args));
}

struct sched_ext_ops divides_by_zero = { HONEST, .enqueue = divides_enqueue };
struct sched_ext_ops takes_remainder_by_zero = { HONEST, .enqueue = takes_remainder_enqueue };
struct sched_ext_ops shifts_too_far = { HONEST, .enqueue = shifts_enqueue };
struct sched_ext_ops overruns_an_array = { HONEST, .enqueue = overruns_enqueue };
struct sched_ext_ops dereferences_null = { HONEST, .enqueue = dereferences_enqueue };
struct sched_ext_ops gives_up = { HONEST, .enqueue = gives_up_enqueue };
