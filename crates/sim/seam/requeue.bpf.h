/* SPDX-License-Identifier: GPL-2.0-only */
/* The modelled kernel does it itself, as from 7.1 on. */
#ifndef METASCHED_REQUEUE_BPF_H
#define METASCHED_REQUEUE_BPF_H

#include <seam.h>

static inline void requeue_all(u64 dsq_id)
{
	scx_bpf_dsq_reenq(dsq_id, 0);
}

#endif
