/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a CPU does between two ticks while an account waits for which no CPU runs.
 *
 * Of its tasks none wakes that could ask for a CPU: it would wait for the end of a slice, which comes
 * with a tick, up to 4 ms later. Where each account with work has a CPU nobody looks: the timer would
 * interrupt what runs, for nothing.
 */
#ifndef METASCHED_LOOK_BPF_H
#define METASCHED_LOOK_BPF_H

#include <level1.bpf.h>

/* In place of a time until somebody lags: nobody waits. */
#define NEVER (~0ULL)

/*
 * How long two CPUs may run for an account, one of them @here, until one that waits lags behind it by
 * enough. With one CPU it is twice as long. Where there are more it is shorter, but each
 * of them looks, at a time of its own.
 */
static __always_inline u64 until_lag_ns(u32 ahead, u32 behind, struct cpu_ctx *here)
{
	struct account *a = account_at(ahead);
	s64 vtime_ns = account_at(behind)->vtime + WAKE_LAG_NS - account_vtime_elsewhere(ahead, here);

	if (vtime_ns <= 0)
		return 0;
	if ((u64)vtime_ns >= account_vtime_ns(a, 2 * SHARED_SLICE_NS))
		return SHARED_SLICE_NS;
	return (u64)vtime_ns * READ_ONCE(a->weight_now) / WEIGHT_NOW_DFL / 2;
}

/*
 * Has the CPU choose anew if an account that waits lags behind the one that it serves, unless that one
 * was served out of its turn: it lags behind nobody, and has its slice. Returns in what time that
 * may be so again.
 */
static __noinline u64 look_for_laggards(s32 cpu, struct cpu_ctx *here, u32 own, u64 now)
{
	u64 since_turn_ns = now - here->out_of_turn_ns, ns, next_ns = NEVER;
	u64 set = accounts_with_work(READ_ONCE(root_word)) & ~account_bit(own);
	u32 i, number;

	if (since_turn_ns < SHARED_SLICE_NS)
		return SHARED_SLICE_NS - since_turn_ns;
	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!set)
			break;
		number = lowest_account(set);
		set &= set - 1;
		if (!account_waits(number))
			continue;
		if (lags_behind(number, here, now)) {
			choose_anew(cpu, here, number);
			return SHARED_SLICE_NS;
		}
		ns = until_lag_ns(own, number, here);
		if (ns < next_ns)
			next_ns = ns;
	}
	return next_ns;
}

/*
 * The CPU's timer has expired: it charges what it runs, and looks. When it is to look again, or 0.
 * This runs on that CPU with interrupts on, so no callback of it is under way, but for one by which
 * another CPU changes the task: then a look may be charged twice.
 */
static u64 look(s32 cpu)
{
	u32 root = READ_ONCE(root_word);
	struct cpu_ctx *here = cpu_ctx_of(cpu);
	u64 now = scx_bpf_now(), next_ns;
	struct meta_lane *l;

	if (!here)
		return 0;
	here->looks = 0;
	if (!(root & ROOT_LANES) || !here->task || here->episode != watch_episode)
		return 0;
	l = lane_if_current((u32)here->slot, here->generation);
	if (!l || !others_have_work(l, root))
		return 0;
	charge_so_far(here, now);
	next_ns = look_for_laggards(cpu, here, l->account, now);
	if (next_ns == NEVER)
		return 0;
	here->looks = 1;
	return next_ns > LOOK_NS ? next_ns : LOOK_NS;
}

#endif
