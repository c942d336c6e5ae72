//! The table of calls, as C has it: `struct seam_host` of `seam.c`.

use super::{K, P, cpus, maps, queues, rings, tasks, timers};
use crate::abi::CpuMask;
use crate::dsq_iter::{dsq_move, iter_destroy, iter_new, iter_next, iter_set};
use crate::image::Image;
use crate::kernel::Kernel;
use crate::trap::trapped;
use metasched_base::{Error, Kind, Result};
use std::ffi::{c_char, c_void};
use std::ptr;

/// `struct seam_host`, member by member.
#[repr(C)]
pub struct Host {
    size: u64,
    kernel: K,
    calls: u64,
    fail: extern "C" fn(K, *const c_char, *const c_char),
    insert: extern "C" fn(K, P, u64, u64, u64, u64, bool) -> bool,
    move_to_local: extern "C" fn(K, u64) -> bool,
    nr_queued: extern "C" fn(K, u64) -> i32,
    create_dsq: extern "C" fn(K, u64, i32) -> i32,
    destroy_dsq: extern "C" fn(K, u64),
    peek: extern "C" fn(K, u64) -> P,
    reenq: extern "C" fn(K, u64, u64),
    iter_new: extern "C" fn(K, *mut u64, u64, u64) -> i32,
    iter_next: extern "C" fn(K, *mut u64) -> P,
    iter_destroy: extern "C" fn(K, *mut u64),
    iter_set: extern "C" fn(K, *mut u64, bool, u64),
    dsq_move: extern "C" fn(K, *mut u64, P, u64, u64, bool) -> bool,
    select_cpu_dfl: extern "C" fn(K, P, i32, u64, *mut bool) -> i32,
    select_cpu_and: extern "C" fn(K, P, i32, u64, *const CpuMask, u64) -> i32,
    idle_mask: extern "C" fn(K, bool) -> *const CpuMask,
    online_mask: extern "C" fn(K) -> *const CpuMask,
    active_mask: extern "C" fn(K) -> *const CpuMask,
    test_and_clear_cpu_idle: extern "C" fn(K, i32) -> bool,
    pick_cpu: extern "C" fn(K, *const CpuMask, u64, bool) -> i32,
    kick_cpu: extern "C" fn(K, i32, u64),
    nr_cpu_ids: extern "C" fn(K) -> u32,
    cpu_curr: extern "C" fn(K, i32) -> P,
    this_cpu: extern "C" fn(K) -> u32,
    task_cpu: extern "C" fn(K, P) -> i32,
    task_running: extern "C" fn(K, P) -> bool,
    task_from_pid: extern "C" fn(K, i32) -> P,
    now: extern "C" fn(K) -> u64,
    ktime: extern "C" fn(K) -> u64,
    random: extern "C" fn(K) -> u32,
    map_lookup: extern "C" fn(K, K, u32, u32, u32, u32, *const u8, i32) -> K,
    map_update: extern "C" fn(K, K, u32, u32, u32, u32, *const u8, *const u8, u64) -> i64,
    map_delete: extern "C" fn(K, K, u32, u32, *const u8) -> i64,
    task_storage: extern "C" fn(K, K, u32, P, u64) -> K,
    task_storage_delete: extern "C" fn(K, K, P) -> i64,
    timer_init: extern "C" fn(K, K, K, u64) -> i64,
    timer_set_callback: extern "C" fn(K, K, *const c_void) -> i64,
    timer_start: extern "C" fn(K, K, u64, u64) -> i64,
    timer_cancel: extern "C" fn(K, K) -> i64,
    call_at_return: extern "C" fn(K, P, K, K, *const c_void) -> i32,
    ring_output: extern "C" fn(K, K, u32, *const u8, u64) -> i64,
    trapped: extern "C" fn(K, u64, u64),
}

impl Host {
    /// Fills the table of a freshly loaded image.
    ///
    /// # Errors
    /// When the C side declares another table.
    pub(crate) fn connect(image: &Image) -> Result<*mut Host> {
        let host = image.required("seam_host")?.cast::<Host>();
        // SAFETY: every image has the table of seam.c, which begins with its size.
        let theirs = unsafe { (*host).size };
        if theirs != size_of::<Host>() as u64 {
            let cause = format!("its call table has {theirs} bytes, ours {}", size_of::<Host>());
            return Err(Error::new(Kind::Failed, "load native policies", cause)
                .remedy("bring struct Host in line with seam/seam.c"));
        }
        // SAFETY: it is as large as ours, and lies in the image's data. Nothing of that runs now.
        unsafe { host.write(TABLE) };
        Ok(host)
    }

    /// From now on calls go to `kernel`; gives where they went before.
    pub(crate) unsafe fn enter(&mut self, kernel: *mut Kernel) -> K {
        std::mem::replace(&mut self.kernel, kernel.cast())
    }

    /// How many calls of the kernel the image has made.
    pub(crate) unsafe fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls go where they went before.
    pub(crate) unsafe fn leave(&mut self, before: K) {
        self.kernel = before;
    }
}

const TABLE: Host = Host {
    size: size_of::<Host>() as u64,
    kernel: ptr::null_mut(),
    calls: 0,
    fail: super::fail,
    insert: queues::insert,
    move_to_local: queues::move_to_local,
    nr_queued: queues::nr_queued,
    create_dsq: queues::create_dsq,
    destroy_dsq: queues::destroy_dsq,
    peek: queues::peek,
    reenq: queues::reenq,
    iter_new,
    iter_next,
    iter_destroy,
    iter_set,
    dsq_move,
    select_cpu_dfl: cpus::select_cpu_dfl,
    select_cpu_and: cpus::select_cpu_and,
    idle_mask: cpus::idle_mask,
    online_mask: cpus::online_mask,
    active_mask: cpus::active_mask,
    test_and_clear_cpu_idle: cpus::test_and_clear_cpu_idle,
    pick_cpu: cpus::pick_cpu,
    kick_cpu: cpus::kick_cpu,
    nr_cpu_ids: cpus::nr_cpu_ids,
    cpu_curr: cpus::cpu_curr,
    this_cpu: cpus::this_cpu,
    task_cpu: tasks::task_cpu,
    task_running: tasks::task_running,
    task_from_pid: tasks::task_from_pid,
    now: tasks::now,
    ktime: tasks::ktime,
    random: tasks::random,
    map_lookup: maps::map_lookup,
    map_update: maps::map_update,
    map_delete: maps::map_delete,
    task_storage: tasks::task_storage,
    task_storage_delete: tasks::task_storage_delete,
    timer_init: timers::timer_init,
    timer_set_callback: timers::timer_set_callback,
    timer_start: timers::timer_start,
    timer_cancel: timers::timer_cancel,
    call_at_return: tasks::call_at_return,
    ring_output: rings::ring_output,
    trapped,
};
