//! The policy is taken away while tasks run, as when user space lets go of it or dies:
//! what kernel/sched/ext/ext.c does in scx_disable(). Every task is taken out of wherever
//! it stands, the policy hears the end of each, and the kernel goes on by itself: one
//! queue for all, first in, first out, as it is while a scheduler is bypassed.

use crate::abi::{Ops, scx};
use crate::kernel::{Kernel, May};
use crate::task::TaskId;
use crate::trace::What;

impl Kernel {
    /// Takes the policy away. What it had queued anywhere is queued again by the kernel.
    pub fn detach(&mut self) {
        if self.detached {
            return;
        }
        let living: Vec<TaskId> =
            (0..self.tasks.len()).filter(|i| !self.tasks[*i].dead).map(TaskId).collect();
        let runnable: Vec<TaskId> =
            living.iter().copied().filter(|id| self.tasks[id.0].queued()).collect();
        for id in &living {
            let (cpu, p) = (self.tasks[id.0].cpu, self.pointer(*id));
            self.dequeue_task(*id, scx::DEQ_SCHED_CHANGE, false);
            self.call(self.ops.disable, "disable", cpu, May::Look, [p, 0, 0]);
            self.tell_exit_task(*id);
        }
        self.tell_exit();
        self.observe(0, None, What::Detached);
        self.detached = true;
        self.ops = Ops::none();
        self.user.clear();
        for id in runnable {
            let cpu = self.tasks[id.0].cpu;
            self.tasks[id.0].c_mut().scx.slice = scx::SLICE_DFL;
            if self.cpus[cpu].curr == Some(id) {
                self.tasks[id.0].c_mut().scx.flags |= scx::TASK_QUEUED;
            } else {
                self.enqueue_task(id, 0, None);
            }
        }
        for cpu in 0..self.cpus.len() {
            self.resched(cpu);
        }
    }

    /// Whether the policy was taken away.
    pub fn is_detached(&self) -> bool {
        self.detached
    }
}
