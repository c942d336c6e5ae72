/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs that go off line and come back: what waits for one that takes no more tasks.
 *
 * The kernel tells us of it late (sched_cpu_deactivate()):
 *
 *	the kernel				here
 *	gives the CPU no more tasks
 *						a task waits that may run nowhere else
 *	waits for a grace period of RCU
 *	tells us				what waits for the CPU is moved
 *
 * The task may be the thread that ends grace periods, in a queue of that CPU; or it may have been preempted
 * where it reads under RCU, and be bound to the CPU. Then nothing ended this wait until RCU lost its
 * patience, after 21 s. So the sweep looks which CPUs are on line and are given no tasks: they count as off
 * line, and what waits for them is moved each time. It is made for that while some CPU changes its state,
 * as the kernel's tracepoint tells, and where lanes have queues of CPUs always.
 */
#ifndef METASCHED_LEAVING_CPU_BPF_H
#define METASCHED_LEAVING_CPU_BPF_H

#include <bits.bpf.h>
#include <cpu_masks.bpf.h>
#include <dying_cpu.bpf.h>
#include <kcalls.bpf.h>
#include <lanes.bpf.h>
#include <queues.bpf.h>
#include <requeue.bpf.h>
#include <table.bpf.h>
#include <timer.bpf.h>

/* Of cpus_off those of which the kernel has told us. */
struct cpus cpus_told;

/*
 * What waits in queues of a CPU that takes no tasks is enqueued anew, and so is what waits for its cache
 * if that has no other.
 */
static __noinline void leave_places(u32 cpu)
{
	bool of_llc = !llc_takes_tasks(cpu_llc(cpu));
	struct meta_lane *l;
	u32 i, queue;

	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		if (!l->served)
			continue;
		bpf_for(queue, 0, policy_cpu_queues(l->lane.policy)) {
			requeue_all(lane_cpu_dsq(&l->lane, cpu, queue));
		}
		bpf_for(queue, 0, of_llc ? policy_llc_queues(l->lane.policy) : 0) {
			requeue_all(lane_llc_dsq(&l->lane, cpu_llc(cpu), queue));
		}
	}
}

/* What waits for a CPU that takes no tasks, in any queue, runs once more there or is enqueued anew. */
static __noinline void leave_all(u32 cpu)
{
	struct meta_lane *l;
	u32 i, at, queue;

	leave_cpu(KTHREADS_DSQ, cpu);
	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		if (!l->served)
			continue;
		queue = 0;
		bpf_for(at, 0, l->queues) {
			queue = next_queue(l, queue);
			if (queue >= l->queues)
				break;
			leave_cpu(lane_dsq(&l->lane, queue), cpu);
			queue++;
		}
	}
	leave_places(cpu);
}

/* The kernel tells that a CPU is about to change its state, on its way off line or back. */
static __always_inline void cpu_changes_state(void)
{
	if (!__sync_lock_test_and_set(&leaving_sweeps, LEAVING_SWEEPS))
		sweep_timer_start();
}

/* By the sweep: the CPUs that leave, and those that stay after all. */
static __noinline void sweep_leaving(void)
{
	u32 word, i, cpu;
	u64 online = 0, active = 0, leaving, back;
	bool any = false;

	bpf_for(word, 0, (nr_cpus() + 63) / 64) {
		if (word >= CPUS_MAX / 64 || !cpus_of_kernel(word, &online, &active))
			break;
		leaving = online & ~active & ~READ_ONCE(cpus_told.words[word]);
		back = READ_ONCE(cpus_off.words[word]) & active & ~READ_ONCE(cpus_told.words[word]);
		if (unlikely(back))
			__sync_fetch_and_and(&cpus_off.words[word], ~back);
		bpf_for(i, 0, 64) {
			if (likely(!leaving))
				break;
			cpu = word * 64 + lowest_bit(leaving);
			leaving &= leaving - 1;
			cpus_add(&cpus_off, cpu);
			leave_all(cpu);
			any = true;
		}
	}
	if (!any && READ_ONCE(leaving_sweeps))
		__sync_fetch_and_sub(&leaving_sweeps, 1);
}

/* Those that are off line when we come, and how many there are in all. */
static void find_cpus_off(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		if (!cpu_possible(cpu))
			continue;
		cpus_possible++;
		if (!bpf_cpumask_test_cpu(cpu, online))
			cpus_add(&cpus_off, cpu);
	}
	scx_bpf_put_cpumask(online);
}

/* The kernel tells of a CPU that is on its way off line. */
static __always_inline void cpu_leaves(u32 cpu)
{
	if (!cpus_has(&cpus_told, cpu))
		__sync_fetch_and_add(&cpus_gone, 1);
	cpus_add(&cpus_told, cpu);
	cpus_add(&cpus_off, cpu);
	/*
	 * The kernel held this CPU for an idle one: it may be the one that was kicked for a task. CPUs that
	 * wait for its answer() decide for themselves once they are kicked.
	 */
	kick_idle_cpus();
	leave_all(cpu);
}

/* The kernel tells of a CPU that is back. */
static __always_inline void cpu_returns(u32 cpu)
{
	if (cpus_has(&cpus_told, cpu))
		__sync_fetch_and_sub(&cpus_gone, 1);
	cpus_remove(&cpus_told, cpu);
	cpus_remove(&cpus_off, cpu);
}

#endif
