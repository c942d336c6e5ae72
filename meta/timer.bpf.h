/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers: that of the sweep, that of turns, that of tasks which user space has not decided, one
 * of each lane, and five for each CPU: one ends a run whose limit is used up, one a run that its policy
 * has end between two ticks, by one it looks between them, one puts off what others ask of it, and one
 * keeps it from deep sleep.
 *
 * They live as long as their map, which user space may hold for some time after the
 * kernel has let go of us; the queues of the next scheduler may have our numbers by then.
 * So our end stops them, and no timer is started once the exit record is written.
 */
#ifndef METASCHED_TIMER_BPF_H
#define METASCHED_TIMER_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <kcalls.bpf.h>
#include <table.bpf.h>

enum timer_number {
	TIMER_SWEEP,
	TIMER_TURN,
	TIMER_UNDECIDED,
	TIMER_LANES, /* and the lane's slot */
	TIMER_SLICES = TIMER_LANES + LANES_MAX, /* and the CPU's number */
	TIMER_LOOKS = TIMER_SLICES + CPUS_MAX, /* and the CPU's number */
	TIMER_ASKS = TIMER_LOOKS + CPUS_MAX, /* and the CPU's number */
	TIMER_AWAKE = TIMER_ASKS + CPUS_MAX, /* and the CPU's number */
	TIMER_ENDS = TIMER_AWAKE + CPUS_MAX, /* and the CPU's number */
	TIMERS_MAX = TIMER_ENDS + CPUS_MAX,
};

/* A CPU looks no more often than this, see look.bpf.h. */
#define LOOK_NS (500ULL * 1000)

/*
 * What is done when they expire: sweep.bpf.h, turns.bpf.h, decide.bpf.h, services.bpf.h,
 * parking.bpf.h, look.bpf.h, ends.bpf.h.
 */
static void sweep(void);
static void turn_over(void);
static u64 decide_late(void);
static void lane_timer_over(u32 slot);
static void slice_over(s32 cpu);
static u64 look(s32 cpu);
static u64 asks_are_due(s32 cpu);
static u64 stay_awake(s32 cpu);
static u64 end_run(s32 cpu);

/* Why the kernel ended us; user space maps and polls it. */
struct exit_record exit_record;

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIMERS_MAX);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

static int timer_expires(void *map, u32 *key, struct timer *t)
{
	u32 number = *key;
	u64 again_ns;

	if (READ_ONCE(exit_record.kind))
		return 0;
	switch (number) {
	case TIMER_SWEEP:
		sweep();
		if (READ_ONCE(root_word) & ROOT_SWEPT || is_used(USES_PLACES) ||
		    READ_ONCE(leaving_sweeps))
			bpf_timer_start(&t->timer, SWEEP_NS, 0);
		break;
	case TIMER_TURN:
		turn_over();
		break;
	case TIMER_UNDECIDED:
		again_ns = decide_late();
		if (again_ns)
			bpf_timer_start(&t->timer, again_ns, 0);
		break;
	default:
		if (number < TIMER_SLICES) {
			if (all_uses() & USES_TIMER)
				lane_timer_over(number - TIMER_LANES);
		} else if (number < TIMER_LOOKS) {
			slice_over(number - TIMER_SLICES);
		} else if (number < TIMER_ASKS) {
			again_ns = look(number - TIMER_LOOKS);
			if (again_ns)
				bpf_timer_start(&t->timer, again_ns, BPF_F_TIMER_CPU_PIN);
		} else if (number < TIMER_AWAKE) {
			again_ns = all_uses() & USES_ANSWER ? asks_are_due(number - TIMER_ASKS) : 0;
			if (again_ns)
				bpf_timer_start(&t->timer, again_ns, 0);
		} else if (number < TIMER_ENDS) {
			again_ns = all_uses() & USES_AWAKE ? stay_awake(number - TIMER_AWAKE) : 0;
			if (again_ns)
				bpf_timer_start(&t->timer, again_ns, BPF_F_TIMER_CPU_PIN);
		} else if (all_uses() & USES_ENDS) {
			again_ns = end_run(number - TIMER_ENDS);
			if (again_ns)
				bpf_timer_start(&t->timer, again_ns, 0);
		}
	}
	return 0;
}

