/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lags: latency-aware groups. Cgroups that have used little CPU time lately come first.
 *
 * Each cgroup has a load credit: how many CPUs its tasks used, as a running average, one value for all
 * CPUs. A new cgroup has none. A task that wants to run comes when it wakes, and later by what its
 * cgroup's credit is worth:
 *
 *	delay = min(credit * patience_ns / weight, bound_ns)
 *	key = time at which it came + delay
 *
 * The lowest key runs. So of two tasks that come at once the one of the lighter cgroup is first, and one
 * that waits is passed over only by those that come up to bound_ns after it. A task that wakes takes
 * the CPU of one whose key is higher. A task that has used up its slice, or yields, comes anew.
 *
 * It helps where tens or hundreds of cgroups each do a little: they have soon done it and go, so that queues
 * are short. It hurts a cgroup that computes for long, which comes last.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <ravg.bpf.h>
#include <rescue.bpf.h>
#include <elsewhere.bpf.h>
#include <first_here.bpf.h>
#include "options.h"

enum { lags_options(OPTION_INDEX) };
enum { lags_counters(COUNTER_INDEX) };

/* A credit is brought up to date no more often than this. */
#define LAGS_UPDATE_NS (4ULL * 1000 * 1000)
/* What a cgroup weighs is looked up no more often than this. */
#define LAGS_WEIGHED_NS (1000ULL * 1000 * 1000)
/* Levels of cgroups whose weights count. */
#define LAGS_LEVELS 8
/* A weight of WEIGHT_DFL, and the bounds of the product of several. */
#define LAGS_PRODUCT_ONE (1ULL << 24)
#define LAGS_PRODUCT_LEAST (LAGS_PRODUCT_ONE / 10000)
#define LAGS_PRODUCT_MOST (LAGS_PRODUCT_ONE * 10000)
/* The mean of such products, and how far a cgroup may be from it. */
#define LAGS_WEIGHT_ONE (1ULL << WEIGHT_BITS)
#define LAGS_WEIGHT_LEAST (LAGS_WEIGHT_ONE / 100)
#define LAGS_WEIGHT_MOST (LAGS_WEIGHT_ONE * 100)
/* The mean is of the cgroups that had work in so long a time: each was looked up some times in it. */
#define LAGS_MEAN_NS (4 * LAGS_WEIGHED_NS)
/* CPUs that a task which wakes looks at for one to take: its own and those after it. */
#define LAGS_PREEMPT_LOOKS 8
/* How often a cache looks at the next one for a task that comes before all of its own, by so much. */
#define LAGS_BALANCE_NS (4ULL * 1000 * 1000)
#define LAGS_BALANCE_LEAD_NS (1000ULL * 1000)

struct lags_group {
	u64 credit; /* in RAVG_ONE for each CPU */
	u64 ran_ns; /* lane_group.ran_ns, as of then */
	u64 at_ns; /* when the credit was brought up to date; 0: never */
	u64 weight; /* beside the mean, which is LAGS_WEIGHT_ONE; 0: never looked up */
	u64 weighed_ns;
};

struct lags_task {
	u64 came_ns; /* 0: it comes when it next wants to run */
	u64 queued_ns; /* since when it waits */
};

struct lags_llc {
	u64 balanced_ns; /* when it last looked at another cache */
	u32 next; /* the cache that it looks at next */
	/* Of the first cache, for all: what cgroups weigh in the mean, as products. */
	u32 looked_up; /* how many were, so far in this time of LAGS_MEAN_NS */
	u64 products; /* the sum of these */
	u64 began_ns; /* that time; 0: the first one is yet to begin */
	u64 mean; /* of the time before; in the first one, so far */
};

enum {
	LAGS_RUNS_NONE,
	LAGS_RUNS,
	LAGS_RUNS_NO_MORE, /* somebody is to take its CPU */
};

struct lags_cpu {
	u64 key; /* of the task that it runs */
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
	u64 runs; /* a task of this lane */
};

