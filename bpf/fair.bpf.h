/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core of fair, and of policies that add to it: earliest eligible virtual deadline first, with
 * groups. What each of these is for stands in its own file.
 *
 * A policy that has this core declares fair's options and counters first, see FAIR_CORE_OF(); its
 * state of tasks, CPUs, caches and cgroups begins with fair's.
 */
#ifndef METASCHED_FAIR_BPF_H
#define METASCHED_FAIR_BPF_H

#include <sched.bpf.h>
#include <idle.bpf.h>
#include <rescue.bpf.h>
#include <elsewhere.bpf.h>
#include <first_here.bpf.h>
#include <eevdf.bpf.h>
#include <eevdf_sleepers.bpf.h>
#include <group_weights.bpf.h>

enum {
	FAIR_OPTION_SLICE_NS,
	FAIR_OPTION_MIN_GRANULARITY_NS,
};

enum {
	FAIR_COUNTER_DIRECT,
	FAIR_COUNTER_QUEUED,
	FAIR_COUNTER_KEPT,
	FAIR_COUNTER_PREEMPTED,
	FAIR_COUNTER_PASSED_OVER,
	FAIR_COUNTER_EARLY,
	FAIR_COUNTER_STOLEN,
	FAIR_COUNTER_BALANCED,
	FAIR_COUNTER_RESCUED,
};

/* The policy has declared these in the same places. */
#define FAIR_CORE_OF(policy)                                                                       \
	_Static_assert((int)policy##_option_slice_ns == FAIR_OPTION_SLICE_NS &&                    \
			       (int)policy##_option_min_granularity_ns ==                         \
				       FAIR_OPTION_MIN_GRANULARITY_NS &&                           \
			       (int)policy##_counter_direct == FAIR_COUNTER_DIRECT &&              \
			       (int)policy##_counter_queued == FAIR_COUNTER_QUEUED &&              \
			       (int)policy##_counter_kept == FAIR_COUNTER_KEPT &&                  \
			       (int)policy##_counter_preempted == FAIR_COUNTER_PREEMPTED &&        \
			       (int)policy##_counter_passed_over == FAIR_COUNTER_PASSED_OVER &&    \
			       (int)policy##_counter_early == FAIR_COUNTER_EARLY &&                \
			       (int)policy##_counter_stolen == FAIR_COUNTER_STOLEN &&              \
			       (int)policy##_counter_balanced == FAIR_COUNTER_BALANCED &&          \
			       (int)policy##_counter_rescued == FAIR_COUNTER_RESCUED,              \
		       "options and counters of fair come first")

/* The kernel's sysctl_sched_base_slice on one CPU, and what it adds for each doubling. */
#define FAIR_BASE_SLICE_NS (700ULL * 1000)
/* CPUs that a task which wakes looks at for one to take: its own and those after it. */
#define FAIR_PREEMPT_LOOKS 4
/* Tasks that are looked at for one that is eligible. */
#define FAIR_LOOKS 32
/* A task that ran alone is owed nothing, but for what divisions lose. */
#define FAIR_ROUNDED_NS 1000ULL
/* A division loses less than one: some of them make a task that is owed nothing look as if it owed so much. */
#define FAIR_LOST_NS 16ULL
/* The weight of a task that waits holds for so long. */
#define FAIR_WEIGHED_NS (1000ULL * 1000)
/* How often a cache looks at the next one for more than its own share of work. */
#define FAIR_BALANCE_NS (4ULL * 1000 * 1000)
/* By how much that one has to have more, as parts of it: 5 for 4. */
#define FAIR_IMBALANCE 5
#define FAIR_BALANCED 4
/* Amounts of work that differ by less than one part in so many count as equal. */
#define FAIR_SAME 64
/* So often a cache looks at ones that it could only change places with until it does. */
#define FAIR_TIES 16
/* A queue that was served by nobody for so long has CPUs that are off line, or do other things. */
#define FAIR_UNSERVED_NS (10ULL * 1000 * 1000)
/* How often a cache counts its CPUs that are on line. */
#define FAIR_COUNT_NS (100ULL * 1000 * 1000)

struct fair_task {
	struct eevdf_task e;
	struct group_share share;
};

