//! The C structs of `seam/vmlinux.h` as the engine sees them. `seam.c` exports
//! their layout, and [`LAYOUT`] must equal it: checked whenever an image is opened.

pub use metasched_scenario::cpu_mask::{CpuMask, MAX_CPUS};
use std::ffi::c_void;
use std::mem::{offset_of, size_of};

/// The deepest cgroup that is modelled.
pub const MAX_CGROUP_DEPTH: usize = 16;

/// `struct kernfs_node`.
#[repr(C)]
pub struct KernfsNode {
    /// What user space calls the cgroup's id.
    pub id: u64,
}

/// `struct cgroup`.
#[repr(C)]
pub struct Cgroup {
    /// Where its id is.
    pub kn: *mut KernfsNode,
    /// Depth below the root.
    pub level: i32,
    /// `cpu.idle`, which the kernel keeps in the cgroup's `struct task_group`.
    pub idle: i32,
    /// Whether tasks are in it or below it, as the program is told of it.
    pub populated: i32,
    /// From the root to itself, by level.
    pub ancestors: [*mut Cgroup; MAX_CGROUP_DEPTH],
}

impl Cgroup {
    /// Its id, and that of the cgroup above it.
    pub fn id_and_above(&self) -> (u64, Option<u64>) {
        // SAFETY: up to its level, a cgroup's ancestors are such as cgroups.rs has made, each with
        // its node, and which stay until the run is over.
        let id = |level: usize| unsafe { (*(*self.ancestors[level]).kn).id };
        let level = self.level as usize;
        (id(level), level.checked_sub(1).map(id))
    }
}

/// `struct css_set`.
#[repr(C)]
pub struct CssSet {
    /// The task's cgroup in the unified hierarchy.
    pub dfl_cgrp: *mut Cgroup,
}

/// `struct sched_entity`.
#[repr(C)]
#[derive(Default)]
pub struct SchedEntity {
    /// When the run time was last brought up to date, ns.
    pub exec_start: u64,
    /// Total run time, ns.
    pub sum_exec_runtime: u64,
}

/// `struct sched_ext_entity`.
#[repr(C)]
#[derive(Default)]
pub struct ScxEntity {
    /// `SCX_TASK_*`.
    pub flags: u32,
    /// 1 to 10000; 100 is nice 0.
    pub weight: u32,
    /// What is left of the slice, ns.
    pub slice: u64,
    /// The key in a vtime-ordered queue.
    pub dsq_vtime: u64,
    /// Set by a policy in init_task; not modelled, and refused when set.
    pub disallow: bool,
}

/// `struct sched_info`.
#[repr(C)]
#[derive(Default)]
pub struct SchedInfo {
    /// How often the task was switched in.
    pub pcount: u64,
    /// How long it has waited for a CPU, ns.
    pub run_delay: u64,
    /// Since when it waits, ns; 0 if it does not.
    pub last_queued: u64,
}

/// `struct signal_struct`: what the threads of a process have in common.
#[repr(C)]
pub struct SignalStruct {
    /// How many threads the process has.
    pub nr_threads: i32,
    /// The thread that starts another program, which ends the others.
    pub group_exec_task: *mut TaskStruct,
    /// `SIGNAL_*`.
    pub flags: u32,
}

/// `struct pt_regs`, of which the policies look at these.
#[repr(C)]
pub struct Registers {
    /// In a system call -ENOSYS until it is over.
    pub ax: i64,
    /// The number of the system call; below 0 where it was an interrupt.
    pub orig_ax: i64,
}

/// `struct task_struct`.
#[repr(C)]
pub struct TaskStruct {
    /// Thread id.
    pub pid: i32,
    /// Process id.
    pub tgid: i32,
    /// `PF_*`.
    pub flags: u32,
    /// Unused by the engine.
    pub prio: i32,
    /// Unused by the engine.
    pub static_prio: i32,
    /// How many CPUs the task may use.
    pub nr_cpus_allowed: i32,
    /// Not 0 while it may not migrate: see [`crate::kernel::Kernel::disable_migration`].
    pub migration_disabled: u16,
    /// Not 0 in a read section of RCU: see [`crate::kernel::Kernel::enter_rcu_section`].
    pub rcu_read_lock_nesting: i32,
    /// Points to `cpus_mask`.
    pub cpus_ptr: *mut CpuMask,
    /// Run time.
    pub se: SchedEntity,
    /// What sched_ext keeps.
    pub scx: ScxEntity,
    /// The kernel's books of its waits.
    pub sched_info: SchedInfo,
    /// Voluntary context switches.
    pub nvcsw: u64,
    /// Involuntary context switches.
    pub nivcsw: u64,
    /// When it was born, ns.
    pub start_time: u64,
    /// Where its cgroup is.
    pub cgroups: *mut CssSet,
    /// What it shares with the threads of its process. Here each thread has one of its own; the
    /// threads of a team are a process by their `tgid` and `nr_threads`.
    pub signal: *mut SignalStruct,
    /// Signals that it has got and not dealt with, a bit for each.
    pub pending: u64,
    /// What the task had in its registers in user space.
    pub regs: Registers,
    /// Name, ended by a zero.
    pub comm: [u8; 16],
    /// The CPUs that the task may use.
    pub cpus_mask: CpuMask,
}

