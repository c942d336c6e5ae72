/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The metascheduler: one ops table, whose callbacks find the lane of a task and
 * call that lane's policy.
 *
 * The four hot callbacks (enqueue, dispatch, running, stopping) first test the
 * root word. With one lane in force whose policy keeps nothing per task, they do
 * no more than a scheduler that has this policy alone: no look-up of the task,
 * no atomic, no line that CPUs share for writing.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <dying_cpu.bpf.h>
#include <leaving_cpu.bpf.h>
#include <lifecycle.bpf.h>
#include <turns.bpf.h>
#include <parking.bpf.h>
#include <decide.bpf.h>

char _license[] SEC("license") = "GPL";

/* The variant of the first lane, see struct lane; set by the loader before it loads. */
const volatile u32 initial_variant;

char exit_dump[EXIT_DUMP_LEN] SEC(".bss.dump");

SEC("struct_ops/metasched_select_cpu")
s32 BPF_PROG(metasched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 root = READ_ONCE(root_word);
	struct meta_lane *l = lane_at(root);

	if (on_dying_cpu())
		return select_from_dying_cpu(p, prev_cpu);
	/* Not on an idle CPU, past the queues, when it has to be parked. */
	if (unlikely(root & ROOT_LIMITS) && task_waits_for(p))
		return prev_cpu;
	if (unlikely(root & ROOT_SHARED)) {
		if (is_level1s(p, root))
			return wake_kthread(p, prev_cpu, wake_flags);
		l = lane_waking(p, root, wake_flags);
	}
	return policy_select_cpu(&l->lane, p, prev_cpu, wake_flags);
}

SEC("struct_ops/metasched_enqueue")
void BPF_PROG(metasched_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 root = READ_ONCE(root_word);
	struct meta_lane *l = lane_at(root);

	if (on_dying_cpu()) {
		enqueue_from_dying_cpu(p, enq_flags);
		return;
	}
	if (unlikely(is_level1s(p, root))) {
		enqueue_kthread(p, root, enq_flags);
		return;
	}
	if (unlikely(root & ROOT_LIMITS) && park_exhausted(p, enq_flags))
		return;
	if (unlikely(enq_flags & SCX_ENQ_LAST) && !task_rests(p)) {
		/* It had used up its grant, and has got another meanwhile; or see start_anew(). */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of_last(p, root), enq_flags);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
		return;
	}
	if (unlikely(root & ROOT_WATCHED))
		enqueue_watched(p, root, enq_flags);
	else
		policy_enqueue(&l->lane, p, enq_flags);
	tell_idle_cpu_unless_selected(p, enq_flags);
}

/* Whether there is a task for this CPU to run. */
static __always_inline bool choose(s32 cpu, struct task_struct *prev, u32 root)
{
	struct meta_lane *only;

	if (unlikely(root & ROOT_SHARED)) {
		only = lane_to_ask(prev, root);
		return only ? dispatch_only(only, cpu) : dispatch_shared(cpu, prev, root);
	}
	if (unlikely(root & ROOT_TASKS))
		return dispatch_alone(lane_at(root), cpu, prev);
	return policy_dispatch(&lane_at(root)->lane, cpu);
}

/*
 * This CPU goes idle, unless somebody has come for it since it looked: then it looks once
 * more. A policy may leave a task that it found on purpose, so twice would be no better.
 */
static __always_inline void look_again(s32 cpu, u32 root)
{
	if (goes_idle(cpu, root))
		choose(cpu, NULL, root);
}

/* Gives this CPU a task, or lets the one that ran go on. */
static __always_inline void dispatch(s32 cpu, struct task_struct *prev, u32 root)
{
	bool answered = false;

	nobody_rests();
	if (is_used(USES_ANSWER))
		answered = answer_asks(cpu);
	if (unlikely(root & ROOT_LIMITS) && prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		/* The task may not go on, on any lane: the kernel enqueues it, and it is parked. */
		if (task_waits_for(prev))
			prev = NULL;
		else
			limited_goes_on(prev);
	}
	if (unlikely(answered) && goes_on_after_answer(prev, root))
		return;
	if (choose(cpu, prev, root)) {
		if (!prev)
			goes_busy(root);
		if (!prev && unlikely(root & ROOT_LIMITS))
			charge_from_idle(cpu);
		return;
	}
	/* Nobody else wants this CPU: the task that ran here goes on, unless its policy says otherwise. */
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		look_again(cpu, root);
	else if (!task_rests(prev))
		go_on_alone(prev);
}

SEC("struct_ops/metasched_dispatch")
void BPF_PROG(metasched_dispatch, s32 cpu, struct task_struct *prev)
{
	dispatch(cpu, prev, READ_ONCE(root_word));
	if (is_used(USES_INFINITE) && prev && prev->scx.flags & SCX_TASK_QUEUED && prev->scx.slice)
		start_anew(prev);
}

