/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel program and user space share: declared here once, and read from
 * here by the build of crates/abi. Plain numbers of fixed sizes, without holes.
 */
#ifndef METASCHED_TYPES_H
#define METASCHED_TYPES_H

#include <lane.h>
#include <bounds.h>

/* A policy's number is its line in policies.def. */
enum policy_id {
#define POLICY(name, ...) POLICY_##name,
#include <policies.def>
#undef POLICY
	POLICIES,
};

/*
 * The life of a lane. A lane's policy never changes; the lane is replaced.
 *
 *	FREE -> IN_FORCE -> DRAINING -> RETIRED -> FREE
 *
 * DRAINING to RETIRED when its queues are empty and no callback can still insert
 * into them; RETIRED to FREE when no callback can still look at them. While turns
 * are taken the lanes of the cycle go from IN_FORCE to RESTING and back, and to
 * DRAINING when it ends.
 */
enum lane_state {
	LANE_FREE,
	LANE_IN_FORCE, /* the tasks of its account come here */
	LANE_DRAINING, /* replaced: served until empty, before its successor */
	LANE_RETIRED, /* empty, no longer served, its queues not yet destroyed */
	LANE_RESTING, /* of a cycle, until its next turn: served until empty, see turns.bpf.h */
};

/* A lane with what level 1 keeps about it. */
struct meta_lane {
	struct lane lane;

	/* Read on every path, written when the lane changes. */
	u32 state; /* enum lane_state */
	u32 queues; /* how many of its dispatch queues exist */
	u32 ready; /* the first so many of them hold tasks that may run now, see user.bpf.h */
	u32 account; /* the account that the lane belongs to */
	u32 next; /* the slot plus one of its account's next lane by age; 0: none */
	u32 served; /* it is among its account's lanes, so that CPUs ask it for tasks */
	u32 quarantined; /* its policy is not asked any more, level 1 serves it alone */
	u32 nr_queued; /* as count_queued() last found it */
	u32 first_queued; /* whether a CPU was told of its first task */
	u32 places; /* how many of its queues belong to a cache or a CPU, see marks.bpf.h */
	u64 in_force_ns; /* when it came into force, CLOCK_MONOTONIC */
	u64 first_run_ns; /* when a task first ran that came through it; 0: not yet */
	u64 settled_at; /* the grace period after which it moves on in its life; 0: not empty */

	/* Written whenever several lanes are served; a cache line of its own. */
	u64 runtime_ns; /* what its tasks ran, measured */
	u64 turn_vtime; /* of a lane of a cycle: what each of its tasks has had, see turns.bpf.h */
	u64 rescues; /* tasks that level 1 could move and its policy did not, since it last gave one */
	u32 placed; /* tasks in its places, as the sweep last found them */
	u32 found; /* one of those places, plus one; 0: it found none */
	u32 passed; /* the sweep that did */
	u32 unused;
	u64 timer_of; /* the generation that has set its timer; an earlier one's may still expire */
	u64 unused_too[2];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct meta_lane) == 384, "six cache lines, see above");

/*
 * Accounts: what CPUs owe to an application, which is a set of cgroups, whatever lanes it
 * has. Number 0 is the root's: everything that belongs to no other.
 */
#define ACCOUNTS_MAX 64
#define ROOT_ACCOUNT 0
/* In place of an application's account in assign(): a cgroup goes back to the root's, below one that is assigned. */
#define BACK_TO_ROOT ACCOUNTS_MAX
/* Cgroups that are known, and those of them that may be assigned; those below inherit. */
#define CGROUPS_MAX 16384
#define ASSIGNED_MAX 4096
/* account.weight_now in the mean of those that have work. */
#define WEIGHT_NOW_DFL (WEIGHT_DFL << 12)

struct account {
	/* Read on every path, written when its lanes change. Slots are plus one; 0: none. */
	u32 lane; /* the lane in force; without one its tasks go to the root's */
	u32 first; /* the oldest of its lanes that are served, see meta_lane.next */
	u32 last; /* the youngest */
	u32 weight; /* what the user gave it, or the cpu.weight that was told of last */
	u32 weight_fixed; /* the user gave it: cpu.weight of its cgroups has no say */
	u32 weight_now; /* its share among accounts that have work, see shares.bpf.h; never 0 */
	u64 run_vtime_ns; /* what it is charged for a run of RUN_NS, by that share */
	u64 unused_too[4];

