/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A lane, as its policy sees it: a running instance of that policy, with its
 * own queues, options and state. Two lanes of one policy share nothing.
 */
#ifndef METASCHED_LANE_H
#define METASCHED_LANE_H

/* Slots for lanes: 63 applications and the root can all have theirs replaced. */
#define LANES_MAX 128
/* Dispatch queues of one kind that a policy may have: enough for qmap's five. */
#define LANE_QUEUES_MAX 8
/* Of the id of a queue, below its lane's generation: see make_dsq_id(). */
#define LANE_DSQ_BITS 24
/* The low bits of a vtime that may be a mark of the policy's own, see lane_hand_marked(). */
#define LANE_MARK_BITS 24
#define LANE_MARK_MASK ((1ULL << LANE_MARK_BITS) - 1)
/* In place of a vtime: of nobody. */
#define LANE_NOBODY (~0ULL)
/* Options and counters per policy. */
#define LANE_OPTIONS_MAX 12
#define LANE_COUNTERS_MAX 16
/*
 * Bytes of state that a policy keeps per lane, task, CPU, cache and cgroup: a cache line each; two of a CPU,
 * where pv has a gang beside what the CPU runs; and seven of a cache, where fair has notes of tasks that sleep.
 */
#define LANE_STATE_BYTES 64
#define TASK_STATE_BYTES 64
#define CPU_STATE_BYTES 128
#define LLC_STATE_BYTES 448
#define GROUP_STATE_BYTES 64
/* Sets of CPUs per lane. */
#define LANE_CPU_SETS_MAX 4

/*
 * A policy or a preset of one, by a number: below this that of a policy, from here on the place of
 * a preset in presets.def. So the number of a preset does not depend on which policies there are.
 */
#define PRESETS_FIRST 64

/* What few policies use: level 1 looks for it only while a lane's policy does. See policy.h. */
#define USES_TICK 1
#define USES_RUNNABLE 2 /* or quiescent */
#define USES_TIMER 4
#define USES_ANSWER 8
#define USES_INFINITE 16
#define USES_GROUPS 32
#define USES_PLACES 64 /* queues that belong to a cache or a CPU */
#define USES_REST 128
#define USES_AWAKE 256
#define USES_ENDS 512

/* 100 is the weight of a task with nice 0 and of a cgroup nobody has touched. */
#define WEIGHT_DFL 100
/* Of a cgroup with cpu.idle; the fair class gives it three tenths of that. */
#define WEIGHT_IDLE 1
/* Where weights are divided: so many bits behind the point. */
#define WEIGHT_BITS 12

struct lane {
	/* Read on every path, written only before the lane is in force. */
	u64 dsq; /* the id of its first queue, see lane_dsq() */
	u64 llc_dsq; /* of the first that belongs to a last-level cache */
	u64 cpu_dsq; /* of the first that belongs to a CPU */
	u64 generation; /* never used twice while the program is loaded */
	u32 slot; /* its index, used again once the lane is freed */
	u32 policy; /* enum policy_id */
	u64 options[LANE_OPTIONS_MAX];
	u32 variant; /* what user space asked for: a policy, or a preset of it */
	u32 unused_word;
	u64 unused[6];

	/* The policy's own, on a cache line of its own because it is written. */
	u64 state[LANE_STATE_BYTES / 8];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct lane) == 256, "three cache lines that are read, one that is written");

/*
 * What a policy keeps of each task. It is zero when the task first meets the policy, and
 * the task keeps it when it changes to another lane of the same policy, or comes back to
 * one: what must begin anew there, join() sets.
 */
struct lane_task {
	u64 state[TASK_STATE_BYTES / 8];
};

/*
 * A cgroup, for policies that keep something of each; see lane_group(). Measured is what level 1
 * counts once for all lanes and CPUs, while a lane asks for it; what a policy decides about a
 * cgroup is in @state, which is zero when a task of it first comes to a lane of that policy.
 */
struct lane_group {
	u64 ran_ns; /* measured: what tasks directly in it have run; it never falls */
	u64 serial; /* no two have the same, and a new one when @state begins anew; 0: none */
	u32 place; /* of the cgroup, see lane_group_find() */
	u32 unused;
	u64 state[GROUP_STATE_BYTES / 8];
};

/* A run of a task, from "running" to "stopping". */
struct lane_run {
	u64 ran_ns; /* measured */
	/*
	 * The slices that it got, less than the policy asked for where level 1 cut them. A
	 * task that is runnable and ran for less was preempted, or yielded.
	 */
	u64 granted_ns;
	u64 runnable; /* whether it would go on */
};

/* What a policy's half in user space decided for a task. It is a user's: nothing of it is certain. */
struct lane_decision {
	u64 order; /* a key: what has less comes first */
	u64 slice_ns;
	s64 cpu; /* where it is to run if that CPU is idle; -1: anywhere */
};

/* Where a task goes that was decided. */
struct lane_place {
	u64 dsq; /* a queue of its lane */
	u64 slice_ns;
	u64 vtime; /* where @by_vtime */
	u32 by_vtime; /* whether that queue is in the order of vtime */
	s32 cpu; /* it is told of the task if it is idle; -1: any that is */
	s32 ends; /* a CPU that is to choose anew, though it runs a task of the lane; -1: none */
};

/* The policy's own struct, laid over the state words of a lane, a task, a CPU, a cache or a cgroup. */
#define STATE_OF(owner, type)                                                                      \
	({                                                                                         \
		_Static_assert(sizeof(type) <= sizeof((owner)->state), "state words exceeded");    \
		(type *)(owner)->state;                                                            \
	})

/* The number of a word of such a struct, by which level 1 finds it: see lane_move_before(). */
#define STATE_WORD(type, member) (__builtin_offsetof(type, member) / 8)

/*
 * An option is declared once, in the policy's options.h, as
 *	OPTION(policy, name, unit, default, min, max, help)
 * and a counter as
 *	COUNTER(policy, name, description)
 * These turn the lists into indices of lane->options and of lane_count().
 */
#define OPTION_INDEX(policy, name, ...) policy##_option_##name,
#define COUNTER_INDEX(policy, name, ...) policy##_counter_##name,

#endif
