/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What level 1 does for policies, as sched.bpf.h declares it: whatever takes effect on a
 * CPU that may be another lane's. Global and weak for the same reasons as the functions
 * in table.bpf.h.
 */
#ifndef METASCHED_SERVICES_BPF_H
#define METASCHED_SERVICES_BPF_H

#include <kcalls.bpf.h>
#include <accounts.bpf.h>
#include <requeue.bpf.h>
#include <timer.bpf.h>

/*
 * Lanes that ask a CPU to decide interrupt it once in ASKS_NS at most, or in ASKS_TIMES times the length of
 * its last answer: more often would take too much of the CPU from the tasks that run there.
 */
#define ASKS_NS (100ULL * 1000)
#define ASKS_TIMES 10
#define ASKS_UNUSUAL 4
/* A timer that is late by that much went with its CPU, and is set again. */
#define ASKS_LATE_NS (10 * ASKS_NS)
/* The least time to which a lane's timer is set: it interrupts the task that runs there, too. */
#define LANE_TIMER_LEAST_NS (100ULL * 1000)

/* The lanes that wait for a CPU's answer, and when it may be interrupted for them. */
struct cpu_asks {
	u64 lanes[LANES_MAX / 64]; /* which have asked it to decide for others */
	u64 quiet_until_ns; /* it is not interrupted again before, by CLOCK_MONOTONIC */
	u64 interrupted_ns; /* when it was last */
	u64 rest_ns; /* how long it is left alone after that, by what its last answer took */
	u64 usual_ns; /* what its answers take, on the average */
	u64 timer_ns; /* by when its timer comes; 0: it is not set */
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
	struct cpu_ctx *cpu = cpu_ctx_of_task(p);

	if (cpu)
		grant_slice(cpu, p, slice_ns);
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

/* The CPU is kicked for another reason than to answer. */
static __always_inline void ends_run(struct cpu_ctx *there)
{
	if (all_uses() & USES_ANSWER && there)
		there->kicked = 1;
}

__weak __noinline int lane_kick(struct lane *lane __arg_nonnull, s32 cpu, bool preempt)
{
	if (!cpu_possible(cpu))
		return 0;
	preempt = preempt && !runs_for_others(lane, cpu);
	if (preempt)
		ends_run(cpu_ctx_of(cpu));
	scx_bpf_kick_cpu(cpu, preempt ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	return 0;
}

/* Tasks at an end of a queue that are looked at for one that may run on a CPU. */
#define HAND_LOOKS 32

/*
 * A task was put into a queue of a CPU. That may have gone off line meanwhile, and have had its queues
 * enqueued anew before the task came: each side writes before it reads what the other wrote.
 */
static __always_inline void after_hand(s32 cpu, u64 dsq_id)
{
	if (unlikely(!cpu_takes_tasks(cpu)))
		requeue_all(dsq_id);
}

/*
 * Puts the first task of @dsq_id that may run on @cpu and has @mark in the bits @mask of its vtime into
 * the queue @to of that CPU, if it is on line. Whether there is one among the first @most.
 */
static __always_inline bool hand_first(struct lane *lane, u64 dsq_id, s32 cpu, u64 to, u64 mask,
				       u64 mark, u32 most)
{
	struct task_struct *p;
	bool handed = false;
	u32 looks = count_from;

	if (!cpu_possible(cpu) || !cpu_takes_tasks(cpu))
		return false;
	lane_mark(lane, to);
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if ((p->scx.dsq_vtime & mask) == mark && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    scx_bpf_dsq_move(&___it, p, to, 0)) {
			handed = true;
			break;
		}
		if (++looks >= most)
			break;
	}
	return handed;
}

__weak __noinline bool lane_hand(struct lane *lane __arg_nonnull, u64 dsq_id, s32 cpu, u32 queue)
{
	u64 to = lane_cpu_dsq(lane, cpu, queue);

	if (!hand_first(lane, dsq_id, cpu, to, 0, 0, HAND_LOOKS))
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	after_hand(cpu, to);
	return true;
}

/* Tasks at the head of a queue by vtime that are looked at for one of a policy's mark. */
#define MARKED_LOOKS 64

__weak __noinline u64 lane_first(struct lane *lane __arg_nonnull, u64 dsq_id, s32 cpu, s32 other)
{
	u64 vtime = LANE_NOBODY;
	struct task_struct *p;
	u32 looks = count_from;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    bpf_cpumask_test_cpu(other, p->cpus_ptr)) {
			vtime = p->scx.dsq_vtime;
			break;
		}
		if (++looks >= MARKED_LOOKS)
			break;
	}
	return vtime;
}

