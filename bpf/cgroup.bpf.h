/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is read of a cgroup of the kernel's.
 *
 * The simulator puts a header of this name in front of this one: there, memory
 * is read as such.
 */
#ifndef METASCHED_CGROUP_BPF_H
#define METASCHED_CGROUP_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/*
 * Of an array of pointers in @cgrp, which begins at @offset. It is read by a helper, since the
 * verifier lets no kernel array be indexed by a variable.
 */
static __always_inline void *cgroup_points_to(struct cgroup *cgrp, u32 offset, u32 index)
{
	u64 at = (u64)(unsigned long)cgrp + offset + (u64)index * sizeof(void *);
	void *found = NULL;

	bpf_probe_read_kernel(&found, sizeof(found), (void *)(unsigned long)at);
	return found;
}

/* The id of the ancestor of @cgrp at @level, 0 to the cgroup's own. */
static __always_inline u64 ancestor_id(struct cgroup *cgrp, s32 level)
{
	u32 offset = bpf_core_field_offset(struct cgroup, ancestors);
	struct cgroup *ancestor = cgroup_points_to(cgrp, offset, level);

	return BPF_CORE_READ(ancestor, kn, id);
}

/*
 * Whether cpu.idle of @cgrp is set. The kernel tells of changes only, and neither what a program that
 * comes is told nor cpu.weight says how it is then. False where there are no such groups.
 */
static __always_inline bool cgroup_is_idle(struct cgroup *cgrp)
{
	u32 offset = bpf_core_field_offset(struct cgroup, subsys);
	struct task_group *group;

	if (!bpf_core_field_exists(struct task_group, idle) ||
	    !bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return false;
	group = cgroup_points_to(cgrp, offset,
				 bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id));
	return group && BPF_CORE_READ(group, idle) > 0;
}

/*
 * Whether tasks are in @cgrp or below it. How many sets of tasks are in it is counted elsewhere since
 * 7.3; that there are some its list of them says, on all kernels.
 */
static __always_inline bool cgroup_has_tasks(struct cgroup *cgrp)
{
	return cgrp->cset_links.next != &cgrp->cset_links || cgrp->nr_populated_domain_children ||
	       cgrp->nr_populated_threaded_children;
}

#endif
