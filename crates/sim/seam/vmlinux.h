/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types as the simulator models them, in place of the vmlinux.h
 * that the BPF build uses. Only what is modelled is here: a policy that reads
 * any other field does not compile natively, and says so at build time.
 *
 * The engine mirrors these structs in src/abi.rs; seam.c exports their layout
 * and the engine refuses to run when the two differ.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int pid_t;
typedef unsigned long size_t;
typedef _Bool bool;

enum { false = 0, true = 1 };

#ifndef NULL
#define NULL ((void *)0)
#endif

/* The largest machine that is modelled, and the deepest cgroup. */
#define SEAM_MAX_CPUS 1024
#define SEAM_MAX_CGROUP_DEPTH 16

enum {
	EPERM = 1, ENOENT = 2, ESRCH = 3, E2BIG = 7, EAGAIN = 11, ENOMEM = 12,
	EACCES = 13, EBUSY = 16, EEXIST = 17, ENODEV = 19, EINVAL = 22,
	ENOSPC = 28, ERANGE = 34, EOPNOTSUPP = 95,
};

enum {
	PF_IDLE = 0x00000002,
	PF_EXITING = 0x00000004,
	PF_WQ_WORKER = 0x00000020,
	PF_KTHREAD = 0x00200000,
};

enum scx_public_consts {
	SCX_OPS_NAME_LEN = 128,
	SCX_SLICE_DFL = 20ULL * 1000 * 1000,
	SCX_SLICE_BYPASS = 5ULL * 1000 * 1000,
	SCX_SLICE_INF = ~0ULL,
};

enum scx_dsq_id_flags {
	SCX_DSQ_FLAG_BUILTIN = 1ULL << 63,
	SCX_DSQ_FLAG_LOCAL_ON = 1ULL << 62,
	SCX_DSQ_INVALID = SCX_DSQ_FLAG_BUILTIN | 0,
	SCX_DSQ_GLOBAL = SCX_DSQ_FLAG_BUILTIN | 1,
	SCX_DSQ_LOCAL = SCX_DSQ_FLAG_BUILTIN | 2,
	SCX_DSQ_LOCAL_ON = SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON,
	SCX_DSQ_LOCAL_CPU_MASK = 0xffffffffULL,
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_HEAD = 1ULL << 16,
	SCX_ENQ_CPU_SELECTED = 1ULL << 20,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_IMMED = 1ULL << 33,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
};

enum scx_deq_flags {
	SCX_DEQ_SLEEP = 1,
	SCX_DEQ_CORE_SCHED_EXEC = 1ULL << 32,
	SCX_DEQ_SCHED_CHANGE = 1ULL << 33,
};

enum scx_wake_flags {
	SCX_WAKE_FORK = 4,
	SCX_WAKE_TTWU = 8,
	SCX_WAKE_SYNC = 16,
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
	SCX_KICK_WAIT = 4,
};

enum scx_pick_idle_cpu_flags {
	SCX_PICK_IDLE_CORE = 1,
	SCX_PICK_IDLE_IN_NODE = 2,
};

enum scx_dsq_iter_flags {
	SCX_DSQ_ITER_REV = 1 << 16,
};

enum scx_ops_flags {
	SCX_OPS_KEEP_BUILTIN_IDLE = 1,
	SCX_OPS_ENQ_LAST = 2,
	SCX_OPS_ENQ_EXITING = 4,
	SCX_OPS_SWITCH_PARTIAL = 8,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 16,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 32,
	SCX_OPS_BUILTIN_IDLE_PER_NODE = 64,
	SCX_OPS_ALWAYS_ENQ_IMMED = 128,
};

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1,
	SCX_TASK_IN_CUSTODY = 2,
	SCX_TASK_RESET_RUNNABLE_AT = 4,
	SCX_TASK_DEQD_FOR_SLEEP = 8,
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
	SCX_EXIT_DONE = 1,
	SCX_EXIT_UNREG = 64,
	SCX_EXIT_UNREG_BPF = 65,
	SCX_EXIT_UNREG_KERN = 66,
	SCX_EXIT_SYSRQ = 67,
	SCX_EXIT_ERROR = 1024,
	SCX_EXIT_ERROR_BPF = 1025,
	SCX_EXIT_ERROR_STALL = 1026,
};

