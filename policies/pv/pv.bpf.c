/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pv: fair, for hosts of virtual machines. The virtual CPUs of a machine run at once, or take
 * short turns.
 *
 * A parallel program in a machine gets on as fast as the last of its threads. Those that have a
 * CPU spin and wait for those that only seem to have one, as their virtual CPU waits on the host
 * (a phantom). Then the time of all others is lost. So a machine that is owed as much as those
 * that run has all of its virtual CPUs run together for a time, and then none more than others
 * leave to it. While some wait, those that run give their CPUs to them after a short turn: so
 * each gets on a little.
 *
 * A machine is a process of several threads, as with QEMU and others: libvirt puts each virtual
 * CPU into a cgroup of its own. What of it is runnable under a last-level cache is a gang. A
 * gang has one virtual run time, the mean of its members' by weight, and so they are owed the
 * same, whichever of them ran. By that it has no more than its part. All else is as in fair, see
 * fair.bpf.h.
 *
 * It helps where hosts have more virtual CPUs that compute than CPUs. It costs switches there,
 * and tasks wait for the time of a gang.
 */
#include <fair.bpf.h>
#include "options.h"

enum { pv_options(OPTION_INDEX) };
enum { pv_counters(COUNTER_INDEX) };

FAIR_CORE_OF(pv);

/* Places that are looked at for a gang. */
#define PV_PROBES 8
/*
 * Tasks that are looked at for one of a gang: as many as two large machines have on a large
 * cache.
 */
#define PV_LOOKS 128
/* A gang that too few CPUs gave way to asks again after so long. */
#define PV_AGAIN_NS (250ULL * 1000)

/*
 * What a gang is found by.
 *
 *	 63            32 31            16 15             0
 *	+----------------+----------------+----------------+
 *	|    process     |     cache      |    members     |
 *	+----------------+----------------+----------------+
 *
 * Members are tasks that compete. Without any the place is free. While PV_NEW is set the rest of
 * the gang is not valid yet.
 */
#define PV_LLC_SHIFT 16
#define PV_PROCESS_SHIFT 32
#define PV_MEMBERS 0xffffULL
#define PV_NEW 0x8000ULL
/* So many a gang has at most: each CPU may add one more at once. */
#define PV_MEMBERS_MAX 0x7000ULL

_Static_assert(PV_MEMBERS_MAX + CPUS_MAX < PV_NEW, "members never look like the flag");

/*
 * What is kept of a task beside fair's, in eevdf_task.more: the number of its gang, and whether
 * it waits.
 */
#define PV_WAITS 0x8000
#define PV_MORE_WORD STATE_WORD(struct fair_task, e.weight)

_Static_assert(__builtin_offsetof(struct eevdf_task, more) % 8 == 6,
	       "the highest 16 bits of its word");
_Static_assert(CPUS_MAX < PV_WAITS, "a gang's number is a CPU's plus one");

struct pv_gang {
	u64 key;
	u64 vruntime; /* the sum of its members', each times its weight, by the sum of weights */
	u64 weight; /* of its members together */
	u64 until_ns; /* until then all members are to run */
	u64 asked_ns; /* when it last asked for CPUs */
	u32 waiting; /* members that are queued */
	u32 wants; /* CPUs that it asks for; here, since the verifier would follow a local count */
};

/* There are as many gangs as CPUs; each CPU's state has room for one. */
struct pv_cpu {
	struct fair_cpu cpu;
	struct pv_gang gang;
	u64 runs; /* the number of the gang of the task that it runs; 0: of none */
};

struct pv_llc {
	struct fair_llc llc;
	u64 gang; /* the number of the one whose time began last */
};

static __always_inline struct pv_cpu *pv_cpu_at(struct lane *lane, s32 cpu)
{
	struct cpu_state *state = lane_cpu(lane, cpu);

	return state ? STATE_OF(state, struct pv_cpu) : NULL;
}

static __always_inline struct pv_llc *pv_llc_at(struct lane *lane, u32 llc)
{
	struct llc_state *state = lane_llc(lane, llc);

	return state ? STATE_OF(state, struct pv_llc) : NULL;
}