	/* Written while several have work; a cache line of its own. */
	u64 vtime; /* ns at WEIGHT_DFL */
	u64 serves; /* how often it gave a CPU a task */
	u64 kicks; /* how often another account's task was preempted for it */
	u32 arrived; /* sweeps until it is idle if no task comes, see account_arrival() */
	u32 unserved_sweeps; /* for how many sweeps it has had work and was not served */
	u64 serves_seen; /* serves, at the last sweep */
	u64 longest_unserved_ns; /* the longest of such times so far */
	u32 urgent_from; /* unserved_sweeps when it was last urgent; 0: not since it was served */
	u32 cpus; /* how many run for it, see in_service.bpf.h */
	u64 settles_at; /* the serves by which tasks are out that may belong to others now */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct account) == 128, "two cache lines: one read, one written");

/* Among the values of options: the policy's default. */
#define OPTION_DEFAULT ~0ULL

/* The argument of set_app(). */
struct app_args {
	u32 app; /* its account, 1 to ACCOUNTS_MAX - 1 */
	u32 variant; /* see struct lane */
	u32 weight;
	u32 weight_fixed;
	u64 options[LANE_OPTIONS_MAX];
};

/* The argument of assign(), unassign() and drop_app(), which use what they need. */
struct assign_args {
	u64 cgroup; /* its id: the inode of its folder */
	u32 app; /* or BACK_TO_ROOT */
	u32 pad;
};

/* The argument of set_lane(): changes that take effect on a lane in force. */
struct lane_args {
	u32 app; /* 0: the root lane */
	u32 weight;
	u32 weight_fixed;
	u32 option; /* its index; LANE_OPTIONS_MAX or more: none */
	u64 value;
};

/* Cgroups with a limit in cpu.max. */
#define LIMITS_MAX 4096

/* How a place in the table of limits stands, see limit_claim(). */
enum limit_state {
	LIMIT_FREE,
	LIMIT_CLAIMED, /* one CPU writes to it */
	LIMIT_LIVE,
};

/* The account of a cgroup with a limit, see limits.bpf.h. */
struct limit {
	u64 cgroup; /* its id; 0: none, or not yet */
	u64 quota_ns; /* granted each period */
	u64 period_ns;
	u64 burst_ns; /* what may be saved up beyond a quota */
	u64 period_ends_ns; /* CLOCK_MONOTONIC */
	u64 granted_ns; /* so far; it is throttled when as much was used */
	u64 used_ns; /* with what runs that are under way have taken */
	u64 look_at_ns; /* when its queue is emptied, also if it is still throttled */
	u32 state; /* enum limit_state */
	u32 parent; /* the nearest limit above it, its place plus one; 0: none */
	u32 throttled;
	u32 made; /* a number that is new with each limit, and as one goes */
	u64 nr_periods;
	u64 nr_throttled;
	u64 throttled_ns;
	u64 throttled_from_ns;
	u64 forgiven_ns; /* used beyond what was granted, and written off */
};

/* A lane that lost its application because its policy did not dispatch. */
struct quarantine {
	u64 at_ns; /* CLOCK_MONOTONIC; written last, 0: no entry */
	u64 unserved_ns;
	u64 generation;
	u32 app;
	u32 variant; /* of its policy, see struct lane */
	u32 nr_queued;
	u32 rescues;
};

#define QUARANTINES_KEPT 16

/* Decisions of user halves that one call takes. */
#define DECISIONS_MAX 64
/* The ring by which user space is told of tasks: some 4,000 messages. */
#define USER_RING_BYTES (256 * 1024)

/* What a policy's half in user space is told: a task wants a CPU, or it left. */
struct user_message {
	u64 lane; /* its generation */
	u64 ticket; /* names this wait; 0: the task left the lane, or ends */
	u64 at_ns;
	u64 ran_ns; /* what the task has run in all */
	u64 sleeps; /* how often it gave up a CPU by itself */
	u32 slot; /* the lane's */
	u32 policy; /* enum policy_id */
	u32 pid;
	u32 weight;
	u32 cpu; /* where it ran last */
	u32 waiting; /* tasks in those queues of the lane that belong to no CPU and no cache */
};

