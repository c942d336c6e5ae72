/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * follow: a process and all that it forks, under whatever scheduler is in force: how
 * long its threads wait for a CPU, where they run, who takes the CPU from them, and
 * who ran on a CPU until they got it.
 *
 * Threads of one process are counted together, on several CPUs at once: hence atomics.
 * Who is not followed costs a look-up for each event.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <wait_histogram.bpf.h>
#include <follow.h>

char _license[] SEC("license") = "GPL";

/* Processes that there was no room for. */
u64 nr_missed;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FOLLOW_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct follow_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FOLLOW_OTHERS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct follow_other_key);
	__type(value, struct follow_other);
} others SEC(".maps");

/* A new process, before it has its place: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct follow_process);
} blank SEC(".maps");

/* Since when each CPU runs what it runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} switched_ns SEC(".maps");

struct followed_thread {
	u64 waits_since_ns; /* 0: does not wait */
	u64 runs_since_ns; /* 0: not seen to begin */
	u32 cpu_plus_1; /* where it ran last; 0: nowhere yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct followed_thread);
} threads SEC(".maps");

#define add(counter, n) __sync_fetch_and_add(&(counter), n)

static __always_inline struct follow_process *followed(struct task_struct *p)
{
	u32 tgid = p->tgid;

	return bpf_map_lookup_elem(&processes, &tgid);
}

static __always_inline struct followed_thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Counts a wait, which another CPU may do at the same time for another thread. */
static __always_inline void count_wait(struct wait_histogram *h, u64 wait_ns)
{
	u32 bucket = wait_bucket(wait_ns);

	barrier_var(bucket);
	if (bucket < WAIT_BUCKETS)
		add(h->buckets[bucket], 1);
	add(h->sum_ns, wait_ns);
	/* Of two that are the longest at the same time one may be missed. */
	if (wait_ns > h->max_ns)
		h->max_ns = wait_ns;
}

/* The record of one that ran while a thread of `process` did not; NULL where there is no room. */
static __always_inline struct follow_other *other_of(struct follow_process *process,
						     struct task_struct *ran)
{
	struct follow_other_key key = { .tgid = process->tgid };
	struct follow_other none = {};
	struct follow_other *other;

	if (ran->pid)
		bpf_core_read_str(&key.name, sizeof(key.name), &ran->comm);
	other = bpf_map_lookup_elem(&others, &key);
	if (other)
		return other;
	bpf_map_update_elem(&others, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&others, &key);
}

static __always_inline int begin_wait(struct task_struct *p)
{
	struct followed_thread *thread;

	if (!followed(p))
		return 0;
	thread = thread_of(p);
	if (thread)
		thread->waits_since_ns = bpf_ktime_get_ns();
	return 0;
}

/* `next` took the CPU from it, or it went to sleep. */
static __always_inline void stops(struct task_struct *p, struct task_struct *next, bool runnable,
				  u64 now_ns)
{
	struct follow_process *process = followed(p);
	struct followed_thread *thread;
	struct follow_other *other;

	if (!process)
		return;
	thread = thread_of(p);
	if (!thread)
		return;
	if (thread->runs_since_ns)
		add(process->ran_ns, now_ns - thread->runs_since_ns);
	thread->runs_since_ns = 0;
	if (!runnable)
		return;
	thread->waits_since_ns = now_ns;
	add(process->preemptions, 1);
	other = other_of(process, next);
	if (other)
		add(other->preemptions, 1);
}

/* It begins to run, where `prev` ran since `prev_since_ns`. */
static __always_inline void runs(struct task_struct *p, struct task_struct *prev, u64 prev_since_ns,
				 u64 now_ns)
{
	struct follow_process *process = followed(p);
	u32 cpu = bpf_get_smp_processor_id();
	struct followed_thread *thread;
	struct follow_other *other;
	u64 wait_ns, beside_ns, bit = 1ULL << (cpu % 64);
	u32 word = cpu / 64;

	if (!process)
		return;
	thread = thread_of(p);
	if (!thread)
		return;
	thread->runs_since_ns = now_ns;
	add(process->runs, 1);
	if (thread->cpu_plus_1 && thread->cpu_plus_1 != cpu + 1)
		add(process->moves, 1);
	thread->cpu_plus_1 = cpu + 1;
	/* The read first: the word is shared by all who write it, and changes seldom. */
	if (word < FOLLOW_CPUS_MAX / 64 && !(process->cpus[word] & bit))
		add(process->cpus[word], bit);
	if (!thread->waits_since_ns)
		return;
	wait_ns = now_ns - thread->waits_since_ns;
	thread->waits_since_ns = 0;
	/* Clocks of two CPUs may differ by a little: then it waited for nothing. */
	if ((s64)wait_ns < 0)
		return;
	count_wait(&process->waits, wait_ns);
	beside_ns = now_ns - prev_since_ns;
	other = other_of(process, prev);
	if (!other)
		return;
	add(other->waits, 1);
	add(other->wait_ns, beside_ns < wait_ns ? beside_ns : wait_ns);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(follow_wakeup, struct task_struct *p)
{
	return begin_wait(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(follow_new, struct task_struct *p)
{
	return begin_wait(p);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(follow_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now_ns = bpf_ktime_get_ns(), since_ns;
	u32 zero = 0;
	u64 *switched = bpf_map_lookup_elem(&switched_ns, &zero);

	if (!switched)
		return 0;
	/* Nothing is known of what ran when tracing began. */
	since_ns = *switched ? *switched : now_ns;
	*switched = now_ns;
	if (prev->pid)
		stops(prev, next, preempt || !prev_state, now_ns);
	if (next->pid)
		runs(next, prev, since_ns, now_ns);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow_fork, struct task_struct *parent, struct task_struct *child)
{
	struct follow_process *process;
	u32 zero = 0, tgid = child->tgid;

	/* A new thread of it, or of somebody who is not followed. */
	if (tgid == parent->tgid || !followed(parent))
		return 0;
	process = bpf_map_lookup_elem(&blank, &zero);
	if (!process)
		return 0;
	process->tgid = tgid;
	process->parent = parent->tgid;
	bpf_core_read_str(&process->name, sizeof(process->name), &child->comm);
	/* The number may be that of one that has ended: it is not seen any more. */
	if (bpf_map_update_elem(&processes, &tgid, process, BPF_ANY))
		add(nr_missed, 1);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(follow_exec, struct task_struct *p)
{
	struct follow_process *process = followed(p);

	if (process)
		bpf_core_read_str(&process->name, sizeof(process->name), &p->comm);
	return 0;
}
