/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel threads that level 1 dispatches itself, see is_level1s().
 *
 * One that may run elsewhere waits in a queue where each CPU looks before it looks at lanes:
 * in its own CPU's local queue it would wait for that CPU beside others that are idle. And not
 * in the local queue of one that is idle now: whether the thread may leave its CPU (migration
 * may be disabled), and whether the other is still on line, the kernel sees when a CPU takes it;
 * an insert that is wrong about it would end us.
 */
#ifndef METASCHED_KTHREADS_BPF_H
#define METASCHED_KTHREADS_BPF_H

#include <kcalls.bpf.h>
#include <services.bpf.h>
#include <requeue.bpf.h>

/* Sweeps until nobody looks into their queue if none comes; as account.arrived. */
u32 kthreads_arrived;

static __always_inline s32 wake_kthread(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &claimed);

	if (claimed)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SHARED_SLICE_NS, 0);
	return cpu;
}

static __always_inline void enqueue_kthread(struct task_struct *p, u32 root, u64 enq_flags)
{
	if (p->nr_cpus_allowed == 1 || enq_flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL,
				   root & ROOT_LANES ? SHARED_SLICE_NS : SCX_SLICE_DFL,
				   local_enq_flags(p, enq_flags));
		return;
	}
	if (unlikely(READ_ONCE(kthreads_arrived) != ARRIVED_SWEEPS))
		__sync_lock_test_and_set(&kthreads_arrived, ARRIVED_SWEEPS);
	scx_bpf_dsq_insert(p, KTHREADS_DSQ, SHARED_SLICE_NS, enq_flags);
	tell_idle_cpu_unless_selected(p, enq_flags);
}

/*
 * Gives this CPU one of those that may run on any. After one that would go on lanes come first:
 * some compress or encrypt for seconds.
 */
static __always_inline bool serve_kthreads(struct cpu_ctx *here)
{
	here->kthread_chosen = scx_bpf_dsq_move_to_local(KTHREADS_DSQ);
	return here->kthread_chosen;
}

/* Whether some wait for any CPU. */
static __always_inline bool kthreads_queued(void)
{
	return unlikely(READ_ONCE(kthreads_arrived)) && scx_bpf_dsq_nr_queued(KTHREADS_DSQ) > 0;
}

/*
 * While no application has a lane nobody looks into their queue. A callback that began earlier
 * may put one there even so: with the sharing ends the last of the lanes that were replaced,
 * which takes one more call, after a grace period.
 */
static void kthreads_let_go(u32 root)
{
	if (!(root & ROOT_LANES) && scx_bpf_dsq_nr_queued(KTHREADS_DSQ) > 0)
		requeue_all(KTHREADS_DSQ);
}

#endif
