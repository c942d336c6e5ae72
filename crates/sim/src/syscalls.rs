//! System calls, and what a program has the kernel call as a task returns from one.

use crate::callbacks::Callback;
use crate::kernel::{Kernel, May};
use crate::kfuncs::{EBUSY, EINVAL};
use crate::operate::Call;
use crate::task::TaskId;
use crate::trace::What;
use std::ffi::c_void;

/// What a register of x86 says in a system call until it is over: -ENOSYS.
const NOT_OVER: i64 = -38;

/// A callback that is to come. The value of the map that it is for is busy until then.
pub(crate) struct AtReturn {
    task: TaskId,
    map: *mut c_void,
    value: *mut c_void,
    key: Box<u32>,
    callback: *const c_void,
}

impl Kernel {
    /// Has a callback called when the task returns to user space, as `bpf_task_work_schedule_resume`
    /// does: an error number where that is to happen for the value already, or it is no map's.
    pub(crate) fn call_at_return(
        &mut self,
        task: TaskId,
        map: *mut c_void,
        value: *mut c_void,
        callback: *const c_void,
    ) -> Result<(), i32> {
        if self.program.at_return.iter().any(|due| due.value == value) {
            return Err(EBUSY);
        }
        let key = Box::new(self.program.maps.index_of(map, value).ok_or(EINVAL)?);
        if self.tasks[task].c().regs.orig_ax < 0 {
            let why = "of a task in user space it is not modelled";
            self.fail("refused", format!("bpf_task_work_schedule_resume: {why}"));
        }
        self.program.at_return.push(AtReturn { task, map, value, key, callback });
        Ok(())
    }

    /// The task that runs there enters the kernel.
    pub(crate) fn syscall_begins(&mut self, cpu: usize, id: TaskId) {
        let regs = &mut self.tasks[id].c_mut().regs;
        (regs.orig_ax, regs.ax) = (0, NOT_OVER);
        self.observe(cpu, Some(id), What::Syscall(true));
    }

    /// The task that runs there leaves the kernel, and what was to be called is.
    pub(crate) fn syscall_ends(&mut self, cpu: usize, id: TaskId) -> Call {
        self.tasks[id].c_mut().regs.ax = 0;
        let call = self.call_what_waits(cpu, id);
        self.tasks[id].c_mut().regs.orig_ax = -1;
        self.observe(cpu, Some(id), What::Syscall(false));
        call
    }

    /// The task that runs there is a virtual CPU's, and goes on in its guest: what was to be called at
    /// its return is, though its system call is not over.
    pub(crate) fn enters_guest(&mut self, cpu: usize, id: TaskId) -> Call {
        let call = self.call_what_waits(cpu, id);
        self.observe(cpu, Some(id), What::Guest);
        call
    }

    fn call_what_waits(&mut self, cpu: usize, id: TaskId) -> Call {
        let due: Vec<AtReturn> =
            self.program.at_return.extract_if(.., |due| due.task == id).collect();
        for due in &due {
            let args = [due.map as u64, std::ptr::from_ref(&*due.key) as u64, due.value as u64];
            self.call(due.callback, Callback::Return, cpu, May::Unlocked, args);
        }
        if due.is_empty() { Call::Free } else { Call::Interrupted }
    }

    /// The task has exited. The kernel calls back then too; nobody has a use for that here.
    pub(crate) fn never_returns(&mut self, id: TaskId) {
        self.program.at_return.retain(|due| due.task != id);
    }
}
