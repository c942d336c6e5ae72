/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accounts, between which level 1 shares CPUs: each has a weight, the virtual time that it
 * has come to, and lanes: the one in force, and by age before it those that were replaced
 * and still hold tasks.
 */
#ifndef METASCHED_ACCOUNTS_BPF_H
#define METASCHED_ACCOUNTS_BPF_H

#include <bits.bpf.h>
#include <queues.bpf.h>

/* In place of an account's number. */
#define NO_ACCOUNT ACCOUNTS_MAX

/* The most vtime by which an account may lag behind: more it would have been given, had it asked. */
#define ACCOUNT_CREDIT_NS (20ULL * 1000 * 1000)
/*
 * The account of a task that wakes preempts the one that has the CPU if it lags behind that by so
 * much. A preemption costs a switch there and one back, 2 to 5 us on current machines. The account
 * runs its lag down before it can preempt again, so at 500 us preemptions take one hundredth of the
 * CPU at most.
 */
#define WAKE_LAG_NS (500ULL * 1000)
struct account accounts[ACCOUNTS_MAX];

/* Written while several accounts have work; on a cache line of its own. */
struct {
	u64 vtime_now; /* the highest vtime of an account that was served in its turn */
	u64 turn_vtime_now; /* the highest turn_vtime of a lane of the cycle that was charged */
} level1 __attribute__((aligned(64)));

/*
 * Accounts that may have work, a bit each, so that idle ones cost nothing, and those of them
 * that have waited too long and are to be served before all others.
 */
struct {
	u64 accounts;
	u64 urgent;
} busy __attribute__((aligned(64)));

static __always_inline struct account *account_at(u32 number)
{
	return &accounts[number & (ACCOUNTS_MAX - 1)];
}

static __always_inline u64 account_bit(u32 number)
{
	return 1ULL << (number & (ACCOUNTS_MAX - 1));
}

/* The account's lane in force; the root's if it has none. */
static __always_inline struct meta_lane *account_lane(u32 number, u32 root)
{
	u32 lane = number ? READ_ONCE(account_at(number)->lane) : 0;

	return lane_at(lane ? lane - 1 : root);
}

/* Accounts that may have work. While no application has a lane all work is the root's. */
static __always_inline u64 accounts_with_work(u32 root)
{
	return root & ROOT_LANES ? READ_ONCE(busy.accounts) : account_bit(ROOT_ACCOUNT);
}

/* The lowest account in a set that is not empty. */
static __always_inline u32 lowest_account(u64 set)
{
	return lowest_bit(set);
}

/* Whether there are several in a set. */
static __always_inline bool several(u64 set)
{
	u64 others = set & (set - 1);

	/* Else the compiler sees a count of bits in it, which takes it thirty instructions. */
	barrier_var(others);
	return others;
}

/*
 * Whether somebody but the lane may want this CPU: another account, or another lane of its
 * own, which was replaced or rests.
 */
static __always_inline bool others_have_work(struct meta_lane *l, u32 root)
{
	struct account *a = account_at(l->account);

	return (accounts_with_work(root) & ~account_bit(l->account)) || a->first != a->last;
}

/*
 * A task comes to the account, or runs for it at a tick. Only the sweep takes an account for
 * idle. A task may come at that moment:
 *
 *	the CPU of the task			the sweep
 *	arrived = 3				clears the bit
 *	(barrier)				(barrier)
 *	is the bit set?				has one arrived? then sets it again
 *
 * so that one of the two sets the bit; the other may too. The insert is made after the
 * callback, and may be found by the next sweep only.
 */
static __always_inline void account_arrival(u32 number)
{
	struct account *a = account_at(number);

	if (unlikely(READ_ONCE(a->arrived) != ARRIVED_SWEEPS))
		__sync_lock_test_and_set(&a->arrived, ARRIVED_SWEEPS);
	if (unlikely(!(READ_ONCE(busy.accounts) & account_bit(number))))
		__sync_fetch_and_or(&busy.accounts, account_bit(number));
}

/* account_arrival() for the simulator, whose threads call it; it is no code of the kernel's program. */
__weak __noinline int account_arrives(u32 number)
{
	account_arrival(number);
	return 0;
}

/* How many tasks are queued in an account's lanes, as lane_queued() has it. */
__noinline u32 account_queued(u32 number)
{
	u32 i, sum = 0, lane = account_at(number)->first;
	struct meta_lane *l;

	bpf_for(i, 0, LANES_MAX) {
		if (!lane)
			break;
		l = lane_at(lane - 1);
		sum += lane_queued(l);
		lane = l->next;
	}
	return sum;
}

