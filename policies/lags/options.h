/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LAGS_OPTIONS_H
#define LAGS_OPTIONS_H

#define lags_options(OPTION)                                                                       \
	OPTION(lags, slice_ns, "ns", 5000000, 100000, 1000000000,                                  \
	       "run time granted at once; who has used it up comes as if it had just woken")       \
	OPTION(lags, half_life_ns, "ns", 1400000000, 1000000, 60000000000,                         \
	       "in this time a cgroup's load credit goes half of the way to what it uses now")     \
	OPTION(lags, patience_ns, "ns", 1000000000, 0, 60000000000,                                \
	       "how much later may come who comes first, for each CPU that a cgroup used more; 0: first come, first served") \
	OPTION(lags, bound_ns, "ns", 1000000000, 0, 4000000000,                                    \
	       "the most of that: nobody is passed over by who comes later than this after it")    \
	OPTION(lags, lead_ns, "ns", 500000, 0, 1000000000,                                         \
	       "a task that wakes takes the CPU of another if it comes before that by so much")

#define lags_counters(COUNTER)                                                                     \
	COUNTER(lags, direct, "wake-ups that went straight to an idle CPU")                        \
	COUNTER(lags, queued, "tasks put into the queue of a cache by the credit of their cgroup") \
	COUNTER(lags, kept, "tasks that went on since they came first, or nobody waited")          \
	COUNTER(lags, preempted, "CPUs that a task of a lighter cgroup which woke has had choose anew") \
	COUNTER(lags, bounded, "tasks queued whose cgroup had more credit than counts")            \
	COUNTER(lags, balanced, "tasks taken from another cache, where they came before all here") \
	COUNTER(lags, stolen, "tasks that a CPU with nothing to do took from another cache")       \
	COUNTER(lags, rescued, "tasks that ran before their turn since they had waited for 5 s")

#endif
