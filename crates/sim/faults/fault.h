/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tiny policies with one fault each, to prove that the checkers can fail, and a
 * few without, to prove that the model answers as the kernel does. Only
 * the tests load them. All share this honest FIFO, and replace what is faulty.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <seam.h>

/* Replacing a member of the honest policy is what these files are about. */
#pragma clang diagnostic ignored "-Winitializer-overrides"

#define QUEUE 0x10
#define SLICE_NS 10000000

static s32 honest_init(void)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

static s32 honest_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

	if (idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	return cpu;
}

static void honest_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS, enq_flags);
}

static void honest_dispatch(s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

#define HONEST                                                                       \
	.init = honest_init, .select_cpu = honest_select_cpu,                        \
	.enqueue = honest_enqueue, .dispatch = honest_dispatch
