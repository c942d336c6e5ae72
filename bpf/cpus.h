/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine as the program is told of it, and sets of CPUs that a policy keeps, such as those
 * that it likes tasks to be on. CPUs may be put in and taken out by several CPUs at once.
 */
#ifndef METASCHED_CPUS_H
#define METASCHED_CPUS_H

/* The largest machine: one CPU more than the highest number. */
#define CPUS_MAX 1024

struct cpus {
	u64 words[CPUS_MAX / 64];
};

/* See topology.bpf.h. */
struct topology {
	u32 cpus; /* one more than the highest number of a CPU */
	u32 llcs; /* last-level caches, numbered from 0 */
	u32 nodes; /* one more than the highest number of a NUMA node */
	u32 online; /* CPUs that were on line when the program was loaded */
	struct cpus possible; /* numbers may be left out between */
	u16 llc[CPUS_MAX];
	u16 node[CPUS_MAX];
	u16 sibling[CPUS_MAX]; /* the next CPU of the core, round and round */
};

static inline __attribute__((always_inline)) u64 *cpus_word(struct cpus *set, u32 cpu)
{
	return &set->words[cpu / 64 & (CPUS_MAX / 64 - 1)];
}

static inline __attribute__((always_inline)) bool cpus_has(struct cpus *set, u32 cpu)
{
	return *cpus_word(set, cpu) >> (cpu & 63) & 1;
}

/* Whether it was not in the set. */
static inline __attribute__((always_inline)) bool cpus_add(struct cpus *set, u32 cpu)
{
	return !(__sync_fetch_and_or(cpus_word(set, cpu), 1ULL << (cpu & 63)) >> (cpu & 63) & 1);
}

/* Whether it was in the set. */
static inline __attribute__((always_inline)) bool cpus_remove(struct cpus *set, u32 cpu)
{
	return __sync_fetch_and_and(cpus_word(set, cpu), ~(1ULL << (cpu & 63))) >> (cpu & 63) & 1;
}

#endif
