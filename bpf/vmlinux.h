/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's types, cut down to what we use.
 *
 * Not a dump: libbpf relocates each field by name against the running kernel's
 * BTF (CO-RE), and matches the members of sched_ext_ops by name too, so a
 * subset is enough, and neither bpftool nor a kernel is needed to build.
 * Constants cannot be relocated that cheaply; a guest test compares those below
 * with the kernel's BTF, on every kernel that the testbed boots.
 *
 * The simulator puts a header of this name in front of this one.
 */
#ifndef METASCHED_VMLINUX_H
#define METASCHED_VMLINUX_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef signed short __s16;
typedef unsigned int __u32;
typedef signed int __s32;
typedef unsigned long long __u64;
typedef signed long long __s64;
typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define NULL ((void *)0)

enum {
	false = 0,
	true = 1,
};

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,
	BPF_F_TIMER_ABS = 1 << 0,
	BPF_F_TIMER_CPU_PIN = 1 << 1,
};

/* kernel/sched/ext: enum scx_public_consts */
enum scx_public_consts {
	SCX_SLICE_DFL = 20000000ULL,
	SCX_SLICE_INF = 0xffffffffffffffffULL,
};

/* kernel/sched/ext: enum scx_dsq_id_flags */
enum scx_dsq_id_flags {
	SCX_DSQ_FLAG_BUILTIN = 1ULL << 63,
	SCX_DSQ_FLAG_LOCAL_ON = 1ULL << 62,
	SCX_DSQ_LOCAL = SCX_DSQ_FLAG_BUILTIN | 2,
	SCX_DSQ_LOCAL_ON = SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON,
};

/* kernel/sched/ext: enum scx_dsq_iter_flags */
enum scx_dsq_iter_flags {
	SCX_DSQ_ITER_REV = 1 << 16,
};

/* kernel/sched/ext: enum scx_enq_flags */
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ULL,
	SCX_ENQ_HEAD = 1ULL << 16,
	SCX_ENQ_CPU_SELECTED = 1ULL << 20,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
};

/* kernel/sched/ext: enum scx_wake_flags */
enum scx_wake_flags {
	SCX_WAKE_SYNC = 16,
};

/* kernel/sched/ext: enum scx_deq_flags */
enum scx_deq_flags {
	SCX_DEQ_SLEEP = 1ULL,
};

/* kernel/sched/ext: enum scx_kick_flags */
enum scx_kick_flags {
	SCX_KICK_IDLE = 1 << 0,
	SCX_KICK_PREEMPT = 1 << 1,
};

/* kernel/sched/ext: enum scx_ops_flags */
enum scx_ops_flags {
	SCX_OPS_ENQ_LAST = 1ULL << 1,
	SCX_OPS_ENQ_EXITING = 1ULL << 2,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1ULL << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1ULL << 5,
};

/* kernel/sched/ext: enum scx_ent_flags */
enum scx_ent_flags {
	SCX_TASK_QUEUED = 1 << 0,
};

/* kernel/sched/ext: enum scx_exit_kind; user space names the others. */
enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

/* include/linux/sched.h */
enum {
	PF_IDLE = 0x00000002,
	PF_EXITING = 0x00000004,
	PF_KTHREAD = 0x00200000,
};

/* include/uapi/linux/time.h */
enum {
	CLOCK_MONOTONIC = 1,
};

/* A timer, in a map's value: include/uapi/linux/bpf.h. */
struct bpf_timer {
	u64 __opaque[2];
} __attribute__((aligned(8)));

/* What the kernel calls as a task returns to user space, in a map's value: include/uapi/linux/bpf.h. */
struct bpf_task_work {
	u64 __opaque;
} __attribute__((aligned(8)));

/* The state of bpf_for(): include/uapi/linux/bpf.h. */
struct bpf_iter_num {
	u64 __opaque[1];
} __attribute__((aligned(8)));

/* The state of a walk through a dispatch queue: kernel/sched/ext. */
struct bpf_iter_scx_dsq {
	u64 __opaque[6];
} __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct list_head {
	struct list_head *next, *prev;
};

enum cgroup_subsys_id {
	cpu_cgrp_id, /* the kernel's own value is relocated */
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

/* Its state of the cpu controller, at the beginning of the struct. */
struct task_group {
	struct cgroup_subsys_state css;
	int idle;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	int nr_populated_domain_children;
	int nr_populated_threaded_children;
	struct cgroup_subsys_state *subsys[1];
	struct list_head cset_links;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

/* Empty in a kernel without CONFIG_SCHED_INFO. */
struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_queued;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

/* Signals that a task has got and not dealt with yet, a bit for each. */
typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct task_struct;

/* What the threads of a process have in common. */
struct signal_struct {
	int nr_threads;
	struct task_struct *group_exec_task;
	unsigned int flags;
};

/* The compiler needs a whole type here too. */
struct bpf_map {
	u32 id;
};

/* The registers that a task had in user space, as x86 keeps them. */
struct pt_regs {
	unsigned long ax;
	unsigned long orig_ax;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	int rcu_read_lock_nesting;
	const struct cpumask *cpus_ptr;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct sched_info sched_info;
	unsigned long nvcsw;
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	struct signal_struct *signal;
	struct sigpending pending;
};

/* The compiler needs a whole type to compare with the kernel's; we never look inside. */
struct cpumask {
	unsigned long bits[1];
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};

/* What cgroup_init is told; members by name, as in the kernel. */
struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};

/* The arguments of __scx_bpf_dsq_insert_vtime(): see compat.bpf.h. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

#pragma clang attribute pop

/* Only the members that we set: libbpf matches them by name. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us,
				     u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	char name[128];
};

#endif
