/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NEST_OPTIONS_H
#define NEST_OPTIONS_H

#define nest_options(OPTION)                                                                       \
	OPTION(nest, slice_ns, "ns", 20000000, 100000, 1000000000,                                 \
	       "run time granted before the next task's turn, and the most credit that a sleeper keeps") \
	OPTION(nest, p_remove_ns, "ns", 2000000, 100000, 1000000000,                               \
	       "how long a CPU of the primary nest may have nothing to run before it leaves it; longer keeps more CPUs warm") \
	OPTION(nest, r_max, "CPUs", 5, 0, 64, "the most CPUs in the reserve nest")                 \
	OPTION(nest, r_impatient, "times", 2, 0, 1000,                                             \
	       "so often a task may find no idle CPU in the primary nest before one is added to it at once; 0: however often") \
	OPTION(nest, find_fully_idle, "0 or 1", 0, 0, 1,                                           \
	       "1: of the primary nest a CPU whose core runs nothing of the lane is taken before others") \
	OPTION(nest, spin_ns, "ns", 0, 0, 20000000,                                                \
	       "how long a CPU of the primary nest with nothing to run is kept from deep sleep, by an interrupt each 100 us; p_remove_ns at most. It stays warm and takes power; 0: not at all")

#define nest_counters(COUNTER)                                                                     \
	COUNTER(nest, attached, "wake-ups on the CPU that the task is attached to")                \
	COUNTER(nest, primary, "wake-ups on another idle CPU of the primary nest")                 \
	COUNTER(nest, promoted, "wake-ups on an idle CPU of the reserve nest, which joined the primary one") \
	COUNTER(nest, reserved, "wake-ups on an idle CPU of neither, which joined the reserve nest if there was room") \
	COUNTER(nest, impatient, "wake-ups on an idle CPU of neither, which joined the primary nest") \
	COUNTER(nest, queued, "tasks put into the queue by their vtime, since no CPU was idle or they ran on") \
	COUNTER(nest, kept, "tasks that went on for another slice")                                \
	COUNTER(nest, rescued, "tasks that ran before their turn since they had waited for 5 s")    \
	COUNTER(nest, demoted, "CPUs that left the primary nest since they had nothing to run")    \
	COUNTER(nest, spun, "times that a CPU of the primary nest had nothing to run and was kept from deep sleep")

#endif
