/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rusty: a domain for each last-level cache, and load that is balanced between them.
 *
 * The tasks of a domain share its CPUs by weighted virtual time, from one queue. A task that wakes stays in
 * its domain while that has an idle CPU: a whole core first; then an idle CPU elsewhere, if that
 * domain has time. A CPU with nothing to do takes from other domains. Now and then the loads of
 * domains are compared: what has much more than its CPUs' part passes tasks to what has less, half of
 * the difference at a time, and between nodes only if the difference is large. Load is weight times the
 * part of the time that tasks want to run.
 *
 * It helps on machines with several caches, where tasks profit from those that they have filled. It
 * hurts where caches do not matter and one queue for all would have everybody served at once.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <rescue.bpf.h>
#include <weighted.bpf.h>
#include <ravg.bpf.h>
#include "options.h"

enum { rusty_options(OPTION_INDEX) };
enum { rusty_counters(COUNTER_INDEX) };

/* How often averages of domains are brought up to date. */
#define RUSTY_TUNE_NS (100ULL * 1000 * 1000)
/* Domains that differ from the mean by less are left alone: in parts of 100. */
#define RUSTY_IMBALANCE 5
#define RUSTY_IMBALANCE_NODES 17
struct rusty_lane {
	u64 balanced_ns;
	u64 tuned_ns;
	u64 mean; /* load for each CPU, in RAVG_ONE */
	u32 weight_most; /* what a task can use of its weight: no task runs on more than one CPU */
	u32 cpus; /* that take tasks */
	u32 idled; /* a CPU has found nothing to do since the last look */
	u32 overutil; /* each of its CPUs is busy all the time */
};

struct rusty_task {
	u64 vtime; /* ns at WEIGHT_DFL */
	u64 since_ns; /* up to when its domain has what it wanted to run */
	u64 duty; /* the part of the time that it wants to run, in RAVG_ONE */
	u64 duty_ns; /* as of then */
	u32 domain;
	u32 runnable;
	u64 queued_ns; /* since when it waits */
};

/* Sums only grow, by any CPU; averages are the timer's, but for what tasks take along. */
struct rusty_llc {
	u64 vtime_now; /* the highest vtime of a task that started to run */
	u64 wanted; /* weight times ns that its tasks wanted to run */
	u64 ran_ns; /* that its CPUs have run */
	u64 load; /* the mean weight that wanted to run, in RAVG_ONE */
	u64 push; /* so much of it is to go to another domain */
	u64 coming; /* what others were told to pass on to this one */
	u64 wanted_then; /* as of the last look */
	u32 ran_then_us; /* the same, of ran_ns */
	u32 first; /* one of its CPUs, which takes tasks if any does */
	u16 to; /* the other domain */
	u16 members; /* all of its CPUs */
	u16 cpus; /* those that take tasks */
	u16 busy; /* per cent */
};

struct rusty_cpu {
	u32 runs; /* a task of the lane */
	u32 next; /* the next CPU of its domain, round and round */
	u64 counted_ns; /* of the run: its domain has so much of it */
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
};

static __always_inline struct rusty_lane *rusty_state(struct lane *lane)
{
	return STATE_OF(lane, struct rusty_lane);
}

static __always_inline struct rusty_llc *rusty_llc_at(struct lane *lane, u32 llc)
{
	struct llc_state *s = lane_llc(lane, llc);

	return s ? STATE_OF(s, struct rusty_llc) : NULL;
}

static __always_inline struct rusty_cpu *rusty_cpu_at(struct lane *lane, u32 cpu)
{
	struct cpu_state *s = lane_cpu(lane, cpu);

	return s ? STATE_OF(s, struct rusty_cpu) : NULL;
}

static __always_inline u64 rusty_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* What the task counts for while it wants to run. */
static __always_inline u64 rusty_weight(struct lane *lane, struct task_struct *p)
{
	return rusty_min(task_weight(p), rusty_state(lane)->weight_most);
}

/* What a task may run before the next one's turn. */
static __always_inline u64 rusty_slice(struct lane *lane)
{
	return rusty_state(lane)->overutil ? lane->options[rusty_option_slice_overutil_ns] :
					     lane->options[rusty_option_slice_ns];
}

