/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers by which each CPU looks between two ticks whether another lane should have it.
 *
 * A timer is set where run queues are locked only when its CPU begins to look: there the
 * kernel has to put it off to an interrupt, which costs more than the rest. From then on it
 * sets itself again. It belongs to its CPU, and what it calls runs there with interrupts on,
 * so that no callback of that CPU is under way.
 *
 * The simulator puts a header of this name in front of this one: there, the engine calls
 * slice_look().
 */
#ifndef METASCHED_SLICE_TIMER_BPF_H
#define METASCHED_SLICE_TIMER_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

/* Defined in level1.bpf.h: whether to look again. */
static bool slice_look(s32 cpu);

/* CPUs beyond look at ticks only. */
#define SLICE_TIMERS_MAX 1024

struct slice_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLICE_TIMERS_MAX);
	__type(key, u32);
	__type(value, struct slice_timer);
} slice_timers SEC(".maps");

static int slice_due(void *map, u32 *cpu, struct slice_timer *due)
{
	if (slice_look(*cpu))
		bpf_timer_start(&due->timer, SLICE_LOOK_NS, BPF_F_TIMER_CPU_PIN);
	return 0;
}

static int slice_timers_make(void)
{
	struct slice_timer *t;
	int err = 0;
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		t = bpf_map_lookup_elem(&slice_timers, &cpu);
		if (!t)
			break;
		err = bpf_timer_init(&t->timer, &slice_timers, CLOCK_MONOTONIC);
		if (!err)
			err = bpf_timer_set_callback(&t->timer, slice_due);
		if (err)
			break;
	}
	return err;
}

/* This CPU looks after SLICE_LOOK_NS. */
static void slice_timer_start(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slice_timer *t = bpf_map_lookup_elem(&slice_timers, &cpu);

	if (t)
		bpf_timer_start(&t->timer, SLICE_LOOK_NS, BPF_F_TIMER_CPU_PIN);
}

#endif
