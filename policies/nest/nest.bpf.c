/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nest: tasks stay on few CPUs, which so stay warm.
 *
 * Two sets of CPUs: the primary nest, where tasks are to run, and a small reserve beside it. A task
 * that wakes goes to the CPU that it is attached to, where it ran twice in a row, or to its last
 * one, or to any other, if that is idle and of the primary nest. If none is, it takes an idle CPU of
 * the reserve, which joins the primary nest; else any idle CPU, which joins the reserve. A task for
 * which that happens again and again is impatient: the CPU that it takes joins the primary nest at
 * once. A CPU of the primary nest that has nothing to run for some time leaves it for the reserve,
 * at once if its task ended; until then it may be kept from deep sleep. Where no CPU is idle tasks wait in one queue by weighted virtual time.
 *
 * It helps where a few CPUs are enough for tasks that sleep and wake often: a CPU that was idle for
 * long is slow, by its clock and its caches. It hurts where all CPUs are busy anyway, and where a
 * task's own cache counts for more than a clock.
 */
#include <sched.bpf.h>
#include <idle.bpf.h>
#include <rescue.bpf.h>
#include <weighted.bpf.h>
#include "options.h"

enum { nest_options(OPTION_INDEX) };
enum { nest_counters(COUNTER_INDEX) };

enum { NEST_PRIMARY, NEST_RESERVE, NEST_SETS };

struct nest_lane {
	u64 vtime_now; /* the highest vtime of a task that started to run */
	u32 reserved; /* how many CPUs are in the reserve */
	u32 timed; /* the timer is set */
};

struct nest_task {
	u64 vtime; /* ns at WEIGHT_DFL */
	u32 last; /* the CPU on which it ran last, plus one */
	u32 attached; /* where it ran twice in a row, plus one */
	u32 misses; /* wake-ups that found the primary nest busy, one after the other */
	u32 queued; /* it comes from the queue */
	u64 queued_ns; /* since when it waits there */
};

struct nest_cpu {
	u64 idle_since_ns; /* 0: it runs a task of the lane, or never did */
	u64 runs; /* a task of the lane */
	u64 rescue_ns; /* when it next looks for tasks that wait long, see rescue.bpf.h */
};

static __always_inline struct nest_lane *nest_state(struct lane *lane)
{
	return STATE_OF(lane, struct nest_lane);
}

static __always_inline struct nest_cpu *nest_cpu_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *s = lane_cpu(lane, cpu);

	return s ? STATE_OF(s, struct nest_cpu) : NULL;
}

/* The CPU joins the reserve, if there is room. Two at once may be one too many. */
static __always_inline void nest_reserve(struct lane *lane, u32 cpu)
{
	struct cpus *primary = lane_cpu_set(lane, NEST_PRIMARY);
	struct cpus *reserve = lane_cpu_set(lane, NEST_RESERVE);

	/* One of the primary nest may have become idle since the search there. */
	if (!primary || !reserve || cpus_has(primary, cpu) || cpus_has(reserve, cpu) ||
	    READ_ONCE(nest_state(lane)->reserved) >= lane->options[nest_option_r_max])
		return;
	if (cpus_add(reserve, cpu))
		__sync_fetch_and_add(&nest_state(lane)->reserved, 1);
}

/* The CPU joins the primary nest. */
static __always_inline void nest_promote(struct lane *lane, u32 cpu)
{
	struct cpus *primary = lane_cpu_set(lane, NEST_PRIMARY);
	struct cpus *reserve = lane_cpu_set(lane, NEST_RESERVE);

	if (!primary || !reserve)
		return;
	if (!cpus_has(primary, cpu))
		cpus_add(primary, cpu);
	if (cpus_has(reserve, cpu) && cpus_remove(reserve, cpu))
		__sync_fetch_and_sub(&nest_state(lane)->reserved, 1);
}

/* The CPU leaves the primary nest. */
static __always_inline void nest_demote(struct lane *lane, struct cpus *primary, u32 cpu)
{
	cpus_remove(primary, cpu);
	nest_reserve(lane, cpu);
	lane_count(lane, nest_counter_demoted);
}

