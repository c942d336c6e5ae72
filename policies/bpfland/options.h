/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFLAND_OPTIONS_H
#define BPFLAND_OPTIONS_H

#define bpfland_options(OPTION)                                                                    \
	OPTION(bpfland, slice_ns, "ns", 5000000, 100000, 1000000000,                               \
	       "run time granted while nobody waits; among n that wait it is divided by n + 1, so that longer means fewer switches and more waiting") \
	OPTION(bpfland, slice_min_ns, "ns", 500000, 100000, 1000000000,                            \
	       "the least that a division leaves of the slice; raise it where many wait and switches cost too much") \
	OPTION(bpfland, slice_lag_ns, "ns", 20000000, 0, 1000000000,                               \
	       "the most credit that a sleeper keeps, as virtual time; more favours sleepers over tasks that run, within each queue") \
	OPTION(bpfland, nvcsw_max_thresh, "switches/s", 10, 0, 80,                                 \
	       "the most that the moving threshold rises to: who goes to sleep at least so often in a second is interactive whatever others do; at 0 nobody is") \
	OPTION(bpfland, starvation_thresh_ns, "ns", 5000000, 1000000, 1000000000,                  \
	       "one task of the shared queue is served first when none was for so long, whatever is interactive; longer favours interactive tasks more, until the kernel ends the scheduler since somebody has waited for 30 s") \
	OPTION(bpfland, slice_at_enqueue, "bool", 0, 0, 1,                                         \
	       "1: the slice is divided among those that wait as a task is queued, as in July 2024; 0: as it starts to run, and who runs while nobody waits has a whole one")

#define bpfland_counters(COUNTER)                                                                  \
	COUNTER(bpfland, direct, "wake-ups that went straight to an idle CPU")                     \
	COUNTER(bpfland, queued_prio, "tasks put into the priority queue by their vtime")          \
	COUNTER(bpfland, queued, "tasks put into the shared queue by their vtime")                 \
	COUNTER(bpfland, promoted, "tasks that became interactive because somebody woke them and went to sleep") \
	COUNTER(bpfland, kept, "tasks that went on for another slice because they came before all that waited") \
	COUNTER(bpfland, rescued, "times that the shared queue was served first since it had waited for too long") \
	COUNTER(bpfland, overdue, "tasks of either queue that ran before their turn since they had waited for 5 s")

#endif
