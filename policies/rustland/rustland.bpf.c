/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rustland: a half in user space decides the order of tasks and their slices.
 *
 * A task that wakes while a CPU is idle runs there at once. Any other is left to user space,
 * and stands in a queue in the order that user space decides. A second queue, first in, first out, holds
 * tasks that are not decided in time, and those that are never left to user space, such as kernel threads
 * and its own. The queues are served by turns: neither waits for ever for the other. A task that woke
 * takes the CPU of one that comes later in the order. A task that has waited for seconds in the first
 * queue runs next, whatever user space decides about others.
 *
 * It helps those who write a scheduler: the half is a Rust trait, and a fault in it hurts nobody. It
 * hurts applications that need throughput: each task that finds no idle CPU costs two ways between the
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
	u64 order; /* that user space has decided; 0: it has not, since it ran */
	u64 woke; /* when it was queued last */
};

struct rustland_cpu {
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
	/* Of the task of this lane that runs there, or gave way to another class and comes back. */
	u64 order; /* 0: there is no such task, or it has none */
	u64 taken; /* it is to end: another one takes the CPU */
};

/* CPUs that are looked at for one to take: the task's last one, and those after it if it may use all. */
#define RUSTLAND_LOOKS 4

static __always_inline struct rustland_cpu *rustland_cpu_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *state = lane_cpu(lane, cpu);

	return state ? STATE_OF(state, struct rustland_cpu) : NULL;
}

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
	struct rustland_task *task = STATE_OF(t, struct rustland_task);

	task->queued_ns = scx_bpf_now();
	task->woke = enq_flags & SCX_ENQ_WAKEUP;
	if (lane_tell_user(lane, p, enq_flags)) {
		lane_count(lane, rustland_counter_told);
		return;
	}
	lane_count(lane, rustland_counter_alone);
	lane_insert(lane, p, lane_dsq(lane, RUSTLAND_ALONE),
		    lane->options[rustland_option_slice_ns], enq_flags);
}

/*
 * Returns the CPU that a woken task takes, or -1. The task that runs there comes later in the order by more
 * than a slice, so that tasks of like order do not take CPUs from each other.
 */
static __always_inline s32 rustland_takes(struct lane *lane, struct task_struct *p, u64 order)
{
	u64 after = order + lane->options[rustland_option_slice_ns], runs;
	u32 i, looks = RUSTLAND_LOOKS < nr_cpus() ? RUSTLAND_LOOKS : nr_cpus();
	s32 cpu, last = scx_bpf_task_cpu(p);
	struct rustland_cpu *there;

	/* 7.0 lets only callbacks ask which CPUs a task may use. */
	if (p->nr_cpus_allowed < (s32)nr_cpus())
		looks = 1;
	bpf_for(i, 0, looks) {
		cpu = cpu_after(last, i);
		there = rustland_cpu_at(lane, cpu);
		runs = there ? READ_ONCE(there->order) : 0;
		if (runs && vtime_before(after, runs)) {
			/* One task takes it, not all that are decided before it has chosen. */
			there->order = 0;
			there->taken = 1;
			return cpu;
		}
	}
	return -1;
}

static void rustland_decide(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    const struct lane_decision *d, struct lane_place *place)
{
	u64 least_ns = lane->options[rustland_option_slice_min_ns];
	u64 most_ns = lane->options[rustland_option_slice_ns];
	struct rustland_task *task = STATE_OF(t, struct rustland_task);

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
	task->order = d->order;
	if (task->woke)
		place->ends = rustland_takes(lane, p, d->order);
	if (place->ends >= 0)
		lane_count(lane, rustland_counter_preempted);
	place->slice_ns = d->slice_ns > least_ns ? d->slice_ns : least_ns;
	if (place->slice_ns > most_ns)
		place->slice_ns = most_ns;
}

static void rustland_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct rustland_cpu *here = rustland_cpu_at(lane, scx_bpf_task_cpu(p));

	if (!here)
		return;
	/* The kick was of no effect while the other class ran. */
	if (unlikely(here->taken))
		lane_end_run(lane, scx_bpf_task_cpu(p), 0);
	else
		here->order = STATE_OF(t, struct rustland_task)->order;
}

static void rustland_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			      const struct lane_run *run)
{
	struct rustland_cpu *here = rustland_cpu_at(lane, scx_bpf_task_cpu(p));

	/* With a rest of its slice it comes back by itself, and has that order. */
	if (run->runnable && p->scx.slice)
		return;
	STATE_OF(t, struct rustland_task)->order = 0;
	if (!here)
		return;
	here->order = 0;
	here->taken = 0;
}

static bool rustland_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			      struct lane_task *t, const struct lane_run *run)
{
	/* Two CPUs may both take the same for the first: the next choice makes up for it. */
	u32 first = STATE_OF(lane, struct rustland_lane)->choices++ % RUSTLAND_QUEUES;
	struct rustland_cpu *here = rustland_cpu_at(lane, cpu);

	if (here && rescue(lane, lane_dsq(lane, RUSTLAND_DECIDED),
			   STATE_WORD(struct rustland_task, queued_ns),
			   &here->rescue_ns, scx_bpf_now())) {
		lane_count(lane, rustland_counter_rescued);
		return true;
	}
	if (lane_move_to_local(lane, lane_dsq(lane, first)) ||
	    lane_move_to_local(lane, lane_dsq(lane, !first)))
		return true;
	if (!prev)
		return false;
	/* No other task wants this CPU. */
	lane_grant(lane, prev, lane->options[rustland_option_slice_ns]);
	return true;
}

static const struct policy_ops rustland_ops = {
	.select_cpu = rustland_select_cpu,
	.enqueue = rustland_enqueue,
	.dispatch = rustland_dispatch,
	.decide = rustland_decide,
	.running = rustland_running,
	.stopping = rustland_stopping,
	.queues = RUSTLAND_QUEUES,
	.ends_runs = 1,
	.task_bytes = sizeof(struct rustland_task),
	.cpu_bytes = sizeof(struct rustland_cpu),
};
