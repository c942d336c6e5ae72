// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: tasks that only the CPU may run which goes off line are sent to it once more.
 * And one that leaves them behind.
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
