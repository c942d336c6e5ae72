/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rustland: a half in user space decides the order of tasks and their slices.
 *
 * A task that wakes while a CPU is idle runs there at once. Any other is left to user space,
 * and stands in a queue in the order that this decides. Whom it does not decide in time, and whom
 * it is not to decide about, such as kernel threads and its own, stands in a second queue, first
 * in, first out. The two have every second choice each: neither waits for ever for the other. Who
 * has waited for seconds in the first runs next, whatever user space decides about others.
 *
 * It helps who writes a scheduler: the half is a Rust trait, and a fault in it hurts nobody. It
 * hurts whoever needs throughput: each task that finds no idle CPU costs two ways between the
 * kernel and user space.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <rescue.bpf.h>
#include "options.h"

enum { rustland_options(OPTION_INDEX) };
enum { rustland_counters(COUNTER_INDEX) };

enum rustland_queue {
	RUSTLAND_DECIDED,
	RUSTLAND_ALONE,
	RUSTLAND_QUEUES,
};

struct rustland_lane {
	u64 choices; /* made so far, by all CPUs */
};

struct rustland_task {
	u64 queued_ns; /* since when it waits */
};

struct rustland_cpu {
	u64 rescue_ns; /* when it next looks for who waits long, see rescue.bpf.h */
};

static s32 rustland_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			       u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[rustland_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, rustland_counter_direct);
	return cpu;
}

static void rustland_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     u64 enq_flags)
{
	STATE_OF(t, struct rustland_task)->queued_ns = scx_bpf_now();
	if (lane_tell_user(lane, p, enq_flags)) {
		lane_count(lane, rustland_counter_told);
		return;
	}
	lane_count(lane, rustland_counter_alone);
	lane_insert(lane, p, lane_dsq(lane, RUSTLAND_ALONE),
		    lane->options[rustland_option_slice_ns], enq_flags);
}

static void rustland_decide(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    const struct lane_decision *d, struct lane_place *place)
{
	u64 least_ns = lane->options[rustland_option_slice_min_ns];
	u64 most_ns = lane->options[rustland_option_slice_ns];

	if (!d) {
		lane_count(lane, rustland_counter_late);
		place->dsq = lane_dsq(lane, RUSTLAND_ALONE);
		place->slice_ns = most_ns;
		return;
	}
	lane_count(lane, rustland_counter_decided);
	place->dsq = lane_dsq(lane, RUSTLAND_DECIDED);
	place->by_vtime = true;
	place->vtime = d->order;
	place->cpu = d->cpu;
	place->slice_ns = d->slice_ns > least_ns ? d->slice_ns : least_ns;
	if (place->slice_ns > most_ns)
		place->slice_ns = most_ns;
}

static bool rustland_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			      struct lane_task *t, const struct lane_run *run)
{
	/* Two CPUs may both take the same for the first: the next choice makes up for it. */
	u32 first = STATE_OF(lane, struct rustland_lane)->choices++ % RUSTLAND_QUEUES;
	struct cpu_state *here = lane_cpu(lane, cpu);

	if (here && rescue(lane, lane_dsq(lane, RUSTLAND_DECIDED),
			   STATE_WORD(struct rustland_task, queued_ns),
			   &STATE_OF(here, struct rustland_cpu)->rescue_ns, scx_bpf_now())) {
		lane_count(lane, rustland_counter_rescued);
		return true;
	}
	if (lane_move_to_local(lane, lane_dsq(lane, first)) ||
	    lane_move_to_local(lane, lane_dsq(lane, !first)))
		return true;
	if (!prev)
		return false;
	/* Nobody else wants this CPU. */
	lane_grant(lane, prev, lane->options[rustland_option_slice_ns]);
	return true;
}

static const struct policy_ops rustland_ops = {
	.select_cpu = rustland_select_cpu,
	.enqueue = rustland_enqueue,
	.dispatch = rustland_dispatch,
	.decide = rustland_decide,
	.queues = RUSTLAND_QUEUES,
	.task_bytes = sizeof(struct rustland_task),
	.cpu_bytes = sizeof(struct rustland_cpu),
};