/// `struct scx_init_task_args`.
#[repr(C)]
pub struct InitTaskArgs {
    /// Whether the task is being born, as opposed to there before the policy.
    pub fork: bool,
    /// The task's cgroup.
    pub cgroup: *mut Cgroup,
}

/// `struct scx_cgroup_init_args`.
#[repr(C)]
pub struct CgroupInitArgs {
    /// `cpu.weight`.
    pub weight: u32,
    /// `cpu.max`: the period, us.
    pub bw_period_us: u64,
    /// `cpu.max`: the quota, us; [`NO_QUOTA`] for none.
    pub bw_quota_us: u64,
    /// `cpu.max.burst`, us.
    pub bw_burst_us: u64,
}

/// A quota of "max".
pub const NO_QUOTA: u64 = u64::MAX;

/// `struct scx_exit_info`.
#[repr(C)]
pub struct ExitInfo {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// Code of the policy's own.
    pub exit_code: i64,
    /// C string.
    pub reason: *const u8,
    /// Back trace: none.
    pub bt: *mut u64,
    /// Its length.
    pub bt_len: u32,
    /// C string.
    pub msg: *const u8,
    /// C string.
    pub dump: *const u8,
}

/// A function pointer in `struct sched_ext_ops`; null where the policy has none.
pub type Callback = *const c_void;

/// `struct sched_ext_ops`.
#[repr(C)]
#[allow(missing_docs)]
pub struct Ops {
    pub select_cpu: Callback,
    pub enqueue: Callback,
    pub dequeue: Callback,
    pub dispatch: Callback,
    pub tick: Callback,
    pub runnable: Callback,
    pub running: Callback,
    pub stopping: Callback,
    pub quiescent: Callback,
    pub yield_: Callback,
    pub core_sched_before: Callback,
    pub set_weight: Callback,
    pub set_cpumask: Callback,
    pub update_idle: Callback,
    pub init_task: Callback,
    pub exit_task: Callback,
    pub enable: Callback,
    pub disable: Callback,
    pub dump: [Callback; 3],
    pub cgroup_init: Callback,
    pub cgroup_exit: Callback,
    pub cgroup_moves: [Callback; 3],
    pub cgroup_set_weight: Callback,
    pub cgroup_set_bandwidth: Callback,
    pub cgroup_set_idle: Callback,
    pub sub: [Callback; 2],
    pub hotplug: [Callback; 2],
    pub init: Callback,
    pub exit: Callback,
    pub dispatch_max_batch: u32,
    pub flags: u64,
    pub timeout_ms: u32,
    pub exit_dump_len: u32,
    pub hotplug_seq: u64,
    pub sub_cgroup_id: u64,
    pub name: [u8; 128],
    pub private: *mut c_void,
    pub cpu_ownership: [Callback; 2],
}

impl Ops {
    /// A table without any callback or flag.
    pub fn none() -> Ops {
        // Null is what a callback is that is not there, and 0 every other default.
        // SAFETY: it is of raw pointers and numbers, and zeros are such.
        unsafe { std::mem::zeroed() }
    }
}

/// What `seam_layout` in `seam.c` must say, in its order.
pub const LAYOUT: [usize; 23] = [
    size_of::<CpuMask>(),
    size_of::<Cgroup>(),
    size_of::<TaskStruct>(),
    offset_of!(TaskStruct, nr_cpus_allowed),
    offset_of!(TaskStruct, cpus_ptr),
    offset_of!(TaskStruct, se),
    offset_of!(TaskStruct, scx),
    offset_of!(TaskStruct, sched_info),
    offset_of!(TaskStruct, nvcsw),
    offset_of!(TaskStruct, cgroups),
    offset_of!(TaskStruct, signal),
    offset_of!(TaskStruct, pending),
    offset_of!(TaskStruct, regs),
    offset_of!(TaskStruct, comm),
    size_of::<ScxEntity>(),
    size_of::<SignalStruct>(),
    offset_of!(SignalStruct, flags),
    size_of::<InitTaskArgs>(),
    size_of::<CgroupInitArgs>(),
    size_of::<ExitInfo>(),
    size_of::<Ops>(),
    offset_of!(Ops, dispatch_max_batch),
    offset_of!(Ops, name),
];

