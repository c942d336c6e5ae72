/* SPDX-License-Identifier: GPL-2.0-only */
/* An array is indexed as such here. */
#ifndef METASCHED_ANCESTORS_BPF_H
#define METASCHED_ANCESTORS_BPF_H

#include <vmlinux.h>

static inline u64 ancestor_id(struct cgroup *cgrp, s32 level)
{
	return cgrp->ancestors[level]->kn->id;
}

#endif
