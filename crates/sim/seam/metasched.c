// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space does with the metascheduler, for the simulator: its types are
 * declared once, in meta/types.h, so whatever touches them is C.
 */
#include <vmlinux.h>
#include <types.h>

extern struct meta_lane lanes[LANES_MAX];
int replace_root(struct replace_args *args);
int reap(struct reap_set *ready);

/* One lane, for src/metasched.rs. */
struct sim_lane {
	u64 generation;
	u64 first_run_ns;
	u32 slot;
	u32 policy;
	u32 state; /* enum lane_state */
	u32 pad;
};

const u32 sim_lanes_max = LANES_MAX;

void sim_read_lane(u32 slot, struct sim_lane *out)
{
	const struct meta_lane *l = &lanes[slot];

	out->generation = l->lane.generation;
	out->first_run_ns = l->first_run_ns;
	out->slot = slot;
	out->policy = l->lane.policy;
	out->state = l->state;
}

int sim_replace_root(u32 policy, u32 weight)
{
	struct replace_args args = { .policy = policy, .weight = weight };

	return replace_root(&args);
}

/*
 * A callback takes no time in the model, so every grace period has passed since
 * the states were read.
 */
int sim_reap(void)
{
	struct reap_set ready = {};
	u32 i;

	for (i = 0; i < LANES_MAX; i++) {
		if (lanes[i].state == LANE_DRAINING)
			ready.drained |= 1ULL << i;
		if (lanes[i].state == LANE_RETIRED)
			ready.retired |= 1ULL << i;
	}
	return reap(&ready);
}