/* Counts the CPUs that take tasks: a domain's part of the load is that of these CPUs. */
__weak __noinline int rusty_count_cpus(struct lane *lane __arg_nonnull)
{
	struct rusty_llc *l;
	u32 i, all = 0;

	bpf_for(i, 0, nr_llcs()) {
		l = rusty_llc_at(lane, i);
		if (l)
			l->cpus = 0;
	}
	bpf_for(i, 0, nr_cpus()) {
		l = cpu_possible(i) && cpu_takes_tasks(i) ? rusty_llc_at(lane, cpu_llc(i)) : NULL;
		if (!l)
			continue;
		if (!l->cpus)
			l->first = i;
		l->cpus++;
		all++;
	}
	rusty_state(lane)->cpus = all;
	return 0;
}

/* Whether the lane runs on each CPU, and none of them has had nothing to do since the last time. */
__weak __noinline bool rusty_is_everywhere(struct lane *lane __arg_nonnull)
{
	struct rusty_cpu *c;
	u32 cpu;

	if (__sync_lock_test_and_set(&rusty_state(lane)->idled, 0))
		return false;
	bpf_for(cpu, 0, nr_cpus()) {
		c = cpu_possible(cpu) && cpu_takes_tasks(cpu) ? rusty_cpu_at(lane, cpu) : NULL;
		if (c && !c->runs)
			return false;
	}
	return true;
}

static void rusty_start(struct lane *lane)
{
	struct rusty_lane *state = rusty_state(lane);
	struct rusty_cpu *c, *first;
	struct rusty_llc *l;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus()) {
		l = cpu_possible(cpu) ? rusty_llc_at(lane, cpu_llc(cpu)) : NULL;
		c = rusty_cpu_at(lane, cpu);
		if (!l || !c)
			continue;
		if (!l->members)
			l->first = cpu;
		first = rusty_cpu_at(lane, l->first);
		c->next = l->members && first ? first->next : cpu;
		if (first)
			first->next = cpu;
		l->members++;
	}
	rusty_count_cpus(lane);
	state->weight_most = ~0U;
	state->tuned_ns = scx_bpf_now();
	state->balanced_ns = state->tuned_ns;
	lane_timer_set(lane, RUSTY_TUNE_NS);
}

/* The domain has what the task wanted to run up to now. */
static __always_inline void rusty_count(struct lane *lane, struct task_struct *p,
					struct rusty_task *task, u64 now)
{
	struct rusty_llc *l = rusty_llc_at(lane, task->domain);
	s64 for_ns = now - task->since_ns;

	/* Clocks of two CPUs may differ a little. */
	if (l && task->runnable && for_ns > 0)
		__sync_fetch_and_add(&l->wanted, (u64)for_ns * rusty_weight(lane, p));
	task->since_ns = now;
}

/* The domain of a CPU has what a run there has taken up to now. */
static __always_inline void rusty_count_run(struct lane *lane, s32 cpu, u64 ran_ns)
{
	struct rusty_llc *l = rusty_llc_at(lane, cpu_llc(cpu));
	struct rusty_cpu *here = rusty_cpu_at(lane, cpu);

	if (!l || !here)
		return;
	__sync_fetch_and_add(&l->ran_ns, ran_ns - here->counted_ns);
	here->counted_ns = ran_ns;
}

/* The task's duty, up to now; it wanted to run, or not, since the last time. */
static __always_inline void rusty_duty(struct lane *lane, struct rusty_task *task, u64 now)
{
	s64 for_ns = now - task->duty_ns;

	if (for_ns > 0)
		task->duty = ravg_after(task->duty, task->runnable ? RAVG_ONE : 0, for_ns,
					lane->options[rusty_option_load_half_life_ns]);
	task->duty_ns = now;
}

/* A newcomer stands where its domain stands: neither credit nor debt. */
static void rusty_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	struct rusty_llc *l;

	__builtin_memset(task, 0, sizeof(*task));
	task->domain = cpu_llc(scx_bpf_task_cpu(p));
	task->duty_ns = scx_bpf_now();
	l = rusty_llc_at(lane, task->domain);
	if (l)
		task->vtime = l->vtime_now;
}