static __always_inline struct lags_cpu *lags_cpu_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *state = lane_cpu(lane, cpu);

	return state ? STATE_OF(state, struct lags_cpu) : NULL;
}

/* Adds a weight to the mean, and gives that. CPUs that come at once may lose each other's: it is a mean. */
static __always_inline u64 lags_mean_with(struct lags_llc *l, u64 product, u64 now)
{
	u32 looked_up = l->looked_up;
	u64 products = l->products;

	if (!l->began_ns)
		l->began_ns = now;
	if (looked_up && ns_since(l->began_ns, now) > (s64)LAGS_MEAN_NS) {
		l->mean = products / looked_up;
		l->began_ns = now;
		products = looked_up = 0;
	}
	l->products = products += product;
	l->looked_up = ++looked_up;
	return l->mean ? l->mean : products / looked_up;
}

/*
 * What the cgroup and those above it in the lane weigh, beside the mean: what cgroups are given is
 * told by each other alone. Kubernetes gives a small container 2, and all of them are small.
 */
static __always_inline void lags_weigh(struct lane *lane, struct lane_group *group, u64 now)
{
	struct lags_group *g = STATE_OF(group, struct lags_group);
	struct llc_state *first = lane_llc(lane, 0);
	u64 product = LAGS_PRODUCT_ONE, weight;
	u32 i;

	if (likely(g->weight && now - g->weighed_ns < LAGS_WEIGHED_NS))
		return;
	g->weighed_ns = now;
	if (!first)
		return;
	bpf_for(i, 0, LAGS_LEVELS) {
		/* The root weighs beside nobody. */
		if (!group->place)
			break;
		product = product * lane_group_weight(lane, group) / (WEIGHT_DFL << WEIGHT_BITS);
		if (product < LAGS_PRODUCT_LEAST)
			product = LAGS_PRODUCT_LEAST;
		if (product > LAGS_PRODUCT_MOST)
			product = LAGS_PRODUCT_MOST;
		group = lane_group_above(lane, group);
		if (!group)
			break;
	}
	weight = product * LAGS_WEIGHT_ONE / lags_mean_with(STATE_OF(first, struct lags_llc), product, now);
	if (weight < LAGS_WEIGHT_LEAST)
		weight = LAGS_WEIGHT_LEAST;
	if (weight > LAGS_WEIGHT_MOST)
		weight = LAGS_WEIGHT_MOST;
	g->weight = weight;
}

/* Brings the credit of a cgroup up to date; of CPUs that come at once one does. */
static __always_inline void lags_update(struct lane *lane, struct lane_group *group, u64 now)
{
	struct lags_group *g = STATE_OF(group, struct lags_group);
	u64 then = READ_ONCE(g->at_ns), ran_ns, used_ns;

	/* Clocks of two CPUs may differ a little. */
	if (then && ns_since(then, now) < (s64)LAGS_UPDATE_NS)
		return;
	if (__sync_val_compare_and_swap(&g->at_ns, then, now) != then)
		return;
	ran_ns = READ_ONCE(group->ran_ns);
	used_ns = ran_ns - g->ran_ns;
	g->ran_ns = ran_ns;
	/* A CPU that was held up here for long may find a later sum than its own. */
	if (then && (s64)used_ns >= 0)
		g->credit = ravg_after(g->credit, used_ns * RAVG_ONE / (now - then), now - then,
				       lane->options[lags_option_half_life_ns]);
}

