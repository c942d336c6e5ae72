/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PV_OPTIONS_H
#define PV_OPTIONS_H

/* Those of fair come first, see bpf/fair.bpf.h. */
#define pv_options(OPTION)                                                                         \
	OPTION(pv, slice_ns, "ns", 0, 100000, 1000000000,                                          \
	       "run time that a task asks for at once; less means less waiting and more context switches; 0: as in the kernel's class, 0.7 ms on one CPU and as much more from 2, 4 and 8 on") \
	OPTION(pv, min_granularity_ns, "ns", 100000000, 0, 100000000,                              \
	       "how long a task that has had no more than its part keeps its CPU from one that wakes, its request at most; what cpu.idle and SCHED_IDLE run gives way at once") \
	OPTION(pv, gang_ns, "ns", 6000000, 0, 100000000,                                           \
	       "for how long all virtual CPUs of a machine run at once, some of which waited; more means fewer switches and longer waits of others; 0: they do not") \
	OPTION(pv, turn_ns, "ns", 500000, 0, 100000000,                                            \
	       "how long a virtual CPU runs at a time while others of its machine wait; less means that a machine which does not have all CPUs gets on faster, and more context switches; 0: a whole slice")

#define pv_counters(COUNTER)                                                                       \
	COUNTER(pv, direct, "wake-ups that went straight to an idle CPU")                          \
	COUNTER(pv, queued, "tasks put into the queue of a cache by their deadline")               \
	COUNTER(pv, kept, "tasks that went on since their deadline was the earliest, or nobody waited") \
	COUNTER(pv, preempted, "CPUs that a task which woke has had choose anew")                  \
	COUNTER(pv, passed_over, "times that the earliest deadline was not yet eligible, and a later one ran") \
	COUNTER(pv, early, "times that nobody was eligible of those looked at, and the earliest deadline ran") \
	COUNTER(pv, stolen, "tasks that a CPU with nothing to do took from another cache")         \
	COUNTER(pv, balanced, "tasks taken from a cache that had more to do for each CPU")         \
	COUNTER(pv, rescued, "tasks that ran before their turn since they had waited for 5 s")     \
	COUNTER(pv, gangs, "times that all virtual CPUs of a machine under a cache began to run at once") \
	COUNTER(pv, ganged, "virtual CPUs that ran before their turn since it was the time of their machine") \
	COUNTER(pv, put_off, "times that a machine waited, since too few CPUs would have given way to it") \
	COUNTER(pv, turns, "virtual CPUs that made way for another one of their machine")

#endif
