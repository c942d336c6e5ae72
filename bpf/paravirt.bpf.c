/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * paravirt: how long threads wait for a CPU while they could run, how long they run, and how long CPUs
 * are idle, under whatever scheduler is in force. Threads are those of virtual CPUs: one that waits is a
 * phantom, of which its guest believes that it runs.
 *
 * All is cumulative. User space reads it when it likes, and divides what came since by the time since.
 *
 * A slot has one writer at a time. At a switch, those of the task that leaves, of the one that comes and of the
 * CPU are written with the lock of the CPU's run queue held. The kernel tells of a wake-up with the lock of
 * the task's run queue held (ttwu_do_activate(), ttwu_runnable(), wake_up_new_task()). There is one exception: a task
 * that wakes itself before it has slept, in try_to_wake_up(). It runs there and cannot be preempted, so nobody
 * else writes; and nothing is written for a task that runs.
 *
 * Who is not watched costs the look at a pointer, or where other programs keep something of the task, a look-up.
 * The clock is read only when there is something to write.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <paravirt.h>

char _license[] SEC("license") = "GPL";

/* include/uapi/linux/bpf.h */
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_MAP_TYPE_QUEUE 22
/* include/linux/sched.h */
#define TASK_DEAD 0x00000080
/* include/uapi/asm-generic/errno-base.h */
#define ESRCH 3
#define ENOMEM 12
#define EINVAL 22

#define STATE_MASK ((1U << PARAVIRT_STATE_BITS) - 1)

/*
 * What only this program looks at. In vmlinux.h it would change the policies' versions, which their types belong
 * to. The kernel's names are those before the underscores.
 */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* A CPU's run queue. */
struct rq {
	struct task_struct *curr;
};

/* A group's part of it. A task has one, of whatever class it is. */
struct cfs_rq {
	struct rq *rq;
};

struct sched_entity___paravirt {
	unsigned char sched_delayed;
	struct cfs_rq *cfs_rq;
};

/* The compiler needs a whole type to compare with the kernel's; we never look inside. */
struct bpf_local_storage {
	int unused;
};

struct task_struct___paravirt {
	/* An int, and from 7.3 on a byte: libbpf reads as many bytes as there are, if both have no sign. */
	unsigned int on_rq;
	struct sched_entity___paravirt se;
	struct bpf_local_storage *bpf_storage;
};

#pragma clang attribute pop

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

/* The slots of threads; user space says whose is which. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PARAVIRT_THREADS_MAX);
	__type(key, u32);
	__type(value, struct paravirt_slot);
} threads SEC(".maps");

/*
 * The slots of CPUs, by their numbers; user space makes it as long as there can be CPUs. One of which nothing is
 * known has not been idle since we came, but where it was idle then: user space wakes those once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct paravirt_slot);
} cpus SEC(".maps");

/* The number of a watched thread's slot; one that is not there where it is not watched any more. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} watched SEC(".maps");

/* Who was born of watched threads. User space has them watched, too. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, PARAVIRT_BORN_MAX);
	__type(value, struct paravirt_born);
} born SEC(".maps");

/* How often somebody was born: user space looks into the queue only after it has changed. */
u64 nr_born;

/* The same task, with what this program looks at. */
static __always_inline struct task_struct___paravirt *more(struct task_struct *p)
{
	return (struct task_struct___paravirt *)p;
}

static __always_inline struct paravirt_slot *slot_of(struct task_struct *p)
{
	u32 *at;

	if (!more(p)->bpf_storage)
		return NULL;
	at = bpf_task_storage_get(&watched, p, 0, 0);
	return at ? bpf_map_lookup_elem(&threads, at) : NULL;
}

static __always_inline u32 state_of(u64 word)
{
	return word & STATE_MASK;
}

/* The word of one that had `word` until now. */
static __always_inline u64 changed(u64 word, u32 state, u64 now_ns)
{
	s64 ns = (s64)word >> PARAVIRT_STATE_BITS;

	if (state_of(word) == PARAVIRT_COUNTED)
		ns += now_ns;
	if (state == PARAVIRT_COUNTED)
		ns -= now_ns;
	return (u64)ns << PARAVIRT_STATE_BITS | state;
}

/* With the lock held, see above. */
static __always_inline void enter(struct paravirt_slot *slot, u32 state, u64 now_ns)
{
	volatile u64 *word = &slot->word;

	*word = changed(*word, state, now_ns);
}

/* What the state of a thread is to the word of how long it ran. */
static __always_inline u32 state_of_run(u32 state)
{
	if (state == PARAVIRT_RUNNING)
		return PARAVIRT_COUNTED;
	return state == PARAVIRT_UNKNOWN ? state : PARAVIRT_BLOCKED;
}

/* The same of a thread that begins to run, or has run. */
static __always_inline void enter_run(struct paravirt_slot *slot, u32 state, u64 now_ns)
{
	volatile u64 *ran = &slot->ran;

	enter(slot, state, now_ns);
	*ran = changed(*ran, state_of_run(state), now_ns);
}

/*
 * What a task does that has just left its CPU. One that was preempted on its way to sleep is runnable,
 * whatever its state says. And so is one that was woken on its way, while schedule() had let go of the
 * lock to look for other tasks: its state was taken down before, and has changed.
 */
