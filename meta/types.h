/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel program and user space share: declared here once; the Rust
 * types are generated from the program's BTF.
 */
#ifndef METASCHED_TYPES_H
#define METASCHED_TYPES_H

#include <lane.h>

/* A policy's number is its line in policies.def. */
enum policy_id {
#define POLICY(name, queues, summary) POLICY_##name,
#define TASK_POLICY(name, queues, summary) POLICY_##name,
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	POLICIES,
};

/*
 * The life of a lane. A lane's policy never changes; the lane is replaced.
 *
 *	FREE -> ROOT -> DRAINING -> RETIRED -> FREE
 *
 * DRAINING to RETIRED when its queues are empty and no callback can still insert
 * into them; RETIRED to FREE when no callback can still look at them.
 */
enum lane_state {
	LANE_FREE,
	LANE_ROOT, /* every task that is enqueued comes here */
	LANE_DRAINING, /* replaced: served by weight until empty, see dispatch_shared() */
	LANE_RETIRED, /* empty, no longer served, its queues not yet destroyed */
};

/* A lane with what level 1 keeps about it. */
struct meta_lane {
	struct lane lane;

	u32 state; /* enum lane_state */
	u32 queues; /* how many of its dispatch queues exist */
	u32 weight; /* its share among busy lanes, WEIGHT_DFL by default */
	u32 nr_queued; /* as count_queued() last found it */
	u64 in_force_ns; /* when it became the root lane, CLOCK_MONOTONIC */
	u64 first_run_ns; /* when a task first ran that came through it; 0: not yet */
	u64 first_queued; /* whether a CPU was told of its first task */

	/* Written whenever several lanes are served. */
	u64 vtime; /* ns at WEIGHT_DFL */
	u64 runtime_ns; /* measured run time of its tasks, while several lanes were served */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct meta_lane) == 192, "generated types and the map's size depend on it");

/* The argument of replace_root(). */
struct replace_args {
	u32 policy; /* enum policy_id */
	u32 weight;
};

_Static_assert(sizeof(struct replace_args) == 8, "laid out by hand in user space");

/* What replace_root() did. */
struct replace_result {
	u64 generation;
	u64 at_ns; /* just before the write that put the new lane in force */
	u32 slot;
	u32 pad;
};

/*
 * What reap() is given and what it leaves: bits of slots. It says which lanes could
 * move on if no callback still acted on an older state; user space waits for a
 * grace period and hands the same bits in again.
 */
struct reap_set {
	u64 drained; /* drain, and had nothing queued */
	u64 retired;
};

_Static_assert(sizeof(struct reap_set) == 16, "laid out by hand in user space");

#define EXIT_REASON_LEN 128
#define EXIT_MSG_LEN 1024
#define EXIT_DUMP_LEN 32768

/* Why the kernel ended the program; kind is written last, 0 while it runs. */
struct exit_record {
	u32 kind; /* enum scx_exit_kind */
	u32 pad;
	s64 code;
	char reason[EXIT_REASON_LEN];
	char msg[EXIT_MSG_LEN];
};

#endif
