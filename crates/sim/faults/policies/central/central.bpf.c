/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sketch of central, by which tests try what level 1 does for policies: one CPU decides
 * for all. Tasks wait in one queue; a CPU that has nothing asks CPU 0, which hands a task
 * to each that asked. Slices are infinite, and a timer ends the run of what has had 20 ms
 * while others wait.
 */
#include <sched.bpf.h>
#include "options.h"

enum { central_options(OPTION_INDEX) };

/* The CPU that decides. */
#define CENTRAL_CPU 0
#define CENTRAL_LOOKS_NS (1ULL * 1000 * 1000)

struct central_cpu {
	u64 wants; /* it has nothing to run */
	u64 since_ns; /* since when the lane's task runs there; 0: none */
};

/* No CPU runs a task of the lane yet, and one that is idle may not come to say so. */
static void central_start(struct lane *lane)
{
	struct cpu_state *s;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		s = lane_cpu(lane, cpu);
		if (s)
			STATE_OF(s, struct central_cpu)->wants = 1;
	}
	lane_timer_set(lane, CENTRAL_LOOKS_NS);
}

static s32 central_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags)
{
	return CENTRAL_CPU;
}

/*
 * Of a task that wakes nobody else knows. One that had to make way is queued by its CPU, which
 * asks next: to ask for it here would preempt the next one on the central CPU, and so on.
 * Where the central CPU is off line, each CPU decides for itself.
 */
static void central_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	lane_insert(lane, p, lane_dsq(lane, 0), SCX_SLICE_INF, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP)
		lane_ask(lane, CENTRAL_CPU);
}

static void central_answer(struct lane *lane, s32 cpu)
{
	struct central_cpu *c;
	struct cpu_state *s;
	u32 i;

	bpf_for(i, 0, nr_cpus()) {
		s = lane_cpu(lane, i);
		if (!s)
			break;
		c = STATE_OF(s, struct central_cpu);
		if (c->wants && lane_hand(lane, lane_dsq(lane, 0), i, 0))
			c->wants = 0;
	}
}

static bool central_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			     struct lane_task *t, const struct lane_run *run)
{
	struct cpu_state *s;

	if (lane_move_to_local(lane, lane_cpu_dsq(lane, cpu, 0)))
		return true;
	if (cpu == CENTRAL_CPU)
		return lane_move_to_local(lane, lane_dsq(lane, 0));
	s = lane_cpu(lane, cpu);
	if (s)
		STATE_OF(s, struct central_cpu)->wants = 1;
	if (scx_bpf_dsq_nr_queued(lane_dsq(lane, 0)) <= 0)
		return false;
	if (s && lane_ask(lane, CENTRAL_CPU))
		return false;
	return lane_move_to_local(lane, lane_dsq(lane, 0));
}

static void central_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct cpu_state *s = lane_cpu(lane, scx_bpf_task_cpu(p));

	if (s)
		STATE_OF(s, struct central_cpu)->since_ns = scx_bpf_now();
}

static void central_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct cpu_state *s = lane_cpu(lane, scx_bpf_task_cpu(p));

	if (s)
		STATE_OF(s, struct central_cpu)->since_ns = 0;
}

static void central_timer(struct lane *lane)
{
	u64 now = scx_bpf_now(), since;
	struct cpu_state *s;
	bool waits;
	u32 cpu;

	lane_timer_set(lane, CENTRAL_LOOKS_NS);
	waits = scx_bpf_dsq_nr_queued(lane_dsq(lane, 0)) > 0;
	bpf_for(cpu, 0, nr_cpus()) {
		s = lane_cpu(lane, cpu);
		if (!s)
			break;
		since = STATE_OF(s, struct central_cpu)->since_ns;
		if (!since || now - since < lane->options[central_option_slice_ns])
			continue;
		/* A CPU that asked twice was handed two, of which the other waits for it alone. */
		if (waits || scx_bpf_dsq_nr_queued(lane_cpu_dsq(lane, cpu, 0)) > 0)
			lane_kick(lane, cpu, true);
	}
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
	.queues = 1,
	.cpu_queues = 1,
	.cpu_bytes = sizeof(struct central_cpu),
};
