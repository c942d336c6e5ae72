/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAIR_OPTIONS_H
#define PAIR_OPTIONS_H

#define pair_options(OPTION)                                                                       \
	OPTION(pair, pair_batch_dur_ns, "ns", 20000000, 1000000, 1000000000,                       \
	       "for how long a pair of CPUs runs tasks of one cgroup while others wait; longer means fewer drains, in which CPUs are idle, and more waiting")

#define pair_counters(COUNTER)                                                                     \
	COUNTER(pair, queued, "tasks put into the queue by the turn of their cgroup")              \
	COUNTER(pair, batches, "times that a pair began with a cgroup")                            \
	COUNTER(pair, drained, "times that a CPU stopped its partner since the time of their cgroup was over") \
	COUNTER(pair, forced_idle, "times that a CPU found tasks, and none of the cgroup that its partner runs") \
	COUNTER(pair, evicted, "runs ended at once since the partner ran another cgroup: they began past this policy") \
	COUNTER(pair, taken_over, "times that a CPU which others had meanwhile took the pair from its partner, which ran on")

#endif
