/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The way from a cgroup up to the root of its hierarchy.
 *
 * The simulator puts a header of this name in front of this one: there, memory
 * is read as such.
 */
#ifndef METASCHED_ANCESTORS_BPF_H
#define METASCHED_ANCESTORS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * The id of the ancestor of @cgrp at @level, 0 to the cgroup's own. It is read by
 * a helper, since the verifier lets no kernel array be indexed by a variable.
 */
static __always_inline u64 ancestor_id(struct cgroup *cgrp, s32 level)
{
	u64 at = (u64)(unsigned long)cgrp + bpf_core_field_offset(struct cgroup, ancestors);
	struct cgroup *ancestor = NULL;

	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (void *)(unsigned long)(at + (u64)(u32)level * sizeof(ancestor)));
	return BPF_CORE_READ(ancestor, kn, id);
}

#endif
