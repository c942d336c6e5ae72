// SPDX-License-Identifier: GPL-2.0-only
/* What no program of level 1 does, and the simulator's tests ask. */
#include <vmlinux.h>
#include <wait_histogram.bpf.h>

int sim_wait_bucket(u64 wait_ns)
{
	return wait_bucket(wait_ns);
}
