/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timer that ends turns.
 *
 * The simulator puts a header of this name in front of this one: there, the
 * engine calls turn_over().
 */
#ifndef METASCHED_TURN_TIMER_BPF_H
#define METASCHED_TURN_TIMER_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <lanes.bpf.h>

/* Defined in turns.bpf.h: what happens when the timer expires. */
static void turn_over(void);

struct turn_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct turn_timer);
} turn_timers SEC(".maps");

static int turn_due(void *map, u32 *key, struct turn_timer *due)
{
	turn_over();
	return 0;
}

static int turn_timer_make(void)
{
	u32 zero = 0;
	struct turn_timer *t = bpf_map_lookup_elem(&turn_timers, &zero);
	int err;

	if (!t)
		return -EINVAL;
	err = bpf_timer_init(&t->timer, &turn_timers, CLOCK_MONOTONIC);
	return err ? err : bpf_timer_set_callback(&t->timer, turn_due);
}

/* Has it expire once, at that time of CLOCK_MONOTONIC, instead of what was set before. */
static void turn_timer_set(u64 at_ns)
{
	u32 zero = 0;
	struct turn_timer *t = bpf_map_lookup_elem(&turn_timers, &zero);

	if (t)
		bpf_timer_start(&t->timer, at_ns, BPF_F_TIMER_ABS);
}

#endif
