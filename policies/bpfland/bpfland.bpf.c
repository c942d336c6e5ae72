/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpfland: interactive tasks first, and shorter slices the more tasks wait.
 *
 * A task that often goes to sleep of its own accord is interactive. How often is often is found
 * out: a threshold follows what the tasks of the lane do, up to a limit. Interactive tasks wait
 * in a priority queue, which is served before the shared one; both are in the order of weighted
 * virtual time. A task is interactive at once if its waker is about to sleep, until
 * its own average is known. Nothing is preempted before its slice ends, so slices get shorter when
 * tasks wait: within the time of one whole slice each of them has its turn.
 *
 * It helps services beside batch work, whose clients sleep and wake often. It hurts where everybody
 * sleeps often: then all are interactive, and what is left of it is short slices.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <starvation.bpf.h>
#include <rescue.bpf.h>
#include <weighted.bpf.h>
#include "options.h"

enum { bpfland_options(OPTION_INDEX) };
enum { bpfland_counters(COUNTER_INDEX) };

enum { BPFLAND_PRIO, BPFLAND_SHARED, BPFLAND_QUEUES };

/* Averages of switches are renewed once in so long. */
#define BPFLAND_RENEW_NS (1000ULL * 1000 * 1000)
/* Switches per second, in the unit of averages: fine enough for a quarter of one. */
#define BPFLAND_SWITCH 64ULL
/* The most that an average says, and the least that the threshold does. */
#define BPFLAND_MOST_SWITCHES (80 * BPFLAND_SWITCH)
#define BPFLAND_LEAST_THRESHOLD (1 * BPFLAND_SWITCH)
/* So many interactive tasks may wait for each CPU before a wake-up makes no more of them. */
#define BPFLAND_WAIT_PER_CPU 4

/*
 * Several CPUs write to these without a lock. Each value is an average, or follows tasks that
 * run: one that is lost is made up for by the next.
 */
struct bpfland_lane {
	u64 vtime_now; /* the highest vtime of a task that started to run */
	u64 shared_since_ns; /* since when the shared queue waits */
	u64 waiting; /* the average number of tasks that wait */
	u64 threshold; /* a task that switches as often is interactive; 0: not known yet */
};

struct bpfland_task {
	u64 vtime; /* ns at WEIGHT_DFL */
	u64 renewed_ns; /* when its average was; 0: never */
	u64 average; /* voluntary switches per second */
	u32 switches; /* since then */
	u32 interactive;
	u64 queued_ns; /* since when it waits */
};

#define BPFLAND_QUEUED_WORD STATE_WORD(struct bpfland_task, queued_ns)

/* When a CPU last served the shared queue, and next looks for a long wait in each: see rescue.bpf.h. */
struct bpfland_cpu {
	struct queue_here shared;
	u64 rescue_ns[BPFLAND_QUEUES];
};

static __always_inline u64 bpfland_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* Three quarters of what it was and one of what it is now. */
static __always_inline u64 bpfland_average(u64 before, u64 now)
{
	return (before * 3 + now) / 4;
}

static u64 bpfland_slice(struct lane *lane)
{
	struct bpfland_lane *state = STATE_OF(lane, struct bpfland_lane);
	s32 prio = scx_bpf_dsq_nr_queued(lane_dsq(lane, BPFLAND_PRIO));
	s32 shared = scx_bpf_dsq_nr_queued(lane_dsq(lane, BPFLAND_SHARED));
	u64 least_ns = lane->options[bpfland_option_slice_min_ns], slice_ns;
	u64 waiting = (state->waiting + (u64)(prio > 0 ? prio : 0) + (u64)(shared > 0 ? shared : 0)) / 2;

	state->waiting = waiting;
	slice_ns = lane->options[bpfland_option_slice_ns] / (waiting + 1);
	return slice_ns > least_ns ? slice_ns : least_ns;
}

/* What a task that is queued is granted; running() divides it otherwise. */
static u64 bpfland_slice_queued(struct lane *lane)
{
	return lane->options[bpfland_option_slice_at_enqueue] ?
		       bpfland_slice(lane) : lane->options[bpfland_option_slice_ns];
}

