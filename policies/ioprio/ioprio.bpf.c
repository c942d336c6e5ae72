/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ioprio: priority to tasks that use little of their slices.
 *
 * A task that waits for input and output runs for a moment and sleeps again; one that
 * computes uses up what it is granted. The use of a slice is the run time that was measured
 * over what was granted, and a task's use is the exponential average of that. Below a
 * threshold it waits in a priority queue, which is served before the normal one. Both are
 * first in, first out.
 *
 * It helps an application that has threads of both kinds: one that waits for a device runs as soon as the
 * device has answered. It hurts where many have priority and each waits behind the others; and it ignores
 * weights.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <starvation.bpf.h>
#include "options.h"

enum { ioprio_options(OPTION_INDEX) };
enum { ioprio_counters(COUNTER_INDEX) };

enum { IOPRIO_PRIO, IOPRIO_NORMAL, IOPRIO_QUEUES };

/* A whole slice, in the unit of use: fine enough for an average of which 999 of 1000 stay. */
#define IOPRIO_WHOLE (1000ULL * 1000)

struct ioprio_lane {
	u64 normal_since_ns; /* since when the normal queue waits */
};

struct ioprio_cpu {
	struct queue_here normal;
};

struct ioprio_task {
	u64 use; /* the average */
	u32 known; /* it has run, so that there is one */
	u32 had_priority; /* when it was queued last */
};

/* A run of so much of what was granted counts, by the options' average. */
static __always_inline u64 ioprio_average(struct lane *lane, u64 use, u64 ran_ns, u64 granted_ns)
{
	u64 stays = lane->options[ioprio_option_average_permille];
	u64 now = ran_ns < granted_ns ? ran_ns * IOPRIO_WHOLE / granted_ns : IOPRIO_WHOLE;

	/* After five hours that product has wrapped round. */
	if (now > IOPRIO_WHOLE)
		now = IOPRIO_WHOLE;
	return (use * stays + now * (1000 - stays)) / 1000;
}

static __always_inline u64 ioprio_use(struct lane *lane, const struct ioprio_task *task)
{
	return task->known ? task->use :
			     lane->options[ioprio_option_first_use_percent] * (IOPRIO_WHOLE / 100);
}

static __always_inline bool ioprio_has_priority(struct lane *lane, const struct ioprio_task *task)
{
	return ioprio_use(lane, task) <
	       lane->options[ioprio_option_threshold_percent] * (IOPRIO_WHOLE / 100);
}

static __always_inline u64 ioprio_slice(struct lane *lane, bool prio)
{
	return lane->options[prio ? ioprio_option_prio_slice_ns : ioprio_option_slice_ns];
}

/* A task that goes straight to an idle CPU is granted the slice of its class, and keeps its turn. */
static s32 ioprio_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct lane_task *t = lane_task(lane, p);
	bool prio = t && ioprio_has_priority(lane, STATE_OF(t, struct ioprio_task)), claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, ioprio_slice(lane, prio), &claimed);

	if (claimed)
		lane_count(lane, ioprio_counter_direct);
	return cpu;
}

static void ioprio_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			   u64 enq_flags)
{
	struct ioprio_task *task = STATE_OF(t, struct ioprio_task);
	u64 normal = lane_dsq(lane, IOPRIO_NORMAL);
	bool prio = ioprio_has_priority(lane, task);

	if (prio && task->had_priority && lane->options[ioprio_option_no_starvation]) {
		lane_count(lane, ioprio_counter_held_back);
		prio = false;
	}
	task->had_priority = prio;
	if (prio) {
		lane_count(lane, ioprio_counter_queued_prio);
		lane_insert(lane, p, lane_dsq(lane, IOPRIO_PRIO), ioprio_slice(lane, true), enq_flags);
		return;
	}
	lane_count(lane, ioprio_counter_queued);
	queue_waits(normal, &STATE_OF(lane, struct ioprio_lane)->normal_since_ns);
	lane_insert(lane, p, normal, ioprio_slice(lane, false), enq_flags);
}

static bool ioprio_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			    struct lane_task *t, const struct lane_run *run)
{
	u64 *since_ns = &STATE_OF(lane, struct ioprio_lane)->normal_since_ns;
	u64 normal = lane_dsq(lane, IOPRIO_NORMAL);
	struct cpu_state *of_cpu = lane_cpu(lane, cpu);
	struct queue_here *here;

	if (!of_cpu)
		return false;
	here = &STATE_OF(of_cpu, struct ioprio_cpu)->normal;
	if (prev && !STATE_OF(t, struct ioprio_task)->had_priority)
		queue_has_its_turn_here(since_ns, here);
	if (unlikely(queue_serve_starving(lane, normal, since_ns, here,
					  lane->options[ioprio_option_starvation_ns]))) {
		lane_count(lane, ioprio_counter_rescued);
		return true;
	}
	if (lane_move_to_local(lane, lane_dsq(lane, IOPRIO_PRIO)) ||
	    queue_serve(lane, normal, since_ns, here))
		return true;
	if (!prev)
		return false;
	/* Nobody else wants this CPU. Its use is measured against this slice too. */
	lane_grant(lane, prev, ioprio_slice(lane, STATE_OF(t, struct ioprio_task)->had_priority));
	return true;
}

/*
 * Measured run time over the slice that the task got, from either queue. A task that was preempted, or
 * yielded, wants to run on: such a run says nothing about its use.
 */
static void ioprio_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    const struct lane_run *run)
{
	struct ioprio_task *task = STATE_OF(t, struct ioprio_task);

	if (!task->had_priority)
		queue_has_its_turn(&STATE_OF(lane, struct ioprio_lane)->normal_since_ns);
	if (run->runnable && run->ran_ns < run->granted_ns)
		return;
	task->use = ioprio_average(lane, ioprio_use(lane, task), run->ran_ns, run->granted_ns);
	task->known = 1;
}

static const struct policy_ops ioprio_ops = {
	.select_cpu = ioprio_select_cpu,
	.enqueue = ioprio_enqueue,
	.dispatch = ioprio_dispatch,
	.stopping = ioprio_stopping,
	.queues = IOPRIO_QUEUES,
	.task_bytes = sizeof(struct ioprio_task),
	.cpu_bytes = sizeof(struct ioprio_cpu),
};
