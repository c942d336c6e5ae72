/* SPDX-License-Identifier: GPL-2.0-only */
/* What users and the simulator's checkers may hold level 1 to, in numbers. */
#ifndef METASCHED_BOUNDS_H
#define METASCHED_BOUNDS_H

/*
 * The longest slice while others have work: how long an account that lags may have to
 * wait for a CPU.
 */
#define SHARED_SLICE_NS (2ULL * 1000 * 1000)

/* How often level 1 sweeps. A task that a sweep overlooked waits for the next one at most. */
#define SWEEP_NS (4ULL * 1000 * 1000)
/*
 * After so many sweeps in which an account had work and was not served, it is served
 * before all others: twice as many as its share of the CPUs takes to make a slice, but
 * no fewer than this, 32 ms,
 */
#define URGENT_SWEEPS 8
/* and, whatever the weights, no more than this, 500 ms. */
#define URGENT_MOST_SWEEPS 125
/*
 * After so many, 1 s, a lane whose policy left tasks that could have run loses its
 * application. The kernel's watchdog would end us all after 10 to 30 s.
 */
#define QUARANTINE_SWEEPS 250

/*
 * A task that a policy's half in user space has not decided for so long is decided without it. A
 * process that runs decides in 0.1 ms; this is more than it may have to wait for a CPU itself, in an
 * account that lags (SHARED_SLICE_NS and a tick).
 */
#define UNDECIDED_NS (5ULL * 1000 * 1000)
/* After so many, nobody is left to that half until it is heard of again. */
#define USER_PATIENCE 16

/*
 * Where turns are as long as this in the mean, lanes that rest are put aside: by then
 * most of a turn is left when user space has seen to it, a look or two after the 5 to 20
 * ms that a lane takes to get empty.
 */
#define TURN_SETTLES_NS (100ULL * 1000 * 1000)

/*
 * The bounds of a piece of a cgroup's limit that a run takes at once. Within these a run takes its CPU's part
 * of the rest, so that the first CPU does not take the last of a quota alone. Each piece costs an interrupt
 * of a timer, 2 us or so, so one hundredth at most; and the longest one is a tick at HZ=250.
 */
#define PIECE_LEAST_NS (250ULL * 1000)
#define PIECE_MOST_NS (4ULL * 1000 * 1000)
/*
 * So much may be owed before a run has to end: a task that runs when nothing is left goes on for it, and
 * the next periods pay. For one at a time, else all that run would owe as much. A run of a quota of
 * 1 ms would be over before it has its memory in the caches, or leaves the kernel, where others
 * wait for it. The fair class owes up to a tick for each CPU.
 */
#define OVERDRAFT_NS (500ULL * 1000)
/*
 * No task is parked for longer than twice this, 10 s: the kernel's watchdog would end us
 * after 30. The queue of a throttled limit is emptied each time this has passed, and a task that has been
 * parked for so long is let through, see task_waits_for(). A debt that takes longer to
 * pay is forgiven: a task that exits with much memory is never parked, and could run up a debt
 * that the other tasks of its cgroup would pay for minutes.
 */
#define PARKED_LOOK_NS (5ULL * 1000 * 1000 * 1000)
/*
 * So much a task runs beyond its quota to end system calls, since it last had a piece of it or was under
 * other limits: debts that take too long are forgiven, and a call may take minutes.
 */
#define BEYOND_MOST_NS (100ULL * 1000 * 1000)
/*
 * Places of limits that a sweep looks at; the next one goes on from there. So where all are in use
 * each is looked at every 32 ms, and is filled up later by as much at most.
 */
#define LIMIT_STEPS 512

/*
 * Queues of no lane, of which none has generation 0. Of kernel threads that any CPU may take,
 * while applications have lanes: each looks there before it looks at lanes.
 */
#define KTHREADS_DSQ 2ULL
/* Of tasks that were killed while they were parked, until the sweep has them enqueued anew. */
#define DYING_DSQ 3ULL
/* Of tasks whose cgroups are throttled: this and the limit's place plus one. */
#define PARKED_BASE_DSQ 0x1000ULL

#endif
