/* SPDX-License-Identifier: GPL-2.0-only */
/* The modelled kernel is one version: nothing to bridge. See seam.h. */
#ifndef METASCHED_COMPAT_BPF_H
#define METASCHED_COMPAT_BPF_H

#include <vmlinux.h>
#include <seam.h>

#endif