/* The lane's threshold follows what its tasks do. */
static u64 bpfland_threshold(struct lane *lane, u64 rate)
{
	struct bpfland_lane *state = STATE_OF(lane, struct bpfland_lane);
	u64 most = lane->options[bpfland_option_nvcsw_max_thresh] * BPFLAND_SWITCH;
	u64 threshold = bpfland_min(bpfland_average(state->threshold, rate), most);

	if (threshold < BPFLAND_LEAST_THRESHOLD)
		threshold = BPFLAND_LEAST_THRESHOLD;
	state->threshold = threshold;
	return threshold;
}

/* A task stops: is it interactive? Looked at once a second, since a rate needs some time. */
static void bpfland_classify(struct lane *lane, struct bpfland_task *task, u64 now)
{
	u64 since_ns = now - task->renewed_ns, rate;

	if (!task->renewed_ns) {
		task->renewed_ns = now;
		return;
	}
	/* Clocks of two CPUs may differ a little. */
	if ((s64)since_ns <= (s64)BPFLAND_RENEW_NS)
		return;
	rate = (u64)task->switches * BPFLAND_SWITCH * 1000 * 1000 / (since_ns / 1000);
	task->average = bpfland_min(bpfland_average(task->average, rate), BPFLAND_MOST_SWITCHES);
	task->interactive = task->average >= bpfland_threshold(lane, rate);
	task->renewed_ns = now;
	task->switches = 0;
}

/* Whether the priority queue is so long that no wake-up is to make it longer. */
static bool bpfland_many_are_interactive(struct lane *lane)
{
	s32 waiting = scx_bpf_dsq_nr_queued(lane_dsq(lane, BPFLAND_PRIO));

	return waiting > (s32)(BPFLAND_WAIT_PER_CPU * nr_cpus());
}

static s32 bpfland_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	struct lane_task *t;
	s32 cpu;

	if (wake_flags & SCX_WAKE_SYNC && !bpfland_many_are_interactive(lane)) {
		t = lane_task(lane, p);
		if (t && !STATE_OF(t, struct bpfland_task)->interactive) {
			STATE_OF(t, struct bpfland_task)->interactive = 1;
			lane_count(lane, bpfland_counter_promoted);
		}
	}
	cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
			       lane->options[bpfland_option_slice_ns], &claimed);
	if (claimed)
		lane_count(lane, bpfland_counter_direct);
	return cpu;
}

/* A newcomer stands where the lane stands: neither credit nor debt. */
static void bpfland_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	STATE_OF(t, struct bpfland_task)->vtime = STATE_OF(lane, struct bpfland_lane)->vtime_now;
}

static u64 bpfland_place(struct lane *lane, struct task_struct *p, u64 vtime)
{
	return weighted_place(STATE_OF(lane, struct bpfland_lane)->vtime_now, vtime,
			      lane->options[bpfland_option_slice_lag_ns],
			      lane->options[bpfland_option_slice_ns], task_weight(p));
}

static bool bpfland_has_priority(struct lane *lane, const struct bpfland_task *task)
{
	return task->interactive && lane->options[bpfland_option_nvcsw_max_thresh];
}

static void bpfland_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 enq_flags)
{
	struct bpfland_task *task = STATE_OF(t, struct bpfland_task);
	u64 slice_ns = bpfland_slice_queued(lane), shared = lane_dsq(lane, BPFLAND_SHARED);

	task->vtime = bpfland_place(lane, p, task->vtime);
	task->queued_ns = scx_bpf_now();
	if (bpfland_has_priority(lane, task)) {
		lane_count(lane, bpfland_counter_queued_prio);
		lane_insert_vtime(lane, p, lane_dsq(lane, BPFLAND_PRIO), slice_ns, task->vtime,
				  enq_flags);
		return;
	}
	lane_count(lane, bpfland_counter_queued);
	queue_waits(shared, &STATE_OF(lane, struct bpfland_lane)->shared_since_ns);
	lane_insert_vtime(lane, p, shared, slice_ns, task->vtime, enq_flags);
}

static void bpfland_advance(struct lane *lane, u64 vtime)
{
	weighted_advance(&STATE_OF(lane, struct bpfland_lane)->vtime_now, vtime);
}

