/* SPDX-License-Identifier: GPL-2.0-only */
/* What scheduling costs, as overhead.bpf.c keeps it for user space. */
#ifndef METASCHED_OVERHEAD_H
#define METASCHED_OVERHEAD_H

#include <wait.h>

/* Depths of groups that are told apart, from 0 on; what is deeper counts as the last. */
#define OVERHEAD_DEPTHS_MAX 16
/* Those, and the idle task. */
#define OVERHEAD_ROWS_MAX (OVERHEAD_DEPTHS_MAX + 1)
/* How often it is tried what a program takes. */
#define OVERHEAD_TRIES_MAX 64

/* What the scheduler does outside schedule(). */
enum overhead_part {
	OVERHEAD_WAKE_UP, /* of a task, a new one among them */
	OVERHEAD_REMOTE_WAKE_UP, /* the rest of it, on the CPU that the task is to run on */
	OVERHEAD_TICK,
	OVERHEAD_BALANCE, /* at ticks, between CPUs */
	OVERHEAD_TRIED, /* a function that does nothing: what the programs around it take */
};

/*
 * Where it is counted: for each row the calls of schedule() that ended in another task, by that
 * one; then those that did not, by the task that went on; then the parts.
 */
#define OVERHEAD_STAYED OVERHEAD_ROWS_MAX
#define OVERHEAD_PARTS (2 * OVERHEAD_ROWS_MAX)
#define OVERHEAD_PLACES (OVERHEAD_PARTS + OVERHEAD_TRIED + 1)

/* What one CPU is at. */
struct overhead_cpu {
	u64 clock_ns; /* as it was read last */
	u64 nr_dropped; /* calls of schedule() whose end was not seen */
	u32 open; /* what is measured now, see overhead.bpf.c; 0: nothing */
	u32 nested; /* how many that are measured otherwise were begun in it */
};

/* What a program takes, from its own reading of the clock to that of the next one. */
struct overhead_tries {
	u64 nr;
	u64 ns[OVERHEAD_TRIES_MAX];
};

#endif
