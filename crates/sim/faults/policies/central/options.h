/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CENTRAL_OPTIONS_H
#define CENTRAL_OPTIONS_H

#define central_options(OPTION)                                                                    \
	OPTION(central, slice_ns, "ns", 20000000, 100000, 1000000000,                              \
	       "run time after which a task makes way for one that waits")

#define central_counters(COUNTER)

#endif
