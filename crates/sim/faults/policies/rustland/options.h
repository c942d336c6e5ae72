/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RUSTLAND_OPTIONS_H
#define RUSTLAND_OPTIONS_H

#define rustland_options(OPTION)

#define rustland_counters(COUNTER)

#endif
