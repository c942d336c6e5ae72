// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: tasks that only the CPU may run which goes off line are sent to it once more.
 * One that leaves them behind, and one that kicks another CPU from one that is going.
 */
#include "fault.h"
#include <hotplug.bpf.h>

static void honest_online(s32 cpu)
{
}

static void honest_offline(s32 cpu)
{
	leave_cpu(QUEUE, cpu);
}

static void forgetful_offline(s32 cpu)
{
}

struct sched_ext_ops hotplug_honest = {
	HONEST,
	.cpu_online = honest_online,
	.cpu_offline = honest_offline,
};

struct sched_ext_ops leaves_tasks_behind = {
	HONEST,
	.cpu_online = honest_online,
	.cpu_offline = forgetful_offline,
};

static void kicking_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS, enq_flags);
	scx_bpf_kick_cpu(0, SCX_KICK_PREEMPT);
}

struct sched_ext_ops kicks_from_dying_cpu = {
	HONEST,
	.enqueue = kicking_enqueue,
	.cpu_online = honest_online,
	.cpu_offline = honest_offline,
};
