/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Earliest eligible virtual deadline first (Stoica and Abdel-Wahab, 1995), without locks.
 *
 * Tasks that compete have a virtual run time each: what they ran, divided by their weights. The
 * average of these by weight is the virtual time of their queue, `now`. A task's lag is `now` less its
 * own virtual run time: the time that it is owed. A task that owes nothing is eligible. A task requests
 * one slice at a time. Its deadline is one slice, divided by its weight, after its virtual run
 * time. The eligible task with the earliest deadline runs.
 *
 *	now = sum(vruntime * weight) / sum(weight)
 *	lag = now - vruntime
 *	deadline = vruntime + slice / weight
 *
 * `now` is updated at each change. A run of d moves it by d / sum(weight). A task that leaves or joins
 * with a lag moves it by as much as the average changes:
 *
 *	leaves:	now += lag * weight / (sum(weight) - weight)
 *	joins:	now -= lag * weight / sum(weight) (before it joined), and its vruntime lies so far before
 *		the new `now` as it is owed
 *
 * A task that owes and leaves a group that goes on, or comes back to it, does not move `now`: the group has had
 * that time. Else a thousand tasks of it that each run a little, and sleep or end in debt, would have
 * the CPU one after another, and a task beside them would wait until they are done.
 *
 * Several CPUs do so at once, by atomic additions. Two CPUs that read the same sum may each be wrong by
 * what the other adds. Such errors do not add up: a task that competes alone sets `now` to its own virtual
 * run time, and where no task is eligible `now` is set to that of the task that runs, see eevdf_first().
 *
 * The policy keeps the queue itself, with the deadlines as keys.
 */
#ifndef METASCHED_EEVDF_BPF_H
#define METASCHED_EEVDF_BPF_H

#include <sched.bpf.h>

/* Weights are in parts: 100 is this. */
#define EEVDF_WEIGHT_DFL ((u64)WEIGHT_DFL << WEIGHT_BITS)
/* The most that a run is charged with at once, and the farthest that times lie apart: a minute. */
#define EEVDF_LONGEST_NS (1ULL << 36)
/* A request that is nearly served is not worth a switch. */
#define EEVDF_LEAST_SLICE_NS (100ULL * 1000)
/* A run goes on so much longer than its slice at most: to the next tick at HZ=250. */
#define EEVDF_TICK_NS (4ULL * 1000 * 1000)

/* Those that compete with each other. */
struct eevdf_queue {
	u64 now; /* ns at EEVDF_WEIGHT_DFL */
	u64 weight; /* of all of them, those that run included */
};

/* A task. */
struct eevdf_task {
	u64 vruntime; /* ns at EEVDF_WEIGHT_DFL */
	u64 deadline;
	s64 lag; /* while it competes nowhere: its lag when it left */
	u64 left_at; /* and the `now` of its queue then */
	union {
		u64 charged_ns; /* of the run that it is in */
		u64 queued_ns; /* while it is queued: since when; the policy's to set */
		u64 ticket; /* while it sleeps: the policy's */
	};
	u32 weight; /* 0: it competes nowhere */
	u16 queue; /* the number of its queue: the policy's to choose and to look up */
	u16 more; /* the policy's, where it keeps something else of the task */
};

/* The virtual time that @ns take at @weight. */
static __always_inline u64 eevdf_vtime(u64 ns, u64 weight)
{
	if (ns > EEVDF_LONGEST_NS)
		ns = EEVDF_LONGEST_NS;
	return ns * EEVDF_WEIGHT_DFL / (weight ? weight : 1);
}

/* @lag * @weight / @by. The product may need all 64 bits, so that none is left for a sign. */
static __always_inline s64 eevdf_scale(s64 lag, u64 weight, u64 by)
{
	if (!by)
		return 0;
	return lag < 0 ? -(s64)((u64)-lag * weight / by) : (s64)((u64)lag * weight / by);
}

/* The bound of a lag, either way: one request and one tick. */
static __always_inline s64 eevdf_bounded(s64 lag, u64 slice_ns, u64 weight)
{
	s64 bound = eevdf_vtime(slice_ns + EEVDF_TICK_NS, weight);

	if (lag > bound)
		return bound;
	return lag < -bound ? -bound : lag;
}

/* Whether the task is owed something, or nothing. */
static __always_inline bool eevdf_eligible(const struct eevdf_queue *q, u64 vruntime)
{
	return !vtime_before(READ_ONCE(q->now), vruntime);
}

/*
 * The task competes in @q from now on, with the lag that it left with. While it competes nowhere it
 * pays back what it owes as time goes on there, and keeps what it is owed: call eevdf_rests()
 * first. @others: others of its group compete.
 */
static __always_inline void eevdf_join(struct eevdf_queue *q, struct eevdf_task *t, u32 weight,
				       u64 slice_ns, bool others)
{
	u64 now = READ_ONCE(q->now), all = READ_ONCE(q->weight);
	s64 lag = all ? eevdf_bounded(t->lag, slice_ns, weight) : 0, moved = 0;

	/* Its own weight moves the average towards it: it has that lag only from farther away. */
	if (lag > 0 || !others)
		moved = eevdf_scale(lag, weight, all);
	t->weight = weight;
	t->vruntime = now - lag - moved;
	t->deadline = t->vruntime + eevdf_vtime(slice_ns, weight);
	t->charged_ns = 0;
	__sync_fetch_and_add(&q->weight, weight);
	if (moved)
		__sync_fetch_and_add(&q->now, -moved);
}