static void rusty_runnable(struct lane *lane, struct task_struct *p, struct lane_task *t,
			   u64 enq_flags)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	u64 now = scx_bpf_now();

	rusty_duty(lane, task, now);
	task->runnable = 1;
	task->since_ns = now;
}

static void rusty_quiescent(struct lane *lane, struct task_struct *p, struct lane_task *t,
			    u64 deq_flags)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	u64 now = scx_bpf_now();

	rusty_count(lane, p, task, now);
	rusty_duty(lane, task, now);
	task->runnable = 0;
}

/* Whether the lane runs something on the other CPU of that core. */
static __always_inline bool rusty_core_runs(struct lane *lane, u32 cpu)
{
	struct rusty_cpu *c = rusty_cpu_at(lane, cpu_sibling(cpu));

	return cpu_sibling(cpu) != cpu && c && c->runs;
}

static __always_inline bool rusty_claim(struct task_struct *p, u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Claims an idle CPU of the domain for a task; negative if there is none. */
__weak __noinline int rusty_claim_any(struct lane *lane __arg_nonnull,
				      struct task_struct *p __arg_trusted, u32 domain, u32 from,
				      bool whole_core)
{
	struct rusty_llc *l = rusty_llc_at(lane, domain);
	struct rusty_cpu *c;
	u32 i, cpu = from;

	if (!l)
		return -1;
	bpf_for(i, 0, l->members) {
		c = rusty_cpu_at(lane, cpu);
		if (!c)
			break;
		if (!(whole_core && rusty_core_runs(lane, cpu)) && rusty_claim(p, cpu))
			return cpu;
		cpu = c->next;
	}
	return -1;
}

/* Claims an idle CPU of the task's domain: its last one, or any, of a whole core if there is one. */
static __always_inline s32 rusty_claim_own(struct lane *lane, struct task_struct *p,
					   const struct rusty_task *task, u32 prev_cpu)
{
	struct rusty_llc *l = rusty_llc_at(lane, task->domain);
	bool here = cpu_llc(prev_cpu) == task->domain;
	u32 from;
	s32 cpu;

	if (!l || !l->members)
		return -1;
	from = here ? prev_cpu : l->first;
	cpu = rusty_claim_any(lane, p, task->domain, from, true);
	if (cpu >= 0) {
		lane_count(lane, rusty_counter_core);
		return cpu;
	}
	if (cpu_sibling(from) == from)
		return -1;
	cpu = rusty_claim_any(lane, p, task->domain, from, false);
	if (cpu >= 0)
		lane_count(lane, rusty_counter_idle);
	return cpu;
}

/* Whether an idle CPU of that domain may be taken for tasks of others. */
static __always_inline bool rusty_has_time(struct lane *lane, u32 domain)
{
	struct rusty_llc *l = rusty_llc_at(lane, domain);

	return l && l->busy < lane->options[rusty_option_direct_greedy_under];
}

static s32 rusty_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct lane_task *t = lane_task(lane, p);
	u64 slice_ns = rusty_slice(lane);
	bool claimed = false;
	s32 cpu;

	if (!t)
		return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags, slice_ns, &claimed);
	cpu = rusty_claim_own(lane, p, STATE_OF(t, struct rusty_task), prev_cpu);
	if (cpu < 0) {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &claimed);
		if (!claimed)
			return cpu;
		if (!rusty_has_time(lane, cpu_llc(cpu))) {
			/* It is idle again as soon as it has looked. */
			lane_kick(lane, cpu, false);
			return prev_cpu;
		}
		lane_count(lane, rusty_counter_foreign);
	}
	lane_insert(lane, p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

/* The task is of another domain from now on, as far behind there as it was here. */
static __always_inline void rusty_move(struct lane *lane, struct task_struct *p,
				       struct rusty_task *task, const struct rusty_llc *from,
				       u32 domain, const struct rusty_llc *to, u64 now)
{
	rusty_count(lane, p, task, now);
	task->vtime += to->vtime_now - from->vtime_now;
	task->domain = domain;
}

/* Whether a CPU of the domain takes tasks. Most often its first one does. */
static __always_inline bool rusty_takes_tasks(const struct rusty_llc *l, u32 domain)
{
	return likely(cpu_takes_tasks(l->first)) || llc_takes_tasks(domain);
}

/* A domain that takes tasks: that of the CPU, or the next one, round and round. */
__weak __noinline u32 rusty_refuge(struct lane *lane __arg_nonnull, u32 cpu)
{
	u32 i, domain;
	struct rusty_llc *l;

	bpf_for(i, 0, nr_llcs()) {
		domain = llc_after(cpu_llc(cpu), i);
		l = rusty_llc_at(lane, domain);
		if (l && rusty_takes_tasks(l, domain))
			return domain;
	}
	return cpu_llc(cpu);
}

/* The task changes over to that domain, whatever the loads are. */
static __always_inline void rusty_change(struct lane *lane, struct task_struct *p,
					 struct rusty_task *task, u32 domain, u64 now)
{
	struct rusty_llc *from = rusty_llc_at(lane, task->domain), *to = rusty_llc_at(lane, domain);

	if (from && to && task->domain != domain)
		rusty_move(lane, p, task, from, domain, to, now);
}

/*
 * The task's domain has too much: the task changes over if that makes both more alike. It takes its load along, so that the next look finds it there.
 */
static __always_inline void rusty_push(struct lane *lane, struct task_struct *p,
				       struct rusty_task *task, struct rusty_llc *from, u64 now)
{
	u64 push = READ_ONCE(from->push), load = task->duty * rusty_weight(lane, p);
	struct rusty_llc *to = rusty_llc_at(lane, from->to);

	/* One of twice the difference would turn it round. */
	if (!to || to == from || !load || load > 3 * push || !rusty_takes_tasks(to, from->to))
		return;
	WRITE_ONCE(from->push, load < push ? push - load : 0);
	__sync_fetch_and_add(&from->load, -rusty_min(load, from->load));
	__sync_fetch_and_add(&to->load, load);
	rusty_move(lane, p, task, from, from->to, to, now);
	lane_count(lane, rusty_counter_balanced);
}

static __always_inline u64 rusty_place(struct lane *lane, struct task_struct *p,
				       const struct rusty_llc *l, u64 vtime)
{
	u64 slice_ns = lane->options[rusty_option_slice_ns];

	return weighted_place(l->vtime_now, vtime, slice_ns, slice_ns, task_weight(p));
}

static void rusty_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  u64 enq_flags)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	struct rusty_llc *l = rusty_llc_at(lane, task->domain);
	u64 now = scx_bpf_now();

	/* In the domain of a task that may not run everywhere there may be no CPU for it. */
	if (task_is_bound(p)) {
		rusty_change(lane, p, task, cpu_llc(scx_bpf_task_cpu(p)), now);
	} else if (l && unlikely(!rusty_takes_tasks(l, task->domain))) {
		rusty_change(lane, p, task, rusty_refuge(lane, scx_bpf_task_cpu(p)), now);
	} else if (l && unlikely(READ_ONCE(l->push))) {
		rusty_duty(lane, task, now);
		rusty_push(lane, p, task, l, now);
	}
	l = rusty_llc_at(lane, task->domain);
	if (!l)
		return;
	task->vtime = rusty_place(lane, p, l, task->vtime);
	task->queued_ns = now;
	lane_count(lane, rusty_counter_queued);
	lane_insert_vtime(lane, p, lane_llc_dsq(lane, task->domain, 0),
			  rusty_slice(lane), task->vtime, enq_flags);
}

