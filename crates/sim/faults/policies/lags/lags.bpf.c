/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sketch of latency-aware group scheduling: cgroups by their load credit, the lowest first.
 *
 * The credit of a cgroup is the average over some seconds of how many CPUs it used, one value
 * for all CPUs; a new cgroup has none and comes first. A task that wakes takes the CPU of one
 * whose cgroup has more credit.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

#define LAGS_SLICE_NS (5ULL * 1000 * 1000)
/* The published average goes half the way in 1.4 s; brought up to date no more often than this. */
#define LAGS_MEAN_NS (2000ULL * 1000 * 1000)
#define LAGS_UPDATE_NS (4ULL * 1000 * 1000)
/* The credit of a cgroup that uses one CPU all the time. */
#define LAGS_CREDIT_ONE (1ULL << 20)

struct lags_group {
	u64 credit;
	u64 ran_ns; /* lane_group.ran_ns, as of then */
	u64 at_ns; /* when the credit was brought up to date; 0: never */
};

struct lags_cpu {
	u64 credit; /* of the cgroup whose task it runs */
};

/*
 * The credit of a task's cgroup, now: of the way to what it used since the last time the part
 * that this time is of the mean and itself. Of CPUs that come at once one brings it up to date.
 */
static u64 lags_credit(struct lane *lane, struct task_struct *p)
{
	struct lane_group *group = lane_group(lane, p);
	u64 now = scx_bpf_now(), then, since, ran;
	struct lags_group *g;
	s64 used;

	if (!group)
		return 0;
	g = STATE_OF(group, struct lags_group);
	then = READ_ONCE(g->at_ns);
	since = now - then;
	/* Clocks of two CPUs may differ a little. */
	if ((s64)since < (s64)LAGS_UPDATE_NS ||
	    __sync_val_compare_and_swap(&g->at_ns, then, now) != then)
		return g->credit;
	ran = READ_ONCE(group->ran_ns);
	used = ran - g->ran_ns;
	/* A CPU that was held up here for long may find a later sum than its own. */
	if (then && used >= 0)
		/* (credit * mean + used / since * since) / (mean + since) */
		g->credit = (g->credit * (LAGS_MEAN_NS >> 10) + ((u64)used >> 10) * LAGS_CREDIT_ONE) /
			    ((LAGS_MEAN_NS + since) >> 10);
	g->ran_ns = ran;
	return g->credit;
}

static s32 lags_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;

	return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, LAGS_SLICE_NS, &claimed);
}

static void lags_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	u64 credit = lags_credit(lane, p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_state *there = lane_cpu(lane, cpu);

	lane_insert_vtime(lane, p, lane_dsq(lane, 0), LAGS_SLICE_NS, credit, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP && there &&
	    STATE_OF(there, struct lags_cpu)->credit > credit)
		lane_kick(lane, cpu, true);
}

static bool lags_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	return lane_move_to_local(lane, lane_dsq(lane, 0));
}

static void lags_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct cpu_state *here = lane_cpu(lane, scx_bpf_task_cpu(p));
	u64 credit = lags_credit(lane, p);

	if (here)
		STATE_OF(here, struct lags_cpu)->credit = credit;
}

static void lags_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  const struct lane_run *run)
{
	lags_credit(lane, p);
}

static const struct policy_ops lags_ops = {
	.select_cpu = lags_select_cpu,
	.enqueue = lags_enqueue,
	.dispatch = lags_dispatch,
	.running = lags_running,
	.stopping = lags_stopping,
	.queues = 1,
	.cpu_bytes = sizeof(struct lags_cpu),
	.group_bytes = sizeof(struct lags_group),
};
