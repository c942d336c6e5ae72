/* SPDX-License-Identifier: GPL-2.0-only */
/* The engine is the timer: src/metasched/turns.rs calls sim_turn() when it would expire. */
#ifndef METASCHED_TURN_TIMER_BPF_H
#define METASCHED_TURN_TIMER_BPF_H

#include <vmlinux.h>

static void turn_over(void);

/* When it expires next. */
u64 sim_turn_due_ns;

static inline int turn_timer_make(void)
{
	return 0;
}

static inline void turn_timer_set(u64 at_ns)
{
	sim_turn_due_ns = at_ns;
}

int sim_turn(void)
{
	turn_over();
	return 0;
}

#endif
