/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of lanes, the one word that says what is in force, and the accounts
 * by which level 1 shares CPUs between lanes.
 */
#ifndef METASCHED_LANES_BPF_H
#define METASCHED_LANES_BPF_H

#include <sched.bpf.h>
#include <types.h>
#include <tasks.bpf.h>

#define ENOENT 2
#define ENODEV 19
#define EAGAIN 11
#define EBUSY 16
#define EINVAL 22
#define ENOSPC 28

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

/*
 * The longest slice while other lanes have work: how long a lane that lags may
 * have to wait for a CPU.
 */
#define SHARED_SLICE_NS (2ULL * 1000 * 1000)
/*
 * The most vtime by which a lane that had nothing to run may lag behind, and by
 * which a new root lane may be ahead and still have its first run.
 */
#define LANE_CREDIT_NS (20ULL * 1000 * 1000)
/*
 * How much more than another lane the lanes that drain get, together. Their tasks
 * came first: at even shares, whoever was queued when the lane was replaced would
 * wait twice as long as without a change, at 8 : 1 an eighth longer.
 */
#define DRAIN_SHARE 8
/*
 * By how much the lane of a task that wakes must lag behind the one that has the
 * CPU to take it away. A preemption costs a switch there and one back, 2 to 5 us
 * on current machines; what the lane has lagged it runs before it can do that
 * again, so at 500 us at most one hundredth of the CPU goes into preemptions.
 */
#define WAKE_LAG_NS (500ULL * 1000)

/*
 * So often a choice of a CPU goes to the next lane in order of slots instead of the one
 * that lags most. A lane's share may come from other CPUs, and tasks of it that may run
 * on this one only would wait for ever beside lanes that have no other CPU. So a lane
 * has its turn here after 64 ms times the number of lanes, or twice that: a choice that
 * a lane which lags has asked for is left to it as long.
 */
#define ROTATION_NS (64ULL * 1000 * 1000)

/*
 * The queue of kernel threads that any CPU may take, while applications have lanes: each
 * looks there before it looks at lanes. No lane has generation 0.
 */
#define KTHREADS_DSQ 2ULL

/*
 * What is in force, in one word so that one write changes it.
 *
 *	 31        11 10         9         8           7         6 5      0
 *	+-------------+----------+---------+-----------+---------+--------+
 *	|      0      | LIMITS 10| LANES 9 | TRACKED 8 | TASKS 7 |  slot  |
 *	+-------------+----------+---------+-----------+---------+--------+
 */
#define ROOT_SLOT (LANES_MAX - 1) /* mask: the slot of the root lane */
#define ROOT_TASKS (1U << 7) /* the root lane's policy keeps state per task */
#define ROOT_TRACKED (1U << 8) /* an earlier root lane drains, or the first run is awaited */
#define ROOT_LANES (1U << 9) /* applications have lanes of their own */
#define ROOT_LIMITS (1U << 10) /* cgroups have limits in cpu.max */
#define ROOT_SHARED (ROOT_TRACKED | ROOT_LANES)
#define ROOT_WATCHED (ROOT_TASKS | ROOT_SHARED)
#define ROOT_SWEPT (ROOT_LANES | ROOT_LIMITS) /* the sweep has something to do */

/* Written by set_root_word() only. */
u32 root_word;
/* Counts changes of cgroups' assignments and limits: what is older is looked up anew. */
u64 assign_seq;
/* Slots of lanes that may hold tasks: the root's, applications', and those that were replaced. */
u64 served;
/* Those of them that drain. */
u64 draining;
/* Those of them that rest until their next turn. */
u64 resting;
/* The turns that the root's share goes through, see turns.bpf.h. */
struct cycle cycle;
/* dsq of the root lane that was in force when sharing last began. */
u64 predecessor;
/* Counts the times that watching began: what is older is not to be trusted. */
u64 watch_episode;
/* Generations given out. */
u64 generations;

struct meta_lane lanes[LANES_MAX];

/* Written while several lanes are served; on a cache line of its own. */
struct {
	u64 vtime_now; /* the highest vtime of a lane that was served in its turn */
	u64 drain_vtime; /* of all lanes that drain, together */
	u64 turn_vtime_now; /* the highest turn_vtime of a lane of the cycle that was charged */
} level1 __attribute__((aligned(64)));

/*
 * Of each lane that has or had the root's share in a cycle of turns: what each of its
 * tasks has had, in the mean. Lanes that rest and the one in force are compared by it, so
 * that a task waits as long as it would in one queue, whichever of them it stands in.
 * Written while lanes rest.
 */
u64 turn_vtime[LANES_MAX] __attribute__((aligned(64)));

/*
 * Which lanes may have tasks queued, so that idle ones cost nothing. A callback
 * sets its lane's bit before it inserts. Only the sweep clears, lanes to which no task
 * came since the sweep before, and remembers for one sweep more what it cleared: a task
 * may come while it looks.
 */
struct {
	u64 lanes;
	u64 lingering;
	u64 urgent; /* have waited too long: to be served before all others */
} busy __attribute__((aligned(64)));

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

static __always_inline u64 slot_bit(u32 slot)
{
	return 1ULL << (slot & ROOT_SLOT);
}

