/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which account each CPU runs for, and how a choice of the next account counts it.
 *
 * An account's vtime moves when a run is charged, and that is after it. By vtime alone two CPUs that
 * choose meanwhile both serve the account that lags, and after that both serve the other. A server
 * and its client that have half of two CPUs would have both for one slice, side by side, and none for
 * the next. So a choice counts each CPU that runs for an account as a run that is charged already:
 * as start-time fair queueing counts what is in service (Goyal, Vin and Cheng, 1996; with several
 * servers Jin, Chase and Kaur, 2004). Accounts so keep the CPUs that they have, as many as their weights
 * say; an account whose tasks all wait comes before one that has a CPU.
 *
 * A CPU counts for an account from the start of a run until it runs for another one, so that tasks of
 * one account that run by turns write nothing that CPUs share. A CPU may stop without a
 * successor: it went idle, off line or to another scheduling class. The sweep finds that.
 */
#ifndef METASCHED_IN_SERVICE_BPF_H
#define METASCHED_IN_SERVICE_BPF_H

#include <accounts.bpf.h>

/* A run takes so long beside others: a slice, which a tick ends, up to 4 ms later with 250 a second. */
#define RUN_NS (2 * SHARED_SLICE_NS)

/* An account's share changes. */
static __always_inline void account_set_weight_now(struct account *a, u32 weight)
{
	WRITE_ONCE(a->weight_now, weight);
	WRITE_ONCE(a->run_vtime_ns, account_vtime_ns(a, RUN_NS));
}

/* The vtime that an account will have come to when the runs are over of all CPUs but that one. */
__weak __noinline u64 account_vtime_elsewhere(u32 number, struct cpu_ctx *here __arg_nonnull)
{
	struct account *a = account_at(number);
	u32 cpus = READ_ONCE(a->cpus);

	/* The two are not written at once: it may not be counted yet, or no more. */
	if (cpus && here->runs_for == number + 1)
		cpus--;
	return a->vtime + cpus * READ_ONCE(a->run_vtime_ns);
}

/* The CPU runs for that account from now on, plus one; 0: for none. By its own CPU, and by the sweep. */
__weak __noinline int set_runs_for(struct cpu_ctx *cpu __arg_nonnull, u64 account)
{
	u64 before = __sync_lock_test_and_set(&cpu->runs_for, account);

	if (before)
		__sync_fetch_and_sub(&account_at(before - 1)->cpus, 1);
	if (account)
		__sync_fetch_and_add(&account_at(account - 1)->cpus, 1);
	return 0;
}

/* A run begins. While nobody else has work nobody compares. */
static __always_inline void run_in_service(struct cpu_ctx *cpu, u32 number, bool others)
{
	if (unlikely(others || cpu->runs_for) && cpu->runs_for != number + 1)
		set_runs_for(cpu, number + 1);
}

/* Whether an account has tasks that are ready, and no CPU runs for it. */
static __always_inline bool account_waits(u32 number)
{
	return !READ_ONCE(account_at(number)->cpus) && account_has_ready(number);
}

/* Whether one does beside that one. */
__noinline bool somebody_waits(u32 own)
{
	u64 set = accounts_with_work(READ_ONCE(root_word)) & ~account_bit(own);
	u32 i;

	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!set)
			break;
		if (account_waits(lowest_account(set)))
			return true;
		set &= set - 1;
	}
	return false;
}

/* A sweep looks at so many CPUs: 512 in 32 ms. */
#define IN_SERVICE_STEPS 64

/*
 * CPUs on which no run is under way count for nobody. If one begins at this moment it does not count: an
 * account has one CPU too few until the next begins there.
 */
static __noinline void sweep_in_service(void)
{
	static u32 next;
	struct cpu_ctx *there;
	u32 i, cpu = next;

	bpf_for(i, 0, IN_SERVICE_STEPS) {
		if (cpu >= nr_cpus()) {
			cpu = 0;
			break;
		}
		there = cpu_possible(cpu) ? cpu_ctx_of(cpu) : NULL;
		if (there && there->runs_for && !there->task)
			set_runs_for(there, 0);
		cpu++;
	}
	next = cpu;
}

#endif