#define FAIR_VRUNTIME_WORD STATE_WORD(struct fair_task, e.vruntime)
#define FAIR_QUEUED_WORD STATE_WORD(struct fair_task, e.queued_ns)

struct fair_group {
	struct group_weights weights;
	u64 debt; /* what those that ended in it owed: lags times weights */
};

/* The tasks under a cache. */
struct fair_llc {
	struct eevdf_queue q;
	u64 served_ns; /* when a CPU last took from its queue */
	u64 balanced_ns; /* when it last looked at another cache */
	u64 counted_ns; /* when its CPUs were last counted */
	u16 cpus; /* that take tasks */
	u16 ties; /* see FAIR_TIES */
	u32 next; /* the cache that it looks at next */
	struct eevdf_sleepers sleepers;
};

/* What a CPU runs. */
struct fair_cpu {
	u64 began_ns; /* the run; `counted` is the part of it that time has gone on by */
	u64 counted_ns;
	u64 since_ns; /* the request, with the task's virtual run time then, and when it is due */
	u64 vruntime;
	u64 deadline;
	u64 ends_ns; /* the slice */
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
	u32 weight;
	u16 runs; /* a task of this lane, see below */
	u16 gives_way; /* at once, see group_weights.bpf.h */
};

enum {
	FAIR_RUNS_NONE,
	FAIR_RUNS,
	FAIR_RUNS_NO_MORE, /* somebody is to take its CPU */
};

static __always_inline struct fair_llc *fair_llc_at(struct lane *lane, u32 llc)
{
	struct llc_state *state = lane_llc(lane, llc);

	return state ? STATE_OF(state, struct fair_llc) : NULL;
}

static __always_inline struct fair_cpu *fair_cpu_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *state = lane_cpu(lane, cpu);

	return state ? STATE_OF(state, struct fair_cpu) : NULL;
}

/* What a task asks for at once; for 0 it is as in the kernel, which counts eight CPUs at most. */
static __always_inline u64 fair_slice(struct lane *lane)
{
	u64 slice_ns = lane->options[FAIR_OPTION_SLICE_NS];
	u32 cpus = nr_online_cpus();

	return slice_ns ?: FAIR_BASE_SLICE_NS * (1 + (cpus >= 2) + (cpus >= 4) + (cpus >= 8));
}

static __always_inline s32 fair_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu,
					   u64 wake_flags)
{
	bool claimed = false;
	s32 cpu = wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, fair_slice(lane), &claimed);

	if (claimed)
		lane_count(lane, FAIR_COUNTER_DIRECT);
	return cpu;
}

/* A newcomer is owed nothing, and owes nothing. */
static __always_inline void fair_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);

	group_leave(lane, &task->share);
	__builtin_memset(&task->e, 0, sizeof(task->e));
}

/*
 * A task ends in debt. The next task that joins its cgroup takes the debt over: else a tree of short tasks,
 * each of which ends before it has paid, would have more than its cgroup's part.
 */
static __always_inline void fair_bequeath(struct lane *lane, const struct group_share *share,
					  const struct eevdf_task *e, u32 weight)
{
	struct lane_group *group = lane_group_find(lane, share->place, share->serial);

	if (group && e->lag < 0)
		__sync_fetch_and_add(&STATE_OF(group, struct fair_group)->debt,
				     (u64)-e->lag * weight);
}

/* The task takes over what its cgroup owes, as far as one task can. */
static __always_inline void fair_inherit(struct lane *lane, struct fair_task *task, u32 weight)
{
	struct lane_group *group = lane_group_find(lane, task->share.place, task->share.serial);
	u64 debt, most = (fair_slice(lane) + EEVDF_TICK_NS) * EEVDF_WEIGHT_DFL;
	struct fair_group *g;

	if (!group)
		return;
	g = STATE_OF(group, struct fair_group);
	if (likely(!READ_ONCE(g->debt)))
		return;
	debt = __sync_lock_test_and_set(&g->debt, 0);
	if (debt > most) {
		__sync_fetch_and_add(&g->debt, debt - most);
		debt = most;
	}
	task->e.lag -= debt / weight;
}

