/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a lane's tasks wait for a CPU, from runnable to running, by the kernel's own
 * books: no clock is read for it.
 *
 * The kernel adds to sched_info.run_delay when a task that was runnable leaves a run
 * queue, and counts an arrival in sched_info.pcount when it is switched in:
 *
 *	becomes runnable        enqueue		run_delay = d, pcount = n
 *	moves to another CPU			run_delay = d + first part of the wait
 *	is chosen               running
 *	is switched in				run_delay = d + the wait, pcount = n + 1
 *	runs on, or stops       dispatch, stopping
 *
 * So both are remembered in the task's record when it is enqueued, from there in the CPU's
 * when it runs, and what run_delay has grown by is the wait as soon as pcount has moved.
 * A task's wait is the whole one however often it is enqueued or moved meanwhile: what
 * was remembered is of this wait as long as pcount is what it was.
 *
 * A task that comes to run without having been enqueued (it went straight to an idle CPU,
 * or its slice was not over) has not moved either: what the books say at "running" is then
 * what they said before.
 */
#ifndef METASCHED_WAITS_BPF_H
#define METASCHED_WAITS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <lanes.bpf.h>
#include <wait_histogram.bpf.h>

/* Per slot; cleared by user space when the slot is freed. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LANES_MAX);
	__type(key, u32);
	__type(value, struct wait_histogram);
} lane_waits SEC(".maps");

/* In place of wait_from_ns: there is nothing to count. */
#define NO_WAIT ~0ULL

/* Whether this kernel keeps such books; for user space. */
u32 waits_measured;

/* Whether it does, as a constant for the verifier, which drops all of this if it does not. */
static __always_inline bool kernel_counts_waits(void)
{
	return bpf_core_field_exists(struct sched_info, run_delay);
}

/* Whether the task waits since that time or longer: in its run queue, from which it may have been moved. */
static __always_inline bool waits_since(struct task_struct *p, u64 since_ns)
{
	return kernel_counts_waits() && p->sched_info.last_queued &&
	       vtime_before(p->sched_info.last_queued, since_ns);
}

/* The task wants a CPU; it may have wanted one before, and not have got it. */
static __always_inline void wait_begins(struct task_struct *p, struct task_ctx *t)
{
	if (!kernel_counts_waits() || t->wait_arrivals == p->sched_info.pcount)
		return;
	t->wait_arrivals = p->sched_info.pcount;
	t->wait_from_ns = p->sched_info.run_delay;
}

/* The task is about to be switched in; after that its wait is counted. */
static __always_inline void wait_ends(struct cpu_ctx *cpu, struct task_struct *p,
				      struct task_ctx *t)
{
	if (!kernel_counts_waits())
		return;
	cpu->wait_arrivals = p->sched_info.pcount;
	cpu->wait_from_ns = p->sched_info.run_delay;
	if (t->wait_arrivals == p->sched_info.pcount)
		cpu->wait_from_ns = t->wait_from_ns;
}

/*
 * A task of an account that waits here for so long shows that the account is behind on this CPU,
 * whatever it has elsewhere. A tenth of the least patience of the kernel's watchdog.
 */
#define BEHIND_NS (1000ULL * 1000 * 1000)

/* A task of an account that was served out of turn had waited here for so long. */
static __always_inline void account_waited_here(struct cpu_ctx *cpu, u32 account, u64 waited_ns)
{
	u64 bit = 1ULL << (account & (ACCOUNTS_MAX - 1));

	if (cpu->out_of_turn == account + 1)
		cpu->behind = waited_ns < BEHIND_NS ? cpu->behind & ~bit : cpu->behind | bit;
	cpu->out_of_turn = 0;
}

/* Counts the wait of what runs here for a lane, unless that was done. */
static __always_inline void wait_count(struct meta_lane *l, struct cpu_ctx *cpu,
				       struct task_struct *p)
{
	u32 slot = l->lane.slot;
	struct wait_histogram *h;
	u64 waited_ns;

	if (!kernel_counts_waits() || cpu->wait_from_ns == NO_WAIT ||
	    cpu->wait_arrivals == p->sched_info.pcount)
		return;
	waited_ns = p->sched_info.run_delay - cpu->wait_from_ns;
	h = bpf_map_lookup_elem(&lane_waits, &slot);
	if (h)
		wait_histogram_add(h, waited_ns);
	cpu->wait_from_ns = NO_WAIT;
	if (unlikely(cpu->out_of_turn))
		account_waited_here(cpu, l->account, waited_ns);
}

#endif
