/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fair: earliest eligible virtual deadline first, with groups; what the kernel's own class does.
 *
 * The tasks under each last-level cache compete with each other, see eevdf.bpf.h, with the weights
 * that the hierarchy of cgroups makes of theirs, see group_weights.bpf.h. One queue for each cache is
 * in the order of deadlines. A task that wakes, is eligible and next, takes the CPU of another, but not in
 * the first part of a request from one that is eligible itself. A task that sleeps in debt competes on, see
 * eevdf_sleepers.bpf.h. A task that comes to another cache takes its lag along. A CPU with nothing to
 * do takes from other caches, and now and then one takes from a cache that has more to do for each of
 * its CPUs.
 *
 * It helps where no other policy is known to: no task waits long that wants little, and shares are
 * those that weights say, to the cgroup. It is not the best at anything.
 */
#include <fair.bpf.h>
#include "options.h"

enum { fair_options(OPTION_INDEX) };
enum { fair_counters(COUNTER_INDEX) };

FAIR_CORE_OF(fair);

static void fair_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	u32 llc = cpu_llc(scx_bpf_task_cpu(p));
	struct fair_llc *l = fair_llc_at(lane, llc);
	u64 slice_ns = fair_slice(lane);

	if (!l)
		return;
	if (!task->e.weight || task->e.queue != llc)
		fair_compete(lane, p, task, llc);
	/* A task that wakes was weighed just now, see fair_runnable(). */
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		fair_reweigh(lane, p, task, l);
	slice_ns = eevdf_request(&l->q, &task->e, slice_ns);
	fair_queue(lane, p, l, task, slice_ns, enq_flags);
}

static bool fair_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	bool goes_on = false;
	struct fair_choice c;
	u64 slice_ns = 0;

	if (!fair_chooses(lane, cpu, &c))
		return false;
	if (prev) {
		eevdf_charge(&c.l->q, &task->e, run->ran_ns, &c.here->counted_ns);
		fair_reweigh(lane, prev, task, c.l);
		slice_ns = eevdf_request(&c.l->q, &task->e, fair_slice(lane));
		goes_on = eevdf_eligible(&c.l->q, task->e.vruntime);
	}
	if (fair_picks_before(lane, cpu, &c))
		return true;
	if (READ_ONCE(c.l->sleepers.count)) {
		fair_look(lane, c.l, c.dsq,
			  goes_on ? task->e.deadline : READ_ONCE(c.l->q.now) + EEVDF_LONGEST_NS,
			  prev);
		goes_on = goes_on && eevdf_eligible(&c.l->q, task->e.vruntime);
	}
	if (fair_pick(lane, c.l, c.dsq, cpu, c.now, task->e.deadline, !goes_on,
		      prev && task->share.gives_way))
		return true;
	if (!goes_on && fair_pick_early(lane, c.l, c.dsq, cpu, prev ? task : NULL))
		return true;
	if (prev)
		return fair_goes_on(lane, cpu, c.here, prev, task, c.now, slice_ns);
	return fair_picks_elsewhere(lane, &c);
}

static const struct policy_ops fair_ops = {
	.select_cpu = fair_select_cpu,
	.enqueue = fair_enqueue,
	.dispatch = fair_dispatch,
	.join = fair_join,
	.running = fair_running,
	.stopping = fair_stopping,
	.runnable = fair_runnable,
	.quiescent = fair_quiescent,
	.llc_queues = 1,
	.task_bytes = sizeof(struct fair_task),
	.cpu_bytes = sizeof(struct fair_cpu),
	.llc_bytes = sizeof(struct fair_llc),
	.group_bytes = sizeof(struct fair_group),
	.ends_runs = 1,
};