/*
 * Takes a task of that virtual run time and weight out of the competition. @others: others of its group
 * compete on. Returns its lag.
 */
static __always_inline s64 eevdf_goes(struct eevdf_queue *q, u64 vruntime, u64 weight, u64 slice_ns,
				      bool others)
{
	u64 now = READ_ONCE(q->now), all = __sync_fetch_and_add(&q->weight, -weight) - weight;
	s64 lag = eevdf_bounded(now - vruntime, slice_ns, weight);

	if ((s64)all > 0 && (lag > 0 || !others))
		__sync_fetch_and_add(&q->now, eevdf_scale(lag, weight, all));
	return lag;
}

/* The task competes no more. @others: see above. */
static __always_inline void eevdf_leave(struct eevdf_queue *q, struct eevdf_task *t, u64 slice_ns,
					bool others)
{
	t->lag = eevdf_goes(q, t->vruntime, __sync_lock_test_and_set(&t->weight, 0), slice_ns,
			    others);
	t->left_at = READ_ONCE(q->now);
}

/* @q, which the task left, has gone on: so far it has paid back what it owed there. */
static __always_inline void eevdf_rests(const struct eevdf_queue *q, struct eevdf_task *t)
{
	s64 passed = READ_ONCE(q->now) - t->left_at;

	if (t->lag >= 0 || passed <= 0)
		return;
	t->lag = t->lag + passed < 0 ? t->lag + passed : 0;
}

/*
 * Moves `now` by a run that is still under way and is charged when it ends. @ran_ns: its length up to
 * now. @counted: the part of it by which `now` has moved already; the caller stores it for each run.
 */
static __always_inline void eevdf_advance(struct eevdf_queue *q, u64 *counted, u64 ran_ns)
{
	u64 all = READ_ONCE(q->weight);
	s64 more_ns = ran_ns - __sync_lock_test_and_set(counted, ran_ns);

	if (more_ns > 0 && all)
		__sync_fetch_and_add(&q->now, eevdf_vtime(more_ns, all));
}

/* Charges the task with the run that it is in: @ran_ns up to now, @counted as above. */
static __always_inline void eevdf_charge(struct eevdf_queue *q, struct eevdf_task *t, u64 ran_ns,
					 u64 *counted)
{
	u64 more_ns = ran_ns - t->charged_ns;

	eevdf_advance(q, counted, ran_ns);
	if ((s64)more_ns <= 0 || !t->weight)
		return;
	t->charged_ns = ran_ns;
	t->vruntime += eevdf_vtime(more_ns, t->weight);
	if (READ_ONCE(q->weight) <= t->weight)
		WRITE_ONCE(q->now, t->vruntime);
}

/*
 * Changes the task's weight. Its lag and the rest of its request stay the same in time. The task may
 * be queued: if another CPU takes it at this moment, the virtual run time of one run may be lost.
 */
static __always_inline void eevdf_reweigh(struct eevdf_queue *q, struct eevdf_task *t, u32 weight)
{
	u64 now = READ_ONCE(q->now);
	u32 before = READ_ONCE(t->weight);
	s64 due;

	if (likely(weight == before) || !before ||
	    __sync_val_compare_and_swap(&t->weight, before, weight) != before)
		return;
	__sync_fetch_and_add(&q->weight, (u64)weight - before);
	due = eevdf_scale(t->deadline - t->vruntime, before, weight);
	t->vruntime = now - eevdf_scale(now - t->vruntime, before, weight);
	t->deadline = t->vruntime + due;
}

/*
 * The lag of a task that requests is bounded, see eevdf_bounded(): a task alone on its CPU has taken no
 * time from others.
 */
static __always_inline void eevdf_bounds(struct eevdf_queue *q, struct eevdf_task *t, u64 slice_ns)
{
	s64 lag = READ_ONCE(q->now) - t->vruntime;
	s64 moved = lag - eevdf_bounded(lag, slice_ns, t->weight);

	if (unlikely(moved)) {
		t->vruntime += moved;
		t->deadline += moved;
		__sync_fetch_and_add(&q->now,
				     eevdf_scale(moved, t->weight, READ_ONCE(q->weight)));
	}
}

/*
 * Returns the rest of the task's request, in ns. If the request was served, the task requests another
 * slice.
 */
static __always_inline u64 eevdf_rest(struct eevdf_task *t, u64 slice_ns)
{
	u64 due = t->deadline - t->vruntime, left_ns;

	left_ns = (s64)due > 0 ? (u64)eevdf_scale(due, t->weight, EEVDF_WEIGHT_DFL) : 0;
	if (left_ns >= EEVDF_LEAST_SLICE_NS && left_ns <= slice_ns)
		return left_ns;
	t->deadline = t->vruntime + eevdf_vtime(slice_ns, t->weight);
	return slice_ns;
}

/* Both, of a task that may run for a slice at once. */
static __always_inline u64 eevdf_request(struct eevdf_queue *q, struct eevdf_task *t, u64 slice_ns)
{
	eevdf_bounds(q, t, slice_ns);
	return eevdf_rest(t, slice_ns);
}

/* The task runs before all others, though it is not eligible: then `now` was behind. */
static __always_inline void eevdf_first(struct eevdf_queue *q, const struct eevdf_task *t)
{
	if (!eevdf_eligible(q, t->vruntime))
		WRITE_ONCE(q->now, t->vruntime);
}

#endif
