/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs that their policy has end between two ticks, see lane_end_run(), by a timer for each CPU.
 *
 * Where run queues are locked the kernel has to put the start of a timer off to an interrupt, which costs
 * more than the rest. So a timer goes on by itself while runs are asked to end, and mostly a new end is
 * only written down. A CPU that queues a task may ask for the end of another CPU's run. It then starts
 * that CPU's timer on itself, and a CPU that wakes tasks for hundreds would run hundreds of timers: so such a
 * timer expires once.
 */
#ifndef METASCHED_ENDS_BPF_H
#define METASCHED_ENDS_BPF_H

#include <services.bpf.h>

/* While it goes on it expires in so long at most, to see what was asked for meanwhile. */
#define END_LOOK_NS (1000ULL * 1000)
/* An end may be so late: for less a timer is not set anew. */
#define END_LATE_NS (100ULL * 1000)

__weak __noinline int lane_end_run(struct lane *lane __arg_nonnull, s32 cpu, u64 ns)
{
	struct cpu_ctx *there = cpu_possible(cpu) ? cpu_ctx_of(cpu) : NULL;
	u64 now = scx_bpf_now(), at_ns = now + ns, expires_ns;

	if (!there || (cpu != (s32)bpf_get_smp_processor_id() && runs_for_others(lane, cpu)))
		return 0;
	there->end_after_ns = ns;
	/* Before the timer is read: end_run() does it the other way round. */
	__sync_lock_test_and_set(&there->end_ns, at_ns);
	expires_ns = READ_ONCE(there->end_timer_ns);
	if (expires_ns && vtime_before(now, expires_ns + END_LATE_NS) &&
	    !vtime_before(at_ns + END_LATE_NS, expires_ns))
		return 0;
	if (timer_set_here(TIMER_ENDS + cpu, ns, 0))
		WRITE_ONCE(there->end_timer_ns, at_ns);
	return 0;
}

/* The timer of a CPU for that has expired: in what time it does again, or 0. */
static u64 end_run(s32 cpu)
{
	struct cpu_ctx *there = cpu_ctx_of(cpu);
	u64 now = scx_bpf_now(), end_ns, next_ns;

	if (!there)
		return 0;
	__sync_lock_test_and_set(&there->end_timer_ns, 0);
	end_ns = READ_ONCE(there->end_ns);
	if (!end_ns || !there->task)
		return 0;
	next_ns = end_ns - now;
	if (!vtime_before(now, end_ns)) {
		/* Unless it has ended by itself, and another one was asked to end. */
		if (__sync_val_compare_and_swap(&there->end_ns, end_ns, 0) == end_ns) {
			ends_run(there);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
		if (cpu != (s32)bpf_get_smp_processor_id())
			return 0;
		next_ns = there->end_after_ns;
	}
	if (next_ns > END_LOOK_NS)
		next_ns = END_LOOK_NS;
	if (next_ns < END_LATE_NS)
		next_ns = END_LATE_NS;
	WRITE_ONCE(there->end_timer_ns, now + next_ns);
	return next_ns;
}

#endif
