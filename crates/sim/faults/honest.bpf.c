// SPDX-License-Identifier: GPL-2.0-only
/* No fault: what the faults are compared with. */
#include "fault.h"

struct sched_ext_ops honest = { HONEST };