/* Takes a task from another domain of this node, or of others, where so many wait. */
__weak __noinline bool rusty_steal(struct lane *lane __arg_nonnull, u32 domain, u32 node, bool same_node,
				   u64 threshold)
{
	u32 i, other;
	struct rusty_llc *l;

	if (!threshold)
		return false;
	bpf_for(i, 1, nr_llcs()) {
		other = llc_after(domain, i);
		l = rusty_llc_at(lane, other);
		if (!l || (cpu_node(l->first) == node) != same_node ||
		    scx_bpf_dsq_nr_queued(lane_llc_dsq(lane, other, 0)) < (s32)threshold ||
		    !lane_move_to_local(lane, lane_llc_dsq(lane, other, 0)))
			continue;
		lane_count(lane, rusty_counter_stolen);
		return true;
	}
	return false;
}

static bool rusty_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			   struct lane_task *t, const struct lane_run *run)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	u32 domain = cpu_llc(cpu), node = cpu_node(cpu);
	u64 dsq = lane_llc_dsq(lane, domain, 0);
	struct rusty_llc *l = rusty_llc_at(lane, domain);
	struct rusty_cpu *here = rusty_cpu_at(lane, cpu);

	if (here && rescue(lane, dsq, STATE_WORD(struct rusty_task, queued_ns), &here->rescue_ns,
			   scx_bpf_now())) {
		lane_count(lane, rusty_counter_rescued);
		return true;
	}
	/* One from elsewhere goes back to its own domain's queue if anybody waits here. */
	if (prev && l && (task->domain == domain || scx_bpf_dsq_nr_queued(dsq) <= 0)) {
		u64 vtime = rusty_place(lane, prev, l, task->vtime +
					weighted_ns(run->ran_ns, task_weight(prev)));

		if (weighted_goes_on(lane, dsq, cpu, vtime, &l->vtime_now)) {
			lane_count(lane, rusty_counter_kept);
			/* One that always goes on is never stopped. */
			rusty_count(lane, prev, task, scx_bpf_now());
			rusty_count_run(lane, cpu, run->ran_ns);
			lane_grant(lane, prev, rusty_slice(lane));
			return true;
		}
	}
	if (lane_move_to_local(lane, dsq))
		return true;
	if (prev)
		return false;
	if (rusty_steal(lane, domain, node, true, lane->options[rusty_option_greedy_threshold]) ||
	    rusty_steal(lane, domain, node, false,
			lane->options[rusty_option_greedy_threshold_x_numa]))
		return true;
	WRITE_ONCE(rusty_state(lane)->idled, 1);
	return false;
}

