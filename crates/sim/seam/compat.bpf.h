/* SPDX-License-Identifier: GPL-2.0-only */
/* The modelled kernel is one version: nothing to bridge. See seam.h. */
#ifndef METASCHED_COMPAT_BPF_H
#define METASCHED_COMPAT_BPF_H

#include <vmlinux.h>
#include <seam.h>

/* By the kernel's symbols there. */
u64 online_cpus(u32 word);
u64 active_cpus(u32 word);

#endif