/* The gang of that number; NULL for 0. The compiler would add to a pointer that may be NULL yet. */
static __always_inline struct pv_gang *pv_gang_at(struct lane *lane, u32 number)
{
	struct pv_cpu *there = number ? pv_cpu_at(lane, number - 1) : NULL;

	if (!there)
		return NULL;
	barrier_var(there);
	return &there->gang;
}

static __always_inline u32 pv_number(const struct fair_task *task)
{
	return task->e.more & ~PV_WAITS;
}

static __always_inline u32 pv_members(const struct pv_gang *g)
{
	return READ_ONCE(g->key) & PV_MEMBERS;
}

/* Whether it is the gang's time, and for how long still. */
static __always_inline s64 pv_left_ns(const struct pv_gang *g, u64 now)
{
	s64 left_ns = READ_ONCE(g->until_ns) - now;

	return left_ns >= (s64)EEVDF_LEAST_SLICE_NS ? left_ns : 0;
}

static __always_inline bool pv_takes_members(u64 is, u64 key)
{
	u64 members = is & PV_MEMBERS;

	return (is & ~PV_MEMBERS) == key && members && members < PV_NEW;
}

/* If it is the gang of that key it has a member more. */
static __always_inline bool pv_adds(struct pv_gang *g, u64 key)
{
	u64 is = READ_ONCE(g->key);

	if (!pv_takes_members(is, key) || (is & PV_MEMBERS) >= PV_MEMBERS_MAX)
		return false;
	if (pv_takes_members(__sync_fetch_and_add(&g->key, 1), key))
		return true;
	/* It has ended meanwhile, and the place may have been given to another one. */
	__sync_fetch_and_add(&g->key, -1ULL);
	return false;
}

/*
 * The gang of that key has a member more. It may be a new one, of that virtual run time. Its
 * number; 0 if there is no room for it, or if another CPU just makes it: the task asks again when
 * it is next queued.
 */
__weak __noinline u32 pv_joins(struct lane *lane __arg_nonnull, u64 key, u64 vruntime)
{
	u32 home = (u32)((key >> PV_PROCESS_SHIFT) * 31 + (key >> PV_LLC_SHIFT)) % nr_cpus();
	u32 i, cpu, probes = PV_PROBES < nr_cpus() ? PV_PROBES : nr_cpus();
	struct pv_gang *g;
	u64 is;

	bpf_for(i, 0, probes) {
		cpu = cpu_after(home, i);
		g = pv_gang_at(lane, cpu + 1);
		if (g && pv_adds(g, key))
			return cpu + 1;
	}
	bpf_for(i, 0, probes) {
		cpu = cpu_after(home, i);
		g = pv_gang_at(lane, cpu + 1);
		is = g ? READ_ONCE(g->key) : PV_MEMBERS;
		if (is & PV_MEMBERS)
			continue;
		if (__sync_val_compare_and_swap(&g->key, is, key | PV_NEW) == is) {
			g->vruntime = vruntime;
			g->weight = 0;
			g->until_ns = 0;
			g->asked_ns = 0;
			__sync_fetch_and_add(&g->key, 1 - PV_NEW);
			return cpu + 1;
		}
		/* Threads of a program often begin at once: another one of it may just have taken the place. */
		if (pv_adds(g, key))
			return cpu + 1;
	}
	return 0;
}

/* What a member of a gang weighs on average. */
static __always_inline u64 pv_mean_weight(const struct pv_gang *g, u32 members)
{
	return members ? READ_ONCE(g->weight) / members : 0;
}

/*
 * Something has changed the virtual run time of a member by itself: the mean changes by its
 * part.
 */
static __always_inline void pv_moves(struct pv_gang *g, const struct fair_task *task, u64 before)
{
	if (g)
		__sync_fetch_and_add(&g->vruntime,
				     eevdf_scale(task->e.vruntime - before, task->e.weight,
						 READ_ONCE(g->weight)));
}

/* What a member requests at once: the gang's whole time. */
static __always_inline u64 pv_request_ns(struct lane *lane)
{
	u64 gang_ns = lane->options[pv_option_gang_ns], slice_ns = fair_slice(lane);

	return gang_ns > slice_ns ? gang_ns : slice_ns;
}

