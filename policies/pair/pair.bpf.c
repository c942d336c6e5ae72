/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pair: two CPUs of a core run tasks of one cgroup at a time.
 *
 * What runs on one thread of a core can be watched from the other: by how long it takes, by what
 * it leaves in the caches. So a cgroup has both, for a time; then both stop, and the next cgroup
 * has them. A CPU is idle while its partner runs tasks of a cgroup that has no more of them.
 *
 * It helps where cgroups are of tenants that do not trust one another. It hurts otherwise: CPUs are
 * idle beside tasks that wait, the more the fewer tasks each cgroup has.
 */
#include <sched.bpf.h>
#include "options.h"

enum { pair_options(OPTION_INDEX) };
enum { pair_counters(COUNTER_INDEX) };

/*
 * All tasks wait in one queue, in the order of
 *
 *	 63            24 23             0
 *	+----------------+----------------+
 *	|      turn      |     cgroup     |
 *	+----------------+----------------+
 *
 * where the turn is what the cgroup has run, in units of 2^20 ns, and a batch more for each of its
 * tasks that waits before this one. So the cgroup that has had least comes first, each one's tasks
 * are first in, first out, and those of one that has many leave room for others between them.
 */
#define PAIR_TURN_SHIFT 20
/*
 * A cgroup that slept, or could not run as much as others, has no more batches to its credit than this. Else a
 * cgroup that is bound to few CPUs would stay behind for ever, and keep others off these.
 */
#define PAIR_CREDIT 8
/* The number of a cgroup of which nothing is known, and of one that is about to be known. */
#define PAIR_UNKNOWN LANE_MARK_MASK
#define PAIR_ANY (LANE_MARK_MASK - 1)

/* A run is no shorter than this: what waits for a tick to notice would wait for a whole one more. */
#define PAIR_RUN_LEAST_NS (500ULL * 1000)
/*
 * And no longer than this, within a time that is: its CPU chooses again, so that level 1 sees that the
 * lane is served. A lane that is not for 32 ms has a task of it run past us, maybe beside another cgroup.
 */
#define PAIR_RUN_MOST_NS (20ULL * 1000 * 1000)
/*
 * The time of a cgroup is no shorter than this, whatever the option says: less would be over before
 * it began, and the two CPUs would stop each other for ever. A value for a lane's last policy may come
 * to the next one, which has another option in that place.
 */
#define PAIR_BATCH_LEAST_NS (1000ULL * 1000)
/*
 * What was handed to the partner is waited for so long: another lane or class may have that CPU. So
 * long, too, a CPU waits for its partner to make way before it takes the pair, see pair_take_over().
 */
#define PAIR_HELD_NS (5ULL * 1000 * 1000)
/* CPUs that are looked at for one where a task that wakes may run beside its own cgroup. */
#define PAIR_LOOKS 64
/* How often two CPUs may disturb each other in one step. */
#define PAIR_TRIES 4

/* Which of the two CPUs run tasks, and above these bits of which cgroup. */
#define PAIR_CPUS_BITS 2
#define PAIR_CPUS_MASK 3ULL

struct pair_lane {
	u64 turn; /* of the cgroup that has had most of those that ran */
	u64 groups; /* cgroups that have a number */
	u64 timed; /* the timer is set */
};

struct pair_group {
	u64 number; /* and above LANE_MARK_BITS the generation of the lane that gave it */
	u64 queued; /* tasks that were queued */
	u64 started; /* and of these the ones that have run since */
	u64 turn; /* of the task that was queued last */
	u64 ran_ns; /* on all CPUs; a cgroup that slept is moved up, see PAIR_CREDIT */
};

struct pair_task {
	u64 number; /* of its cgroup */
	u64 queued; /* and counted there as one */
	u64 serial; /* of that cgroup, and its place: see lane_group_find() */
	u64 place;
};

