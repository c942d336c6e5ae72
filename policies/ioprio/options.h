/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IOPRIO_OPTIONS_H
#define IOPRIO_OPTIONS_H

#define ioprio_options(OPTION)                                                                     \
	OPTION(ioprio, slice_ns, "ns", 20000000, 100000, 1000000000,                               \
	       "run time granted to a task of the normal queue; shorter means less waiting and more context switches") \
	OPTION(ioprio, prio_slice_ns, "ns", 20000000, 100000, 1000000000,                          \
	       "run time granted to a task of the priority queue; with less of it who uses a CPU for longer is found out sooner") \
	OPTION(ioprio, average_permille, "permille", 990, 0, 999,                                  \
	       "how much of a task's average of use stays with each run; at 990 some 300 short runs promote a task, at 0 the last one alone counts") \
	OPTION(ioprio, first_use_percent, "percent", 100, 0, 100,                                  \
	       "the use that a task is assumed to have before it first runs; below the threshold it begins with priority") \
	OPTION(ioprio, threshold_percent, "percent", 5, 0, 100,                                    \
	       "a task that uses less of its slices than this has priority; at 0 nobody has")    \
	OPTION(ioprio, no_starvation, "bool", 1, 0, 1,                                             \
	       "1: who was queued with priority is queued without it the next time, so that those who wait in the normal queue have their turns") \
	OPTION(ioprio, starvation_ns, "ns", 20000000, 1000000, 1000000000,                         \
	       "one task of the normal queue is served first when none was for so long, whatever has priority; longer favours priority more, until the kernel ends the scheduler since somebody has waited for 30 s")

#define ioprio_counters(COUNTER)                                                                   \
	COUNTER(ioprio, direct, "wake-ups that went straight to an idle CPU")                      \
	COUNTER(ioprio, queued_prio, "tasks put at the end of the priority queue")                 \
	COUNTER(ioprio, queued, "tasks put at the end of the normal queue")                        \
	COUNTER(ioprio, held_back, "of those, tasks that would have had priority and had it the last time") \
	COUNTER(ioprio, rescued, "times that the normal queue was served first since it had waited for too long")

#endif
