/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CENTRAL_OPTIONS_H
#define CENTRAL_OPTIONS_H

#define central_options(OPTION)                                                                    \
	OPTION(central, slice_ns, "ns", 20000000, 100000, 1000000000,                              \
	       "run time after which a task makes way while another waits, as a look each millisecond finds it; shorter means less waiting and more interrupts") \
	OPTION(central, central_cpu, "cpu", 0, 0, 1023,                                            \
	       "the CPU that decides for all; the lowest one on line in its place where there is no such CPU or it is off line")

#define central_counters(COUNTER)                                                                  \
	COUNTER(central, asked, "times that the central CPU was asked to decide")                  \
	COUNTER(central, handed, "tasks that it handed to CPUs")                                   \
	COUNTER(central, late, "times that another CPU was asked to decide since the central one had not") \
	COUNTER(central, set_aside, "tasks set aside since none of the CPUs that asked may run them") \
	COUNTER(central, taken_back, "tasks taken back from a CPU that did not take what it was handed") \
	COUNTER(central, preempted, "runs that the timer ended while something waited")

#endif
