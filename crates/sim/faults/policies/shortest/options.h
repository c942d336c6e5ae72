/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHORTEST_OPTIONS_H
#define SHORTEST_OPTIONS_H

#define shortest_options(OPTION)                                                                   \
	OPTION(shortest, slice_ns, "ns", 5000000, 100000, 1000000000,                              \
	       "run time granted before the next task's turn")                                     \
	OPTION(shortest, patience, "times", 10, 1, 1000,                                           \
	       "how many times its last burst a task lets others go before it that want less")

#define shortest_counters(COUNTER)                                                                 \
	COUNTER(shortest, direct, "wake-ups that went straight to an idle CPU")                    \
	COUNTER(shortest, queued, "tasks put into the queue")

#endif
