/* SPDX-License-Identifier: GPL-2.0-only */
/* The engine is the timers. */
#ifndef METASCHED_SLICE_TIMER_BPF_H
#define METASCHED_SLICE_TIMER_BPF_H

#include <vmlinux.h>
#include <seam.h>

static bool slice_look(s32 cpu);

static inline int slice_timers_make(void)
{
	return 0;
}

static int slice_due(u64 cpu)
{
	if (slice_look(cpu))
		seam_start_timer(SLICE_LOOK_NS, slice_due);
	return 0;
}

static inline void slice_timer_start(void)
{
	seam_start_timer(SLICE_LOOK_NS, slice_due);
}

#endif
