/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that a CPU leaves behind when it goes off line.
 *
 * A task that may run on that CPU only waits in its lane's queue, which no other
 * CPU may take it from, and the CPU itself asks for nothing more: the kernel waits
 * for the task to be moved away, the task for a CPU, until the watchdog ends the
 * scheduler. Put in the CPU's local queue, it is run once more, pushed away, and
 * its affinity widened.
 *
 * Seen on 7.0.13; 7.2 does the same by itself, where this finds nothing to do. It
 * can go when 7.0 is no longer met.
 */
#ifndef METASCHED_HOTPLUG_BPF_H
#define METASCHED_HOTPLUG_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __weak __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __weak __ksym;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			     u64 enq_flags) __weak __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __weak __ksym;
extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

/* Moves the tasks of @dsq_id that are on @cpu to its local queue. */
static __noinline void leave_cpu(u64 dsq_id, s32 cpu)
{
	struct task_struct *p;

	/* Callbacks about cgroups may sleep, and so hold none of their own. */
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | (u32)cpu, 0);
	}
	bpf_rcu_read_unlock();
}

#endif
