/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * central: one CPU decides for all.
 *
 * Tasks wait in one queue, first in first out. A CPU that has nothing to run raises a flag and
 * asks the central CPU, which hands a task to each that has. Slices are infinite, so that the other
 * CPUs need no ticks; a timer ends the run of what has had its slice while others wait. A task that
 * may not run everywhere waits in a queue of its own, from which each CPU takes by itself.
 *
 * It helps where interrupting those that compute costs much: long jobs on many CPUs, the vCPUs of
 * virtual machines. It hurts where many wake often: each of them waits for the central CPU, whose
 * work grows with the number of CPUs.
 */
#include <sched.bpf.h>
#include "options.h"

enum { central_options(OPTION_INDEX) };
enum { central_counters(COUNTER_INDEX) };

enum { CENTRAL_ALL, CENTRAL_BOUND, CENTRAL_QUEUES };

/* How often runs are looked at. */
#define CENTRAL_LOOKS_NS (1ULL * 1000 * 1000)

struct central_lane {
	u32 cpu; /* which decides */
	u32 possible; /* how many CPUs there may be */
};

struct central_cpu {
	u64 wants; /* it has nothing to run */
	u64 since_ns; /* since when the lane's task runs there; 0: none */
	u64 bound; /* its last task was one that is bound */
};

static __always_inline struct central_cpu *central_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *s = lane_cpu(lane, cpu);

	return s ? STATE_OF(s, struct central_cpu) : NULL;
}

static __always_inline u32 central_option(struct lane *lane)
{
	u64 cpu = lane->options[central_option_central_cpu];

	return cpu < nr_cpus() ? cpu : 0;
}

/* No CPU runs a task of the lane yet, and one that is idle may not come to say so. */
static void central_start(struct lane *lane)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);
	struct central_cpu *c;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		c = cpu_possible(cpu) ? central_at(lane, cpu) : NULL;
		if (!c)
			continue;
		c->wants = 1;
		state->possible++;
	}
	state->cpu = central_option(lane);
	lane_timer_set(lane, CENTRAL_LOOKS_NS);
}

/* Asks the CPU that decides, or the next one that is on line. Whether there is one. */
__weak __noinline bool central_ask(struct lane *lane __arg_nonnull)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);
	u32 i, cpu = READ_ONCE(state->cpu);

	bpf_for(i, 0, nr_cpus()) {
		if (lane_ask(lane, cpu)) {
			WRITE_ONCE(state->cpu, cpu);
			return true;
		}
		cpu = cpu + 1 < nr_cpus() ? cpu + 1 : 0;
	}
	return false;
}

static __always_inline bool central_waits(struct lane *lane, u32 queue)
{
	return scx_bpf_dsq_nr_queued(lane_dsq(lane, queue)) > 0;
}

static s32 central_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags)
{
	s32 cpu = READ_ONCE(STATE_OF(lane, struct central_lane)->cpu);

	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? cpu : prev_cpu;
}

/*
 * Of a task that wakes nobody else knows. One that had to make way is queued by its CPU, which
 * asks next: to ask for it here would preempt the next one on the central CPU, and so on.
 */
static void central_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	if (p->nr_cpus_allowed < (s32)STATE_OF(lane, struct central_lane)->possible) {
		lane_count(lane, central_counter_bound);
		lane_insert(lane, p, lane_dsq(lane, CENTRAL_BOUND), SCX_SLICE_INF, enq_flags);
		return;
	}
	lane_count(lane, central_counter_queued);
	lane_insert(lane, p, lane_dsq(lane, CENTRAL_ALL), SCX_SLICE_INF, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP)
		central_ask(lane);
}

static void central_answer(struct lane *lane, s32 cpu)
{
	u64 all = lane_dsq(lane, CENTRAL_ALL);
	struct central_cpu *c;
	u32 i;

	bpf_for(i, 0, nr_cpus()) {
		c = central_at(lane, i);
		if (!c || !c->wants)
			continue;
		if (scx_bpf_dsq_nr_queued(all) <= 0)
			break;
		if (!lane_hand(lane, all, i, 0))
			continue;
		c->wants = 0;
		lane_count(lane, central_counter_handed);
	}
}

