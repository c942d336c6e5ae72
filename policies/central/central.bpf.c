/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * central: one CPU decides for all.
 *
 * Tasks wait in one queue, first in, first out. A CPU that has nothing to run says so, and the
 * central CPU hands it the next task. Slices have no end, so that the other CPUs need no ticks: a
 * timer looks each millisecond while something waits, and ends the run of a task that has had its
 * slice.
 *
 * It helps virtual machines and others that run long on each CPU and lose by every interrupt. It
 * hurts where tasks come and go often: each of them waits for an answer of one CPU, which does
 * little else.
 */
#include <sched.bpf.h>
#include "options.h"

enum { central_options(OPTION_INDEX) };
enum { central_counters(COUNTER_INDEX) };

/* All that wait; and those that the central CPU could not hand out: any CPU takes them itself. */
enum { CENTRAL_FIFO, CENTRAL_ASIDE, CENTRAL_QUEUES };

/* The timer looks so often while something waits. Who has asked is answered by then. */
#define CENTRAL_LOOKS_NS (1ULL * 1000 * 1000)
/*
 * What a CPU was handed and has not taken for so long is for all again. Beside other lanes it is
 * handed to who has the next slice, of 2 ms, to give away; in a higher class' hands it may be never.
 */
#define CENTRAL_HELD_NS (5ULL * 1000 * 1000)
/* Tasks that are set aside at once: as many as lane_hand() looks at. */
#define CENTRAL_ASIDE_MOST 32

/* Several CPUs write to these without a lock; each value is whole, and wrong for a look at most. */
struct central_lane {
	u64 answered_ns; /* when CPUs were last given what they want */
	u64 asked; /* the CPU that was asked last */
	u64 stand_in; /* the one that was asked last since that one had not answered */
	u64 armed; /* whether the timer is set */
	u64 came; /* whether a task was queued since the timer last looked */
};

struct central_cpu {
	u64 wants; /* it has nothing to run */
	u64 since_ns; /* since when the lane's task runs there; 0: none */
	u64 handed_ns; /* since when it holds what it was handed and has not chosen; 0: nothing */
};

static __always_inline struct central_lane *central_lane(struct lane *lane)
{
	return STATE_OF(lane, struct central_lane);
}

static __always_inline struct central_cpu *central_cpu(struct lane *lane, u32 cpu)
{
	struct cpu_state *s = lane_cpu(lane, cpu);

	return s ? STATE_OF(s, struct central_cpu) : NULL;
}

static __always_inline bool central_queued(u64 dsq)
{
	return scx_bpf_dsq_nr_queued(dsq) > 0;
}

/*
 * The timer looks from now on. It stops by itself when nobody waits, see central_timer(); both
 * sides write what the other reads before they read what it writes.
 */
static void central_arm(struct lane *lane)
{
	struct central_lane *state = central_lane(lane);

	__sync_lock_test_and_set(&state->came, 1);
	if (READ_ONCE(state->armed))
		return;
	if (!__sync_lock_test_and_set(&state->armed, 1))
		lane_timer_set(lane, CENTRAL_LOOKS_NS);
}

static bool central_asks(struct lane *lane, s32 cpu)
{
	if (!lane_ask(lane, cpu))
		return false;
	central_lane(lane)->asked = cpu;
	lane_count(lane, central_counter_asked);
	return true;
}

/*
 * Asks the CPU that is to decide: that of the option or, where it is off line, the lowest one that
 * is not. False if that is the CPU on which the caller dispatches, @here: it decides itself.
 */
static bool central_ask(struct lane *lane, s32 here)
{
	s32 chosen = lane->options[central_option_central_cpu], cpu;

	if (chosen == here)
		return false;
	if (central_asks(lane, chosen))
		return true;
	bpf_for(cpu, 0, nr_cpus()) {
		if (cpu == here)
			return false;
		if (central_asks(lane, cpu))
			return true;
	}
	return false;
}

/* No CPU runs a task of the lane yet, and one that is idle may not come to say so. */
static void central_start(struct lane *lane)
{
	struct central_cpu *c;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		c = cpu_possible(cpu) ? central_cpu(lane, cpu) : NULL;
		if (c)
			c->wants = 1;
	}
}

/* On the CPU that decides, what it decides about is at hand. */
static s32 central_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
			      u64 wake_flags)
{
	u32 cpu = central_lane(lane)->asked;

	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? (s32)cpu : prev_cpu;
}

/*
 * Of a task that wakes or is new nobody else knows. One that had to make way is queued by its CPU,
 * which asks next: to ask for it here would preempt the next one on the central CPU, and so on.
 */
static void central_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	lane_insert(lane, p, lane_dsq(lane, CENTRAL_FIFO), SCX_SLICE_INF, enq_flags);
	central_arm(lane);
	if (enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_CPU_SELECTED))
		central_ask(lane, -1);
}

/* Whether the task that runs on a CPU has had its slice. */
static bool central_slice_is_over(struct lane *lane, struct central_cpu *c, u64 now)
{
	u64 since_ns = READ_ONCE(c->since_ns);

	/* Clocks of two CPUs may differ a little. */
	return since_ns && (s64)(now - since_ns) >= (s64)lane->options[central_option_slice_ns];
}

/* Hands a CPU what was set aside for anybody, or else the next task; whether it may run one. */
static bool central_hand(struct lane *lane, struct central_cpu *c, s32 cpu, u64 now)
{
	if (!lane_hand(lane, lane_dsq(lane, CENTRAL_ASIDE), cpu, 0) &&
	    !lane_hand(lane, lane_dsq(lane, CENTRAL_FIFO), cpu, 0))
		return false;
	c->wants = 0;
	c->handed_ns = now;
	lane_count(lane, central_counter_handed);
	/* What asked may go on until something comes, with a task that has had its slice. */
	if (central_slice_is_over(lane, c, now))
		lane_kick(lane, cpu, true);
	return true;
}