/*
 * Brings the time of a cache up to date with what that CPU runs, so that a task joins at the time
 * that it is. If that run ends on the CPU at this moment, a part of it may count twice: `now` is wrong
 * by that until a task competes alone or none is eligible, see eevdf.bpf.h.
 */
static __always_inline void fair_advance(struct lane *lane, struct fair_llc *l, s32 cpu)
{
	struct fair_cpu *there = fair_cpu_at(lane, cpu);
	u64 now = scx_bpf_now();

	if (there && there->runs != FAIR_RUNS_NONE && vtime_before(there->began_ns, now))
		eevdf_advance(&l->q, &there->counted_ns, now - there->began_ns);
}

/* The task competes under that cache from now on, with the lag that it has. */
__weak __noinline int fair_compete(struct lane *lane __arg_nonnull,
				   struct task_struct *p __arg_trusted,
				   struct fair_task *task __arg_nonnull, u32 llc)
{
	struct fair_llc *from = fair_llc_at(lane, task->e.queue), *to = fair_llc_at(lane, llc);
	bool competes = task->e.weight, woke = false, others;
	u32 weight;

	if (!from || !to)
		return 0;
	fair_advance(lane, to, scx_bpf_task_cpu(p));
	if (!competes && task->e.ticket) {
		/* Its note holds what it owes; if another CPU has settled that, it owes nothing. */
		task->e.lag = 0;
		competes = eevdf_wakes(&from->sleepers, &task->e, &task->share);
		task->e.ticket = 0;
		if (competes && from == to && !eevdf_eligible(&to->q, task->e.vruntime))
			return 0;
		woke = true;
	}
	if (competes)
		eevdf_leave(&from->q, &task->e, fair_slice(lane), false);
	else
		eevdf_rests(&from->q, &task->e);
	/* It is owed nothing for the time that it slept on. */
	if (woke && task->e.lag > 0)
		task->e.lag = 0;
	/* A lag from another cache moves `now` here, even if others of its cgroup compete here. */
	others = group_join(lane, p, &task->share) && !competes;
	weight = group_flat_weight(lane, &task->share);
	if (!competes)
		fair_inherit(lane, task, weight);
	task->e.queue = llc;
	eevdf_join(&to->q, &task->e, weight, fair_slice(lane), others);
	return 0;
}

static __always_inline void fair_runnable(struct lane *lane, struct task_struct *p,
					   struct lane_task *t, u64 enq_flags)
{
	fair_compete(lane, p, STATE_OF(t, struct fair_task), cpu_llc(scx_bpf_task_cpu(p)));
}

static __always_inline void fair_quiescent(struct lane *lane, struct task_struct *p,
					   struct lane_task *t, u64 deq_flags)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	struct fair_llc *l = fair_llc_at(lane, task->e.queue);
	struct group_share share = task->share;
	u32 weight = task->e.weight;
	bool others;

	task->e.ticket = 0;
	if (l && weight && deq_flags & SCX_DEQ_SLEEP && !(p->flags & PF_EXITING) &&
	    !eevdf_eligible(&l->q, task->e.vruntime) &&
	    eevdf_sleeps_on(&l->sleepers, &task->e, &task->share))
		return;
	others = group_leave(lane, &task->share);
	if (!l || !weight)
		return;
	eevdf_leave(&l->q, &task->e, fair_slice(lane), others);
	if (p->flags & PF_EXITING)
		fair_bequeath(lane, &share, &task->e, weight);
}

/* Brings the task's weight up to date. */
static __always_inline void fair_reweigh(struct lane *lane, struct task_struct *p,
					 struct fair_task *task, struct fair_llc *l)
{
	group_join(lane, p, &task->share);
	eevdf_reweigh(&l->q, &task->e, group_flat_weight(lane, &task->share));
}

/* In place of a time. */
#define FAIR_NEVER (~0ULL)

/*
 * In what time a task that woke is to have that CPU in place of its task, if that goes on: one that is
 * eligible keeps it in the first part of its request.
 */
