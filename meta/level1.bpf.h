/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Level 1, the side of the tasks: through which lane they come, and what they run.
 *
 * While one lane is in force, nothing drains and its policy keeps nothing per
 * task, none of this runs: the callbacks test one word and call the policy. The
 * rest of the time tasks are watched: a task's lane is cached when it is
 * enqueued, and what it runs is measured.
 *
 * A task that was queued before watching began has no valid cache. It came
 * through the lane that was in force then, the predecessor; that lane's queues
 * are served until they are empty, so nothing is lost, and what such a task runs
 * is charged to that lane.
 */
#ifndef METASCHED_LEVEL1_BPF_H
#define METASCHED_LEVEL1_BPF_H

#include <kcalls.bpf.h>
#include <in_service.bpf.h>
#include <services.bpf.h>
#include <ends.bpf.h>
#include <user.bpf.h>
#include <apps.bpf.h>
#include <kthreads.bpf.h>
#include <waits.bpf.h>

/*
 * A kernel thread that is bound to its CPU serves that CPU, whatever lane's
 * tasks run there: level 1 dispatches it itself. With lanes side by side that goes
 * for all kernel threads: they serve all lanes, and on the default one they would
 * starve beside a heavy one. RCU did, for half a minute, with weights of 100 and 8895.
 * They come through no lane, and nobody is charged for them.
 */
static __always_inline bool is_level1s(struct task_struct *p, u32 root)
{
	return p->flags & PF_KTHREAD && (p->nr_cpus_allowed == 1 || root & ROOT_LANES);
}

/* The lane through which a running task came, or NULL if that lane is gone. */
static __always_inline struct meta_lane *lane_of(struct task_ctx *t, u32 root)
{
	struct meta_lane *l;
	u64 dsq;

	/* Also where the task remembers another, which may be resting meanwhile. */
	if (!(root & ROOT_SHARED))
		return lane_at(root);
	if (t) {
		l = lane_if_current(t->slot, t->generation);
		if (l)
			return l;
	}
	dsq = READ_ONCE(predecessor);
	return lane_if_current((u32)(dsq >> DSQ_SLOT_SHIFT), dsq >> LANE_DSQ_BITS);
}

/* The policy of the task's lane hears that it wants to run, once. */
static __always_inline void tell_runnable(struct meta_lane *l, struct task_struct *p,
					  struct task_ctx *t, u64 enq_flags)
{
	if (!is_used(USES_RUNNABLE) || t->runnable)
		return;
	t->runnable = 1;
	policy_runnable(&l->lane, p, &t->policy, enq_flags);
}

/* The policy of the task's lane hears that it does not want to run any more, once. */
static __noinline void tell_quiescent(struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *t = task_ctx_find(p);
	struct meta_lane *l = t && t->runnable ? lane_if_current(t->slot, t->generation) : NULL;

	if (!l)
		return;
	t->runnable = 0;
	policy_quiescent(&l->lane, p, &t->policy, deq_flags);
}

/* Makes @l the lane of the task; its policy meets it if it is new there. */
static __always_inline void lane_join(struct meta_lane *l, struct task_struct *p,
				      struct task_ctx *t)
{
	if (t->generation == l->lane.generation && t->slot == l->lane.slot)
		return;
	if (is_used(USES_RUNNABLE))
		tell_quiescent(p, 0);
	t->runnable = 0;
	tell_user_if_left(lane_if_current(t->slot, t->generation), p);
	t->slot = l->lane.slot;
	t->generation = l->lane.generation;
	if (policy_has_task_state(l->lane.policy) && t->policy_of != l->lane.policy + 1)
		task_changes_policy(t, l->lane.policy);
	policy_join(&l->lane, p, &t->policy);
}

/* See sched.bpf.h. */
__attribute__((unused)) static struct lane_task *lane_task(struct lane *lane, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_make(p);

	if (!t)
		return NULL;
	lane_join(lane_at(lane->slot), p, t);
	return &t->policy;
}

/* The cgroup that the task is directly in, as far as it is known. */
static __always_inline struct group *group_of(struct task_struct *p, struct task_ctx *t)
{
	task_placed(p, t);
	return group_at(t->group);
}

