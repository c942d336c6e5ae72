/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Level 1, the side of the CPUs: which lane a CPU serves next.
 *
 * The lane with work that lags most comes first. Lanes that drain count as one,
 * the oldest first, so that tasks leave them in the order in which they came to
 * different ones. A lane that is new comes first once, and pays for it afterwards;
 * unless it is in debt already, as it is if lanes are replaced faster than they can
 * be served. A lane that waited too long comes before all others, and now and then
 * the next one in order does, see ROTATION_NS.
 *
 * While turns are taken, the root lane and those that rest are one to all others: they
 * come first when the root's account lags most. Among themselves they have shares by the
 * tasks that are queued in them, see turn_vtime.
 *
 * The task that ran here counts as one more of its lane's, else a lane with one
 * task per CPU would never be seen to be busy; its run so far is charged first.
 * It is kept if its lane lags and has nobody else, unless that one was replaced.
 */
#ifndef METASCHED_DISPATCH_BPF_H
#define METASCHED_DISPATCH_BPF_H

#include <level1.bpf.h>

/* The slot after that one in a set that is not empty, round and round. */
static __always_inline u32 next_slot(u64 slots, u32 slot)
{
	u64 after = slots & ~((2ULL << (slot & ROOT_SLOT)) - 1);

	return lowest_slot(after ? after : slots);
}

/*
 * Level 1 takes a task of the lane to this CPU without its policy: whichever may
 * run here, in the order of the lane's queues.
 */
static __noinline bool lane_move_any(struct meta_lane *l)
{
	u32 queue;

	bpf_for(queue, 0, l->queues) {
		if (scx_bpf_dsq_move_to_local(lane_dsq(&l->lane, queue)))
			return true;
	}
	return false;
}

/*
 * Lets the lane's policy give this CPU a task. The task that ran here is put to
 * the policy too if it is the lane's, unless the lane was replaced: then the task
 * has to come through the new one.
 */
static __always_inline bool lane_dispatch(struct meta_lane *l, s32 cpu, struct task_struct *prev,
					  struct cpu_ctx *here)
{
	struct task_ctx *t;

	if (unlikely(l->quarantined))
		return lane_move_any(l);
	if (policy_keeps_tasks(l->lane.policy) && !lane_was_replaced(l) && here && prev &&
	    (prev->scx.flags & SCX_TASK_QUEUED) && lane_running(here, prev) == l) {
		t = task_ctx_find(prev);
		if (t && t->generation == l->lane.generation)
			return policy_dispatch_task(&l->lane, cpu, prev, &t->policy,
						    prev->se.sum_exec_runtime - here->ran_from_ns);
	}
	return policy_dispatch_task(&l->lane, cpu, NULL, NULL, 0);
}

/* One lane is in force, and its policy keeps state per task. */
static __noinline bool dispatch_alone(struct meta_lane *l, s32 cpu, struct task_struct *prev)
{
	return lane_dispatch(l, cpu, prev, cpu_ctx_here());
}

/* Serves one of several lanes. */
static __noinline bool lane_serve(struct meta_lane *l, s32 cpu, struct task_struct *prev,
				  struct cpu_ctx *here)
{
	u64 bit = slot_bit(l->lane.slot);

	if (lane_dispatch(l, cpu, prev, here)) {
		l->serves++;
	} else {
		/* What the policy leaves though it could run here speaks against it. */
		if (likely(!(READ_ONCE(busy.urgent) & bit)) || !lane_move_any(l))
			return false;
		l->rescues++;
	}
	/* Either way: one whose policy does not dispatch must not have every choice. */
	if (unlikely(READ_ONCE(busy.urgent) & bit))
		__sync_fetch_and_and(&busy.urgent, ~bit);
	return true;
}

/* By what the lanes of a set are compared: the one with the least key comes first. */
enum lane_order {
	BY_AGE,
	BY_WAIT,
	BY_TURN,
	BY_VTIME,
	BY_POSITION, /* the same, and a new lane comes first once */
};

static __always_inline u64 lane_key(u32 slot, enum lane_order order)
{
	struct meta_lane *l = lane_at(slot);

	switch (order) {
	case BY_AGE:
		return l->in_force_ns;
	case BY_WAIT:
		return -l->unserved_sweeps;
	case BY_TURN:
		return READ_ONCE(turn_vtime[slot & ROOT_SLOT]);
	case BY_VTIME:
		return l->vtime;
	case BY_POSITION:
		break;
	}
	return l->first_run_ns ? l->vtime : l->vtime - LANE_CREDIT_NS;
}