struct pair_cpu {
	/* Of the pair, where its lower CPU keeps it. */
	u64 runs;
	u64 since_ns; /* when that cgroup's time began */
	/* Of the CPU. */
	u64 next; /* it was given a task that has not started */
	u64 handed_ns; /* when its partner handed it a task, or it may begin with it; 0: it holds none that it knows */
	u64 asked_ns; /* since when its partner is to make way for what it holds; 0: it is not, or has */
};

/* What a CPU sees of its pair. */
struct pair {
	struct pair_cpu *both;
	struct pair_cpu *mine;
	s32 partner; /* the CPU itself where it is alone */
	u16 me, other; /* bits of pair_cpu.runs */
};

static __always_inline struct pair_cpu *pair_cpu(struct lane *lane, u32 cpu)
{
	struct cpu_state *s = lane_cpu(lane, cpu);

	return s ? STATE_OF(s, struct pair_cpu) : NULL;
}

/* The other CPU of a core of two, or in the other half of the machine. */
static __always_inline u32 pair_other(u32 cpu)
{
	u32 half = nr_cpus() / 2, sibling = cpu_sibling(cpu);

	if (sibling != cpu && cpu_sibling(sibling) == cpu)
		return sibling;
	if (cpu < half)
		return cpu + half;
	return cpu < 2 * half ? cpu - half : cpu;
}

/*
 * The other CPU if each is the other's; else the CPU itself, which is alone. Global, as those below:
 * the kernel's verifier reads it once, and not on each way on which it is called.
 */
__weak __noinline u32 pair_partner(u32 cpu)
{
	u32 other = pair_other(cpu);

	return cpu_possible(other) && pair_other(other) == cpu ? other : cpu;
}

static __always_inline bool pair_find(struct lane *lane, s32 cpu, struct pair *pair)
{
	u32 partner = pair_partner(cpu);
	bool lower = (u32)cpu <= partner;

	pair->partner = partner;
	pair->mine = pair_cpu(lane, cpu);
	pair->both = pair_cpu(lane, lower ? cpu : partner);
	pair->me = lower ? 1 : 2;
	pair->other = lower ? 2 : 1;
	return pair->mine && pair->both;
}

/*
 * The number of a task's cgroup in this lane, given at first sight. Two CPUs may both give one:
 * the exchange keeps one of the two.
 */
static u64 pair_number(struct lane *lane, struct lane_group *group)
{
	struct pair_group *g = group ? STATE_OF(group, struct pair_group) : NULL;
	u64 was, number;

	if (!g)
		return PAIR_UNKNOWN;
	was = READ_ONCE(g->number);
	if (was >> LANE_MARK_BITS == lane->generation)
		return was & LANE_MARK_MASK;
	number = __sync_fetch_and_add(&STATE_OF(lane, struct pair_lane)->groups, 1) % PAIR_ANY;
	number |= lane->generation << LANE_MARK_BITS;
	if (__sync_val_compare_and_swap(&g->number, was, number) == was) {
		g->queued = 0;
		g->started = 0;
		g->turn = 0;
		g->ran_ns = 0;
	}
	return READ_ONCE(g->number) & LANE_MARK_MASK;
}

/* Whether a CPU whose pair is in that state may run tasks of a cgroup: its partner does, or nothing. */
static __always_inline bool pair_fits(u64 runs, u64 other, u64 number)
{
	return !(runs & other) || runs >> PAIR_CPUS_BITS == number;
}

/* The CPU is to run a task of that cgroup; false if its partner runs one of another. */
__weak __noinline bool pair_claim(struct lane *lane __arg_nonnull, s32 cpu, u64 number, u64 now)
{
	struct pair pair;
	u64 was, will;
	u32 i;

	if (!pair_find(lane, cpu, &pair))
		return false;
	bpf_for(i, 0, PAIR_TRIES) {
		was = READ_ONCE(pair.both->runs);
		if (!pair_fits(was, pair.other, number))
			return false;
		will = number << PAIR_CPUS_BITS | (was & PAIR_CPUS_MASK) | pair.me;
		if (was != will && __sync_val_compare_and_swap(&pair.both->runs, was, will) != was)
			continue;
		/* The time of a cgroup goes on though nobody ran for a moment. */
		if (was >> PAIR_CPUS_BITS != number)
			pair.both->since_ns = now;
		return true;
	}
	return false;
}

