/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LATE_OPTIONS_H
#define LATE_OPTIONS_H

#define late_options(OPTION)

#define late_counters(COUNTER)

#endif
