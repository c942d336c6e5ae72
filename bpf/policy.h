/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy is: its callbacks, its queues and its state, named by one constant
 * at the end of its file,
 *
 *	static const struct policy_ops NAME_ops = { .enqueue = NAME_enqueue, ... };
 *
 * What it does not name does not exist. The compiler knows the constant, so that a
 * callback is called directly, and a test for one that is not named is no code; no
 * address of a function is left in the program's data, which the kernel would not
 * take. The build checks that.
 */
#ifndef METASCHED_POLICY_H
#define METASCHED_POLICY_H

#include <lane.h>

/*
 * @lane	the lane; its options and state are the policy's to read and write
 * @p		a task of the lane
 * @t		what the policy keeps of that task, see lane.h. A policy that is told of
 *		nothing but wake-ups and queues (see POLICY_WATCHES) gets NULL
 * @run		how the task's run is going, or went; NULL like @t
 */
struct policy_ops {
	/*
	 * A task wakes: the CPU to queue it near. To run it there at once, past the lane's
	 * queues, claim the CPU idle and insert the task into SCX_DSQ_LOCAL. What is kept of
	 * the task is not looked for yet: lane_task() does that.
	 */
	s32 (*select_cpu)(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	/* A task wants a CPU: insert it once, into a queue of the lane. */
	void (*enqueue)(struct lane *lane, struct task_struct *p, struct lane_task *t,
			u64 enq_flags);
	/*
	 * @cpu wants a task: move one there, and return whether there was one. @prev is the
	 * lane's task that has used up its slice there and wants to go on, or NULL, and then
	 * @t and @run say nothing. To let it go on, lane_grant() it a slice and return true.
	 */
	bool (*dispatch)(struct lane *lane, s32 cpu, struct task_struct *prev,
			 struct lane_task *t, const struct lane_run *run);
	/* A task is new to the lane. */
	void (*join)(struct lane *lane, struct task_struct *p, struct lane_task *t);
	/* A task starts to run. */
	void (*running)(struct lane *lane, struct task_struct *p, struct lane_task *t);
	/* A task stops. */
	void (*stopping)(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 const struct lane_run *run);

	/* The tick of a CPU that runs a task: lane_grant() it 0 to end its run. */
	void (*tick)(struct lane *lane, struct task_struct *p, struct lane_task *t,
		     const struct lane_run *run);
	/*
	 * A task wants to run from now on, or comes to the lane while it does; that it is queued,
	 * or put on an idle CPU, is apart from this.
	 */
	void (*runnable)(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags);
	/*
	 * A task that was runnable sleeps, ends, changes its CPUs, or leaves the lane, maybe while
	 * it runs. SCX_DEQ_SLEEP says that it sleeps.
	 */
	void (*quiescent)(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  u64 deq_flags);
	/* The lane is new; nobody knows it yet. Set its timer here for the first time. */
	void (*start)(struct lane *lane);
	/* The lane's timer expires, see lane_timer_set(). No CPU is there to take a task. */
	void (*timer)(struct lane *lane);
	/*
	 * @cpu was asked to decide for others, see lane_ask(): it hands tasks to them. That ends
	 * nobody's run on @cpu: to have a task run there at once, lane_kick() it too.
	 */
	void (*answer)(struct lane *lane, s32 cpu);

	/*
	 * The half in user space has decided where a task is to go that was left to it with
	 * lane_tell_user(), or, with NULL for @d, has not for UNDECIDED_NS: the policy does it
	 * alone. A policy that names this has such a half.
	 */
	void (*decide)(struct lane *lane, struct task_struct *p, struct lane_task *t,
		       const struct lane_decision *d, struct lane_place *place);

	/*
	 * How many queues a lane has that any CPU may take tasks from, how many for each
	 * last-level cache, and how many for each CPU: LANE_QUEUES_MAX at most of each kind.
	 * See lane_dsq(), lane_llc_dsq() and lane_cpu_dsq(). When a CPU goes off line what waits
	 * in its own queues is enqueued anew.
	 */
	u32 queues;
	u32 llc_queues;
	u32 cpu_queues;
	/* What it keeps of each task, for each CPU, cache and cgroup, and sets of CPUs. */
	u32 task_bytes; /* TASK_STATE_BYTES at most */
	u32 cpu_bytes; /* CPU_STATE_BYTES at most, see lane_cpu() */
	u32 llc_bytes; /* LLC_STATE_BYTES at most, see lane_llc() */
	u32 group_bytes; /* of each cgroup; GROUP_STATE_BYTES at most, see lane_group() */
	u32 cpu_sets; /* LANE_CPU_SETS_MAX at most, see lane_cpu_set() */
	/* Its dispatch looks at @prev, though nothing else makes level 1 follow tasks. */
	u32 looks_at_prev;
	/* It grants SCX_SLICE_INF: level 1 ends such a run when somebody else needs its CPU. */
	u32 infinite;
	/* It leaves CPUs idle on purpose, see lane_rest(). */
	u32 rests;
	/* It has idle CPUs sleep lightly, see lane_stay_awake(). */
	u32 stays_awake;
	/* It has runs end between two ticks, see lane_end_run(). */
	u32 ends_runs;
};

/*
 * Whether the policy has to be told of each task's runs. Level 1 looks for a task's
 * record then, which a lane alone of another policy does without.
 */
#define POLICY_WATCHES(ops)                                                                        \
	((ops).task_bytes || (ops).join || (ops).running || (ops).stopping || (ops).tick ||        \
	 (ops).runnable || (ops).quiescent || (ops).infinite || (ops).answer || (ops).decide ||    \
	 (ops).group_bytes || (ops).looks_at_prev || (ops).ends_runs)

/* What of lane.h's list it uses. */
#define POLICY_USES(ops)                                                                           \
	(((ops).tick ? USES_TICK : 0) |                                                            \
	 ((ops).runnable || (ops).quiescent ? USES_RUNNABLE : 0) |                                 \
	 ((ops).timer ? USES_TIMER : 0) | ((ops).answer ? USES_ANSWER : 0) |                       \
	 ((ops).infinite ? USES_INFINITE : 0) | ((ops).group_bytes ? USES_GROUPS : 0) |            \
	 ((ops).llc_queues || (ops).cpu_queues ? USES_PLACES : 0) |                                \
	 ((ops).rests ? USES_REST : 0) | ((ops).stays_awake ? USES_AWAKE : 0) |                    \
	 ((ops).ends_runs ? USES_ENDS : 0))

#endif