/* Assignments have changed: in any account may be tasks that belong to another now. */
static void accounts_unsettle(void)
{
	struct account *a;
	u32 number;

	bpf_for(number, 0, ACCOUNTS_MAX) {
		a = account_at(number);
		a->settles_at = a->serves + 2 * (u64)account_queued(number);
		a->urgent_from = 0;
	}
}

/* Whether tasks are queued in any of the account's lanes: all of them, or those that may run now. */
static __always_inline bool account_has(u32 number, bool ready)
{
	u32 i, lane = account_at(number)->first;
	struct meta_lane *l;

	bpf_for(i, 0, LANES_MAX) {
		if (!lane)
			break;
		l = lane_at(lane - 1);
		if (ready ? lane_has_ready(l) : lane_may_have_queued(l))
			return true;
		lane = l->next;
	}
	return false;
}

/* Whether an account has any queued tasks, also undecided ones: these must not be left in a lane for ever. */
__noinline bool account_has_queued(u32 number)
{
	return account_has(number, false);
}

/* For the account that comes next. */
__noinline bool account_has_ready(u32 number)
{
	return account_has(number, true);
}

/*
 * Charges a lane of a cycle with what each of its tasks had of a run. Weights of tasks
 * are their policy's business and do not count here. The two adds and the comparison are
 * not one: turn_vtime_now may be behind by a run.
 */
static __noinline void lane_charge_turn(struct meta_lane *l, u64 vtime_ns)
{
	__sync_fetch_and_add(&l->turn_vtime, vtime_ns / (lane_queued(l) + 1));
	if (vtime_before(level1.turn_vtime_now, l->turn_vtime))
		level1.turn_vtime_now = l->turn_vtime;
}

/* What an account is charged for a run. */
static __always_inline u64 account_vtime_ns(struct account *a, u64 ran_ns)
{
	u32 weight = READ_ONCE(a->weight_now);

	return ran_ns * WEIGHT_NOW_DFL / (weight ? weight : 1);
}

/* Charges a lane, and its account, for what one of its tasks ran. */
static __always_inline void lane_charge(struct meta_lane *l, u64 ran_ns)
{
	struct account *a = account_at(l->account);
	u64 vtime_ns = account_vtime_ns(a, ran_ns);

	__sync_fetch_and_add(&a->vtime, vtime_ns);
	__sync_fetch_and_add(&l->runtime_ns, ran_ns);
	if (unlikely(READ_ONCE(cycle.turns)) && l->account == ROOT_ACCOUNT &&
	    l->state != LANE_DRAINING)
		lane_charge_turn(l, vtime_ns);
}

/* Whether an account is so far ahead of the others that it has no claim to come first. */
static __always_inline bool account_in_debt(struct account *a)
{
	return vtime_before(level1.vtime_now + ACCOUNT_CREDIT_NS, a->vtime);
}

/*
 * An account loses the time that it did not use, except ACCOUNT_CREDIT_NS: else one that was idle
 * for a second would starve the others for as long. If the account is charged at this moment, the next
 * sweep does this.
 */
static __always_inline void account_limit_credit(struct account *a)
{
	u64 was = READ_ONCE(a->vtime), floor = READ_ONCE(level1.vtime_now) - ACCOUNT_CREDIT_NS;

	if (vtime_before(was, floor))
		__sync_val_compare_and_swap(&a->vtime, was, floor);
}

/*
 * Puts a lane behind the account's others. CPUs that walk through them meanwhile see it or
 * not; nobody is queued in it yet. By one caller at a time, as account_remove().
 */
static __noinline void account_add(struct meta_lane *l)
{
	struct account *a = account_at(l->account);
	u32 lane = l->lane.slot + 1;

	l->next = 0;
	l->served = 1;
	if (a->last)
		lane_at(a->last - 1)->next = lane;
	else
		a->first = lane;
	a->last = lane;
}

/*
 * Takes a lane out of its account's. A CPU that stands at it goes on from there: the lane
 * stays as it is until a grace period is over.
 */
static __noinline void account_remove(struct meta_lane *l)
{
	struct account *a = account_at(l->account);
	u32 i, before = 0, at = a->first, lane = l->lane.slot + 1;

	bpf_for(i, 0, LANES_MAX) {
		if (!at || at == lane)
			break;
		before = at;
		at = lane_at(at - 1)->next;
	}
	if (before)
		lane_at(before - 1)->next = l->next;
	else
		a->first = l->next;
	if (a->last == lane)
		a->last = before;
	l->served = 0;
}

#endif