/* The lane of a set that comes first, the lower slot of two alike; LANES_MAX if it is empty. */
static __always_inline u32 least_lane(u64 set, enum lane_order order)
{
	u32 i, slot, best = LANES_MAX;
	u64 key, lowest = 0;

	bpf_for(i, 0, LANES_MAX) {
		if (!set)
			break;
		slot = lowest_slot(set);
		set &= set - 1;
		key = lane_key(slot, order);
		if (best == LANES_MAX || vtime_before(key, lowest)) {
			best = slot;
			lowest = key;
		}
	}
	return best;
}

/* Of lanes that drain, the one that came into force first, and so was replaced first. */
static __noinline u32 oldest_lane(u64 set)
{
	return least_lane(set, BY_AGE);
}

/*
 * Of lanes that are urgent, the one that has waited longest. With more than a CPU has time
 * for in URGENT_SWEEPS all of them are urgent always, and in the order of slots the last
 * ones would be served out of their turn only.
 */
static __noinline u32 longest_unserved(u64 set)
{
	return least_lane(set, BY_WAIT);
}

/*
 * Of lanes of a cycle, the one to be served first. In a long turn the lane in force has
 * its first run at once, so that the turn takes effect when it begins. In a short one
 * that would be the task that ran when it began, which has the CPU anew each time.
 */
static __noinline u32 first_of_turns(u64 set, struct meta_lane *in_force)
{
	if (cycle.settles && !in_force->first_run_ns && set & slot_bit(in_force->lane.slot))
		return in_force->lane.slot;
	return least_lane(set, BY_TURN);
}

/*
 * The lane of a set of several that is to be served first. Not static: so the verifier reads
 * it once, and not with every path that leads to it.
 */
__noinline u32 first_of_lanes(u64 set, u32 root)
{
	u64 urgent = READ_ONCE(busy.urgent) & set;
	u64 drains = READ_ONCE(draining) & set;
	u64 rests = READ_ONCE(resting) & set;
	/* A turn that begins comes before those that rest, and before nobody else. */
	enum lane_order order = rests ? BY_VTIME : BY_POSITION;
	struct meta_lane *in_force = lane_at(root);
	u64 lowest = 0;
	u32 slot, best;

	if (unlikely(urgent))
		return longest_unserved(urgent);
	best = least_lane(set & ~(drains | rests), order);
	if (best != LANES_MAX)
		lowest = lane_key(best, order);
	if (unlikely(rests)) {
		slot = in_force->lane.slot;
		if (best == slot)
			rests |= slot_bit(slot);
		if (best == LANES_MAX || best == slot || vtime_before(in_force->vtime, lowest)) {
			best = first_of_turns(rests, in_force);
			lowest = in_force->vtime;
		}
	}
	if (unlikely(drains) && (best == LANES_MAX || vtime_before(level1.drain_vtime, lowest)))
		best = oldest_lane(drains);
	return best;
}

/*
 * The lane of a set that is to be served first; LANES_MAX if the set is empty. Most often
 * one lane alone has work, and nothing needs to be compared.
 */
static __always_inline u32 first_lane(u64 set, u32 root)
{
	if (!set)
		return LANES_MAX;
	return likely(!(set & (set - 1))) ? lowest_slot(set) : first_of_lanes(set, root);
}

/* Remembers how far level 1 has come, when a lane is served in its turn. */
static __always_inline void level1_advance(u64 vtime)
{
	if (vtime_before(level1.vtime_now, vtime))
		level1.vtime_now = vtime;
}

/* Whether this choice goes to the next lane in order, see ROTATION_NS. */
static __always_inline bool rotation_is_due(struct cpu_ctx *here)
{
	u64 now = scx_bpf_now(), since = now - here->rotated_ns;
	bool asked_for = here->preempted;

	here->preempted = 0;
	if (since < ROTATION_NS || (asked_for && since < 2 * ROTATION_NS))
		return false;
	here->rotated_ns = now;
	return true;
}

/*
 * Kernel threads that wait for any CPU come before all lanes; but after one that would go on,
 * lanes come first, if they have work for this CPU: some compress or encrypt for seconds.
 */
static __always_inline bool serve_kthreads(struct cpu_ctx *here)
{
	here->kthread_chosen = scx_bpf_dsq_move_to_local(KTHREADS_DSQ);
	return here->kthread_chosen;
}

/* Tasks at the head of a queue for which an idle CPU is looked for. */
#define LEFT_LOOKS 8

/*
 * @cpu goes idle beside this queue: tells an idle CPU that may run one of its first tasks.
 * Returns whether there is no more to do: one was told, or a task is left that @cpu itself may
 * run. Its policy left that one, or it came at this moment and its CPU was told; CPUs that
 * told each other of such tasks would never end. Not static, as first_of_lanes() is not.
 */
