// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: makes the calls about CPUs and queues that no policy in the tree makes yet, on a
 * machine of two cores with two CPUs each, and gives up where an answer is wrong.
 */
#include "fault.h"

#define TRY(condition)                                                               \
	do {                                                                         \
		if (!(condition))                                                    \
			scx_bpf_error_bstr(#condition, NULL, 0);                     \
	} while (0)

#define SORTED 0x12

/* Read by the test. */
u64 idle_cores, idle_siblings, walks, moves;

static s32 machine_calls_init(void)
{
	return honest_init() ?: scx_bpf_create_dsq(SORTED, -1);
}

static s32 machine_calls_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	const struct cpumask *cores = scx_bpf_get_idle_smtmask();
	const struct cpumask *cpus = scx_bpf_get_idle_cpumask();
	s32 cpu;

	/* A core is idle as a whole or not at all. */
	TRY((cores->bits[0] & 5) == (cores->bits[0] >> 1 & 5));
	TRY(!(cores->bits[0] & ~cpus->bits[0]));
	scx_bpf_put_idle_cpumask(cpus);
	if (cores->bits[0]) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
		TRY(cpu < 0 || !bpf_cpumask_test_cpu(cpu ^ 1, cores));
		if (cpu >= 0)
			idle_cores++;
	} else {
		TRY(scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE) == -EBUSY);
		TRY(scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr,
					   SCX_PICK_IDLE_CORE) == -EBUSY);
		cpu = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);
		if (cpu >= 0)
			idle_siblings++;
	}
	scx_bpf_put_idle_cpumask(cores);
	if (cpu < 0)
		return prev_cpu;
	TRY(!scx_bpf_test_and_clear_cpu_idle(cpu));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	return cpu;
}

/* Takes the task of most weight out of the queue, by way of one that is sorted. */
static void machine_calls_dispatch(s32 cpu, struct task_struct *prev)
{
	struct task_struct *p, *last = NULL;
	s32 before = scx_bpf_dsq_nr_queued(QUEUE), moved = 0, seen = 0;

	bpf_for_each(scx_dsq, p, QUEUE, 0) {
		seen++;
		last = p;
	}
	TRY(seen == before);
	bpf_for_each(scx_dsq, p, QUEUE, SCX_DSQ_ITER_REV) {
		TRY(p == last);
		break;
	}
	bpf_for_each(scx_dsq, p, QUEUE, 0) {
		scx_bpf_dsq_move_set_slice(&___it, SLICE_NS / 2);
		scx_bpf_dsq_move_set_vtime(&___it, 10000 - p->scx.weight);
		TRY(scx_bpf_dsq_move_vtime(&___it, p, SORTED, 0));
		TRY(p->scx.slice == SLICE_NS / 2);
		/* It is not in that queue any more. */
		TRY(!scx_bpf_dsq_move(&___it, p, QUEUE, 0));
		moved++;
	}
	TRY(moved == before && !scx_bpf_dsq_nr_queued(QUEUE));
	bpf_for_each(scx_dsq, p, 0x77, 0) {
		TRY(!"a walk through a queue that is not there");
	}
	walks++;
	moves += moved;
	if (scx_bpf_dsq_move_to_local(SORTED))
		scx_bpf_kick_cpu(cpu ^ 2, SCX_KICK_PREEMPT | SCX_KICK_WAIT);
}

struct sched_ext_ops machine_calls = {
	HONEST,
	.init = machine_calls_init,
	.select_cpu = machine_calls_select_cpu,
	.dispatch = machine_calls_dispatch,
};

static void waits_for_idle(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_kick_cpu(0, SCX_KICK_IDLE | SCX_KICK_WAIT);
	honest_enqueue(p, enq_flags);
}

static void moves_while_locked(struct task_struct *p, u64 enq_flags)
{
	struct task_struct *q;

	bpf_for_each(scx_dsq, q, QUEUE, 0) {
		scx_bpf_dsq_move(&___it, q, SCX_DSQ_LOCAL, 0);
	}
	honest_enqueue(p, enq_flags);
}

struct sched_ext_ops kicks_idle_and_waits = { HONEST, .enqueue = waits_for_idle };
struct sched_ext_ops moves_from_a_queue_in_enqueue = { HONEST, .enqueue = moves_while_locked };
