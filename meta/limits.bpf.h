/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max, which the kernel does not enforce for tasks of sched_ext: the accounts.
 *
 * Every cgroup with a limit has an account: its quota, filled up each period. A run of
 * one of its tasks, or of one below it, takes a piece of what is left before it begins,
 * another when that is over, and gives back what it did not use; see parking.bpf.h. So
 * CPUs together run no more than is granted, and when nothing is left the cgroup is
 * throttled: whichever of its tasks wants a CPU is parked, in a queue of that limit's.
 * A run that ends late is a debt to the next period, so the mean is exact. The sweep
 * fills accounts up, and has the tasks enqueued again that were parked by them.
 *
 * A task in a system call may hold a lock of the kernel's, and ends its call first, see syscalls.bpf.h.
 * Kernel threads, tasks that die and those in a read section of RCU are never parked; one
 * that is killed while it is parked is found by the sweep, see limit_find_dying().
 */
#ifndef METASCHED_LIMITS_BPF_H
#define METASCHED_LIMITS_BPF_H

#include <kcalls.bpf.h>
#include <cgroups.bpf.h>
#include <lanes.bpf.h>
#include <requeue.bpf.h>
#include <timer.bpf.h>

/* Limited cgroups above one another that are charged; deeper ones are not. */
#define LIMIT_DEPTH_MAX 16
/* Any odd number that is large: chains of a few small ones give others with it. */
#define LIMIT_CHAIN_FACTOR 0x9E3779B97F4A7C15ULL
/* What cgroup callbacks call a quota of "max". */
#define NO_QUOTA ~0ULL

/* A run that has used up so much takes at least so many times that: it is none of many short ones. */
#define PIECES_GROW 3

/*
 * Limits are enforced for so long after the last one went. A CPU that found it throttled just before
 * may still park a task in its queue; the sweep does not look at that queue later.
 */
#define LIMITS_LINGER_NS (100ULL * 1000 * 1000)

/* SIGKILL among the signals of a task; each thread gets it that any deadly signal is to end. */
#define SIGKILL_BIT (1UL << 8)
/* A flag of a process that ends, include/linux/sched/signal.h. */
#define SIGNAL_GROUP_EXIT 4

/*
 * A sweep looks for killed tasks among the first DYING_LOOKS of a queue, in DYING_QUEUES queues or one more:
 * a thousand looks or so. So a killed task among the first DYING_LOOKS dies within a sweep, and about one
 * sweep more for each DYING_QUEUES limits that there are.
 */
#define DYING_LOOKS 64
#define DYING_QUEUES 16

struct limit limits[LIMITS_MAX];
/* One more than the highest place that was ever used. */
u32 limits_used;
/* How many there are and were made, and when the last one went. */
u32 limits_live;
u32 limits_made;
u64 limits_ended_ns;
/* Where the next sweep goes on, and how often all were looked at. */
u32 limits_at;
u32 limits_rounds;
/* Limits that there was no place for, or of cgroups that there was none for: not enforced. */
u64 limits_refused;
/* Cgroups that there are, and parking queues: see limit_make_queue(). */
u32 cgroups_live;
u32 parked_dsqs;

/* The limit of that place plus one, which must not be 0. */
static __always_inline struct limit *limit_at(u32 number)
{
	return &limits[(number - 1) & (LIMITS_MAX - 1)];
}

/* What is left of a limit; 0 also where more was used. */
static __always_inline u64 limit_left(struct limit *l)
{
	u64 granted = READ_ONCE(l->granted_ns), used = READ_ONCE(l->used_ns);

	return vtime_before(used, granted) ? granted - used : 0;
}

/*
 * The nearest limit, of this one and those above it, that is used up; 0 if none is. Not static,
 * as some others below: so the verifier reads it once, and not with each path that leads here.
 */
__noinline u32 limit_exhausted(u32 number)
{
	struct limit *l;
	u32 i;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!number)
			break;
		l = limit_at(number);
		if (l->throttled)
			return number;
		number = l->parent;
	}
	return 0;
}

/*
 * Another number if a limit, or one above it, has another place above it now, or has gone: what a run
 * took before is not to be given back then.
 */
__noinline u64 limit_chain(u32 number)
{
	struct limit *l;
	u64 chain = 0;
	u32 i;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!number)
			break;
		l = limit_at(number);
		chain = chain * LIMIT_CHAIN_FACTOR + READ_ONCE(l->made);
		number = l->parent;
	}
	return chain;
}

