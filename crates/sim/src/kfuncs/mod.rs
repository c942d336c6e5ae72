//! What policies may call. Each function stands behind one of `seam.c`, checks
//! that the callback in which it is called may call it, and fails the run by
//! name where it may not (the kernel refuses such a program when it is loaded).

mod cpus;
mod host;
mod maps;
mod queues;
mod rings;
mod tasks;
mod timers;

pub use host::Host;

use crate::abi::{TaskStruct, scx};
use crate::kernel::{Kernel, May};
use crate::task::TaskId;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
pub(crate) const EBUSY: i32 = 16;

/// The kernel, as C carries it back to us.
pub(crate) type K = *mut c_void;
pub(crate) type P = *mut TaskStruct;

/// The kernel behind the pointer. It is borrowed by the callback that calls us,
/// whose own borrow rests until we return.
pub(crate) fn kernel<'a>(k: K) -> &'a mut Kernel {
    // SAFETY: C gives what `Kernel::enter_image` has put into its table, where a kernel is for no
    // longer than its callback lasts. Meanwhile enter_image() does not touch it, and whoever C
    // calls asks for it once, so that this is the only reference in use.
    unsafe { &mut *k.cast::<Kernel>() }
}

impl Kernel {
    pub(crate) fn refuse(&mut self, call: &str, rule: &str) {
        let callback = self.calls.context.callback;
        self.fail("context", format!("{call} called from {callback}; {rule}"));
    }

    /// Fails the run where the program has left: what it calls for is not its own any more.
    pub(crate) fn has_left(&mut self, call: &str) -> bool {
        let left = self.calls.context.may == May::Nothing;
        if left {
            self.refuse(call, "the program has left, and its timers were not stopped");
        }
        left
    }

    /// The task behind a pointer of the policy's.
    pub(crate) fn task_at(&mut self, call: &str, p: *const TaskStruct) -> Option<TaskId> {
        if !p.is_null() {
            // SAFETY: the verifier lets a policy pass no pointer but one that the kernel gave it as
            // a task's, and what runs here is written for the verifier. Structs of tasks, those of
            // idle CPUs too, stay until the run is over. Nothing else may come here: it is
            // followed before it is known.
            let id = TaskId((unsafe { (*p).pid } as usize).wrapping_sub(1));
            if self.tasks.get(id).is_some_and(|t| ptr::eq(t.raw.pointer(), p)) {
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
}

extern "C" fn fail(k: K, check: *const c_char, message: *const c_char) {
    // SAFETY: seam.c alone calls this, with texts that end with a zero: its own, or what its
    // snprintf() made.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    let kernel = kernel(k);
    let callback = kernel.calls.context.callback;
    kernel.fail(text(check), format!("{} (in {callback})", text(message)));
}