/*
 * The member has the virtual run time of its gang, and its deadline is that of a request that
 * begins now. What it weighs itself does not count for that: those that wait are in the order in
 * which they came, and the lightest is no phantom for longer than the others. One that competes
 * alone goes on with its own request.
 */
static __always_inline void pv_follows(struct lane *lane, const struct pv_gang *g,
				       struct fair_task *task)
{
	u32 members = g ? pv_members(g) : 0;
	u64 before = task->e.vruntime, due;

	if (!g)
		return;
	due = eevdf_vtime(pv_request_ns(lane), pv_mean_weight(g, members));
	task->e.vruntime = READ_ONCE(g->vruntime);
	task->e.deadline = members < 2 ? task->e.deadline + (task->e.vruntime - before) :
					 task->e.vruntime + due;
}

/*
 * The slice by which lags are bounded: a task may wait for the time of a gang, and what it is owed
 * for that stays.
 */
static __always_inline u64 pv_bound_ns(struct lane *lane)
{
	u64 gang_ns = lane->options[pv_option_gang_ns], slice_ns = fair_slice(lane);

	return gang_ns > slice_ns + EEVDF_TICK_NS ? gang_ns - EEVDF_TICK_NS : slice_ns;
}

/*
 * The lag of a gang is bounded as in eevdf_bounds(), for all members at once. Those have one lag,
 * so the bound is that of their mean weight: by its own bound the one that weighs most would lose
 * debts that are the others'.
 */
static __always_inline void pv_bounds(struct lane *lane, struct fair_llc *l, struct pv_gang *g,
				      u32 members)
{
	u64 now = READ_ONCE(l->q.now), is = READ_ONCE(g->vruntime);
	u64 weight = pv_mean_weight(g, members);
	s64 lag = now - is;
	s64 moved = lag - eevdf_bounded(lag, pv_request_ns(lane), weight);

	if (likely(!moved) || __sync_val_compare_and_swap(&g->vruntime, is, is + moved) != is)
		return;
	/* The product of the gang's whole weight might not fit. */
	__sync_fetch_and_add(&l->q.now,
			     eevdf_scale(moved, weight, READ_ONCE(l->q.weight) / members));
}

/* What the task requests, as eevdf_request(), and for how long it may run. */
static __always_inline u64 pv_requests(struct lane *lane, struct fair_llc *l, struct pv_gang *g,
				       struct fair_task *task)
{
	u32 members = g ? pv_members(g) : 0;
	u64 before, slice_ns;

	if (members > 1) {
		pv_bounds(lane, l, g, members);
		pv_follows(lane, g, task);
		return fair_slice(lane);
	}
	pv_follows(lane, g, task);
	before = task->e.vruntime;
	eevdf_bounds(&l->q, &task->e, pv_bound_ns(lane));
	slice_ns = eevdf_rest(&task->e, fair_slice(lane));
	pv_moves(g, task, before);
	return slice_ns;
}

/*
 * Brings the weight of a task up to date. The lag of its gang stays the same in time, as in
 * eevdf_reweigh().
 */
static __always_inline void pv_reweighs(struct lane *lane, struct task_struct *p,
					struct fair_task *task, struct fair_llc *l,
					struct pv_gang *g)
{
	s64 more = -(s64)task->e.weight, lag;
	u64 weight;

	pv_follows(lane, g, task);
	fair_reweigh(lane, p, task, l);
	more += task->e.weight;
	if (!g || likely(!more))
		return;
	weight = __sync_fetch_and_add(&g->weight, more) + more;
	lag = READ_ONCE(l->q.now) - READ_ONCE(g->vruntime);
	lag = more < 0 ? -eevdf_scale(lag, -more, weight) : eevdf_scale(lag, more, weight);
	__sync_fetch_and_add(&g->vruntime, lag);
	pv_follows(lane, g, task);
}

/* A task competes. If its process has others it is a member of a gang from now on. */
static __always_inline void pv_enters(struct lane *lane, struct task_struct *p,
				      struct fair_task *task)
{
	u64 key = (u64)p->tgid << PV_PROCESS_SHIFT | (u64)task->e.queue << PV_LLC_SHIFT;
	struct pv_gang *g;

