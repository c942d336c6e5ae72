/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one table through which level 1 calls policies.
 *
 * Each function is a switch over policies.def; the build makes policies.gen.h,
 * which includes the policies' sources in the same order. A policy whose bit is
 * not set in enabled_policies is a constant falsehood to the verifier, which
 * then drops its code; a callback that a policy does not name is one to the compiler.
 *
 * The functions are global, so that the verifier reads each policy's callback once and
 * not with every path that leads to it; weak, since the compiler would else leave out
 * arguments that no policy looks at.
 */
#ifndef METASCHED_TABLE_BPF_H
#define METASCHED_TABLE_BPF_H

#include <queues.bpf.h>

/* Policies call level 1, which knows what it did: see sched.bpf.h. */
#define scx_bpf_dsq_insert policies_call_lane_insert
#define scx_bpf_dsq_insert_vtime policies_call_lane_insert_vtime
#define scx_bpf_dsq_move_to_local policies_call_lane_move_to_local
#define scx_bpf_task_set_slice policies_call_lane_grant
#include <policies.gen.h>
#undef scx_bpf_dsq_insert
#undef scx_bpf_dsq_insert_vtime
#undef scx_bpf_dsq_move_to_local
#undef scx_bpf_task_set_slice

_Static_assert(POLICIES <= 64, "enabled_policies has one bit for each");
_Static_assert(POLICIES <= PRESETS_FIRST, "numbers from there on are those of presets");

/* Which policies this load may run; set by the loader before it loads. */
const volatile u64 enabled_policies = ~0ULL;

