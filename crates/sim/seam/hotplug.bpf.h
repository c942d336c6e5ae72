/* SPDX-License-Identifier: GPL-2.0-only */
/* CPUs never go off line in the modelled kernel, so this is never called. */
#ifndef METASCHED_HOTPLUG_BPF_H
#define METASCHED_HOTPLUG_BPF_H

#include <vmlinux.h>

static inline void leave_cpu(u64 dsq_id, s32 cpu)
{
}

#endif