/*
 * A CPU takes a task that is bound by itself, and after each the first of the others: else one of
 * the two kinds would starve.
 */
static __always_inline bool central_take(struct lane *lane, struct central_cpu *c)
{
	if (c->bound) {
		c->bound = 0;
		if (lane_move_to_local(lane, lane_dsq(lane, CENTRAL_ALL))) {
			lane_count(lane, central_counter_alone);
			return true;
		}
	}
	if (!lane_move_to_local(lane, lane_dsq(lane, CENTRAL_BOUND)))
		return false;
	c->bound = 1;
	c->wants = 0;
	return true;
}

/* Takes what another CPU was handed, which runs something else by now. */
__weak __noinline bool central_steal(struct lane *lane __arg_nonnull, u32 cpu)
{
	u32 i, other = cpu;

	bpf_for(i, 1, nr_cpus()) {
		other = other + 1 < nr_cpus() ? other + 1 : 0;
		if (!lane_move_to_local(lane, lane_cpu_dsq(lane, other, 0)))
			continue;
		lane_count(lane, central_counter_alone);
		return true;
	}
	return false;
}

static bool central_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			     struct lane_task *t, const struct lane_run *run)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);
	struct central_cpu *c = central_at(lane, cpu);

	if (!c)
		return false;
	if (lane_move_to_local(lane, lane_cpu_dsq(lane, cpu, 0)) || central_take(lane, c))
		return true;
	if ((u32)cpu == READ_ONCE(state->cpu)) {
		if (lane_move_to_local(lane, lane_dsq(lane, CENTRAL_ALL)))
			return true;
	} else {
		c->wants = 1;
		if (central_waits(lane, CENTRAL_ALL)) {
			if (central_ask(lane))
				return false;
			if (lane_move_to_local(lane, lane_dsq(lane, CENTRAL_ALL))) {
				lane_count(lane, central_counter_alone);
				return true;
			}
		}
	}
	return !prev && central_steal(lane, cpu);
}

static void central_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct central_cpu *c = central_at(lane, scx_bpf_task_cpu(p));

	if (c)
		c->since_ns = scx_bpf_now();
}

static void central_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct central_cpu *c = central_at(lane, scx_bpf_task_cpu(p));

	if (c)
		c->since_ns = 0;
}

/* Ends runs that have had their slice, where others wait. The option's CPU may be on line again. */
static void central_timer(struct lane *lane)
{
	u64 now = scx_bpf_now(), since, slice_ns = lane->options[central_option_slice_ns];
	bool waits = central_waits(lane, CENTRAL_ALL) || central_waits(lane, CENTRAL_BOUND);
	struct central_cpu *c;
	u32 cpu;

	lane_timer_set(lane, CENTRAL_LOOKS_NS);
	WRITE_ONCE(STATE_OF(lane, struct central_lane)->cpu, central_option(lane));
	bpf_for(cpu, 0, nr_cpus()) {
		c = central_at(lane, cpu);
		if (!c)
			break;
		since = c->since_ns;
		/* Clocks of two CPUs may differ a little. */
		if (!since || (s64)(now - since) < (s64)slice_ns)
			continue;
		/* A CPU that asked twice was handed two, of which the other waits for it alone. */
		if (!waits && scx_bpf_dsq_nr_queued(lane_cpu_dsq(lane, cpu, 0)) <= 0)
			continue;
		lane_count(lane, central_counter_preempted);
		lane_kick(lane, cpu, true);
	}
	/* What a central CPU was asked that went off line meanwhile. */
	if (central_waits(lane, CENTRAL_ALL))
		central_ask(lane);
}

static const struct policy_ops central_ops = {
	.start = central_start,
	.select_cpu = central_select_cpu,
	.enqueue = central_enqueue,
	.dispatch = central_dispatch,
	.running = central_running,
	.stopping = central_stopping,
	.timer = central_timer,
	.answer = central_answer,
	.infinite = 1,
	.queues = CENTRAL_QUEUES,
	.cpu_queues = 1,
	.cpu_bytes = sizeof(struct central_cpu),
};
