/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that a policy may include, and every kernel call that it may make.
 *
 * A policy is written once and runs in two hosts: in the kernel, inside the
 * metascheduler's BPF program, and natively in the simulator. What is not listed
 * here is not modelled there, and does not link.
 *
 * policy.h lists the parts of a policy. The rules that let level 1 share CPUs
 * between lanes:
 * - Insert into SCX_DSQ_LOCAL only in select_cpu, and only on a CPU that was
 *   just claimed idle: a local queue is served before anything else.
 * - Otherwise insert into the lane's own queues: lane_dsq(), lane_llc_dsq(), lane_cpu_dsq().
 * - enqueue inserts the task once. dispatch returns whether it moved a task.
 * - A slice is a wish. While other lanes have work level 1 cuts it, when the task starts or
 *   at a tick, and a limit of cpu.max ends a run before it does; see lane_run.
 * - SCX_SLICE_INF only where policy.h's `infinite` says so.
 */
#ifndef METASCHED_SCHED_BPF_H
#define METASCHED_SCHED_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <compat.bpf.h>
#include <lane.h>
#include <policy.h>
#include <state.bpf.h>
#include <stats.bpf.h>
#include <topology.bpf.h>

/* From stats.bpf.h: void lane_count(lane, counter) */

/*
 * What level 1 does for a policy, in services.bpf.h. A policy does not make the kernel's
 * calls for these: level 1 has a say in them.
 */

/* Level 1 is told that a task comes to @dsq_id, where it would else not look for one. */
static __always_inline void lane_mark(struct lane *lane, u64 dsq_id);

/* Queues @p at the end of @dsq_id for @slice_ns of run time. */
static __always_inline void lane_insert(struct lane *lane, struct task_struct *p, u64 dsq_id,
					u64 slice_ns, u64 enq_flags)
{
	lane_mark(lane, dsq_id);
	scx_bpf_dsq_insert(p, dsq_id, slice_ns, enq_flags);
}

/* Queues @p in @dsq_id by ascending @vtime. A queue cannot mix both orders. */
static __always_inline void lane_insert_vtime(struct lane *lane, struct task_struct *p, u64 dsq_id,
					      u64 slice_ns, u64 vtime, u64 enq_flags)
{
	lane_mark(lane, dsq_id);
	scx_bpf_dsq_insert_vtime(p, dsq_id, slice_ns, vtime, enq_flags);
}

/* In dispatch: moves the first task of @dsq_id that may run on this CPU there, if there is one. */
static __always_inline bool lane_move_to_local(struct lane *lane, u64 dsq_id)
{
	return scx_bpf_dsq_move_to_local(dsq_id);
}

/* In select_cpu: the policy's state of @p, which joins the lane; NULL if there is no memory. */
static struct lane_task *lane_task(struct lane *lane, struct task_struct *p);

/*
 * The cgroup that @p is directly in; NULL if there is no memory. All that is unknown to level 1
 * is one cgroup, as on a kernel that tells of none. Several CPUs may have it at once.
 */
static struct lane_group *lane_group(struct lane *lane, struct task_struct *p);

/*
 * The cgroup above; NULL above the root of the hierarchy and above what the lane's application is
 * assigned: there the lane ends.
 */
static struct lane_group *lane_group_above(struct lane *lane, struct lane_group *group);

/* The cgroup with that place and serial; NULL if it is gone, or its state has begun anew. */
static struct lane_group *lane_group_find(struct lane *lane, u32 place, u64 serial);

/*
 * What a cgroup weighs beside its siblings and the tasks that are next to them, in parts of a
 * weight: cpu.weight << WEIGHT_BITS, or what is left of it where cgroups below it have lanes
 * of their own. With cpu.idle it is WEIGHT_IDLE.
 */
static u64 lane_group_weight(struct lane *lane, struct lane_group *group);

/* In dispatch: what the policy keeps of a queued task; NULL if it is not of this lane. */
static struct lane_task *lane_kept(struct lane *lane, struct task_struct *p);

/*
 * In dispatch: lets the task that ran on this CPU go on for @slice_ns. In running: that is the slice
 * of the run that begins, in place of what the task was queued with. In tick: 0 ends its run.
 */
