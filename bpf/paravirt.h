/* SPDX-License-Identifier: GPL-2.0-only */
/* What paravirt.bpf.c keeps of threads and CPUs, for user space. */
#ifndef METASCHED_PARAVIRT_SLOTS_H
#define METASCHED_PARAVIRT_SLOTS_H

/* Threads that are watched at a time: 16 bytes of the kernel's for each, beside its slot of 64. */
#define PARAVIRT_THREADS_MAX 32768

/* What a thread or a CPU does. Of a thread waits and runs are counted, of a CPU idleness. */
enum paravirt_state {
	PARAVIRT_UNKNOWN, /* nothing is known of it yet */
	PARAVIRT_COUNTED, /* the thread waits for a CPU, or the CPU is idle */
	PARAVIRT_RUNNING, /* it runs, or has something to run */
	PARAVIRT_BLOCKED, /* the thread waits for something else */
	PARAVIRT_GONE, /* the thread has ended */
};

/* The lowest bits of a word are its state. */
#define PARAVIRT_STATE_BITS 3

/*
 * State and time are one word: it is written and read at once, and nobody sees one of them without the
 * other. Above the state's bits there is a signed time in ns: how long was counted so far. While it is being
 * counted it is that time less the moment since when, of CLOCK_MONOTONIC: whoever adds the
 * present moment has what was counted until now.
 */
struct paravirt_slot {
	u64 word;
	/* Of a thread: how long it ran, as such a word of its own. It is PARAVIRT_COUNTED while the thread runs. */
	u64 ran;
	u64 unused[6]; /* a cache line of its own */
};

/* Threads of whose birth user space has not yet heard. More than that are found as it looks at all. */
#define PARAVIRT_BORN_MAX 256

/* A thread or process that was born, and the watched thread that made it. */
struct paravirt_born {
	s32 parent;
	s32 tid;
};

/* Which thread is meant, and its slot. */
struct paravirt_args {
	s32 tid;
	u32 slot;
};

#endif