	if (task->e.more || !task->e.weight || p->signal->nr_threads < 2)
		return;
	task->e.more = pv_joins(lane, key, task->e.vruntime);
	g = pv_gang_at(lane, task->e.more);
	if (!g)
		return;
	__sync_fetch_and_add(&g->weight, task->e.weight);
	pv_moves(g, task, READ_ONCE(g->vruntime));
}

static __always_inline void pv_waits_no_more(struct pv_gang *g, struct fair_task *task)
{
	if (g && task->e.more & PV_WAITS)
		__sync_fetch_and_add(&g->waiting, -1);
	task->e.more &= ~PV_WAITS;
}

/* It competes there no more, and takes the lag of the gang along. */
static __always_inline void pv_leaves(struct lane *lane, struct fair_task *task)
{
	struct pv_gang *g = pv_gang_at(lane, pv_number(task));

	if (!g)
		return;
	pv_waits_no_more(g, task);
	__sync_fetch_and_add(&g->weight, -(u64)task->e.weight);
	__sync_fetch_and_add(&g->key, -1ULL);
	task->e.more = 0;
}

/* The task competes under that cache, where it did not yet. */
static __always_inline void pv_comes(struct lane *lane, struct task_struct *p,
				     struct fair_task *task, u32 llc)
{
	if (!task->e.weight || task->e.queue != llc) {
		pv_follows(lane, pv_gang_at(lane, pv_number(task)), task);
		pv_leaves(lane, task);
		fair_compete(lane, p, task, llc);
	}
	pv_enters(lane, p, task);
}

static void pv_runnable(struct lane *lane, struct task_struct *p, struct lane_task *t,
			u64 enq_flags)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);

	pv_leaves(lane, task);
	fair_runnable(lane, p, t, enq_flags);
	pv_enters(lane, p, task);
}

static void pv_quiescent(struct lane *lane, struct task_struct *p, struct lane_task *t,
			 u64 deq_flags)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);

	pv_follows(lane, pv_gang_at(lane, pv_number(task)), task);
	pv_leaves(lane, task);
	fair_quiescent(lane, p, t, deq_flags);
}

/* What a CPU is to a gang that asks for some. */
enum {
	PV_KEEPS, /* it runs a member, or nothing that the gang could have */
	PV_SPARED, /* its task is to go on */
	PV_GIVES, /* it gives way */
	PV_GIVES_WHOLE, /* and with it a machine that has no phantoms */
};

/*
 * Its task goes on if that is owed more than the gang, by half a slice, or is of a gang whose
 * time it is. A machine that has no phantoms goes on until it has had half a slice more. What
 * members run is charged when they stop: until then as much counts for each that runs as this
 * CPU's has run.
 */
__weak __noinline u32 pv_gives(struct lane *lane __arg_nonnull, u32 number, s32 cpu, u64 now)
{
	struct pv_gang *g = pv_gang_at(lane, number), *other;
	struct pv_cpu *there = pv_cpu_at(lane, cpu);
	u64 own, half, ran;
	u32 members, waiting;
	s64 ran_ns;

	if (!g || !there)
		return PV_KEEPS;
	own = READ_ONCE(g->vruntime);
	other = pv_gang_at(lane, there->runs);
	ran_ns = ns_since(there->cpu.since_ns, now);
	if (there->cpu.runs == FAIR_RUNS_NONE)
		return cpu_takes_tasks(cpu) ? PV_GIVES : PV_KEEPS;
	if (there->cpu.runs != FAIR_RUNS || there->runs == number)
		return PV_KEEPS;
	if (there->cpu.gives_way)
		return PV_GIVES;
	ran_ns = ran_ns > 0 ? ran_ns : 0;
	members = other ? pv_members(other) : 0;
	if (members < 2) {
		half = eevdf_vtime(fair_slice(lane) / 2, there->cpu.weight);
		ran = there->cpu.vruntime + eevdf_vtime(ran_ns, there->cpu.weight);
		return vtime_before(ran, own - half) ? PV_SPARED : PV_GIVES;
	}
	half = eevdf_vtime(fair_slice(lane) / 2, pv_mean_weight(other, members));
	waiting = READ_ONCE(other->waiting);
	ran = eevdf_vtime(ran_ns, READ_ONCE(other->weight)) *
	      (waiting < members ? members - waiting : 0);
	ran += READ_ONCE(other->vruntime);
	if (pv_left_ns(other, now) || vtime_before(ran, waiting ? own - half : own + half))
		return PV_SPARED;
	return waiting ? PV_GIVES : PV_GIVES_WHOLE;
}