static __always_inline u64 fair_takes_in(struct lane *lane, struct fair_llc *l,
					 struct fair_cpu *there, const struct fair_task *task,
					 bool is_next, u64 now)
{
	s64 granularity_ns = lane->options[FAIR_OPTION_MIN_GRANULARITY_NS];
	/* Clocks of two CPUs may differ a little. */
	s64 ran_ns = now - there->since_ns;
	u64 vruntime;

	if (there->runs != FAIR_RUNS || (task->share.gives_way && !there->gives_way))
		return FAIR_NEVER;
	if (there->gives_way && !task->share.gives_way)
		return 0;
	if (!is_next)
		return FAIR_NEVER;
	if (ran_ns < 0)
		ran_ns = 0;
	vruntime = there->vruntime + eevdf_vtime(ran_ns, there->weight);
	if (!eevdf_eligible(&l->q, vruntime - FAIR_ROUNDED_NS))
		return 0;
	if (!vtime_before(task->e.deadline, there->deadline))
		return FAIR_NEVER;
	if (ran_ns < granularity_ns && vtime_before(vruntime, there->deadline))
		return granularity_ns - ran_ns;
	return 0;
}

/* The run of a CPU for which somebody waits is to end in @ns, or when its slice is used up. */
static __always_inline void fair_ends(struct lane *lane, s32 cpu, struct fair_cpu *there, u64 now,
				      u64 ns)
{
	s64 left_ns = there->ends_ns - now;

	if (left_ns < 0)
		left_ns = 0;
	lane_end_run(lane, cpu, ns < (u64)left_ns ? ns : (u64)left_ns);
}

/*
 * A task was queued. Where it @woke, a CPU that it is to have chooses anew, now or as soon as it is to.
 * Else it waits for the end of a slice; where others waited before it, the running task was asked for that.
 */
__weak __noinline int fair_waits(struct lane *lane __arg_nonnull,
				 struct task_struct *p __arg_trusted,
				 struct fair_llc *l __arg_nonnull,
				 struct fair_task *task __arg_nonnull, bool woke)
{
	s32 cpu, last = scx_bpf_task_cpu(p), sooner = last;
	u64 dsq = lane_llc_dsq(lane, task->e.queue, 0);
	struct task_struct *first = scx_bpf_dsq_peek(dsq);
	struct fair_cpu *there;
	u64 now = scx_bpf_now(), takes_ns, least_ns = FAIR_NEVER;
	/* Whether the task that waits is eligible is not asked: mostly it is. */
	bool is_next = eevdf_eligible(&l->q, task->e.vruntime) &&
		       (!first || !vtime_before(first->scx.dsq_vtime, task->e.deadline));
	u32 i, looks = FAIR_PREEMPT_LOOKS < nr_cpus() ? FAIR_PREEMPT_LOOKS : nr_cpus();

	bpf_for(i, 0, woke ? looks : 0) {
		cpu = cpu_after(last, i);
		there = cpu_llc(cpu) == task->e.queue && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ?
				fair_cpu_at(lane, cpu) : NULL;
		takes_ns = there ? fair_takes_in(lane, l, there, task, is_next, now) : FAIR_NEVER;
		if (!takes_ns) {
			lane_count(lane, FAIR_COUNTER_PREEMPTED);
			/* One task takes it, not all that wake before it has chosen. */
			there->runs = FAIR_RUNS_NO_MORE;
			lane_kick(lane, cpu, true);
			return 0;
		}
		if (takes_ns < least_ns) {
			least_ns = takes_ns;
			sooner = cpu;
		}
	}
	if (least_ns == FAIR_NEVER && scx_bpf_dsq_nr_queued(dsq) > 1)
		return 0;
	there = cpu_llc(sooner) == task->e.queue ? fair_cpu_at(lane, sooner) : NULL;
	if (there && there->runs == FAIR_RUNS)
		fair_ends(lane, sooner, there, now, least_ns);
	return 0;
}

/*
 * A task woke where one runs that gives way to it: it comes before the others that wait. Beside weights
 * of next to nothing virtual times are far apart, so that by deadlines it might have to wait.
 */
static __always_inline void fair_goes_first(struct lane *lane, s32 cpu, u64 dsq,
					    struct fair_task *task)
{
	struct fair_cpu *there = task->share.gives_way ? NULL : fair_cpu_at(lane, cpu);
	struct task_struct *first;

