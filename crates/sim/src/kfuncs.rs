//! What policies may call. Each function stands behind one of `seam.c`, checks
//! that the callback in which it is called may call it, and fails the run by
//! name where it may not (the kernel refuses such a program when it is loaded).

use crate::abi::{CpuMask, TaskStruct, scx};
use crate::dsq::{Dsq, DsqRef};
use crate::dsq_iter::{dsq_move, iter_destroy, iter_new, iter_next, iter_set};
use crate::enqueue::ENQ_BY_VTIME;
use crate::image::Image;
use crate::kernel::{Buffered, Kernel, May};
use crate::maps::{Here, MapType};
use crate::task::{OpsState, TaskId};
use crate::trace::What;
use crate::trap::trapped;
use metasched_base::{Error, Kind, Result};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::slice;

pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const EBUSY: i32 = 16;

/// The kernel, as C carries it back to us.
pub(crate) type K = *mut c_void;
pub(crate) type P = *mut TaskStruct;

/// `struct seam_host`, member by member.
#[repr(C)]
pub struct Host {
    size: u64,
    kernel: K,
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
    random: extern "C" fn(K) -> u32,
    map_lookup: extern "C" fn(K, K, u32, u32, u32, u32, *const u8, i32) -> K,
    map_update: extern "C" fn(K, K, u32, u32, u32, u32, *const u8, *const u8, u64) -> i64,
    map_delete: extern "C" fn(K, K, u32, u32, *const u8) -> i64,
    task_storage: extern "C" fn(K, K, u32, P, u64) -> K,
    task_storage_delete: extern "C" fn(K, K, P) -> i64,
    trapped: extern "C" fn(K, u64, u64),
}

impl Host {
    /// Fills the table of a freshly loaded image.
    ///
    /// # Errors
    /// When the C side declares another table.
    pub(crate) fn connect(image: &Image) -> Result<*mut Host> {
        let host = image.required("seam_host")?.cast::<Host>();
        let theirs = unsafe { (*host).size };
        if theirs != size_of::<Host>() as u64 {
            let cause = format!("its call table has {theirs} bytes, ours {}", size_of::<Host>());
            return Err(Error::new(Kind::Failed, "load native policies", cause)
                .remedy("bring struct Host in line with seam/seam.c"));
        }
        unsafe { host.write(TABLE) };
        Ok(host)
    }

    /// From now on calls go to `kernel`; gives where they went before.
    pub(crate) unsafe fn enter(&mut self, kernel: *mut Kernel) -> K {
        std::mem::replace(&mut self.kernel, kernel.cast())
    }

    /// Calls go where they went before.
    pub(crate) unsafe fn leave(&mut self, before: K) {
        self.kernel = before;
    }
}

const TABLE: Host = Host {
    size: size_of::<Host>() as u64,
    kernel: ptr::null_mut(),
    fail,
    insert,
    move_to_local,
    nr_queued,
    create_dsq,
    destroy_dsq,
    peek,
    reenq,
    iter_new,
    iter_next,
    iter_destroy,
    iter_set,
    dsq_move,
    select_cpu_dfl,
    select_cpu_and,
    idle_mask,
    test_and_clear_cpu_idle,
    pick_cpu,
    kick_cpu,
    nr_cpu_ids,
    cpu_curr,
    this_cpu,
    task_cpu,
    task_running,
    task_from_pid,
    now,
    random,
    map_lookup,
    map_update,
    map_delete,
    task_storage,
    task_storage_delete,
    trapped,
};

/// The kernel behind the pointer. It is borrowed by the callback that calls us,
/// whose own borrow rests until we return.
pub(crate) fn kernel<'a>(k: K) -> &'a mut Kernel {
    unsafe { &mut *k.cast::<Kernel>() }
}

impl Kernel {
    pub(crate) fn refuse(&mut self, call: &str, rule: &str) {
        let callback = self.context.callback;
        self.fail("context", format!("{call} called from {callback}; {rule}"));
    }

