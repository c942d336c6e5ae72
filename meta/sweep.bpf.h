/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 does now and then rather than with every task. While applications have
 * lanes it finds lanes that have become idle, lanes that have waited too long, and
 * policies that do not dispatch; while cgroups have limits it fills up their accounts.
 */
#ifndef METASCHED_SWEEP_BPF_H
#define METASCHED_SWEEP_BPF_H

#include <lanes.bpf.h>
#include <apps.bpf.h>
#include <timer.bpf.h>

/*
 * After so many sweeps in which a lane had work and was not served, it is served
 * before all others, whatever the weights: 32 ms, within which a lane of weight
 * 100 beside one of 1500 has its turn of SHARED_SLICE_NS anyway.
 */
#define URGENT_SWEEPS 8
/*
 * After so many, 1 s, a lane whose policy left tasks that could have run loses its
 * application. The kernel's watchdog would end us all after 10 to 30 s.
 */
#define QUARANTINE_SWEEPS 250

struct quarantine quarantines[QUARANTINES_KEPT];
u64 quarantined; /* how many there were */

static __noinline void quarantine_lane(struct meta_lane *l, u64 now)
{
	struct quarantine *q = &quarantines[quarantined % QUARANTINES_KEPT];

	l->quarantined = 1;
	q->at_ns = 0;
	q->unserved_ns = l->unserved_sweeps * SWEEP_NS;
	q->generation = l->lane.generation;
	q->app = l->app;
	q->policy = l->lane.policy;
	q->rescues = l->rescues;
	q->nr_queued = lane_queued(l);
	/* Unless user space has replaced it at this moment, its tasks go to the root lane. */
	if (l->state == LANE_APP)
		__sync_val_compare_and_swap(&app_at(l->app)->lane, l->lane.slot + 1, 0);
	WRITE_ONCE(q->at_ns, now);
	/* Last: by this user space learns of it, and takes the lane away. */
	WRITE_ONCE(quarantined, quarantined + 1);
}

/*
 * Has idle CPUs choose: only who is told looks for work, and the policy that has left it
 * may have told nobody.
 */
static __noinline void kick_idle_cpus(void)
{
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

static __always_inline void sweep_lane(struct meta_lane *l, u64 now, u64 *cleared, bool *urgent)
{
	u64 bit = slot_bit(l->lane.slot);

	if (!lane_has_queued(l)) {
		l->unserved_sweeps = 0;
		if (READ_ONCE(l->arrived)) {
			WRITE_ONCE(l->arrived, 0);
		} else if (busy.lanes & bit) {
			__sync_fetch_and_and(&busy.lanes, ~bit);
			*cleared |= bit;
		}
		return;
	}
	lane_set_busy(l);
	if (l->serves != l->serves_seen) {
		l->serves_seen = l->serves;
		l->unserved_sweeps = 0;
		return;
	}
	l->unserved_sweeps++;
	if (l->unserved_sweeps * SWEEP_NS > l->longest_unserved_ns)
		l->longest_unserved_ns = l->unserved_sweeps * SWEEP_NS;
	/* Again each time: level 1 may have served it without its policy meanwhile. */
	if (l->unserved_sweeps % URGENT_SWEEPS == 0) {
		__sync_fetch_and_or(&busy.urgent, bit);
		*urgent = true;
	}
	if (l->unserved_sweeps >= QUARANTINE_SWEEPS && l->rescues && !l->quarantined)
		quarantine_lane(l, now);
}

/* Looks at every lane that is served. */
static __noinline void sweep_lanes(void)
{
	u64 now = bpf_ktime_get_ns();
	u64 left = READ_ONCE(served);
	struct meta_lane *l;
	bool urgent = false;
	u64 cleared = 0;
	u32 i;

	bpf_for(i, 0, LANES_MAX) {
		if (!(left & slot_bit(i)))
			continue;
		l = lane_at(i);
		sweep_lane(l, now, &cleared, &urgent);
	}
	WRITE_ONCE(busy.lingering, cleared);
	if (urgent)
		kick_idle_cpus();
}

/* By one caller at a time: the timer. */
static void sweep(void)
{
	u32 root = READ_ONCE(root_word);

	if (root & ROOT_LANES)
		sweep_lanes();
	if (root & ROOT_LIMITS)
		limits_refill();
}

#endif