static void rusty_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	struct rusty_llc *l = rusty_llc_at(lane, task->domain);
	struct rusty_cpu *here = rusty_cpu_at(lane, scx_bpf_task_cpu(p));

	if (l)
		weighted_advance(&l->vtime_now, task->vtime);
	if (!here)
		return;
	here->runs = 1;
	here->counted_ns = 0;
}

static void rusty_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			   const struct lane_run *run)
{
	struct rusty_task *task = STATE_OF(t, struct rusty_task);
	s32 cpu = scx_bpf_task_cpu(p);
	struct rusty_cpu *here = rusty_cpu_at(lane, cpu);

	task->vtime += weighted_ns(run->ran_ns, task_weight(p));
	rusty_count(lane, p, task, scx_bpf_now());
	rusty_count_run(lane, cpu, run->ran_ns);
	if (here)
		here->runs = 0;
}

/* Brings the sizes and averages of all domains up to date, and what a task can use of its weight. */
__weak __noinline int rusty_tune(struct lane *lane __arg_nonnull, u64 for_ns)
{
	struct rusty_lane *state = rusty_state(lane);
	u64 wanted, mean, all = 0;
	u32 domain, ran_us;
	struct rusty_llc *l;

	rusty_count_cpus(lane);
	state->overutil = rusty_is_everywhere(lane);
	bpf_for(domain, 0, nr_llcs()) {
		l = rusty_llc_at(lane, domain);
		if (!l || !l->members)
			continue;
		wanted = READ_ONCE(l->wanted);
		mean = (wanted - l->wanted_then) / (for_ns >> RAVG_BITS);
		l->wanted_then = wanted;
		l->load = ravg_after(l->load, mean, for_ns,
				     lane->options[rusty_option_load_half_life_ns]);
		ran_us = READ_ONCE(l->ran_ns) / 1000;
		l->busy = l->cpus ? (u64)(ran_us - l->ran_then_us) * 1000 * 100 / (for_ns * l->cpus) : 0;
		l->ran_then_us = ran_us;
		all += l->load;
	}
	if (!state->cpus)
		return 0;
	state->mean = all / state->cpus;
	state->weight_most = state->mean >> RAVG_BITS;
	if (state->weight_most < WEIGHT_DFL)
		state->weight_most = WEIGHT_DFL;
	return 0;
}

