/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 does for policies, as sched.bpf.h declares it. Global and weak for the
 * same reasons as the functions in table.bpf.h.
 */
#ifndef METASCHED_SERVICES_BPF_H
#define METASCHED_SERVICES_BPF_H

#include <lanes.bpf.h>

__weak __noinline int lane_keep(struct lane *lane __arg_nonnull,
				struct task_struct *p __arg_trusted, u64 slice_ns)
{
	struct cpu_ctx *here = cpu_ctx_here();

	if (here)
		grant_slice(here, p, slice_ns);
	return 0;
}

#endif
