/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max, and tasks that are in a system call when their quota is used up.
 *
 * Other tasks may wait for such a task. A fork holds a lock for which every other fork, every exit
 * and every move between cgroups waits, on the whole machine: with a quota of 1 ms in a second for
 * minutes. So it goes on until its call is over, as in the fair class since 6.18, and is parked then. The
 * kernel calls us as it returns to user space, and its CPU chooses anew. What it has run meanwhile is a debt.
 */
#ifndef METASCHED_SYSCALLS_BPF_H
#define METASCHED_SYSCALLS_BPF_H

#include <kcalls.bpf.h>
#include <lanes.bpf.h>
#include <tasks.bpf.h>
#include <timer.bpf.h>

/* Tasks that we are called for at once, by their ids: of two that share a place one is parked. */
#define RETURNS_MAX 4096

struct returning {
	struct bpf_task_work work;
	s32 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RETURNS_MAX);
	__type(key, u32);
	__type(value, struct returning);
} returns SEC(".maps");

/*
 * Whether the task is in a system call. On x86 orig_ax is the call's number then, and ax is -ENOSYS
 * until it is over; an interrupt has a number below 0. Of other architectures and of page faults we know
 * nothing.
 */
static __always_inline bool is_in_syscall(struct task_struct *p)
{
	const struct pt_regs *regs;

	if (!bpf_core_field_exists(struct pt_regs, orig_ax))
		return false;
	regs = (const struct pt_regs *)bpf_task_pt_regs(p);
	return (s64)regs->orig_ax >= 0 && (s64)regs->ax == -ENOSYS;
}

/*
 * The task that runs here is about to return to user space, and holds nothing. Or it is a virtual CPU's,
 * which stays in its system call, and is about to enter its guest: that is remembered until it starts to
 * run again, since its registers do not say so.
 */
static int task_returns(struct bpf_map *map, void *key, void *value)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t;

	if (READ_ONCE(exit_record.kind))
		return 0;
	t = task_ctx_find(p);
	if (t && is_in_syscall(p))
		t->in_guest = 1;
	scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	return 0;
}

/* Has task_returns() called when the task returns to user space; whether it will be. */
static __always_inline bool call_at_return(struct task_struct *p)
{
	u32 place = p->pid & (RETURNS_MAX - 1);
	struct returning *r = bpf_map_lookup_elem(&returns, &place);

	if (!r)
		return false;
	if (bpf_task_work_schedule_resume(p, &r->work, &returns, task_returns))
		return READ_ONCE(r->pid) == p->pid;
	WRITE_ONCE(r->pid, p->pid);
	return true;
}

/*
 * Whether the task goes on though nothing is left of its limits, which are of that limit_chain(), until its
 * system call is over. What it ran beyond others does not count: these may have gone long ago, and while
 * no cgroup has a limit nobody writes down that it ran within its own.
 */
static __noinline bool ends_its_call(struct task_struct *p, struct task_ctx *t, u64 chain)
{
	u64 ran_ns = p->se.sum_exec_runtime;

	if (t->beyond_of != chain) {
		t->beyond_of = chain;
		t->beyond_from_ns = 0;
	}
	if (!bpf_ksym_exists(bpf_task_work_schedule_resume) || t->in_guest || !is_in_syscall(p))
		return false;
	if (!t->beyond_from_ns)
		t->beyond_from_ns = ran_ns;
	return ran_ns - t->beyond_from_ns < BEYOND_MOST_NS && call_at_return(p);
}

#endif
