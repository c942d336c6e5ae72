/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LAGS_OPTIONS_H
#define LAGS_OPTIONS_H

#define lags_options(OPTION)

#define lags_counters(COUNTER)

#endif
