/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 does now and then rather than with every task. While applications have
 * lanes it finds accounts that have become idle, those that have waited too long, and
 * policies that do not dispatch; while cgroups have limits it fills those up.
 */
#ifndef METASCHED_SWEEP_BPF_H
#define METASCHED_SWEEP_BPF_H

#include <accounts.bpf.h>
#include <apps.bpf.h>
#include <kthreads.bpf.h>
#include <leaving_cpu.bpf.h>
#include <timer.bpf.h>
#include <shares.bpf.h>

struct quarantine quarantines[QUARANTINES_KEPT];
u64 quarantined; /* how many there were */

/* The lane in force of an account loses it, and drains; user space is told. */
static __noinline void quarantine_lane(struct meta_lane *l, struct account *a, u64 now)
{
	struct quarantine *q = &quarantines[quarantined % QUARANTINES_KEPT];

	l->ready = l->queues;
	l->quarantined = 1;
	q->at_ns = 0;
	q->unserved_ns = a->unserved_sweeps * SWEEP_NS;
	q->generation = l->lane.generation;
	q->app = l->account;
	q->variant = l->lane.variant;
	q->rescues = l->rescues;
	q->nr_queued = lane_queued(l);
	/* Unless user space has replaced it at this moment, its tasks go to the root lane. */
	if (l->account != ROOT_ACCOUNT)
		__sync_val_compare_and_swap(&a->lane, l->lane.slot + 1, 0);
	shares.changed = 1;
	WRITE_ONCE(q->at_ns, now);
	/* Last: by this user space learns of it, and takes the lane away. */
	WRITE_ONCE(quarantined, quarantined + 1);
}

/* No task has come since the last sweep; whether that was so for ARRIVED_SWEEPS. */
static __always_inline bool nobody_came(u32 *arrived)
{
	u32 was = READ_ONCE(*arrived);

	return !was || (__sync_val_compare_and_swap(arrived, was, was - 1) == was && was == 1);
}

/* Takes an account without queued tasks for idle if nobody has come for some sweeps. */
static __always_inline void sweep_idle(struct account *a, u64 bit)
{
	if (!nobody_came(&a->arrived) || !(READ_ONCE(busy.accounts) & bit))
		return;
	__sync_fetch_and_and(&busy.accounts, ~bit);
	/* See account_arrival(). */
	if (READ_ONCE(a->arrived))
		__sync_fetch_and_or(&busy.accounts, bit);
}

/*
 * For how many sweeps an account may have work and not be served before it is urgent: twice as
 * long as its share of the CPUs takes to make a slice, within the bounds. @all is what all
 * accounts with work weigh. Tasks that were queued when their cgroup was assigned elsewhere have
 * a share there, and are not to wait for what this account has left.
 */
static __always_inline u32 account_patience(struct account *a, u64 all)
{
	u64 weight = READ_ONCE(a->weight_now), sweeps;

	if (vtime_before(a->serves, a->settles_at))
		return URGENT_SWEEPS;
	weight += !weight;
	sweeps = all * 2 * SHARED_SLICE_NS / (weight * cpus_working * SWEEP_NS);
	if (sweeps < URGENT_SWEEPS)
		return URGENT_SWEEPS;
	return sweeps < URGENT_MOST_SWEEPS ? sweeps : URGENT_MOST_SWEEPS;
}

