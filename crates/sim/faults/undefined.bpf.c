// SPDX-License-Identifier: GPL-2.0-only
/* What C leaves undefined and BPF, or its verifier, does not. */
#include "fault.h"

/* Not constants, so that the compiler cannot know. */
static volatile u64 zero;
static volatile u32 sixty_four = 64;
static volatile u32 five = 5;
static struct task_struct *volatile nobody;

static void divides_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS / zero, enq_flags);
}

static void takes_remainder_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS % zero, enq_flags);
}

static void shifts_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 1ULL << sixty_four, enq_flags);
}

static void overruns_enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 slices[4] = { 1, 2, 3, 4 };

	scx_bpf_dsq_insert(p, QUEUE, slices[five], enq_flags);
}

static void dereferences_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, nobody->scx.slice, enq_flags);
}

/* Hides from the compiler that nobody has written there. */
#define SOMEBODY_MAY_WRITE(variable) __asm__ volatile("" : : "r"(&(variable)) : "memory")

static void never_writes_enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 queue;

	SOMEBODY_MAY_WRITE(queue);
	scx_bpf_dsq_insert(p, queue, SLICE_NS, enq_flags);
}

static void follows_nothing_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct task_struct *other;

	SOMEBODY_MAY_WRITE(other);
	scx_bpf_dsq_insert(p, QUEUE, other->scx.slice, enq_flags);
}

static volatile s64 least = -0x7fffffffffffffffLL - 1;
static volatile s64 minus_one = -1;

static void divides_signed_enqueue(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, least / minus_one, enq_flags);
}

static volatile s32 most = 0x7fffffff;
static volatile s32 minus_eight = -8;
static volatile u32 one = 1;
static volatile u8 byte = 0xff;

/* What BPF defines and C does not, or leaves to the machine; a number for what differs. */
static s32 computes_init(void)
{
	u64 wide = 0x1122334455667788ULL;
	u32 *low = (u32 *)&wide;
	u8 narrow = byte;

	if (most + 1 != -0x7fffffff - 1)
		return 1;
	if (minus_eight >> 1 != -4 || one << 31 != 0x80000000)
		return 2;
	narrow++;
	if (narrow != 0 || (s8)byte != -1)
		return 3;
	*low = 0;
	barrier();
	if (wide != 0x1122334400000000ULL)
		return 4;
	if ((u64)0 - one != ~0ULL || (u32)(wide >> 32) / 2 != 0x089119a2)
		return 5;
	return honest_init();
}

static void gives_up_enqueue(struct task_struct *p, u64 enq_flags)
{
	unsigned long long args[] = { (unsigned long)p->comm, 42, 0xbeef };

	scx_bpf_error_bstr("%s has %d of %llx, 100%%", args, sizeof(args));
}

struct sched_ext_ops divides_by_zero = { HONEST, .enqueue = divides_enqueue };
struct sched_ext_ops takes_remainder_by_zero = { HONEST, .enqueue = takes_remainder_enqueue };
struct sched_ext_ops shifts_too_far = { HONEST, .enqueue = shifts_enqueue };
struct sched_ext_ops overruns_an_array = { HONEST, .enqueue = overruns_enqueue };
struct sched_ext_ops dereferences_null = { HONEST, .enqueue = dereferences_enqueue };
struct sched_ext_ops never_writes = { HONEST, .enqueue = never_writes_enqueue };
struct sched_ext_ops follows_nothing = { HONEST, .enqueue = follows_nothing_enqueue };
struct sched_ext_ops divides_signed = { HONEST, .enqueue = divides_signed_enqueue };
struct sched_ext_ops computes = { HONEST, .init = computes_init };
struct sched_ext_ops gives_up = { HONEST, .enqueue = gives_up_enqueue };
