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
int drop_app(struct assign_args *args);
int assign(struct assign_args *args);
int unassign(struct assign_args *args);
int set_lane(struct lane_args *args);
int reap(struct reap_set *ready);
int start_turns(struct cycle_args *args);
int stop_turns(void *unused);
extern struct cycle cycle;
extern u64 served;

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
	u32 served;
	u32 pad;
};

const u32 sim_lanes_max = LANES_MAX;

static void sim_read_lane(u32 slot, struct sim_lane *out)
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
	out->served = served >> slot & 1;
}

/* All of them at once. */
void sim_read_lanes(struct sim_lane *out)
{
	u32 slot;

	for (slot = 0; slot < LANES_MAX; slot++)
		sim_read_lane(slot, &out[slot]);
}

int sim_replace_root(u32 policy, u32 weight)
{
	struct replace_args args = { .policy = policy, .weight = weight };

	return replace_root(&args);
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

/* Sets an option of the lane in force of an application, or of the root lane (0). */
int sim_set_option(u64 app_and_option, u64 value)
{
	struct lane_args args = {
		.app = app_and_option >> 32,
		.option = (u32)app_and_option,
		.value = value,
	};

	return set_lane(&args);
}

/* Turns of these policies and lengths, as two arrays. */
int sim_start_turns(const u64 *turns, u64 count)
{
	struct cycle_args args = { .turns = count };
	u64 i;

	for (i = 0; i < count; i++) {
		args.turn[i].policy = turns[2 * i];
		args.turn[i].length_ns = turns[2 * i + 1];
	}
	return start_turns(&args);
}

int sim_stop_turns(void)
{
	return stop_turns(NULL);
}

/* The books of the cycle, for src/metasched/turns.rs. */
struct sim_cycle {
	u64 turns;
	u64 begun;
	u64 changes;
	u64 late_max_ns;
	u64 in_force_ns[TURNS_MAX];
};

void sim_read_cycle(struct sim_cycle *out)
{
	u32 i;

	out->turns = cycle.turns;
	out->begun = cycle.begun;
	out->changes = cycle.changes;
	out->late_max_ns = cycle.late_max_ns;
	for (i = 0; i < TURNS_MAX; i++)
		out->in_force_ns[i] = cycle.turn[i].in_force_ns;
}

int sim_wait_bucket(u64 wait_ns)
{
	return wait_bucket(wait_ns);
}

/*
 * A callback takes no time in the model, so every grace period has passed since the
 * states were read. Lanes that rest are handed in as well: that is more than user space
 * may do, and the program must tell those that it may take.
 */
int sim_reap(void)
{
	struct reap_set ready = {};
	u32 i;

	for (i = 0; i < LANES_MAX; i++) {
		if (lanes[i].state == LANE_DRAINING || lanes[i].state == LANE_RESTING)
			ready.drained |= 1ULL << i;
		if (lanes[i].state == LANE_RETIRED)
			ready.retired |= 1ULL << i;
	}
	return reap(&ready);
}