/* See sched.bpf.h. */
__attribute__((unused)) static struct lane_task *lane_kept(struct lane *lane, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_find(p);

	if (!t || t->generation != lane->generation || t->slot != lane->slot)
		return NULL;
	return &t->policy;
}

/* See sched.bpf.h. */
__attribute__((unused)) static struct lane_group *lane_group(struct lane *lane,
							     struct task_struct *p)
{
	struct task_ctx *t = task_ctx_make(p);

	if (!t)
		return NULL;
	task_placed(p, t);
	return group_for(lane, t->group);
}

/* See sched.bpf.h. In line, since a call of it would be one more than the kernel grants. */
__attribute__((unused)) static __always_inline struct lane_group *
lane_group_above(struct lane *lane, struct lane_group *group)
{
	struct cgroup_node *n = cgroup_node_at(group->place);

	if (!group->place || lane_ends_at(n))
		return NULL;
	return group_for(lane, n->parent);
}

/* See sched.bpf.h. */
__attribute__((unused)) static struct lane_group *lane_group_find(struct lane *lane, u32 place,
								  u64 serial)
{
	struct group *g = group_at(place);
	struct group_of *of = g ? group_known(g, lane) : NULL;

	return of && of->lane.serial == serial ? &of->lane : NULL;
}

/* See sched.bpf.h. */
__attribute__((unused)) static u64 lane_group_weight(struct lane *lane, struct lane_group *group)
{
	return cgroup_weight_left(group->place);
}

/*
 * The first task that is queued in a new lane comes before everybody's, unless its account is
 * in debt, and a CPU chooses anew for it: one run of another lane's task is cut short, so that
 * the change takes effect now and not when some slice ends. Two CPUs may both be first; then
 * two choose.
 */
static __always_inline void announce_first(struct meta_lane *l, struct task_struct *p)
{
	if (likely(l->first_queued))
		return;
	l->first_queued = 1;
	if (!account_in_debt(account_at(l->account)))
		__sync_fetch_and_or(&busy.urgent, account_bit(l->account));
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

/*
 * CPUs that a task which wakes may look at for one to take away: its own, and those
 * after it. More of them cost more for each wake-up where all CPUs are busy.
 */
#define PREEMPT_LOOKS 8

/*
 * What the task that runs on a CPU has run in all up to now, more or less: the kernel's own
 * books are up to a tick behind, and leave out what interrupts took. Of one that started while
 * nobody else had work that is not known, and far too much until its next tick.
 */
static __always_inline u64 running_until(struct cpu_ctx *there, u64 now)
{
	return there->ran_from_ns + (now - there->since_ns);
}

/*
 * What the runs on a CPU add up to before their lane is charged: two atomics, on lines
 * that all CPUs share, for each 100 us and not for each run, of which there may be a
 * hundred thousand a second. So an account's vtime is behind by 100 us at most for each
 * CPU that runs its tasks, one twentieth of SHARED_SLICE_NS.
 */
#define CHARGE_NS (100ULL * 1000)

/*
 * Charges the lane whose tasks this CPU ran last with what is not charged yet; if that is
 * less than nothing, what was charged too much is forgotten.
 */
__weak __noinline int charge_rest(struct cpu_ctx *cpu __arg_nonnull)
{
	struct meta_lane *l = lane_if_current((u32)cpu->slot, cpu->generation);

	if (l && (s64)cpu->uncharged_ns > 0)
		lane_charge(l, cpu->uncharged_ns);
	cpu->uncharged_ns = 0;
	return 0;
}

/* Charges what the task of this CPU has run up to there; less if the CPU's look charged more. */
static __always_inline void charge_until(struct cpu_ctx *cpu, u64 ran_until_ns)
{
	cpu->uncharged_ns += ran_until_ns - cpu->charged_from_ns;
	cpu->charged_from_ns = ran_until_ns;
	if ((s64)cpu->uncharged_ns >= (s64)CHARGE_NS)
		charge_rest(cpu);
}

/* Charges what the task of this CPU has run up to now, where that is known: see running_until(). */
static __always_inline void charge_so_far(struct cpu_ctx *cpu, u64 now)
{
	if (cpu->since_ns)
		charge_until(cpu, running_until(cpu, now));
}

/*
 * Whether a CPU runs for another account, which this one lags behind by enough. What that CPU's task runs
 * at this moment is counted as well: it is charged only when it stops, at a choice, or when
 * the CPU looks. A lane that drains was there first and is not disturbed.
 */
static __always_inline bool lags_behind(u32 number, struct cpu_ctx *there, u64 now)
{
	struct meta_lane *runs;
	u64 runs_for;

	if (!there->task)
		return false;
	runs = lane_if_current((u32)there->slot, there->generation);
	if (!runs || runs->state == LANE_DRAINING || runs->account == number)
		return false;
	/* Clocks of two CPUs may differ a little, and it may have stopped since. */
	runs_for = running_until(there, now) - there->charged_from_ns;
	if (runs_for > SHARED_SLICE_NS)
		runs_for = (s64)runs_for < 0 ? 0 : SHARED_SLICE_NS;
	return vtime_before(account_vtime_elsewhere(number, there) + WAKE_LAG_NS,
			    account_vtime_elsewhere(runs->account, there) +
				    account_vtime_ns(account_at(runs->account), runs_for));
}

/*
 * Whether a task that woke is left to this CPU: its waker runs here for the same account and
 * is about to sleep. To preempt another CPU for it would gain nothing: the two tasks would run side by
 * side, each for as long as the other's answer takes. An account of two such tasks never makes up
 * for its lag.
 */
static __always_inline bool is_left_to_waker(u32 account, struct task_struct *p,
					     struct task_ctx *t, struct cpu_ctx *here)
{
	struct meta_lane *l;

	if (!t || !t->woken_sync)
		return false;
	t->woken_sync = 0;
	l = lane_if_current((u32)here->slot, here->generation);
	return l && l->account == account &&
	       bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr);
}