/* By how much later than when it came a task is served that is in the same cgroup as @p, in ns. */
__weak __noinline u64 lags_delay(struct lane *lane __arg_nonnull, struct task_struct *p __arg_trusted)
{
	struct lane_group *group = lane_group(lane, p);
	u64 now = scx_bpf_now(), delay_ns, bound_ns = lane->options[lags_option_bound_ns];
	struct lags_group *g;

	if (!group || p->flags & PF_KTHREAD)
		return 0;
	g = STATE_OF(group, struct lags_group);
	lags_update(lane, group, now);
	lags_weigh(lane, group, now);
	/* 2^25 for 512 CPUs, times 2^36 for a minute. */
	delay_ns = g->credit * lane->options[lags_option_patience_ns] / RAVG_ONE;
	delay_ns = delay_ns * LAGS_WEIGHT_ONE / (g->weight ? g->weight : 1);
	return delay_ns < bound_ns ? delay_ns : bound_ns;
}

static s32 lags_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
				   lane->options[lags_option_slice_ns], &claimed);

	if (claimed)
		lane_count(lane, lags_counter_direct);
	return cpu;
}

/* What a task has from now on: it comes, unless it has come and was not served. */
static __always_inline u64 lags_key(struct lags_task *task, u64 delay_ns, u64 now)
{
	if (!task->came_ns)
		task->came_ns = now;
	return task->came_ns + delay_ns;
}

/*
 * A task that woke was queued with that key. If it is the first there, of the CPUs near by the one whose
 * task has the highest key chooses anew, if that is higher.
 */
__weak __noinline int lags_preempt(struct lane *lane __arg_nonnull, struct task_struct *p __arg_trusted,
				   u64 key)
{
	u64 highest = key + lane->options[lags_option_lead_ns];
	s32 cpu, own = scx_bpf_task_cpu(p), heaviest = -1;
	u32 i, llc = cpu_llc(own);
	struct task_struct *first = scx_bpf_dsq_peek(lane_llc_dsq(lane, llc, 0));
	struct lags_cpu *there;

	if (first && !vtime_before(key, first->scx.dsq_vtime))
		return 0;
	bpf_for(i, 0, LAGS_PREEMPT_LOOKS) {
		if (i >= nr_cpus())
			break;
		cpu = cpu_after(own, i);
		there = cpu_llc(cpu) == llc && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ?
				lags_cpu_at(lane, cpu) : NULL;
		if (there && there->runs == LAGS_RUNS && vtime_before(highest, there->key)) {
			highest = there->key;
			heaviest = cpu;
		}
	}
	there = heaviest < 0 ? NULL : lags_cpu_at(lane, heaviest);
	if (!there)
		return 0;
	/* One task takes it, not all that wake before it has chosen. */
	there->runs = LAGS_RUNS_NO_MORE;
	lane_count(lane, lags_counter_preempted);
	lane_kick(lane, heaviest, true);
	return 0;
}

static void lags_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	struct lags_task *task = STATE_OF(t, struct lags_task);
	u64 delay_ns = lags_delay(lane, p), now = scx_bpf_now(), key;
	u32 llc = cpu_llc(scx_bpf_task_cpu(p));

	key = lags_key(task, delay_ns, now);
	task->queued_ns = now;
	if (delay_ns && delay_ns == lane->options[lags_option_bound_ns])
		lane_count(lane, lags_counter_bounded);
	lane_count(lane, lags_counter_queued);
	lane_insert_vtime(lane, p, lane_llc_dsq(lane, llc, 0), lane->options[lags_option_slice_ns],
			  key, enq_flags);
	if (enq_flags & SCX_ENQ_WAKEUP)
		lags_preempt(lane, p, key);
}

static void lags_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct lags_cpu *here = lags_cpu_at(lane, scx_bpf_task_cpu(p));

	if (!here)
		return;
	here->key = lags_key(STATE_OF(t, struct lags_task), lags_delay(lane, p), scx_bpf_now());
	here->runs = LAGS_RUNS;
}

/* A task that sleeps, or has used up its slice, has been served; one that was stopped before goes on to wait. */
static void lags_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  const struct lane_run *run)
{
	struct lags_cpu *here = lags_cpu_at(lane, scx_bpf_task_cpu(p));

	if (here)
		here->runs = LAGS_RUNS_NONE;
	if (!run->runnable || run->ran_ns >= run->granted_ns)
		STATE_OF(t, struct lags_task)->came_ns = 0;
	lags_delay(lane, p);
}

