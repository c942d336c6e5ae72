/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel calls that the metascheduler makes and a policy may not.
 *
 * Queues can be made and destroyed only in sleepable context.
 */
#ifndef METASCHED_KCALLS_BPF_H
#define METASCHED_KCALLS_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <cpus.h>
#include <sched.bpf.h>

/* Makes a dispatch queue on memory of @node (-1: any). */
extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __weak __ksym;
/* Destroys one, which must be empty. */
extern void scx_bpf_destroy_dsq(u64 dsq_id) __weak __ksym;

/* An idle CPU of those allowed, claimed; negative if there is none. */
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __weak __ksym;
/* Makes @cpu choose anew; @flags: enum scx_kick_flags. */
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __weak __ksym;
/* The CPUs that are on line; to be given back. */
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __weak __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *cpumask) __weak __ksym;

/* Has @callback called when @task returns to user space, once. 0, or an error: also if it is to be called. */
extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *work,
					 void *map,
					 int (*callback)(struct bpf_map *map, void *key,
							 void *value)) __weak __ksym;

/* Whether all CPUs of @set are in @of. */
extern bool bpf_cpumask_subset(const struct cpumask *set, const struct cpumask *of) __weak __ksym;

/*
 * 0, which the verifier does not know. A walk through a queue that counts from a number that it knows,
 * it reads once for each task.
 */
u32 count_from;
/* How many CPUs there may be, as counted when we came. */
u32 cpus_possible;
/* CPUs that take no tasks, see leaving_cpu.bpf.h; the kernel may still hold them for idle ones. */
struct cpus cpus_off;
/*
 * For so many sweeps from a CPU's last change of state it is looked for CPUs that leave: a second, within
 * which comes the next change, or the end. While one is known to leave they do not count.
 */
#define LEAVING_SWEEPS 250
u32 leaving_sweeps;
/* How many of the others there are, as the sweep last counted them; 0: not yet. */
u32 cpus_working;

static __always_inline bool cpu_takes_tasks(s32 cpu)
{
	return !cpus_has(&cpus_off, cpu);
}

__weak __noinline bool llc_takes_tasks(u32 llc)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		if (cpu_possible(cpu) && cpu_llc(cpu) == llc && cpu_takes_tasks(cpu))
			return true;
	}
	return false;
}

/*
 * Whether the task may not leave its CPU for now; the kernel tells of its only CPU later than it has it
 * enqueued. While we are called it keeps the task that runs from migrating, too: that counts once.
 */
static __always_inline bool may_not_migrate(struct task_struct *p)
{
	return bpf_core_field_exists(struct task_struct, migration_disabled) &&
	       p->migration_disabled > (p == bpf_get_current_task_btf() ? 1 : 0);
}

/*
 * Whether the task is in a read section of RCU, in which it may be preempted where the kernel is built so.
 * The kernel frees nothing before it has left, so it is to run on. We are in one while we are called:
 * that is one of the task that runs.
 */
static __always_inline bool is_in_rcu_section(struct task_struct *p)
{
	return bpf_core_field_exists(struct task_struct, rcu_read_lock_nesting) &&
	       p->rcu_read_lock_nesting > (p == bpf_get_current_task_btf() ? 1 : 0);
}

/* A cpuset gives its tasks no CPU that is off line, so how many a task may use says nothing then. */
__weak __noinline bool task_is_bound(struct task_struct *p __arg_trusted)
{
	const struct cpumask *online;
	bool everywhere;

	if (unlikely(may_not_migrate(p)))
		return true;
	if (likely(p->nr_cpus_allowed >= (s32)cpus_possible))
		return false;
	online = scx_bpf_get_online_cpumask();
	everywhere = bpf_cpumask_subset(online, p->cpus_ptr);
	scx_bpf_put_cpumask(online);
	return !everywhere;
}

/* So many CPUs that have gone are passed over in the search for an idle one. */
#define IDLE_LOOKS 8

/* This CPU is not idle while a task runs on it, as when that is put back into its queue. */
static __always_inline bool runs_here(s32 cpu)
{
	return cpu == (s32)bpf_get_smp_processor_id() &&
	       !(bpf_get_current_task_btf()->flags & PF_IDLE);
}

/* Claims the CPU on which @p ran last, if it is idle: what the task left in its caches is there. */
static __always_inline bool claim_last_cpu(struct task_struct *p, s32 cpu)
{
	return !runs_here(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_takes_tasks(cpu) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* An idle CPU that may run @p, claimed; negative if there is none. */
static __always_inline s32 claim_idle_cpu(struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u32 i;

	if (claim_last_cpu(p, cpu))
		return cpu;
	/* Most often there is none, and no need for a loop's calls. */
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (likely(cpu < 0 || cpu_takes_tasks(cpu)))
		return cpu;
	bpf_for(i, 1, IDLE_LOOKS) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu < 0 || cpu_takes_tasks(cpu))
			return cpu;
	}
	return -1;
}

/* Has an idle CPU that may run @p choose anew; whether there is one. */
static __noinline bool tell_idle_cpu(struct task_struct *p)
{
	s32 cpu = claim_idle_cpu(p);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/*
 * Has idle CPUs choose: only a CPU that is told looks for work, and the teller may have told
 * nobody.
 */
static __noinline void kick_idle_cpus(void)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		if (cpu_possible(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

/*
 * For a task that wakes, select_cpu has looked for an idle CPU. One that comes to
 * enqueue in another way (its slice ended, it yielded, its affinity changed) may
 * be queued beside an idle CPU that nothing would tell of it.
 */
static __always_inline void tell_idle_cpu_unless_selected(struct task_struct *p, u64 enq_flags)
{
	if (unlikely(!(enq_flags & SCX_ENQ_CPU_SELECTED)))
		tell_idle_cpu(p);
}

#endif