/* Claims the CPU for a task if it is in the set, idle, and the task may run there. */
static __always_inline bool nest_claim(struct cpus *set, struct task_struct *p, u32 cpu)
{
	return cpus_has(set, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* Whether the lane runs something on the other CPU of that core. */
static __always_inline bool nest_core_runs(struct lane *lane, u32 cpu)
{
	struct nest_cpu *c = nest_cpu_at(lane, cpu_sibling(cpu));

	return cpu_sibling(cpu) != cpu && c && c->runs;
}

/* Claims an idle CPU of a set for a task, the next one from @from on; negative if there is none. */
__weak __noinline int nest_claim_any(struct lane *lane __arg_nonnull,
				     struct task_struct *p __arg_trusted, u32 number, u32 from,
				     bool whole_core)
{
	struct cpus *set = lane_cpu_set(lane, number);
	u32 i, cpu;

	if (!set)
		return -1;
	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu_after(from, i);
		if (cpus_has(set, cpu) && !(whole_core && nest_core_runs(lane, cpu)) &&
		    nest_claim(set, p, cpu))
			return cpu;
	}
	return -1;
}

/* Claims an idle CPU of the primary nest. */
static __always_inline s32 nest_claim_primary(struct lane *lane, struct task_struct *p,
					      struct nest_task *task, s32 prev_cpu)
{
	struct cpus *primary = lane_cpu_set(lane, NEST_PRIMARY);
	s32 cpu = -1;

	if (!primary)
		return -1;
	if (task->attached && nest_claim(primary, p, task->attached - 1)) {
		lane_count(lane, nest_counter_attached);
		return task->attached - 1;
	}
	if (nest_claim(primary, p, prev_cpu))
		cpu = prev_cpu;
	if (cpu < 0 && lane->options[nest_option_find_fully_idle])
		cpu = nest_claim_any(lane, p, NEST_PRIMARY, prev_cpu, true);
	if (cpu < 0)
		cpu = nest_claim_any(lane, p, NEST_PRIMARY, prev_cpu, false);
	if (cpu >= 0)
		lane_count(lane, nest_counter_primary);
	return cpu;
}

/* The primary nest has no idle CPU for the task: one of the reserve, or any. */
static __always_inline s32 nest_grow(struct lane *lane, struct task_struct *p,
				     struct nest_task *task, s32 prev_cpu, u64 wake_flags,
				     bool *claimed)
{
	u64 patience = lane->options[nest_option_r_impatient];
	s32 cpu = nest_claim_any(lane, p, NEST_RESERVE, prev_cpu, false);

	task->misses++;
	if (cpu >= 0) {
		nest_promote(lane, cpu);
		lane_count(lane, nest_counter_promoted);
		*claimed = true;
		return cpu;
	}
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, claimed);
	if (!*claimed)
		return cpu;
	if (patience && task->misses >= patience) {
		nest_promote(lane, cpu);
		task->misses = 0;
		lane_count(lane, nest_counter_impatient);
	} else {
		nest_reserve(lane, cpu);
		lane_count(lane, nest_counter_reserved);
	}
	return cpu;
}

static s32 nest_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct lane_task *t = lane_task(lane, p);
	struct nest_task *task;
	bool claimed = false;
	s32 cpu;

	if (!t || (u32)prev_cpu >= nr_cpus())
		return wake_on_idle_cpu(lane, p, prev_cpu, wake_flags,
					lane->options[nest_option_slice_ns], &claimed);
	task = STATE_OF(t, struct nest_task);
	cpu = nest_claim_primary(lane, p, task, prev_cpu);
	if (cpu >= 0) {
		claimed = true;
		task->misses = 0;
	} else {
		cpu = nest_grow(lane, p, task, prev_cpu, wake_flags, &claimed);
	}
	if (claimed)
		lane_insert(lane, p, SCX_DSQ_LOCAL, lane->options[nest_option_slice_ns], 0);
	return cpu;
}

/* A newcomer stands where the lane stands: neither credit nor debt. */
static void nest_join(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct nest_task *task = STATE_OF(t, struct nest_task);

	__builtin_memset(task, 0, sizeof(*task));
	task->vtime = nest_state(lane)->vtime_now;
}

static __always_inline u64 nest_place(struct lane *lane, struct task_struct *p, u64 vtime)
{
	u64 slice_ns = lane->options[nest_option_slice_ns];

	return weighted_place(nest_state(lane)->vtime_now, vtime, slice_ns, slice_ns,
			      task_weight(p));
}

static void nest_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	struct nest_task *task = STATE_OF(t, struct nest_task);

	task->vtime = nest_place(lane, p, task->vtime);
	task->queued = 1;
	task->queued_ns = scx_bpf_now();
	lane_count(lane, nest_counter_queued);
	lane_insert_vtime(lane, p, lane_dsq(lane, 0), lane->options[nest_option_slice_ns],
			  task->vtime, enq_flags);
}

