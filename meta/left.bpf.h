/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which tasks wait at the head of the queues, as a CPU sees it that goes idle, or that chooses.
 */
#ifndef METASCHED_LEFT_BPF_H
#define METASCHED_LEFT_BPF_H

#include <level1.bpf.h>
#include <kthreads.bpf.h>

/* Tasks at the head of a queue that are looked at. */
#define LEFT_LOOKS 8

/* The outcomes when a CPU that goes idle looks at a queue. */
enum left {
	LEFT_NOBODY, /* that another CPU could be told of */
	LEFT_TOLD, /* an idle CPU was told of somebody */
	LEFT_MINE, /* somebody that this CPU may run itself */
};

/* In place of a CPU's number: no CPU may run the tasks that are left. */
#define NO_CPU (-1)

/*
 * Tells an idle CPU that may run one of the first tasks of a queue, unless @cpu may run one
 * that stands before it.
 */
__noinline int tell_of_left(u64 dsq, s32 cpu)
{
	struct task_struct *p;
	u32 looks = count_from;

	if (!scx_bpf_dsq_nr_queued(dsq))
		return LEFT_NOBODY;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (cpu != NO_CPU && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return LEFT_MINE;
		if (tell_idle_cpu(p))
			return LEFT_TOLD;
		if (++looks >= LEFT_LOOKS)
			break;
	}
	return LEFT_NOBODY;
}

/* Whether one of the first tasks of a queue that may run on @cpu waits since that time or longer. */
__noinline bool queue_has_waiting(u64 dsq, s32 cpu, u64 since_ns)
{
	struct task_struct *p;
	u32 looks = count_from;

	if (!scx_bpf_dsq_nr_queued(dsq))
		return false;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && waits_since(p, since_ns))
			return true;
		if (++looks >= LEFT_LOOKS)
			break;
	}
	return false;
}

/*
 * Calls @says for each queue of an account from which a CPU takes tasks, until it returns other than 0.
 * In line, with @says in it.
 */
static __always_inline int ask_queues(u32 number, s32 cpu, u64 since_ns,
				      int (*says)(u64 dsq, s32 cpu, u64 since_ns))
{
	u32 i, at, queue, lane = account_at(number)->first;
	struct meta_lane *l;
	int said;

	bpf_for(i, 0, LANES_MAX) {
		if (!lane)
			break;
		l = lane_at(lane - 1);
		queue = 0;
		bpf_for(at, 0, l->ready) {
			queue = next_queue(l, queue);
			if (queue >= l->ready)
				break;
			said = says(lane_dsq(&l->lane, queue), cpu, since_ns);
			if (said)
				return said;
			queue++;
		}
		lane = l->next;
	}
	return 0;
}

static __always_inline int says_what_is_left(u64 dsq, s32 cpu, u64 since_ns)
{
	return tell_of_left(dsq, cpu);
}

static __always_inline int says_who_waits(u64 dsq, s32 cpu, u64 since_ns)
{
	return queue_has_waiting(dsq, cpu, since_ns);
}

/* tell_of_left() for the queues of an account. */
__noinline int account_tell_of_left(u32 number, s32 cpu)
{
	return ask_queues(number, cpu, 0, says_what_is_left);
}

/* Whether one of an account's first tasks that may run on @cpu waits since that time or longer. */
__noinline bool account_has_waiting(u32 number, s32 cpu, u64 since_ns)
{
	return ask_queues(number, cpu, since_ns, says_who_waits);
}

/* tell_of_left() for all queues. */
static __noinline int tell_of_all_left(s32 cpu, u32 root)
{
	u64 left = accounts_with_work(root);
	int said;
	u32 i;

	if (root & ROOT_LANES) {
		said = tell_of_left(KTHREADS_DSQ, cpu);
		if (said != LEFT_NOBODY)
			return said;
	}
	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!left)
			break;
		said = account_tell_of_left(lowest_account(left), cpu);
		left &= left - 1;
		if (said != LEFT_NOBODY)
			return said;
	}
	return LEFT_NOBODY;
}

#endif
