/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * central: one CPU decides for all.
 *
 * Tasks wait in one queue, first in first out. A CPU that has nothing to run raises a flag and
 * asks the central CPU, which hands a task to each that has. Slices are infinite, so that the other
 * CPUs need no ticks; while somebody waits a timer ends the run of what has had its slice. A task
 * that may not run everywhere waits in a queue of its own, from which each CPU takes by itself.
 *
 * It helps where interrupting those that compute costs much: long jobs on many CPUs, the vCPUs of
 * virtual machines. It hurts where many wake often: each of them waits for the central CPU, whose
 * work grows with the number of CPUs.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include "options.h"

enum { central_options(OPTION_INDEX) };
enum { central_counters(COUNTER_INDEX) };

enum { CENTRAL_ALL, CENTRAL_BOUND, CENTRAL_QUEUES };

/* How often the timer looks, while somebody waits. */
#define CENTRAL_LOOKS_NS (1ULL * 1000 * 1000)
/* After so many looks without an answer CPUs take by themselves: a higher class may have that CPU. */
#define CENTRAL_PATIENCE 3

struct central_lane {
	u32 cpu; /* which decides */
	u32 unanswered; /* looks that found tasks to be handed out, since an answer */
	u64 armed; /* the timer is set */
	u64 came; /* a task was queued since it looked last */
};

struct central_cpu {
	u64 wants; /* it has nothing to run */
	u64 handed_ns; /* when it was handed a task last */
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
		if (c)
			c->wants = 1;
	}
	state->cpu = central_option(lane);
}

/*
 * A task was queued: the timer looks from now on. It stops by itself, see central_timer(): each side
 * writes its word before it reads the other's.
 */
static __always_inline void central_look(struct lane *lane)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);

	__sync_lock_test_and_set(&state->came, 1);
	if (!READ_ONCE(state->armed) && !__sync_lock_test_and_set(&state->armed, 1) &&
	    !lane_timer_set(lane, CENTRAL_LOOKS_NS))
		WRITE_ONCE(state->armed, 0);
}

/* Asks the CPU that decides, or the next one that is on line. Whether there is one. */
__weak __noinline bool central_ask(struct lane *lane __arg_nonnull)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);
	u32 i, cpu, from = READ_ONCE(state->cpu);

	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu_after(from, i);
		if (lane_ask(lane, cpu)) {
			WRITE_ONCE(state->cpu, cpu);
			return true;
		}
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
	bool claimed = false;

	if (task_is_bound(p))
		return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, SCX_SLICE_INF, &claimed);
	return READ_ONCE(STATE_OF(lane, struct central_lane)->cpu);
}

/*
 * Of a task that wakes nobody else knows. One that had to make way is queued by its CPU, which
 * asks next: to ask for it here would preempt the next one on the central CPU, and so on.
 */
static void central_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	central_look(lane);
	if (task_is_bound(p)) {
		lane_count(lane, central_counter_bound);
		lane_insert(lane, p, lane_dsq(lane, CENTRAL_BOUND), SCX_SLICE_INF, enq_flags);
		return;
	}
	lane_count(lane, central_counter_queued);
	lane_insert(lane, p, lane_dsq(lane, CENTRAL_ALL), SCX_SLICE_INF, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP)
		central_ask(lane);
}

/* Whether the run of the lane's task on a CPU is over. */
static __always_inline bool central_is_over(struct lane *lane, struct central_cpu *c, u64 now)
{
	u64 since = READ_ONCE(c->since_ns);

	return since && ns_since(since, now) >= (s64)lane->options[central_option_slice_ns];
}

/*
 * Hands that CPU the first task of the queue that may run there. A run that is over has gone on, since
 * there was no task yet as its CPU asked for one: it ends now.
 */
static __always_inline void central_hand(struct lane *lane, struct central_cpu *c, u32 cpu)
{
	if (!lane_hand(lane, lane_dsq(lane, CENTRAL_ALL), cpu, 0))
		return;
	c->handed_ns = scx_bpf_now();
	c->wants = 0;
	lane_count(lane, central_counter_handed);
	if (central_is_over(lane, c, c->handed_ns))
		lane_kick(lane, cpu, true);
}

/*
 * Whether a CPU is idle and not about to take a task: one that was handed a task is idle until it comes for it.
 * It need not have said that it wants one, since level 1 asks a lane that has no task for none.
 */
static __always_inline bool central_is_idle(struct lane *lane, const struct cpumask *idle, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, idle) &&
	       scx_bpf_dsq_nr_queued(lane_cpu_dsq(lane, cpu, 0)) <= 0;
}