/* A CPU is to choose anew, for an account that lags behind the one that it serves. */
static __always_inline void choose_anew(s32 cpu, struct cpu_ctx *there, u32 account)
{
	account_at(account)->kicks++;
	ends_run(there);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * A task woke and was queued: a CPU on which it may run, and which runs for an account that
 * its own lags behind, chooses anew. The one on which it ran last comes first.
 */
static __noinline void preempt_if_lagging(u32 account, struct task_struct *p, struct task_ctx *t)
{
	s32 cpu, last = scx_bpf_task_cpu(p);
	struct cpu_ctx *there, *here = cpu_ctx_here();
	u64 now = scx_bpf_now();
	u32 i;

	if (here && here->task) {
		if (is_left_to_waker(account, p, t, here))
			return;
		/* It may run for the same account, which so lags by less. */
		charge_so_far(here, now);
	}
	bpf_for(i, 0, PREEMPT_LOOKS) {
		if (i >= nr_cpus())
			break;
		cpu = cpu_after(last, i);
		there = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? cpu_ctx_of(cpu) : NULL;
		if (there && lags_behind(account, there, now)) {
			there->preempted = 1;
			choose_anew(cpu, there, account);
			break;
		}
	}
}

/* Enqueues while tasks are watched. */
static __noinline void enqueue_watched(struct task_struct *p, u32 root, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_make(p);
	struct meta_lane *l = t ? lane_for(p, t, root) : lane_at(root);
	struct lane_task *spare;
	struct cpu_ctx *cpu;

	if (root & ROOT_LANES) {
		account_arrival(l->account);
		if (likely(t))
			cgroup_arrival(p, t);
	}
	if (likely(t)) {
		t->ended = 0;
		if (root & ROOT_SHARED)
			wait_begins(p, t);
		lane_join(l, p, t);
		tell_runnable(l, p, t, enq_flags);
		if (policy_has_user_half(l->lane.policy))
			t->ticket = 0;
		/* In line, which saves a call. */
		if (policy_keeps_tasks(l->lane.policy))
			policy_enqueue_task(&l->lane, p, &t->policy, enq_flags);
		else
			policy_enqueue(&l->lane, p, enq_flags);
		/* For a task that is not ready nobody gives way: see task_is_ready(). */
		if (policy_has_user_half(l->lane.policy) && t->ticket)
			return;
	} else {
		/* Without memory the task is a newcomer to the root lane every time. */
		cpu = cpu_ctx_here();
		if (!cpu)
			return;
		spare = &cpu->spare;
		__builtin_memset(spare, 0, sizeof(*spare));
		policy_join(&l->lane, p, spare);
		policy_enqueue_task(&l->lane, p, spare, enq_flags);
		/* It is forgotten: what it weighs must not stay. */
		if (is_used(USES_RUNNABLE))
			policy_quiescent(&l->lane, p, spare, 0);
	}
	announce_first(l, p);
	if (enq_flags & SCX_ENQ_WAKEUP && several(accounts_with_work(root)))
		preempt_if_lagging(l->account, p, t);
}

/*
 * A task wakes while several lanes are served: it may go straight to an idle CPU
 * and never be enqueued, and still it comes through its lane, which is returned.
 */
static __noinline struct meta_lane *lane_waking(struct task_struct *p, u32 root, u64 wake_flags)
{
	struct task_ctx *t = task_ctx_make(p);
	struct meta_lane *l;

	if (!t)
		return lane_at(root);
	t->woken_sync = !!(wake_flags & SCX_WAKE_SYNC);
	l = lane_for(p, t, root);
	lane_join(l, p, t);
	return l;
}

/*
 * The first task that runs after coming through a lane says when. Two CPUs may
 * both be first; the exchange keeps one of the two times.
 */
static __always_inline void stamp_first_run(struct meta_lane *l, struct task_ctx *t)
{
	if (likely(l->first_run_ns) || !t || t->generation != l->lane.generation)
		return;
	__sync_val_compare_and_swap(&l->first_run_ns, 0, bpf_ktime_get_ns());
}

/*
 * While others have work, none may keep a CPU for long. Returns the slice: one that is set as a task
 * starts to run the kernel may write only when that callback is over.
 */
static __always_inline u64 cap_slice(struct task_struct *p, bool others)
{
	u64 slice_ns = p->scx.slice;

	if (slice_ns <= SHARED_SLICE_NS || !(others || kthreads_queued()))
		return slice_ns;
	scx_bpf_task_set_slice(p, SHARED_SLICE_NS);
	return SHARED_SLICE_NS;
}

/* The CPU runs that task, for that lane, from now on. */
static __always_inline void cpu_runs(struct cpu_ctx *cpu, struct task_struct *p,
				     struct meta_lane *l, bool others, u64 slice_ns)
{
	if (cpu->uncharged_ns &&
	    (cpu->slot != l->lane.slot || cpu->generation != l->lane.generation))
		charge_rest(cpu);
	run_in_service(cpu, l->account, others);
	cpu->task = (u64)(unsigned long)p;
	cpu->episode = watch_episode;
	cpu->slot = l->lane.slot;
	cpu->generation = l->lane.generation;
	cpu->ran_from_ns = p->se.sum_exec_runtime;
	cpu->granted_ns = slice_ns;
	cpu->charged_from_ns = cpu->ran_from_ns;
	if (all_uses() & USES_ANSWER)
		cpu->kicked = 0;
	if (all_uses() & USES_GROUPS)
		cpu->group_from_ns = cpu->ran_from_ns;
	/* Reading the clock is a tenth of what is done here, and nobody else asks when it began. */
	cpu->since_ns = others ? scx_bpf_now() : 0;
	cpu->wait_from_ns = NO_WAIT;
	cpu->kthread_chosen = 0;
}

/*
 * The CPU runs a task while others have work, from now on or at a tick: it looks from now on if somebody
 * waits, unless it does. Only that CPU can begin to; where another one lets the task run on, its
 * tick does.
 */
static __always_inline void look_if_somebody_waits(struct cpu_ctx *cpu, struct task_struct *p,
						   u32 own)
{
	s32 here = bpf_get_smp_processor_id();

	if (!cpu->since_ns)
		cpu->since_ns = scx_bpf_now() - (p->se.sum_exec_runtime - cpu->ran_from_ns);
	if (!cpu->looks && scx_bpf_task_cpu(p) == here && somebody_waits(own))
		cpu->looks = look_timer_start(here);
}

/*
 * A task starts to run. Level 1 has not chosen it here: so it gave way to another scheduling class,
 * and goes on with the rest of its slice. If its lane was replaced meanwhile, the kick that was to
 * end that slice found the other class, and had no effect.
 */
static __always_inline void end_resumed(struct meta_lane *l, struct cpu_ctx *cpu,
					struct task_struct *p, struct task_ctx *t)
{
	if (unlikely(l->state == LANE_DRAINING) && !cpu->chosen && t)
		end_at_start(p, t);
}

/*
 * A task that gave way to another scheduling class comes back with the slice that it had, maybe after its
 * lane has gone: then nobody is left to end one that is infinite.
 */
static __always_inline void end_lost_slice(struct task_struct *p)
{
	if (all_uses() & USES_INFINITE && unlikely(p->scx.slice == SCX_SLICE_INF))
		scx_bpf_task_set_slice(p, SHARED_SLICE_NS);
}

static __noinline void running_watched(struct task_struct *p, u32 root)
{
	struct task_ctx *t = task_ctx_find(p);
	struct meta_lane *l = lane_of(t, root);
	struct cpu_ctx *cpu = cpu_ctx_of_task(p);
	u64 slice_ns;
	bool others;

	if (!cpu)
		return;
	cpu->task = 0;
	cpu->tickless = 0;
	if (all_uses() & USES_ENDS)
		cpu->end_ns = 0;
	if (t && unlikely(t->waits_in))
		cgroup_waits_no_more(p, t);
	if (!l)
		end_lost_slice(p);
	if (!l || is_level1s(p, root))
		return;
	others = root & ROOT_SHARED && others_have_work(l, root);
	if (root & ROOT_SHARED)
		stamp_first_run(l, t);
	if (policy_keeps_tasks(l->lane.policy)) {
		/* Dispatched directly, or queued before tasks were watched. */
		if (!t)
			t = task_ctx_make(p);
		if (t) {
			lane_join(l, p, t);
			tell_runnable(l, p, t, 0);
			policy_running(&l->lane, p, &t->policy);
		}
	}
	/* After the policy, which may grant another slice. */
	slice_ns = p->scx.slice;
	if (root & ROOT_SHARED) {
		slice_ns = cap_slice(p, others);
		end_resumed(l, cpu, p, t);
	}
	cpu_runs(cpu, p, l, others, slice_ns);
	cpu->tickless = slice_ns == SCX_SLICE_INF;
	if (unlikely(task_rests(p)) && t) {
		nobody_rests();
		ends_run(cpu);
		end_at_start(p, t);
	}
	if (unlikely(others) && root & ROOT_LANES)
		look_if_somebody_waits(cpu, p, l->account);
	if (root & ROOT_SHARED && t && t->generation == l->lane.generation)
		wait_ends(cpu, p, t);
}

/*
 * The lane to charge for what runs on this CPU, or NULL if that is unknown: the
 * task started before watching began, or its lane is gone.
 */
static __always_inline struct meta_lane *lane_running(struct cpu_ctx *cpu, struct task_struct *p)
{
	if (cpu->task != (u64)(unsigned long)p || cpu->episode != watch_episode)
		return NULL;
	return lane_if_current((u32)cpu->slot, cpu->generation);
}

/* The slice of a task of that lane beside which nobody wants its CPU; @else_ns unless it is infinite. */
static __always_inline u64 slice_alone(struct meta_lane *l, u64 else_ns)
{
	return is_used(USES_INFINITE) && l && policy_is_infinite(l->lane.policy) ? SCX_SLICE_INF :
										   else_ns;
}

/* The run of the task that runs here, as far as it has come. */
static __always_inline struct lane_run run_of(struct cpu_ctx *here, struct task_struct *p,
					      bool runnable)
{
	return (struct lane_run){
		.ran_ns = p->se.sum_exec_runtime - here->ran_from_ns,
		.granted_ns = here->granted_ns,
		.runnable = runnable,
	};
}

/*
 * A task that goes on running is enqueued nowhere. If it has another lane by now it
 * changes over here, and to policies it stops in the one and starts to run in the other; the
 * lane that it runs for, or NULL if that is unknown.
 */
static __noinline struct meta_lane *change_lane(struct meta_lane *l, struct cpu_ctx *cpu,
						struct task_struct *p, u32 root)
{
	struct task_ctx *t = task_ctx_make(p);
	struct meta_lane *before = l;
	struct lane_run run;

	if (!t)
		return l;
	l = lane_for(p, t, root);
	if (likely(l == before))
		return l;
	if (before && policy_keeps_tasks(before->lane.policy) &&
	    t->generation == before->lane.generation) {
		run = run_of(cpu, p, true);
		policy_stopping(&before->lane, p, &t->policy, &run);
	}
	lane_join(l, p, t);
	tell_runnable(l, p, t, 0);
	cpu_runs(cpu, p, l, others_have_work(l, root), p->scx.slice);
	if (policy_keeps_tasks(l->lane.policy))
		policy_running(&l->lane, p, &t->policy);
	return l;
}

/* Counts for its cgroup what the task of this CPU has run since the last time. */
static __noinline void charge_group(struct cpu_ctx *cpu, struct task_struct *p)
{
	struct task_ctx *t = task_ctx_find(p);
	u64 ran_ns = p->se.sum_exec_runtime;
	struct group *g = t ? group_of(p, t) : NULL;

	if (g)
		group_ran(g, ran_ns - cpu->group_from_ns);
	cpu->group_from_ns = ran_ns;
}

/* Charges what @p, whose lane lane_running() found, has run on this CPU since the last time. */
static __always_inline void charge_running(struct meta_lane *l, struct cpu_ctx *cpu,
					   struct task_struct *p)
{
	charge_until(cpu, p->se.sum_exec_runtime);
	wait_count(l, cpu, p);
}

/*
 * The tick of a CPU, which finds what began before others had work: a slice that was
 * long because its account was alone. The account that runs here has work, though no task is queued.
 */
static __noinline void tick_shared(struct task_struct *p, u32 root)
{
	struct cpu_ctx *cpu = cpu_ctx_here();
	struct meta_lane *l = cpu ? lane_running(cpu, p) : NULL;
	bool others = l && others_have_work(l, root);
	struct task_ctx *t;

	if (!cpu)
		return;
	if (l) {
		account_arrival(l->account);
		if (others)
			look_if_somebody_waits(cpu, p, l->account);
		t = task_ctx_find(p);
		if (t)
			cgroup_runs(t->watched);
	}
	if (p->scx.slice <= SHARED_SLICE_NS)
		return;
	/* In the local queue is a kernel thread that is bound to this CPU. */
	if (others || kthreads_queued() ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		grant_slice(cpu, p, SHARED_SLICE_NS);
}

static __noinline void stopping_watched(struct task_struct *p, u32 root, bool runnable)
{
	struct cpu_ctx *cpu = cpu_ctx_of_task(p);
	struct lane_run run;
	struct meta_lane *l;
	struct task_ctx *t;

	if (!cpu)
		return;
	l = lane_running(cpu, p);
	if (l) {
		if (root & ROOT_SHARED)
			charge_running(l, cpu, p);
		if (is_used(USES_GROUPS))
			charge_group(cpu, p);
		if (policy_has_user_half(l->lane.policy) && !runnable && p->flags & PF_EXITING)
			user_tell_left(l, p);
		if (policy_keeps_tasks(l->lane.policy)) {
			t = task_ctx_find(p);
			if (t && t->generation == l->lane.generation) {
				run = run_of(cpu, p, runnable);
				policy_stopping(&l->lane, p, &t->policy, &run);
			}
		}
	}
	cpu->task = 0;
	cpu->chosen = 0;
}

/* What runs here counts for its cgroup, of which a policy keeps something. */
static __noinline void tick_group(struct task_struct *p)
{
	struct cpu_ctx *cpu = cpu_ctx_here();

	if (cpu && lane_running(cpu, p))
		charge_group(cpu, p);
}

/* The policy of the lane that runs here asks to be told of ticks. */
static __noinline void tick_policy(struct task_struct *p)
{
	struct cpu_ctx *cpu = cpu_ctx_here();
	struct meta_lane *l = cpu ? lane_running(cpu, p) : NULL;
	struct lane_run run;
	struct task_ctx *t;

	if (!l)
		return;
	t = task_ctx_find(p);
	if (!t || t->generation != l->lane.generation)
		return;
	run = run_of(cpu, p, true);
	policy_tick(&l->lane, p, &t->policy, &run);
}

/* A task wants to run: it comes to its lane, before it is queued there. */
static __noinline void runnable_watched(struct task_struct *p, u32 root, u64 enq_flags)
{
	struct task_ctx *t = task_ctx_make(p);
	struct meta_lane *l;

	if (!t)
		return;
	l = lane_for(p, t, root);
	lane_join(l, p, t);
	tell_runnable(l, p, t, enq_flags);
}

#endif
