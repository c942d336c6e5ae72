/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that are woken on a CPU which goes off line, in its last microseconds.
 *
 * First such a CPU takes no more tasks, which we are told. Some ms later it switches its interrupts
 * off, and then still wakes threads, such as the one that waits for it to be gone. What the kernel
 * puts off to an interrupt of this CPU is never done from then on: a kick, the start of a timer, a
 * message to user space. Nor is what it puts off there when the CPU has come back, since only the
 * first in that list raises the interrupt. No kick by this CPU would arrive any more, and our end
 * would wait for one for ever, with no scheduler left that runs tasks.
 *
 * So a task that is woken there goes straight to a CPU, past lanes and policies, which ask for such things.
 */
#ifndef METASCHED_DYING_CPU_BPF_H
#define METASCHED_DYING_CPU_BPF_H

#include <kcalls.bpf.h>
#include <lanes.bpf.h>
#include <services.bpf.h>

/* How many CPUs have gone since we came, and not come back. */
u32 cpus_gone;

/* Whether this CPU has switched its interrupts off for good; that is when it is no more on line. */
static __noinline bool has_gone_off_line(s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool is_online = bpf_cpumask_test_cpu(cpu, online);

	scx_bpf_put_cpumask(online);
	return !is_online;
}

static __always_inline bool on_dying_cpu(void)
{
	return unlikely(READ_ONCE(cpus_gone)) && has_gone_off_line(bpf_get_smp_processor_id());
}

/* A CPU for a task that is woken on a dying one. */
static __noinline s32 select_from_dying_cpu(struct task_struct *p, s32 prev_cpu)
{
	s32 cpu = claim_idle_cpu(p);

	return cpu < 0 ? prev_cpu : cpu;
}

/* Puts it there: the kernel tells that CPU by itself. */
static __always_inline void enqueue_from_dying_cpu(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SHARED_SLICE_NS, local_enq_flags(p, enq_flags));
}

#endif
