//! Walking through a dispatch queue and moving tasks out of it, as `bpf_for_each(scx_dsq)`
//! and scx_bpf_dsq_move() do: the part of what policies may call that outlives one call.

use crate::dsq::DsqRef;
use crate::enqueue::ENQ_BY_VTIME;
use crate::kernel::{Kernel, May};
use crate::kfuncs::{EINVAL, ENOENT, K, P, kernel};
use crate::task::TaskId;
use std::ptr;

/// From the last task to the first.
const REVERSED: u64 = 1 << 16;

/// One walk. Tasks that come to the queue after it began are not seen.
pub(crate) struct DsqIter {
    dsq_id: u64,
    /// With how often each had been inserted: one that left and came back is another.
    tasks: Vec<(TaskId, u64)>,
    next: usize,
    /// What the next task that is moved gets.
    slice: Option<u64>,
    vtime: Option<u64>,
}

impl Kernel {
    fn stands_in(&self, (id, inserts): (TaskId, u64), dsq_id: u64) -> bool {
        let task = &self.tasks[id];
        task.inserts == inserts && task.dsq == Some(DsqRef::User(dsq_id))
    }
}

/// What `it` holds: the walk's number plus one; 0 where there is nothing to walk through.
fn handle<'a>(it: *mut u64) -> &'a mut u64 {
    // SAFETY: seam.c gives the member of an iterator that the policy has in a variable of its own.
    // That lives for as long as the walk lasts, and nobody else has a reference to it.
    unsafe { &mut *it }
}

fn iter_of(kernel: &mut Kernel, it: *mut u64) -> Option<&mut DsqIter> {
    let at = handle(it).checked_sub(1)?;
    kernel.dispatch.iters.get_mut(at as usize)
}

pub(crate) extern "C" fn iter_new(k: K, it: *mut u64, dsq_id: u64, flags: u64) -> i32 {
    let kernel = kernel(k);
    *handle(it) = 0;
    if kernel.has_left("bpf_iter_scx_dsq_new") {
        return -EINVAL;
    }
    if flags & !REVERSED != 0 {
        return -EINVAL;
    }
    let Some(dsq) = kernel.dispatch.user.get(dsq_id) else { return -ENOENT };
    let mut tasks: Vec<_> = dsq.tasks().map(|id| (id, kernel.tasks[id].inserts)).collect();
    if flags & REVERSED != 0 {
        tasks.reverse();
    }
    kernel.dispatch.iters.push(DsqIter { dsq_id, tasks, next: 0, slice: None, vtime: None });
    *handle(it) = kernel.dispatch.iters.len() as u64;
    0
}

pub(crate) extern "C" fn iter_next(k: K, it: *mut u64) -> P {
    let kernel = kernel(k);
    loop {
        let Some(iter) = iter_of(kernel, it) else { return ptr::null_mut() };
        let Some(entry) = iter.tasks.get(iter.next).copied() else { return ptr::null_mut() };
        let dsq_id = iter.dsq_id;
        iter.next += 1;
        if kernel.stands_in(entry, dsq_id) {
            return kernel.tasks[entry.0].raw.pointer();
        }
    }
}

/// Walks end in the opposite order of their beginnings.
pub(crate) extern "C" fn iter_destroy(k: K, it: *mut u64) {
    if let Some(at) = handle(it).checked_sub(1) {
        kernel(k).dispatch.iters.truncate(at as usize);
    }
}

pub(crate) extern "C" fn iter_set(k: K, it: *mut u64, vtime: bool, value: u64) {
    if let Some(iter) = iter_of(kernel(k), it) {
        let place = if vtime { &mut iter.vtime } else { &mut iter.slice };
        *place = Some(value);
    }
}

pub(crate) extern "C" fn dsq_move(
    k: K,
    it: *mut u64,
    p: P,
    dsq_id: u64,
    flags: u64,
    by_vtime: bool,
) -> bool {
    let kernel = kernel(k);
    let call = if by_vtime { "scx_bpf_dsq_move_vtime" } else { "scx_bpf_dsq_move" };
    if !matches!(kernel.calls.context.may, May::Dispatch | May::Unlocked | May::Sleep) {
        kernel.refuse(call, "it is allowed in dispatch and where no run queue is locked");
        return false;
    }
    let Some(id) = kernel.task_at(call, p) else { return false };
    if !kernel.valid_enq_flags(flags) {
        return false;
    }
    let Some(iter) = iter_of(kernel, it) else { return false };
    let (from, slice, vtime) = (iter.dsq_id, iter.slice.take(), iter.vtime.take());
    let entry = iter.tasks.iter().copied().find(|(of, _)| *of == id);
    // Somebody else has it, or it was not there when the walk began.
    if !entry.is_some_and(|entry| kernel.stands_in(entry, from)) {
        return false;
    }
    let here = kernel.calls.context.cpu;
    let to = kernel.find_dsq_for_dispatch(here, dsq_id, id);
    let c = &mut kernel.tasks[id].c_mut().scx;
    c.slice = slice.unwrap_or(c.slice);
    c.dsq_vtime = vtime.unwrap_or(c.dsq_vtime);
    let flags = if by_vtime { flags | ENQ_BY_VTIME } else { flags };
    let cpu = kernel.tasks[id].cpu;
    kernel.dispatch_dequeue(id);
    match to {
        DsqRef::Local(there) => kernel.dispatch_to_local_dsq(cpu, there, id, flags),
        to => kernel.dispatch_enqueue(cpu, to, id, flags),
    }
    true
}