static __noinline int timer_make(u32 number)
{
	struct timer *t = bpf_map_lookup_elem(&timers, &number);
	int err;

	if (!t)
		return 0;
	err = bpf_timer_init(&t->timer, &timers, CLOCK_MONOTONIC);
	return err ? err : bpf_timer_set_callback(&t->timer, timer_expires);
}

static __noinline void timer_stop(u32 number)
{
	struct timer *t = bpf_map_lookup_elem(&timers, &number);

	if (t)
		bpf_timer_cancel(&t->timer);
}

/* Makes all of them that some policy of the build may need; 0 or an error. */
static int timers_make(void)
{
	int err;
	u32 cpu, slot;

	err = timer_make(TIMER_SWEEP);
	if (!err)
		err = timer_make(TIMER_TURN);
	if (!err)
		err = timer_make(TIMER_UNDECIDED);
	bpf_for(slot, 0, all_uses() & USES_TIMER ? LANES_MAX : 0) {
		if (!err)
			err = timer_make(TIMER_LANES + slot);
	}
	bpf_for(cpu, 0, nr_cpus()) {
		if (!err)
			err = timer_make(TIMER_SLICES + cpu);
		if (!err)
			err = timer_make(TIMER_LOOKS + cpu);
		if (!err && all_uses() & USES_ANSWER)
			err = timer_make(TIMER_ASKS + cpu);
		if (!err && all_uses() & USES_AWAKE)
			err = timer_make(TIMER_AWAKE + cpu);
		if (!err && all_uses() & USES_ENDS)
			err = timer_make(TIMER_ENDS + cpu);
		if (err)
			break;
	}
	return err;
}

/*
 * Stops all of them, and waits for what they do at this moment. Only at our end: the kernel also
 * forgets what such a timer calls, and none could be started again.
 */
static void timers_stop(void)
{
	u32 cpu, slot;

	timer_stop(TIMER_SWEEP);
	timer_stop(TIMER_TURN);
	timer_stop(TIMER_UNDECIDED);
	bpf_for(slot, 0, all_uses() & USES_TIMER ? LANES_MAX : 0) {
		timer_stop(TIMER_LANES + slot);
	}
	bpf_for(cpu, 0, nr_cpus()) {
		timer_stop(TIMER_SLICES + cpu);
		timer_stop(TIMER_LOOKS + cpu);
		if (all_uses() & USES_ANSWER)
			timer_stop(TIMER_ASKS + cpu);
		if (all_uses() & USES_AWAKE)
			timer_stop(TIMER_AWAKE + cpu);
		if (all_uses() & USES_ENDS)
			timer_stop(TIMER_ENDS + cpu);
	}
}

/*
 * Has a timer expire once, instead of when it was set to before; whether it will. Where interrupts are
 * off, newer kernels need memory for that, and may have none.
 */
static __always_inline bool timer_set_here(u32 number, u64 ns, u64 flags)
{
	struct timer *t = bpf_map_lookup_elem(&timers, &number);

	return t && !bpf_timer_start(&t->timer, ns, flags);
}

static __noinline bool timer_set(u32 number, u64 ns, u64 flags)
{
	return timer_set_here(number, ns, flags);
}

/* The sweep is made from now on; it stops by itself. */
static void sweep_timer_start(void)
{
	timer_set(TIMER_SWEEP, SWEEP_NS, 0);
}

/* The turn ends at that time of CLOCK_MONOTONIC. */
static void turn_timer_set(u64 at_ns)
{
	timer_set(TIMER_TURN, at_ns, BPF_F_TIMER_ABS);
}

/* Tasks are looked for that user space has not decided for so long; whether they will be. */
static bool undecided_timer_start(void)
{
	return timer_set(TIMER_UNDECIDED, UNDECIDED_NS, 0);
}

/* Sets the timer that ends the run on this CPU, which is @cpu, at that time. */
static void slice_timer_set(s32 cpu, u64 at_ns)
{
	timer_set(TIMER_SLICES + cpu, at_ns, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

/*
 * This CPU looks from now on; whether it will. Where run queues are locked the kernel has to put the start of a
 * timer off to an interrupt, which costs more than the rest; so it starts itself again.
 */
static bool look_timer_start(s32 cpu)
{
	return timer_set(TIMER_LOOKS + cpu, LOOK_NS, BPF_F_TIMER_CPU_PIN);
}

#endif