#define policy_enabled(id) (enabled_policies & (1ULL << (id)))
/* What a policy does if it is that one, is enabled, and its constant says that it has this. */
#define CASE_IF(name, has, call)                                                                   \
	case POLICY_##name:                                                                        \
		if ((has) && policy_enabled(POLICY_##name)) {                                      \
			call;                                                                      \
		}                                                                                  \
		break;
#define CASE(name, member, call) CASE_IF(name, name##_ops.member, call)
/* CASE for a policy that level 1 can call without the task's record. */
#define CASE_UNWATCHED(name, member, call)                                                         \
	CASE_IF(name, name##_ops.member && !POLICY_WATCHES(name##_ops), call)

/* Whether the policy has to be told of each task's runs. */
static __always_inline bool policy_keeps_tasks(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE_IF(name, POLICY_WATCHES(name##_ops), return true)
#include <policies.def>
#undef POLICY
	}
	return false;
}

/* Whether the policy keeps something of each task. */
static __always_inline bool policy_has_task_state(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE(name, task_bytes, return true)
#include <policies.def>
#undef POLICY
	}
	return false;
}

/* Whether the policy has a half in user space: then its last queue is of undecided tasks. */
static __always_inline bool policy_has_user_half(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE(name, decide, return true)
#include <policies.def>
#undef POLICY
	}
	return false;
}

/* Says where each kind of queue begins, and how many there are in all. */
static __always_inline u32 lay_out_queues(struct lane *lane, u32 queues, u32 llc_queues,
					  u32 cpu_queues, bool undecided)
{
	lane->llc_dsq = lane->dsq + queues;
	lane->cpu_dsq = lane->llc_dsq + llc_queues * nr_llcs();
	return queues + llc_queues * nr_llcs() + cpu_queues * nr_cpus() + undecided;
}

/* Lays out the queues of a lane, and says how many it has: 0 if its policy may not run. */
static __always_inline u32 policy_queues(struct lane *lane)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE_IF(name, true,                                                                        \
		return lay_out_queues(lane, name##_ops.queues, name##_ops.llc_queues,              \
				      name##_ops.cpu_queues, !!name##_ops.decide))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* What the policy uses, see policy.h. */
static __always_inline u32 policy_uses(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE_IF(name, true, return POLICY_USES(name##_ops))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* What some policy uses: a constant, by which what is for none is left out. */
static __always_inline u32 all_uses(void)
{
	u32 all = 0;
#define POLICY(name, ...) all |= POLICY_USES(name##_ops);
#include <policies.def>
#undef POLICY
	return all;
}

/* all_uses() for the simulator, which calls it; it is no code of the kernel's program. */
__weak __noinline u32 policies_use(void)
{
	return all_uses();
}

/* See marks.bpf.h. */
static __always_inline bool any_places(void)
{
	return all_uses() & USES_PLACES;
}

/* Whether the policy grants infinite slices. */
static __always_inline bool policy_is_infinite(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE_IF(name, name##_ops.infinite, return true)
#include <policies.def>
#undef POLICY
	}
	return false;
}

/* What the policies of lanes use that are not free; written while lanes change. */
u32 uses_now;

static __always_inline bool is_used(u32 what)
{
	return all_uses() & what && unlikely(READ_ONCE(uses_now) & what);
}

/* How many queues each CPU has in a lane of the policy. */
static __always_inline u32 policy_cpu_queues(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE(name, cpu_queues, return name##_ops.cpu_queues)
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* How many queues each last-level cache has in a lane of the policy. */
static __always_inline u32 policy_llc_queues(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...) CASE(name, llc_queues, return name##_ops.llc_queues)
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* What was kept in the lane's place for CPUs, caches and in sets of CPUs begins anew. */
__weak __noinline int forget_places(struct lane *lane __arg_nonnull, bool cpus, bool llcs, u32 sets)
{
	struct cpu_state *c;
	struct llc_state *l;
	struct cpus *set;
	u32 i;

	bpf_for(i, 0, cpus ? nr_cpus() : 0) {
		c = lane_cpu(lane, i);
		if (c)
			__builtin_memset(c, 0, sizeof(*c));
	}
	bpf_for(i, 0, llcs ? nr_llcs() : 0) {
		l = lane_llc(lane, i);
		if (l)
			__builtin_memset(l, 0, sizeof(*l));
	}
	bpf_for(i, 0, sets) {
		set = lane_cpu_set(lane, i);
		if (set)
			__builtin_memset(set, 0, sizeof(*set));
	}
	return 0;
}

static __always_inline void policy_forget_places(struct lane *lane)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE_IF(name, name##_ops.cpu_bytes || name##_ops.llc_bytes || name##_ops.cpu_sets,         \
		forget_places(lane, name##_ops.cpu_bytes, name##_ops.llc_bytes,                    \
			      name##_ops.cpu_sets))
#include <policies.def>
#undef POLICY
	}
}

/* The policy of a variant, which is a policy or a preset; no policy's number if there is no such variant. */
static __always_inline u32 policy_of_variant(u32 variant)
{
	u32 preset = PRESETS_FIRST;

	if (variant < PRESETS_FIRST)
		return variant;
#define PRESET(name, policy, ...)                                                                  \
	if (variant == preset++)                                                                   \
		return POLICY_##policy;
#include <presets.def>
#undef PRESET
	return POLICIES;
}

/* Sets those options of a new lane that its preset gives another value than the default. */
static __always_inline void preset_options(struct lane *lane)
{
	u32 preset = PRESETS_FIRST;

#define SET(policy, option, value) lane->options[policy##_option_##option] = value;
#define PRESET(name, policy, summary, ...)                                                         \
	if (lane->variant == preset++) {                                                           \
		__VA_ARGS__                                                                        \
	}
#include <presets.def>
#undef PRESET
#undef SET
}

/* Sets every option of a new lane to its default. */
static __always_inline void policy_default_options(struct lane *lane)
{
	u32 i = 0;

	switch (lane->policy) {
#define SET_DEFAULT(policy, name, unit, dfl, ...)                                                  \
	if (i < LANE_OPTIONS_MAX)                                                                  \
		lane->options[i++] = dfl;
#define POLICY(name, ...) CASE_IF(name, true, name##_options(SET_DEFAULT))
#include <policies.def>
#undef POLICY
#undef SET_DEFAULT
	}
	preset_options(lane);
}

static __always_inline s32 policy_select_cpu(struct lane *lane, struct task_struct *p,
					     s32 prev_cpu, u64 wake_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE(name, select_cpu, return name##_ops.select_cpu(lane, p, prev_cpu, wake_flags))
#include <policies.def>
#undef POLICY
	}
	return prev_cpu;
}

/* For a lane alone whose policy watches no tasks: in line, with no record looked for. */
static __always_inline void policy_enqueue(struct lane *lane, struct task_struct *p, u64 enq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE_UNWATCHED(name, enqueue, name##_ops.enqueue(lane, p, NULL, enq_flags))
#include <policies.def>
#undef POLICY
	}
}

/* For a lane of any policy. */
__weak __noinline int policy_enqueue_task(struct lane *lane __arg_nonnull,
					  struct task_struct *p __arg_trusted,
					  struct lane_task *t __arg_nonnull, u64 enq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, enqueue, name##_ops.enqueue(lane, p, t, enq_flags))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* For a lane alone whose policy watches no tasks. */
static __always_inline bool policy_dispatch(struct lane *lane, s32 cpu)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE_UNWATCHED(name, dispatch, return name##_ops.dispatch(lane, cpu, NULL, NULL, NULL))
#include <policies.def>
#undef POLICY
	}
	return false;
}

/*
 * What policies are told of a task that ran where there is none. In writable memory: the
 * verifier assumes that a function writes through its arguments.
 */
struct lane_task no_task;
struct lane_run no_run;

/* For a lane of any policy; without @prev, @t and @run are no_task and no_run. */
__weak __noinline bool policy_dispatch_task(struct lane *lane __arg_nonnull, s32 cpu,
					    struct task_struct *prev __arg_trusted __arg_nullable,
					    struct lane_task *t __arg_nonnull,
					    const struct lane_run *run __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...)                                                                          \
	CASE(name, dispatch, return name##_ops.dispatch(lane, cpu, prev, t, run))
#include <policies.def>
#undef POLICY
	}
	return false;
}

__weak __noinline int policy_join(struct lane *lane __arg_nonnull,
				  struct task_struct *p __arg_trusted,
				  struct lane_task *t __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, join, name##_ops.join(lane, p, t))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_running(struct lane *lane __arg_nonnull,
				     struct task_struct *p __arg_trusted,
				     struct lane_task *t __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, running, name##_ops.running(lane, p, t))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_stopping(struct lane *lane __arg_nonnull,
				      struct task_struct *p __arg_trusted,
				      struct lane_task *t __arg_nonnull,
				      const struct lane_run *run __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, stopping, name##_ops.stopping(lane, p, t, run))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_tick(struct lane *lane __arg_nonnull,
				  struct task_struct *p __arg_trusted,
				  struct lane_task *t __arg_nonnull,
				  const struct lane_run *run __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, tick, name##_ops.tick(lane, p, t, run))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_runnable(struct lane *lane __arg_nonnull,
				      struct task_struct *p __arg_trusted,
				      struct lane_task *t __arg_nonnull, u64 enq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, runnable, name##_ops.runnable(lane, p, t, enq_flags))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_quiescent(struct lane *lane __arg_nonnull,
				       struct task_struct *p __arg_trusted,
				       struct lane_task *t __arg_nonnull, u64 deq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, quiescent, name##_ops.quiescent(lane, p, t, deq_flags))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_start(struct lane *lane __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, start, name##_ops.start(lane))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_timer(struct lane *lane __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, timer, name##_ops.timer(lane))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

__weak __noinline int policy_answer(struct lane *lane __arg_nonnull, s32 cpu)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, answer, name##_ops.answer(lane, cpu))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* Where a task goes; NULL for @d, where user space has not decided. */
__weak __noinline int policy_decide(struct lane *lane __arg_nonnull,
				    struct task_struct *p __arg_trusted,
				    struct lane_task *t __arg_nonnull,
				    const struct lane_decision *d,
				    struct lane_place *place __arg_nonnull)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, decide, name##_ops.decide(lane, p, t, d, place))
#include <policies.def>
#undef POLICY
	}
	return 0;
}

/* Fails the build where it is not left out. */
extern void policy_asks_for_too_much(void)
	__attribute__((error("a policy_ops asks for more than lane.h grants, or lacks a callback")));

/*
 * What the loader has to know of each policy, as lines of numbers in a section of the
 * object that is no part of the program. By way of the assembler, since a member of a
 * constant is a constant to the compiler, and not in the language.
 */
__attribute__((used)) static void policy_shapes(void)
{
#define POLICY(name, ...)                                                                          \
	if (!name##_ops.enqueue || !name##_ops.dispatch ||                                         \
	    !(name##_ops.queues + name##_ops.llc_queues + name##_ops.cpu_queues) ||                \
	    name##_ops.queues > LANE_QUEUES_MAX || name##_ops.llc_queues > LANE_QUEUES_MAX ||      \
	    name##_ops.cpu_queues > LANE_QUEUES_MAX || name##_ops.task_bytes > TASK_STATE_BYTES || \
	    name##_ops.cpu_bytes > CPU_STATE_BYTES || name##_ops.llc_bytes > LLC_STATE_BYTES ||    \
	    name##_ops.cpu_sets > LANE_CPU_SETS_MAX ||                                             \
	    name##_ops.group_bytes > GROUP_STATE_BYTES)                                            \
		policy_asks_for_too_much();                                                        \
	asm volatile(".pushsection .policy_shapes,\"\",@progbits\n"                               \
		     ".quad %c0, %c1, %c2, %c3, %c4\n"                                            \
		     ".popsection" ::"i"(POLICY_USES(name##_ops)),                            \
		     "i"(name##_ops.cpu_bytes), "i"(name##_ops.llc_bytes),                         \
		     "i"(name##_ops.cpu_sets), "i"(!!name##_ops.decide));
#include <policies.def>
#undef POLICY
}

#endif