    /// The task behind a pointer of the policy's.
    pub(crate) fn task_at(&mut self, call: &str, p: *const TaskStruct) -> Option<TaskId> {
        if !p.is_null() {
            let id = TaskId((unsafe { (*p).pid } as usize).wrapping_sub(1));
            if self.tasks.get(id.0).is_some_and(|t| ptr::eq(t.raw.pointer(), p)) {
                return Some(id);
            }
        }
        self.fail("pointer", format!("{call} was given {p:?}, which is no task"));
        None
    }

    pub(crate) fn valid_enq_flags(&mut self, flags: u64) -> bool {
        if flags & scx::ENQ_IMMED != 0 {
            self.fail("refused", "SCX_ENQ_IMMED is not modelled, and means nothing before 7.1");
            return false;
        }
        let valid = flags & scx::ENQ_INTERNAL_MASK == 0;
        if !valid {
            self.scx_error(format!("invalid enq_flags {flags:#x}"));
        }
        valid
    }

    fn valid_cpu(&mut self, call: &str, cpu: i32) -> Option<usize> {
        if cpu >= 0 && (cpu as usize) < self.cpus.len() {
            return Some(cpu as usize);
        }
        self.scx_error(format!("invalid CPU {cpu} in {call}"));
        None
    }

    fn tracks_idle(&self) -> bool {
        self.ops.update_idle.is_null() || self.ops.flags & scx::OPS_KEEP_BUILTIN_IDLE != 0
    }

    fn builtin_idle(&mut self, call: &str) -> bool {
        let on = self.tracks_idle();
        if !on {
            self.scx_error(format!("{call}: built-in idle tracking is disabled"));
        }
        on
    }
}

extern "C" fn fail(k: K, check: *const c_char, message: *const c_char) {
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    let kernel = kernel(k);
    let callback = kernel.context.callback;
    kernel.fail(text(check), format!("{} (in {callback})", text(message)));
}

extern "C" fn insert(
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
    let may = kernel.context.may;
    if matches!(may, May::Look | May::Unlocked | May::Sleep) {
        kernel.refuse(call, "it is allowed in select_cpu, enqueue and dispatch");
        return false;
    }
    if !kernel.valid_enq_flags(flags) {
        return false;
    }
    let c = &mut kernel.tasks[id.0].c_mut().scx;
    c.slice = if slice != 0 { slice } else { c.slice.max(1) };
    let mut flags = flags;
    if by_vtime {
        c.dsq_vtime = vtime;
        flags |= ENQ_BY_VTIME;
    }
    match may {
        May::InsertOne { task, spent, selecting } => {
            let name = |k: &Kernel, t: TaskId| format!("{}[{}]", k.tasks[t.0].name, t.0 + 1);
            kernel.context.may = May::InsertOne { task, spent: true, selecting };
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
            kernel.tasks[id.0].direct = Some((dsq_id, flags));
        }
        _ => {
            // An ops table that names no batch size gets the kernel's default.
            let batch = match kernel.ops.dispatch_max_batch {
                0 => 32,
                n => n as usize,
            };
            if kernel.dispatched.len() >= batch {
                kernel.scx_error("dispatch buffer overflow");
                return false;
            }
            let hand_over = match kernel.tasks[id.0].ops_state {
                OpsState::Queued(n) => Some(n),
                OpsState::None => None,
            };
            kernel.dispatched.push(Buffered { task: id, hand_over, dsq_id, flags });
        }
    }
    true
}