static __always_inline u32 state_after(struct task_struct *prev, bool preempt, u32 prev_state)
{
	if (preempt || !prev_state || !prev->__state)
		return PARAVIRT_COUNTED;
	return prev_state & TASK_DEAD ? PARAVIRT_GONE : PARAVIRT_BLOCKED;
}

/* The moment of this event, which is the same for all that is written of it. */
static __always_inline u64 moment(u64 *now_ns)
{
	if (!*now_ns)
		*now_ns = bpf_ktime_get_ns();
	return *now_ns;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(paravirt_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct paravirt_slot *slot;
	u64 now_ns = 0;
	u32 here;

	slot = slot_of(prev);
	if (slot)
		enter_run(slot, state_after(prev, preempt, prev_state), moment(&now_ns));
	slot = slot_of(next);
	if (slot)
		enter_run(slot, PARAVIRT_RUNNING, moment(&now_ns));
	/* The idle tasks have the number 0. */
	if (prev->pid && next->pid)
		return 0;
	here = bpf_get_smp_processor_id();
	slot = bpf_map_lookup_elem(&cpus, &here);
	if (slot)
		enter(slot, next->pid ? PARAVIRT_RUNNING : PARAVIRT_COUNTED, moment(&now_ns));
	return 0;
}

/* Whether its CPU runs it. */
static __always_inline bool is_running(struct task_struct *p)
{
	return BPF_CORE_READ(more(p), se.cfs_rq, rq, curr, pid) == p->pid;
}

static __always_inline int woken(struct task_struct *p)
{
	struct paravirt_slot *slot = slot_of(p);

	if (!slot)
		return 0;
	switch (state_of(*(volatile u64 *)&slot->word)) {
	case PARAVIRT_BLOCKED:
		enter(slot, PARAVIRT_COUNTED, bpf_ktime_get_ns());
		break;
	case PARAVIRT_UNKNOWN:
		enter_run(slot, is_running(p) ? PARAVIRT_RUNNING : PARAVIRT_COUNTED, bpf_ktime_get_ns());
		break;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(paravirt_wakeup, struct task_struct *p)
{
	return woken(p);
}

/* Who makes a task runs at this moment. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(paravirt_wakeup_new, struct task_struct *p)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct paravirt_born child;

	if (slot_of(parent)) {
		child.parent = parent->pid;
		child.tid = p->pid;
		bpf_map_push_elem(&born, &child, 0);
		/* After that, so that who sees it finds the child. */
		__sync_fetch_and_add(&nr_born, 1);
	}
	return woken(p);
}

/* The fair class leaves tasks that sleep on the queue for a while, and marks them. */
static __always_inline bool is_delayed(struct task_struct *p)
{
	return bpf_core_field_exists(more(p)->se.sched_delayed) && more(p)->se.sched_delayed;
}

/* What a task does at this moment, without any lock. */
static __always_inline u32 state_now(struct task_struct *p)
{
	if (is_running(p))
		return PARAVIRT_RUNNING;
	if (more(p)->on_rq && !is_delayed(p))
		return PARAVIRT_COUNTED;
	return p->__state & TASK_DEAD ? PARAVIRT_GONE : PARAVIRT_BLOCKED;
}

/*
 * Watches a thread from now on. First its events find the slot, then it is looked at what it does: the
 * kernel changes what we look at (rq->curr, on_rq, sched_delayed) before it tells of that. So what was
 * changed before the look is seen by it, and the event of what is changed later comes later.
 */
SEC("syscall")
int paravirt_watch(struct paravirt_args *args)
{
	u32 at = args->slot, *own;
	struct paravirt_slot *slot = bpf_map_lookup_elem(&threads, &at);
	u64 unknown, ran, now_ns;
	struct task_struct *p;
	u32 state;

	if (!slot)
		return -EINVAL;
	p = bpf_task_from_pid(args->tid);
	if (!p)
		return -ESRCH;
	enter_run(slot, PARAVIRT_UNKNOWN, bpf_ktime_get_ns());
	own = bpf_task_storage_get(&watched, p, &at, BPF_LOCAL_STORAGE_GET_F_CREATE);
	ran = *(volatile u64 *)&slot->ran;
	unknown = *(volatile u64 *)&slot->word;
	/* Where it had one already it has this one now. */
	if (own)
		*own = at;
	if (own && state_of(unknown) == PARAVIRT_UNKNOWN) {
		state = state_now(p);
		now_ns = bpf_ktime_get_ns();
		/* Unless an event has told of it meanwhile, which is newer. */
		__sync_val_compare_and_swap(&slot->ran, ran, changed(ran, state_of_run(state), now_ns));
		__sync_val_compare_and_swap(&slot->word, unknown, changed(unknown, state, now_ns));
	}
	bpf_task_release(p);
	return own ? 0 : -ENOMEM;
}

/*
 * Does not watch it any more. One event that is being told of may still write to the slot. Before 7.0 the kernel
 * deletes nothing while this CPU is at some task's storage, so the number is taken away first.
 */
SEC("syscall")
int paravirt_unwatch(struct paravirt_args *args)
{
	struct task_struct *p = bpf_task_from_pid(args->tid);
	u32 *own;

	if (!p)
		return -ESRCH;
	own = bpf_task_storage_get(&watched, p, 0, 0);
	if (own)
		*own = PARAVIRT_THREADS_MAX;
	bpf_task_storage_delete(&watched, p);
	bpf_task_release(p);
	return 0;
}
