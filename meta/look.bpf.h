/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a CPU does between two ticks while several accounts have work.
 *
 * Without it an account's vtime is behind by a whole run on each CPU: a choice elsewhere
 * meanwhile gives it too much, which others get back in one piece, on all CPUs at once. And an
 * account whose tasks are all queued has none that wakes and could ask for a CPU: it would wait
 * for the end of a slice, which comes with a tick, up to 4 ms later.
 */
#ifndef METASCHED_LOOK_BPF_H
#define METASCHED_LOOK_BPF_H

#include <level1.bpf.h>

/*
 * Has the CPU choose anew if an account with tasks that are ready lags behind the one that it serves,
 * unless that one was served out of its turn: it lags behind nobody, and has its slice.
 */
static __noinline void look_for_laggards(s32 cpu, struct cpu_ctx *here, u64 set, u64 now)
{
	struct account *a;
	u32 i, number;

	if (now - here->rotated_ns < SHARED_SLICE_NS)
		return;
	bpf_for(i, 0, ACCOUNTS_MAX) {
		if (!set)
			break;
		number = lowest_account(set);
		set &= set - 1;
		a = account_at(number);
		if (lags_behind(a, here, now) && account_has_ready(number)) {
			a->kicks++;
			ends_run(here);
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			break;
		}
	}
}

/*
 * The CPU's timer has expired: it charges what it runs, and looks. Whether it is to look again.
 * This runs on that CPU with interrupts on, so no callback of it is under way, but for one by which
 * another CPU changes the task: then a look may be charged twice.
 */
static bool look(s32 cpu)
{
	u32 root = READ_ONCE(root_word);
	struct cpu_ctx *here = cpu_ctx_of(cpu);
	u64 now = scx_bpf_now();
	struct meta_lane *l;

	if (!here)
		return false;
	here->looks = 0;
	if (!(root & ROOT_LANES) || !here->task || here->episode != watch_episode)
		return false;
	l = lane_if_current((u32)here->slot, here->generation);
	if (!l || !others_have_work(l, root))
		return false;
	here->looks = 1;
	/* What began while nobody else had work is charged as of its next tick, see running_until(). */
	if (here->since_ns)
		charge_until(here, running_until(here, now));
	look_for_laggards(cpu, here, accounts_with_work(root) & ~account_bit(l->account), now);
	return true;
}

#endif
