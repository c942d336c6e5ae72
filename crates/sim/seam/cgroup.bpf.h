/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory is read as such here. */
#ifndef METASCHED_CGROUP_BPF_H
#define METASCHED_CGROUP_BPF_H

#include <vmlinux.h>

static inline u64 ancestor_id(struct cgroup *cgrp, s32 level)
{
	return cgrp->ancestors[level]->kn->id;
}

static inline bool cgroup_is_idle(struct cgroup *cgrp)
{
	return cgrp->idle > 0;
}

static inline bool cgroup_has_tasks(struct cgroup *cgrp)
{
	return cgrp->populated > 0;
}

#endif
