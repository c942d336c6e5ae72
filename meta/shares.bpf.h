/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What accounts weigh: what cpu.weight and cpu.idle say in the hierarchy, parents included,
 * among the cgroups that have work now, as scx_flatcg flattens it. So assigning a cgroup
 * changes nobody's share.
 *
 *	share(cgroup)  = share(parent) * weight / weights of the siblings with work
 *	share(account) = the shares of its cgroups
 *
 * Tasks that are directly in a cgroup with children count as one more child of the default
 * weight, however many they are; in the fair class each of them would. A weight that the user
 * gave to an application stands in place of cpu.weight, and its cgroups with work have equal
 * parts of it. One that was given to the root's account multiplies, over WEIGHT_DFL, what the
 * hierarchy leaves that.
 *
 * A round looks at each watched cgroup three times at most: bottom up, for whether it has work; if
 * anything has changed, top down, to work out its share; and bottom up, to add what its share leaves to
 * its account. A sweep makes SHARE_VISITS of such looks, some 30 ns each, and the next one goes on from there.
 */
#ifndef METASCHED_SHARES_BPF_H
#define METASCHED_SHARES_BPF_H

#include <in_service.bpf.h>
#include <cgroups.bpf.h>

/* The whole machine. */
#define SHARE_ONE (1ULL << 30)
#define SHARE_VISITS 1024
/* What tasks count for that are directly in a cgroup with children. */
#define OWN_TASKS_WEIGH ((u64)WEIGHT_DFL << WEIGHT_BITS)

enum share_phase {
	SHARES_WAIT, /* for the next sweep */
	SHARES_GATHER, /* which cgroups have work, bottom up */
	SHARES_SPREAD, /* the share of each, top down */
	SHARES_COLLECT, /* the part of it that is its own account's, bottom up */
};

/* Of the round that is under way; written by the sweep alone, but for `changed`. */
struct {
	u32 phase;
	u32 at; /* how many are left on the way up, or done on the way down */
	u32 round;
	u32 walk; /* watch.walks at its beginning */
	u32 changed; /* weights have changed, or which cgroups have work */
	u64 parts[ACCOUNTS_MAX]; /* what each account has, in SHARE_ONE */
	u32 cgroups[ACCOUNTS_MAX]; /* assigned to it, with work: in the last round */
	u32 counted[ACCOUNTS_MAX]; /* and in this one */
} shares;

/*
 * For so many rounds, 5 s, a cgroup counts by a task that was queued in it and has not run since,
 * if no other comes. A task that has changed its scheduling class meanwhile will not.
 */
#define WAITS_ROUNDS 1250

static __always_inline void cgroup_marks(struct cgroup_node *n)
{
	if (unlikely(!READ_ONCE(n->arrived)))
		WRITE_ONCE(n->arrived, 1);
}

/*
 * A task of that cgroup runs, at a tick. As with one that comes, it is seen only while several
 * accounts have work: before that nothing depends on it.
 */
static __always_inline void cgroup_runs(u32 number)
{
	if (several(READ_ONCE(busy.accounts)))
		cgroup_marks(cgroup_node_at(number));
}

/*
 * The task runs, or is queued in another cgroup. Up to now its cgroup has had work by it, and may have
 * been asked for the last time long ago.
 */
static __always_inline void cgroup_waits_no_more(struct task_struct *p, struct task_ctx *t)
{
	struct cgroup_node *n = cgroup_node_at(t->waits_in - 1);

	t->waits_in = 0;
	cgroup_marks(n);
	if (READ_ONCE(n->waits) == (u64)(unsigned long)p)
		WRITE_ONCE(n->waits, 0);
}

/*
 * It is queued. Its cgroup knows one task that is, so that nothing has to be counted for each; of two that
 * come at once, the one that wrote last.
 */
static __always_inline void cgroup_arrival(struct task_struct *p, struct task_ctx *t)
{
	struct cgroup_node *n = cgroup_node_at(t->watched);

	if (!several(READ_ONCE(busy.accounts)))
		return;
	cgroup_marks(n);
	if (READ_ONCE(n->waits))
		return;
	if (t->waits_in)
		cgroup_waits_no_more(p, t);
	WRITE_ONCE(n->waits, (u64)(unsigned long)p);
	t->waits_in = t->watched + 1;
}