static __always_inline void pair_release(struct pair *pair)
{
	if (READ_ONCE(pair->both->runs) & pair->me)
		__sync_fetch_and_and(&pair->both->runs, ~(u64)pair->me);
}

/* For how long a cgroup has a pair. */
static __always_inline u64 pair_batch_ns(struct lane *lane)
{
	u64 batch_ns = lane->options[pair_option_pair_batch_dur_ns];

	return batch_ns < PAIR_BATCH_LEAST_NS ? PAIR_BATCH_LEAST_NS : batch_ns;
}

/* What is left of a time that began at @since_ns; a rest that is not worth a run is nothing. */
__weak __noinline u64 pair_rest_ns(struct lane *lane __arg_nonnull, u64 since_ns, u64 now)
{
	u64 batch_ns = pair_batch_ns(lane);
	s64 ran_ns = now - since_ns;

	/* Clocks of two CPUs may differ a little. */
	if (ran_ns < 0)
		ran_ns = 0;
	return (u64)ran_ns + PAIR_RUN_LEAST_NS <= batch_ns ? batch_ns - ran_ns : 0;
}

/* What is left of the time of its cgroup. */
static __always_inline u64 pair_left_ns(struct lane *lane, struct pair *pair, u64 now)
{
	return pair_rest_ns(lane, READ_ONCE(pair->both->since_ns), now);
}

/* Whether a CPU is idle and may run a task of that cgroup; it is claimed. */
static bool pair_claim_idle(struct lane *lane, struct task_struct *p, s32 cpu, u64 number)
{
	struct pair pair;

	return cpu_possible(cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       pair_find(lane, cpu, &pair) &&
	       pair_fits(READ_ONCE(pair.both->runs), pair.other, number) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/*
 * An idle CPU that may run the task beside what its partner runs. One that may not, and was claimed
 * in the search, has to look once more, else nobody would take it for idle.
 */
static s32 pair_select_cpu(struct lane *lane, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u64 number = pair_number(lane, lane_group(lane, p));
	bool claimed = false;
	struct pair pair;
	s32 cpu, other;
	u32 i;

	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &claimed);
	if (!claimed || !pair_find(lane, cpu, &pair) ||
	    pair_fits(READ_ONCE(pair.both->runs), pair.other, number))
		return cpu;
	lane_kick(lane, cpu, false);
	bpf_for(i, 1, PAIR_LOOKS + 1) {
		other = cpu_after(cpu, i);
		if (other == cpu)
			break;
		if (pair_claim_idle(lane, p, other, number))
			return other;
	}
	return cpu;
}

/* The turn of a task that is queued: behind those of its cgroup, and not far behind the lane's. */
static u64 pair_turn(struct lane *lane, struct pair_group *g)
{
	u64 now_ns = STATE_OF(lane, struct pair_lane)->turn << PAIR_TURN_SHIFT, turn;
	u64 batch_ns = pair_batch_ns(lane);
	s64 waiting = READ_ONCE(g->queued) - READ_ONCE(g->started);
	s64 most = scx_bpf_dsq_nr_queued(lane_dsq(lane, 0));

	/* A task that was queued may have gone to another class: no cgroup has more that wait than all have. */
	if (waiting < 0 || waiting > most) {
		waiting = waiting < 0 || most < 0 ? 0 : most;
		g->started = g->queued - waiting;
	}
	if (g->ran_ns + PAIR_CREDIT * batch_ns < now_ns)
		g->ran_ns = now_ns - PAIR_CREDIT * batch_ns;
	turn = (g->ran_ns + waiting * batch_ns) >> PAIR_TURN_SHIFT;
	if (waiting && turn < g->turn)
		turn = g->turn;
	g->turn = turn;
	return turn;
}

/* A task that was queued may be of another cgroup now: in the old one it waits no more. */
static __always_inline void pair_follow(struct lane *lane, struct pair_task *task, u64 number)
{
	struct lane_group *group;

	if (likely(!task->queued || task->number == number))
		return;
	group = lane_group_find(lane, task->place, task->serial);
	if (group)
		__sync_fetch_and_add(&STATE_OF(group, struct pair_group)->started, 1);
	task->queued = 0;
}

static void pair_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 enq_flags)
{
	struct lane_group *group = lane_group(lane, p);
	struct pair_task *task = STATE_OF(t, struct pair_task);
	u64 turn = STATE_OF(lane, struct pair_lane)->turn;
	u64 number = pair_number(lane, group);
	struct pair_group *g;

	pair_follow(lane, task, number);
	if (group) {
		g = STATE_OF(group, struct pair_group);
		turn = pair_turn(lane, g);
		if (!task->queued)
			__sync_fetch_and_add(&g->queued, 1);
	}
	task->serial = group ? group->serial : 0;
	task->place = group ? group->place : 0;
	task->queued = 1;
	task->number = number;
	lane_count(lane, pair_counter_queued);
	lane_insert_vtime(lane, p, lane_dsq(lane, 0), pair_batch_ns(lane),
			  turn << LANE_MARK_BITS | number, enq_flags);
	if (enq_flags & SCX_ENQ_CPU_SELECTED)
		lane_kick(lane, scx_bpf_task_cpu(p), false);
}