/// Constants of the kernel's interface, by their kernel names.
#[allow(missing_docs)]
pub mod scx {
    pub const SLICE_DFL: u64 = 20_000_000;
    pub const SLICE_BYPASS: u64 = 5_000_000;
    pub const SLICE_INF: u64 = u64::MAX;

    pub const DSQ_FLAG_BUILTIN: u64 = 1 << 63;
    pub const DSQ_GLOBAL: u64 = DSQ_FLAG_BUILTIN | 1;
    pub const DSQ_LOCAL: u64 = DSQ_FLAG_BUILTIN | 2;
    pub const DSQ_LOCAL_ON: u64 = 3 << 62;
    pub const DSQ_LOCAL_CPU_MASK: u64 = 0xffff_ffff;

    pub const ENQ_WAKEUP: u64 = 1;
    pub const ENQ_HEAD: u64 = 1 << 16;
    pub const ENQ_CPU_SELECTED: u64 = 1 << 20;
    pub const ENQ_PREEMPT: u64 = 1 << 32;
    pub const ENQ_IMMED: u64 = 1 << 33;
    pub const ENQ_REENQ: u64 = 1 << 40;
    pub const ENQ_LAST: u64 = 1 << 41;
    pub const ENQ_INTERNAL_MASK: u64 = 0xff << 56;

    pub const DEQ_SLEEP: u64 = 1;
    pub const DEQ_SCHED_CHANGE: u64 = 1 << 33;

    pub const WAKE_FORK: u64 = 4;
    pub const WAKE_TTWU: u64 = 8;
    pub const WAKE_SYNC: u64 = 16;

    pub const KICK_IDLE: u64 = 1;
    pub const KICK_PREEMPT: u64 = 2;
    pub const KICK_WAIT: u64 = 4;

    pub const PICK_IDLE_CORE: u64 = 1;
    pub const PICK_IDLE_IN_NODE: u64 = 2;

    pub const OPS_KEEP_BUILTIN_IDLE: u64 = 1;
    pub const OPS_ENQ_LAST: u64 = 2;
    pub const OPS_ENQ_EXITING: u64 = 4;
    pub const OPS_SWITCH_PARTIAL: u64 = 8;
    pub const OPS_ENQ_MIGRATION_DISABLED: u64 = 16;
    pub const OPS_ALLOW_QUEUED_WAKEUP: u64 = 32;
    pub const OPS_BUILTIN_IDLE_PER_NODE: u64 = 64;
    pub const OPS_ALWAYS_ENQ_IMMED: u64 = 128;
    pub const OPS_KNOWN: u64 = 0xff;

    pub const TASK_QUEUED: u32 = 1;
    pub const TASK_DEQD_FOR_SLEEP: u32 = 8;

    pub const PF_IDLE: u32 = 2;
    pub const PF_EXITING: u32 = 4;
    /// SIGKILL among the signals that a task has got.
    pub const SIGKILL_BIT: u64 = 1 << 8;
    /// A deadly signal ends the process, or one of its threads does.
    pub const SIGNAL_GROUP_EXIT: u32 = 4;
    pub const PF_KTHREAD: u32 = 0x0020_0000;

    pub const EXIT_UNREG: u32 = 64;
    pub const EXIT_UNREG_KERN: u32 = 66;
    pub const ECODE_RSN_HOTPLUG: u64 = 1 << 32;
    pub const ECODE_ACT_RESTART: u64 = 1 << 48;

    pub const WATCHDOG_MAX_MS: u32 = 30_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_gives_its_cpus_in_order() {
        let mask: CpuMask = [900, 3, 64, 63].into_iter().collect();
        assert_eq!(mask.iter().collect::<Vec<_>>(), [3, 63, 64, 900]);
        assert_eq!(mask.count(), 4);
    }

    #[test]
    fn a_mask_holds_what_is_in_both() {
        let both = CpuMask::first(10).and(&[2, 9, 10].into_iter().collect());
        assert_eq!(both, [2, 9].into_iter().collect());
    }

    #[test]
    fn masks_are_ranges_and_are_taken_apart() {
        for (from, to) in [(0, 0), (0, 64), (1, 64), (63, 65), (64, 128), (60, 512), (0, 1024)] {
            assert_eq!(CpuMask::range(from, to), (from..to).collect(), "{from} to {to}");
        }
        let (low, high) = (CpuMask::range(0, 100), CpuMask::range(60, 512));
        assert_eq!(low.but(&high), CpuMask::first(60));
    }

    #[test]
    fn a_search_goes_round() {
        let mask: CpuMask = [3, 64, 700].into_iter().collect();
        let found = [0, 3, 4, 64, 65, 701].map(|from| mask.next_from(from));
        assert_eq!(found, [3, 3, 64, 64, 700, 3].map(Some));
        assert_eq!(CpuMask::EMPTY.next_from(5), None);
    }
}
