/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max, the side of the tasks: which of them are parked, and for how long others run.
 *
 * A run under a limit takes a piece of it, see limits.bpf.h, and has a timer of its CPU
 * expire when the piece is over: it goes on with another, or the CPU chooses anew and the
 * task is parked. A tick alone would let each CPU run up to 4 ms too much, thirty times a
 * quota of 1 ms on eight CPUs.
 */
#ifndef METASCHED_PARKING_BPF_H
#define METASCHED_PARKING_BPF_H

#include <apps.bpf.h>
#include <syscalls.bpf.h>
#include <timer.bpf.h>

/*
 * A run has used up what it took: it goes on with another piece, or its CPU chooses anew. It
 * ends when all pieces together are over: what the timer was late each time does not add up.
 */
static void slice_over(s32 cpu)
{
	struct cpu_ctx *here = cpu_ctx_here();
	u64 piece, least;

	if (!here || !here->limited_task)
		return;
	/* It is under other limits now, and takes of those when it goes on or starts again. */
	if (unlikely(here->limit_chain != limit_chain((u32)here->limit))) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	least = PIECES_GROW * here->taken_ns;
	if (least < PIECE_LEAST_NS)
		least = PIECE_LEAST_NS;
	piece = limit_take((u32)here->limit, least, PIECE_MOST_NS, true);
	if (!piece) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	here->taken_ns += piece;
	slice_timer_set(cpu, here->limited_since_ns + here->taken_ns);
}

/*
 * Charges what the task on this CPU ran otherwise than it has taken, if it has a limit. What it has not
 * used is lost where limits were put in others' places meanwhile: these did not pay for it.
 */
static __always_inline void limited_ends(struct cpu_ctx *cpu, struct task_struct *p)
{
	s64 ns = p->se.sum_exec_runtime - cpu->limited_from_ns - cpu->taken_ns;

	if (cpu->limited_task != (u64)(unsigned long)p)
		return;
	cpu->limited_task = 0;
	if (ns < 0 && cpu->limit_chain != limit_chain((u32)cpu->limit))
		return;
	limit_charge((u32)cpu->limit, ns, 0);
}

/*
 * Gives what the task has reserved of its limit; of another one it goes back. What was reserved
 * before limits changed is lost: it may stand in books that were closed.
 */
static __always_inline u64 reserved_for_run(struct task_ctx *t)
{
	u64 ns = t->reserved_ns;

	t->reserved_ns = 0;
	if (!ns || t->reserved_seq != t->placed_seq)
		return 0;
	if (t->reserved_of == t->limit)
		return ns;
	limit_charge((u32)t->reserved_of, -(s64)ns, 0);
	return 0;
}

/*
 * Whether a task is never parked, even if its limit is used up: other tasks may wait for it. Its runs are
 * charged all the same.
 */
static __always_inline bool is_never_parked(struct task_struct *p)
{
	return p->flags & PF_KTHREAD || task_dies(p) || is_in_rcu_section(p);
}

/*
 * The task runs under its limit from now on. If nothing is left of that, since it was queued before
 * it was used up or was let through, its CPU chooses anew at once. So it does where another CPU has
 * changed the task, which cannot set its timer: see limited_goes_on().
 */
static __noinline void limited_begins(struct task_struct *p, bool starts)
{
	struct task_ctx *t = task_ctx_make(p);
	struct cpu_ctx *cpu = cpu_ctx_of_task(p);
	s32 on = scx_bpf_task_cpu(p);
	u64 reserved;

	if (!cpu)
		return;
	cpu->limited_task = 0;
	if (!t)
		return;
	t->parked_from_ns = 0;
	/* As it runs it may come to anything, also where the kernel has not asked us. */
	if (starts)
		t->in_guest = 0;
	task_placed(p, t);
	reserved = reserved_for_run(t);
	if (!t->limit) {
		t->beyond_from_ns = 0;
		return;
	}
	cpu->limit = t->limit;
	cpu->limit_chain = limit_chain(t->limit);
	cpu->limited_from_ns = p->se.sum_exec_runtime;
	cpu->limited_since_ns = bpf_ktime_get_ns();
	cpu->taken_ns = reserved + limit_take(t->limit, PIECE_LEAST_NS, PIECE_MOST_NS, false);
	cpu->limited_task = (u64)(unsigned long)p;
	if (cpu->taken_ns) {
		t->beyond_from_ns = 0;
		cpu->untimed = on != (s32)bpf_get_smp_processor_id();
		if (cpu->untimed)
			end_at_start(p, t);
		else
			slice_timer_set(on, cpu->limited_since_ns + cpu->taken_ns);
		return;
	}
	if (is_never_parked(p) || ends_its_call(p, t, cpu->limit_chain))
		return;
	if (!starts)
		t->ended = 0;
	end_at_start(p, t);
}