/* By how many per cent a node has more than its CPUs' part. */
__weak __noinline s64 rusty_node_surplus(struct lane *lane __arg_nonnull, u32 node)
{
	u64 load = 0, part = 0, mean = rusty_state(lane)->mean;
	struct rusty_llc *l;
	u32 domain;

	bpf_for(domain, 0, nr_llcs()) {
		l = rusty_llc_at(lane, domain);
		if (!l || !l->cpus || cpu_node(l->first) != node)
			continue;
		load += l->load;
		part += mean * l->cpus;
	}
	if (!part)
		return 0;
	return load >= part ? (s64)((load - part) * 100 / part) : -(s64)((part - load) * 100 / part);
}

/* What a domain has more than its CPUs' part; nothing if that is within the bounds. */
static __always_inline s64 rusty_surplus(struct lane *lane, const struct rusty_llc *l)
{
	u64 part = rusty_state(lane)->mean * l->cpus, load = l->load;
	u64 bound = part * RUSTY_IMBALANCE / 100;

	if (load > part)
		return load - part > bound ? (s64)(load - part) : 0;
	return part - load > bound ? -(s64)(part - load) : 0;
}

/* Where a domain's surplus is to go: to what lacks most, in its node or in others. */
__weak __noinline int rusty_pair(struct lane *lane __arg_nonnull, u32 domain, bool same_node)
{
	struct rusty_llc *from = rusty_llc_at(lane, domain), *l;
	s64 surplus, lack, most = 0;
	u32 other;

	if (!from || !from->cpus || from->push)
		return 0;
	surplus = rusty_surplus(lane, from);
	if (surplus <= 0 || (!same_node && rusty_node_surplus(lane, cpu_node(from->first)) <=
						   RUSTY_IMBALANCE_NODES))
		return 0;
	bpf_for(other, 0, nr_llcs()) {
		l = rusty_llc_at(lane, other);
		if (!l || !l->cpus || (cpu_node(l->first) == cpu_node(from->first)) != same_node)
			continue;
		lack = -rusty_surplus(lane, l) - (s64)l->coming;
		if (lack <= most ||
		    (!same_node && -rusty_node_surplus(lane, cpu_node(l->first)) <=
					   RUSTY_IMBALANCE_NODES))
			continue;
		most = lack;
		from->to = other;
	}
	l = most > 0 ? rusty_llc_at(lane, from->to) : NULL;
	if (l) {
		from->push = rusty_min(surplus, most) / 2;
		l->coming += from->push;
	}
	return 0;
}

static __always_inline void rusty_balance(struct lane *lane)
{
	struct rusty_llc *l;
	u32 domain;

	/* What could not be pushed since the last time is out of date. */
	bpf_for(domain, 0, nr_llcs()) {
		l = rusty_llc_at(lane, domain);
		if (!l)
			continue;
		l->push = 0;
		l->coming = 0;
	}
	bpf_for(domain, 0, nr_llcs()) {
		rusty_pair(lane, domain, true);
		if (nr_nodes() > 1)
			rusty_pair(lane, domain, false);
	}
}

static void rusty_timer(struct lane *lane)
{
	struct rusty_lane *state = rusty_state(lane);
	u64 now = scx_bpf_now(), for_ns = now - state->tuned_ns;

	lane_timer_set(lane, RUSTY_TUNE_NS);
	if ((s64)for_ns < (s64)(RUSTY_TUNE_NS / 2))
		return;
	state->tuned_ns = now;
	rusty_tune(lane, for_ns);
	if (now - state->balanced_ns < lane->options[rusty_option_interval_ns])
		return;
	state->balanced_ns = now;
	rusty_balance(lane);
}

static const struct policy_ops rusty_ops = {
	.start = rusty_start,
	.select_cpu = rusty_select_cpu,
	.enqueue = rusty_enqueue,
	.dispatch = rusty_dispatch,
	.join = rusty_join,
	.running = rusty_running,
	.stopping = rusty_stopping,
	.runnable = rusty_runnable,
	.quiescent = rusty_quiescent,
	.timer = rusty_timer,
	.llc_queues = 1,
	.task_bytes = sizeof(struct rusty_task),
	.cpu_bytes = sizeof(struct rusty_cpu),
	.llc_bytes = sizeof(struct rusty_llc),
};