/* A task that has waited for seconds runs here, whatever its weight. */
__weak __noinline bool bpfland_rescue(struct lane *lane __arg_nonnull,
				      struct bpfland_cpu *here __arg_nonnull)
{
	u64 now = scx_bpf_now();

	if (!rescue(lane, lane_dsq(lane, BPFLAND_SHARED), BPFLAND_QUEUED_WORD,
		    &here->rescue_ns[BPFLAND_SHARED], now) &&
	    !rescue(lane, lane_dsq(lane, BPFLAND_PRIO), BPFLAND_QUEUED_WORD,
		    &here->rescue_ns[BPFLAND_PRIO], now))
		return false;
	lane_count(lane, bpfland_counter_overdue);
	return true;
}

/*
 * Whether the task that ran here goes on: it would be the first of its own queue, or nobody waits there
 * for this CPU. Else two hogs would take turns whatever their weights.
 */
static bool bpfland_goes_on(struct lane *lane, s32 cpu, struct task_struct *prev, u64 dsq, u64 vtime)
{
	if (!weighted_goes_on(lane, dsq, cpu, vtime,
			      &STATE_OF(lane, struct bpfland_lane)->vtime_now))
		return false;
	lane_count(lane, bpfland_counter_kept);
	lane_grant(lane, prev, bpfland_slice(lane));
	return true;
}

static bool bpfland_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			     struct lane_task *t, const struct lane_run *run)
{
	u64 prio = lane_dsq(lane, BPFLAND_PRIO), shared = lane_dsq(lane, BPFLAND_SHARED);
	u64 *since_ns = &STATE_OF(lane, struct bpfland_lane)->shared_since_ns;
	struct cpu_state *of_cpu = lane_cpu(lane, cpu);
	bool prev_has_priority = false;
	struct bpfland_cpu *here;
	u64 vtime = 0;

	if (!of_cpu)
		return false;
	here = STATE_OF(of_cpu, struct bpfland_cpu);
	if (prev) {
		struct bpfland_task *task = STATE_OF(t, struct bpfland_task);

		prev_has_priority = bpfland_has_priority(lane, task);
		vtime = bpfland_place(lane, prev,
				      task->vtime + weighted_ns(run->ran_ns, task_weight(prev)));
		if (!prev_has_priority)
			queue_has_its_turn_here(since_ns, &here->shared);
	}
	if (bpfland_rescue(lane, here))
		return true;
	if (queue_serve_starving(lane, shared, since_ns, &here->shared,
				 lane->options[bpfland_option_starvation_thresh_ns])) {
		lane_count(lane, bpfland_counter_rescued);
		return true;
	}
	if (prev_has_priority && bpfland_goes_on(lane, cpu, prev, prio, vtime))
		return true;
	if (lane_move_to_local(lane, prio))
		return true;
	if (prev && bpfland_goes_on(lane, cpu, prev, shared, vtime))
		return true;
	return queue_serve(lane, shared, since_ns, &here->shared);
}

static void bpfland_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	bpfland_advance(lane, STATE_OF(t, struct bpfland_task)->vtime);
	if (!lane->options[bpfland_option_slice_at_enqueue])
		lane_grant(lane, p, bpfland_slice(lane));
}

/* Charges what was measured: of a slice that was divided more would be too much. */
static void bpfland_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			     const struct lane_run *run)
{
	struct bpfland_task *task = STATE_OF(t, struct bpfland_task);

	task->vtime += weighted_ns(run->ran_ns, task_weight(p));
	if (!bpfland_has_priority(lane, task))
		queue_has_its_turn(&STATE_OF(lane, struct bpfland_lane)->shared_since_ns);
	if (!run->runnable)
		task->switches++;
	bpfland_classify(lane, task, scx_bpf_now());
}

static const struct policy_ops bpfland_ops = {
	.select_cpu = bpfland_select_cpu,
	.enqueue = bpfland_enqueue,
	.dispatch = bpfland_dispatch,
	.join = bpfland_join,
	.running = bpfland_running,
	.stopping = bpfland_stopping,
	.queues = BPFLAND_QUEUES,
	.task_bytes = sizeof(struct bpfland_task),
	.cpu_bytes = sizeof(struct bpfland_cpu),
};
