/* SPDX-License-Identifier: GPL-2.0-only */
/* What is known of a process that is followed, as follow.bpf.c keeps it for user space. */
#ifndef METASCHED_FOLLOW_H
#define METASCHED_FOLLOW_H

#include <wait.h>

/* Processes that are followed, those that have ended too. A build of some thousand files fits. */
#define FOLLOW_PROCESSES_MAX 8192
/* Pairs of a process and the name of who ran in its place. */
#define FOLLOW_OTHERS_MAX 32768
/* Of so many CPUs it is known which ones a process ran on. */
#define FOLLOW_CPUS_MAX 1024

/* All of a process's threads together. */
struct follow_process {
	u32 tgid;
	u32 parent; /* who forked it; 0 for those that were there */
	char name[WAIT_NAME_BYTES];
	u64 ran_ns; /* of runs that have ended */
	u64 runs; /* how often a thread began to run */
	u64 preemptions; /* how often one had to stop, and could have gone on */
	u64 moves; /* how often one began on another CPU than before */
	u64 cpus[FOLLOW_CPUS_MAX / 64];
	struct wait_histogram waits;
};

/* Who had the CPU that a waiting thread got in the end. */
struct follow_other_key {
	u32 tgid; /* of the process that waited */
	u32 unused;
	char name[WAIT_NAME_BYTES]; /* of the thread that ran; empty for an idle CPU */
};

struct follow_other {
	u64 waits; /* that ended when this one stopped */
	u64 wait_ns; /* the part of these in which it ran */
	u64 preemptions; /* how often it took the CPU from a thread of the process */
};

#endif
