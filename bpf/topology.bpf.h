/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine: which CPUs there are and what they share. Constants, which the loader
 * writes before it loads the program, as the simulator does from its model.
 *
 * A CPU that is off line then does not tell what it shares: it counts as one of cache 0
 * and node 0, alone on its core, until the program is loaded again.
 */
#ifndef METASCHED_TOPOLOGY_BPF_H
#define METASCHED_TOPOLOGY_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <cpus.h>

const volatile struct topology topology = {
	.cpus = 1, .llcs = 1, .nodes = 1, .online = 1
};

/* One more than the highest number of a CPU. */
static __always_inline u32 nr_cpus(void)
{
	return topology.cpus;
}

/* How many CPUs were on line when the program was loaded; one at least. */
static __always_inline u32 nr_online_cpus(void)
{
	return topology.online;
}

/* How many last-level caches there are. */
static __always_inline u32 nr_llcs(void)
{
	return topology.llcs;
}

/* One more than the highest number of a NUMA node. */
static __always_inline u32 nr_nodes(void)
{
	return topology.nodes;
}

/* Whether there may be a CPU of that number. */
static __always_inline bool cpu_possible(u32 cpu)
{
	return cpu < CPUS_MAX && topology.possible.words[cpu / 64 & (CPUS_MAX / 64 - 1)] >>
					 (cpu & 63) & 1;
}

/*
 * The number that comes so many places after another one, round and round; both are below @numbers.
 * Loops over CPUs from one of them on count @places. They do not move on a number of a CPU: where that
 * begins as a constant the verifier would follow it through each turn of the loop.
 */
static __always_inline u32 number_after(u32 number, u32 places, u32 numbers)
{
	number += places;
	return number < numbers ? number : number - numbers;
}

static __always_inline u32 cpu_after(u32 cpu, u32 places)
{
	return number_after(cpu, places, nr_cpus());
}

static __always_inline u32 llc_after(u32 llc, u32 places)
{
	return number_after(llc, places, nr_llcs());
}

/* The last-level cache that a CPU is under. */
static __always_inline u32 cpu_llc(u32 cpu)
{
	return topology.llc[cpu & (CPUS_MAX - 1)];
}

/* The NUMA node that a CPU is on. */
static __always_inline u32 cpu_node(u32 cpu)
{
	return topology.node[cpu & (CPUS_MAX - 1)];
}

/* The next CPU of its core, the CPU itself if it is alone there. */
static __always_inline u32 cpu_sibling(u32 cpu)
{
	return topology.sibling[cpu & (CPUS_MAX - 1)];
}

#endif
