/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RUSTY_OPTIONS_H
#define RUSTY_OPTIONS_H

#define rusty_options(OPTION)                                                                      \
	OPTION(rusty, slice_ns, "ns", 20000000, 100000, 1000000000,                                \
	       "run time granted before the next task's turn, and the most credit that a sleeper keeps") \
	OPTION(rusty, slice_overutil_ns, "ns", 1000000, 100000, 1000000000,                        \
	       "run time granted while each of its CPUs is busy all the time")                     \
	OPTION(rusty, interval_ns, "ns", 2000000000, 100000000, 60000000000,                       \
	       "how often load is balanced between domains")                                       \
	OPTION(rusty, load_half_life_ns, "ns", 1000000000, 10000000, 60000000000,                  \
	       "after so long what was counts half in averages of load")                           \
	OPTION(rusty, greedy_threshold, "tasks", 1, 0, 1000,                                       \
	       "a CPU with nothing to do takes from a domain of its node where so many wait; 0: never") \
	OPTION(rusty, greedy_threshold_x_numa, "tasks", 0, 0, 1000,                                \
	       "the same of other nodes")                                                          \
	OPTION(rusty, direct_greedy_under, "per cent", 90, 0, 100,                                 \
	       "an idle CPU of another domain is taken for who wakes while that domain is busy for less than this")

#define rusty_counters(COUNTER)                                                                    \
	COUNTER(rusty, core, "wake-ups on an idle core of the domain")                             \
	COUNTER(rusty, idle, "wake-ups on another idle CPU of the domain")                         \
	COUNTER(rusty, foreign, "wake-ups on an idle CPU of another domain")                       \
	COUNTER(rusty, queued, "tasks put into the queue of their domain by their vtime")          \
	COUNTER(rusty, kept, "tasks that went on for another slice")                               \
	COUNTER(rusty, rescued, "tasks that ran before their turn since they had waited for 5 s")  \
	COUNTER(rusty, stolen, "tasks that a CPU with nothing to do took from another domain")     \
	COUNTER(rusty, balanced, "tasks that changed their domain to even out the load")

#endif