/* Nothing is left of a limit. */
static __always_inline void limit_throttle(struct limit *l)
{
	if (l->throttled)
		return;
	/* Before the sweep can see it throttled; several CPUs come at once. */
	l->throttled_from_ns = bpf_ktime_get_ns();
	WRITE_ONCE(l->throttled, 1);
}

/*
 * Charges a limit and all above it; less than nothing gives back. Tells by how much one of them is
 * charged with more than it may be: with what is granted and so much as @overdraft.
 */
__noinline u64 limit_charge(u32 number, s64 ns, u64 overdraft)
{
	u64 used, granted, beyond = 0;
	struct limit *l;
	u32 i;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!number)
			break;
		l = limit_at(number);
		used = __sync_fetch_and_add(&l->used_ns, ns) + ns;
		granted = READ_ONCE(l->granted_ns);
		if (!vtime_before(used, granted))
			limit_throttle(l);
		granted += overdraft;
		if (vtime_before(granted + beyond, used))
			beyond = used - granted;
		number = l->parent;
	}
	return beyond;
}

/*
 * Takes a piece of @least to @most for a run of a task under that limit, less where less is left; 0
 * if nothing is left of it, or of one above it. A task that runs already may overdraw them.
 *
 * Other CPUs take pieces between the look and the charge, and part of an overdraft may be owed already.
 * So each is charged with its piece, and then gives back what is too much of it: of several that saw
 * the same rest the first one has it.
 */
__noinline u64 limit_take(u32 number, u64 least, u64 most, bool runs)
{
	u64 piece = most, overdraft = runs ? OVERDRAFT_NS : 0, left, part, beyond;
	u32 i, at = number, cpus = READ_ONCE(cpus_working);
	struct limit *l;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!at)
			break;
		l = limit_at(at);
		left = limit_left(l);
		if (!left)
			limit_throttle(l);
		part = left / (cpus ? cpus : 1);
		if (part < least)
			part = left < least ? left : least;
		if (!left)
			part = overdraft;
		if (part < piece)
			piece = part;
		at = l->parent;
	}
	if (!piece)
		return 0;
	beyond = limit_charge(number, piece, overdraft);
	if (!beyond)
		return piece;
	if (beyond > piece)
		beyond = piece;
	limit_charge(number, -(s64)beyond, 0);
	return piece - beyond;
}

/*
 * Whether a task exits, or was killed and is about to: no limit keeps it from that. It takes the
 * signal some time before it has PF_EXITING; in between its process says so, which ends, or has
 * this thread make room for another program.
 */
static __always_inline bool task_dies(struct task_struct *p)
{
	struct signal_struct *process = p->signal;

	return p->flags & PF_EXITING || p->pending.signal.sig[0] & SIGKILL_BIT ||
	       process->flags & SIGNAL_GROUP_EXIT ||
	       (process->group_exec_task && process->group_exec_task != p);
}

/*
 * Finds tasks that a limit has parked and that were killed meanwhile: no callback tells of that.
 * limits_refill() has them enqueued anew, and no others.
 *
 * They do not go into the local queue of their CPU: from 7.1 on the kernel does not bring the
 * clock of an idle CPU up to date for that, and charges the task with the time that it was idle.
 */