SEC("struct_ops/metasched_running")
void BPF_PROG(metasched_running, struct task_struct *p)
{
	u32 root = READ_ONCE(root_word);

	if (!is_used(USES_INFINITE))
		end_lost_slice(p);
	if (unlikely(root & ROOT_WATCHED))
		running_watched(p, root);
	if (unlikely(root & ROOT_LIMITS))
		running_limited(p);
}

SEC("struct_ops/metasched_stopping")
void BPF_PROG(metasched_stopping, struct task_struct *p, bool runnable)
{
	u32 root = READ_ONCE(root_word);

	if (unlikely(root & ROOT_WATCHED))
		stopping_watched(p, root, runnable);
	if (unlikely(root & ROOT_LIMITS))
		stopping_limited(p);
}

SEC("struct_ops/metasched_tick")
void BPF_PROG(metasched_tick, struct task_struct *p)
{
	u32 root = READ_ONCE(root_word);

	if (unlikely(root & ROOT_LANES))
		tick_shared(p, root);
	if (unlikely(root & ROOT_LIMITS))
		tick_limited(p);
	if (is_used(USES_GROUPS))
		tick_group(p);
	if (is_used(USES_TICK))
		tick_policy(p);
}

/*
 * Whether policies are told of tasks that become runnable or quiescent. A lane alone does not need it if its
 * policy keeps no state of tasks. A lane that rests until its next turn is told of the tasks that it knows.
 */
static __always_inline bool tells_of_wishes(u32 root)
{
	return is_used(USES_RUNNABLE) && (root & ROOT_WATCHED || READ_ONCE(cycle.turns));
}

/* The loader leaves out these two where no enabled policy names one of them. */
SEC("struct_ops/metasched_runnable")
void BPF_PROG(metasched_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 root = READ_ONCE(root_word);

	/* A task that is woken on a dying CPU comes to its lane as it starts to run. */
	if (tells_of_wishes(root) && !is_level1s(p, root) && !on_dying_cpu())
		runnable_watched(p, root, enq_flags);
}

SEC("struct_ops/metasched_quiescent")
void BPF_PROG(metasched_quiescent, struct task_struct *p, u64 deq_flags)
{
	if (tells_of_wishes(READ_ONCE(root_word)))
		tell_quiescent(p, deq_flags);
}

/*
 * The callbacks about cgroups. A kernel without CONFIG_EXT_GROUP_SCHED has none of
 * them, and the loader leaves them out: then cpu.max is not enforced, and weights are
 * those that user space found when cgroups were assigned, beside WEIGHT_DFL for all else.
 *
 * This one is called for every cgroup that is there when we are loaded, then for
 * every new one.
 */
