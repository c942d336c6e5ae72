/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAIR_OPTIONS_H
#define FAIR_OPTIONS_H

#define fair_options(OPTION)                                                                       \
	OPTION(fair, slice_ns, "ns", 0, 100000, 1000000000,                                        \
	       "run time that a task asks for at once; less means less waiting and more context switches; 0: as in the kernel's class, 0.7 ms on one CPU and as much more from 2, 4 and 8 on") \
	OPTION(fair, min_granularity_ns, "ns", 100000000, 0, 100000000,                            \
	       "how long a task that has had no more than its part keeps its CPU from one that wakes, its request at most; what cpu.idle and SCHED_IDLE run gives way at once")

#define fair_counters(COUNTER)                                                                     \
	COUNTER(fair, direct, "wake-ups that went straight to an idle CPU")                        \
	COUNTER(fair, queued, "tasks put into the queue of a cache by their deadline")             \
	COUNTER(fair, kept, "tasks that went on since their deadline was the earliest, or nobody waited") \
	COUNTER(fair, preempted, "CPUs that a task which woke has had choose anew")                \
	COUNTER(fair, passed_over, "times that the earliest deadline was not yet eligible, and a later one ran") \
	COUNTER(fair, early, "times that nobody was eligible of those looked at, and the earliest deadline ran") \
	COUNTER(fair, stolen, "tasks that a CPU with nothing to do took from another cache")       \
	COUNTER(fair, balanced, "tasks taken from a cache that had more to do for each CPU")       \
	COUNTER(fair, rescued, "tasks that ran before their turn since they had waited for 5 s")

#endif
