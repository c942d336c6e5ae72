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
#include <hotplug.bpf.h>
#include <lifecycle.bpf.h>
#include <turns.bpf.h>

char _license[] SEC("license") = "GPL";

/* The policy of the first lane; set by the loader before it loads. */
const volatile u32 initial_policy;

/* Why the kernel ended us; user space maps and polls it. */
struct exit_record exit_record;
char exit_dump[EXIT_DUMP_LEN] SEC(".bss.dump");

SEC("struct_ops/metasched_select_cpu")
s32 BPF_PROG(metasched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 root = READ_ONCE(root_word);
	struct meta_lane *l = lane_at(root);

	/* Not on an idle CPU, past the queues, when it has to be parked. */
	if (unlikely(root & ROOT_LIMITS) && task_exhausted(p))
		return prev_cpu;
	if (unlikely(root & ROOT_SHARED))
		l = lane_waking(p, root);
	return policy_select_cpu(&l->lane, p, prev_cpu, wake_flags);
}

/*
 * A kernel thread that is bound to its CPU serves that CPU, whatever lane's
 * tasks run there: level 1 dispatches it itself. With lanes side by side that goes
 * for all kernel threads: they serve all lanes, and on the default one they would
 * starve beside a heavy one. RCU did, for half a minute, with weights of 100 and 8895.
 */
static __always_inline bool is_level1s(struct task_struct *p, u32 root)
{
	return p->flags & PF_KTHREAD && (p->nr_cpus_allowed == 1 || root & ROOT_LANES);
}

/*
 * For a task that wakes, select_cpu has looked for an idle CPU. One that comes to
 * enqueue in another way (its slice ended, it yielded, its affinity changed) may
 * be queued beside an idle CPU that nothing would tell of it.
 */
static __always_inline void kick_idle(struct task_struct *p, u64 enq_flags)
{
	s32 cpu;

	if (likely(enq_flags & SCX_ENQ_CPU_SELECTED))
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * A kernel thread that may run elsewhere waits where every CPU looks before it looks at lanes:
 * in its own CPU's local queue it would wait for that CPU beside others that are idle. And
 * not in the local queue of one that is idle now: whether the thread may leave its CPU
 * (migration may be disabled), and whether the other is still on line, the kernel sees when a
 * CPU takes it; an insert that is wrong about it would end us.
 */
static __always_inline void enqueue_kthread(struct task_struct *p, u32 root, u64 enq_flags)
{
	if (p->nr_cpus_allowed == 1 || enq_flags & SCX_ENQ_LAST) {
		if (unlikely(root & ROOT_WATCHED) && runs_for_ever(scx_bpf_task_cpu(p)))
			enq_flags |= SCX_ENQ_PREEMPT;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL,
				   root & ROOT_LANES ? SHARED_SLICE_NS : SCX_SLICE_DFL, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, KTHREADS_DSQ, SHARED_SLICE_NS, enq_flags);
	kick_idle(p, enq_flags);
}

SEC("struct_ops/metasched_enqueue")
void BPF_PROG(metasched_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 root = READ_ONCE(root_word);
	struct meta_lane *l = lane_at(root);

	if (unlikely(is_level1s(p, root))) {
		if (root & ROOT_WATCHED)
			leave_lane(p);
		enqueue_kthread(p, root, enq_flags);
		return;
	}
	if (unlikely(root & ROOT_LIMITS) && task_exhausted(p)) {
		scx_bpf_dsq_insert(p, PARKED_DSQ, SCX_SLICE_DFL, enq_flags);
		return;
	}
	if (unlikely(enq_flags & SCX_ENQ_LAST)) {
		/* It had used up its grant, and has got another meanwhile. */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SHARED_SLICE_NS, enq_flags);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
		return;
	}
	if (unlikely(root & ROOT_WATCHED))
		enqueue_watched(p, root, enq_flags);
	else
		policy_enqueue(&l->lane, p, enq_flags);
	kick_idle(p, enq_flags);
}

SEC("struct_ops/metasched_dispatch")
void BPF_PROG(metasched_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 root = READ_ONCE(root_word);
	bool given;

	if (is_named(CALLBACK_ANSWER))
		answer_asks(cpu);
	/* It may not go on, whoever is asked: the kernel has it enqueued, and it is parked. */
	if (unlikely(root & ROOT_LIMITS) && prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    task_exhausted(prev))
		prev = NULL;
	if (unlikely(root & ROOT_SHARED))
		given = dispatch_shared(cpu, prev, root);
	else if (unlikely(root & ROOT_TASKS))
		given = dispatch_alone(lane_at(root), cpu, prev);
	else
		given = policy_dispatch(&lane_at(root)->lane, cpu);
	if (given)
		return;
	/* Nobody else wants this CPU: the task that ran here goes on. */
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		scx_bpf_task_set_slice(prev, SCX_SLICE_DFL);
	else
		goes_idle(cpu, root);
}

