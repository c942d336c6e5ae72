/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of CPUs that no kfunc gives, at the addresses of the kernel's symbols. This can go when there are
 * kfuncs.
 *
 * Declared as symbols they would be resolved by libbpf, which reads all of /proc/kallsyms for that before it
 * loads anything: a quarter of what a start takes. So the loader looks for them while we are loaded.
 */
#ifndef METASCHED_CPU_MASKS_BPF_H
#define METASCHED_CPU_MASKS_BPF_H

#include <sched.bpf.h>
#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_mask_addresses);
} cpu_masks SEC(".maps");

/* 64 CPUs of the set at that address, from 64 * @word on. */
static __always_inline u64 cpus_at(u64 address, u32 word)
{
	u64 cpus = 0;

	bpf_probe_read_kernel(&cpus, sizeof(cpus), (const u64 *)address + word);
	return cpus;
}

/*
 * Of 64 CPUs from 64 * @word on, those that are on line and those of them that are given tasks. False where
 * the kernel does not tell the addresses of its data (CONFIG_KALLSYMS_ALL).
 */
static __always_inline bool cpus_of_kernel(u32 word, u64 *online, u64 *active)
{
	u32 first = 0;
	const struct cpu_mask_addresses *at = bpf_map_lookup_elem(&cpu_masks, &first);
	u64 online_at, active_at;

	if (!at)
		return false;
	online_at = at->online;
	active_at = at->active;
	if (!online_at || !active_at)
		return false;
	*active = cpus_at(active_at, word);
	*online = cpus_at(online_at, word);
	return true;
}

#endif