	if (!there || likely(!there->gives_way) || there->runs != FAIR_RUNS)
		return;
	first = scx_bpf_dsq_peek(dsq);
	if (first && vtime_before(first->scx.dsq_vtime, task->e.deadline))
		task->e.deadline = first->scx.dsq_vtime - 1;
}

/* The task waits from now on, by its deadline, for @slice_ns. */
static __always_inline void fair_queue(struct lane *lane, struct task_struct *p,
				       struct fair_llc *l, struct fair_task *task, u64 slice_ns,
				       u64 enq_flags)
{
	u64 dsq = lane_llc_dsq(lane, task->e.queue, 0);

	task->e.queued_ns = scx_bpf_now();
	if (enq_flags & SCX_ENQ_WAKEUP)
		fair_goes_first(lane, scx_bpf_task_cpu(p), dsq, task);
	lane_count(lane, FAIR_COUNTER_QUEUED);
	lane_insert_vtime(lane, p, dsq, slice_ns, task->e.deadline, enq_flags);
	fair_waits(lane, p, l, task, enq_flags & SCX_ENQ_WAKEUP);
}

/* A request of a task begins, or goes on, on that CPU, with that slice. */
static __always_inline void fair_begins(struct lane *lane, s32 cpu, struct fair_cpu *here,
					const struct fair_task *task, u64 now, u64 slice_ns)
{
	here->since_ns = now;
	here->ends_ns = now + slice_ns;
	here->vruntime = task->e.vruntime;
	here->deadline = task->e.deadline;
	here->weight = task->e.weight;
	here->gives_way = task->share.gives_way;
	here->runs = FAIR_RUNS;
	if (scx_bpf_dsq_nr_queued(lane_llc_dsq(lane, task->e.queue, 0)) > 0)
		fair_ends(lane, cpu, here, now, FAIR_NEVER);
}

static __always_inline void fair_running(struct lane *lane, struct task_struct *p,
					 struct lane_task *t)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	s32 cpu = scx_bpf_task_cpu(p);
	struct fair_cpu *here = fair_cpu_at(lane, cpu);
	u64 now = scx_bpf_now();
	u32 llc = cpu_llc(cpu);

	if (task->e.queue != llc)
		fair_compete(lane, p, task, llc);
	task->e.charged_ns = 0;
	if (!here)
		return;
	here->began_ns = now;
	here->counted_ns = 0;
	fair_begins(lane, cpu, here, task, now, p->scx.slice);
}

static __always_inline void fair_stopping(struct lane *lane, struct task_struct *p,
					   struct lane_task *t, const struct lane_run *run)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	struct fair_cpu *here = fair_cpu_at(lane, scx_bpf_task_cpu(p));
	struct fair_llc *l = fair_llc_at(lane, task->e.queue);

	if (!here)
		return;
	if (l)
		eevdf_charge(&l->q, &task->e, run->ran_ns, &here->counted_ns);
	here->runs = FAIR_RUNS_NONE;
}

/* The task that ran here goes on with what it asks for. */
static __always_inline bool fair_goes_on(struct lane *lane, s32 cpu, struct fair_cpu *here,
					 struct task_struct *prev, struct fair_task *task,
					 u64 now, u64 slice_ns)
{
	fair_begins(lane, cpu, here, task, now, slice_ns);
	lane_count(lane, FAIR_COUNTER_KEPT);
	lane_grant(lane, prev, slice_ns);
	return true;
}

/* The earliest deadline is of a task that may not run here: the same among those that may. */
__weak __noinline bool fair_pick_bound(struct lane *lane __arg_nonnull,
				       struct fair_llc *l __arg_nonnull, u64 dsq, s32 cpu,
				       u64 deadline)
{
	u64 due = lane_first(lane, dsq, cpu, cpu);

	return due != LANE_NOBODY && vtime_before(due, deadline) &&
	       lane_move_before(lane, dsq, FAIR_VRUNTIME_WORD, READ_ONCE(l->q.now) + 1,
				FAIR_LOOKS);
}

/*
 * Moves the eligible task with the earliest deadline from the queue to this CPU, if that is before
 * @deadline, or if @any. With @gives_way the task that ran here gives way to the first one that does not
 * give way itself, whatever the deadlines.
 */