/* Looks at an account, beside others that weigh @all with it; whether it has become urgent. */
__noinline bool sweep_account(u32 number, u64 all, u64 now)
{
	struct account *a = account_at(number);
	u64 bit = account_bit(number);
	u32 lane = READ_ONCE(a->lane);
	struct meta_lane *l = lane_at(lane - 1);

	account_limit_credit(a);
	if (!account_has_queued(number)) {
		a->unserved_sweeps = 0;
		/* Its last lane has gone. */
		if (unlikely(!READ_ONCE(a->first)))
			__sync_fetch_and_and(&busy.urgent, ~bit);
		sweep_idle(a, bit);
		return false;
	}
	account_arrival(number);
	if (a->serves != a->serves_seen) {
		a->serves_seen = a->serves;
		a->unserved_sweeps = 0;
		return false;
	}
	if (!a->unserved_sweeps++)
		a->urgent_from = 0;
	if (a->unserved_sweeps * SWEEP_NS > a->longest_unserved_ns)
		a->longest_unserved_ns = a->unserved_sweeps * SWEEP_NS;
	if (a->unserved_sweeps >= QUARANTINE_SWEEPS && lane && l->rescues && !l->quarantined)
		quarantine_lane(l, a, now);
	/* Its share may have become known only after the wait began. */
	if (a->unserved_sweeps - a->urgent_from < account_patience(a, all))
		return false;
	/* And again: level 1 may have served it without its policy by then. */
	a->urgent_from = a->unserved_sweeps;
	__sync_fetch_and_or(&busy.urgent, bit);
	return true;
}

/* Looks at every account that has lanes, and at those that had when something last came to them. */
static __noinline void sweep_accounts(void)
{
	u64 now = bpf_ktime_get_ns(), all = 0, with_work = READ_ONCE(busy.accounts);
	bool urgent = false;
	u32 number;

	bpf_for(number, 0, ACCOUNTS_MAX) {
		if (with_work & account_bit(number))
			all += account_at(number)->weight_now;
	}
	bpf_for(number, 0, ACCOUNTS_MAX) {
		if (!account_at(number)->first && !(with_work & account_bit(number)))
			continue;
		if (sweep_account(number, all, now))
			urgent = true;
	}
	sweep_shares();
	sweep_in_service();
	if (urgent)
		kick_idle_cpus();
	/* As for accounts. One that comes at this moment is found by the next sweep. */
	if (scx_bpf_dsq_nr_queued(KTHREADS_DSQ) > 0)
		WRITE_ONCE(kthreads_arrived, ARRIVED_SWEEPS);
	else
		nobody_came(&kthreads_arrived);
}

/*
 * Whether a run with an infinite slice is to end: its lane is not current, others want the CPU, or a task
 * stands in the CPU's local queue, put there as the run began. Without ticks the bit of its own account
 * may be clear.
 */
static __always_inline bool ends_infinite_slice(s32 cpu, u32 root)
{
	struct cpu_ctx *there = cpu_ctx_of(cpu);
	struct meta_lane *l = there ? lane_if_current((u32)there->slot, there->generation) : NULL;

	if (!l)
		return true;
	return (root & ROOT_SHARED && (others_have_work(l, root) || kthreads_queued())) ||
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0;
}

/* CPUs that run tasks with infinite slices choose anew if those are to end. */
static __noinline void end_infinite_slices(u32 root)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		if (!cpu_possible(cpu) || !runs_for_ever(cpu) || !ends_infinite_slice(cpu, root))
			continue;
		ends_run(cpu_ctx_of(cpu));
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* How many CPUs take tasks: a machine may be made for more than it has. */
static __noinline void count_cpus(void)
{
	u32 word, cpus = 0;

	bpf_for(word, 0, CPUS_MAX / 64) {
		word &= CPUS_MAX / 64 - 1;
		cpus += __builtin_popcountll(topology.possible.words[word] &
					     ~READ_ONCE(cpus_off.words[word]));
	}
	WRITE_ONCE(cpus_working, cpus);
}

/* By one caller at a time: the timer. */
static void sweep(void)
{
	u32 root = READ_ONCE(root_word);

	if (is_used(USES_PLACES) || READ_ONCE(leaving_sweeps))
		sweep_leaving();
	if (is_used(USES_PLACES))
		sweep_marks();
	if (root & (ROOT_LANES | ROOT_LIMITS))
		count_cpus();
	if (root & ROOT_LANES)
		sweep_accounts();
	if (is_used(USES_INFINITE))
		end_infinite_slices(root);
	if (root & ROOT_LIMITS)
		limits_refill();
}

#endif
