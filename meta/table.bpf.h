/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one table through which level 1 calls policies.
 *
 * Each function is a switch over policies.def; the build makes policies.gen.h,
 * which includes the policies' sources in the same order. A policy whose bit is
 * not set in enabled_policies is a constant falsehood to the verifier, which
 * then drops its code.
 */
#ifndef METASCHED_TABLE_BPF_H
#define METASCHED_TABLE_BPF_H

#include <sched.bpf.h>
#include <types.h>
#include <policies.gen.h>

_Static_assert(POLICIES <= 64, "enabled_policies has one bit for each");

/* Which policies this load may run; set by the loader before it loads. */
const volatile u64 enabled_policies = ~0ULL;

#define policy_enabled(id) (enabled_policies & (1ULL << (id)))
#define CASE(name, call)                                                                           \
	case POLICY_##name:                                                                        \
		if (policy_enabled(POLICY_##name)) {                                               \
			call;                                                                      \
		}                                                                                  \
		break;

/* Whether the policy keeps state per task. */
static __always_inline bool policy_keeps_tasks(u32 policy)
{
	switch (policy) {
#define POLICY(name, ...)
#define TASK_POLICY(name, ...) case POLICY_##name:
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
		return true;
	}
	return false;
}

/* How many dispatch queues a lane of the policy has; 0 for none that may run. */
static __always_inline u32 policy_queues(u32 policy)
{
	switch (policy) {
#define POLICY(name, summary, queues)                                                              \
	_Static_assert(queues >= 1 && queues <= LANE_QUEUES_MAX, #name ": queues");                \
	CASE(name, return queues)
#define TASK_POLICY POLICY
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
	return 0;
}

/* Sets every option of a new lane to its default. */
static __always_inline void policy_default_options(struct lane *lane)
{
	u32 i = 0;

	switch (lane->policy) {
#define SET_DEFAULT(policy, name, unit, dfl, ...)                                                  \
	if (i < LANE_OPTIONS_MAX)                                                                  \
		lane->options[i++] = dfl;
#define POLICY(name, ...) CASE(name, name##_options(SET_DEFAULT))
#define TASK_POLICY POLICY
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
#undef SET_DEFAULT
	}
}

static __always_inline s32 policy_select_cpu(struct lane *lane, struct task_struct *p,
					     s32 prev_cpu, u64 wake_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, return name##_select_cpu(lane, p, prev_cpu, wake_flags))
#define TASK_POLICY POLICY
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
	return prev_cpu;
}

/* For a lane whose policy keeps nothing per task. */
static __always_inline void policy_enqueue(struct lane *lane, struct task_struct *p, u64 enq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, name##_enqueue(lane, p, enq_flags))
#define TASK_POLICY(name, ...)
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
}

/* For a lane of any policy. */
static __always_inline void policy_enqueue_task(struct lane *lane, struct task_struct *p,
						struct lane_task *t, u64 enq_flags)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, name##_enqueue(lane, p, enq_flags))
#define TASK_POLICY(name, ...) CASE(name, name##_enqueue(lane, p, t, enq_flags))
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
}

/* For a lane whose policy keeps nothing per task. */
static __always_inline bool policy_dispatch(struct lane *lane, s32 cpu)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, return name##_dispatch(lane, cpu))
#define TASK_POLICY(name, ...)
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
	return false;
}

/* For a lane of any policy. */
static __always_inline bool policy_dispatch_task(struct lane *lane, s32 cpu,
						 struct task_struct *prev, struct lane_task *t,
						 u64 ran_ns)
{
	switch (lane->policy) {
#define POLICY(name, ...) CASE(name, return name##_dispatch(lane, cpu))
#define TASK_POLICY(name, ...) CASE(name, return name##_dispatch(lane, cpu, prev, t, ran_ns))
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
	return false;
}

static __always_inline void policy_join(struct lane *lane, struct task_struct *p,
					struct lane_task *t)
{
	switch (lane->policy) {
#define POLICY(name, ...)
#define TASK_POLICY(name, ...) CASE(name, name##_join(lane, p, t))
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
}

static __always_inline void policy_running(struct lane *lane, struct task_struct *p,
					   struct lane_task *t)
{
	switch (lane->policy) {
#define POLICY(name, ...)
#define TASK_POLICY(name, ...) CASE(name, name##_running(lane, p, t))
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
}

static __always_inline void policy_stopping(struct lane *lane, struct task_struct *p,
					    struct lane_task *t, u64 ran_ns, bool runnable)
{
	switch (lane->policy) {
#define POLICY(name, ...)
#define TASK_POLICY(name, ...) CASE(name, name##_stopping(lane, p, t, ran_ns, runnable))
#include <policies.def>
#undef POLICY
#undef TASK_POLICY
	}
}

#endif
