/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vtime: weighted fair by virtual time.
 *
 * Each task carries its vtime: the time that it ran, divided by its weight. One
 * queue for all CPUs, lowest vtime first, so that tasks which want more than
 * there is get CPU time in proportion to their weights. The lane's vtime_now
 * follows the task that runs; a task that slept comes back at most one slice
 * behind it, and so ahead of those that kept running. A task that had a CPU to
 * itself, while others shared those that it may not use or that may not use its
 * own, gets ahead without having taken anything from anybody: it comes back as far
 * ahead as one run brings it. Light tasks run for less, and not more rarely: after
 * 20 ms one of weight 1 would wait until each of the others had 2 s.
 *
 * It helps where tasks that mostly sleep share CPUs with hogs, and where weights
 * must count. It hurts where many tasks wake at once: the ones that ran least
 * are always first, and a task in the middle can wait long. Nothing is
 * preempted before its slice ends.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <rescue.bpf.h>
#include <weighted.bpf.h>
#include "options.h"

enum { vtime_options(OPTION_INDEX) };
enum { vtime_counters(COUNTER_INDEX) };

/* The least slice of a light task: in less, switching would take more than a hundredth. */
#define VTIME_LEAST_SLICE_NS (1000ULL * 1000)

struct vtime_lane {
	u64 vtime_now; /* the highest vtime of a task that started to run */
};

struct vtime_task {
	u64 vtime; /* ns at WEIGHT_DFL */
	u64 queued_ns; /* since when it waits */
};

struct vtime_cpu {
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
};

static void vtime_advance(struct lane *lane, u64 vtime)
{
	weighted_advance(&STATE_OF(lane, struct vtime_lane)->vtime_now, vtime);
}

/* A task comes back no farther behind than this. */
static u64 vtime_floor(struct lane *lane)
{
	return STATE_OF(lane, struct vtime_lane)->vtime_now - lane->options[vtime_option_slice_ns];
}

/* What a task is granted: the lane's slice, in proportion to its weight if that is light. */
static u64 vtime_slice(struct lane *lane, struct task_struct *p)
{
	u64 slice_ns = lane->options[vtime_option_slice_ns], light_ns;

	if (likely(task_weight(p) >= WEIGHT_DFL) || slice_ns <= VTIME_LEAST_SLICE_NS)
		return slice_ns;
	light_ns = slice_ns * task_weight(p) / WEIGHT_DFL;
	return light_ns > VTIME_LEAST_SLICE_NS ? light_ns : VTIME_LEAST_SLICE_NS;
}

static s32 vtime_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[vtime_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, vtime_counter_direct);
	return cpu;
}

/* A newcomer stands where the lane stands: neither credit nor debt. */
static void vtime_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	STATE_OF(t, struct vtime_task)->vtime = STATE_OF(lane, struct vtime_lane)->vtime_now;
}

static void vtime_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  u64 enq_flags)
{
	struct vtime_task *task = STATE_OF(t, struct vtime_task);
	u64 slice_ns = vtime_slice(lane, p);
	u64 now = STATE_OF(lane, struct vtime_lane)->vtime_now;
	u64 place = weighted_place(now, task->vtime, lane->options[vtime_option_slice_ns],
				   slice_ns, task_weight(p));

	if (unlikely(place != task->vtime))
		lane_count(lane, vtime_before(task->vtime, place) ? vtime_counter_capped :
								    vtime_counter_forgiven);
	task->vtime = place;
	task->queued_ns = scx_bpf_now();
	lane_count(lane, vtime_counter_queued);
	lane_insert_vtime(lane, p, lane_dsq(lane, 0), slice_ns, task->vtime, enq_flags);
}

static void vtime_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	vtime_advance(lane, STATE_OF(t, struct vtime_task)->vtime);
}

/*
 * The task that ran competes with those that wait, at the vtime that it has come
 * to: else two hogs on a CPU would take turns whatever their weights. It is in no
 * queue, so it is compared with the first that waits for this CPU. A hog alone is never stopped
 * by the kernel, so vtime_now follows it here too: a task that came later would else
 * join where the hog began, and starve it for as long as it ran alone.
 *
 * It competes from no farther behind than if it came now: of two tasks that may use this CPU
 * only, while vtime_now goes faster elsewhere, each would else have to catch up with where the
 * other was put, for longer each time. So these take turns, whatever their weights.
 */
static bool vtime_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			   struct lane_task *t, const struct lane_run *run)
{
	struct cpu_state *here = lane_cpu(lane, cpu);
	u64 dsq = lane_dsq(lane, 0);

	if (here && rescue(lane, dsq, STATE_WORD(struct vtime_task, queued_ns),
			   &STATE_OF(here, struct vtime_cpu)->rescue_ns, scx_bpf_now())) {
		lane_count(lane, vtime_counter_rescued);
		return true;
	}
	if (prev) {
		u64 vtime = STATE_OF(t, struct vtime_task)->vtime +
			    weighted_ns(run->ran_ns, task_weight(prev));
		u64 floor = vtime_floor(lane);

		if (vtime_before(vtime, floor))
			vtime = floor;
		if (weighted_goes_on(lane, dsq, cpu, vtime,
				     &STATE_OF(lane, struct vtime_lane)->vtime_now)) {
			lane_count(lane, vtime_counter_kept);
			lane_grant(lane, prev, vtime_slice(lane, prev));
			return true;
		}
	}
	return lane_move_to_local(lane, dsq);
}

/* Charges what was measured, not what was granted. */
static void vtime_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			   const struct lane_run *run)
{
	STATE_OF(t, struct vtime_task)->vtime += weighted_ns(run->ran_ns, task_weight(p));
}

static const struct policy_ops vtime_ops = {
	.select_cpu = vtime_select_cpu,
	.enqueue = vtime_enqueue,
	.dispatch = vtime_dispatch,
	.join = vtime_join,
	.running = vtime_running,
	.stopping = vtime_stopping,
	.queues = 1,
	.task_bytes = sizeof(struct vtime_task),
	.cpu_bytes = sizeof(struct vtime_cpu),
};