/* Whether a gang under that cache, of which @p is a member, may have that CPU. */
static __always_inline bool pv_may_use(const struct task_struct *p, s32 cpu, u32 llc)
{
	return cpu_llc(cpu) == llc && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* CPUs that are @what to the gang choose anew, as many as it wants; @here does so anyway. */
__weak __noinline int pv_kicks(struct lane *lane __arg_nonnull, u32 number, u32 what, s32 here)
{
	struct pv_gang *g = pv_gang_at(lane, number);
	u64 now = scx_bpf_now();
	struct task_struct *p;
	struct pv_cpu *there;
	u32 i, llc;
	s32 cpu;

	if (!g)
		return 0;
	llc = g->key >> PV_LLC_SHIFT & 0xffff;
	/* The one for which it asks, see pv_asks(). */
	p = scx_bpf_dsq_peek(lane_llc_dsq(lane, llc, 0));
	if (!p)
		return 0;
	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu_after(here, i);
		if (!READ_ONCE(g->wants))
			break;
		if (!pv_may_use(p, cpu, llc) || pv_gives(lane, number, cpu, now) != what)
			continue;
		there = pv_cpu_at(lane, cpu);
		if (there && there->cpu.runs == FAIR_RUNS)
			there->cpu.runs = FAIR_RUNS_NO_MORE;
		if (cpu != here)
			lane_kick(lane, cpu, true);
		WRITE_ONCE(g->wants, READ_ONCE(g->wants) - 1);
	}
	return 0;
}

/*
 * The time of a gang begins, of which some wait as @p does. False if it is put off: some CPUs do
 * not give way, and the others are not enough.
 */
static __always_inline bool pv_begins(struct lane *lane, struct task_struct *p, u32 number, u32 llc,
				 s32 here)
{
	struct pv_gang *g = pv_gang_at(lane, number);
	struct pv_llc *l = pv_llc_at(lane, llc);
	u32 i, is, waiting;
	u64 now = scx_bpf_now();
	bool spared = false;
	s32 cpu;

	if (!g || !l)
		return false;
	g->asked_ns = now;
	waiting = READ_ONCE(g->waiting);
	WRITE_ONCE(g->wants, waiting);
	bpf_for(i, 0, nr_cpus()) {
		cpu = cpu_after(here, i);
		if (!pv_may_use(p, cpu, llc))
			continue;
		is = pv_gives(lane, number, cpu, now);
		spared |= is == PV_SPARED;
		if (is >= PV_GIVES && READ_ONCE(g->wants))
			WRITE_ONCE(g->wants, READ_ONCE(g->wants) - 1);
	}
	if (READ_ONCE(g->wants) == waiting ||
	    (READ_ONCE(g->wants) && spared &&
	     !vtime_before(g->vruntime + fair_slice(lane), READ_ONCE(l->llc.q.now)))) {
		lane_count(lane, pv_counter_put_off);
		return false;
	}
	lane_count(lane, pv_counter_gangs);
	g->until_ns = now + lane->options[pv_option_gang_ns];
	l->gang = number;
	WRITE_ONCE(g->wants, waiting);
	return true;
}

/*
 * The first task that waits may be a member of a gang. If its time has not begun, it may begin
 * now: the gang's number, and else 0.
 */
__weak __noinline u32 pv_asks(struct lane *lane __arg_nonnull, s32 cpu, u32 llc, u64 now)
{
	struct task_struct *first = scx_bpf_dsq_peek(lane_llc_dsq(lane, llc, 0));
	struct lane_task *t = first ? lane_kept(lane, first) : NULL;
	struct fair_task *task;
	struct pv_gang *g;
	u32 number;

	if (!t || !lane->options[pv_option_gang_ns])
		return 0;
	task = STATE_OF(t, struct fair_task);
	number = pv_number(task);
	g = pv_gang_at(lane, number);
	if (!g || pv_members(g) < 2)
		return 0;
	pv_follows(lane, g, task);
	if (pv_left_ns(g, now) || ns_since(g->asked_ns, now) < (s64)PV_AGAIN_NS)
		return 0;
	return pv_begins(lane, first, number, llc, cpu) ? number : 0;
}

