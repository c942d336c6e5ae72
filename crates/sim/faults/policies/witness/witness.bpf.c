/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy that ends the scheduler when it is told something else than policy.h promises to
 * a lane alone: in which order, and of which task. First in, first out.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

extern void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz) __weak __ksym;

/* Its line here is all that it says: a text would be a variable, and the loader knows of none. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		char said[] = "line %d";                                                           \
		unsigned long long line[1] = { __LINE__ };                                         \
                                                                                                   \
		if (!(condition))                                                                  \
			scx_bpf_error_bstr(said, line, sizeof(line));                              \
	} while (0)

#define WITNESS_SLICE_NS (3ULL * 1000 * 1000)

struct witness_task {
	u64 joined;
	u64 runnable;
	u64 running;
};

static void witness_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct witness_task *w = STATE_OF(t, struct witness_task);

	MUST(!w->joined && !w->runnable && !w->running);
	w->joined = 1;
}

static s32 witness_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags)
{
	struct lane_task *t = lane_task(lane, p);
	bool claimed = false;

	if (t)
		MUST(STATE_OF(t, struct witness_task)->joined);
	return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, WITNESS_SLICE_NS, &claimed);
}

static void witness_runnable(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     u64 enq_flags)
{
	struct witness_task *w = STATE_OF(t, struct witness_task);

	MUST(w->joined && !w->runnable);
	w->runnable = 1;
}

static void witness_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	MUST(STATE_OF(t, struct witness_task)->runnable);
	lane_insert(lane, p, lane_dsq(lane, 0), WITNESS_SLICE_NS, enq_flags);
}

static bool witness_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			     struct lane_task *t, const struct lane_run *run)
{
	if (prev) {
		MUST(STATE_OF(t, struct witness_task)->running);
		/* A tick may have ended it before it ran at all, so maybe nothing was granted. */
		MUST(run->runnable);
	}
	return lane_move_to_local(lane, lane_dsq(lane, 0));
}

static void witness_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct witness_task *w = STATE_OF(t, struct witness_task);

	MUST(w->runnable && !w->running);
	w->running = 1;
}

static void witness_tick(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 const struct lane_run *run)
{
	MUST(STATE_OF(t, struct witness_task)->running && run->runnable);
	/* It ends at the first tick, whatever its slice. */
	lane_grant(lane, p, 0);
}

static void witness_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct witness_task *w = STATE_OF(t, struct witness_task);

	MUST(w->running);
	w->running = 0;
}

static void witness_quiescent(struct lane *lane, struct task_struct *p, struct lane_task *t,
			      u64 deq_flags)
{
	struct witness_task *w = STATE_OF(t, struct witness_task);

	MUST(w->runnable && !w->running);
	w->runnable = 0;
}

static const struct policy_ops witness_ops = {
	.join = witness_join,
	.select_cpu = witness_select_cpu,
	.runnable = witness_runnable,
	.enqueue = witness_enqueue,
	.dispatch = witness_dispatch,
	.running = witness_running,
	.tick = witness_tick,
	.stopping = witness_stopping,
	.quiescent = witness_quiescent,
	.queues = 1,
	.task_bytes = sizeof(struct witness_task),
};
