//! Calls about tasks and what is kept of each, time, and chance.

use super::{EINVAL, ENOENT, K, P, kernel};
use crate::task::TaskId;
use std::ffi::c_void;
use std::ptr;

pub(super) extern "C" fn task_cpu(k: K, p: P) -> i32 {
    let kernel = kernel(k);
    kernel.task_at("scx_bpf_task_cpu", p).map_or(0, |id| kernel.tasks[id].cpu as i32)
}

pub(super) extern "C" fn task_running(k: K, p: P) -> bool {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("scx_bpf_task_running", p) else { return false };
    kernel.cpus[kernel.tasks[id].cpu].curr == Some(id)
}

pub(super) extern "C" fn task_from_pid(k: K, pid: i32) -> P {
    let kernel = kernel(k);
    let task = kernel.tasks.get(TaskId((pid as usize).wrapping_sub(1))).filter(|t| !t.dead);
    task.map_or(ptr::null_mut(), |t| t.raw.pointer())
}

pub(super) extern "C" fn call_at_return(
    k: K,
    p: P,
    value: K,
    map: K,
    callback: *const c_void,
) -> i32 {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("bpf_task_work_schedule_resume", p) else { return -EINVAL };
    kernel.call_at_return(id, map, value, callback).map_or_else(|error| -error, |()| 0)
}

pub(super) extern "C" fn now(k: K) -> u64 {
    kernel(k).clock.now
}

/// Unlike `now()`, which the kernel reads once for each callback.
pub(super) extern "C" fn ktime(k: K) -> u64 {
    let kernel = kernel(k);
    kernel.clock.now + kernel.time_in_callback()
}

pub(super) extern "C" fn random(k: K) -> u32 {
    kernel(k).random.bits() as u32
}

/// Makes the storage where the flag says so (BPF_LOCAL_STORAGE_GET_F_CREATE).
pub(super) extern "C" fn task_storage(k: K, map: K, value_size: u32, p: P, flags: u64) -> K {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("bpf_task_storage_get", p) else { return ptr::null_mut() };
    let task = &mut kernel.tasks[id];
    let at = task.storage.iter().position(|(of, _)| *of == map as usize);
    let at = match at {
        Some(at) => at,
        None if flags & 1 == 0 || task.dead => return ptr::null_mut(),
        None => {
            let words = value_size.div_ceil(8) as usize;
            task.storage.push((map as usize, kernel.program.maps.memory.value(words)));
            task.storage.len() - 1
        }
    };
    task.storage[at].1.words_mut().as_mut_ptr().cast()
}

pub(super) extern "C" fn task_storage_delete(k: K, map: K, p: P) -> i64 {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("bpf_task_storage_delete", p) else { return -1 };
    let storage = &mut kernel.tasks[id].storage;
    let Some(at) = storage.iter().position(|(of, _)| *of == map as usize) else {
        return i64::from(-ENOENT);
    };
    let (_, value) = storage.swap_remove(at);
    kernel.program.maps.memory.delete(map, value);
    0
}
