/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which of a lane's queues may hold tasks, so that no CPU has to look at all of them: a lane whose policy
 * has queues for each CPU has hundreds.
 *
 * A place is a queue of a lane that belongs to a cache or a CPU, numbered from the first. Each has
 * two bits. Those of 32 places are one word, which changes as a whole:
 *
 *	 63                32 31                 0
 *	+--------------------+--------------------+
 *	|        CAME        |        HELD        |
 *	+--------------------+--------------------+
 *
 * HELD: the queue may hold tasks; only such queues are looked at. CAME: some task came since the
 * sweep found it empty. A CPU that queues a task sets both where one is not set, so in most cases writes
 * nothing. The sweep alone takes them back: CAME when it finds the queue empty, HELD when it finds
 * that once more and nobody has come meanwhile.
 *
 * Two steps, since an insert that enqueue makes takes effect after the callback, and a queue is
 * empty until then:
 *
 *	the CPU of the task		the sweep
 *	are both set? yes
 *					it is empty: CAME goes
 *	the task is in the queue
 *					4 ms later: it is not empty, HELD stays
 *
 * Every change of a word is a compare-and-swap or an atomic or, and they are in one order on every
 * machine; the sweep's fails where a bit was set since it read the word, and so it takes back none
 * that it has not seen. A bit may be read without order only a whole sweep after it was written:
 * the writes of a CPU are seen by then.
 *
 * A virtual machine's CPU may stop in the gap for longer than a sweep. Then a task is queued whose
 * mark is gone. So each word is looked at once in MARK_ROUNDS rounds whatever it says.
 */
#ifndef METASCHED_MARKS_BPF_H
#define METASCHED_MARKS_BPF_H

#include <bits.bpf.h>
#include <lanes.bpf.h>

#define MARK_PLACES 32
#define MARK_HELD(place) (1ULL << ((place) & (MARK_PLACES - 1)))
#define MARK_BOTH(place) (MARK_HELD(place) | MARK_HELD(place) << MARK_PLACES)
#define MARK_WORDS_MAX (LANE_QUEUES_MAX * 2 * CPUS_MAX / MARK_PLACES)
/*
 * Words and queues that a sweep looks at; the next one goes on from there. 63
 * lanes with a queue for each of 512 CPUs and 64 caches have 1,134 words.
 */
#define MARK_STEPS 1536
/*
 * A round is one sweep, or two with so many words, of which 18 are then looked at whole: so a task
 * without a mark is found in 0.5 s, when its account would have become urgent. Where all those
 * queues hold tasks a round is 25 sweeps, and that takes 6 s.
 */
#define MARK_ROUNDS 64

/*
 * By slot and word. There is room for every lane where an enabled policy has such queues, else
 * for nothing: the loader sees to that. 145 KiB for 128 lanes on 512 CPUs under 64 caches.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LANES_MAX * MARK_WORDS_MAX);
	__type(key, u32);
	__type(value, u64);
} marks SEC(".maps");

/* How far the sweep has come; its own. */
struct {
	u32 slot;
	u32 word;
	u32 round;
	u32 sweeps; /* made so far */
	u32 tasks; /* in the places of this lane, so far */
	u32 found; /* one of those that hold tasks, plus one */
	u32 steps; /* left in this sweep */
	u32 lanes; /* passed in this sweep; in memory, as what mark_step() keeps */
	/* Of a word: what is left to be looked at, and what was found. */
	u64 left;
	u64 empty;
	u64 filled;
} marking;

/* Whether a policy of the build has such queues: a constant, see table.bpf.h. */
static __always_inline bool any_places(void);

/* Words of each lane. */
static __always_inline u32 mark_words(void)
{
	return LANE_QUEUES_MAX * (nr_llcs() + nr_cpus()) / MARK_PLACES + 1;
}

static __always_inline u64 *mark_word(u32 slot, u32 word)
{
	u32 key = slot * mark_words() + word;

	return word < mark_words() ? bpf_map_lookup_elem(&marks, &key) : NULL;
}

/* See sched.bpf.h. */
static __always_inline void lane_mark(struct lane *lane, u64 dsq_id)
{
	u64 place = dsq_id - lane->llc_dsq, *word;

	/* Those that belong to no place come before, and the kernel's own long after. */
	if (!any_places() || likely(place >= MARK_WORDS_MAX * MARK_PLACES))
		return;
	word = mark_word(lane->slot, place / MARK_PLACES);
	if (word && (READ_ONCE(*word) & MARK_BOTH(place)) != MARK_BOTH(place))
		__sync_fetch_and_or(word, MARK_BOTH(place));
}

/* How many of a lane's queues belong to no place; they come first. */
static __always_inline u32 lane_shared_queues(const struct meta_lane *l)
{
	return l->lane.llc_dsq - l->lane.dsq;
}

