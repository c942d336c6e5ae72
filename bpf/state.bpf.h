/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy keeps for each CPU and each last-level cache of a lane, and its sets of
 * CPUs. Zero when the lane is made. The maps have room for every lane where an enabled
 * policy asks for that kind of state, else for nothing: the loader sees to that.
 *
 * For 128 lanes on 512 CPUs under 64 caches: 8 MiB, 3.5 MiB and 64 KiB.
 */
#ifndef METASCHED_STATE_BPF_H
#define METASCHED_STATE_BPF_H

#include <lane.h>
#include <topology.bpf.h>

struct cpu_state {
	u64 state[CPU_STATE_BYTES / 8];
};

struct llc_state {
	u64 state[LLC_STATE_BYTES / 8];
};

/* By slot and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES_MAX * CPUS_MAX);
	__type(key, u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

/* By slot and cache. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES_MAX * CPUS_MAX);
	__type(key, u32);
	__type(value, struct llc_state);
} llc_states SEC(".maps");

/* By slot and number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES_MAX * LANE_CPU_SETS_MAX);
	__type(key, u32);
	__type(value, struct cpus);
} cpu_sets SEC(".maps");

/* What the lane's policy keeps for a CPU; NULL if there is no such CPU. */
static __always_inline struct cpu_state *lane_cpu(const struct lane *lane, u32 cpu)
{
	u32 key = lane->slot * nr_cpus() + cpu;

	return cpu < nr_cpus() ? bpf_map_lookup_elem(&cpu_states, &key) : NULL;
}

/* What the lane's policy keeps for a last-level cache; NULL if there is no such cache. */
static __always_inline struct llc_state *lane_llc(const struct lane *lane, u32 llc)
{
	u32 key = lane->slot * nr_llcs() + llc;

	return llc < nr_llcs() ? bpf_map_lookup_elem(&llc_states, &key) : NULL;
}

/* A set of CPUs of the lane's, by its number; NULL in no policy that asks for as many. */
static __always_inline struct cpus *lane_cpu_set(const struct lane *lane, u32 number)
{
	u32 key = lane->slot * LANE_CPU_SETS_MAX + number;

	return number < LANE_CPU_SETS_MAX ? bpf_map_lookup_elem(&cpu_sets, &key) : NULL;
}

#endif
