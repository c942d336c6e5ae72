/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that a policy may include, and every kernel call that it may make.
 *
 * A policy is written once and runs in two hosts: in the kernel, inside the
 * metascheduler's BPF program, and natively in the simulator. What is not listed
 * here is not modelled there, and does not link.
 *
 * A policy NAME defines, as static functions,
 *
 *	s32  NAME_select_cpu(lane, p, prev_cpu, wake_flags)	a task wakes
 *	void NAME_enqueue(lane, p, enq_flags)			a task wants a CPU
 *	bool NAME_dispatch(lane, cpu)				a CPU wants a task
 *
 * and one that keeps state per task (TASK_POLICY in policies.def) takes the
 * task's state as well, and is told of more:
 *
 *	void NAME_enqueue(lane, p, t, enq_flags)
 *	bool NAME_dispatch(lane, cpu, prev, t, ran_ns)
 *		prev is the lane's task that has used up its slice here and wants
 *		to go on, ran_ns what it has run; NULL if there is none. To let it
 *		go on, give it a new slice and return true.
 *	void NAME_join(lane, p, t)		p is new to the lane, t is zeroed
 *	void NAME_running(lane, p, t)		p starts to run
 *	void NAME_stopping(lane, p, t, ran_ns, runnable)  p stops; how long it ran
 *
 * The rules that let level 1 share CPUs between lanes:
 * - Insert into SCX_DSQ_LOCAL only in select_cpu, and only on a CPU that was
 *   just claimed idle: a local queue is served before anything else.
 * - Otherwise insert into the lane's own queues, lane_dsq(lane, 0) and on; how
 *   many there are stands in policies.def.
 * - enqueue inserts the task once. dispatch returns whether it moved a task.
 * - Slices are finite.
 */
#ifndef METASCHED_SCHED_BPF_H
#define METASCHED_SCHED_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <compat.bpf.h>
#include <lane.h>
#include <stats.bpf.h>

/*
 * From compat.bpf.h:
 *	bool scx_bpf_dsq_insert(p, dsq_id, slice_ns, enq_flags)
 *	bool scx_bpf_dsq_insert_vtime(p, dsq_id, slice_ns, vtime, enq_flags)
 *	bool scx_bpf_dsq_move_to_local(dsq_id)
 * From stats.bpf.h:
 *	void lane_count(lane, counter)
 */

/* The default choice of a CPU for @p; claims it if it is idle. In select_cpu. */
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __weak __ksym;
/* The number of tasks queued in @dsq_id; negative if there is no such queue. */
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __weak __ksym;

/* The first task of @dsq_id, or NULL; it may leave the queue at any moment. */
extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __weak __ksym;
/* Sets what is left of a task's slice. In dispatch, for the task that ran there. */
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __weak __ksym;

/*
 * The id of a lane's dispatch queue. The only place that builds such ids.
 *
 *	 63   62          16 15     8 7      0
 *	+---+---------------+--------+--------+
 *	| 0 |  generation   |  slot  | queue  |
 *	+---+---------------+--------+--------+
 *
 * Bit 63 is the kernel's mark of its built-in queues. The generation makes the
 * id of a freed lane's queue impossible to mistake for its successor's.
 */
static __always_inline u64 make_dsq_id(u64 generation, u32 slot, u32 queue)
{
	return (generation << LANE_DSQ_BITS) | ((u64)(slot & 0xff) << 8) | (queue & 0xff);
}

/* The id of queue @queue of @lane. */
static __always_inline u64 lane_dsq(const struct lane *lane, u32 queue)
{
	return lane->dsq + queue;
}

/* Whether virtual time @a lies before @b; both may have wrapped round. */
static __always_inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Run time scaled by weight: what a task (or a lane) of @weight is charged. */
static __always_inline u64 weighted_ns(u64 ran_ns, u32 weight)
{
	return ran_ns * WEIGHT_DFL / (weight ? weight : 1);
}

#endif
