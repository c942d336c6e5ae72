/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FIFO_OPTIONS_H
#define FIFO_OPTIONS_H

#define fifo_options(OPTION)                                                                       \
	OPTION(fifo, slice_ns, "ns", 20000000, 100000, 1000000000,                                 \
	       "run time granted before the next task's turn; shorter means less waiting and more context switches")

#define fifo_counters(COUNTER)                                                                     \
	COUNTER(fifo, direct, "wake-ups that went straight to an idle CPU")                        \
	COUNTER(fifo, queued, "tasks put at the end of the queue")

#endif
