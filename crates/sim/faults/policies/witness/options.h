/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WITNESS_OPTIONS_H
#define WITNESS_OPTIONS_H

#define witness_options(OPTION)

#define witness_counters(COUNTER)

#endif
