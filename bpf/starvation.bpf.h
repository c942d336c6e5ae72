/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An end to the starvation of a queue that is served after another one.
 */
#ifndef METASCHED_STARVATION_BPF_H
#define METASCHED_STARVATION_BPF_H

#include <sched.bpf.h>

/* So long a CPU serves the queue that comes first, if others serve the other one. */
#define QUEUE_HERE_NS (100ULL * 1000 * 1000)

/* A CPU's state for such a queue, in the policy's state of the CPU. */
struct queue_here {
	u64 served_ns; /* when this CPU last served it */
	u32 rescued; /* it came first the last time */
	u32 unused;
};

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
 * A task of the queue has run, or is about to: the wait of the queue begins anew. Call this at both ends
 * of a run, since a run may be longer than the queue may wait.
 */
static __always_inline void queue_has_its_turn(u64 *since_ns)
{
	WRITE_ONCE(*since_ns, scx_bpf_now());
}

/* In dispatch: the queue was served on this CPU. */
static __always_inline void queue_has_its_turn_here(u64 *since_ns, struct queue_here *here)
{
	queue_has_its_turn(since_ns);
	here->served_ns = scx_bpf_now();
}

/* In dispatch: serves the queue. */
static __always_inline bool queue_serve(struct lane *lane, u64 dsq, u64 *since_ns,
					struct queue_here *here)
{
	if (!lane_move_to_local(lane, dsq))
		return false;
	queue_has_its_turn_here(since_ns, here);
	return true;
}

/*
 * In dispatch: serves the queue if it was not for more than @most_ns. Turns on other CPUs are none for
 * a task that is bound to this one: so each CPU serves it if it has not for QUEUE_HERE_NS either. Where
 * nobody of it may run here, the CPU has looked through all of it, and tries again that much later.
 *
 * A CPU does so every second time at most: the lane may have its turns here so seldom that the queue
 * has always waited for too long, and then the other one would starve.
 */
__weak __noinline bool queue_serve_starving(struct lane *lane __arg_nonnull, u64 dsq,
					    u64 *since_ns __arg_nonnull,
					    struct queue_here *here __arg_nonnull, u64 most_ns)
{
	bool starves_here = queue_starves(dsq, here->served_ns,
					  most_ns > QUEUE_HERE_NS ? most_ns : QUEUE_HERE_NS);
	bool turn_of_other = here->rescued;

	here->rescued = false;
	if (likely(!starves_here && !queue_starves(dsq, *since_ns, most_ns)))
		return false;
	if (turn_of_other)
		return false;
	if (starves_here)
		here->served_ns = scx_bpf_now();
	here->rescued = queue_serve(lane, dsq, since_ns, here);
	return here->rescued;
}

#endif