/* A member of the gang of that number that waits is moved to this CPU. */
static __always_inline bool pv_takes(struct lane *lane, const struct fair_choice *c, u32 number)
{
	return lane_move_marked(lane, c->dsq, PV_MORE_WORD, number | PV_WAITS, PV_LOOKS);
}

/* It is the time of a gang, of which some wait still: one comes to this CPU. */
static __always_inline bool pv_serves(struct lane *lane, const struct fair_choice *c)
{
	u32 number = ((struct pv_llc *)c->l)->gang;
	struct pv_gang *g = pv_gang_at(lane, number);

	if (!g || !READ_ONCE(g->waiting) || !pv_left_ns(g, c->now) ||
	    !pv_takes(lane, c, number))
		return false;
	lane_count(lane, pv_counter_ganged);
	return true;
}

/* A member has run here for a turn: another one that waits comes to this CPU. */
static __always_inline bool pv_makes_way(struct lane *lane, const struct fair_choice *c,
					 const struct pv_gang *g, u32 number)
{
	if (!READ_ONCE(g->waiting) || !lane->options[pv_option_turn_ns] ||
	    !pv_takes(lane, c, number))
		return false;
	lane_count(lane, pv_counter_turns);
	return true;
}

/*
 * For how long a member runs: in the time of its gang until that is over, but for a turn if some
 * wait all the same; and else for @slice_ns.
 */
static __always_inline u64 pv_runs_ns(struct lane *lane, const struct pv_gang *g, u64 slice_ns,
				      u64 now)
{
	u64 turn_ns = lane->options[pv_option_turn_ns] ?: fair_slice(lane);
	u64 left_ns = pv_left_ns(g, now);

	if (left_ns)
		slice_ns = left_ns;
	return READ_ONCE(g->waiting) && turn_ns < slice_ns ? turn_ns : slice_ns;
}

/* It is the time of the gang of the task that ran here. More members than CPUs have turns. */
static __always_inline bool pv_goes_on(struct lane *lane, s32 cpu, const struct fair_choice *c,
				       struct task_struct *prev, struct fair_task *task,
				       const struct pv_gang *g)
{
	return pv_makes_way(lane, c, g, pv_number(task)) ||
	       fair_goes_on(lane, cpu, c->here, prev, task, c->now,
			    pv_runs_ns(lane, g, fair_slice(lane), c->now));
}

/*
 * None of those that were looked at is eligible, as in fair_pick_early(). Where that is of a
 * gang `now` is not behind: the gang has had its time, and others run that are owed as much.
 */
static __always_inline bool pv_pick_early(struct lane *lane, s32 cpu, const struct fair_choice *c,
					  const struct pv_gang *own, const struct fair_task *task)
{
	struct task_struct *first = scx_bpf_dsq_peek(c->dsq);
	struct lane_task *t = first ? lane_kept(lane, first) : NULL;

	if (!own && !(t && STATE_OF(t, struct fair_task)->e.more))
		return fair_pick_early(lane, c->l, c->dsq, cpu, task);
	if (task && vtime_before(task->e.deadline, first_here(lane, c->dsq, cpu)))
		return false;
	if (!lane_move_to_local(lane, c->dsq))
		return false;
	lane_count(lane, pv_counter_early);
	return true;
}

