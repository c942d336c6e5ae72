/* SPDX-License-Identifier: GPL-2.0-only */
/* Histograms of run-queue waits, as BPF programs share them with user space. */
#ifndef METASCHED_WAIT_H
#define METASCHED_WAIT_H

/* Cgroups that can be told apart in one tracing. */
#define WAIT_CGROUPS_MAX 16
/* And as many processes and names of programs. */
#define WAIT_TASKS_MAX 16
/* Those, and the whole system. */
#define WAIT_PLACES (WAIT_CGROUPS_MAX + WAIT_TASKS_MAX + 1)
/* The kernel's TASK_COMM_LEN: 15 characters and a NUL. */
#define WAIT_NAME_BYTES 16
/* How deep a cgroup may lie: deeper than systemd and containers nest. */
#define WAIT_DEPTH_MAX 12
/*
 * Buckets for each power of two, all as wide: a wait is known to within a quarter, and
 * the middle of its bucket is off by an eighth at most. Below that each ns has its own.
 */
#define WAIT_STEPS 4
/* Up to 2^36 ns, 69 s: beyond what the kernel's watchdog allows. */
#define WAIT_BUCKETS 140

struct wait_histogram {
	u64 buckets[WAIT_BUCKETS]; /* see wait_bucket() */
	u64 sum_ns;
	u64 max_ns;
};

/* Which tasks are asked for: the threads of a process, or those of a name. */
struct wait_tasks {
	u32 tgid; /* 0: those of the name */
	u32 unused;
	/* A thread's own or its process's, padded with NULs and read as two numbers. */
	u64 name[WAIT_NAME_BYTES / 8];
};

#endif
