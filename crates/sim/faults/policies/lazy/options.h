/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LAZY_OPTIONS_H
#define LAZY_OPTIONS_H

#define lazy_options(OPTION)

#define lazy_counters(COUNTER)

#endif
