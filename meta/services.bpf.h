/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 does for policies, as sched.bpf.h declares it: whatever takes effect on a
 * CPU that may be another lane's. Global and weak for the same reasons as the functions
 * in table.bpf.h.
 */
#ifndef METASCHED_SERVICES_BPF_H
#define METASCHED_SERVICES_BPF_H

#include <kcalls.bpf.h>
#include <table.bpf.h>
#include <lane_timer.bpf.h>

/* CPUs that are off line: nobody answers there. */
struct cpus cpus_off;

/* Which lanes have asked a CPU to decide for others. */
struct cpu_asks {
	u64 lanes[LANES_MAX / 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct cpu_asks);
} asks SEC(".maps");

__weak __noinline int lane_grant(struct lane *lane __arg_nonnull,
				 struct task_struct *p __arg_trusted, u64 slice_ns)
{
	struct cpu_ctx *here = cpu_ctx_here();

	if (here)
		grant_slice(here, p, slice_ns);
	return 0;
}

/* Whether a CPU runs a task that is not the lane's, or nothing. A lane alone has them all. */
static __always_inline bool runs_for_others(struct lane *lane, s32 cpu)
{
	struct cpu_ctx *there;

	if (!(READ_ONCE(root_word) & ROOT_SHARED))
		return false;
	there = cpu_ctx_of(cpu);
	return !there || !there->task || there->slot != lane->slot ||
	       there->generation != lane->generation;
}

/* Whether a CPU's task has an infinite slice: what waits in its local queue waits for ever. */
static __always_inline bool runs_for_ever(s32 cpu)
{
	struct cpu_ctx *there = cpu_ctx_of(cpu);

	return there && there->task && there->granted_ns == SCX_SLICE_INF;
}

__weak __noinline int lane_kick(struct lane *lane __arg_nonnull, s32 cpu, bool preempt)
{
	if (!cpu_possible(cpu))
		return 0;
	scx_bpf_kick_cpu(cpu, preempt && !runs_for_others(lane, cpu) ? SCX_KICK_PREEMPT :
								       SCX_KICK_IDLE);
	return 0;
}

/* Tasks at the head of a queue that are looked at for one that may run on a CPU. */
#define HAND_LOOKS 32

__weak __noinline bool lane_hand(struct lane *lane __arg_nonnull, u64 dsq_id, s32 cpu, u32 queue)
{
	u64 to = lane_cpu_dsq(lane, cpu, queue);
	struct task_struct *p;
	bool handed = false;
	u32 looks = 0;

	if (!cpu_possible(cpu) || cpus_has(&cpus_off, cpu))
		return false;
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_dsq_move(&___it, p, to, 0)) {
			handed = true;
			break;
		}
		if (++looks >= HAND_LOOKS)
			break;
	}
	if (handed)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return handed;
}

__weak __noinline bool lane_ask(struct lane *lane __arg_nonnull, s32 cpu)
{
	u32 key = cpu, slot = lane->slot & ROOT_SLOT;
	struct cpu_asks *asked;

	if (!cpu_possible(cpu) || cpus_has(&cpus_off, cpu))
		return false;
	asked = bpf_map_lookup_elem(&asks, &key);
	if (!asked)
		return false;
	__sync_fetch_and_or(&asked->lanes[slot / 64], 1ULL << (slot & 63));
	/* It chooses anew, whoever has it: level 1 then lets the task go on whose turn it is. */
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Whether the lane's policy may be called; also for one that is being made. */
static __always_inline bool lane_has_policy(struct meta_lane *l)
{
	return l->lane.generation && l->state != LANE_RETIRED && !l->quarantined;
}

/* A CPU chooses: first it decides for the lanes that have asked it, whatever its next task. */
static __noinline void answer_asks(s32 cpu)
{
	u32 i, key = cpu;
	struct cpu_asks *asked = bpf_map_lookup_elem(&asks, &key);
	struct meta_lane *l;
	u64 bit, *word;

	if (!asked)
		return;
	bpf_for(i, 0, LANES_MAX) {
		word = &asked->lanes[(i & ROOT_SLOT) / 64];
		bit = 1ULL << (i & 63);
		if (!(READ_ONCE(*word) & bit))
			continue;
		__sync_fetch_and_and(word, ~bit);
		l = lane_at(i);
		if (lane_has_policy(l))
			policy_answer(&l->lane, cpu);
	}
}

__weak __noinline int lane_timer_set(struct lane *lane __arg_nonnull, u64 ns)
{
	lane_timer_start(lane, ns);
	return 0;
}

/* A lane's timer expires, if it is still that lane's. */
static void lane_timer_over(u32 slot, u64 generation)
{
	struct meta_lane *l = lane_if_current(slot, generation);

	if (l && lane_has_policy(l))
		policy_timer(&l->lane);
}

#endif