/* The first place from that one on that may hold tasks, of the first so many; else so many. */
__noinline u32 next_marked(u32 slot, u32 from, u32 places)
{
	u32 word, place, first = from / MARK_PLACES;
	u64 held, *at;

	bpf_for(word, first, (places + MARK_PLACES - 1) / MARK_PLACES) {
		at = mark_word(slot, word);
		held = at ? (u32)READ_ONCE(*at) : 0;
		if (word == first)
			held &= ~(MARK_HELD(from) - 1);
		if (held) {
			place = word * MARK_PLACES + lowest_bit(held);
			return place < places ? place : places;
		}
	}
	return places;
}

/*
 * Not static: to the verifier its result is any number, and so one turn of a loop that it leads
 * stands for all.
 */
__noinline u32 next_queue_marked(u32 slot, u32 queue)
{
	struct meta_lane *l = lane_at(slot);
	u32 shared = lane_shared_queues(l);

	/* The queue of undecided tasks, which comes last, has no mark. */
	if (queue < shared || queue >= shared + l->places)
		return queue;
	return shared + next_marked(slot, queue - shared, l->places);
}

/* The next queue of a lane, from that one on, that may hold tasks, marks or none. */
static __always_inline u32 next_queue(struct meta_lane *l, u32 queue)
{
	return any_places() ? next_queue_marked(l->lane.slot, queue) : queue;
}

/* A lane is made: nobody is in its queues. */
__weak __noinline int marks_forget(u32 slot, u32 places)
{
	u64 *word;
	u32 i;

	bpf_for(i, 0, (places + MARK_PLACES - 1) / MARK_PLACES) {
		word = mark_word(slot, i);
		if (word)
			*word = 0;
	}
	return 0;
}

/*
 * The sweep at one word: looks at the queues that are marked, or at all of them. What it keeps
 * between two queues is in memory: in registers each set of queues that are empty would be a path
 * of its own to the verifier.
 */
__noinline int mark_step(u32 slot, u32 number, bool all)
{
	struct meta_lane *l = lane_at(slot);
	u64 *word = mark_word(slot, number), was, held, came, bit;
	u32 i, place, left = l->places - number * MARK_PLACES;
	s32 nr;

	if (!word)
		return 0;
	was = READ_ONCE(*word);
	if (!was && !all)
		return 0;
	bit = left < MARK_PLACES ? MARK_HELD(left) - 1 : (u32)~0;
	WRITE_ONCE(marking.left, bit & (all ? ~0ULL : was));
	WRITE_ONCE(marking.empty, 0);
	WRITE_ONCE(marking.filled, 0);
	bpf_for(i, 0, MARK_PLACES) {
		bit = READ_ONCE(marking.left);
		if (!bit)
			break;
		WRITE_ONCE(marking.left, bit & (bit - 1));
		bit &= -bit;
		place = number * MARK_PLACES + lowest_bit(bit);
		nr = scx_bpf_dsq_nr_queued(l->lane.llc_dsq + place);
		marking.steps--;
		if (nr <= 0) {
			WRITE_ONCE(marking.empty, READ_ONCE(marking.empty) | bit);
			continue;
		}
		WRITE_ONCE(marking.filled, READ_ONCE(marking.filled) | bit);
		marking.tasks += nr;
		marking.found = place + 1;
	}
	came = was >> MARK_PLACES;
	held = (u32)was | READ_ONCE(marking.filled);
	held &= ~(READ_ONCE(marking.empty) & ~came);
	came &= ~READ_ONCE(marking.empty);
	if (was != (held | came << MARK_PLACES))
		__sync_val_compare_and_swap(word, was, held | came << MARK_PLACES);
	return 0;
}

/* One word more of the lane at which the sweep stands; whether that was its last. */
__noinline bool mark_lane_step(void)
{
	u32 slot = marking.slot & (LANES_MAX - 1), word = marking.word;
	struct meta_lane *l = lane_at(slot);

	if (l->lane.generation && word * MARK_PLACES < l->places) {
		mark_step(slot, word, (slot * mark_words() + word + marking.round) % MARK_ROUNDS == 0);
		marking.word = word + 1;
		return false;
	}
	l->placed = marking.tasks;
	l->found = marking.found;
	l->passed = marking.sweeps;
	marking.tasks = 0;
	marking.found = 0;
	marking.word = 0;
	marking.slot = (slot + 1) & (LANES_MAX - 1);
	marking.round += !marking.slot;
	return true;
}

/* By the sweep, while lanes have places. A lane is passed twice in no sweep. */
static __noinline void sweep_marks(void)
{
	u32 i;

	marking.lanes = 0;
	marking.sweeps++;
	marking.steps = MARK_STEPS;
	bpf_for(i, 0, MARK_STEPS) {
		if (READ_ONCE(marking.lanes) >= LANES_MAX || (s32)--marking.steps <= 0)
			break;
		WRITE_ONCE(marking.lanes, marking.lanes + mark_lane_step());
	}
}

#endif