SEC("struct_ops/metasched_running")
void BPF_PROG(metasched_running, struct task_struct *p)
{
	u32 root = READ_ONCE(root_word);

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
	if (is_named(CALLBACK_TICK))
		tick_policy(p);
}

/* The loader leaves out those of the next two that no enabled policy names. */
SEC("struct_ops/metasched_runnable")
void BPF_PROG(metasched_runnable, struct task_struct *p, u64 enq_flags)
{
	u32 root = READ_ONCE(root_word);

	/* Beside lanes kernel threads are level 1's; else a lane alone hears of all that run. */
	if (is_named(CALLBACK_RUNNABLE) && !(root & ROOT_LANES && p->flags & PF_KTHREAD))
		runnable_watched(p, root, enq_flags);
}

SEC("struct_ops/metasched_quiescent")
void BPF_PROG(metasched_quiescent, struct task_struct *p, u64 deq_flags)
{
	if (is_named(CALLBACK_QUIESCENT))
		quiescent_watched(p, READ_ONCE(root_word), deq_flags);
}

/*
 * The callbacks about cgroups. A kernel without CONFIG_EXT_GROUP_SCHED has none of
 * them, and the loader leaves them out: then cpu.max is not enforced, and weights are
 * those that cgroups had when they were assigned.
 *
 * This one is called for every cgroup that is there when we are loaded, then for
 * every new one.
 */
SEC("struct_ops.s/metasched_cgroup_init")
s32 BPF_PROG(metasched_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	limit_set(cgrp->kn->id, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	begin_limits();
	return 0;
}

SEC("struct_ops.s/metasched_cgroup_exit")
void BPF_PROG(metasched_cgroup_exit, struct cgroup *cgrp)
{
	limit_remove(cgrp->kn->id);
}

SEC("struct_ops/metasched_cgroup_set_bandwidth")
void BPF_PROG(metasched_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	      u64 burst_us)
{
	limit_set(cgrp->kn->id, period_us, quota_us, burst_us);
	begin_limits();
}

/* The weight of a cgroup that is assigned is its lane's, unless the user gave one. */
static __always_inline void cgroup_weighs(struct cgroup *cgrp, u32 weight)
{
	u64 id = cgrp->kn->id;
	u32 *number = bpf_map_lookup_elem(&cgroup_apps, &id);
	struct app *app;

	if (!number)
		return;
	app = app_at(*number);
	if (app->lane && !app->weight_fixed)
		lane_at(app->lane - 1)->weight = weight;
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
	cpus_remove(&cpus_off, cpu);
}

SEC("struct_ops/metasched_cpu_offline")
void BPF_PROG(metasched_cpu_offline, s32 cpu)
{
	u64 left = READ_ONCE(served);
	struct meta_lane *l;
	u32 i, queue;

	cpus_add(&cpus_off, cpu);
	leave_cpu(KTHREADS_DSQ, cpu);
	bpf_for(i, 0, LANES_MAX) {
		if (!(left & (1ULL << i)))
			continue;
		l = lane_at(i);
		bpf_for(queue, 0, l->queues) {
			leave_cpu(lane_dsq(&l->lane, queue), cpu);
		}
		bpf_for(queue, 0, policy_cpu_queues(l->lane.policy)) {
			requeue_all(lane_cpu_dsq(&l->lane, cpu, queue));
		}
	}
}

SEC("struct_ops.s/metasched_init")
s32 BPF_PROG(metasched_init)
{
	int err = scx_bpf_create_dsq(PARKED_DSQ, -1);

	waits_measured = kernel_counts_waits();
	if (err)
		return err;
	err = scx_bpf_create_dsq(KTHREADS_DSQ, -1);
	if (err)
		return err;
	err = sweep_timer_make();
	if (err)
		return err;
	err = turn_timer_make();
	if (err)
		return err;
	if (all_callbacks() & CALLBACK_TIMER)
		err = lane_timers_make();
	if (err)
		return err;
	return lifecycle_start(initial_policy);
}

SEC("struct_ops.s/metasched_exit")
void BPF_PROG(metasched_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(exit_record.reason, sizeof(exit_record.reason), info->reason);
	bpf_probe_read_kernel_str(exit_record.msg, sizeof(exit_record.msg), info->msg);
	bpf_probe_read_kernel_str(exit_dump, sizeof(exit_dump), info->dump);
	exit_record.code = info->exit_code;
	/* The next time that the timer of turns expires is its last. */
	WRITE_ONCE(cycle.turns, 0);
	WRITE_ONCE(served, 0);
	/* Last, because user space takes it as the sign that the rest is there. */
	__sync_fetch_and_or(&exit_record.kind, info->kind);
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
	return CHANGE_LANES((turns_stop(), lifecycle_replace(args->policy, args->weight)));
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
int reap(struct reap_set *ready)
{
	return CHANGE_LANES(lifecycle_reap(ready->drained, ready->retired));
}

SEC("syscall")
int count_queued(void *unused)
{
	if (exit_record.kind)
		return -ENODEV;
	lifecycle_count_queued();
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
