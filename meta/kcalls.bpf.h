/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel calls that the metascheduler makes and a policy may not.
 *
 * Queues can be made and destroyed only in sleepable context.
 */
#ifndef METASCHED_KCALLS_BPF_H
#define METASCHED_KCALLS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/* Makes a dispatch queue on memory of @node (-1: any). */
extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __weak __ksym;
/* Destroys one, which must be empty. */
extern void scx_bpf_destroy_dsq(u64 dsq_id) __weak __ksym;

/* An idle CPU of those allowed, claimed; negative if there is none. */
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __weak __ksym;
/* Makes @cpu choose anew; @flags: enum scx_kick_flags. */
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __weak __ksym;
/* One more than the highest CPU number. */
extern u32 scx_bpf_nr_cpu_ids(void) __weak __ksym;

#endif
