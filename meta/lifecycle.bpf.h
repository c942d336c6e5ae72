/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How lanes come and go. All of it is called in sleepable context and by one
 * caller at a time: the start of the program, then user space under its lock.
 */
#ifndef METASCHED_LIFECYCLE_BPF_H
#define METASCHED_LIFECYCLE_BPF_H

#include <kcalls.bpf.h>
#include <level1.bpf.h>

#define ENOENT 2
#define ENODEV 19
#define EINVAL 22
#define ENOSPC 28

struct replace_result replaced;
struct reap_set reapable;

/*
 * Results of loops are kept here rather than in local variables: the verifier
 * follows the value of a local through every turn of a loop, and gives up; what
 * it reads from memory it takes as unknown, and one turn stands for all.
 */
struct {
	int err;
	int slot;
	u32 made;
	u32 left;
	u32 undrained;
	u32 sum;
} walk; /* not static: clang would split it, and its BTF would be wrong */

/* Creates the lane's queues; all of them or none. */
static int lane_create_queues(struct lane *lane, u32 queues)
{
	u32 queue;

	walk.err = 0;
	walk.made = 0;
	bpf_for(queue, 0, queues) {
		if (walk.err)
			continue;
		walk.err = scx_bpf_create_dsq(lane_dsq(lane, queue), -1);
		if (!walk.err)
			walk.made++;
	}
	if (!walk.err)
		return 0;
	bpf_for(queue, 0, walk.made) {
		scx_bpf_destroy_dsq(lane_dsq(lane, queue));
	}
	return walk.err;
}

/* A free slot, or -ENOSPC. */
static int free_slot(void)
{
	u32 i;

	walk.slot = -ENOSPC;
	bpf_for(i, 0, LANES_MAX) {
		if (walk.slot < 0 && lane_at(i)->state == LANE_FREE)
			walk.slot = i;
	}
	return walk.slot;
}

/* Fills a free slot with a new lane, not yet in force; its slot or an error. */
static int lane_make(u32 policy, u32 weight)
{
	u32 queues = policy_queues(policy);
	struct meta_lane *l;
	int slot, err;

	if (!queues)
		return -ENOENT;
	if (!weight)
		return -EINVAL;
	slot = free_slot();
	if (slot < 0)
		return slot;
	l = lane_at(slot);
	__builtin_memset(l, 0, sizeof(*l));
	l->lane.slot = slot;
	l->lane.policy = policy;
	l->lane.dsq = make_dsq_id(generations + 1, slot, 0);
	policy_default_options(&l->lane);
	err = lane_create_queues(&l->lane, queues);
	if (err)
		return err;
	generations++;
	l->lane.generation = generations;
	l->queues = queues;
	l->weight = weight;
	return slot;
}

/* The word that puts a lane in force; the first run through it is awaited. */
static u32 root_word_of(struct meta_lane *l)
{
	return l->lane.slot | ROOT_TRACKED |
	       (policy_keeps_tasks(l->lane.policy) ? ROOT_TASKS : 0);
}

/* The first lane, before any task is ours. */
static int lifecycle_start(u32 policy)
{
	int slot = lane_make(policy, WEIGHT_DFL);
	struct meta_lane *l;

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	l->state = LANE_ROOT;
	l->in_force_ns = bpf_ktime_get_ns();
	served = 1ULL << (slot & ROOT_SLOT);
	predecessor = l->lane.dsq;
	watch_episode = 1;
	root_word = root_word_of(l);
	return 0;
}

/*
 * Has every CPU choose anew, so that what runs comes through the new lane now and
 * not when its slice ends.
 */
static void kick_all(void)
{
	u32 cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * Puts a new lane in force. Everything about it is written before the one word
 * that makes it the root: a callback on another CPU sees the old lane or the new
 * one, each of them whole and served.
 */
static int lifecycle_replace(u32 policy, u32 weight)
{
	u32 root = root_word;
	struct meta_lane *old = lane_at(root), *l;
	int slot = lane_make(policy, weight);

	if (slot < 0)
		return slot;
	l = lane_at(slot);
	l->vtime = old->vtime;
	if (!(root & ROOT_WATCHED))
		watch_episode++;
	if (!(root & ROOT_TRACKED))
		predecessor = old->lane.dsq;
	if (served == 1ULL << (root & ROOT_SLOT))
		level1.drain_vtime = old->vtime;
	l->state = LANE_ROOT;
	replaced.generation = l->lane.generation;
	replaced.slot = slot;
	replaced.at_ns = l->in_force_ns = bpf_ktime_get_ns();
	__sync_fetch_and_or(&served, 1ULL << (slot & ROOT_SLOT));
	WRITE_ONCE(root_word, root_word_of(l));
	old->state = LANE_DRAINING;
	kick_all();
	return 0;
}

/*
 * Moves lanes on in their life, as far as the grace periods allow that user
 * space waited for; what waits for the next one is left in reapable. Returns the
 * number of lanes that are not yet done with. Once none drains and the root lane
 * has run a task, tracking ends.
 */
static int lifecycle_reap(u64 drained, u64 retired)
{
	struct meta_lane *l;
	u32 i, queue;
	u64 bit;

	walk.left = 0;
	walk.undrained = 0;
	reapable.drained = 0;
	reapable.retired = 0;
	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		bit = 1ULL << i;
		if (l->state == LANE_DRAINING) {
			walk.left++;
			if (lane_has_queued(l)) {
				walk.undrained++;
			} else if (drained & bit) {
				__sync_fetch_and_and(&served, ~bit);
				l->state = LANE_RETIRED;
				reapable.retired |= bit;
			} else {
				walk.undrained++;
				reapable.drained |= bit;
			}
		} else if (l->state == LANE_RETIRED) {
			if (!(retired & bit)) {
				walk.left++;
				reapable.retired |= bit;
				continue;
			}
			bpf_for(queue, 0, l->queues) {
				scx_bpf_destroy_dsq(lane_dsq(&l->lane, queue));
			}
			l->lane.generation = 0;
			l->state = LANE_FREE;
		}
	}
	if (!walk.undrained && (root_word & ROOT_TRACKED)) {
		if (lane_at(root_word)->first_run_ns)
			WRITE_ONCE(root_word, root_word & ~ROOT_TRACKED);
		else
			walk.left++;
	}
	return walk.left;
}

/* Brings nr_queued of every lane that is served up to date. */
static void lifecycle_count_queued(void)
{
	struct meta_lane *l;
	u32 i, queue;
	s32 nr;

	bpf_for(i, 0, LANES_MAX) {
		l = lane_at(i);
		walk.sum = 0;
		bpf_for(queue, 0, l->queues) {
			nr = scx_bpf_dsq_nr_queued(lane_dsq(&l->lane, queue));
			if (nr > 0)
				walk.sum += nr;
		}
		l->nr_queued = walk.sum;
	}
}

#endif
