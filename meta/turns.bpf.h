/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns: the root's share goes from lane to lane by the clock, round and round.
 *
 * User space hands in a cycle of turns, each with a policy and a length. Every policy
 * of it has one lane, made once, since queues can be made in sleepable context only;
 * the policy that is in force already has its lane. A timer then changes which of them
 * is the root: one write of the root word, and an interrupt of each CPU that runs tasks
 * of the root's, so that these come through the lane whose turn it is.
 *
 * A lane whose turn is over rests. Its tasks are served beside those of the lane in
 * force, on the root's account: turns go on for ever, and applications with lanes of their
 * own must not pay for them as they do for a lane that drains. It is not freed, and its
 * policy never changes; with its next turn it is the root again, with whatever it still
 * holds. When the cycle ends, lanes that rest drain like any that was replaced.
 *
 * The timer's callback may run beside everything else:
 *
 * - What changes lanes excludes it, see change_try(). A turn that comes while user space
 *   is at it begins some microseconds late.
 * - A callback of a CPU that read the root word before a change acts on the lane that was
 *   the root then: it is served, or its bit in `served` is set before it can be the root
 *   again. A lane that was put aside meanwhile was empty throughout a grace period in
 *   which it had no turn, see reap_resting().
 * - The sweep reads and writes figures of lanes one by one; at the worst it takes a lane
 *   for one that still has the root's share, or no longer, until its next look.
 */
#ifndef METASCHED_TURNS_BPF_H
#define METASCHED_TURNS_BPF_H

#include <lifecycle.bpf.h>

/* A turn that comes while lanes are being changed comes again after so long. */
#define TURN_RETRY_NS (20ULL * 1000)
/*
 * Where turns are as long as this in the mean, lanes that rest are put aside: by then
 * most of a turn is left when user space has seen to it, a look or two after the 5 to 20
 * ms that a lane takes to get empty.
 */
#define TURN_SETTLES_NS (100ULL * 1000 * 1000)

static __always_inline struct turn *turn_at(u32 number)
{
	return &cycle.turn[number & (TURNS_MAX - 1)];
}

/* A lane that has nothing left of its last turn has no claim either for what it missed. */
static __always_inline void turn_limit_credit(struct meta_lane *l)
{
	u64 *vtime = &turn_vtime[l->lane.slot & ROOT_SLOT];

	if (vtime_before(*vtime, level1.turn_vtime_now) && !lane_has_queued(l))
		*vtime = level1.turn_vtime_now;
}

/*
 * The root's share passes on to another lane of the cycle, with the account and the
 * weight. As in lifecycle_replace() all is written before the one word.
 *
 * A charge to the old lane's account that is on its way when it is copied is lost: one
 * run on each CPU at most, of a slice at most.
 *
 * Only the CPUs that run tasks of the root's are told. Where tasks were not watched
 * these are not known, and all are.
 */
static __noinline void root_pass(struct meta_lane *l, u64 now)
{
	u32 root = root_word;
	struct meta_lane *old = lane_at(root);
	u64 bit = slot_bit(l->lane.slot);

	begin_sharing(root);
	l->vtime = old->vtime;
	l->weight = old->weight;
	l->first_queued = !cycle.settles;
	l->first_run_ns = 0;
	l->in_force_ns = now;
	l->state = LANE_ROOT;
	settling &= ~bit;
	lane_set_busy(l);
	__sync_fetch_and_or(&served, bit);
	__sync_fetch_and_and(&resting, ~bit);
	turn_limit_credit(l);
	set_root_word(ROOT_SLOT | ROOT_TASKS, root_word_of(l));
	old->state = LANE_RESTING;
	__sync_fetch_and_or(&resting, slot_bit(old->lane.slot));
	if (root & ROOT_SHARED)
		kick_app(0);
	else
		kick_all(LANES_MAX);
}

/* The turn of that number in the cycle begins. */
static __noinline void turn_begin(u32 number, u64 now, u64 late_ns)
{
	struct begun_turn *told = &cycle.latest[cycle.begun % TURNS_KEPT];
	struct turn *turn = turn_at(number);
	u64 took_ns = 0;

	if (turn->slot != (root_word & ROOT_SLOT)) {
		root_pass(lane_at(turn->slot), now);
		took_ns = bpf_ktime_get_ns() - now;
		cycle.changes++;
		cycle.changing_ns += took_ns;
	}
	cycle.current = number;
	cycle.from_ns = now;
	cycle.late_sum_ns += late_ns;
	if (late_ns > cycle.late_max_ns)
		cycle.late_max_ns = late_ns;
	told->at_ns = now;
	told->late_ns = late_ns;
	told->changing_ns = took_ns;
	WRITE_ONCE(told->number, cycle.begun);
	WRITE_ONCE(cycle.begun, cycle.begun + 1);
}