static __always_inline bool fair_pick(struct lane *lane, struct fair_llc *l, u64 dsq, s32 cpu,
				      u64 now_ns, u64 deadline, bool any, bool gives_way)
{
	struct task_struct *first = scx_bpf_dsq_peek(dsq);
	u64 now = READ_ONCE(l->q.now);
	struct fair_task *task;
	struct lane_task *t;

	if (!first)
		return false;
	if (unlikely(!bpf_cpumask_test_cpu(cpu, first->cpus_ptr)))
		return fair_pick_bound(lane, l, dsq, cpu,
				       any || gives_way ? now + EEVDF_LONGEST_NS : deadline);
	t = lane_kept(lane, first);
	if (unlikely(!t))
		return lane_move_to_local(lane, dsq);
	task = STATE_OF(t, struct fair_task);
	/*
	 * Others of its cgroup may have come or gone while it waited. Where the policy keeps more of a task
	 * that goes by its weight, it weighs it when it next has it by itself.
	 */
	if (!task->e.more && ns_since(task->e.queued_ns, now_ns) > (s64)FAIR_WEIGHED_NS)
		eevdf_reweigh(&l->q, &task->e, group_flat_weight(lane, &task->share));
	if (gives_way && !task->share.gives_way)
		return lane_move_to_local(lane, dsq);
	if (!any && !vtime_before(task->e.deadline, deadline))
		return false;
	if (likely(!vtime_before(now + FAIR_LOST_NS, task->e.vruntime)))
		return lane_move_to_local(lane, dsq);
	if (!lane_move_before(lane, dsq, FAIR_VRUNTIME_WORD, now + 1, FAIR_LOOKS))
		return false;
	lane_count(lane, FAIR_COUNTER_PASSED_OVER);
	return true;
}

/*
 * None of those that were looked at is eligible: somebody has to be. The earliest deadline runs, if
 * that is not @own's. Where the first one is bound elsewhere, those of this CPU have had more than
 * their part, and somebody is eligible all the same.
 */
__weak __noinline bool fair_pick_early(struct lane *lane __arg_nonnull,
				       struct fair_llc *l __arg_nonnull, u64 dsq, s32 cpu,
				       const struct fair_task *own)
{
	struct task_struct *first = scx_bpf_dsq_peek(dsq);
	u64 due = first_here(lane, dsq, cpu);
	bool is_first = first && due == first->scx.dsq_vtime;
	struct lane_task *t;

	if (due == LANE_NOBODY)
		return false;
	if (own && vtime_before(own->e.deadline, due)) {
		if (is_first)
			eevdf_first(&l->q, &own->e);
		return false;
	}
	t = is_first ? lane_kept(lane, first) : NULL;
	if (t)
		eevdf_first(&l->q, &STATE_OF(t, struct fair_task)->e);
	if (!lane_move_to_local(lane, dsq))
		return false;
	lane_count(lane, FAIR_COUNTER_EARLY);
	return true;
}

/*
 * Whether a task of @weight that waits under the cache @other is to run under @own: for each CPU there
 * is more work there, and here would not be more than that with the task. Where here would be as much the
 * two change places, and do so again: of three equal tasks on two CPUs each gets two thirds in
 * the end. Or nobody serves that queue.
 */
static __always_inline bool fair_has_more(struct fair_llc *own, const struct fair_llc *other,
					  u64 weight, u64 now)
{
	u64 here = READ_ONCE(own->q.weight) * other->cpus, with = here + weight * other->cpus;
	u64 there = READ_ONCE(other->q.weight) * own->cpus;

	if (ns_since(READ_ONCE(other->served_ns), now) > (s64)FAIR_UNSERVED_NS)
		return true;
	if (there * FAIR_BALANCED <= here * FAIR_IMBALANCE || with > there + there / FAIR_SAME)
		return false;
	if (with + there / FAIR_SAME < there)
		return true;
	own->ties = own->ties < FAIR_TIES ? own->ties + 1 : 0;
	return !own->ties;
}

