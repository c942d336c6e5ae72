//! Calls about CPUs: which are idle, what runs there, and that one chooses anew.

use super::{EBUSY, EINVAL, K, P, kernel};
use crate::abi::{CpuMask, scx};
use crate::kernel::{Kernel, May};
use std::ptr;

impl Kernel {
    fn valid_cpu(&mut self, call: &str, cpu: i32) -> Option<usize> {
        if cpu >= 0 && (cpu as usize) < self.cpus.len() {
            return Some(cpu as usize);
        }
        self.scx_error(format!("invalid CPU {cpu} in {call}"));
        None
    }

    fn tracks_idle(&self) -> bool {
        self.program.ops.update_idle.is_null()
            || self.program.ops.flags & scx::OPS_KEEP_BUILTIN_IDLE != 0
    }

    fn builtin_idle(&mut self, call: &str) -> bool {
        let on = self.tracks_idle();
        if !on {
            self.scx_error(format!("{call}: built-in idle tracking is disabled"));
        }
        on
    }

    /// Both calls for the default search; -EBUSY where no CPU is idle.
    fn select_cpu(
        &mut self,
        call: &str,
        p: P,
        previous: i32,
        wake_flags: u64,
        within: Option<&CpuMask>,
        flags: u64,
    ) -> i32 {
        if !matches!(self.calls.context.may, May::InsertOne { .. } | May::Sleep) {
            self.refuse(call, "it is allowed in select_cpu, enqueue and unlocked contexts");
            return -EINVAL;
        }
        let Some(cpu) = self.valid_cpu(call, previous) else { return -EINVAL };
        if !self.builtin_idle(call) || !self.pick_flags(call, flags) {
            return -EBUSY;
        }
        let Some(id) = self.task_at(call, p) else { return -EINVAL };
        // A pinned task is asked about from enqueue only, and has just this CPU.
        let found = if self.tasks[id].c().nr_cpus_allowed == 1 {
            let allowed = within.is_none_or(|within| within.has(cpu));
            let there = allowed && self.tasks[id].may_use(cpu) && self.test_and_clear_idle(cpu);
            there.then_some(cpu)
        } else {
            let here = self.calls.context.cpu;
            self.select_cpu_dfl(id, here, cpu, wake_flags, within, flags)
        };
        found.map_or(-EBUSY, |cpu| cpu as i32)
    }

    /// SCX_PICK_IDLE_IN_NODE says nothing where idle CPUs are not tracked per node.
    fn pick_flags(&mut self, call: &str, flags: u64) -> bool {
        let known = flags & !(scx::PICK_IDLE_CORE | scx::PICK_IDLE_IN_NODE) == 0;
        if !known {
            self.fail("refused", format!("{call}: flags {flags:#x} are not modelled"));
        }
        known
    }
}

pub(super) extern "C" fn select_cpu_dfl(
    k: K,
    p: P,
    previous: i32,
    wake_flags: u64,
    idle: *mut bool,
) -> i32 {
    let call = "scx_bpf_select_cpu_dfl";
    let found = kernel(k).select_cpu(call, p, previous, wake_flags, None, 0);
    // SAFETY: it is a variable of the policy's: the verifier takes nothing else.
    unsafe { *idle = found >= 0 };
    if found >= 0 { found } else { previous }
}

pub(super) extern "C" fn select_cpu_and(
    k: K,
    p: P,
    previous: i32,
    wake_flags: u64,
    within: *const CpuMask,
    flags: u64,
) -> i32 {
    // SAFETY: null, or a task's set, which stays until the run is over and to which no search
    // writes. It must not be one of the kernel's own sets: a search takes CPUs out of those.
    let within = unsafe { within.as_ref() };
    kernel(k).select_cpu("scx_bpf_select_cpu_and", p, previous, wake_flags, within, flags)
}

pub(super) extern "C" fn idle_mask(k: K, cores: bool) -> *const CpuMask {
    let kernel = kernel(k);
    if !kernel.builtin_idle("scx_bpf_get_idle_cpumask") {
        return &CpuMask::EMPTY;
    }
    if cores && kernel.idle.searched.smt { &kernel.idle.cores } else { &kernel.idle.cpus }
}

pub(super) extern "C" fn online_mask(k: K) -> *const CpuMask {
    &kernel(k).cpus.online
}

pub(super) extern "C" fn active_mask(k: K) -> *const CpuMask {
    &kernel(k).cpus.active
}

pub(super) extern "C" fn test_and_clear_cpu_idle(k: K, cpu: i32) -> bool {
    let kernel = kernel(k);
    let call = "scx_bpf_test_and_clear_cpu_idle";
    kernel.builtin_idle(call)
        && kernel.valid_cpu(call, cpu).is_some_and(|cpu| kernel.test_and_clear_idle(cpu))
}

pub(super) extern "C" fn pick_cpu(k: K, allowed: *const CpuMask, flags: u64, or_any: bool) -> i32 {
    let kernel = kernel(k);
    let call = if or_any { "scx_bpf_pick_any_cpu" } else { "scx_bpf_pick_idle_cpu" };
    if kernel.has_left(call) || !kernel.pick_flags(call, flags) {
        return -EBUSY;
    }
    let here = kernel.calls.context.cpu;
    // SAFETY: a task's set, or one of the kernel's own, all of which outlive the call. It is copied
    // before anything is written.
    let allowed = unsafe { *allowed }.and(&kernel.machine.all());
    // Any CPU will do where nobody knows which are idle.
    let found = if (or_any && !kernel.tracks_idle()) || !kernel.builtin_idle(call) {
        None
    } else {
        kernel.pick_idle(here, &allowed, flags)
    };
    let found = found.or_else(|| if or_any { kernel.distribute(here, &allowed) } else { None });
    found.map_or(-EBUSY, |cpu| cpu as i32)
}

pub(super) extern "C" fn kick_cpu(k: K, cpu: i32, flags: u64) {
    let kernel = kernel(k);
    if kernel.has_left("scx_bpf_kick_cpu") {
        return;
    }
    let idle = flags & scx::KICK_IDLE != 0;
    if flags & !(scx::KICK_IDLE | scx::KICK_PREEMPT | scx::KICK_WAIT) != 0 {
        kernel.fail("refused", format!("scx_bpf_kick_cpu: flags {flags:#x} are not modelled"));
    } else if idle && flags != scx::KICK_IDLE {
        kernel.scx_error("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE");
    } else if let Some(cpu) = kernel.valid_cpu("scx_bpf_kick_cpu", cpu)
        && !kernel.interrupts_are_off("scx_bpf_kick_cpu")
    {
        kernel.kick(cpu, flags);
    }
}

pub(super) extern "C" fn nr_cpu_ids(k: K) -> u32 {
    let kernel = kernel(k);
    (kernel.cpus.len() + kernel.machine.numbers_without_cpu()) as u32
}

pub(super) extern "C" fn cpu_curr(k: K, cpu: i32) -> P {
    let kernel = kernel(k);
    let Some(cpu) = kernel.valid_cpu("scx_bpf_cpu_curr", cpu) else { return ptr::null_mut() };
    let current = kernel.cpus[cpu].curr;
    current.map_or(&kernel.tasks.idle[cpu], |id| &kernel.tasks[id].raw).pointer()
}

pub(super) extern "C" fn this_cpu(k: K) -> u32 {
    kernel(k).calls.context.cpu as u32
}