extern "C" fn move_to_local(k: K, dsq_id: u64) -> bool {
    let kernel = kernel(k);
    if kernel.context.may != May::Dispatch {
        kernel.refuse("scx_bpf_dsq_move_to_local", "it is allowed in dispatch only");
        return false;
    }
    let cpu = kernel.context.cpu;
    kernel.flush_dispatch_buf(cpu);
    if !kernel.user.contains_key(&dsq_id) {
        kernel.scx_error(format!("invalid DSQ ID {dsq_id:#018x}"));
        return false;
    }
    let moved = kernel.consume(cpu, DsqRef::User(dsq_id));
    kernel.moved += usize::from(moved);
    moved
}

extern "C" fn nr_queued(k: K, dsq_id: u64) -> i32 {
    let kernel = kernel(k);
    let dsq = match dsq_id {
        scx::DSQ_LOCAL => Some(&kernel.cpus[kernel.context.cpu].local),
        scx::DSQ_GLOBAL => Some(&kernel.global),
        id if id & scx::DSQ_LOCAL_ON == scx::DSQ_LOCAL_ON => {
            let cpu = (id & scx::DSQ_LOCAL_CPU_MASK) as usize;
            kernel.cpus.get(cpu).map(|cpu| &cpu.local)
        }
        id => kernel.user.get(&id),
    };
    dsq.map_or(-ENOENT, |dsq| dsq.len() as i32)
}

extern "C" fn create_dsq(k: K, dsq_id: u64, _node: i32) -> i32 {
    let kernel = kernel(k);
    if kernel.context.may != May::Sleep {
        kernel.refuse("scx_bpf_create_dsq", "it is allowed in sleepable callbacks only");
        return -EINVAL;
    }
    if dsq_id & scx::DSQ_FLAG_BUILTIN != 0 {
        return -EINVAL;
    }
    if kernel.user.contains_key(&dsq_id) {
        return -EEXIST;
    }
    kernel.user.insert(dsq_id, Dsq::default());
    kernel.observe(kernel.context.cpu, None, What::MakeQueue(dsq_id));
    0
}

extern "C" fn destroy_dsq(k: K, dsq_id: u64) {
    let kernel = kernel(k);
    let Some(dsq) = kernel.user.get(&dsq_id) else { return };
    if !dsq.is_empty() {
        let nr = dsq.len();
        kernel.scx_error(format!("attempting to destroy in-use dsq {dsq_id:#018x} (nr={nr})"));
        return;
    }
    kernel.user.remove(&dsq_id);
    kernel.observe(kernel.context.cpu, None, What::DestroyQueue(dsq_id));
}

extern "C" fn peek(k: K, dsq_id: u64) -> P {
    let kernel = kernel(k);
    if dsq_id & scx::DSQ_FLAG_BUILTIN != 0 || !kernel.user.contains_key(&dsq_id) {
        kernel.scx_error(format!("peek disallowed on DSQ {dsq_id:#x}"));
        return ptr::null_mut();
    }
    kernel.user[&dsq_id].first().map_or(ptr::null_mut(), |id| kernel.tasks[id.0].raw.pointer())
}

/// Put off until the callback is over, as in the kernel.
extern "C" fn reenq(k: K, dsq_id: u64, flags: u64) {
    let kernel = kernel(k);
    if flags != 0 {
        kernel.fail("refused", format!("scx_bpf_dsq_reenq: flags {flags:#x} are not modelled"));
        return;
    }
    if !kernel.user.contains_key(&dsq_id) {
        kernel.scx_error(format!("invalid DSQ ID {dsq_id:#018x}"));
        return;
    }
    kernel.reenqueued.push(dsq_id);
}