/* What became of a decision. */
enum decision_result {
	DECISION_NONE,
	DECISION_TAKEN,
	DECISION_EARLY, /* its task is told of and not queued yet: to be given again */
	DECISION_STALE, /* the task has gone on without it */
	DECISION_WRONG, /* the lane has no such task */
};

/* One decision; user_decide() takes those of user_decisions. */
struct user_decision {
	struct lane_decision what;
	u64 lane; /* as in the message */
	u64 ticket;
	u32 slot;
	u32 pid;
	u32 result; /* enum decision_result */
	u32 pad;
};

/* The argument of user_decide(). */
struct user_args {
	u32 decisions; /* how many; 0: it is there, and that is all */
	u32 tgid; /* the process, which is never left to itself */
};

/* The half in user space, as a lane has met it. */
struct user_lane {
	u64 told; /* tasks that were left to it */
	u64 untold; /* that were not, since no half in user space was there */
	u64 taken; /* decisions that were taken */
	u64 late; /* tasks that were decided without it in the end */
	u64 stale; /* decisions that came too late, or again */
	u64 wrong; /* decisions for tasks that are not the lane's */
	u64 unused[2];
};

/* The argument of replace_root(). */
struct replace_args {
	u32 variant; /* see struct lane */
};

/* What replace_root() did. */
struct replace_result {
	u64 generation;
	u64 at_ns; /* just before the write that put the new lane in force */
	u32 slot;
	u32 pad;
};

/*
 * The argument of reap(): how many grace periods user space has waited for so far. In one
 * every callback that had begun before it has come to its end.
 */
struct reap_args {
	u64 graces;
};

/* Turns of a cycle: more than there are policies worth taking turns between. */
#define TURNS_MAX 16
/* The latest turns that are told of; at 100 ms each those of some seconds. */
#define TURNS_KEPT 32

/* The argument of start_turns(). */
struct turn_args {
	u64 length_ns;
	u32 variant; /* see struct lane */
	u32 pad;
};

struct cycle_args {
	u32 turns; /* how many of them count, 1 to TURNS_MAX */
	u32 pad;
	struct turn_args turn[TURNS_MAX];
};

/* One turn of the cycle. */
struct turn {
	u64 length_ns;
	u64 in_force_ns; /* for how long it has been in force, over all rounds of the cycle */
	u32 variant;
	u32 slot; /* of its lane, which it shares with the other turns of its variant */
};

/* A turn that has begun. */
struct begun_turn {
	u64 number; /* of all turns of the cycle; written last */
	u64 at_ns; /* CLOCK_MONOTONIC */
	u64 late_ns; /* after it was due */
	u64 changing_ns; /* what the change of lanes took; 0 if there was none to make */
};

/* The turns that are taken, and what became of them; figures stay when it has ended. */
struct cycle {
	u32 turns; /* 0: none are taken */
	u32 current; /* the turn that is in force */
	u32 settles; /* turns are long, so lanes that rest are put aside when empty */
	u32 pad;
	u64 due_ns; /* when the turn in force ends, CLOCK_MONOTONIC */
	u64 from_ns; /* up to when in_force_ns is known */
	u64 begun; /* turns so far */
	u64 changes; /* of lanes: fewer than turns where neighbours share one */
	u64 changing_ns; /* that they took, in all */
	u64 late_sum_ns;
	u64 late_max_ns;
	struct turn turn[TURNS_MAX];
	struct begun_turn latest[TURNS_KEPT]; /* by their number */
};

/* Where the kernel has these sets of CPUs; 0 where that is not known. Written by user space. */
struct cpu_mask_addresses {
	u64 online;
	u64 active;
};

#define EXIT_REASON_LEN 128
#define EXIT_MSG_LEN 1024
#define EXIT_DUMP_LEN 32768

/* Why the kernel ended the program; kind is written last, 0 while it runs. */
struct exit_record {
	u32 kind; /* enum scx_exit_kind */
	u32 pad;
	s64 code;
	char reason[EXIT_REASON_LEN];
	char msg[EXIT_MSG_LEN];
};

#endif
