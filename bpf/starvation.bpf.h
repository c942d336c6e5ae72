/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An end to the starvation of a queue that is served after another one.
 */
#ifndef METASCHED_STARVATION_BPF_H
#define METASCHED_STARVATION_BPF_H

#include <sched.bpf.h>

/*
 * Before a task is put into the queue: its waiting begins now if nobody waits there. @since_ns is
 * the policy's, in the lane's state. Two CPUs may both write: the times differ by what those take.
 */
static __always_inline void queue_waits(u64 dsq, u64 *since_ns)
{
	if (scx_bpf_dsq_nr_queued(dsq) <= 0)
		WRITE_ONCE(*since_ns, scx_bpf_now());
}

/* Whether somebody waits in the queue that was not served for more than @most_ns. */
static __always_inline bool queue_starves(u64 dsq, u64 since_ns, u64 most_ns)
{
	return vtime_before(since_ns + most_ns, scx_bpf_now()) &&
	       scx_bpf_dsq_nr_queued(dsq) > 0;
}

/*
 * A task of the queue has run, or is about to: who still waits there waits anew. Said at both ends
 * of its run, since that may be longer than the queue may wait.
 */
static __always_inline void queue_has_its_turn(u64 *since_ns)
{
	WRITE_ONCE(*since_ns, scx_bpf_now());
}

/* In dispatch: serves the queue. */
static __always_inline bool queue_serve(struct lane *lane, u64 dsq, u64 *since_ns)
{
	if (!lane_move_to_local(lane, dsq))
		return false;
	queue_has_its_turn(since_ns);
	return true;
}

#endif