/* By way of a queue, as lane_hand(): that a task may not migrate the kernel sees when a CPU takes it. */
__weak __noinline bool lane_hand_marked(struct lane *lane __arg_nonnull, u64 dsq_id, s32 cpu,
					u32 queue, u64 mark)
{
	u64 to = lane_cpu_dsq(lane, cpu, queue);

	if (!hand_first(lane, dsq_id, cpu, to, LANE_MARK_MASK, mark, MARKED_LOOKS))
		return false;
	if (cpu != (s32)bpf_get_smp_processor_id()) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		after_hand(cpu, to);
	}
	return true;
}

__weak __noinline int lane_rest(struct lane *lane __arg_nonnull,
				struct task_struct *p __arg_trusted)
{
	struct cpu_ctx *here = cpu_ctx_here();

	if (here)
		here->rests = (u64)(unsigned long)p;
	return 0;
}

/* The task of which its policy has said so in this callback, as a number; 0 if of none. */
__weak __noinline u64 who_rests(void)
{
	struct cpu_ctx *here = cpu_ctx_here();

	return here ? here->rests : 0;
}

static __always_inline bool task_rests(struct task_struct *p)
{
	return is_used(USES_REST) && p && who_rests() == (u64)(unsigned long)p;
}

static __always_inline void nobody_rests(void)
{
	struct cpu_ctx *here = is_used(USES_REST) ? cpu_ctx_here() : NULL;

	if (here)
		here->rests = 0;
}

__weak __noinline bool lane_move_before(struct lane *lane __arg_nonnull, u64 dsq_id, u32 word,
					u64 limit, u64 looks)
{
	u64 from = looks & SCX_DSQ_ITER_REV, most = looks & (SCX_DSQ_ITER_REV - 1), looked = 0;
	u32 cpu = bpf_get_smp_processor_id();
	struct task_struct *p;
	struct task_ctx *t;
	bool moved = false;

	bpf_for_each(scx_dsq, p, dsq_id, from) {
		t = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? task_ctx_find(p) : NULL;
		if (t && t->generation == lane->generation &&
		    vtime_before(t->policy.state[word % (TASK_STATE_BYTES / 8)], limit) &&
		    scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0)) {
			moved = true;
			break;
		}
		if (++looked >= most)
			break;
	}
	return moved;
}

__weak __noinline bool lane_move_marked(struct lane *lane __arg_nonnull, u64 dsq_id, u32 word,
					u32 mark, u32 looks)
{
	u32 cpu = bpf_get_smp_processor_id(), looked = count_from;
	struct task_struct *p;
	struct task_ctx *t;
	bool moved = false;

	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		t = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? task_ctx_find(p) : NULL;
		if (t && t->generation == lane->generation &&
		    t->policy.state[word % (TASK_STATE_BYTES / 8)] >> 48 == mark &&
		    scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0)) {
			moved = true;
			break;
		}
		if (++looked >= looks)
			break;
	}
	return moved;
}

/*
 * Sets the timer that interrupts the CPU in @ns for a lane that asked too soon. Mostly the CPU comes to
 * dispatch before that, and is asked again: a timer that is set is left as it is, since to start one costs
 * an interrupt where run queues are locked. Each side writes its word before it reads the other's.
 */
static __always_inline void asks_set_timer(struct cpu_asks *asked, s32 cpu, u64 now, u64 ns)
{
	u64 set = READ_ONCE(asked->timer_ns);

	if (vtime_before(now, set))
		return;
	if (__sync_val_compare_and_swap(&asked->timer_ns, set, now + ns + ASKS_LATE_NS) == set &&
	    !timer_set_here(TIMER_ASKS + cpu, ns, 0))
		WRITE_ONCE(asked->timer_ns, 0);
}

/*
 * Kicks the CPU, so that it comes to dispatch, even if it runs a task of another lane. That answers all
 * lanes that have asked. A lane that asks too soon is answered later, by a timer.
 */