/*
 * What a cgroup weighs for its own account: cpu.weight, less what belongs to cgroups below it that
 * are another's, in WEIGHT_BITS. What policies read in place of cpu.weight. A call, so that the
 * verifier follows its branches once.
 */
__weak __noinline u64 cgroup_weight_left(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number);
	u64 weight = (u64)n->weight << WEIGHT_BITS, share = n->share, left = n->left;

	if (!n->watched || !share || left >= share)
		return weight;
	/*
	 * By the books only others have work there. The one that asks has a task in it all the same, which has
	 * waited for long: with no weight it would wait for ever, and the books would stay as they are.
	 */
	if (!left)
		left = share * OWN_TASKS_WEIGH / (n->sum + OWN_TASKS_WEIGH);
	weight = weight * left / share;
	return weight ? weight : 1;
}

/* The account that gets the tasks of another: without a lane it is the root's. */
static __always_inline u32 account_in_force(u32 number)
{
	return account_at(number)->lane ? number & (ACCOUNTS_MAX - 1) : ROOT_ACCOUNT;
}

/* Whether those above a cgroup are no more of its account: nothing is, or another's. */
static __always_inline bool lane_ends_at(struct cgroup_node *n)
{
	u32 number = account_in_force(cgroup_account(n));

	if (!n->assigned || number == ROOT_ACCOUNT)
		return false;
	return number != account_in_force(cgroup_node_at(n->parent)->account);
}

/* What a cgroup weighs beside its siblings. */
static __always_inline u64 cgroup_weighs_now(struct cgroup_node *n)
{
	u32 number = cgroup_account(n), cgroups = shares.cgroups[number];
	struct account *a = account_at(number);
	u64 weight = n->weight;

	if (number == ROOT_ACCOUNT || !a->lane || !(a->weight_fixed || n->untold))
		return weight << WEIGHT_BITS;
	weight = (u64)a->weight << WEIGHT_BITS;
	return cgroups > 1 ? weight / cgroups : weight;
}

/*
 * Whether tasks that count for this cgroup itself have work: one came in the last rounds, or is known to
 * be queued. Only where that one has gone to sleep, and no other came since, may tasks wait unknown.
 */
static __always_inline bool cgroup_has_work(struct cgroup_node *n)
{
	if (n->arrived) {
		n->arrived = 0;
		n->came = shares.round;
	}
	if (n->came && shares.round - n->came < ARRIVED_SWEEPS)
		return true;
	if (!n->waits)
		return false;
	if (shares.round - n->came < WAITS_ROUNDS)
		return true;
	n->waits = 0;
	return false;
}

/* On the way up: whether a cgroup has work, and what it weighs. */
__noinline int shares_gather(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number);
	bool own = cgroup_has_work(n);
	u64 weighs = cgroup_weighs_now(n), sum = n->adds;

	n->adds = 0;
	if (own)
		sum += n->open ? OWN_TASKS_WEIGH : 1;
	if (own != n->own || sum != n->sum || weighs != n->weighs)
		shares.changed = 1;
	n->own = own;
	n->sum = sum;
	n->weighs = weighs;
	if (!sum || !number)
		return 0;
	cgroup_node_at(n->parent)->adds += weighs;
	if (n->assigned)
		shares.counted[cgroup_account(n)]++;
	return 0;
}

/* On the way down: what share it has. */
__noinline int shares_spread(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number), *parent = cgroup_node_at(n->parent);
	u64 all = parent->sum + (n->sum ? 0 : n->weighs), own = 0;

	if (!number)
		n->share = SHARE_ONE;
	else
		n->share = all ? parent->share * n->weighs / all : 0;
	if (n->own)
		own = n->open ? n->share * OWN_TASKS_WEIGH / n->sum : n->share;
	/* Weights of 1 beside 10,000, one below the other, come to nothing. */
	if (n->own && !own)
		own = 1;
	/* Of one without work, what would be: its tasks may come before the next round. */
	n->left = n->sum ? own : n->share;
	shares.parts[account_in_force(n->account) & (ACCOUNTS_MAX - 1)] += own;
	return 0;
}

