// SPDX-License-Identifier: GPL-2.0-only
/* Does not compile: the compiler sees that the slice was never written. */
#include "fault.h"

void enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 slice;

	if (enq_flags)
		slice = SLICE_NS;
	scx_bpf_dsq_insert(p, QUEUE, slice, enq_flags);
}
