/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looking for an idle CPU, as several policies do it.
 */
#ifndef METASCHED_IDLE_BPF_H
#define METASCHED_IDLE_BPF_H

#include <sched.bpf.h>

/*
 * The kernel's default choice of a CPU for a task that wakes; where that CPU is
 * idle, the choice also claims it, and the task goes straight to its local
 * queue for @slice_ns, past the lane's own queues. @claimed says so.
 */
static __always_inline s32 wake_on_idle_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
					    u64 wake_flags, u64 slice_ns, bool *claimed)
{
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, claimed);

	if (*claimed)
		lane_insert(lane, p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

#endif
