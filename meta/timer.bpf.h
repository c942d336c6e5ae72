/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timer that calls the sweep while there is anything to sweep.
 *
 * The simulator puts a header of this name in front of this one: there, the
 * engine calls it.
 */
#ifndef METASCHED_TIMER_BPF_H
#define METASCHED_TIMER_BPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <sweep.bpf.h>

struct sweep_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sweep_timer);
} sweep_timers SEC(".maps");

static int sweep_due(void *map, u32 *key, struct sweep_timer *due)
{
	sweep();
	if (READ_ONCE(root_word) & ROOT_SWEPT)
		bpf_timer_start(&due->timer, SWEEP_NS, 0);
	return 0;
}

static int sweep_timer_make(void)
{
	u32 zero = 0;
	struct sweep_timer *t = bpf_map_lookup_elem(&sweep_timers, &zero);
	int err;

	if (!t)
		return -EINVAL;
	err = bpf_timer_init(&t->timer, &sweep_timers, CLOCK_MONOTONIC);
	return err ? err : bpf_timer_set_callback(&t->timer, sweep_due);
}

/* It stops by itself. */
static void sweep_timer_start(void)
{
	u32 zero = 0;
	struct sweep_timer *t = bpf_map_lookup_elem(&sweep_timers, &zero);

	if (t)
		bpf_timer_start(&t->timer, SWEEP_NS, 0);
}

#endif