__weak __noinline bool lane_ask(struct lane *lane __arg_nonnull, s32 cpu)
{
	u32 key = cpu, slot = lane->slot & ROOT_SLOT;
	u64 now, bit = 1ULL << (slot & 63);
	struct cpu_asks *asked;
	s64 early_ns;

	if (!cpu_possible(cpu) || !cpu_takes_tasks(cpu))
		return false;
	asked = bpf_map_lookup_elem(&asks, &key);
	if (!asked)
		return false;
	now = bpf_ktime_get_ns();
	early_ns = READ_ONCE(asked->quiet_until_ns) - now;
	__sync_fetch_and_or(&asked->lanes[slot / 64], bit);
	if (early_ns > 0) {
		asks_set_timer(asked, cpu, now, early_ns);
		return true;
	}
	/* Again if it has asked: while the kernel bypasses us a kick leads nowhere. */
	WRITE_ONCE(asked->quiet_until_ns, now + ASKS_NS);
	WRITE_ONCE(asked->interrupted_ns, now);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* Whether a lane waits for that CPU to decide. */
static __always_inline bool somebody_asks(struct cpu_asks *asked)
{
	u32 word;

	bpf_for(word, 0, LANES_MAX / 64) {
		if (word < LANES_MAX / 64 && READ_ONCE(asked->lanes[word]))
			return true;
	}
	return false;
}

/*
 * The timer for lanes that asked a CPU too soon has expired. Returns in how many ns it expires again, or 0.
 * The CPU may have come to dispatch meanwhile, and be asked again: that is due as well, unless it was
 * interrupted too recently.
 */
static u64 asks_are_due(s32 cpu)
{
	u32 key = cpu;
	struct cpu_asks *asked = bpf_map_lookup_elem(&asks, &key);
	u64 now;
	s64 early_ns;

	if (!asked)
		return 0;
	now = bpf_ktime_get_ns();
	__sync_lock_test_and_set(&asked->timer_ns, 0);
	if (!cpu_possible(cpu) || !somebody_asks(asked))
		return 0;
	early_ns = READ_ONCE(asked->interrupted_ns) + READ_ONCE(asked->rest_ns) - now;
	if (early_ns > 0) {
		asked->timer_ns = now + early_ns + ASKS_LATE_NS;
		return early_ns;
	}
	WRITE_ONCE(asked->interrupted_ns, now);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Whether the lane's policy may be called; also for one that is being made. */
static __always_inline bool lane_has_policy(struct meta_lane *l)
{
	return l->lane.generation && l->state != LANE_RETIRED && !l->quarantined;
}

/*
 * The lane in that slot has asked this CPU to decide. Its account pays for the time that takes,
 * which the kernel adds to the run of this CPU's task; so that one's lane gets it back.
 */
static __noinline void answer_lane(u32 slot, s32 cpu)
{
	struct cpu_ctx *here = cpu_ctx_here();
	struct meta_lane *l = lane_at(slot);
	u64 from_ns, took_ns;

	if (!here || !lane_has_policy(l))
		return;
	from_ns = bpf_ktime_get_ns();
	policy_answer(&l->lane, cpu);
	if (!(READ_ONCE(root_word) & ROOT_SHARED))
		return;
	took_ns = bpf_ktime_get_ns() - from_ns;
	here->uncharged_ns -= took_ns;
	lane_charge(l, took_ns);
}

/*
 * For how long a CPU is left alone after an answer that took so long. One of many times the usual length was
 * interrupted, or a host had the CPU meanwhile: of that some times the usual length counts.
 */
static __always_inline u64 asks_rest_ns(struct cpu_asks *asked, u64 took_ns)
{
	u64 most_ns = asked->usual_ns * ASKS_UNUSUAL;
	u64 rest_ns = (took_ns < most_ns ? took_ns : most_ns) * ASKS_TIMES;

	asked->usual_ns = (asked->usual_ns * 3 + took_ns) / 4;
	return rest_ns < ASKS_NS ? ASKS_NS : rest_ns;
}

/* A CPU comes to dispatch: first it decides for the lanes that have asked it. Whether one has. */
static __noinline bool answer_asks(s32 cpu)
{
	u32 i, word, key = cpu;
	struct cpu_asks *asked = bpf_map_lookup_elem(&asks, &key);
	bool answers = false;
	u64 set, from_ns, rest_ns;

	if (!asked)
		return false;
	bpf_for(word, 0, LANES_MAX / 64) {
		if (word >= LANES_MAX / 64 || !READ_ONCE(asked->lanes[word]))
			continue;
		from_ns = bpf_ktime_get_ns();
		/* Before they can ask again. */
		WRITE_ONCE(asked->quiet_until_ns, from_ns + ASKS_NS);
		set = __sync_lock_test_and_set(&asked->lanes[word], 0);
		bpf_for(i, 0, 64) {
			if (!set)
				break;
			answer_lane(word * 64 + lowest_account(set), cpu);
			set &= set - 1;
		}
		rest_ns = asks_rest_ns(asked, bpf_ktime_get_ns() - from_ns);
		WRITE_ONCE(asked->rest_ns, rest_ns);
		WRITE_ONCE(asked->quiet_until_ns, from_ns + rest_ns);
		answers = true;
	}
	return answers;
}

__weak __noinline bool lane_timer_set(struct lane *lane __arg_nonnull, u64 ns)
{
	u32 slot = lane->slot & ROOT_SLOT;

	if (ns < LANE_TIMER_LEAST_NS)
		ns = LANE_TIMER_LEAST_NS;
	lane_at(slot)->timer_of = lane->generation;
	return timer_set_here(TIMER_LANES + slot, ns, 0);
}

static void lane_timer_over(u32 slot)
{
	struct meta_lane *l;

	/* The compiler knows its bounds and drops the mask; the verifier of 7.0 needs it. */
	barrier_var(slot);
	l = lane_at(slot);
	if (lane_has_policy(l) && l->timer_of == l->lane.generation)
		policy_timer(&l->lane);
}

/* So often a CPU that is to sleep lightly is interrupted. */
#define AWAKE_NS (100ULL * 1000)
/* Its timer comes by then. One that did not went with its CPU, and is set again. */
#define AWAKE_LATEST_NS (10 * AWAKE_NS)

/* Where run queues are locked the start of a timer costs an interrupt: it goes on by itself. */
__weak __noinline int lane_stay_awake(struct lane *lane __arg_nonnull, u64 ns)
{
	u64 now = bpf_ktime_get_ns(), until = now + ns;
	struct cpu_ctx *here = cpu_ctx_here();

	if (!here)
		return 0;
	if (vtime_before(here->awake_until_ns, until))
		here->awake_until_ns = until;
	if (vtime_before(now, here->awake_timer_ns))
		return 0;
	here->awake_timer_ns = now + AWAKE_LATEST_NS;
	timer_set_here(TIMER_AWAKE + bpf_get_smp_processor_id(), AWAKE_NS, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/*
 * The timer of a CPU that is to sleep lightly has expired: in what time it does again, or 0. While a
 * kernel thread runs there it does, for that is soon over; level 1 does not see it.
 */
static u64 stay_awake(s32 cpu)
{
	struct cpu_ctx *there = cpu_ctx_of(cpu);
	u64 now = bpf_ktime_get_ns();

	if (!there)
		return 0;
	if (there->task || !vtime_before(now, there->awake_until_ns)) {
		there->awake_timer_ns = 0;
		return 0;
	}
	there->awake_timer_ns = now + AWAKE_LATEST_NS;
	return AWAKE_NS;
}

/*
 * Whether a CPU's task started with an infinite slice: what waits for that CPU alone may wait for
 * ever. Where the kernel has stopped that CPU's ticks none ends a slice that it was given since.
 */
static __always_inline bool runs_for_ever(s32 cpu)
{
	struct cpu_ctx *there = cpu_ctx_of(cpu);

	return there && there->task && there->tickless;
}

/* How a task is put into the local queue of its CPU: a run there without an end makes way for it. */
static __always_inline u64 local_enq_flags(struct task_struct *p, u64 enq_flags)
{
	if (is_used(USES_INFINITE) && runs_for_ever(scx_bpf_task_cpu(p)))
		enq_flags |= SCX_ENQ_PREEMPT;
	return enq_flags;
}

#endif