/* Hands a task to each CPU that is idle, or, where @idle is NULL, to each that wants one. */
static __always_inline void central_serve(struct lane *lane, const struct cpumask *idle)
{
	struct central_cpu *c;
	u32 i;

	bpf_for(i, 0, nr_cpus()) {
		c = central_at(lane, i);
		if (!c || !(idle ? central_is_idle(lane, idle, i) : c->wants))
			continue;
		if (!central_waits(lane, CENTRAL_ALL))
			break;
		central_hand(lane, c, i);
	}
}

/* CPUs that are idle come before those that want a task, which may run one of another lane by now. */
static void central_answer(struct lane *lane, s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();

	STATE_OF(lane, struct central_lane)->unanswered = 0;
	central_serve(lane, idle);
	scx_bpf_put_idle_cpumask(idle);
	central_serve(lane, NULL);
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
	return true;
}

/*
 * Takes what another CPU was handed, which runs something else by now. One that was handed a task just
 * now may be on its way to it.
 */
__weak __noinline bool central_steal(struct lane *lane __arg_nonnull, u32 cpu, u64 now)
{
	struct central_cpu *c;
	u32 i, from;

	bpf_for(i, 1, nr_cpus()) {
		from = cpu_after(cpu, i);
		c = central_at(lane, from);
		if (!c || ns_since(c->handed_ns, now) < (s64)CENTRAL_LOOKS_NS)
			continue;
		if (!lane_move_to_local(lane, lane_cpu_dsq(lane, from, 0)))
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
	u64 now;

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
			if (central_ask(lane) && READ_ONCE(state->unanswered) < CENTRAL_PATIENCE)
				return false;
			if (lane_move_to_local(lane, lane_dsq(lane, CENTRAL_ALL))) {
				lane_count(lane, central_counter_alone);
				return true;
			}
		}
	}
	now = scx_bpf_now();
	if (!prev)
		return central_steal(lane, cpu, now);
	if (central_is_over(lane, c, now)) {
		if (central_steal(lane, cpu, now))
			return true;
		/* That task may not run here: the next slice begins, or the timer would come each time. */
		c->since_ns = now;
	}
	c->wants = 0;
	return false;
}

static void central_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct central_cpu *c = central_at(lane, scx_bpf_task_cpu(p));

	if (!c)
		return;
	c->since_ns = scx_bpf_now();
	c->wants = 0;
}

static void central_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct central_cpu *c = central_at(lane, scx_bpf_task_cpu(p));

	if (c)
		c->since_ns = 0;
}

/* Whether a task waits: also one handed to a CPU that runs something else by now. */
__weak __noinline bool central_somebody_waits(struct lane *lane __arg_nonnull)
{
	u32 cpu;

	if (central_waits(lane, CENTRAL_ALL) || central_waits(lane, CENTRAL_BOUND))
		return true;
	bpf_for(cpu, 0, nr_cpus()) {
		if (scx_bpf_dsq_nr_queued(lane_cpu_dsq(lane, cpu, 0)) > 0)
			return true;
	}
	return false;
}

/* Somebody waits: runs that have had their slice end, and idle CPUs choose once more. */
__weak __noinline int central_end_runs(struct lane *lane __arg_nonnull, u64 now)
{
	struct central_cpu *c;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		c = central_at(lane, cpu);
		if (!c)
			break;
		if (central_is_over(lane, c, now)) {
			lane_count(lane, central_counter_preempted);
			lane_kick(lane, cpu, true);
		} else if (!c->since_ns && cpu_takes_tasks(cpu)) {
			lane_kick(lane, cpu, false);
		}
	}
	return 0;
}

/* The option's CPU may be on line again, or that which was asked off line. */
static void central_timer(struct lane *lane)
{
	struct central_lane *state = STATE_OF(lane, struct central_lane);
	bool came = __sync_lock_test_and_set(&state->came, 0);

	WRITE_ONCE(state->cpu, central_option(lane));
	if (central_somebody_waits(lane)) {
		central_end_runs(lane, scx_bpf_now());
		if (central_waits(lane, CENTRAL_ALL)) {
			if (state->unanswered < CENTRAL_PATIENCE)
				state->unanswered++;
			central_ask(lane);
		}
	} else if (!came) {
		__sync_lock_test_and_set(&state->armed, 0);
		if (!READ_ONCE(state->came) || __sync_lock_test_and_set(&state->armed, 1))
			return;
	}
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