/* In turn a cache looks at each other one for more work than its own. */
__weak __noinline bool fair_balance(struct lane *lane __arg_nonnull,
				    struct fair_llc *l __arg_nonnull, u32 llc, u64 now)
{
	u32 other = l->next < nr_llcs() ? l->next : 0;
	struct fair_llc *there = fair_llc_at(lane, other);
	u64 dsq = lane_llc_dsq(lane, other, 0);
	struct task_struct *first;
	struct lane_task *t;

	l->balanced_ns = now;
	l->next = other + 1;
	first = there && other != llc ? scx_bpf_dsq_peek(dsq) : NULL;
	if (!first)
		return false;
	t = lane_kept(lane, first);
	if (!fair_has_more(l, there, t ? STATE_OF(t, struct fair_task)->e.weight : 0, now) ||
	    !lane_move_to_local(lane, dsq))
		return false;
	lane_count(lane, FAIR_COUNTER_BALANCED);
	return true;
}

/*
 * Now and then one of a cache's CPUs counts those that take tasks. It is one itself. A comparison with
 * what was counted would keep the verifier from seeing that the loop ends.
 */
__weak __noinline int fair_count(struct fair_llc *l __arg_nonnull, u32 here, u64 now)
{
	u32 cpu, cpus = 1, llc = cpu_llc(here);

	bpf_for(cpu, 0, nr_cpus()) {
		cpus += cpu != here && cpu_possible(cpu) && cpu_llc(cpu) == llc &&
			cpu_takes_tasks(cpu);
	}
	l->cpus = cpus;
	l->counted_ns = now;
	return 0;
}

/*
 * Some tasks sleep in debt. One whose debt is paid and whose deadline comes before @deadline and before that
 * of the first queued task stops competing; all do if no task @runs here and none is queued.
 */
static __always_inline void fair_look(struct lane *lane, struct fair_llc *l, u64 dsq, u64 deadline,
				      bool runs)
{
	struct task_struct *first = scx_bpf_dsq_peek(dsq);
	bool all = !runs;

	if (first) {
		all = false;
		if (vtime_before(first->scx.dsq_vtime, deadline))
			deadline = first->scx.dsq_vtime;
	}
	if (all || !vtime_before(READ_ONCE(l->q.now), READ_ONCE(l->sleepers.next)))
		eevdf_settle(lane, &l->q, &l->sleepers, deadline, all);
}

/* A CPU that chooses. */
struct fair_choice {
	struct fair_llc *l;
	struct fair_cpu *here;
	u64 dsq;
	u64 now;
	u32 llc;
};

/* False if there is no such CPU. */
static __always_inline bool fair_chooses(struct lane *lane, s32 cpu, struct fair_choice *c)
{
	c->llc = cpu_llc(cpu);
	c->l = fair_llc_at(lane, c->llc);
	c->here = fair_cpu_at(lane, cpu);
	c->dsq = lane_llc_dsq(lane, c->llc, 0);
	c->now = scx_bpf_now();
	if (!c->l || !c->here)
		return false;
	c->l->served_ns = c->now;
	return true;
}

/* What comes before the order of the queue: a task that has waited for long, and another cache's turn. */
static __always_inline bool fair_picks_before(struct lane *lane, s32 cpu,
					      const struct fair_choice *c)
{
	if (rescue(lane, c->dsq, FAIR_QUEUED_WORD, &c->here->rescue_ns, c->now)) {
		lane_count(lane, FAIR_COUNTER_RESCUED);
		return true;
	}
	if (nr_llcs() > 1 && ns_since(c->l->counted_ns, c->now) > (s64)FAIR_COUNT_NS)
		fair_count(c->l, cpu, c->now);
	return nr_llcs() > 1 && ns_since(c->l->balanced_ns, c->now) > (s64)FAIR_BALANCE_NS &&
	       fair_balance(lane, c->l, c->llc, c->now);
}

/* No task wants this CPU under its own cache. */
static __always_inline bool fair_picks_elsewhere(struct lane *lane, const struct fair_choice *c)
{
	if (nr_llcs() == 1 || !take_elsewhere(lane, c->llc))
		return false;
	lane_count(lane, FAIR_COUNTER_STOLEN);
	return true;
}

#endif