/* Whether the CPU was handed tasks that have not started. */
static __always_inline bool pair_holds(struct lane *lane, s32 cpu)
{
	return scx_bpf_dsq_nr_queued(lane_cpu_dsq(lane, cpu, 0)) > 0;
}

/* For how long a CPU has not come to take what it was handed; negative if it need not yet. */
static __always_inline s64 pair_held_for(const struct pair_cpu *c, u64 now)
{
	return now - READ_ONCE(c->handed_ns);
}

/* A CPU goes idle so that its partner takes what it was handed. That may not come: the timer looks. */
static __always_inline void pair_look_later(struct lane *lane)
{
	struct pair_lane *state = STATE_OF(lane, struct pair_lane);

	if (!READ_ONCE(state->timed) && !__sync_lock_test_and_set(&state->timed, 1) &&
	    !lane_timer_set(lane, PAIR_HELD_NS))
		WRITE_ONCE(state->timed, 0);
}

/* The CPU takes what it holds of that cgroup, which it has claimed. */
__weak __noinline bool pair_take_held(struct lane *lane __arg_nonnull, s32 cpu)
{
	struct pair_cpu *mine = pair_cpu(lane, cpu);
	u64 held = lane_cpu_dsq(lane, cpu, 0);
	struct task_struct *p;

	if (lane_move_to_local(lane, held)) {
		if (mine)
			mine->next = 1;
		return true;
	}
	/* It may not leave the CPU where it ran last, which the kernel says only now. */
	p = scx_bpf_dsq_peek(held);
	if (p && scx_bpf_task_cpu(p) != cpu)
		lane_hand(lane, held, scx_bpf_task_cpu(p), 0);
	return false;
}

/* The CPU takes the next task of the cgroup that its pair runs, if there is one. */
static __always_inline bool pair_take(struct lane *lane, s32 cpu, u64 number, u64 now)
{
	return pair_claim(lane, cpu, number, now) &&
	       lane_hand_marked(lane, lane_dsq(lane, 0), cpu, 0, number) && pair_take_held(lane, cpu);
}

/*
 * The first task that this pair may run, by its vtime: one that a CPU of it holds, or one that waits.
 * LANE_NOBODY if there is none.
 */
__weak __noinline u64 pair_first(struct lane *lane __arg_nonnull, s32 cpu, u32 partner, u64 now)
{
	struct task_struct *p = scx_bpf_dsq_peek(lane_cpu_dsq(lane, cpu, 0));
	struct pair_cpu *there = pair_cpu(lane, partner);
	bool handed = there && there->handed_ns && pair_holds(lane, partner);

	/* One that is off line takes nobody: this CPU would wait for it for ever. */
	if (!cpu_takes_tasks(partner)) {
		partner = cpu;
	} else if (handed && pair_held_for(there, now) >= (s64)PAIR_HELD_NS) {
		/* Nor does one that somebody else has. When it is back it takes the pair. */
		if (!there->asked_ns)
			there->asked_ns = there->handed_ns;
		partner = cpu;
	} else if (!p && handed) {
		p = scx_bpf_dsq_peek(lane_cpu_dsq(lane, partner, 0));
	}
	return p ? p->scx.dsq_vtime : lane_first(lane, lane_dsq(lane, 0), cpu, partner);
}