/* Whether a CPU still holds, after CENTRAL_HELD_NS, what it was handed. */
static bool central_holds_long(struct lane *lane, struct central_cpu *c, u32 cpu, u64 now)
{
	u64 handed_ns = READ_ONCE(c->handed_ns);

	return handed_ns && (s64)(now - handed_ns) >= (s64)CENTRAL_HELD_NS &&
	       central_queued(lane_cpu_dsq(lane, cpu, 0));
}

static void central_set_aside(struct lane *lane, u64 dsq, u32 counter)
{
	u32 i, moved = lane_move(lane, dsq, lane_dsq(lane, CENTRAL_ASIDE), CENTRAL_ASIDE_MOST);

	bpf_for(i, 0, moved) {
		lane_count(lane, counter);
	}
}

/* Whether the first task may not run on a CPU that asks for it. */
static bool central_is_stuck(struct lane *lane, u64 fifo, struct central_cpu *c, s32 cpu)
{
	struct task_struct *first = scx_bpf_dsq_peek(fifo);

	if (!first)
		return false;
	if (!bpf_cpumask_test_cpu(cpu, first->cpus_ptr))
		return true;
	/* The CPU has gone, or somebody took the task at this moment: then it asks again. */
	if (!lane_ask(lane, cpu))
		c->wants = 0;
	return false;
}

/*
 * Gives a task to each CPU that wants one, to @last at the end. What CPUs that asked may not run is
 * set aside, so that nobody stands behind it; and what a CPU has not taken in time.
 */
static void central_answer(struct lane *lane, s32 last)
{
	u64 fifo = lane_dsq(lane, CENTRAL_FIFO), now = scx_bpf_now();
	struct central_cpu *c;
	u32 i, cpu = last;
	bool stuck = false;

	central_lane(lane)->answered_ns = now;
	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu + 1 < nr_cpus() ? cpu + 1 : 0;
		c = central_cpu(lane, cpu);
		if (!c)
			break;
		if (central_holds_long(lane, c, cpu, now))
			central_set_aside(lane, lane_cpu_dsq(lane, cpu, 0),
					  central_counter_taken_back);
		if (c->wants && !central_hand(lane, c, cpu, now) &&
		    central_is_stuck(lane, fifo, c, cpu))
			stuck = true;
	}
	if (stuck)
		central_set_aside(lane, fifo, central_counter_set_aside);
}

static bool central_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			     struct lane_task *t, const struct lane_run *run)
{
	u64 fifo = lane_dsq(lane, CENTRAL_FIFO);
	struct central_cpu *c = central_cpu(lane, cpu);

	if (!c)
		return false;
	c->handed_ns = 0;
	/* Something else has interrupted it. */
	if (prev && !central_slice_is_over(lane, c, scx_bpf_now())) {
		lane_grant(lane, prev, SCX_SLICE_INF);
		return true;
	}
	if (lane_move_to_local(lane, lane_cpu_dsq(lane, cpu, 0)) ||
	    lane_move_to_local(lane, lane_dsq(lane, CENTRAL_ASIDE)))
		return true;
	c->wants = 1;
	if (central_queued(fifo))
		return !central_ask(lane, cpu) && lane_move_to_local(lane, fifo);
	if (!prev)
		return false;
	c->wants = 0;
	lane_grant(lane, prev, SCX_SLICE_INF);
	return true;
}

static void central_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct central_cpu *c = central_cpu(lane, scx_bpf_task_cpu(p));

	if (!c)
		return;
	c->since_ns = scx_bpf_now();
	c->wants = 0;
}

static void central_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct central_cpu *c = central_cpu(lane, scx_bpf_task_cpu(p));

	if (c)
		c->since_ns = 0;
}

/*
 * The central CPU has not answered: a higher class has it, or its interrupts are off. Another one
 * is to decide, the next one each time: that one may not answer either.
 */
static void central_ask_stand_in(struct lane *lane)
{
	struct central_lane *state = central_lane(lane);
	u64 cpu = state->stand_in;
	u32 i;

	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu + 1 < nr_cpus() ? cpu + 1 : 0;
		if (lane_ask(lane, cpu))
			break;
	}
	state->stand_in = cpu;
	lane_count(lane, central_counter_late);
}

static void central_timer(struct lane *lane)
{
	struct central_lane *state = central_lane(lane);
	bool waits, wanted = false, held = false, holds;
	u64 now = scx_bpf_now();
	struct central_cpu *c;
	u32 cpu;

	waits = central_queued(lane_dsq(lane, CENTRAL_FIFO)) ||
		central_queued(lane_dsq(lane, CENTRAL_ASIDE));
	bpf_for(cpu, 0, nr_cpus()) {
		c = central_cpu(lane, cpu);
		if (!c)
			break;
		holds = central_queued(lane_cpu_dsq(lane, cpu, 0));
		held |= holds;
		wanted |= (waits && c->wants) || central_holds_long(lane, c, cpu, now);
		if ((waits || holds) && central_slice_is_over(lane, c, now)) {
			lane_count(lane, central_counter_preempted);
			lane_kick(lane, cpu, true);
		}
	}
	if (wanted && (s64)(now - state->answered_ns) >= (s64)CENTRAL_LOOKS_NS)
		central_ask_stand_in(lane);
	if (!waits && !held) {
		__sync_lock_test_and_set(&state->armed, 0);
		if (!READ_ONCE(state->came) || __sync_lock_test_and_set(&state->armed, 1))
			return;
	}
	__sync_lock_test_and_set(&state->came, 0);
	lane_timer_set(lane, CENTRAL_LOOKS_NS);
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
