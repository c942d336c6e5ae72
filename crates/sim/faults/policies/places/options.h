/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PLACES_OPTIONS_H
#define PLACES_OPTIONS_H

#define places_options(OPTION)
#define places_counters(COUNTER)

#endif