SEC("struct_ops.s/metasched_cgroup_init")
s32 BPF_PROG(metasched_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	limit_make_queue();
	cgroup_comes(cgrp, cgroup_is_idle(cgrp) ? WEIGHT_IDLE : args->weight);
	limit_set(cgrp->kn->id, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	begin_limits();
	return 0;
}

SEC("struct_ops.s/metasched_cgroup_exit")
void BPF_PROG(metasched_cgroup_exit, struct cgroup *cgrp)
{
	limit_remove(cgrp->kn->id);
	__sync_fetch_and_sub(&cgroups_live, 1);
	cgroup_goes(cgrp);
}

SEC("struct_ops/metasched_cgroup_set_bandwidth")
void BPF_PROG(metasched_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	      u64 burst_us)
{
	limit_set(cgrp->kn->id, period_us, quota_us, burst_us);
	begin_limits();
}

/* Of one that is assigned it is shown as its application's, unless the user gave one. */
static __always_inline void cgroup_weighs(struct cgroup *cgrp, u32 weight)
{
	u32 number = cgroup_number(cgrp->kn->id);
	struct cgroup_node *n = cgroup_node_at(number);
	u32 account = cgroup_account(n);
	struct account *a = account_at(account);

	if (!number)
		return;
	n->weight = weight;
	shares.changed = 1;
	if (account != ROOT_ACCOUNT && !a->weight_fixed)
		a->weight = weight;
}

SEC("struct_ops/metasched_cgroup_set_weight")
void BPF_PROG(metasched_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	cgroup_weighs(cgrp, weight);
}

/* As in the fair class: the least weight, and on its end the default one. */
SEC("struct_ops/metasched_cgroup_set_idle")
void BPF_PROG(metasched_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	cgroup_weighs(cgrp, idle ? WEIGHT_IDLE : WEIGHT_DFL);
}

/*
 * Without these two the kernel ejects a scheduler when a CPU comes or goes. No
 * queue of ours belongs to a CPU but those that a policy asks for, which are emptied; so
 * nothing but what hotplug.bpf.h tells of can be left behind on one. Tasks that are
 * parked wait for something else.
 */
SEC("struct_ops/metasched_cpu_online")
void BPF_PROG(metasched_cpu_online, s32 cpu)
{
	cpu_returns(cpu);
}

SEC("struct_ops/metasched_cpu_offline")
void BPF_PROG(metasched_cpu_offline, s32 cpu)
{
	cpu_leaves(cpu);
}

/*
 * Not of the ops table: the kernel's tracepoint before each step of a CPU on its way off line or back. The
 * loader leaves it out where the kernel has none.
 */
SEC("tp_btf/cpuhp_enter")
int cpu_changes(void *unused)
{
	if (!READ_ONCE(exit_record.kind))
		cpu_changes_state();
	return 0;
}

SEC("struct_ops.s/metasched_init")
s32 BPF_PROG(metasched_init)
{
	int err = scx_bpf_create_dsq(KTHREADS_DSQ, -1);

	find_cpus_off();
	waits_measured = kernel_counts_waits();
	if (err)
		return err;
	err = scx_bpf_create_dsq(DYING_DSQ, -1);
	if (err)
		return err;
	err = timers_make();
	if (err)
		return err;
	return lifecycle_start(initial_variant);
}

SEC("struct_ops.s/metasched_exit")
void BPF_PROG(metasched_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(exit_record.reason, sizeof(exit_record.reason), info->reason);
	bpf_probe_read_kernel_str(exit_record.msg, sizeof(exit_record.msg), info->msg);
	bpf_probe_read_kernel_str(exit_dump, sizeof(exit_dump), info->dump);
	exit_record.code = info->exit_code;
	/* Of the record the last, because user space takes it as the sign that the rest is there. */
	__sync_fetch_and_or(&exit_record.kind, info->kind);
	timers_stop();
}

/*
 * What user space calls. Once the kernel has let go of us, another scheduler may
 * be attached, and its queues are not ours to make, count or destroy. What changes
 * lanes keeps the timer of turns away meanwhile.
 */
#define CHANGE_LANES(change)                                                                       \
	({                                                                                         \
		int err = exit_record.kind ? -ENODEV : change_begin();                             \
                                                                                                   \
		if (!err) {                                                                        \
			err = (change);                                                            \
			change_end();                                                              \
		}                                                                                  \
		err;                                                                               \
	})

SEC("syscall")
int replace_root(struct replace_args *args)
{
	return CHANGE_LANES((turns_stop(), lifecycle_replace(args->variant)));
}

SEC("syscall")
int start_turns(struct cycle_args *args)
{
	return CHANGE_LANES(turns_start(args));
}

SEC("syscall")
int stop_turns(void *unused)
{
	return CHANGE_LANES((turns_stop(), 0));
}

SEC("syscall")
int set_app(struct app_args *args)
{
	return CHANGE_LANES(lifecycle_set_app(args));
}

SEC("syscall")
int drop_app(struct assign_args *args)
{
	return CHANGE_LANES(lifecycle_drop_app(args->app));
}

SEC("syscall")
int assign(struct assign_args *args)
{
	if (exit_record.kind)
		return -ENODEV;
	return lifecycle_assign(args->cgroup, args->app);
}

SEC("syscall")
int unassign(struct assign_args *args)
{
	if (exit_record.kind)
		return -ENODEV;
	return lifecycle_unassign(args->cgroup);
}

SEC("syscall")
int set_lane(struct lane_args *args)
{
	return CHANGE_LANES(lifecycle_set_lane(args));
}

SEC("syscall")
int reap(struct reap_args *args)
{
	return CHANGE_LANES(lifecycle_reap(args->graces));
}

SEC("syscall")
int count_queued(void *unused)
{
	if (exit_record.kind)
		return -ENODEV;
	lifecycle_count_queued();
	return 0;
}

/* Takes what a half in user space has decided, and knows by this that one is there. */
SEC("syscall")
int user_decide(struct user_args *args)
{
	if (exit_record.kind)
		return -ENODEV;
	decide(args->decisions, args->tgid);
	return 0;
}

/*
 * Exiting and migration-disabled tasks come to enqueue like all others, so that
 * level 1 sees them. A task that is alone on its CPU comes there only if dispatch did
 * not let it go on, which is when its cgroup has used up what cpu.max grants.
 */
SEC(".struct_ops.link")
struct sched_ext_ops metasched_ops = {
	.select_cpu = (void *)metasched_select_cpu,
	.enqueue = (void *)metasched_enqueue,
	.dispatch = (void *)metasched_dispatch,
	.running = (void *)metasched_running,
	.stopping = (void *)metasched_stopping,
	.tick = (void *)metasched_tick,
	.runnable = (void *)metasched_runnable,
	.quiescent = (void *)metasched_quiescent,
	.cgroup_init = (void *)metasched_cgroup_init,
	.cgroup_exit = (void *)metasched_cgroup_exit,
	.cgroup_set_weight = (void *)metasched_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)metasched_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)metasched_cgroup_set_idle,
	.cpu_online = (void *)metasched_cpu_online,
	.cpu_offline = (void *)metasched_cpu_offline,
	.init = (void *)metasched_init,
	.exit = (void *)metasched_exit,
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_ENQ_LAST,
	.timeout_ms = 30000,
	.exit_dump_len = EXIT_DUMP_LEN,
	.name = "metasched",
};
