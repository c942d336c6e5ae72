// SPDX-License-Identifier: GPL-2.0-only
/*
 * No fault: has every callback that is modelled, and gives up where one comes out
 * of the kernel's order.
 */
#include "fault.h"
#include <hotplug.bpf.h>

enum stage { NONE, KNOWN, ENABLED, WAITING, RUNNING, STOPPED, GONE };

struct state {
	u32 stage;
	u32 weight;
	bool mine; /* between enqueue and dequeue */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct state);
} states SEC(".maps");

/* How often each callback came; read by the test. */
u64 ticks, yields, dequeues, last_enqueues, idle_changes, weights, cpumasks, exits;
static bool idle_now[SEAM_MAX_CPUS], idle_known[SEAM_MAX_CPUS];

static void give_up(const char *callback, struct task_struct *p, u32 stage)
{
	unsigned long long args[] = { (unsigned long)callback, p->pid, stage };

	scx_bpf_error_bstr("%s of task %d at stage %d", args, sizeof(args));
}

static struct state *expect(const char *callback, struct task_struct *p, u32 stage, u32 next)
{
	struct state *s = bpf_task_storage_get(&states, p, 0, 0);

	if (!s || s->stage != stage)
		give_up(callback, p, s ? s->stage : NONE);
	else
		s->stage = next;
	return s;
}

static s32 order_init_task(struct task_struct *p, struct scx_init_task_args *args)
{
	struct state *s =
		bpf_task_storage_get(&states, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!s || s->stage != NONE || !args->cgroup || args->cgroup->kn->id != 1)
		give_up("init_task", p, NONE);
	else
		s->stage = KNOWN;
	return 0;
}

static void order_enable(struct task_struct *p)
{
	expect("enable", p, KNOWN, ENABLED);
}

static void order_set_weight(struct task_struct *p, u32 weight)
{
	struct state *s = bpf_task_storage_get(&states, p, 0, 0);

	weights++;
	if (weight != p->scx.weight)
		give_up("set_weight", p, s->stage);
	s->weight = weight;
}

static void order_set_cpumask(struct task_struct *p, const struct cpumask *mask)
{
	cpumasks++;
	if (!bpf_cpumask_test_cpu(1, mask) || bpf_cpumask_test_cpu(0, mask))
		give_up("set_cpumask", p, NONE);
}

static void order_runnable(struct task_struct *p, u64 enq_flags)
{
	expect("runnable", p, ENABLED, WAITING);
}

static void order_enqueue(struct task_struct *p, u64 enq_flags)
{
	struct state *s = expect("enqueue", p, WAITING, WAITING);

	if (enq_flags & SCX_ENQ_LAST) {
		/* Nobody else wants this CPU: it goes on, once it is told to. */
		last_enqueues++;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
		return;
	}
	s->mine = true;
	honest_enqueue(p, enq_flags);
}

static void order_dequeue(struct task_struct *p, u64 deq_flags)
{
	struct state *s = expect("dequeue", p, WAITING, WAITING);

	dequeues++;
	if (!s->mine)
		give_up("dequeue without enqueue", p, s->stage);
	s->mine = false;
}

static void order_running(struct task_struct *p)
{
	struct state *s = expect("running", p, WAITING, RUNNING);

	if (s->mine)
		give_up("running without dequeue", p, s->stage);
}

static void order_tick(struct task_struct *p)
{
	ticks++;
	expect("tick", p, RUNNING, RUNNING);
	if (!scx_bpf_task_running(p) || bpf_get_current_task_btf() != p)
		give_up("tick of another task", p, RUNNING);
}

static bool order_yield(struct task_struct *from, struct task_struct *to)
{
	yields++;
	expect("yield", from, RUNNING, RUNNING);
	scx_bpf_task_set_slice(from, 0);
	return true;
}

static void order_stopping(struct task_struct *p, bool runnable)
{
	expect("stopping", p, RUNNING, runnable ? WAITING : STOPPED);
}

/* Asleep, or about to be changed: it was stopped first if it ran. */
static void order_quiescent(struct task_struct *p, u64 deq_flags)
{
	struct state *s = bpf_task_storage_get(&states, p, 0, 0);

	expect("quiescent", p, s->stage == WAITING ? WAITING : STOPPED, ENABLED);
	if (!(deq_flags & (SCX_DEQ_SLEEP | SCX_DEQ_SCHED_CHANGE)))
		give_up("quiescent for no reason", p, s->stage);
}

static void order_disable(struct task_struct *p)
{
	expect("disable", p, ENABLED, KNOWN);
}

static void order_exit_task(struct task_struct *p, struct scx_exit_task_args *args)
{
	exits++;
	expect("exit_task", p, KNOWN, GONE);
}

static void order_update_idle(s32 cpu, bool idle)
{
	idle_changes++;
	if (idle_known[cpu] && idle == idle_now[cpu])
		scx_bpf_error_bstr("update_idle without a change", NULL, 0);
	idle_now[cpu] = idle;
	idle_known[cpu] = true;
}

/* CPUs come and go in turn. */
u64 offlines, onlines;
static bool off_line[SEAM_MAX_CPUS];

static void order_cpu_offline(s32 cpu)
{
	offlines++;
	if (off_line[cpu])
		scx_bpf_error_bstr("off line twice", NULL, 0);
	off_line[cpu] = true;
	leave_cpu(QUEUE, cpu);
}

static void order_cpu_online(s32 cpu)
{
	onlines++;
	if (!off_line[cpu])
		scx_bpf_error_bstr("on line twice", NULL, 0);
	off_line[cpu] = false;
}

/* A CPU that is off line asks for nothing any more. */
static void order_dispatch(s32 cpu, struct task_struct *prev)
{
	if (off_line[cpu])
		scx_bpf_error_bstr("dispatch off line", NULL, 0);
	honest_dispatch(cpu, prev);
}

/* Affinities are broken where there is nowhere else to go. */
static void order_any_cpumask(struct task_struct *p, const struct cpumask *mask)
{
	cpumasks++;
	if (p->nr_cpus_allowed == 1)
		give_up("set_cpumask", p, NONE);
}

static s32 order_init(void)
{
	u32 cpu;

	for (cpu = 0; cpu < scx_bpf_nr_cpu_ids(); cpu++)
		idle_now[cpu] = idle_known[cpu] = true;
	return honest_init();
}

#define EVERY_CALLBACK                                                               \
	HONEST, .init = order_init, .init_task = order_init_task,                    \
	.enable = order_enable, .set_weight = order_set_weight,                      \
	.set_cpumask = order_set_cpumask, .runnable = order_runnable,                \
	.enqueue = order_enqueue, .dequeue = order_dequeue,                          \
	.running = order_running, .tick = order_tick, .yield = order_yield,          \
	.stopping = order_stopping, .quiescent = order_quiescent,                    \
	.disable = order_disable, .exit_task = order_exit_task,                      \
	.update_idle = order_update_idle,                                            \
	.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING

struct sched_ext_ops every_callback = { EVERY_CALLBACK };

struct sched_ext_ops every_callback_hotplug = {
	EVERY_CALLBACK,
	.dispatch = order_dispatch,
	.set_cpumask = order_any_cpumask,
	.cpu_offline = order_cpu_offline,
	.cpu_online = order_cpu_online,
};

/* The same for a machine at work: which CPUs are idle is not known from the start. */
struct sched_ext_ops every_callback_loaded = {
	EVERY_CALLBACK,
	.init = honest_init,
	.dispatch = order_dispatch,
	.set_cpumask = order_any_cpumask,
	.cpu_offline = order_cpu_offline,
	.cpu_online = order_cpu_online,
};
