/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which tasks stand in a lane's queues. CPUs and the sweep look only at those queues that may hold tasks, see
 * marks.bpf.h.
 */
#ifndef METASCHED_QUEUES_BPF_H
#define METASCHED_QUEUES_BPF_H

#include <marks.bpf.h>

/* How many tasks stand in those queues of a lane that belong to no CPU and no cache. */
__noinline u32 lane_queued_anywhere(u32 slot)
{
	struct meta_lane *l = lane_at(slot);
	u32 queue, sum = 0;
	s32 nr;

	bpf_for(queue, 0, lane_shared_queues(l)) {
		nr = scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue));
		if (nr > 0)
			sum += nr;
	}
	return sum;
}

/* How many tasks user space has not decided, where the lane has a queue for them: its last. */
static __always_inline u32 lane_undecided(struct meta_lane *l)
{
	s32 nr;

	if (lane_shared_queues(l) + l->places == l->queues)
		return 0;
	nr = scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, l->queues - 1));
	return nr > 0 ? nr : 0;
}

/* How many tasks a lane has queued; in its places, as the sweep last found them. */
static __always_inline u32 lane_queued(struct meta_lane *l)
{
	return lane_queued_anywhere(l->lane.slot) + lane_undecided(l) + READ_ONCE(l->placed);
}

/* Whether tasks stand in the first so many queues of a lane. */
static __always_inline bool lane_has_in(struct meta_lane *l, u32 queues)
{
	u32 i, queue = 0;

	bpf_for(i, 0, queues) {
		queue = next_queue(l, queue);
		if (queue >= queues)
			break;
		if (scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue)) > 0)
			return true;
		queue++;
	}
	return false;
}

static __noinline bool lane_has_queued(struct meta_lane *l)
{
	return lane_has_in(l, l->queues);
}

/* Whether tasks stand in queues from which a CPU may take them. */
static __noinline bool lane_has_ready(struct meta_lane *l)
{
	u32 found = any_places() ? READ_ONCE(l->found) : 0;

	/* Where many stand, most often one is where the sweep has found one. */
	if (found && scx_bpf_dsq_nr_queued(l->lane.llc_dsq + found - 1) > 0)
		return true;
	return lane_has_in(l, l->ready);
}

/*
 * For the sweep: whether tasks are queued. If there are too many places to pass in one sweep, a lane whose
 * places it has not passed lately counts as one with tasks. A task that came since the sweep last passed has
 * set its account's bit: see account_arrival().
 */
static __noinline bool lane_may_have_queued(struct meta_lane *l)
{
	if (lane_queued(l))
		return true;
	return any_places() && l->places && marking.sweeps - l->passed >= ARRIVED_SWEEPS;
}

/* Whether all queues are empty. It ignores the marks, since a lane must be empty before it is freed. */
static __noinline bool lane_is_empty(struct meta_lane *l)
{
	u32 queue;

	bpf_for(queue, 0, l->queues) {
		if (scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue)) > 0)
			return false;
	}
	return true;
}

/*
 * Level 1 takes a task of the lane to this CPU without its policy: whichever may
 * run here, in the order of the lane's queues.
 */
static __noinline bool lane_move_any(struct meta_lane *l)
{
	u32 i, queue = 0;

	bpf_for(i, 0, l->ready) {
		queue = next_queue(l, queue);
		if (queue >= l->ready)
			break;
		if (scx_bpf_dsq_move_to_local(lane_dsq(&l->lane, queue)))
			return true;
		queue++;
	}
	return false;
}

#endif