__noinline int limit_find_dying(u32 number)
{
	struct task_struct *p;
	u32 looks = count_from;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, PARKED_BASE_DSQ + number, 0) {
		if (task_dies(p))
			scx_bpf_dsq_move(&___it, p, DYING_DSQ, 0);
		if (++looks >= DYING_LOOKS)
			break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Has the tasks enqueued anew that a limit has parked. */
static __always_inline void limit_unpark(u32 number)
{
	if (scx_bpf_dsq_nr_queued(PARKED_BASE_DSQ + number) > 0)
		requeue_all(PARKED_BASE_DSQ + number);
}

/* Its tasks may run again: the next sweep has them enqueued. */
static __always_inline void limit_release(struct limit *l, u64 now)
{
	if (l->throttled)
		l->throttled_ns += now - l->throttled_from_ns;
	WRITE_ONCE(l->throttled, 0);
}

/*
 * Fills up an account whose period is over. The grant grows by the quota, but exceeds the use so far by one
 * quota and the burst at most. Several periods that end between two looks count as one there, since their
 * uses cannot be told apart, unless a period is shorter than the time between looks.
 */
static __always_inline void limit_refill(struct limit *l, u64 now)
{
	u64 periods = (now - l->period_ends_ns) / l->period_ns + 1;
	u64 sweeps = (limits_used + LIMIT_STEPS - 1) / LIMIT_STEPS;
	u64 most, quota = l->quota_ns;

	l->period_ends_ns += periods * l->period_ns;
	l->nr_periods += periods;
	/* As the kernel counts it in cpu.stat: once in a period, however often it was. */
	if (l->throttled)
		l->nr_throttled += periods;
	if (l->period_ns < sweeps * SWEEP_NS)
		quota *= periods;
	l->granted_ns += periods * l->quota_ns;
	most = l->used_ns + quota + l->burst_ns;
	if (vtime_before(most, l->granted_ns))
		l->granted_ns = most;
	/* A debt that would take too long. */
	most = l->quota_ns * (PARKED_LOOK_NS / l->period_ns);
	if (vtime_before(l->granted_ns + most, l->used_ns)) {
		l->forgiven_ns += l->used_ns - most - l->granted_ns;
		l->granted_ns = l->used_ns - most;
	}
}

/*
 * A limit that is not throttled, or is gone, has no parked tasks. Each sweep sees to that, and not the
 * change itself: a CPU that found the limit throttled just before may park a task
 * after the change, and one whose task ran under it may find it used up after it has gone.
 */
static __always_inline void limit_sweep(u32 number, u64 now)
{
	struct limit *l = limit_at(number);
	bool waits = false;

	if (l->state == LIMIT_LIVE) {
		if (l->period_ends_ns <= now)
			limit_refill(l, now);
		/* Also when runs gave back what they had taken. */
		if (l->throttled && limit_left(l))
			limit_release(l, now);
		waits = l->throttled && now < l->look_at_ns;
	}
	if (waits)
		return;
	l->look_at_ns = now + PARKED_LOOK_NS;
	limit_unpark(number);
}

/*
 * Fills up the accounts whose periods are over. It looks at LIMIT_STEPS places and their queues at most,
 * and enqueues the parked tasks of limits that have something left again. When the last limit has gone, it
 * looks at each place in use once more.
 */
static void limits_refill(void)
{
	u64 now = bpf_ktime_get_ns();
	u32 i, from = limits_at, left = limits_used - from;
	u32 steps = left < LIMIT_STEPS ? left : LIMIT_STEPS, every = steps / DYING_QUEUES + 1;

	bpf_for(i, from, from + steps) {
		limit_sweep(i + 1, now);
		if (limit_at(i + 1)->throttled && (i + limits_rounds) % every == 0)
			limit_find_dying(i + 1);
	}
	if (scx_bpf_dsq_nr_queued(DYING_DSQ) > 0)
		requeue_all(DYING_DSQ);
	limits_at = steps < left ? from + steps : 0;
	limits_rounds += !limits_at;
	if (!READ_ONCE(limits_live) && now - READ_ONCE(limits_ended_ns) > LIMITS_LINGER_NS) {
		bpf_for(i, 0, limits_used) {
			limit_unpark(i + 1);
		}
		set_root_word(ROOT_LIMITS, 0);
		/* One may have come since the look. */
		if (READ_ONCE(limits_live))
			set_root_word(0, ROOT_LIMITS);
	}
}

/*
 * A cgroup has come. Queues can be made in sleepable context only, which the callback that
 * tells of a limit is not: so there is one for each cgroup that there is, up to LIMITS_MAX,
 * since there are no more limits than cgroups and the lowest place is always taken. Cgroups
 * come and go one by one, under the kernel's lock.
 */
static void limit_make_queue(void)
{
	u32 live = __sync_fetch_and_add(&cgroups_live, 1) + 1;

	if (live <= parked_dsqs || parked_dsqs >= LIMITS_MAX)
		return;
	/* Without memory for it the limit that would have it is refused. */
	if (!scx_bpf_create_dsq(PARKED_BASE_DSQ + parked_dsqs + 1, -1))
		WRITE_ONCE(parked_dsqs, parked_dsqs + 1);
}

/*
 * One CPU at a time writes to a place: the one that changes its state to LIMIT_CLAIMED.
 * Several cgroups get their limits at once, and one may be written to twice at once.
 */
static __always_inline bool limit_claim(struct limit *l, u32 from)
{
	return __sync_val_compare_and_swap(&l->state, from, LIMIT_CLAIMED) == from;
}

/*
 * Claims the lowest free place that has a queue; it plus one, 0 if there is none. Not static:
 * a test calls it from many threads.
 */
__noinline u32 limit_claim_free(void)
{
	u32 i, used, number = 0, most = READ_ONCE(parked_dsqs);

	if (most > LIMITS_MAX)
		most = LIMITS_MAX;
	bpf_for(i, 0, most) {
		if (READ_ONCE(limit_at(i + 1)->state) == LIMIT_FREE &&
		    limit_claim(limit_at(i + 1), LIMIT_FREE)) {
			number = i + 1;
			break;
		}
	}
	/* Another CPU may claim a higher one at this moment. */
	bpf_for(i, 0, LIMITS_MAX) {
		used = READ_ONCE(limits_used);
		if (used >= number ||
		    __sync_val_compare_and_swap(&limits_used, used, number) == used)
			break;
	}
	return number;
}

/* A run that has taken of the place so far begins anew, under the limits that are there by then. */
static __always_inline void limit_renew(struct limit *l)
{
	WRITE_ONCE(l->made, __sync_fetch_and_add(&limits_made, 1) + 1);
}

static void limit_remove(u64 cgroup)
{
	struct cgroup_node *n = cgroup_node_at(cgroup_number(cgroup));
	u32 number = READ_ONCE(n->limit);
	u64 now = bpf_ktime_get_ns();
	struct limit *l;

	if (!number)
		return;
	l = limit_at(number);
	/* The CPU that writes to it at this moment came last. */
	if (l->cgroup != cgroup || !limit_claim(l, LIMIT_LIVE))
		return;
	WRITE_ONCE(n->limit, 0);
	l->cgroup = 0;
	limit_renew(l);
	/* Before its tasks are enqueued, which would be parked by it again. */
	__sync_fetch_and_add(&assign_seq, 1);
	limit_release(l, now);
	WRITE_ONCE(limits_ended_ns, now);
	__sync_fetch_and_sub(&limits_live, 1);
	WRITE_ONCE(l->state, LIMIT_FREE);
}

/* A place for a cgroup that has none yet, claimed; 0 if there is none, or it has got one now. */
static __always_inline u32 limit_add(struct cgroup_node *n)
{
	u32 number = limit_claim_free();
	struct limit *l;

	if (!number) {
		__sync_fetch_and_add(&limits_refused, 1);
		return 0;
	}
	l = limit_at(number);
	if (__sync_val_compare_and_swap(&n->limit, 0, number)) {
		WRITE_ONCE(l->state, LIMIT_FREE);
		return 0;
	}
	/* Another cgroup may have had the place, and a run of its tasks may have outlived it. */
	limit_renew(l);
	l->cgroup = n->id;
	l->parent = 0;
	l->throttled = 0;
	l->nr_periods = 0;
	l->nr_throttled = 0;
	l->throttled_ns = 0;
	l->forgiven_ns = 0;
	/* The next sweep empties its queue, in which tasks of that other may be. */
	l->look_at_ns = 0;
	__sync_fetch_and_add(&limits_live, 1);
	return number;
}

/* cpu.max of a cgroup was written, or found at the start. */
static void limit_set(u64 cgroup, u64 period_us, u64 quota_us, u64 burst_us)
{
	u32 number, place = cgroup_number(cgroup);
	struct cgroup_node *n = cgroup_node_at(place);
	u64 now = bpf_ktime_get_ns();
	struct limit *l;

	if (quota_us == NO_QUOTA) {
		limit_remove(cgroup);
		return;
	}
	if (!place) {
		__sync_fetch_and_add(&limits_refused, 1);
		return;
	}
	number = READ_ONCE(n->limit);
	if (number) {
		/* As in limit_remove(). */
		if (limit_at(number)->cgroup != cgroup ||
		    !limit_claim(limit_at(number), LIMIT_LIVE))
			return;
	} else {
		number = limit_add(n);
		if (!number)
			return;
	}
	l = limit_at(number);
	l->quota_ns = quota_us * 1000;
	l->period_ns = (period_us ? period_us : 1) * 1000;
	l->burst_ns = burst_us * 1000;
	l->period_ends_ns = now + l->period_ns;
	/* What was used goes on, as runs that are under way give back what they took. */
	l->granted_ns = l->used_ns + l->quota_ns;
	WRITE_ONCE(l->state, LIMIT_LIVE);
	limit_release(l, now);
	__sync_fetch_and_add(&assign_seq, 1);
}

#endif