struct cpumask {
	unsigned long bits[SEAM_MAX_CPUS / 64];
};

typedef struct cpumask cpumask_t;

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
	bool disallow;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
};

struct sched_info {
	unsigned long pcount;
	u64 run_delay;
	u64 last_queued;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	s32 level;
	s32 idle; /* task_group's */
	s32 populated; /* the three counts of the kernel in one, as the program is told of it */
	struct cgroup *ancestors[SEAM_MAX_CGROUP_DEPTH];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct task_struct;

struct signal_struct {
	s32 nr_threads;
	struct task_struct *group_exec_task;
	unsigned int flags;
};

struct pt_regs {
	unsigned long ax;
	unsigned long orig_ax;
};

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;
	s32 prio;
	s32 static_prio;
	s32 nr_cpus_allowed;
	u16 migration_disabled;
	s32 rcu_read_lock_nesting;
	struct cpumask *cpus_ptr;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct sigpending pending;
	struct pt_regs regs;
	/* What is seldom looked at comes last: the rest is a few lines of the cache. */
	char comm[16];
	struct cpumask cpus_mask;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	unsigned long *bt;
	u32 bt_len;
	char *msg;
	char *dump;
};

struct scx_dump_ctx {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	u64 at_ns;
	u64 at_jiffies;
};

/* Nothing but the engine's number of it. */
struct bpf_iter_scx_dsq {
	u64 handle;
};

struct scx_cpu_acquire_args;
struct scx_cpu_release_args;
struct scx_sub_attach_args;
struct scx_sub_detach_args;

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *, s32, u64);
	void (*enqueue)(struct task_struct *, u64);
	void (*dequeue)(struct task_struct *, u64);
	void (*dispatch)(s32, struct task_struct *);
	void (*tick)(struct task_struct *);
	void (*runnable)(struct task_struct *, u64);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, bool);
	void (*quiescent)(struct task_struct *, u64);
	bool (*yield)(struct task_struct *, struct task_struct *);
	bool (*core_sched_before)(struct task_struct *, struct task_struct *);
	void (*set_weight)(struct task_struct *, u32);
	void (*set_cpumask)(struct task_struct *, const struct cpumask *);
	void (*update_idle)(s32, bool);
	s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
	void (*exit_task)(struct task_struct *, struct scx_exit_task_args *);
	void (*enable)(struct task_struct *);
	void (*disable)(struct task_struct *);
	void (*dump)(struct scx_dump_ctx *);
	void (*dump_cpu)(struct scx_dump_ctx *, s32, bool);
	void (*dump_task)(struct scx_dump_ctx *, struct task_struct *);
	s32 (*cgroup_init)(struct cgroup *, struct scx_cgroup_init_args *);
	void (*cgroup_exit)(struct cgroup *);
	s32 (*cgroup_prep_move)(struct task_struct *, struct cgroup *, struct cgroup *);
	void (*cgroup_move)(struct task_struct *, struct cgroup *, struct cgroup *);
	void (*cgroup_cancel_move)(struct task_struct *, struct cgroup *, struct cgroup *);
	void (*cgroup_set_weight)(struct cgroup *, u32);
	void (*cgroup_set_bandwidth)(struct cgroup *, u64, u64, u64);
	void (*cgroup_set_idle)(struct cgroup *, bool);
	s32 (*sub_attach)(struct scx_sub_attach_args *);
	void (*sub_detach)(struct scx_sub_detach_args *);
	void (*cpu_online)(s32);
	void (*cpu_offline)(s32);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	u64 hotplug_seq;
	u64 sub_cgroup_id;
	char name[128];
	void *priv;
	void (*cpu_acquire)(s32, struct scx_cpu_acquire_args *);
	void (*cpu_release)(s32, struct scx_cpu_release_args *);
};

enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
};

enum {
	CLOCK_MONOTONIC = 1,
};

/* The engine knows these by their addresses. */
struct bpf_timer {
	u64 __opaque[2];
};

struct bpf_task_work {
	u64 __opaque;
};

struct bpf_map;

#endif
