/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 remembers about tasks and CPUs. Nothing here is touched while a
 * single lane of a policy without task state is in force.
 */
#ifndef METASCHED_TASKS_BPF_H
#define METASCHED_TASKS_BPF_H

#include <sched.bpf.h>

/*
 * The state that so many more policies keep of a task survives turns, each of which goes to another
 * policy. In a longer cycle a task is new to its policy in every round.
 */
#define POLICIES_KEPT 3

struct kept_task {
	u32 policy_of; /* as in task_ctx */
	u32 pad;
	struct lane_task state;
};

/* A task's lane, cached when it is enqueued. Stale once the lane is freed. */
struct task_ctx {
	u64 generation; /* of its lane; 0: none */
	u32 slot;
	/* Its account and its limit, as of that cgroup and assign_seq; see apps.bpf.h. */
	u32 account;
	u32 limit;
	u32 policy_of; /* the owner of `policy`: the number of its policy plus one; 0: none */
	u64 cgroup;
	u64 placed_seq; /* 0: never looked up */
	u64 ticket; /* of its wait, which user space is to decide; 0: it has no say, or has had it */
	u64 told_ns; /* when user space was told of that */
	/* Its run time when its quota was used up in a system call, see ends_its_call(); 0: it was not. */
	u64 beyond_from_ns;
	u64 beyond_of; /* the limits then, see limit_chain() */
	u64 parked_from_ns; /* when it was first parked since it ran last; 0: not */
	/* What it has taken of a limit for its next run, see park_exhausted(). */
	u64 reserved_ns;
	u64 reserved_of;
	u64 reserved_seq; /* its placed_seq then */
	/* What the kernel's books said when it began to wait, see waits.bpf.h. */
	u64 wait_arrivals;
	u64 wait_from_ns;
	struct lane_task policy; /* its policy's own */
	/* What other policies kept of it, which may have it again; see task_changes_policy(). */
	struct kept_task kept[POLICIES_KEPT];
	u32 kept_next; /* the place that is used next */
	/* The places of its cgroup, and of the one that it counts for, see cgroups.bpf.h. */
	u32 group;
	u32 watched;
	u32 waits_in; /* the place plus one of the cgroup that knows it as queued; 0: none does */
	u32 runnable; /* its lane's policy was told that it is */
	u32 told_awake; /* the wait that user space is to decide began with a wake-up */
	u32 woken_sync; /* by a task that is about to sleep; until it is queued */
	u32 in_guest; /* a virtual CPU's thread has come to its guest, within its system call, and goes no further */
	u32 ended; /* its run was ended as it began; until level 1 is asked about it, see end_at_start() */
};

