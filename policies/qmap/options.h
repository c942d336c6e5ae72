/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QMAP_OPTIONS_H
#define QMAP_OPTIONS_H

#define qmap_options(OPTION)                                                                       \
	OPTION(qmap, slice_ns, "ns", 20000000, 100000, 1000000000,                                 \
	       "run time granted before the next task's turn; shorter means less waiting and more context switches")

#define qmap_counters(COUNTER)                                                                     \
	COUNTER(qmap, direct, "wake-ups that went straight to an idle CPU")                        \
	COUNTER(qmap, queued_0, "tasks of weight 25 or less put at the end of their queue")        \
	COUNTER(qmap, queued_1, "the same of weights 26 to 50")                                    \
	COUNTER(qmap, queued_2, "the same of weights 51 to 199")                                   \
	COUNTER(qmap, queued_3, "the same of weights 200 to 399")                                  \
	COUNTER(qmap, queued_4, "the same of weight 400 or more")                                  \
	COUNTER(qmap, kept, "tasks that went on for another slice since their queue's visit was not over")

#endif
