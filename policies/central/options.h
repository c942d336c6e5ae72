/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CENTRAL_OPTIONS_H
#define CENTRAL_OPTIONS_H

#define central_options(OPTION)                                                                    \
	OPTION(central, slice_ns, "ns", 20000000, 100000, 1000000000,                              \
	       "run time after which a task makes way for one that waits")                        \
	OPTION(central, central_cpu, "CPU", 0, 0, 511,                                             \
	       "the CPU that decides; while it is off line the next one that is not")

#define central_counters(COUNTER)                                                                  \
	COUNTER(central, queued, "tasks put at the end of the queue, for the central CPU to hand out") \
	COUNTER(central, bound, "tasks put at the end of the other queue, since they may not run everywhere") \
	COUNTER(central, handed, "tasks that the central CPU handed to a CPU")                     \
	COUNTER(central, alone, "tasks that a CPU took by itself: after one that is bound, what another CPU was handed, or where nobody answers") \
	COUNTER(central, preempted, "runs that the timer ended")

#endif