static bool pv_dispatch(struct lane *lane, s32 cpu, struct task_struct *prev, struct lane_task *t,
			const struct lane_run *run)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	u32 number = prev ? pv_number(task) : 0, begins;
	struct pv_gang *own = pv_gang_at(lane, number);
	u64 slice_ns = 0, before;
	bool goes_on = false;
	struct fair_choice c;

	if (!fair_chooses(lane, cpu, &c))
		return false;
	if (prev) {
		before = task->e.vruntime;
		eevdf_charge(&c.l->q, &task->e, run->ran_ns, &c.here->counted_ns);
		pv_moves(own, task, before);
		pv_reweighs(lane, prev, task, c.l, own);
		slice_ns = pv_requests(lane, c.l, own, task);
		goes_on = eevdf_eligible(&c.l->q, task->e.vruntime);
	}
	if (fair_picks_before(lane, cpu, &c))
		return true;
	if (READ_ONCE(c.l->sleepers.count)) {
		fair_look(lane, c.l, c.dsq,
			  goes_on ? task->e.deadline : READ_ONCE(c.l->q.now) + EEVDF_LONGEST_NS,
			  prev);
		goes_on = goes_on && eevdf_eligible(&c.l->q, task->e.vruntime);
	}
	begins = pv_asks(lane, cpu, c.llc, c.now);
	if (begins) {
		pv_kicks(lane, begins, PV_GIVES, cpu);
		pv_kicks(lane, begins, PV_GIVES_WHOLE, cpu);
	}
	if (own && pv_left_ns(own, c.now) && c.here->runs == FAIR_RUNS)
		return pv_goes_on(lane, cpu, &c, prev, task, own);
	if (pv_serves(lane, &c))
		return true;
	if (fair_pick(lane, c.l, c.dsq, cpu, c.now, task->e.deadline, !goes_on,
		      prev && task->share.gives_way))
		return true;
	if (own && pv_makes_way(lane, &c, own, number))
		return true;
	if (!goes_on && pv_pick_early(lane, cpu, &c, own, prev ? task : NULL))
		return true;
	if (prev)
		return fair_goes_on(lane, cpu, c.here, prev, task, c.now, slice_ns);
	return fair_picks_elsewhere(lane, &c);
}

static void pv_enqueue(struct lane *lane, struct task_struct *p, struct lane_task *t, u64 enq_flags)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	s32 cpu = scx_bpf_task_cpu(p);
	struct fair_llc *l = fair_llc_at(lane, cpu_llc(cpu));
	struct pv_gang *g;

	if (!l)
		return;
	pv_comes(lane, p, task, cpu_llc(cpu));
	g = pv_gang_at(lane, pv_number(task));
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		pv_reweighs(lane, p, task, l, g);
	if (g && !(task->e.more & PV_WAITS)) {
		__sync_fetch_and_add(&g->waiting, 1);
		task->e.more |= PV_WAITS;
	}
	fair_queue(lane, p, l, task, pv_requests(lane, l, g, task), enq_flags);
}

static void pv_running(struct lane *lane, struct task_struct *p, struct lane_task *t)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	s32 cpu = scx_bpf_task_cpu(p);
	struct pv_cpu *here = pv_cpu_at(lane, cpu);
	struct pv_gang *g;
	u64 runs_ns;

	pv_comes(lane, p, task, cpu_llc(cpu));
	g = pv_gang_at(lane, pv_number(task));
	pv_waits_no_more(g, task);
	pv_follows(lane, g, task);
	if (g && pv_members(g) > 1) {
		runs_ns = pv_runs_ns(lane, g, p->scx.slice, scx_bpf_now());
		if (runs_ns != p->scx.slice)
			lane_grant(lane, p, runs_ns);
	}
	fair_running(lane, p, t);
	if (here)
		here->runs = pv_number(task);
}

static void pv_stopping(struct lane *lane, struct task_struct *p, struct lane_task *t,
			const struct lane_run *run)
{
	struct fair_task *task = STATE_OF(t, struct fair_task);
	struct pv_cpu *here = pv_cpu_at(lane, scx_bpf_task_cpu(p));
	u64 before = task->e.vruntime;

	fair_stopping(lane, p, t, run);
	pv_moves(pv_gang_at(lane, pv_number(task)), task, before);
	if (here)
		here->runs = 0;
}

static const struct policy_ops pv_ops = {
	.select_cpu = fair_select_cpu,
	.enqueue = pv_enqueue,
	.dispatch = pv_dispatch,
	.join = fair_join,
	.running = pv_running,
	.stopping = pv_stopping,
	.runnable = pv_runnable,
	.quiescent = pv_quiescent,
	.llc_queues = 1,
	.task_bytes = sizeof(struct fair_task),
	.cpu_bytes = sizeof(struct pv_cpu),
	.llc_bytes = sizeof(struct pv_llc),
	.group_bytes = sizeof(struct fair_group),
	.ends_runs = 1,
};