/* On the way up again: what it has left belongs to its parent, if they have one account. */
__noinline int shares_collect(u32 number)
{
	struct cgroup_node *n = cgroup_node_at(number), *parent = cgroup_node_at(n->parent);

	if (number && n->sum && account_in_force(n->account) == account_in_force(parent->account))
		parent->left += n->left;
	return 0;
}

/* A round begins. */
static __noinline void shares_begin(void)
{
	u32 number;

	shares.walk = READ_ONCE(watch.walks);
	shares.at = READ_ONCE(watch.count);
	shares.phase = SHARES_GATHER;
	shares.round++;
	bpf_for(number, 0, ACCOUNTS_MAX) {
		shares.counted[number & (ACCOUNTS_MAX - 1)] = 0;
	}
}

/* Each cgroup was asked whether it has work; whether anything has changed. */
static __noinline bool shares_gathered(void)
{
	bool changed = shares.changed;
	u32 i, number;

	shares.changed = 0;
	bpf_for(i, 0, ACCOUNTS_MAX) {
		number = i & (ACCOUNTS_MAX - 1);
		shares.parts[number] = 0;
		/* Parts of a given weight were of the number that there was: once more. */
		if (shares.cgroups[number] != shares.counted[number])
			shares.changed = 1;
		shares.cgroups[number] = shares.counted[number];
	}
	return changed;
}

/* Accounts with work have what their shares come to, WEIGHT_DFL in the mean. */
static __noinline void shares_publish(void)
{
	struct account *root = account_at(ROOT_ACCOUNT);
	u64 weight, with_work = 0;
	u32 i, number;

	if (root->weight_fixed)
		shares.parts[ROOT_ACCOUNT] = shares.parts[ROOT_ACCOUNT] * root->weight / WEIGHT_DFL;
	bpf_for(i, 0, ACCOUNTS_MAX) {
		with_work += shares.parts[i & (ACCOUNTS_MAX - 1)] > 0;
	}
	bpf_for(i, 0, ACCOUNTS_MAX) {
		number = i & (ACCOUNTS_MAX - 1);
		if (!shares.parts[number])
			continue;
		weight = shares.parts[number] * with_work * WEIGHT_NOW_DFL / SHARE_ONE;
		account_set_weight_now(account_at(number), weight ? weight : 1);
	}
}

/* One look more; whether the round goes on. */
__noinline bool shares_step(void)
{
	u32 at = shares.at;

	switch (shares.phase) {
	case SHARES_GATHER:
		if (at) {
			shares.at = at - 1;
			shares_gather(watched[(at - 1) & (CGROUPS_MAX - 1)]);
			return true;
		}
		shares.phase = shares_gathered() ? SHARES_SPREAD : SHARES_WAIT;
		return shares.phase != SHARES_WAIT;
	case SHARES_SPREAD:
		if (at < watch.count) {
			shares_spread(watched[at & (CGROUPS_MAX - 1)]);
			shares.at = at + 1;
			return true;
		}
		shares.phase = SHARES_COLLECT;
		return true;
	case SHARES_COLLECT:
		if (at) {
			shares.at = at - 1;
			shares_collect(watched[(at - 1) & (CGROUPS_MAX - 1)]);
			return true;
		}
		shares_publish();
		break;
	}
	shares.phase = SHARES_WAIT;
	return false;
}

/* By the sweep, while applications have lanes. */
static __noinline void sweep_shares(void)
{
	u32 i;

	if (!READ_ONCE(watch.count) || !several(READ_ONCE(busy.accounts)))
		return;
	/* What was counted on another way through the hierarchy is of no use. */
	if (shares.walk != READ_ONCE(watch.walks))
		shares.changed = 1;
	if (shares.phase == SHARES_WAIT || shares.walk != READ_ONCE(watch.walks))
		shares_begin();
	bpf_for(i, 0, SHARE_VISITS) {
		if (!shares_step())
			break;
	}
}

#endif