int lane_grant(struct lane *lane, struct task_struct *p, u64 slice_ns);

/* Whether @cpu is on line, or may be: level 1 knows a little late of one that goes. */
static __always_inline bool cpu_takes_tasks(s32 cpu);

/* Whether a CPU under that last-level cache does. */
bool llc_takes_tasks(u32 llc);

/* Whether there are CPUs on line that @p may not use, or must not before it may migrate again. */
bool task_is_bound(struct task_struct *p);

/*
 * Has @cpu choose anew if it is idle; with @preempt, also if it runs a task of this lane. What
 * runs for another lane is level 1's to preempt.
 */
int lane_kick(struct lane *lane, s32 cpu, bool preempt);

/*
 * In running, dispatch, enqueue and decide: a timer ends the run of the task of this lane that @cpu runs,
 * or is about to run, in @ns, or up to 0.1 ms later: that a slice is used up is seen at a tick only. Each
 * run is asked for anew. Ask only while somebody waits, since timers interrupt, and only where policy.h's
 * `ends_runs` says so.
 */
int lane_end_run(struct lane *lane, s32 cpu, u64 ns);

/*
 * Has the policy's timer() called once, in @ns, instead of when it was set to before; 100 us at
 * least, since the timer interrupts the task that runs there. False if the timer was not set: in callbacks
 * about tasks the kernel may have no memory for that.
 */
bool lane_timer_set(struct lane *lane, u64 ns);

/*
 * In stopping, where the task sleeps: this CPU does not sleep deeply for @ns, or until it runs a task
 * again. An interrupt comes each 100 us, so the kernel chooses a state that it soon comes back from.
 * The CPU is idle for all meanwhile. Only where policy.h's `stays_awake` says so.
 */
int lane_stay_awake(struct lane *lane, u64 ns);

/*
 * Has the policy's answer() called on another CPU, at its next dispatch, even if it runs a task of
 * another lane: there, in one place, a policy decides for all CPUs. That CPU is interrupted at once, or
 * 100 us after it was last, at the earliest; one answer serves all calls that were made meanwhile. False
 * if the CPU is off line; then decide here. The task that runs there is interrupted: do not call this for
 * what an answer causes itself, such as a task that was queued because it was interrupted.
 */
bool lane_ask(struct lane *lane, s32 cpu);

/*
 * In answer, timer and dispatch: puts the first task of @dsq_id that may run on @cpu into
 * queue @queue of those that CPU has, and tells the CPU if it is idle. False if there is none
 * among the first 32, or the CPU is off line.
 */
bool lane_hand(struct lane *lane, u64 dsq_id, s32 cpu, u32 queue);

/*
 * In dispatch: the vtime of the first task of @dsq_id, a queue in the order of vtime, that may run on
 * @cpu or on @other; LANE_NOBODY if there is none among the first 64.
 */
u64 lane_first(struct lane *lane, u64 dsq_id, s32 cpu, s32 other);

/*
 * In dispatch: hands over as lane_hand() does, from a queue in the order of vtime, the first task among
 * 64 that may run on @cpu and whose vtime has @mark in its low LANE_MARK_BITS.
 */
bool lane_hand_marked(struct lane *lane, u64 dsq_id, s32 cpu, u32 queue, u64 mark);

/*
 * In dispatch, before it returns false: @p, which wants to go on, is enqueued, and its CPU goes idle
 * if no other lane has work for it. In running: the run of @p is over before it began, and the CPU
 * chooses anew. Only where policy.h's `rests` says so.
 */
int lane_rest(struct lane *lane, struct task_struct *p);

/*
 * In dispatch: moves to this CPU the first task of @dsq_id that may run there and of whose state
 * word @word lies before @limit, if there is one among the first @looks; or the last among so many
 * from the end, with SCX_DSQ_ITER_REV in @looks, which is less than that.
 */
bool lane_move_before(struct lane *lane, u64 dsq_id, u32 word, u64 limit, u64 looks);

/*
 * In dispatch: moves to this CPU the first task of @dsq_id that may run there and whose state word @word
 * has @mark in its highest 16 bits, if there is one among the first @looks.
 */