/* The task that runs on a CPU, as far as level 1 measures it. */
struct cpu_ctx {
	u64 task; /* the task's address, to tell whether this is about it; 0: nobody */
	u64 episode; /* the watch_episode in which it was written */
	u64 generation; /* of its lane */
	u64 slot;
	u64 runs_for; /* its account plus one, see in_service.bpf.h; 0: none */
	u64 since_ns; /* when it started to run, while others have work; 0: not known */
	u64 ran_from_ns; /* sum_exec_runtime when it started to run */
	u64 granted_ns; /* the slices that it has got since */
	u64 group_from_ns; /* sum_exec_runtime up to which its cgroup has it, see charge_group() */
	u64 charged_from_ns; /* sum_exec_runtime up to which its lane is charged, but for */
	u64 uncharged_ns; /* see CHARGE_NS */
	/* The task whose cgroup has a limit, which may be known when its lane is not. */
	u64 limited_task;
	u64 limit;
	u64 limit_chain; /* which limits had its place and those above it, see limit_chain() */
	u64 limited_from_ns; /* sum_exec_runtime when it started to run under the limit */
	u64 limited_since_ns; /* and by the clock */
	u64 untimed; /* its end has no timer yet, since another CPU let it run on */
	u64 taken_ns; /* what its run has taken of the limit so far */
	u64 rotated_ns; /* when it was last the turn of the next account in order */
	u64 preempted; /* a task that woke has had this CPU choose anew; written by any CPU */
	u64 kicked; /* a kick is to stop the task that runs, not only to have the CPU answer; written by any CPU */
	u64 turn; /* the account that had its turn then, see ROTATION_NS */
	u64 anyway; /* in this round each account has its turn, even if none of its tasks has waited long */
	u64 anyway_ns; /* when the last such round began */
	u64 out_of_turn_ns; /* when an account was last served out of its turn, for that or as one below */
	u64 out_of_turn; /* that account plus one, until the wait of its task is known; 0: none */
	u64 behind; /* accounts whose tasks wait here for long, a bit each, see BEHIND_NS */
	u64 behind_served_ns[ACCOUNTS_MAX]; /* when such a one was last served */
	u64 looks; /* its timer is set, see look.bpf.h */
	u64 kthread_chosen; /* the last choice was a kernel thread of KTHREADS_DSQ */
	u64 rests; /* the task whose policy would have the CPU idle rather than let it go on */
	u64 chosen; /* dispatch_shared() has, since the last task stopped here */
	u64 tickless; /* its task started with an infinite slice, see dispatch.bpf.h */
	u64 end_ns; /* its policy has asked for the end of the run then, see ends.bpf.h; 0: it has not */
	u64 end_after_ns; /* and how long that was last */
	u64 end_timer_ns; /* its timer for that expires then; 0: it is not set */
	u64 awake_until_ns; /* it does not sleep deeply until then, see lane_stay_awake() */
	u64 awake_timer_ns; /* until then its timer for that is set */
	/* Of the task, until its wait is counted. */
	u64 wait_arrivals;
	u64 wait_from_ns;
	struct lane_run run; /* what dispatch tells a policy: the stack has no room where calls are deep */
	struct lane_task spare; /* state for a task that memory could not be had for */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

/* What is remembered about @p, or NULL. */
static __always_inline struct task_ctx *task_ctx_find(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

/* The record of @p, made if there is none yet; NULL if there is no memory. */
static __always_inline struct task_ctx *task_ctx_make(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* This CPU's record; never NULL in fact. */
static __always_inline struct cpu_ctx *cpu_ctx_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_ctxs, &zero);
}

/* Gives the task that CPU runs so much more, and remembers it for its policy. */
static __always_inline void grant_slice(struct cpu_ctx *cpu, struct task_struct *p, u64 slice_ns)
{
	cpu->granted_ns = slice_ns;
	if (slice_ns != SCX_SLICE_INF)
		cpu->granted_ns += p->se.sum_exec_runtime - cpu->ran_from_ns;
	scx_bpf_task_set_slice(p, slice_ns);
}

/*
 * The task comes to a lane of that policy: what the one before kept of it is put aside, and
 * what this one kept comes back, or zeroes.
 */
__weak __noinline int task_changes_policy(struct task_ctx *t __arg_nonnull, u32 policy)
{
	struct lane_task before = t->policy;
	u32 i, before_of = t->policy_of, at = t->kept_next % POLICIES_KEPT;

	t->policy_of = policy + 1;
	__builtin_memset(&t->policy, 0, sizeof(t->policy));
	for (i = 0; i < POLICIES_KEPT; i++) {
		if (t->kept[i].policy_of != policy + 1)
			continue;
		t->policy = t->kept[i].state;
		at = i;
		break;
	}
	if (at == t->kept_next % POLICIES_KEPT)
		t->kept_next++;
	t->kept[at].policy_of = before_of;
	t->kept[at].state = before;
	return 0;
}

/* The record of a CPU, to look at; NULL if there is no such CPU. */
static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	u32 zero = 0;

	return bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, cpu);
}

/*
 * The record of the CPU that the task is on, which may be another than this one: when somebody
 * changes the affinity, the weight or the cgroup of a task that runs, the kernel calls stopping and
 * running on that somebody's CPU, under the lock of the task's run queue.
 */
static __always_inline struct cpu_ctx *cpu_ctx_of_task(struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	return likely(cpu == (s32)bpf_get_smp_processor_id()) ? cpu_ctx_here() : cpu_ctx_of(cpu);
}

/*
 * Ends the run of a task that has just begun: its CPU chooses anew. Only once until level 1 is
 * asked about the task again: while the kernel bypasses us, as it does when we leave, it has the
 * task run again without asking, and the CPU would do nothing else than begin runs.
 */
static __always_inline void end_at_start(struct task_struct *p, struct task_ctx *t)
{
	if (t->ended)
		return;
	t->ended = 1;
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
}

#endif
