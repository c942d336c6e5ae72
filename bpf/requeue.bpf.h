/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Having the tasks of a queue enqueued anew.
 *
 * The kernel does it from 7.1 on. On 7.0 each task goes to the local queue of the CPU
 * that it is on, for a short slice, and is enqueued when that is over. The second way
 * can go when 7.0 is no longer met.
 */
#ifndef METASCHED_REQUEUE_BPF_H
#define METASCHED_REQUEUE_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <hotplug.bpf.h>

extern void scx_bpf_dsq_reenq___since71(u64 dsq_id, u64 reenq_flags) __weak __ksym;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice) __weak __ksym;

/* The slice with which a task comes back where it has to run first. */
#define REQUEUE_SLICE_NS (1ULL * 1000 * 1000)

/* Within a walk through a queue: its task @p runs on the CPU that it is on, for a short slice. */
#define run_from_queue(p)                                                                          \
	({                                                                                         \
		scx_bpf_dsq_move_set_slice(&___it, REQUEUE_SLICE_NS);                              \
		scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | (u32)scx_bpf_task_cpu(p), 0);       \
	})

/* In any context, with no run queue locked. */
static __noinline void requeue_all(u64 dsq_id)
{
	struct task_struct *p;

	if (bpf_ksym_exists(scx_bpf_dsq_reenq___since71)) {
		scx_bpf_dsq_reenq___since71(dsq_id, 0);
		return;
	}
	/* As in leave_cpu(). */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		run_from_queue(p);
	}
	bpf_rcu_read_unlock();
}

#endif
