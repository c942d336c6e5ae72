/* SPDX-License-Identifier: GPL-2.0-only */
/* The engine is the timer: src/metasched.rs calls sim_sweep() when it would expire. */
#ifndef METASCHED_TIMER_BPF_H
#define METASCHED_TIMER_BPF_H

#include <sweep.bpf.h>

static bool sweep_timer_armed;

static inline int sweep_timer_make(void)
{
	return 0;
}

static inline void sweep_timer_start(void)
{
	sweep_timer_armed = true;
}

int sim_sweep(void)
{
	if (sweep_timer_armed) {
		sweep();
		sweep_timer_armed = root_word & ROOT_SWEPT;
	}
	return 0;
}

#endif