/*
 * No task runs on the partner: this CPU begins with the cgroup whose turn it is. If the first task of
 * that may run on the partner only, it is handed over there.
 */
static bool pair_begin(struct lane *lane, struct pair *pair, s32 cpu, u64 first, u64 now)
{
	u64 number = first & LANE_MARK_MASK;
	struct pair_cpu *there;

	if (!pair_claim(lane, cpu, number, now))
		return false;
	pair->both->since_ns = now;
	if (pair_holds(lane, cpu) && pair_take_held(lane, cpu))
		goto begun;
	if (pair_take(lane, cpu, number, now))
		goto begun;
	pair_release(pair);
	if (pair->partner == cpu)
		return false;
	there = pair_cpu(lane, pair->partner);
	if (there && lane_hand_marked(lane, lane_dsq(lane, 0), pair->partner, 0, number))
		there->handed_ns = now;
	lane_kick(lane, pair->partner, false);
	pair_look_later(lane);
	return false;
begun:
	lane_count(lane, pair_counter_batches);
	lane_kick(lane, pair->partner, false);
	return true;
}

/* All that may run here stand behind too many others to be seen: the kernel finds the first. */
static bool pair_begin_unseen(struct lane *lane, struct pair *pair, s32 cpu, u64 now)
{
	if (scx_bpf_dsq_nr_queued(lane_dsq(lane, 0)) <= 0 || !pair_claim(lane, cpu, PAIR_ANY, now))
		return false;
	if (lane_move_to_local(lane, lane_dsq(lane, 0))) {
		pair->mine->next = 1;
		return true;
	}
	pair_release(pair);
	return false;
}

/* Whether the CPU's partner was to make way for what it holds, and has had the time for it. */
static __always_inline bool pair_was_asked(const struct pair *pair, u64 now)
{
	return pair->mine->asked_ns && ns_since(pair->mine->asked_ns, now) >= (s64)PAIR_HELD_NS;
}

/*
 * The CPU holds a task of that cgroup, and its partner, beyond its time, runs another one. So the partner
 * makes way, and waits for this CPU. That may go to another lane meanwhile, and each time that it comes back
 * it may find the same: the task that it holds would wait for ever. So the second time it takes the pair, and
 * its partner goes at once; for the time of an interrupt both run. So does a CPU for which its partner has
 * waited in vain.
 */
static __always_inline bool pair_take_over(struct lane *lane, struct pair *pair, s32 cpu, u64 number,
					   u64 now)
{
	u64 was, will;

	pair->mine->handed_ns = now;
	if (!pair->mine->asked_ns)
		pair->mine->asked_ns = now;
	if (!pair_was_asked(pair, now))
		return false;
	was = READ_ONCE(pair->both->runs);
	will = number << PAIR_CPUS_BITS | pair->me;
	if (__sync_val_compare_and_swap(&pair->both->runs, was, will) != was)
		return false;
	if (pair_take_held(lane, cpu)) {
		pair->both->since_ns = now;
		lane_count(lane, pair_counter_taken_over);
		return true;
	}
	__sync_val_compare_and_swap(&pair->both->runs, will, was);
	return false;
}

