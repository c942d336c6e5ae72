/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max, which the kernel does not enforce for tasks of sched_ext.
 *
 * Every cgroup with a limit has an account: its quota, filled up each period, charged
 * with what the tasks in it and below it have run. When it is empty the cgroup is
 * throttled: whichever of its tasks wants a CPU is parked, and so is one that runs, at
 * the next tick. What it ran too much is a debt to the next period, so the mean is
 * exact however coarse ticks are. A sweep that fills an account has the parked
 * tasks enqueued again.
 *
 * As in the fair class before 6.18, a task may be parked that holds a lock of the
 * kernel's. Kernel threads and tasks that exit are never parked.
 */
#ifndef METASCHED_LIMITS_BPF_H
#define METASCHED_LIMITS_BPF_H

#include <kcalls.bpf.h>
#include <lanes.bpf.h>
#include <requeue.bpf.h>

/* Limited cgroups above one another that are charged; deeper ones are not. */
#define LIMIT_DEPTH_MAX 16
/* What cgroup callbacks call a quota of "max". */
#define NO_QUOTA ~0ULL

struct limit limits[LIMITS_MAX];
/* One more than the highest place that was ever used. */
u32 limits_used;
/* How many there are. */
u32 limits_live;
/* Limits that there was no place for: those cgroups are not limited. */
u64 limits_refused;
/* Of a walk through the table, see lifecycle.bpf.h. */
u32 limit_free;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LIMITS_MAX);
	__type(key, u64); /* cgroup id */
	__type(value, u32); /* place in limits */
} cgroup_limits SEC(".maps");

/* The limit of that place plus one, which must not be 0. */
static __always_inline struct limit *limit_at(u32 number)
{
	return &limits[(number - 1) & (LIMITS_MAX - 1)];
}

/* Whether a limit, or one above it, is used up. */
static __noinline bool limit_exhausted(u32 number)
{
	struct limit *l;
	u32 i;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!number)
			break;
		l = limit_at(number);
		if (l->throttled)
			return true;
		number = l->parent;
	}
	return false;
}

/* Charges a limit and all above it. */
static __noinline void limit_charge(u32 number, u64 ran_ns)
{
	struct limit *l;
	u32 i;

	bpf_for(i, 0, LIMIT_DEPTH_MAX) {
		if (!number)
			break;
		l = limit_at(number);
		__sync_fetch_and_add(&l->used_ns, ran_ns);
		if (l->used_ns >= l->granted_ns && !l->throttled) {
			/* Before the sweep can see it throttled; several CPUs come at once. */
			l->throttled_from_ns = bpf_ktime_get_ns();
			if (!__sync_val_compare_and_swap(&l->throttled, 0, 1))
				__sync_fetch_and_add(&l->nr_throttled, 1);
		}
		number = l->parent;
	}
}

/* Its tasks may run again. */
static __always_inline void limit_release(struct limit *l, u64 now)
{
	if (l->throttled)
		l->throttled_ns += now - l->throttled_from_ns;
	l->throttled = 0;
}

/*
 * Fills up the accounts whose periods are over. What is granted grows by the quota,
 * beyond what was used by a quota and the burst at most.
 */
static void limits_refill(void)
{
	u64 now = bpf_ktime_get_ns();
	u64 periods, most;
	bool unpark = false;
	struct limit *l;
	u32 i;

	bpf_for(i, 0, limits_used) {
		l = limit_at(i + 1);
		if (!l->cgroup || l->period_ends_ns > now)
			continue;
		periods = (now - l->period_ends_ns) / l->period_ns + 1;
		l->period_ends_ns += periods * l->period_ns;
		l->nr_periods += periods;
		l->granted_ns += periods * l->quota_ns;
		most = l->used_ns + l->quota_ns + l->burst_ns;
		if (l->granted_ns > most)
			l->granted_ns = most;
		if (l->throttled && l->used_ns < l->granted_ns) {
			limit_release(l, now);
			unpark = true;
		}
	}
	if (unpark)
		requeue_all(PARKED_DSQ);
	if (!READ_ONCE(limits_live)) {
		set_root_word(ROOT_LIMITS, 0);
		/* One may have come since the look. */
		if (READ_ONCE(limits_live))
			set_root_word(0, ROOT_LIMITS);
	}
}

/* A place for one more limit, plus one; 0 if there is none. */
static __noinline u32 limit_find_free(void)
{
	u32 i;

	limit_free = 0;
	bpf_for(i, 0, LIMITS_MAX) {
		if (limit_free)
			break;
		if (!limit_at(i + 1)->cgroup)
			limit_free = i + 1;
	}
	if (limit_free > limits_used)
		limits_used = limit_free;
	return limit_free;
}

static void limit_remove(u64 cgroup)
{
	u32 *number = bpf_map_lookup_elem(&cgroup_limits, &cgroup);
	struct limit *l;

	if (!number)
		return;
	l = limit_at(*number);
	bpf_map_delete_elem(&cgroup_limits, &cgroup);
	l->cgroup = 0;
	l->throttled = 0;
	__sync_fetch_and_sub(&limits_live, 1);
	__sync_fetch_and_add(&assign_seq, 1);
	requeue_all(PARKED_DSQ);
}

/* cpu.max of a cgroup was written, or found at the start. */
static void limit_set(u64 cgroup, u64 period_us, u64 quota_us, u64 burst_us)
{
	u32 *found = bpf_map_lookup_elem(&cgroup_limits, &cgroup), number;
	u64 now = bpf_ktime_get_ns();
	struct limit *l;

	if (quota_us == NO_QUOTA) {
		limit_remove(cgroup);
		return;
	}
	if (found) {
		number = *found;
	} else {
		number = limit_find_free();
		if (!number || bpf_map_update_elem(&cgroup_limits, &cgroup, &number, BPF_ANY)) {
			limits_refused++;
			return;
		}
		__sync_fetch_and_add(&limits_live, 1);
		/* Another cgroup may have had the place. */
		l = limit_at(number);
		l->nr_periods = 0;
		l->nr_throttled = 0;
		l->throttled_ns = 0;
		l->throttled = 0;
	}
	l = limit_at(number);
	l->quota_ns = quota_us * 1000;
	l->period_ns = (period_us ? period_us : 1) * 1000;
	l->burst_ns = burst_us * 1000;
	l->period_ends_ns = now + l->period_ns;
	l->used_ns = 0;
	l->granted_ns = l->quota_ns;
	limit_release(l, now);
	l->cgroup = cgroup;
	__sync_fetch_and_add(&assign_seq, 1);
	requeue_all(PARKED_DSQ);
}

#endif
