/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task that goes to sleep in debt competes on until it owes nothing, as in the kernel's class: so no task
 * gains by short sleeps, and until then its cgroup's weight is divided by it too. A task that sleeps is in no
 * queue; a note here counts for it. Each cache has a few notes. A task that finds no free note leaves at
 * once, and pays its debt back alone, see eevdf_rests().
 *
 * The waking task and a CPU that finds the debt paid may both want a note: the one that first replaces
 * its ticket by NOTE_TAKEN has it.
 */
#ifndef METASCHED_EEVDF_SLEEPERS_BPF_H
#define METASCHED_EEVDF_SLEEPERS_BPF_H

#include <sched.bpf.h>
#include <eevdf.bpf.h>
#include <group_weights.bpf.h>

/*
 * Notes of each cache. One run ends in debt on each CPU at a time, and most debts are paid back within a
 * request or two. A power of two, since the low bits of a ticket say which note it is.
 */
#define EEVDF_NOTES 8
/* In place of a ticket. */
#define NOTE_FREE 0
#define NOTE_TAKEN 1

struct eevdf_note {
	u64 vruntime;
	u64 deadline;
	struct group_share share;
	u32 weight;
	u32 ticket;
};

struct eevdf_sleepers {
	u64 next; /* the least virtual run time of them: before that nobody has to look */
	u32 count;
	u32 tickets;
	struct eevdf_note notes[EEVDF_NOTES];
};

/* The task sleeps in debt, and competes on; false if there is no room. */
static __always_inline bool eevdf_sleeps_on(struct eevdf_sleepers *s, struct eevdf_task *t,
					   struct group_share *share)
{
	struct eevdf_note *note;
	u32 i, ticket;

	bpf_for(i, 0, EEVDF_NOTES) {
		note = &s->notes[i & (EEVDF_NOTES - 1)];
		if (READ_ONCE(note->ticket) != NOTE_FREE ||
		    __sync_val_compare_and_swap(&note->ticket, NOTE_FREE, NOTE_TAKEN) != NOTE_FREE)
			continue;
		note->vruntime = t->vruntime;
		note->deadline = t->deadline;
		note->weight = t->weight;
		note->share = *share;
		ticket = __sync_fetch_and_add(&s->tickets, EEVDF_NOTES) + EEVDF_NOTES;
		ticket = (ticket < EEVDF_NOTES ? EEVDF_NOTES : ticket) | i;
		t->ticket = ticket;
		t->weight = 0;
		share->serial = 0;
		/* If another CPU looks now, `next` may be too late; then the next task that sleeps mends it. */
		if (__sync_fetch_and_add(&s->count, 1) == 0 || vtime_before(note->vruntime, s->next))
			WRITE_ONCE(s->next, note->vruntime);
		__sync_lock_test_and_set(&note->ticket, ticket);
		return true;
	}
	return false;
}

/* The task woke: whether it still competed. If so it does as it did. */
static __always_inline bool eevdf_wakes(struct eevdf_sleepers *s, struct eevdf_task *t,
				       struct group_share *share)
{
	u32 ticket = t->ticket;
	struct eevdf_note *note = &s->notes[ticket & (EEVDF_NOTES - 1)];

	if (__sync_val_compare_and_swap(&note->ticket, ticket, NOTE_TAKEN) != ticket)
		return false;
	t->vruntime = note->vruntime;
	t->deadline = note->deadline;
	t->weight = note->weight;
	*share = note->share;
	__sync_fetch_and_add(&s->count, -1);
	__sync_lock_test_and_set(&note->ticket, NOTE_FREE);
	return true;
}

/*
 * A sleeper that owes nothing more competes no more, if its turn would come before @deadline: that is
 * when the kernel's class finds it asleep. All, if @all.
 */
__weak __noinline int eevdf_settle(struct lane *lane __arg_nonnull,
				  struct eevdf_queue *q __arg_nonnull,
				  struct eevdf_sleepers *s __arg_nonnull, u64 deadline, bool all)
{
	u64 next = READ_ONCE(q->now) + EEVDF_LONGEST_NS, vruntime;
	struct group_share share;
	struct eevdf_note *note;
	u32 i, ticket, weight, count = READ_ONCE(s->count), left = count;

	bpf_for(i, 0, EEVDF_NOTES) {
		if (!left)
			break;
		note = &s->notes[i & (EEVDF_NOTES - 1)];
		ticket = READ_ONCE(note->ticket);
		if (ticket == NOTE_FREE || ticket == NOTE_TAKEN)
			continue;
		left--;
		if (!all && (!eevdf_eligible(q, note->vruntime) ||
			     !vtime_before(note->deadline, deadline))) {
			if (vtime_before(note->vruntime, next))
				next = note->vruntime;
			continue;
		}
		if (__sync_val_compare_and_swap(&note->ticket, ticket, NOTE_TAKEN) != ticket)
			continue;
		vruntime = note->vruntime;
		weight = note->weight;
		share = note->share;
		__sync_fetch_and_add(&s->count, -1);
		count--;
		__sync_lock_test_and_set(&note->ticket, NOTE_FREE);
		eevdf_goes(q, vruntime, weight, EEVDF_LONGEST_NS, group_leave(lane, &share));
	}
	/* If some came or woke meanwhile, one may not have been looked at. */
	WRITE_ONCE(s->next, READ_ONCE(s->count) == count ? next : READ_ONCE(q->now));
	return 0;
}

#endif