/* The partner runs: this CPU runs the same cgroup, or nothing. */
static bool pair_join_partner(struct lane *lane, struct pair *pair, s32 cpu, u64 first, u64 now)
{
	u64 number = READ_ONCE(pair->both->runs) >> PAIR_CPUS_BITS;
	bool others = first != LANE_NOBODY && (first & LANE_MARK_MASK) != number, took;

	if (!pair_left_ns(lane, pair, now) || (others && pair_was_asked(pair, now))) {
		if (others) {
			took = pair_holds(lane, cpu) &&
			       pair_take_over(lane, pair, cpu, first & LANE_MARK_MASK, now);
			lane_count(lane, pair_counter_drained);
			lane_kick(lane, pair->partner, true);
			return took;
		}
		pair->both->since_ns = now;
	}
	if (!others && pair_holds(lane, cpu) &&
	    pair_claim(lane, cpu, number, now) && pair_take_held(lane, cpu))
		return true;
	return pair_take(lane, cpu, number, now);
}

/* The outcomes for a CPU that wants a task. */
enum pair_choice {
	PAIR_RESTS, /* nothing: it is idle, even if tasks wait */
	PAIR_TOOK, /* it took one */
	PAIR_GOES_ON, /* the one that ran there goes on */
};

/* Chooses for a CPU. A task of cgroup @prev wants to go on there; LANE_NOBODY: none does. */
static enum pair_choice pair_choose(struct lane *lane, struct pair *pair, s32 cpu, u64 prev)
{
	u64 now = scx_bpf_now(), runs, first;
	bool in_time;

	pair->mine->next = 0;
	pair->mine->handed_ns = 0;
	/* The task that it was handed has run elsewhere: its partner need not make way. */
	if (!pair_holds(lane, cpu))
		pair->mine->asked_ns = 0;
	if (prev == LANE_NOBODY)
		pair_release(pair);
	runs = READ_ONCE(pair->both->runs);
	in_time = pair_left_ns(lane, pair, now);
	first = pair_first(lane, cpu, pair->partner, now);
	if (runs & pair->other) {
		if (pair_join_partner(lane, pair, cpu, first, now))
			return PAIR_TOOK;
		/* Joining may have begun the cgroup's time anew. */
		if (prev != LANE_NOBODY && pair_left_ns(lane, pair, now) &&
		    pair_claim(lane, cpu, prev, now))
			return PAIR_GOES_ON;
		if (first != LANE_NOBODY)
			lane_count(lane, pair_counter_forced_idle);
		/* What it holds has its turn when their time is over: so long the partner remembers it. */
		if (pair_holds(lane, cpu))
			pair->mine->handed_ns = now + pair_left_ns(lane, pair, now);
		return PAIR_RESTS;
	}
	pair->mine->asked_ns = 0;
	/* Its cgroup goes on while it has tasks, until its time is over. */
	if (runs && in_time) {
		if (pair_take(lane, cpu, runs >> PAIR_CPUS_BITS, now))
			return PAIR_TOOK;
		if (prev == runs >> PAIR_CPUS_BITS && pair_claim(lane, cpu, prev, now))
			return PAIR_GOES_ON;
	}
	if (first != LANE_NOBODY)
		return pair_begin(lane, pair, cpu, first, now) ? PAIR_TOOK : PAIR_RESTS;
	if (pair_begin_unseen(lane, pair, cpu, now))
		return PAIR_TOOK;
	if (prev == LANE_NOBODY)
		return PAIR_RESTS;
	pair->both->since_ns = now;
	return pair_claim(lane, cpu, prev, now) ? PAIR_GOES_ON : PAIR_RESTS;
}

/* What a run gets of the time of its cgroup that is left. */
static __always_inline u64 pair_slice_ns(struct lane *lane, struct pair *pair)
{
	u64 left_ns = pair_left_ns(lane, pair, scx_bpf_now());

	if (left_ns > PAIR_RUN_MOST_NS)
		return PAIR_RUN_MOST_NS;
	return left_ns < PAIR_RUN_LEAST_NS ? PAIR_RUN_LEAST_NS : left_ns;
}

static bool pair_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev,
			  struct lane_task *t, const struct lane_run *run)
{
	u64 number = prev ? STATE_OF(t, struct pair_task)->number : LANE_NOBODY;
	enum pair_choice choice;
	struct pair pair;

