/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VTIME_OPTIONS_H
#define VTIME_OPTIONS_H

#define vtime_options(OPTION)                                                                      \
	OPTION(vtime, slice_ns, "ns", 20000000, 100000, 1000000000,                                \
	       "run time granted before the next task's turn, less to tasks of less weight than 100, and the most credit that a sleeper keeps; shorter means less waiting and more context switches")

#define vtime_counters(COUNTER)                                                                    \
	COUNTER(vtime, direct, "wake-ups that went straight to an idle CPU")                       \
	COUNTER(vtime, queued, "tasks put into the queue by their vtime")                          \
	COUNTER(vtime, kept, "tasks that went on for another slice because they lagged behind all that waited") \
	COUNTER(vtime, capped, "queued tasks whose credit from sleeping was cut to one slice")    \
	COUNTER(vtime, forgiven, "queued tasks that had got ahead alone on a CPU and were put back to one run") \
	COUNTER(vtime, rescued, "tasks that ran before their turn since they had waited for 5 s")

#endif
