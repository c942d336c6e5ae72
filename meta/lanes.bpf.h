/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of lanes, and the one word that says what is in force.
 */
#ifndef METASCHED_LANES_BPF_H
#define METASCHED_LANES_BPF_H

#include <sched.bpf.h>
#include <types.h>
#include <tasks.bpf.h>

#define ENOENT 2
#define E2BIG 7
#define ENODEV 19
#define EAGAIN 11
#define EBUSY 16
#define ENOSYS 38
#define EINVAL 22
#define ENOSPC 28

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

/*
 * What is in force, in one word so that one write changes it.
 *
 *	 31        12 11         10        9           8       7 6      0
 *	+------------+----------+---------+-----------+---------+--------+
 *	|      0     | LIMITS 11| LANES 10| TRACKED 9 | TASKS 8 |  slot  |
 *	+------------+----------+---------+-----------+---------+--------+
 */
#define ROOT_SLOT (LANES_MAX - 1) /* mask: the slot of the root lane */
#define ROOT_TASKS (1U << 8) /* the root lane's policy keeps state per task */
#define ROOT_TRACKED (1U << 9) /* an earlier root lane drains, or the first run is awaited */
#define ROOT_LANES (1U << 10) /* applications have lanes of their own */
#define ROOT_LIMITS (1U << 11) /* cgroups have limits in cpu.max */
#define ROOT_SHARED (ROOT_TRACKED | ROOT_LANES)
#define ROOT_WATCHED (ROOT_TASKS | ROOT_SHARED)
#define ROOT_SWEPT (ROOT_LANES | ROOT_LIMITS) /* the sweep has something to do */

/*
 * An account is idle when no task has come to it or run for it at a tick for so many sweeps:
 * 12 ms, which is longer than a tick of HZ=100. A task that runs alone is enqueued nowhere.
 */
#define ARRIVED_SWEEPS 3

/* Written by set_root_word() only. */
u32 root_word;
/* Counts changes of cgroups' assignments and limits: what is older is looked up anew. */
u64 assign_seq;
/* The turns that the root's share goes through, see turns.bpf.h. */
struct cycle cycle;
/* dsq of the root lane that was in force when sharing last began. */
u64 predecessor;
/* Counts the times that watching began: what is older is not to be trusted. */
u64 watch_episode;
/* Generations given out. */
u64 generations;

struct meta_lane lanes[LANES_MAX];

/*
 * Changes what is in force: clears bits, then sets others. What user space calls and
 * the callbacks about cgroups may do so at the same time.
 */
static __noinline void set_root_word(u32 clear, u32 set)
{
	u32 i, was;

	bpf_for(i, 0, 1000) {
		was = READ_ONCE(root_word);
		if (__sync_val_compare_and_swap(&root_word, was, (was & ~clear) | set) == was)
			break;
	}
}

static __always_inline struct meta_lane *lane_at(u32 slot)
{
	return &lanes[slot & ROOT_SLOT];
}

/* The lane of that slot if it is still the one of that generation, or NULL. */
static __always_inline struct meta_lane *lane_if_current(u32 slot, u64 generation)
{
	struct meta_lane *l = lane_at(slot);

	return generation && l->lane.generation == generation ? l : NULL;
}

#endif