impl Kernel {
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
        if !matches!(self.context.may, May::InsertOne { .. } | May::Sleep) {
            self.refuse(call, "it is allowed in select_cpu, enqueue and unlocked contexts");
            return -EINVAL;
        }
        let Some(cpu) = self.valid_cpu(call, previous) else { return -EINVAL };
        if !self.builtin_idle(call) || !self.pick_flags(call, flags) {
            return -EBUSY;
        }
        let Some(id) = self.task_at(call, p) else { return -EINVAL };
        // A pinned task is asked about from enqueue only, and has just this CPU.
        let found = if self.tasks[id.0].c().nr_cpus_allowed == 1 {
            let allowed = within.is_none_or(|within| within.has(cpu));
            let there = allowed && self.tasks[id.0].may_use(cpu) && self.test_and_clear_idle(cpu);
            there.then_some(cpu)
        } else {
            let here = self.context.cpu;
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

extern "C" fn select_cpu_dfl(k: K, p: P, previous: i32, wake_flags: u64, idle: *mut bool) -> i32 {
    let call = "scx_bpf_select_cpu_dfl";
    let found = kernel(k).select_cpu(call, p, previous, wake_flags, None, 0);
    unsafe { *idle = found >= 0 };
    if found >= 0 { found } else { previous }
}

extern "C" fn select_cpu_and(
    k: K,
    p: P,
    previous: i32,
    wake_flags: u64,
    within: *const CpuMask,
    flags: u64,
) -> i32 {
    let within = unsafe { within.as_ref() };
    kernel(k).select_cpu("scx_bpf_select_cpu_and", p, previous, wake_flags, within, flags)
}

extern "C" fn idle_mask(k: K, cores: bool) -> *const CpuMask {
    let kernel = kernel(k);
    if !kernel.builtin_idle("scx_bpf_get_idle_cpumask") {
        return &CpuMask::EMPTY;
    }
    if cores && kernel.searched.smt { &kernel.idle.cores } else { &kernel.idle.cpus }
}

extern "C" fn test_and_clear_cpu_idle(k: K, cpu: i32) -> bool {
    let kernel = kernel(k);
    let call = "scx_bpf_test_and_clear_cpu_idle";
    kernel.builtin_idle(call)
        && kernel.valid_cpu(call, cpu).is_some_and(|cpu| kernel.test_and_clear_idle(cpu))
}

extern "C" fn pick_cpu(k: K, allowed: *const CpuMask, flags: u64, or_any: bool) -> i32 {
    let kernel = kernel(k);
    let call = if or_any { "scx_bpf_pick_any_cpu" } else { "scx_bpf_pick_idle_cpu" };
    if !kernel.pick_flags(call, flags) {
        return -EBUSY;
    }
    let here = kernel.context.cpu;
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

extern "C" fn kick_cpu(k: K, cpu: i32, flags: u64) {
    let kernel = kernel(k);
    let idle = flags & scx::KICK_IDLE != 0;
    if flags & !(scx::KICK_IDLE | scx::KICK_PREEMPT | scx::KICK_WAIT) != 0 {
        kernel.fail("refused", format!("scx_bpf_kick_cpu: flags {flags:#x} are not modelled"));
    } else if idle && flags != scx::KICK_IDLE {
        kernel.scx_error("PREEMPT/WAIT cannot be used with SCX_KICK_IDLE");
    } else if let Some(cpu) = kernel.valid_cpu("scx_bpf_kick_cpu", cpu) {
        kernel.kick(cpu, flags);
    }
}

extern "C" fn nr_cpu_ids(k: K) -> u32 {
    kernel(k).cpus.len() as u32
}

extern "C" fn cpu_curr(k: K, cpu: i32) -> P {
    let kernel = kernel(k);
    let Some(cpu) = kernel.valid_cpu("scx_bpf_cpu_curr", cpu) else { return ptr::null_mut() };
    let current = kernel.cpus[cpu].curr;
    current.map_or(&kernel.idle_tasks[cpu], |id| &kernel.tasks[id.0].raw).pointer()
}

extern "C" fn this_cpu(k: K) -> u32 {
    kernel(k).context.cpu as u32
}

extern "C" fn task_cpu(k: K, p: P) -> i32 {
    let kernel = kernel(k);
    kernel.task_at("scx_bpf_task_cpu", p).map_or(0, |id| kernel.tasks[id.0].cpu as i32)
}

extern "C" fn task_running(k: K, p: P) -> bool {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("scx_bpf_task_running", p) else { return false };
    kernel.cpus[kernel.tasks[id.0].cpu].curr == Some(id)
}

extern "C" fn task_from_pid(k: K, pid: i32) -> P {
    let kernel = kernel(k);
    let task = kernel.tasks.get((pid as usize).wrapping_sub(1)).filter(|t| !t.dead);
    task.map_or(ptr::null_mut(), |t| t.raw.pointer())
}

extern "C" fn now(k: K) -> u64 {
    kernel(k).now
}

extern "C" fn random(k: K) -> u32 {
    kernel(k).random.bits() as u32
}

impl Kernel {
    fn map_type(&mut self, kind: u32, max_entries: u32, value_size: u32) -> Option<MapType> {
        let of = MapType { kind, max_entries, value_size };
        if !of.is_modelled() {
            self.fail("refused", format!("maps of type {kind} are not modelled"));
            return None;
        }
        Some(of)
    }
}

extern "C" fn map_lookup(
    k: K,
    map: K,
    kind: u32,
    max_entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const u8,
    cpu: i32,
) -> K {
    let kernel = kernel(k);
    let Some(of) = kernel.map_type(kind, max_entries, value_size) else { return ptr::null_mut() };
    let cpu = if cpu < 0 { kernel.context.cpu } else { cpu as usize };
    if cpu >= kernel.cpus.len() {
        return ptr::null_mut();
    }
    let key = unsafe { slice::from_raw_parts(key, key_size as usize) };
    kernel.maps.lookup(map, of, key, Here { cpu, cpus: kernel.cpus.len() })
}

extern "C" fn map_update(
    k: K,
    map: K,
    kind: u32,
    max_entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i64 {
    let kernel = kernel(k);
    let Some(of) = kernel.map_type(kind, max_entries, value_size) else { return -1 };
    let key = unsafe { slice::from_raw_parts(key, key_size as usize) };
    let value = unsafe { slice::from_raw_parts(value, value_size as usize) };
    let here = Here { cpu: kernel.context.cpu, cpus: kernel.cpus.len() };
    kernel.maps.update(map, of, key, value, flags, here)
}

extern "C" fn map_delete(k: K, map: K, kind: u32, key_size: u32, key: *const u8) -> i64 {
    let kernel = kernel(k);
    if kernel.map_type(kind, 0, 0).is_none() {
        return -1;
    }
    let key = unsafe { slice::from_raw_parts(key, key_size as usize) };
    kernel.maps.delete(map, key)
}

/// Makes the storage where the flag says so (BPF_LOCAL_STORAGE_GET_F_CREATE).
extern "C" fn task_storage(k: K, map: K, value_size: u32, p: P, flags: u64) -> K {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("bpf_task_storage_get", p) else { return ptr::null_mut() };
    let task = &mut kernel.tasks[id.0];
    let at = task.storage.iter().position(|(of, _)| *of == map as usize);
    let at = match at {
        Some(at) => at,
        None if flags & 1 == 0 || task.dead => return ptr::null_mut(),
        None => {
            let words = value_size.div_ceil(8) as usize;
            task.storage.push((map as usize, kernel.maps.memory.value(words)));
            task.storage.len() - 1
        }
    };
    task.storage[at].1.words_mut().as_mut_ptr().cast()
}

extern "C" fn task_storage_delete(k: K, map: K, p: P) -> i64 {
    let kernel = kernel(k);
    let Some(id) = kernel.task_at("bpf_task_storage_delete", p) else { return -1 };
    let storage = &mut kernel.tasks[id.0].storage;
    let Some(at) = storage.iter().position(|(of, _)| *of == map as usize) else {
        return i64::from(-ENOENT);
    };
    let (_, value) = storage.swap_remove(at);
    kernel.maps.memory.delete(map, value);
    0
}