/* In turn a cache looks at each other one for a task that comes before all of its own. */
__weak __noinline bool lags_balance(struct lane *lane __arg_nonnull, struct lags_llc *l __arg_nonnull,
				    u32 llc, s32 cpu, u64 now)
{
	u32 other = l->next < nr_llcs() ? l->next : 0;
	u64 own, first;

	l->balanced_ns = now;
	l->next = other + 1;
	if (other == llc)
		return false;
	first = first_here(lane, lane_llc_dsq(lane, other, 0), cpu);
	own = first_here(lane, lane_llc_dsq(lane, llc, 0), cpu);
	if (first == LANE_NOBODY ||
	    (own != LANE_NOBODY && !vtime_before(first + LAGS_BALANCE_LEAD_NS, own)) ||
	    !lane_move_to_local(lane, lane_llc_dsq(lane, other, 0)))
		return false;
	lane_count(lane, lags_counter_balanced);
	return true;
}

/* The task that ran here goes on if it comes before all that wait for this CPU. */
static __always_inline bool lags_goes_on(struct lane *lane, s32 cpu, u64 dsq, struct lags_cpu *here,
					 struct task_struct *prev, struct lags_task *task,
					 const struct lane_run *run, u64 now)
{
	u64 first = first_here(lane, dsq, cpu), key;

	/* Who stops short of its slice and was not asked to has yielded, and gives way to all who wait. */
	if (run->ran_ns >= run->granted_ns || here->runs == LAGS_RUNS)
		task->came_ns = 0;
	key = lags_key(task, lags_delay(lane, prev), now);
	if (first != LANE_NOBODY && !vtime_before(key, first))
		return false;
	here->key = key;
	here->runs = LAGS_RUNS;
	lane_count(lane, lags_counter_kept);
	lane_grant(lane, prev, lane->options[lags_option_slice_ns]);
	return true;
}

static bool lags_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	u32 llc = cpu_llc(cpu);
	u64 dsq = lane_llc_dsq(lane, llc, 0), now = scx_bpf_now();
	struct llc_state *of_llc = lane_llc(lane, llc);
	struct lags_cpu *here = lags_cpu_at(lane, cpu);
	struct lags_llc *l;

	if (!of_llc || !here)
		return false;
	l = STATE_OF(of_llc, struct lags_llc);
	if (rescue(lane, dsq, STATE_WORD(struct lags_task, queued_ns), &here->rescue_ns, now)) {
		lane_count(lane, lags_counter_rescued);
		return true;
	}
	if (nr_llcs() > 1 && ns_since(l->balanced_ns, now) > (s64)LAGS_BALANCE_NS &&
	    lags_balance(lane, l, llc, cpu, now))
		return true;
	if (prev && lags_goes_on(lane, cpu, dsq, here, prev, STATE_OF(t, struct lags_task), run, now))
		return true;
	if (lane_move_to_local(lane, dsq))
		return true;
	if (nr_llcs() == 1 || !take_elsewhere(lane, llc))
		return false;
	lane_count(lane, lags_counter_stolen);
	return true;
}

/* A task that comes from another lane comes anew. */
static void lags_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	STATE_OF(t, struct lags_task)->came_ns = 0;
}

static const struct policy_ops lags_ops = {
	.select_cpu = lags_select_cpu,
	.enqueue = lags_enqueue,
	.dispatch = lags_dispatch,
	.join = lags_join,
	.running = lags_running,
	.stopping = lags_stopping,
	.llc_queues = 1,
	.task_bytes = sizeof(struct lags_task),
	.cpu_bytes = sizeof(struct lags_cpu),
	.llc_bytes = sizeof(struct lags_llc),
	.group_bytes = sizeof(struct lags_group),
};
