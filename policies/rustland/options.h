/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RUSTLAND_OPTIONS_H
#define RUSTLAND_OPTIONS_H

#define rustland_options(OPTION)                                                                   \
	OPTION(rustland, slice_ns, "ns", 5000000, 100000, 1000000000,                              \
	       "run time granted to a task that is decided here, and the most that user space may grant; also by how much more a task has to come later for one that wakes to take its CPU; shorter means less waiting, more switches and more decisions") \
	OPTION(rustland, slice_min_ns, "ns", 250000, 100000, 1000000000,                           \
	       "the least that user space may grant; raise it where many wait and decisions cost too much")

#define rustland_counters(COUNTER)                                                                 \
	COUNTER(rustland, direct, "wake-ups that went straight to an idle CPU")                    \
	COUNTER(rustland, told, "tasks that were left to user space")                              \
	COUNTER(rustland, decided, "tasks that were queued in the order that user space decided")  \
	COUNTER(rustland, preempted, "CPUs that a task which woke has had choose anew, by its order") \
	COUNTER(rustland, late, "tasks that user space did not decide in time, put at the end of the other queue") \
	COUNTER(rustland, alone, "tasks put there since user space was not to be asked, or nobody was there") \
	COUNTER(rustland, rescued, "decided tasks that ran before their turn since they had waited for 5 s")

#endif