__noinline bool tell_of_left(u64 dsq, s32 cpu)
{
	struct task_struct *p;
	u32 looks = 0;
	s32 idle;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0) {
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return true;
		}
		if (++looks >= LEFT_LOOKS)
			break;
	}
	return false;
}

/*
 * A CPU has found nothing that it may run. Who is told of a task need not be who takes it:
 * of two CPUs that were told of two tasks at once the one may take the other's, which then
 * finds a task that it may not run. So it tells on.
 */
static __noinline void goes_idle(s32 cpu, u32 root)
{
	u64 left = root & ROOT_SHARED ? candidate_lanes(root) : slot_bit(root);
	struct meta_lane *l;
	u32 i, queue;

	if (root & ROOT_LANES && tell_of_left(KTHREADS_DSQ, cpu))
		return;
	bpf_for(i, 0, LANES_MAX) {
		if (!left)
			break;
		l = lane_at(lowest_slot(left));
		left &= left - 1;
		bpf_for(queue, 0, l->queues) {
			if (tell_of_left(lane_dsq(&l->lane, queue), cpu))
				return;
		}
	}
}

/*
 * Several lanes are served: tries them in their order until one gives a task, and lets the
 * one that ran here go on if none does. Whether there is one to run.
 */
static __noinline bool dispatch_shared(s32 cpu, struct task_struct *prev, u32 root)
{
	struct cpu_ctx *here = cpu_ctx_here();
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool in_turn = true, drains = false;
	u32 i, best, prev_slot = LANES_MAX;
	u64 left = candidate_lanes(root), late;
	bool after_kthread = false;
	struct meta_lane *l;
	u64 vtime;

	if (here && root & ROOT_LANES) {
		after_kthread = here->kthread_chosen && goes_on;
		here->kthread_chosen = 0;
		if (!after_kthread && serve_kthreads(here))
			return true;
	}
	if (here && prev && goes_on) {
		l = lane_running(here, prev);
		if (l)
			charge_running(l, here, prev);
		if (root & ROOT_LANES && (!l || here->placed_seq != READ_ONCE(assign_seq) ||
					  here->cgroup != cgroup_of(prev)))
			l = change_lane(l, here, prev, root);
		if (l && !lane_was_replaced(l)) {
			prev_slot = l->lane.slot;
			left |= slot_bit(prev_slot);
		}
	}
	if (here && left && rotation_is_due(here)) {
		best = next_slot(left, (u32)here->turn);
		here->turn = best;
		/* Out of its turn, so that it tells nothing about how far level 1 has come. */
		if (best != prev_slot && lane_serve(lane_at(best), cpu, prev, here))
			return true;
	}
	late = READ_ONCE(busy.lingering) & ~READ_ONCE(busy.lanes) & ~READ_ONCE(draining);
	/* A lane that has nobody but who runs here is empty to the sweep, and has its turn. */
	if (prev_slot != LANES_MAX)
		late &= ~slot_bit(prev_slot);
	bpf_for(i, 0, LANES_MAX) {
		/* Those that the sweep found empty are most likely still so. */
		best = first_lane(left & ~late ? left & ~late : left, root);
		if (best == LANES_MAX)
			break;
		left &= ~slot_bit(best);
		l = lane_at(best);
		vtime = lane_payer(l, root)->vtime;
		if (lane_serve(l, cpu, prev, here)) {
			if (l->state == LANE_DRAINING)
				vtime = level1.drain_vtime;
			/* What drained is empty: that leaves no claim for lanes that will. */
			else if (!drains && vtime_before(level1.drain_vtime, vtime))
				level1.drain_vtime = vtime;
			if (in_turn)
				level1_advance(vtime);
			return true;
		}
		if (prev && best == prev_slot) {
			scx_bpf_task_set_slice(prev, SHARED_SLICE_NS);
			if (in_turn)
				level1_advance(vtime);
			return true;
		}
		/* It has nobody, or only tasks that may not run here: then those after it are early. */
		if (lane_has_queued(l)) {
			in_turn = false;
			drains |= l->state == LANE_DRAINING;
		}
	}
	if (here && after_kthread && serve_kthreads(here))
		return true;
	/* Nobody else wants this CPU; if its lane is known, that one was replaced. */
	if (!prev || !goes_on)
		return false;
	if (here && (root & ROOT_LANES || READ_ONCE(resting)))
		change_lane(NULL, here, prev, root);
	scx_bpf_task_set_slice(prev, SHARED_SLICE_NS);
	return true;
}

#endif
