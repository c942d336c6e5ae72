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
 * Queues of no lane, of which none has generation 0. Of kernel threads that any CPU may take,
 * while applications have lanes: each looks there before it looks at lanes.
 */
#define KTHREADS_DSQ 2ULL
/* Of tasks that were killed while they were parked, until the sweep has them enqueued anew. */
#define DYING_DSQ 3ULL
/* Of tasks whose cgroups are throttled: this and the limit's place plus one. */
#define PARKED_BASE_DSQ 0x1000ULL

#endif