/* The books of the turn in force, up to now. */
static __always_inline void turn_book(u64 now)
{
	turn_at(cycle.current)->in_force_ns += now - cycle.from_ns;
	cycle.from_ns = now;
}

/*
 * The timer has expired. Turns begin by their schedule and not a length after the last
 * one did, else the time in force would follow lengths and lateness. One that should be
 * over already when it begins has its whole length: no turn is left out.
 */
static void turn_over(void)
{
	u64 now = bpf_ktime_get_ns(), due;
	u32 next;

	if (!change_try()) {
		turn_timer_set(now + TURN_RETRY_NS);
		return;
	}
	if (cycle.turns) {
		due = cycle.due_ns;
		/* It may be one that was set for a cycle that has been replaced. */
		if (now >= due) {
			turn_book(now);
			next = cycle.current + 1;
			if (next >= cycle.turns)
				next = 0;
			turn_begin(next, now, now - due);
			due += turn_at(next)->length_ns;
			if (due <= now)
				due = now + turn_at(next)->length_ns;
			cycle.due_ns = due;
		}
		turn_timer_set(due);
	}
	change_end();
}

/* A lane that rests has no further turn. One that was put aside is empty already. */
static void lane_leave_cycle(struct meta_lane *l)
{
	u64 bit = slot_bit(l->lane.slot);

	if (!(served & bit)) {
		l->state = LANE_RETIRED;
		return;
	}
	l->vtime = lane_at(root_word)->vtime;
	lane_drain(l);
	__sync_fetch_and_and(&resting, ~bit);
}

/* No turns any more: the lane in force stays, the others drain. The timer stops by itself. */
static void turns_stop(void)
{
	u32 i;

	if (!cycle.turns)
		return;
	turn_book(bpf_ktime_get_ns());
	cycle.turns = 0;
	bpf_for(i, 0, LANES_MAX) {
		if (lane_at(i)->state == LANE_RESTING)
			lane_leave_cycle(lane_at(i));
	}
}

/* The slot of a lane for the turns of a policy: one that is there, or a new one; or an error. */
static int turn_lane(u32 policy, u32 number)
{
	struct meta_lane *root = lane_at(root_word);
	u32 i;

	if (root->lane.policy == policy)
		return root->lane.slot;
	walk.slot = -ENOENT;
	bpf_for(i, 0, number) {
		if (turn_at(i)->policy == policy)
			walk.slot = turn_at(i)->slot;
	}
	if (walk.slot >= 0)
		return walk.slot;
	walk.slot = lane_make(policy, WEIGHT_DFL);
	/* Not served yet: its first turn sees to that. */
	if (walk.slot >= 0)
		lane_at(walk.slot)->state = LANE_RESTING;
	return walk.slot;
}

/* Gives each turn its lane; 0 or an error. */
static int turns_make_lanes(void)
{
	struct turn *turn;
	int slot;
	u32 i;

	walk.err = 0;
	bpf_for(i, 0, cycle.turns) {
		turn = turn_at(i);
		slot = turn->length_ns ? turn_lane(turn->policy, i) : -EINVAL;
		if (slot < 0) {
			walk.err = slot;
			break;
		}
		turn->slot = slot;
	}
	return walk.err;
}

/* Whether a turn of the cycle has that lane. */
static bool cycle_has(u32 slot)
{
	u32 i;

	walk.slot = -ENOENT;
	bpf_for(i, 0, cycle.turns) {
		if (turn_at(i)->slot == slot)
			walk.slot = slot;
	}
	return walk.slot >= 0;
}

/*
 * Turns are taken from now on, instead of others if there were any. If that fails none
 * are, and lanes that were made by then are freed.
 */
static int turns_start(struct cycle_args *args)
{
	u32 i, before = root_word & ROOT_SLOT;
	u64 now, sum_ns = 0;
	int err;

	turns_stop();
	if (!args->turns || args->turns > TURNS_MAX)
		return -EINVAL;
	__builtin_memset(&cycle, 0, __builtin_offsetof(struct cycle, turn));
	/* Unrolled: the verifier wants constant offsets into an argument. */
#pragma unroll
	for (i = 0; i < TURNS_MAX; i++) {
		cycle.turn[i].length_ns = args->turn[i].length_ns;
		cycle.turn[i].in_force_ns = 0;
		cycle.turn[i].policy = args->turn[i].policy;
		if (i < args->turns)
			sum_ns += args->turn[i].length_ns;
	}
	now = bpf_ktime_get_ns();
	cycle.from_ns = now;
	cycle.settles = sum_ns >= args->turns * TURN_SETTLES_NS;
	cycle.turns = args->turns;
	err = turns_make_lanes();
	if (err) {
		turns_stop();
		return err;
	}
	turn_begin(0, now, 0);
	if (!cycle_has(before))
		lane_leave_cycle(lane_at(before));
	cycle.due_ns = now + turn_at(0)->length_ns;
	turn_timer_set(cycle.due_ns);
	return 0;
}

#endif
