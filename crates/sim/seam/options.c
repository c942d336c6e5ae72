// SPDX-License-Identifier: GPL-2.0-only
/* What can be set of each policy, as its options.h declares it. */
#include <vmlinux.h>
#include <options.gen.h>

/* One option, for src/options.rs. Its number is its place among those of its policy. */
struct sim_option {
	const char *policy;
	const char *name;
	const char *unit;
	u64 dfl;
	u64 least;
	u64 most;
};

#define ENTRY(policy, name, unit, dfl, least, most, help) { #policy, #name, unit, dfl, least, most },
#define POLICY(name, summary) name##_options(ENTRY)

/* The last one has no policy. */
const struct sim_option sim_options[] = {
#include <policies.def>
	{},
};