	if (!pair_find(lane, cpu, &pair))
		return false;
	choice = pair_choose(lane, &pair, cpu, number);
	if (choice == PAIR_TOOK)
		return true;
	if (choice == PAIR_GOES_ON && prev) {
		lane_grant(lane, prev, pair_slice_ns(lane, &pair));
		return true;
	}
	if (prev)
		lane_rest(lane, prev);
	else
		pair_release(&pair);
	return false;
}

/*
 * A task starts. It was claimed for, unless it comes past dispatch: it gave way to a higher class and
 * goes on, or level 1 chose it. Where the partner runs another cgroup it has to go at once.
 */
static void pair_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct lane_group *group = lane_group(lane, p);
	struct pair_task *task = STATE_OF(t, struct pair_task);
	u64 number = pair_number(lane, group), now = scx_bpf_now();
	struct pair_lane *state = STATE_OF(lane, struct pair_lane);
	s32 cpu = scx_bpf_task_cpu(p);
	struct pair_group *g;
	struct pair pair;

	pair_follow(lane, task, number);
	if (group) {
		g = STATE_OF(group, struct pair_group);
		if (task->queued)
			__sync_fetch_and_add(&g->started, 1);
		if (state->turn < g->ran_ns >> PAIR_TURN_SHIFT)
			state->turn = g->ran_ns >> PAIR_TURN_SHIFT;
	}
	task->queued = 0;
	task->number = number;
	if (!pair_find(lane, cpu, &pair))
		return;
	pair.mine->next = 0;
	pair.mine->asked_ns = 0;
	if (!pair_claim(lane, cpu, number, now)) {
		pair_release(&pair);
		lane_count(lane, pair_counter_evicted);
		lane_rest(lane, p);
		return;
	}
	lane_grant(lane, p, pair_slice_ns(lane, &pair));
}

/*
 * The CPU leaves its pair, unless it was given another task meanwhile. Another lane may have it next; then
 * the partner is free to begin with any cgroup, or with the task that it holds. The partner may be idle: kick it.
 */
static void pair_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			  const struct lane_run *run)
{
	struct lane_group *group = lane_group(lane, p);
	struct pair pair;

	if (group)
		__sync_fetch_and_add(&STATE_OF(group, struct pair_group)->ran_ns, run->ran_ns);
	if (!pair_find(lane, scx_bpf_task_cpu(p), &pair) || pair.mine->next)
		return;
	pair_release(&pair);
	if (scx_bpf_dsq_nr_queued(lane_dsq(lane, 0)) > 0 ||
	    pair_holds(lane, pair.partner))
		lane_kick(lane, pair.partner, false);
}

/* If a CPU does not come to take the task that it was handed, its partner chooses anew. */
static void pair_timer(struct lane *lane)
{
	u64 now = scx_bpf_now();
	struct pair_cpu *c;
	bool more = false;
	s64 held_ns;
	u32 cpu;

	/* First: a CPU that hands over from now on sets the timer if it is not set. */
	__sync_lock_test_and_set(&STATE_OF(lane, struct pair_lane)->timed, 0);
	bpf_for(cpu, 0, nr_cpus()) {
		c = cpu_possible(cpu) ? pair_cpu(lane, cpu) : NULL;
		if (!c || !READ_ONCE(c->handed_ns) || !pair_holds(lane, cpu))
			continue;
		held_ns = pair_held_for(c, now);
		if (held_ns >= (s64)PAIR_HELD_NS)
			lane_kick(lane, pair_partner(cpu), false);
		else if (held_ns >= 0)
			more = true;
	}
	if (more)
		pair_look_later(lane);
}

static const struct policy_ops pair_ops = {
	.select_cpu = pair_select_cpu,
	.enqueue = pair_enqueue,
	.dispatch = pair_dispatch,
	.running = pair_running,
	.stopping = pair_stopping,
	.timer = pair_timer,
	.queues = 1,
	.cpu_queues = 1,
	.task_bytes = sizeof(struct pair_task),
	.cpu_bytes = sizeof(struct pair_cpu),
	.group_bytes = sizeof(struct pair_group),
	.rests = 1,
};