bool lane_move_marked(struct lane *lane, u64 dsq_id, u32 word, u32 mark, u32 looks);

/*
 * In enqueue, in place of an insert: tells the half in user space of @p and queues it as
 * undecided. decide() is called when that half has decided, or after UNDECIDED_NS. False if no such half
 * is there: then the policy inserts @p itself.
 */
bool lane_tell_user(struct lane *lane, struct task_struct *p, u64 enq_flags);

/* The default choice of a CPU for @p; claims it if it is idle. In select_cpu. */
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __weak __ksym;
/* Whether @cpu is in @mask, such as p->cpus_ptr: the CPUs that a task may use. */
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __weak __ksym;
/* The CPUs that are idle; to be given back. One on its way off line may be among them. */
extern const struct cpumask *scx_bpf_get_idle_cpumask(void) __weak __ksym;
extern void scx_bpf_put_idle_cpumask(const struct cpumask *idle_mask) __weak __ksym;
/* Claims @cpu if it is idle. */
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __weak __ksym;
/* The time by the run queue's clock, ns: cheaper than reading one. */
extern u64 scx_bpf_now(void) __weak __ksym;
/* The CPU on whose run queue @p is. */
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __weak __ksym;
/* The number of tasks queued in @dsq_id; negative if there is no such queue. */
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __weak __ksym;

/* The first task of @dsq_id, or NULL; it may leave the queue at any moment. */
extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __weak __ksym;
/* Sets what is left of a task's slice. In dispatch, for the task that ran there. */
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __weak __ksym;

/*
 * The id of a lane's dispatch queue. The only place that builds such ids.
 *
 *	 63   62          24 23    16 15     0
 *	+---+---------------+--------+--------+
 *	| 0 |  generation   |  slot  | queue  |
 *	+---+---------------+--------+--------+
 *
 * Bit 63 is the kernel's mark of its built-in queues. The generation makes the
 * id of a freed lane's queue impossible to mistake for its successor's. The queues of
 * a lane are numbered through: those that belong to no place, then the first of each
 * last-level cache, the second of each, and so on, then those of CPUs in the same way.
 */
#define DSQ_SLOT_SHIFT 16

static __always_inline u64 make_dsq_id(u64 generation, u32 slot, u32 queue)
{
	return (generation << LANE_DSQ_BITS) | ((u64)(slot & 0xff) << DSQ_SLOT_SHIFT) |
	       (queue & 0xffff);
}

/* The id of queue @queue of @lane. */
static __always_inline u64 lane_dsq(const struct lane *lane, u32 queue)
{
	return lane->dsq + queue;
}

/* The id of queue @queue of those that a last-level cache has. */
static __always_inline u64 lane_llc_dsq(const struct lane *lane, u32 llc, u32 queue)
{
	return lane->llc_dsq + queue * nr_llcs() + llc;
}

/* The id of queue @queue of those that a CPU has. */
static __always_inline u64 lane_cpu_dsq(const struct lane *lane, u32 cpu, u32 queue)
{
	return lane->cpu_dsq + queue * nr_cpus() + cpu;
}

/* Whether virtual time @a lies before @b; both may have wrapped round. */
static __always_inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* How long @then is ago at @now, in ns: below 0 where another CPU, whose clock is ahead, wrote it. */
static __always_inline s64 ns_since(u64 then, u64 now)
{
	return now - then;
}

/*
 * The weight of a task. A kernel thread weighs the default at least: it may be preempted while all tasks wait
 * for it. khugepaged (nice 19, weight 1) stood in a read section of RCU for 21 s beside eighty tasks on a
 * CPU, and the kernel ended the program.
 */
static __always_inline u32 task_weight(const struct task_struct *p)
{
	u32 weight = p->scx.weight;

	return p->flags & PF_KTHREAD && weight < WEIGHT_DFL ? WEIGHT_DFL : weight;
}

/* Run time scaled by weight: what a task (or a lane) of @weight is charged. */
static __always_inline u64 weighted_ns(u64 ran_ns, u32 weight)
{
	return ran_ns * WEIGHT_DFL / (weight ? weight : 1);
}

#endif