static __always_inline void running_limited(struct task_struct *p)
{
	limited_begins(p, true);
}

static __noinline void stopping_limited(struct task_struct *p)
{
	struct cpu_ctx *cpu = cpu_ctx_of_task(p);

	if (cpu)
		limited_ends(cpu, p);
}

/* The books are brought up to date, and the task's limit, which may be new or another one. */
static __noinline void tick_limited(struct task_struct *p)
{
	stopping_limited(p);
	limited_begins(p, false);
}

/*
 * The task goes on; no callback tells of that. If its run was about to end and its limit has been filled up
 * meanwhile, the run takes another piece, as at its start. If its limits have changed, it begins under
 * the new ones now and not at the next tick.
 */
__weak __noinline int limited_goes_on(struct task_struct *p __arg_trusted)
{
	struct cpu_ctx *cpu = cpu_ctx_here();
	u64 piece;

	if (!cpu || cpu->limited_task != (u64)(unsigned long)p)
		return 0;
	if (unlikely(cpu->limit_chain != limit_chain((u32)cpu->limit))) {
		tick_limited(p);
		return 0;
	}
	if (p->se.sum_exec_runtime - cpu->limited_from_ns < cpu->taken_ns) {
		if (likely(!cpu->untimed))
			return 0;
	} else {
		piece = limit_take((u32)cpu->limit, PIECE_LEAST_NS, PIECE_MOST_NS, false);
		if (!piece)
			return 0;
		cpu->taken_ns += piece;
	}
	cpu->untimed = 0;
	slice_timer_set(bpf_get_smp_processor_id(), cpu->limited_since_ns + cpu->taken_ns);
	return 0;
}

/*
 * The limit that the task has to wait for; 0 if it may run. One that has been parked for
 * PARKED_LOOK_NS since it ran last may, for the moment that it takes until limited_begins()
 * ends it: else the kernel's watchdog would end us, beside a quota of 1 ms in a second and
 * as many tasks, or with limits above one another that have something left at different times.
 */
__weak __noinline u32 task_waits_for(struct task_struct *p __arg_trusted)
{
	struct task_ctx *t;
	u32 number;

	if (is_never_parked(p))
		return 0;
	t = task_ctx_make(p);
	if (!t)
		return 0;
	t->ended = 0;
	task_placed(p, t);
	number = t->limit ? limit_exhausted(t->limit) : 0;
	if (number && t->parked_from_ns && bpf_ktime_get_ns() - t->parked_from_ns >= PARKED_LOOK_NS)
		number = 0;
	if (number && ends_its_call(p, t, limit_chain(t->limit)))
		number = 0;
	if (!number)
		t->in_guest = 0;
	return number;
}

/*
 * A task wants a CPU: parks it if it has to wait for a limit.
 *
 * One that comes out of a parking queue takes its first piece here, and not when it runs: so no
 * more of them come than there is something left for. Else all of them did, and each that found
 * nothing left ran until its CPU had chosen anew: sixteen of them three times a quota of 1 ms in
 * a second. Others take nothing: a task that waits in a lane would keep it from one that runs.
 */
static __noinline bool park_exhausted(struct task_struct *p, u64 enq_flags)
{
	u32 number = task_waits_for(p);
	struct task_ctx *t = task_ctx_find(p);

	if (!number && t && t->parked_from_ns && t->limit && !t->reserved_ns) {
		t->reserved_of = t->limit;
		t->reserved_seq = t->placed_seq;
		t->reserved_ns = limit_take(t->limit, PIECE_LEAST_NS, PIECE_LEAST_NS, false);
		if (!t->reserved_ns)
			number = task_waits_for(p);
	}
	if (!number)
		return false;
	if (t && !t->parked_from_ns)
		t->parked_from_ns = bpf_ktime_get_ns();
	/* Its policy hears that it wants to run when it is let go: till then it competes with nobody. */
	if (is_used(USES_RUNNABLE))
		tell_quiescent(p, 0);
	scx_bpf_dsq_insert(p, PARKED_BASE_DSQ + number, SCX_SLICE_DFL, enq_flags);
	return true;
}

#endif
