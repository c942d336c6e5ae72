/* SPDX-License-Identifier: GPL-2.0-only */
/* The modelled kernel is asked for what is read from the kernel's memory there. See seam.h. */
#ifndef METASCHED_CPU_MASKS_BPF_H
#define METASCHED_CPU_MASKS_BPF_H

#include <vmlinux.h>
#include <seam.h>

bool cpus_of_kernel(u32 word, u64 *online, u64 *active);

#endif