/* Where the lowest bit of a u64 is, by the product of that bit with LOWEST_BIT_KEY. */
#define LOWEST_BIT_KEY 0x0218a392cd3d5dbfULL
const u8 lowest_bit_at[64] = {
	0,  1,	2,  7,	3,  13, 8,  19, 4,  25, 14, 28, 9,  34, 20, 40, 5,  17, 26, 38, 15, 46,
	29, 48, 10, 31, 35, 54, 21, 50, 41, 57, 63, 6,	12, 18, 24, 27, 33, 39, 16, 37, 45, 47,
	30, 53, 49, 56, 62, 11, 23, 32, 36, 44, 52, 55, 61, 22, 43, 51, 60, 42, 59, 58,
};

/* The lowest slot in a set that is not empty. */
static __always_inline u32 lowest_slot(u64 slots)
{
	u32 slot = lowest_bit_at[((slots & -slots) * LOWEST_BIT_KEY) >> 58];

	/* The compiler knows what the table holds and drops masks; the verifier needs them. */
	barrier_var(slot);
	return slot;
}

/* The lane of that slot if it is still the one of that generation, or NULL. */
static __always_inline struct meta_lane *lane_if_current(u32 slot, u64 generation)
{
	struct meta_lane *l = lane_at(slot);

	return generation && l->lane.generation == generation ? l : NULL;
}

/*
 * Lanes that a CPU which chooses has to consider. Only those that are served: the
 * sweep may still say something about a lane that was retired meanwhile.
 */
static __always_inline u64 candidate_lanes(u32 root)
{
	u64 set = READ_ONCE(served);

	if (!(root & ROOT_LANES))
		return set;
	return set & (READ_ONCE(busy.lanes) | READ_ONCE(busy.lingering) | READ_ONCE(draining) |
		      READ_ONCE(resting));
}

/* Whether no task comes to the lane any more, or none before its next turn. */
static __always_inline bool lane_was_replaced(struct meta_lane *l)
{
	return l->state == LANE_DRAINING || l->state == LANE_RESTING;
}

/* The lane on whose account its tasks run: lanes that rest have the root's share. */
static __always_inline struct meta_lane *lane_payer(struct meta_lane *l, u32 root)
{
	return l->state == LANE_RESTING ? lane_at(root) : l;
}

/* Whether any lane but this one may have work that is queued, or runs and may be again. */
static __always_inline bool others_have_work(struct meta_lane *l, u32 root)
{
	return candidate_lanes(root) & ~slot_bit(l->lane.slot);
}

/*
 * A task comes to the lane. The insert is made after the callback, so that a sweep
 * meanwhile finds nothing queued: it must not take the lane for idle.
 */
static __always_inline void lane_arrival(struct meta_lane *l)
{
	if (!READ_ONCE(l->arrived))
		WRITE_ONCE(l->arrived, 1);
}

/* Says that the lane has work; false if that was known. */
static __always_inline bool lane_set_busy(struct meta_lane *l)
{
	u64 bit = slot_bit(l->lane.slot);

	if (likely(READ_ONCE(busy.lanes) & bit))
		return false;
	__sync_fetch_and_or(&busy.lanes, bit);
	return true;
}

/* How many tasks a lane has queued. */
static __noinline u32 lane_queued(struct meta_lane *l)
{
	u32 queue, sum = 0;
	s32 nr;

	bpf_for(queue, 0, l->queues) {
		nr = scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue));
		if (nr > 0)
			sum += nr;
	}
	return sum;
}

/*
 * Charges a lane of a cycle with what each of its tasks had of a run. Weights of tasks
 * are their policy's business and do not count here. The two adds and the comparison are
 * not one: turn_vtime_now may be behind by a run.
 */
static __noinline void lane_charge_turn(struct meta_lane *l, u64 vtime_ns)
{
	u64 *vtime = &turn_vtime[l->lane.slot & ROOT_SLOT];

	__sync_fetch_and_add(vtime, vtime_ns / (lane_queued(l) + 1));
	if (vtime_before(level1.turn_vtime_now, *vtime))
		level1.turn_vtime_now = *vtime;
}

/*
 * Charges a lane for what one of its tasks ran. Only while several are served,
 * so that a lane alone pays for no atomics. Lanes that drain share one account:
 * however often lanes are replaced, their successors have their share. Lanes that rest
 * are charged to the root lane.
 */
static __always_inline void lane_charge(struct meta_lane *l, u64 ran_ns)
{
	u64 vtime_ns = weighted_ns(ran_ns, l->weight);

	if (l->state == LANE_DRAINING)
		__sync_fetch_and_add(&level1.drain_vtime, vtime_ns / DRAIN_SHARE);
	else
		__sync_fetch_and_add(&lane_payer(l, READ_ONCE(root_word))->vtime, vtime_ns);
	__sync_fetch_and_add(&l->runtime_ns, ran_ns);
	if (unlikely(READ_ONCE(resting)) && (l->state == LANE_RESTING || l->state == LANE_ROOT))
		lane_charge_turn(l, vtime_ns);
}

/*
 * A lane that had nothing to run comes back at most LANE_CREDIT_NS behind.
 *
 * The write may undo what another CPU charges to the lane at this moment: one
 * run, a slice at most, is then not charged. The lane was idle, so that is rare.
 */
static __always_inline void lane_limit_credit(struct meta_lane *l)
{
	u64 floor = READ_ONCE(level1.vtime_now) - LANE_CREDIT_NS;

	if (vtime_before(l->vtime, floor))
		l->vtime = floor;
}

static __noinline bool lane_has_queued(struct meta_lane *l)
{
	u32 queue;

	bpf_for(queue, 0, l->queues) {
		if (scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue)) > 0)
			return true;
	}
	return false;
}

#endif
