/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns: the root account's lane in force changes by the clock, round and round.
 *
 * User space hands in a cycle of turns, each with a policy and a length. Every policy
 * of it has one lane, made once, since queues can be made in sleepable context only;
 * the policy that is in force already has its lane. A timer then changes which of them
 * is the root: one write of the root word, and an interrupt of each CPU that runs tasks
 * of the root's, so that these come through the lane whose turn it is.
 *
 * A lane whose turn is over rests. Its tasks are served beside those of the lane in
 * force. It is not freed, and its policy never changes; with its next turn it is the root
 * again, with whatever it still holds. When the cycle ends, lanes that rest drain like any
 * that was replaced.
 *
 * Of a lane that rests and the one in force neither can come first. A turn that is shorter than
 * a slice has every CPU choose anew, so a task that runs at each second change comes back to the
 * same lane for ever: alone in one it would have half a CPU beside nine in the other. So they
 * are compared by turn_vtime, what each of their tasks has had in the mean, and a task waits as
 * long as it would in one queue.
 *
 * The timer's callback may run beside everything else:
 *
 * - What changes lanes excludes it, see change_try(). A turn that comes while user space
 *   is at it begins some microseconds late.
 * - A callback of a CPU that read the root word before a change acts on the lane that was
 *   the root then: it is served, or is among the root's lanes before it can be the root
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

static __always_inline struct turn *turn_at(u32 number)
{
	return &cycle.turn[number & (TURNS_MAX - 1)];
}

/* A lane that became empty has no claim for the time that it missed meanwhile. */
static __always_inline void turn_limit_credit(struct meta_lane *l)
{
	if (vtime_before(l->turn_vtime, level1.turn_vtime_now) && !lane_has_queued(l))
		l->turn_vtime = level1.turn_vtime_now;
}

/*
 * The next lane of the cycle is in force. As in lifecycle_replace() all is written before
 * the one word.
 *
 * Only the CPUs that run tasks of the root's are told. Where tasks were not watched
 * these are not known, and all are.
 */
static __noinline void root_pass(struct meta_lane *l, u64 now)
{
	u32 root = root_word;
	struct meta_lane *old = lane_at(root);

	begin_sharing(root);
	l->first_queued = !cycle.settles;
	l->first_run_ns = 0;
	l->in_force_ns = now;
	l->settled_at = 0;
	l->state = LANE_IN_FORCE;
	if (!l->served)
		account_add(l);
	turn_limit_credit(l);
	if (root & ROOT_LANES)
		account_arrival(ROOT_ACCOUNT);
	account_at(ROOT_ACCOUNT)->lane = l->lane.slot + 1;
	set_root_word(ROOT_SLOT | ROOT_TASKS, root_word_of(l));
	old->settled_at = 0;
	old->state = LANE_RESTING;
	kick_cpus(root & ROOT_SHARED ? KICK_ACCOUNT : KICK_ALL, ROOT_ACCOUNT);
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
	if (l->served)
		l->settled_at = 0;
	l->state = l->served ? LANE_DRAINING : LANE_RETIRED;
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

/* The slot of a lane for the turns of a variant: one that is there, or a new one; or an error. */
static int turn_lane(u32 variant, u32 number)
{
	struct meta_lane *root = lane_at(root_word);
	u32 i;

	if (root->lane.variant == variant)
		return root->lane.slot;
	walk.slot = -ENOENT;
	bpf_for(i, 0, number) {
		if (turn_at(i)->variant == variant)
			walk.slot = turn_at(i)->slot;
	}
	if (walk.slot >= 0)
		return walk.slot;
	walk.slot = lane_make(variant, ROOT_ACCOUNT);
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
		slot = turn->length_ns ? turn_lane(turn->variant, i) : -EINVAL;
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
		cycle.turn[i].variant = args->turn[i].variant;
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
