//! The kernel's books of how long a task waited, `struct sched_info`. The functions are
//! those of kernel/sched/stats.h, called where the kernel calls them: in particular is a
//! wait written down in parts when the task changes its run queue, and the last part not
//! before the task is switched in, after ops.running.

use crate::kernel::Kernel;
use crate::task::TaskId;

impl Kernel {
    /// A runnable task has come to a run queue.
    pub(crate) fn sched_info_enqueue(&mut self, id: TaskId) {
        let now = self.now();
        let task = &mut self.tasks[id];
        let since = *task.last_queued.get_or_insert(now);
        // The kernel's clock is past 0 when it starts.
        task.c_mut().sched_info.last_queued = since.max(1);
    }

    /// It leaves one.
    pub(crate) fn sched_info_dequeue(&mut self, id: TaskId) {
        let now = self.now();
        let task = &mut self.tasks[id];
        if let Some(since) = task.last_queued.take() {
            let books = &mut task.c_mut().sched_info;
            books.run_delay += now - since;
            books.last_queued = 0;
        }
    }

    /// It is switched in.
    pub(crate) fn sched_info_arrive(&mut self, id: TaskId) {
        self.sched_info_dequeue(id);
        self.tasks[id].c_mut().sched_info.pcount += 1;
    }

    /// It is switched out, and still runnable.
    pub(crate) fn sched_info_depart(&mut self, id: TaskId) {
        self.sched_info_enqueue(id);
    }
}
