/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task that has waited for long runs next, whatever the order of its queue. By weights of 1 and 8668 a turn
 * comes after more than half a minute, and the kernel ends a scheduler under which a task waits for
 * 30 s.
 *
 * Each CPU looks for itself, since a task may be bound to it. A light task has a late vtime, and so stands
 * near the end of a queue in the order of vtime: a CPU looks at the last tasks of the queue.
 */
#ifndef METASCHED_RESCUE_BPF_H
#define METASCHED_RESCUE_BPF_H

#include <sched.bpf.h>

/* So long a task waits for its turn. */
#define RESCUE_WAIT_NS (5000ULL * 1000 * 1000)
/* A CPU looks once in so long; sooner where it found somebody, since there may be many. */
#define RESCUE_LOOK_NS (500ULL * 1000 * 1000)
#define RESCUE_AGAIN_NS (10ULL * 1000 * 1000)
/* Tasks that are looked at: at some 50 ns each a ten thousandth of a CPU's time. */
#define RESCUE_LOOKS 1000

/* It is time to look. */
__weak __noinline bool rescue_looks(struct lane *lane __arg_nonnull, u64 dsq, u32 word,
				    u64 *next_ns __arg_nonnull, u64 now)
{
	bool found = lane_move_before(lane, dsq, word, now - RESCUE_WAIT_NS,
				      RESCUE_LOOKS | SCX_DSQ_ITER_REV);

	*next_ns = now + (found ? RESCUE_AGAIN_NS : RESCUE_LOOK_NS);
	return found;
}

/*
 * In dispatch: moves a task of @dsq to this CPU that waits there for too long by the time in its state
 * word @word, if it is time to look. When that is, is kept in @next_ns, of this CPU and this queue.
 */
static __always_inline bool rescue(struct lane *lane, u64 dsq, u32 word, u64 *next_ns, u64 now)
{
	return unlikely(!vtime_before(now, *next_ns)) && rescue_looks(lane, dsq, word, next_ns, now);
}

#endif
