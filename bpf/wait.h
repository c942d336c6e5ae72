/* SPDX-License-Identifier: GPL-2.0-only */
/* What the wait tracer shares with user space. */
#ifndef METASCHED_WAIT_H
#define METASCHED_WAIT_H

/* Cgroups that can be told apart in one tracing. */
#define WAIT_CGROUPS_MAX 16
/* How deep a cgroup may lie: deeper than systemd and containers nest. */
#define WAIT_DEPTH_MAX 12
/* Bucket i counts waits of 2^i up to 2^(i+1) ns; a u64 has no more. */
#define WAIT_BUCKETS 64

struct wait_histogram {
	u64 buckets[WAIT_BUCKETS];
	u64 count;
	u64 sum_ns;
	u64 max_ns;
};

_Static_assert(sizeof(struct wait_histogram) == 536, "read word by word in user space");

#endif
