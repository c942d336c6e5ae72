// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space does with the metascheduler, for the simulator: its types are
 * declared once, in meta/types.h, so whatever touches them is C.
 */
#include <vmlinux.h>
#include <types.h>
#include <wait_histogram.bpf.h>

extern struct meta_lane lanes[LANES_MAX];
int replace_root(struct replace_args *args);
int set_app(struct app_args *args);
int drop_app(struct assign_args *args);
int assign(struct assign_args *args);
int unassign(struct assign_args *args);
int set_lane(struct lane_args *args);
int reap(struct reap_set *ready);
extern u64 quarantined;

/* One lane, for src/metasched.rs. */
struct sim_lane {
	u64 generation;
	u64 first_run_ns;
	u64 runtime_ns;
	u32 slot;
	u32 policy;
	u32 state; /* enum lane_state */
	u32 app;
	u32 weight;
	u32 quarantined;
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
	out->runtime_ns = l->runtime_ns;
	out->app = l->app;
	out->weight = l->weight;
	out->quarantined = l->quarantined;
}

int sim_replace_root(u32 policy, u32 weight)
{
	struct replace_args args = { .policy = policy, .weight = weight };

	return replace_root(&args);
}

int sim_set_app(u32 app, u64 policy_and_weight)
{
	struct app_args args = {
		.app = app,
		.policy = policy_and_weight >> 32,
		.weight = (u32)policy_and_weight,
	};
	u32 i;

	for (i = 0; i < LANE_OPTIONS_MAX; i++)
		args.options[i] = ~0ULL;
	return set_app(&args);
}

int sim_drop_app(u32 app)
{
	struct assign_args args = { .app = app };

	return drop_app(&args);
}

int sim_assign(u64 cgroup, u32 app)
{
	struct assign_args args = { .cgroup = cgroup, .app = app };

	return assign(&args);
}

int sim_unassign(u64 cgroup)
{
	struct assign_args args = { .cgroup = cgroup };

	return unassign(&args);
}

int sim_set_weight(u32 app, u32 weight)
{
	struct lane_args args = {
		.app = app,
		.weight = weight,
		.weight_fixed = 1,
		.option = LANE_OPTIONS_MAX,
	};

	return set_lane(&args);
}

int sim_quarantined(void)
{
	return quarantined;
}

int sim_wait_bucket(u64 wait_ns)
{
	return wait_bucket(wait_ns);
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
