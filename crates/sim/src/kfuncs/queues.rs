//! Calls about dispatch queues.

use super::{EEXIST, EINVAL, ENOENT, K, P, kernel};
use crate::abi::scx;
use crate::dsq::DsqRef;
use crate::enqueue::Buffered;
use crate::enqueue::ENQ_BY_VTIME;
use crate::kernel::{Kernel, May};
use crate::task::{OpsState, TaskId};
use crate::trace::What;
use std::ptr;

pub(super) extern "C" fn insert(
    k: K,
    p: P,
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
    by_vtime: bool,
) -> bool {
    let kernel = kernel(k);
    let call = if by_vtime { "scx_bpf_dsq_insert_vtime" } else { "scx_bpf_dsq_insert" };
    let Some(id) = kernel.task_at(call, p) else { return false };
    let may = kernel.calls.context.may;
    if matches!(may, May::Look | May::Unlocked | May::Sleep | May::Nothing) {
        kernel.refuse(call, "it is allowed in select_cpu, enqueue and dispatch");
        return false;
    }
    if !kernel.valid_enq_flags(flags) {
        return false;
    }
    let c = &mut kernel.tasks[id].c_mut().scx;
    c.slice = if slice != 0 { slice } else { c.slice.max(1) };
    let mut flags = flags;
    if by_vtime {
        c.dsq_vtime = vtime;
        flags |= ENQ_BY_VTIME;
    }
    match may {
        May::InsertOne { task, spent, selecting } => {
            let name = |k: &Kernel, t: TaskId| format!("{}[{}]", k.tasks[t].name, t.0 + 1);
            kernel.calls.context.may = May::InsertOne { task, spent: true, selecting };
            if spent {
                let who = name(kernel, id);
                kernel.scx_error(format!("{who} already direct-dispatched"));
                return false;
            }
            if task != id {
                let (due, tried) = (name(kernel, task), name(kernel, id));
                kernel.scx_error(format!(
                    "scheduling for {due} but trying to direct-dispatch {tried}"
                ));
                return false;
            }
            kernel.tasks[id].direct = Some((dsq_id, flags));
        }
        _ => {
            // An ops table that names no batch size gets the kernel's default.
            let batch = match kernel.program.ops.dispatch_max_batch {
                0 => 32,
                n => n as usize,
            };
            if kernel.dispatch.buffered.len() >= batch {
                kernel.scx_error("dispatch buffer overflow");
                return false;
            }
            let hand_over = match kernel.tasks[id].ops_state {
                OpsState::Queued(n) => Some(n),
                OpsState::None => None,
            };
            kernel.dispatch.buffered.push(Buffered { task: id, hand_over, dsq_id, flags });
        }
    }
    true
}

pub(super) extern "C" fn move_to_local(k: K, dsq_id: u64) -> bool {
    let kernel = kernel(k);
    if kernel.calls.context.may != May::Dispatch {
        kernel.refuse("scx_bpf_dsq_move_to_local", "it is allowed in dispatch only");
        return false;
    }
    let cpu = kernel.calls.context.cpu;
    kernel.flush_dispatch_buf(cpu);
    if !kernel.dispatch.user.has(dsq_id) {
        kernel.scx_error(format!("invalid DSQ ID {dsq_id:#018x}"));
        return false;
    }
    let moved = kernel.consume(cpu, DsqRef::User(dsq_id));
    kernel.dispatch.moved += usize::from(moved);
    moved
}

pub(super) extern "C" fn nr_queued(k: K, dsq_id: u64) -> i32 {
    let kernel = kernel(k);
    if kernel.has_left("scx_bpf_dsq_nr_queued") {
        return -ENOENT;
    }
    let dsq = match dsq_id {
        scx::DSQ_LOCAL => Some(&kernel.cpus[kernel.calls.context.cpu].local),
        scx::DSQ_GLOBAL => Some(&kernel.dispatch.global),
        id if id & scx::DSQ_LOCAL_ON == scx::DSQ_LOCAL_ON => {
            let cpu = (id & scx::DSQ_LOCAL_CPU_MASK) as usize;
            kernel.cpus.get(cpu).map(|cpu| &cpu.local)
        }
        id => kernel.dispatch.user.get(id),
    };
    dsq.map_or(-ENOENT, |dsq| dsq.len() as i32)
}

pub(super) extern "C" fn create_dsq(k: K, dsq_id: u64, _node: i32) -> i32 {
    let kernel = kernel(k);
    if kernel.calls.context.may != May::Sleep {
        kernel.refuse("scx_bpf_create_dsq", "it is allowed in sleepable callbacks only");
        return -EINVAL;
    }
    if dsq_id & scx::DSQ_FLAG_BUILTIN != 0 {
        return -EINVAL;
    }
    if kernel.dispatch.user.has(dsq_id) {
        return -EEXIST;
    }
    kernel.dispatch.user.make(dsq_id);
    kernel.observe(kernel.calls.context.cpu, None, What::MakeQueue(dsq_id));
    0
}

pub(super) extern "C" fn destroy_dsq(k: K, dsq_id: u64) {
    let kernel = kernel(k);
    if kernel.has_left("scx_bpf_destroy_dsq") {
        return;
    }
    let Some(dsq) = kernel.dispatch.user.get(dsq_id) else { return };
    if !dsq.is_empty() {
        let nr = dsq.len();
        kernel.scx_error(format!("attempting to destroy in-use dsq {dsq_id:#018x} (nr={nr})"));
        return;
    }
    kernel.dispatch.user.destroy(dsq_id);
    kernel.observe(kernel.calls.context.cpu, None, What::DestroyQueue(dsq_id));
}

pub(super) extern "C" fn peek(k: K, dsq_id: u64) -> P {
    let kernel = kernel(k);
    if kernel.has_left("scx_bpf_dsq_peek") {
        return ptr::null_mut();
    }
    let Some(dsq) = kernel.dispatch.user.get(dsq_id) else {
        kernel.scx_error(format!("peek disallowed on DSQ {dsq_id:#x}"));
        return ptr::null_mut();
    };
    dsq.first().map_or(ptr::null_mut(), |id| kernel.tasks[id].raw.pointer())
}

/// Put off until the callback is over, as in the kernel.
pub(super) extern "C" fn reenq(k: K, dsq_id: u64, flags: u64) {
    let kernel = kernel(k);
    if kernel.has_left("scx_bpf_dsq_reenq") {
        return;
    }
    if flags != 0 {
        kernel.fail("refused", format!("scx_bpf_dsq_reenq: flags {flags:#x} are not modelled"));
        return;
    }
    if kernel.dispatch.user.get(dsq_id).is_none() {
        kernel.scx_error(format!("invalid DSQ ID {dsq_id:#018x}"));
        return;
    }
    kernel.dispatch.reenqueued.push(dsq_id);
}