static bool nest_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	struct nest_cpu *here = nest_cpu_at(lane, cpu);
	u64 dsq = lane_dsq(lane, 0);

	if (here && rescue(lane, dsq, STATE_WORD(struct nest_task, queued_ns), &here->rescue_ns,
			   scx_bpf_now())) {
		lane_count(lane, nest_counter_rescued);
		return true;
	}
	if (prev) {
		u64 vtime = nest_place(lane, prev, STATE_OF(t, struct nest_task)->vtime +
					    weighted_ns(run->ran_ns, task_weight(prev)));

		if (weighted_goes_on(lane, dsq, cpu, vtime, &nest_state(lane)->vtime_now)) {
			lane_count(lane, nest_counter_kept);
			lane_grant(lane, prev, lane->options[nest_option_slice_ns]);
			return true;
		}
	}
	return lane_move_to_local(lane, dsq);
}

static void nest_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct nest_task *task = STATE_OF(t, struct nest_task);
	u32 cpu = scx_bpf_task_cpu(p);
	struct nest_cpu *here = nest_cpu_at(lane, cpu);

	weighted_advance(&nest_state(lane)->vtime_now, task->vtime);
	if (task->last == cpu + 1)
		task->attached = cpu + 1;
	task->last = cpu + 1;
	if (here) {
		here->idle_since_ns = 0;
		here->runs = 1;
	}
	/* It had to wait, so there are not too many CPUs in the nest. */
	if (task->queued)
		nest_promote(lane, cpu);
	task->queued = 0;
}

/* A CPU of the primary nest has nothing to run: it stays awake for a while, and no longer than it is one. */
static __always_inline void nest_spin(struct lane *lane)
{
	u64 ns = lane->options[nest_option_spin_ns], stays_ns = lane->options[nest_option_p_remove_ns];

	lane_count(lane, nest_counter_spun);
	lane_stay_awake(lane, ns < stays_ns ? ns : stays_ns);
}

static void nest_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  const struct lane_run *run)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct nest_cpu *here = nest_cpu_at(lane, cpu);
	struct cpus *primary = lane_cpu_set(lane, NEST_PRIMARY);

	STATE_OF(t, struct nest_task)->vtime += weighted_ns(run->ran_ns, task_weight(p));
	if (!here || !primary)
		return;
	here->idle_since_ns = scx_bpf_now();
	here->runs = 0;
	if (run->runnable || !cpus_has(primary, cpu))
		return;
	if (p->flags & PF_EXITING && scx_bpf_dsq_nr_queued(lane_dsq(lane, 0)) <= 0) {
		nest_demote(lane, primary, cpu);
		return;
	}
	if (!READ_ONCE(nest_state(lane)->timed) &&
	    !__sync_lock_test_and_set(&nest_state(lane)->timed, 1) &&
	    !lane_timer_set(lane, lane->options[nest_option_p_remove_ns]))
		WRITE_ONCE(nest_state(lane)->timed, 0);
	if (unlikely(lane->options[nest_option_spin_ns]))
		nest_spin(lane);
}

/* CPUs of the primary nest that have had nothing to run for too long leave it. */
static void nest_timer(struct lane *lane)
{
	u64 now = scx_bpf_now(), since, patience_ns = lane->options[nest_option_p_remove_ns];
	struct cpus *primary = lane_cpu_set(lane, NEST_PRIMARY);
	struct nest_cpu *there;
	bool more = false;
	u32 cpu;

	if (!primary)
		return;
	/* First: a CPU that stops from now on sets the timer if it is not set. */
	__sync_lock_test_and_set(&nest_state(lane)->timed, 0);
	bpf_for(cpu, 0, nr_cpus()) {
		there = cpus_has(primary, cpu) ? nest_cpu_at(lane, cpu) : NULL;
		since = there ? READ_ONCE(there->idle_since_ns) : 0;
		if (!since)
			continue;
		if (ns_since(since, now) >= (s64)patience_ns)
			nest_demote(lane, primary, cpu);
		else
			more = true;
	}
	if (more && !__sync_lock_test_and_set(&nest_state(lane)->timed, 1))
		lane_timer_set(lane, patience_ns);
}

static const struct policy_ops nest_ops = {
	.select_cpu = nest_select_cpu,
	.enqueue = nest_enqueue,
	.dispatch = nest_dispatch,
	.join = nest_join,
	.running = nest_running,
	.stopping = nest_stopping,
	.timer = nest_timer,
	.stays_awake = 1,
	.queues = 1,
	.task_bytes = sizeof(struct nest_task),
	.cpu_bytes = sizeof(struct nest_cpu),
	.cpu_sets = NEST_SETS,
};
