/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counting a wait. Only one CPU writes to a histogram: no atomics.
 */
#ifndef METASCHED_WAIT_HISTOGRAM_BPF_H
#define METASCHED_WAIT_HISTOGRAM_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <wait.h>

/* Where a wait is counted: four buckets for each power of two, the longest in the last. */
static __always_inline u32 wait_bucket(u64 wait_ns)
{
	u32 log2, bucket;

	if (wait_ns < WAIT_STEPS)
		return wait_ns;
	/* Without branches, each of which the verifier would follow twice. */
	log2 = 63 - __builtin_clzll(wait_ns);
	bucket = (log2 - 1) * WAIT_STEPS + ((wait_ns >> (log2 - 2)) & (WAIT_STEPS - 1));
	return bucket < WAIT_BUCKETS ? bucket : WAIT_BUCKETS - 1;
}

static __always_inline void wait_histogram_add(struct wait_histogram *h, u64 wait_ns)
{
	u32 bucket = wait_bucket(wait_ns);

	/* The compiler knows that this holds; the verifier has to see it. */
	barrier_var(bucket);
	if (bucket < WAIT_BUCKETS)
		h->buckets[bucket]++;
	h->sum_ns += wait_ns;
	if (wait_ns > h->max_ns)
		h->max_ns = wait_ns;
}

#endif
